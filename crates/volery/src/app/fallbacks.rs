//! An agent's fallbacks: each is resolved, trusted and weighed like the agent's own backend, before anything starts.

use domain::agent::Agent;
use domain::run::{Alternative, BackendSpec};
use domain::setup::Fallback;

use super::AppError;
use super::engine::Engine;
use super::grants::Granted;
use super::honour::{self, Wishes};
use super::start::check_installed;
use crate::registry::Catalogue;

impl Engine {
    /// Returns the fallbacks of an agent, resolved, and what is to be said about them.
    pub(super) fn alternatives(
        &self,
        catalogue: &Catalogue,
        agent: &Agent,
        directory: &str,
        granted: Option<&Granted>,
    ) -> Result<(Vec<Alternative>, Vec<String>), AppError> {
        let (mut alternatives, mut warnings) = (Vec::new(), Vec::new());
        for (number, fallback) in agent.setup.fallback.iter().enumerate() {
            let other = with(agent, fallback);
            // The agent's own backend may never need it.
            if let Err(error) = check_installed(&other) {
                warnings.push(format!("the fallback to {} is left out: {}", other.backend, error.message));
                continue;
            }
            let backend = self.backend_of(catalogue, &other)?;
            if let Some(error) = granted.and_then(|granted| unheld(granted, number, &other, &backend)) {
                warnings.push(format!("the fallback to {} is left out: {}", other.backend, error.message));
                continue;
            }
            if let Some(refusal) = honour::refusal(&other.setup, &backend) {
                let message = format!("agent {}: as a fallback, {refusal}", agent.name);
                return Err(AppError::denied(message).hint(refused(agent)));
            }
            self.drive(catalogue, &other, &backend, directory).map_err(|error| unusable(&other, error))?;
            warnings.extend(self.said_about(agent, &other, catalogue));
            alternatives.push(Alternative {
                backend,
                model: other.model,
                settings: fallback.settings.clone(),
            });
        }
        Ok((alternatives, warnings))
    }

    /// Returns why runs of the agent would be refused for its fallbacks, whatever this machine has and trusts.
    pub(super) fn wrong_fallbacks(
        &self,
        catalogue: &Catalogue,
        agent: &Agent,
        directory: &str,
    ) -> Vec<AppError> {
        let others = agent.setup.fallback.iter().map(|fallback| with(agent, fallback));
        let others = others.filter(|other| other.backend != agent.backend);
        others
            .filter_map(|other| {
                let backend = match self.configured_backend(catalogue, &other) {
                    Ok(backend) => backend,
                    Err(error) => return Some(unusable(&other, error)),
                };
                match honour::refusal(&other.setup, &backend) {
                    Some(refusal) => {
                        Some(AppError::denied(format!("as a fallback, {refusal}")).hint(refused(agent)))
                    }
                    None => self
                        .drive(catalogue, &other, &backend, directory)
                        .err()
                        .map(|error| unusable(&other, error)),
                }
            })
            .collect()
    }

    /// Returns a sentence for each wish that a fallback of the agent cannot honour.
    pub(super) fn fallback_warnings(&self, catalogue: &Catalogue, agent: &Agent) -> Vec<String> {
        let others = agent.setup.fallback.iter().map(|fallback| with(agent, fallback));
        others.flat_map(|other| self.said_about(agent, &other, catalogue)).collect()
    }

    fn said_about(&self, agent: &Agent, other: &Agent, catalogue: &Catalogue) -> Vec<String> {
        if other.backend == agent.backend {
            return Vec::new();
        }
        // What cannot be used at all is an error.
        let Ok(backend) = self.configured_backend(catalogue, other) else { return Vec::new() };
        let mut sentences = honour::unhonoured(&Wishes::of_agent(other), &backend);
        if !agent.setup.extra_args.is_empty() {
            sentences.push(format!("extra_args are not passed on to {}", other.backend));
        }
        sentences.into_iter().map(|sentence| format!("as a fallback: {sentence}")).collect()
    }
}

/// Returns why a fallback cannot be held to what the parent run has.
fn unheld(granted: &Granted, number: usize, other: &Agent, backend: &BackendSpec) -> Option<AppError> {
    let own = granted.own.fallback.get(number).and_then(|fallback| fallback.settings.as_ref());
    let own = own.map_or(&granted.own.permission, |settings| &settings.permission);
    granted.ceiling.as_ref()?.unheld(own, &other.setup.permission, backend)
}

/// Says why a fallback cannot be used.
fn unusable(other: &Agent, error: AppError) -> AppError {
    let message = format!("the fallback to {} cannot be used: {}", other.backend, error.message);
    AppError { message, ..error }
}

/// Says what to do about a fallback that cannot enforce what the agent demands.
fn refused(agent: &Agent) -> String {
    format!("choose another fallback, or {}", honour::way_to_warn(agent.source.format))
}

/// Returns the agent as a fallback would carry it out.
fn with(agent: &Agent, fallback: &Fallback) -> Agent {
    let backend = fallback.backend.clone().unwrap_or_else(|| agent.backend.clone());
    let mut other = Agent { backend, model: fallback.model.clone(), ..agent.clone() };
    if other.backend != agent.backend {
        // Words of the other program; the run leaves them out.
        other.setup.extra_args = Vec::new();
    }
    if let Some(settings) = &fallback.settings {
        other.setup.permission.clone_from(&settings.permission);
        other.setup.max_turns = settings.max_turns;
    }
    other
}
