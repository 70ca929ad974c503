//! A run for the tests of all backends, how it is prepared, and how what its program writes is read.

use std::path::Path;

use domain::Timestamp;
use domain::agent::Delegates;
use domain::budget::Limits;
use domain::id::RunId;
use domain::run::{
    BackendSpec, Caller, ContainmentDemand, Door, OnDisconnect, OnInterrupt, RunSpec, SPEC_VERSION, Stream,
};
use domain::setup::Setup;
use serde_json::Value;

use crate::contract::{
    Backend, Conclusion, Drive, Exit, Place, PrepareError, ProcessDrive, ProjectPrograms, Reader, Report,
};
use crate::program::Found;

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
        unattended: None,
        timeout_covers_wait: false,
        grants: Vec::new(),
        trusted_programs: None,
        idempotency: None,
        iac: None,
        warnings: Vec::new(),
    }
}

/// Returns a program that was found as these words.
pub(crate) fn found(argv: &[&str]) -> Found {
    Found { argv: argv.iter().map(|word| (*word).to_owned()).collect(), version: None }
}

/// Prepares a run of this program, with what it shall be beyond a plain one.
pub(crate) fn drive(
    backend: &dyn Backend,
    found: &Found,
    change: impl FnOnce(&mut RunSpec),
) -> Result<ProcessDrive, PrepareError> {
    let mut spec = spec(backend.kind());
    change(&mut spec);
    drive_in(backend, &place(Some(found)), &spec)
}

/// Prepares a run in a place.
pub(crate) fn drive_in(
    backend: &dyn Backend,
    place: &Place<'_>,
    spec: &RunSpec,
) -> Result<ProcessDrive, PrepareError> {
    match backend.prepare(spec, place)? {
        Drive::Process(drive) => Ok(drive),
        Drive::Loop(_) => panic!("a vendor's program is a process"),
    }
}

/// Returns where runs are prepared: below `/w`, with this program at `/bin/volery`.
pub(crate) fn place(found: Option<&Found>) -> Place<'_> {
    Place {
        work: Path::new("/w"),
        own_program: Path::new("/bin/volery"),
        found,
        session_used: None,
        project_programs: ProjectPrograms::On,
    }
}

/// Returns events as a program writes them, one a line.
pub(crate) fn lines(events: &[Value]) -> Vec<u8> {
    events.iter().flat_map(|event| format!("{event}\n").into_bytes()).collect()
}

/// Returns what a reader reports of these events, and what it concludes.
pub(crate) fn read(mut reader: impl Reader, events: &[Value], exit: Exit) -> (Vec<Report>, Conclusion) {
    let reports = reader.feed(Stream::Stdout, &lines(events));
    (reports, reader.conclude(exit))
}

/// A use of a tool that a program denied by itself.
pub(crate) fn denied(call: &str, tool: &str, reason: &str) -> crate::contract::Report {
    let (call, tool, reason) = (call.to_owned(), tool.to_owned(), reason.to_owned());
    crate::contract::Report::Denied { call, tool, reason }
}
