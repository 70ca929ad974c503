//! The agents that can be asked for in a directory, and what stands in their way.

use domain::Timestamp;
use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::plan::Refusal;

use super::engine::Engine;
use super::honour::{self, Wishes};
use super::{AgentList, AgentView, AppError, FoundAgent, FoundAgents, ListAgents};
use crate::env;
use crate::registry::{self, Catalogue, Folder};

/// Reads the agents of one folder.
pub(super) fn read_folder(folder: &Folder) -> FoundAgents {
    let (agents, diagnostics) = registry::read_folder(folder, env::text);
    let modified = |agent: &Agent| {
        let modified = std::fs::metadata(&agent.source.file).and_then(|found| found.modified()).ok()?;
        Timestamp::try_from(modified).ok()
    };
    let found = |agent: Agent| FoundAgent { modified_at: modified(&agent), agent };
    FoundAgents { agents: agents.into_values().map(found).collect(), diagnostics }
}

impl Engine {
    pub(super) fn list_agents(&self, ask: ListAgents) -> Result<AgentList, AppError> {
        let (_, catalogue) = self.place(ask.directory.as_deref())?;
        let agents = catalogue.agents.values().map(|agent| self.agent_view(&catalogue, agent)).collect();
        let unhonoured = catalogue.agents.values().flat_map(|agent| self.unhonoured(&catalogue, agent));
        let unhonoured: Vec<Diagnostic> = unhonoured.collect();
        let of_schemas = catalogue.agents.values().filter_map(|agent| {
            let problem = honour::wrong_schema(&agent.setup)?;
            Some(Diagnostic::error(&agent.source.file, problem))
        });
        let of_schemas: Vec<Diagnostic> = of_schemas.collect();
        let runnable = catalogue.agents.values().filter(|agent| agent.source.format != Format::Directive);
        let without_backend = runnable.filter_map(|agent| {
            let error = self.configured_backend(&catalogue, agent).err()?;
            let problem = Diagnostic::error(&agent.source.file, error.message);
            Some(match error.hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            })
        });
        let without_backend: Vec<Diagnostic> = without_backend.collect();
        let mut diagnostics = catalogue.diagnostics;
        diagnostics.extend(of_schemas);
        diagnostics.extend(without_backend);
        diagnostics.extend(unhonoured);
        Ok(AgentList { project: catalogue.project, agents, diagnostics })
    }

    /// Returns a warning for each field that the agent's backend cannot honour.
    fn unhonoured(&self, catalogue: &Catalogue, agent: &Agent) -> Vec<Diagnostic> {
        let Ok(backend) = self.configured_backend(catalogue, agent) else { return Vec::new() };
        let sentences = honour::unhonoured(&Wishes::of_agent(agent), &backend);
        let of_fallbacks = self.fallback_warnings(catalogue, agent);
        sentences
            .into_iter()
            .chain(of_fallbacks)
            .map(|text| Diagnostic::warning(&agent.source.file, text))
            .collect()
    }

    pub(super) fn agent_view(&self, catalogue: &Catalogue, agent: &Agent) -> AgentView {
        let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        AgentView {
            name: agent.name.to_string(),
            description: agent.description.clone(),
            backend: agent.backend.to_string(),
            model: agent.model.clone(),
            use_when: agent.use_when.clone(),
            avoid_when: agent.avoid_when.clone(),
            capabilities: agent.capabilities.clone(),
            inputs: agent.inputs.clone(),
            file: agent.source.file.clone(),
            format: agent.source.format.as_str().to_owned(),
            layer: word(serde_json::json!(agent.source.layer)),
            answers_by: agent.setup.answers(),
            problem: self.problem_of(catalogue, agent),
        }
    }

    /// Returns why the agent cannot run as things are.
    fn problem_of(&self, catalogue: &Catalogue, agent: &Agent) -> Option<String> {
        if agent.source.format == Format::Directive {
            return Some(Refusal::Directive { agent: agent.name.clone() }.to_string());
        }
        match self.backend_of(catalogue, agent) {
            Ok(backend) => {
                let of_fallbacks =
                    || self.alternatives(catalogue, agent).err().map(|error| error.to_string());
                let refusal = honour::refusal(&agent.setup, &backend);
                refusal.or_else(|| honour::wrong_schema(&agent.setup)).or_else(of_fallbacks)
            }
            Err(error) => Some(error.to_string()),
        }
    }
}
