//! The agents that can be asked for in a directory, and what stands in their way.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use backend::work_tree::{IsolationError, root_of};
use domain::Timestamp;
use domain::agent::{Agent, Delegates, Format, ScriptSource};
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;
use domain::nearest::nearest;
use domain::overlay::Settled;
use domain::plan::Refusal;
use domain::run::BackendSpec;
use domain::setup::{AnswersBy, Isolation};

use super::agent_page::{fitted, needs_nothing_unset};
use super::contract;
use super::engine::Engine;
use super::honour::{self, Obstacle, Wishes};
use super::project_programs::ProjectPrograms;
use super::{AgentList, AgentView, AppError, FoundAgent, FoundAgents, ListAgents, own_folders};
use crate::registry::{self, Catalogue, Folder};

/// How many entries of an agent's lists are listed, and how long each is.
const LIST_MAX: usize = 20;
const LIST_TEXT_BYTES_MAX: usize = 500;
const INPUTS_MAX: usize = 64;

/// Reads the agents of one folder.
pub(super) fn read_folder(folder: &Folder) -> FoundAgents {
    let read = registry::folder_agents(folder);
    let (agents, diagnostics) = &*read;
    let modified = |agent: &Agent| {
        let modified = std::fs::metadata(&agent.source.file).and_then(|found| found.modified()).ok()?;
        Timestamp::try_from(modified).ok()
    };
    let found = |agent: &Agent| FoundAgent { modified_at: modified(agent), agent: agent.clone() };
    FoundAgents { agents: agents.values().map(found).collect(), diagnostics: diagnostics.clone() }
}

/// What can be said of an agent before anybody asks for it.
pub(super) struct Standing {
    /// Why it cannot run as things are.
    pub(super) problem: Option<String>,
    /// What its reader could not know to be wrong with its file.
    pub(super) findings: Vec<Diagnostic>,
    /// A sentence for each wish that will not be honoured.
    pub(super) unhonoured: Vec<String>,
    /// That one of these sentences that is about the program, and the same for every agent that it drives.
    doubt: Option<String>,
    pub(super) answers_by: AnswersBy,
}

impl Standing {
    /// Returns that of an agent of which nothing can be said but what its file says.
    fn of(agent: &Agent) -> Self {
        let answers_by = agent.setup.answers();
        Self { problem: None, findings: Vec::new(), unhonoured: Vec::new(), doubt: None, answers_by }
    }
}

/// What stands in the way of an agent.
struct Weighed {
    problem: Option<String>,
    findings: Vec<Diagnostic>,
    /// How it would be driven; nothing where it has no backend.
    backend: Option<BackendSpec>,
}

impl Engine {
    pub(super) fn list_agents(&self, ask: ListAgents) -> Result<AgentList, AppError> {
        let (directory, catalogue) = self.place(ask.directory.as_deref())?;
        let programs = self.project_programs(&catalogue, &directory);
        let mut agents = Vec::new();
        let (mut findings, mut unhonoured) = (Vec::new(), Vec::new());
        let mut doubts = BTreeSet::new();
        for agent in catalogue.agents.values() {
            let Settled { agent, warnings, .. } = self.settled(&catalogue, Cow::Borrowed(agent));
            let agent = &agent;
            let standing = self.standing(&catalogue, agent, &directory, &programs);
            agents.push(agent_view(&catalogue, agent, &standing));
            findings.extend(warnings.into_iter().map(|said| Diagnostic::warning(&agent.source.file, said)));
            findings.extend(standing.findings);
            let Standing { unhonoured: sentences, doubt, .. } = standing;
            let told = doubt.clone().is_some_and(|doubt| !doubts.insert(doubt));
            let sentences = sentences.into_iter().filter(|said| !(told && doubt.as_ref() == Some(said)));
            unhonoured.extend(sentences.map(|sentence| placed(&agent.source.file, sentence)));
        }
        findings.extend(
            catalogue.drafts.iter().flat_map(|draft| self.wrong_beside(&catalogue, draft, &directory)),
        );
        // Last, and without findings: those are about files, and a run of a built-in agent warns by itself.
        agents.extend(catalogue.built_in_agents().into_iter().map(|agent| {
            let Settled { agent, .. } = self.settled(&catalogue, Cow::Owned(agent));
            let Weighed { problem, .. } = self.weigh(&catalogue, &agent, &directory, &programs);
            agent_view(&catalogue, &agent, &Standing { problem, ..Standing::of(&agent) })
        }));
        let mut diagnostics = catalogue.diagnostics.clone();
        diagnostics.extend(catalogue.unread_settings());
        diagnostics.extend(findings);
        diagnostics.extend(unhonoured);
        diagnostics.extend(registry::unread_agents(&directory, &catalogue.project));
        Ok(AgentList { project: catalogue.project.clone(), agents, diagnostics })
    }

