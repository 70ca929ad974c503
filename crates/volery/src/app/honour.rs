//! What an agent or a caller wants and a backend cannot do, by name: told before and with every run, never dropped
//! in silence.

use domain::agent::Agent;
use domain::run::{BackendSpec, OnInterrupt, RunSpec};

/// What is wanted of a backend.
pub(super) struct Wishes {
    system_prompt: bool,
    model: bool,
    session: bool,
    resume: bool,
}

impl Wishes {
    pub(super) fn of_run(spec: &RunSpec) -> Self {
        Self {
            system_prompt: !spec.system_prompt.is_empty(),
            model: spec.model.is_some(),
            session: spec.session.is_some(),
            resume: spec.on_interrupt == OnInterrupt::Resume,
        }
    }

    pub(super) fn of_agent(agent: &Agent) -> Self {
        Self {
            system_prompt: !agent.system_prompt.is_empty(),
            model: agent.model.is_some(),
            session: false,
            resume: agent.on_interrupt == OnInterrupt::Resume,
        }
    }
}

/// Tells whether a run of this backend can be continued by another worker.
pub(super) fn can_resume(spec: &BackendSpec) -> bool {
    backend::registry::by_kind(&spec.kind).is_some_and(|backend| backend.capabilities(&spec.options).resume)
}

/// Returns a sentence for each wish that the backend cannot honour.
pub(super) fn unhonoured(wishes: &Wishes, spec: &BackendSpec) -> Vec<String> {
    let Some(backend) = backend::registry::by_kind(&spec.kind) else { return Vec::new() };
    let can = backend.capabilities(&spec.options);
    let name = &spec.name;
    let sentences = [
        (wishes.system_prompt && !can.system_prompt).then(|| {
            format!(
                "the system prompt does not reach the agent: the command of {name} has no {{system_file}}"
            )
        }),
        (wishes.model && !can.model)
            .then(|| format!("the model is not passed on: the command of {name} has no {{model}}")),
        (wishes.session && !can.session)
            .then(|| format!("the session is not passed on: the command of {name} has no {{session_id}}")),
        (wishes.resume && !can.resume).then(|| {
            format!("on_interrupt: resume is not possible with {name}; an interrupted run would end")
        }),
    ];
    sentences.into_iter().flatten().collect()
}
