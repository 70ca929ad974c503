//! Whether a later run can continue an interrupted one or its session, and the request that does.

use domain::agent::Agent;
use domain::inherit::Inherited;
use domain::permission::Permission;
use domain::policy::GrantSource;
use domain::run::{
    LostProcess, OnInterrupt, Outcome, PartialCause, ResumedRun, RunSpec, RunState, Unattended,
};
use domain::shell_script::quote;

use super::{compatibility, session_resolution};
use crate::api::{AfterInterruption, EngineError, StartRequest};

/// How many times in a row a run is resumed automatically.
const CHAIN_MAX: u32 = 5;
/// The prefix of the idempotency keys of resumptions: the key counts the resumptions in a row, and there is one run
/// for each interruption.
const KEY_PREFIX: &str = "resume";
/// The longest task that a suggested command repeats.
const QUOTED_TASK_BYTES: usize = 300;

/// Returns the session that a later run can continue: a backend without sessions gets one with the run's own id.
pub(crate) fn continuable_session(spec: &RunSpec, state: &RunState) -> Option<String> {
    let reported = state.session.as_ref().or(spec.continued_session()).map(ToString::to_string);
    reported.or_else(|| (!compatibility::keeps_sessions(&spec.backend)).then(|| spec.id.to_string()))
}

/// Returns what the user can do about an interrupted run; `None` for any other run.
pub(crate) fn after_interruption(spec: &RunSpec, state: &RunState) -> Option<AfterInterruption> {
    let resumption = resumption(spec, state, lost_cause(state)?);
    Some(match resumption {
        Ok(_) => AfterInterruption::Resume { command: format!("volery resume {}", spec.id.short()) },
        Err(error) => AfterInterruption::RunAgain { command: run_again_command(spec), reason: error.message },
    })
}

/// Returns the command that starts a run with the same agent, task, directory and session.
fn run_again_command(spec: &RunSpec) -> String {
    let mut command = format!("volery run {}", spec.agent);
    if let Some(session) = &spec.session {
        let option = if spec.fork { "--fork" } else { "--session" };
        command.push_str(&format!(" {option} {session}"));
    }
    if spec.directory != spec.project {
        command.push_str(&format!(" --dir {}", quote(&spec.directory)));
    }
    let is_redacted = spec.iac.as_ref().is_some_and(|iac| iac.redacted_task.is_some());
    let task = spec.task();
    match !is_redacted && task.len() <= QUOTED_TASK_BYTES && !task.contains(char::is_control) {
        true => {
            let end_of_options = if task.starts_with('-') { " --" } else { "" };
            command.push_str(&format!("{end_of_options} {}", quote(task)));
        }
        // A long task would hide the rest of the command, and a redacted task must not be visible.
        false => command.push_str(" - < FILE-WITH-THE-TASK"),
    }
    command
}

/// Returns why a run is not resumed when a server starts, although its agent wants that.
pub(crate) fn resume_blocker(spec: &RunSpec, state: &RunState) -> Option<String> {
    let reason = resumption_unless_blocked(spec, state)?.err()?;
    Some(format!("the run was not resumed automatically: {reason}"))
}

/// Returns the request that resumes a run, or why it cannot be resumed, if its agent wants it resumed automatically.
pub(crate) fn resumption_unless_blocked(
    spec: &RunSpec,
    state: &RunState,
) -> Option<Result<StartRequest, EngineError>> {
    let lost_cause = lost_cause(state)
        .filter(|lost_cause| matches!(lost_cause, LostProcess::KeeperAndWorker | LostProcess::BeforeStart))?;
    // A child belongs to its parent, which ended with it and delegates again.
    if spec.on_interrupt != OnInterrupt::Resume || spec.parent.is_some() {
        return None;
    }
    if times_resumed(spec) >= CHAIN_MAX {
        let message = format!("it and those before it were interrupted {} times in a row", CHAIN_MAX + 1);
        return Some(Err(EngineError::usage(message)));
    }
    Some(resumption(spec, state, lost_cause))
}