    /// Returns what is wrong with a file beside what its reader found.
    fn wrong_beside(&self, catalogue: &Catalogue, draft: &Agent, directory: &str) -> Vec<Diagnostic> {
        let file = &draft.source.file;
        let mut wrong = match self.configured_backend(catalogue, draft) {
            Ok(backend) => {
                honour::obstacles(&draft.system_prompt, &draft.setup, draft.source.format, &backend)
            }
            Err(error) => vec![Obstacle::of("backend", error)],
        };
        wrong.extend(self.obstacles_of_fallbacks(catalogue, draft, directory));
        let findings = wrong.iter().map(|wrong| as_finding(file, wrong));
        findings.chain(unknown_delegates(catalogue, draft)).collect()
    }

    fn obstacles_of_fallbacks(&self, catalogue: &Catalogue, agent: &Agent, directory: &str) -> Vec<Obstacle> {
        let wrong = self.wrong_fallbacks(catalogue, agent, directory).into_iter();
        wrong.map(|error| Obstacle::of("fallback", error)).collect()
    }

    /// Weighs an agent as a start would, and starts nothing.
    pub(super) fn standing(
        &self,
        catalogue: &Catalogue,
        agent: &Agent,
        directory: &str,
        programs: &ProjectPrograms<'_>,
    ) -> Standing {
        let Weighed { problem, findings, backend } = self.weigh(catalogue, agent, directory, programs);
        let Some(backend) = backend else { return Standing { problem, findings, ..Standing::of(agent) } };
        let mut unhonoured = honour::unhonoured(&Wishes::of_agent(agent), &backend);
        unhonoured.extend(self.fallback_warnings(catalogue, agent));
        let answers_by = honour::answers_by(&agent.setup, &backend);
        Standing { problem, findings, unhonoured, doubt: honour::doubt(&backend), answers_by }
    }

    /// Returns why an agent cannot run, and what is wrong with its file. Asks no program for its version.
    fn weigh(
        &self,
        catalogue: &Catalogue,
        agent: &Agent,
        directory: &str,
        programs: &ProjectPrograms<'_>,
    ) -> Weighed {
        if agent.source.format == Format::Directive {
            let problem = Refusal::Directive { agent: agent.name.clone() }.to_string();
            return Weighed { problem: Some(problem), findings: Vec::new(), backend: None };
        }
        let file = &agent.source.file;
        let backend = match self.configured_backend(catalogue, agent) {
            Ok(backend) => backend,
            Err(error) => {
                let mut findings = vec![as_finding(file, &Obstacle::of("backend", error.clone()))];
                findings.extend(unknown_delegates(catalogue, agent));
                let problem = without_name(error.to_string(), &agent.name);
                return Weighed { problem: Some(problem), findings, backend: None };
            }
        };
        let mut wrong = honour::obstacles(&agent.system_prompt, &agent.setup, agent.source.format, &backend);
        wrong.extend(self.obstacles_of_fallbacks(catalogue, agent, directory));
        let driven = match wrong.is_empty() {
            true => self.drive(catalogue, agent, &backend, directory),
            false => Ok(None),
        };
        // It is the backend that cannot start it.
        wrong.extend(driven.as_ref().err().cloned().map(|error| Obstacle::of("backend", error)));
        let mut findings: Vec<Diagnostic> = wrong.iter().map(|wrong| as_finding(file, wrong)).collect();
        findings.extend(unknown_delegates(catalogue, agent));
        findings.extend(empty_rehearsal(agent));
        let of_reader = catalogue.diagnostics.iter().find(|found| found.is_error() && found.file == *file);
        let of_reader = of_reader.map(|found| found.message.clone());
        let problem = of_reader
            .or_else(|| self.backend_of(catalogue, agent).err().map(|error| in_a_list(&error)))
            .or_else(|| wrong.first().map(|wrong| wrong.error.to_string()))
            .or_else(|| {
                let own = own_folders::check(self.home.path(), &agent.setup, &backend, directory);
                own.err().map(|error| error.to_string())
            })
            .or_else(|| {
                let others = self.alternatives(catalogue, agent, directory, None);
                let weighed = others.and_then(|(others, _)| programs.weigh(&backend, &others));
                weighed.err().map(|error| in_a_list(&error))
            })
            .or_else(|| {
                let fitted = fitted(driven.ok().flatten()?);
                fitted.and_then(|driven| needs_nothing_unset(&driven)).err().map(|error| error.to_string())
            })
            .or_else(|| no_worktree(agent, directory));
        let problem = problem.map(|problem| without_name(problem, &agent.name));
        Weighed { problem, findings, backend: Some(backend) }
    }
}

/// Returns as much of a list as a model gets to see. A file may hold megabytes, and every client asks for all agents.
fn bounded(texts: &[String]) -> Vec<String> {
    texts.iter().take(LIST_MAX).map(|text| domain::size::head(text, LIST_TEXT_BYTES_MAX).to_owned()).collect()
}

