//! An agent's fallbacks: each is resolved and checked like the agent's own backend, before anything starts.

use domain::agent::Agent;
use domain::run::{BackendSpec, ResolvedFallback};
use domain::setup::Fallback;

use super::compatibility::{self, Requirements};
use super::grants::GrantedAgent;
use super::start::check_installed;
use crate::api::EngineError;
use crate::engine::Engine;
use crate::registry::Catalog;

impl Engine {
    /// Returns the resolved fallbacks of an agent, and warnings about them.
    pub(crate) fn alternatives(
        &self,
        catalog: &Catalog,
        agent: &Agent,
        directory: &str,
        granted: Option<&GrantedAgent>,
    ) -> Result<(Vec<ResolvedFallback>, Vec<String>), EngineError> {
        let (mut alternatives, mut warnings) = (Vec::new(), Vec::new());
        for (number, fallback) in agent.setup.fallback.iter().enumerate() {
            let other = as_fallback(agent, fallback);
            // The agent's own backend may never need the fallback.
            if let Err(error) = check_installed(&other) {
                warnings.push(format!("the fallback to {} is left out: {}", other.backend, error.message));
                continue;
            }
            let backend = self.checked_backend(catalog, &other)?;
            if let Some(error) =
                granted.and_then(|granted| exceeds_ceiling(granted, number, &other, &backend))
            {
                warnings.push(format!("the fallback to {} is left out: {}", other.backend, error.message));
                continue;
            }
            if let Some(refusal) = compatibility::refusal(&other.setup, &backend) {
                let message = format!("agent {}: as a fallback, {refusal}", agent.name);
                return Err(EngineError::denied(message).hint(unenforceable_fallback_hint(agent)));
            }
            self.prepare_launch(catalog, &other, &backend, directory)
                .map_err(|error| unusable_fallback(&other, error))?;
            warnings.extend(self.fallback_notes(agent, &other, catalog));
            alternatives.push(ResolvedFallback {
                backend,
                model: other.model,
                settings: fallback.settings.clone(),
            });
        }
        Ok((alternatives, warnings))
    }

    /// Returns why runs of the agent would be refused for its fallbacks, independent of what this machine has and
    /// trusts.
    pub(crate) fn fallback_errors(
        &self,
        catalog: &Catalog,
        agent: &Agent,
        directory: &str,
    ) -> Vec<EngineError> {
        let others = agent.setup.fallback.iter().map(|fallback| as_fallback(agent, fallback));
        let others = others.filter(|other| other.backend != agent.backend);
        others
            .filter_map(|other| {
                let backend = match self.configured_backend(catalog, &other) {
                    Ok(backend) => backend,
                    Err(error) => return Some(unusable_fallback(&other, error)),
                };
                match compatibility::refusal(&other.setup, &backend) {
                    Some(refusal) => Some(
                        EngineError::denied(format!("as a fallback, {refusal}"))
                            .hint(unenforceable_fallback_hint(agent)),
                    ),
                    None => self
                        .prepare_launch(catalog, &other, &backend, directory)
                        .err()
                        .map(|error| unusable_fallback(&other, error)),
                }
            })
            .collect()
    }

    /// Returns a warning for each requirement that a fallback of the agent does not support.
    pub(crate) fn fallback_warnings(&self, catalog: &Catalog, agent: &Agent) -> Vec<String> {
        let others = agent.setup.fallback.iter().map(|fallback| as_fallback(agent, fallback));
        others.flat_map(|other| self.fallback_notes(agent, &other, catalog)).collect()
    }

    fn fallback_notes(&self, agent: &Agent, other: &Agent, catalog: &Catalog) -> Vec<String> {
        if other.backend == agent.backend {
            return Vec::new();
        }
        // A fallback that cannot be used at all is an error elsewhere.
        let Ok(backend) = self.configured_backend(catalog, other) else { return Vec::new() };
        let mut sentences = compatibility::warnings(&Requirements::for_agent(other), &backend);
        if !agent.setup.extra_args.is_empty() {
            sentences.push(format!("extra_args are not passed on to {}", other.backend));
        }
        sentences.into_iter().map(|sentence| format!("as a fallback: {sentence}")).collect()
    }
}

/// Returns why a fallback cannot be limited to the permission of the parent run.
fn exceeds_ceiling(
    granted: &GrantedAgent,
    number: usize,
    other: &Agent,
    backend: &BackendSpec,
) -> Option<EngineError> {
    let own = granted.own.fallback.get(number).and_then(|fallback| fallback.settings.as_ref());
    let own = own.map_or(&granted.own.permission, |settings| &settings.permission);
    granted.ceiling.as_ref()?.exceeds_ceiling(
        own,
        granted.own.unenforceable,
        &other.setup.permission,
        backend,
    )
}

/// Turns an error into one that names the fallback.
fn unusable_fallback(other: &Agent, error: EngineError) -> EngineError {
    let message = format!("the fallback to {} cannot be used: {}", other.backend, error.message);
    EngineError { message, ..error }
}

/// Says what to do about a fallback that cannot enforce the agent's permission.
fn unenforceable_fallback_hint(agent: &Agent) -> String {
    format!("choose another fallback, or {}", compatibility::unenforceable_hint(agent.source.format))
}

/// Returns the agent as a fallback would run it.
fn as_fallback(agent: &Agent, fallback: &Fallback) -> Agent {
    let backend = fallback.backend.clone().unwrap_or_else(|| agent.backend.clone());
    let mut other = Agent { backend, model: fallback.model.clone(), ..agent.clone() };
    if other.backend != agent.backend {
        // These are options of the other program; the run leaves them out.
        other.setup.extra_args = Vec::new();
    }
    if let Some(settings) = &fallback.settings {
        other.setup.permission.clone_from(&settings.permission);
        other.setup.max_turns = settings.max_turns;
    }
    other
}
