//! A run for the tests of all backends.

use domain::Timestamp;
use domain::agent::Delegates;
use domain::budget::Limits;
use domain::id::RunId;
use domain::run::{
    BackendSpec, Caller, ContainmentDemand, Door, OnDisconnect, OnInterrupt, RunSpec, SPEC_VERSION,
};
use domain::setup::Setup;

/// Returns a run of this backend that asks for nothing special.
pub(crate) fn spec(backend: &str) -> RunSpec {
    let id = RunId::from_parts(Timestamp::UNIX_EPOCH, [7; 10]);
    RunSpec {
        version: SPEC_VERSION,
        id,
        created_at: Timestamp::UNIX_EPOCH,
        agent: "coder".parse().expect("a name"),
        source: "/p/.volery/agents/coder.md".to_owned(),
        backend: BackendSpec {
            name: backend.parse().expect("a name"),
            kind: backend.to_owned(),
            options: serde_json::Value::Null,
        },
        prompt: "do it".to_owned(),
        system_prompt: "You are careful.".to_owned(),
        model: None,
        session: None,
        directory: "/p".to_owned(),
        project: "/p".to_owned(),
        caller: Caller { door: Door::Shell, name: "main".to_owned() },
        parent: None,
        root: id,
        depth: 0,
        limits: Limits::default(),
        env: Vec::new(),
        delegates: Delegates::Nobody,
        on_disconnect: OnDisconnect::Continue,
        on_interrupt: OnInterrupt::End,
        containment: ContainmentDemand::Auto,
        setup: Setup::default(),
        tag: 1,
        idempotency: None,
        warnings: Vec::new(),
    }
}