/// Returns the request that resumes an interrupted run.
pub(crate) fn resumption(
    spec: &RunSpec,
    state: &RunState,
    lost_cause: LostProcess,
) -> Result<StartRequest, EngineError> {
    let short = spec.id.short();
    // A run that was resumed before may inherit nothing any more: it lost the environment of its server.
    let is_of_dialect =
        !spec.setup.inherit.is_empty() || spec.resumed_run.is_some_and(|before| before.with_recorded_agent);
    let surely_nothing = spec.on_interrupt == OnInterrupt::Resume || lost_cause == LostProcess::BeforeStart;
    let had_begun = !(state.attempts.is_empty() && surely_nothing);
    let start = StartRequest {
        agent: spec.agent.to_string(),
        prompt: spec.prompt.clone(),
        directory: Some(spec.directory.clone()),
        model: spec.model.clone(),
        output_schema: spec.setup.output_schema.clone(),
        limits: (&spec.limits).into(),
        on_disconnect: Some(spec.on_disconnect),
        permission: if is_of_dialect { Permission::default() } else { caller_permission(spec) },
        definition: is_of_dialect.then(|| Box::new(agent_of_dialect(spec))),
        unattended: spec.unattended.clone().map(Unattended::AsBefore),
        // The first process resumes the run; later ones get the run that it started.
        idempotency_key: Some(format!("{KEY_PREFIX}-{}-{}", times_resumed(spec) + 1, spec.id)),
        // A run that had not begun gets its prompt unchanged.
        resumes: Some(ResumedRun {
            run: spec.id,
            agent_had_started: had_begun || spec.resumed_run.is_some_and(|before| before.agent_had_started),
            with_recorded_agent: is_of_dialect,
        }),
        ..StartRequest::default()
    };
    if !had_begun {
        let session = spec.session.as_ref().map(ToString::to_string);
        return Ok(StartRequest { session, fork: spec.fork, ..start });
    }
    if !compatibility::starts_a_process(&spec.backend) {
        let message = format!("the run {short} had started; resuming it would repeat its steps");
        return Err(EngineError::usage(message).hint(run_again_hint(spec)));
    }
    match continuable_session(spec, state) {
        Some(session) => Ok(StartRequest { session: Some(session), ..start }),
        None => {
            let message = format!("the run {short} had started, but reported no session to continue");
            Err(EngineError::usage(message).hint(run_again_hint(spec)))
        }
    }
}

fn run_again_hint(spec: &RunSpec) -> String {
    let (short, command) = (spec.id.short(), run_again_command(spec));
    format!("to see how far it came: volery show {short}; to run it again: {command}")
}

/// Returns the agent of a run of a dialect: only the dialect defines it, so it is restored from the run's record with
/// its permission of then. The environment of the server is not recorded, and the resuming process may have other
/// variables.
fn agent_of_dialect(spec: &RunSpec) -> Agent {
    let mut agent = session_resolution::recorded_agent(spec.clone());
    agent.setup.inherit.remove(&Inherited::Environment);
    agent
}

/// Returns the permission that the caller requested for the run.
fn caller_permission(spec: &RunSpec) -> Permission {
    let grant = spec.grants.iter().find(|grant| grant.source == GrantSource::Caller);
    grant.map(|grant| grant.requested.clone()).unwrap_or_default()
}

/// Returns which process was lost, if that ended the run.
pub(crate) fn lost_cause(state: &RunState) -> Option<LostProcess> {
    match &state.ending()?.outcome {
        Outcome::Interrupted { lost } | Outcome::Partial { cause: PartialCause::Interrupted { lost } } => {
            Some(*lost)
        }
        Outcome::Succeeded
        | Outcome::Partial { .. }
        | Outcome::Failed { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Cancelled { .. }
        | Outcome::OverBudget { .. }
        | Outcome::Refused { .. } => None,
    }
}

/// Returns how many resumptions led to this run.
fn times_resumed(spec: &RunSpec) -> u32 {
    let key = spec.idempotency.as_ref().map(|known| known.key.as_str()).unwrap_or_default();
    let number = key.strip_prefix(KEY_PREFIX).and_then(|rest| rest.strip_prefix('-'));
    number.and_then(|rest| rest.split('-').next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}
