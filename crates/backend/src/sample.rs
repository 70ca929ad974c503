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
        resumes: None,
        session: None,
        fork: false,
        told: Vec::new(),
        directory: "/p".to_owned(),
        project: "/p".to_owned(),
        caller: Caller { door: Door::Shell, name: "main".to_owned(), token: None },
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
        alternatives: Vec::new(),
        prices: std::collections::BTreeMap::new(),
        tag: 1,
        trusted_programs: None,
        idempotency: None,
        iac: None,
        warnings: Vec::new(),
    }
}

/// Feeds a recorded run of a vendor's program to its reader: everything, or the beginning of its standard output.
pub(crate) fn replay(agent: &str, case: &str, bytes_max: usize, reader: &mut dyn Reader) -> Conclusion {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams").join(agent);
    let cases = std::fs::read_to_string(folder.join("cases.json")).expect("the list of cases");
    let cases: serde_json::Value = serde_json::from_str(&cases).expect("JSON");
    let stdout = std::fs::read(folder.join(format!("{case}.jsonl"))).expect("a recorded case");
    reader.feed(Stream::Stdout, &stdout[..bytes_max.min(stdout.len())]);
    reader.feed(Stream::Stderr, cases[case]["stderr"].as_str().expect("a text").as_bytes());
    let code = i32::try_from(cases[case]["exit"].as_i64().expect("an exit code")).expect("a small number");
    reader.conclude(if code < 0 { Exit::Signal(-code) } else { Exit::Code(code) })
}
