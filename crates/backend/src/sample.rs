//! A run for the tests of all backends, and what programs were recorded to write.

use std::path::Path;

use domain::Timestamp;
use domain::agent::Delegates;
use domain::budget::Limits;
use domain::id::RunId;
use domain::run::{
    BackendSpec, Caller, ContainmentDemand, Door, OnDisconnect, OnInterrupt, RunSpec, SPEC_VERSION, Stream,
};
use domain::setup::Setup;

use crate::contract::{Conclusion, Exit, Reader};

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

/// Returns how a reader concludes from what a vendor's program really wrote in a case.
pub(crate) fn conclude_recorded(agent: &str, case: &str, reader: &mut dyn Reader) -> Conclusion {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams").join(agent);
    let cases = std::fs::read(folder.join("cases.json")).expect("the cases were recorded");
    let cases: serde_json::Value = serde_json::from_slice(&cases).expect("the cases are JSON");
    let recorded = &cases[case];
    let stream = std::fs::read(folder.join(format!("{case}.jsonl"))).expect("the case was recorded");
    reader.feed(Stream::Stderr, recorded["stderr"].as_str().unwrap_or_default().as_bytes());
    reader.feed(Stream::Stdout, &stream);
    let code = recorded["exit"].as_i64().and_then(|code| i32::try_from(code).ok()).expect("a code");
    reader.conclude(if code < 0 { Exit::Signal(-code) } else { Exit::Code(code) })
}
