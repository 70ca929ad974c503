//! The backend of an attempt: the agent's own, or a fallback.

use backends::contract::Capabilities;
use domain::run::{BackendSpec, ResolvedFallback, RunSpec, RunState};
use domain::setup::FallbackSettings;

pub(crate) fn backend_choice(spec: &RunSpec, choice: usize) -> (&BackendSpec, Option<String>) {
    match alternative(spec, choice) {
        Some(alternative) => (&alternative.backend, alternative.model.clone()),
        None => (&spec.backend, spec.model.clone()),
    }
}

fn alternative(spec: &RunSpec, choice: usize) -> Option<&ResolvedFallback> {
    choice.checked_sub(1).and_then(|number| spec.fallbacks.get(number))
}

/// Returns the settings of an attempt's backend, where they differ from the run's setup.
pub(crate) fn fallback_settings(spec: &RunSpec, choice: usize) -> Option<&FallbackSettings> {
    alternative(spec, choice)?.settings.as_ref()
}

pub(crate) fn capabilities(spec: &BackendSpec) -> Capabilities {
    let backend = backends::registry::by_kind(&spec.kind);
    backend.map(|backend| backend.capabilities(&spec.options)).unwrap_or_default()
}

/// Returns whether the agent's output may be taken as its answer: a protocol between programs may not.
pub(crate) fn has_plain_output(spec: &RunSpec, state: &RunState) -> bool {
    let choice = state.attempts.last().map_or(0, |attempt| attempt.choice as usize);
    let (backend, _) = backend_choice(spec, choice);
    capabilities(backend).plain_text_output
}