pub(super) fn agent_view(catalogue: &Catalogue, agent: &Agent, standing: &Standing) -> AgentView {
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    AgentView {
        name: agent.name.to_string(),
        description: agent.description.clone(),
        backend: agent.backend.to_string(),
        model: agent.model.clone(),
        use_when: bounded(&agent.use_when),
        avoid_when: bounded(&agent.avoid_when),
        capabilities: bounded(&agent.capabilities),
        inputs: agent.inputs.iter().take(INPUTS_MAX).cloned().collect(),
        file: agent.source.file.clone(),
        format: agent.source.format.as_str().to_owned(),
        layer: word(serde_json::json!(agent.source.layer)),
        built_in: agent.source.is_built_in(),
        takes_built_in_name: catalogue.takes_built_in_name(agent),
        answers_by: standing.answers_by,
        login_unknown: !matches!(
            contract::login(agent.backend.as_str()),
            None | Some(contract::LoginFound::At(_))
        ),
        problem: standing.problem.clone(),
    }
}

fn as_finding(file: &str, obstacle: &Obstacle) -> Diagnostic {
    let Obstacle { key, error } = obstacle;
    let finding = at_key(Diagnostic::error(file, &error.message), key);
    match &error.hint {
        Some(hint) => finding.hint(hint),
        None => finding,
    }
}

/// Returns a warning, at the key that it begins with if the file has one, and in the file's own word for it.
fn placed(file: &str, sentence: String) -> Diagnostic {
    let key = sentence.split([':', ' ']).next().unwrap_or_default();
    match own_key(file, key) {
        Some((own, (line, column))) => {
            let message = format!("{own}{}", &sentence[key.len()..]);
            Diagnostic::warning(file, message).at(line, column)
        }
        None => Diagnostic::warning(file, sentence),
    }
}

fn at_key(finding: Diagnostic, key: &str) -> Diagnostic {
    match own_key(&finding.file, key) {
        Some((_, (line, column))) => finding.at(line, column),
        None => finding,
    }
}

/// What other formats call our keys.
const OTHER_WORDS: [(&str, &[&str]); 6] = [
    ("max_turns", &["maxTurns", "steps", "maxSteps"]),
    ("mcp_servers", &["mcpServers", "mcp-servers"]),
    ("effort", &["model_reasoning_effort", "reasoningEffort"]),
    ("permission", &["permissions", "permissionMode", "sandbox_mode"]),
    ("output_schema", &["outputSchema"]),
    ("backend", &["run-agent"]),
];

/// Returns a key as a file spells it, with line and column.
fn own_key<'a>(file: &str, key: &'a str) -> Option<(&'a str, (u32, u32))> {
    let others = OTHER_WORDS.iter().find(|(known, _)| *known == key);
    let mut words =
        std::iter::once(key).chain(others.into_iter().flat_map(|(_, words)| words.iter().copied()));
    words.find_map(|word| Some((word, registry::place_of_key(file, word)?)))
}

/// Says why an agent that shall have a work tree of its own can have none here. What git would say is left to the run.
fn no_worktree(agent: &Agent, directory: &str) -> Option<String> {
    let refused = agent.setup.isolation == Isolation::Worktree && root_of(Path::new(directory)).is_none();
    let reason = IsolationError::NoWorkTree(directory.to_owned());
    refused.then(|| format!("isolation: worktree cannot be had: {reason}"))
}

/// Returns a warning for a rehearsal in which nothing happens.
fn empty_rehearsal(agent: &Agent) -> Option<Diagnostic> {
    let empty = match &agent.script {
        Some(ScriptSource::Inline(script)) => script.steps.is_empty(),
        Some(ScriptSource::File(_)) => false,
        None => true,
    };
    (agent.backend.as_str() == "rehearsal" && empty).then(|| {
        let message = "a rehearsal without steps says nothing, and succeeds";
        let finding = Diagnostic::warning(&agent.source.file, message);
        at_key(finding, "backend").hint("write for example steps: [{say: hello}], or give it another backend")
    })
}

/// Returns a problem without what would be the same for every agent of a list.
fn in_a_list(error: &AppError) -> String {
    let first = error.message.lines().next().unwrap_or_default().trim_end_matches(':');
    AppError { message: first.to_owned(), ..error.clone() }.to_string()
}

/// Returns a problem without the name of the agent that has it, which a list says already: so equal problems are equal.
fn without_name(problem: String, name: &AgentName) -> String {
    let rest = problem.strip_prefix(&format!("agent {name}"));
    let rest = rest.and_then(|rest| rest.strip_prefix(": ").or_else(|| rest.strip_prefix(' ')));
    rest.map(ToOwned::to_owned).unwrap_or(problem)
}

/// Returns a warning for each agent that this one may delegate to and that is not there.
fn unknown_delegates(catalogue: &Catalogue, agent: &Agent) -> Vec<Diagnostic> {
    let Delegates::Only(names) = &agent.delegates else { return Vec::new() };
    let unknown = names.iter().filter(|name| catalogue.agent(name).is_none());
    let finding = |name: &AgentName| {
        let message = format!("delegates: there is no agent {name} here");
        let finding = at_key(Diagnostic::warning(&agent.source.file, message), "delegates");
        match nearest(name.as_str(), catalogue.agents.keys().map(AgentName::as_str)) {
            Some(near) => finding.hint(format!("did you mean {near}?")),
            None => finding,
        }
    };
    unknown.map(finding).collect()
}
