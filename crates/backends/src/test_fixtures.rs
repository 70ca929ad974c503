//! Test fixtures for all backends: a run, its launch, and the reports about its output.

use std::path::Path;

use domain::Timestamp;
use domain::agent::Delegates;
use domain::budget::Limits;
use domain::id::RunId;
use domain::run::{
    BackendSpec, Caller, CallerOrigin, ContainmentDemand, OnDisconnect, OnInterrupt, RunSpec, SPEC_VERSION,
    StdStream,
};
use domain::setup::Setup;
use serde_json::Value;

use crate::contract::{
    AgentReport, Backend, Conclusion, Exit, LaunchContext, LaunchPlan, OutputReader, PrepareError,
    ProcessLaunch, ProjectExecutables,
};
use crate::program::LocatedProgram;

/// Returns a run of this backend without special requirements.
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
        resumed_run: None,
        session: None,
        fork: false,
        prior_exchanges: Vec::new(),
        directory: "/p".to_owned(),
        project: "/p".to_owned(),
        caller: Caller { origin: CallerOrigin::Shell, name: "main".to_owned(), token: None },
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
        fallbacks: Vec::new(),
        prices: std::collections::BTreeMap::new(),
        tag: 1,
        unattended: None,
        timeout_covers_wait: false,
        grants: Vec::new(),
        agent_loop: None,
        inputs: Default::default(),
        trusted_executables_digest: None,
        idempotency: None,
        iac: None,
        warnings: Vec::new(),
    }
}

/// Returns a program that was found with this command line.
pub(crate) fn located_program(argv: &[&str]) -> LocatedProgram {
    LocatedProgram { argv: argv.iter().map(|word| (*word).to_owned()).collect(), version: None }
}

/// Prepares a run of this program, after `change` has modified its spec.
pub(crate) fn process_launch(
    backend: &dyn Backend,
    found: &LocatedProgram,
    change: impl FnOnce(&mut RunSpec),
) -> Result<ProcessLaunch, PrepareError> {
    let mut spec = spec(backend.kind());
    change(&mut spec);
    process_launch_in(backend, &launch_context(Some(found)), &spec)
}

/// Prepares a run in a context.
pub(crate) fn process_launch_in(
    backend: &dyn Backend,
    context: &LaunchContext<'_>,
    spec: &RunSpec,
) -> Result<ProcessLaunch, PrepareError> {
    match backend.prepare(spec, context)? {
        LaunchPlan::Process(launch) => Ok(launch),
        LaunchPlan::Loop(_) | LaunchPlan::AgentLoop(_) => panic!("a vendor's program is a process"),
    }
}

/// Returns the context in which runs are prepared: below `/w`, with this program at `/bin/volery`.
pub(crate) fn launch_context(found: Option<&LocatedProgram>) -> LaunchContext<'_> {
    LaunchContext {
        work_dir: Path::new("/w"),
        current_exe: Path::new("/bin/volery"),
        program: found,
        prior_session_usage: None,
        project_executables: ProjectExecutables::On,
    }
}

/// Returns events as a program writes them, one per line.
pub(crate) fn json_lines(events: &[Value]) -> Vec<u8> {
    events.iter().flat_map(|event| format!("{event}\n").into_bytes()).collect()
}

/// Returns a reader's reports about these events, and its conclusion.
pub(crate) fn read_events(
    mut reader: impl OutputReader,
    events: &[Value],
    exit: Exit,
) -> (Vec<AgentReport>, Conclusion) {
    let reports = reader.feed(StdStream::Stdout, &json_lines(events));
    (reports, reader.conclude(exit))
}

/// A tool call that a program denied by itself.
pub(crate) fn denied_report(call: &str, tool: &str, reason: &str) -> crate::contract::AgentReport {
    let (call, tool, reason) = (call.to_owned(), tool.to_owned(), reason.to_owned());
    crate::contract::AgentReport::Denied { call, tool, reason }
}
