//! Lists the agents that are available in a directory, and why some of them cannot run.

use std::sync::Arc;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use domain::Timestamp;
use domain::admission::AdmissionRefusal;
use domain::agent::{Agent, Delegates, ScriptSource};
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;
use domain::nearest::nearest;
use domain::overlay::ResolvedAgent;
use domain::run::BackendSpec;
use domain::run::agent_loop::check_directive;
use domain::setup::{AnswerChannel, Isolation};
use process::work_tree::{IsolationError, work_tree_root};

use super::agent_page::{check_variables_set, with_user_environment};
use crate::admission::compatibility::{self, Blocker, Requirements};
use crate::admission::project_executables::ProjectExecutables;
use crate::admission::protected_paths;
use crate::api::{AgentList, AgentView, EngineError, FolderAgent, FolderAgentList, ListAgents};
use crate::ask::{Ask, OnProgress};
use crate::engine::Engine;
use crate::ipc::relay::Relay;
use crate::programs::login::{LoginStatus, login};
use crate::registry::{self, AgentFolder, Catalog};
use crate::relayed_requests;

/// How many entries of an agent's lists are shown, and how long each may be.
const LIST_MAX: usize = 20;
const LIST_TEXT_BYTES_MAX: usize = 500;
const INPUTS_MAX: usize = 64;

/// Reads the agents of one folder.
fn read_folder(folder: &AgentFolder) -> FolderAgentList {
    let read = registry::folder_agents(folder);
    let (agents, diagnostics) = &*read;
    let modified = |agent: &Agent| {
        let modified = std::fs::metadata(&agent.source.file).and_then(|found| found.modified()).ok()?;
        Timestamp::try_from(modified).ok()
    };
    let found = |agent: &Arc<Agent>| FolderAgent { modified_at: modified(agent), agent: Agent::clone(agent) };
    FolderAgentList { agents: agents.values().map(found).collect(), diagnostics: diagnostics.clone() }
}

/// What is known about an agent before a run is requested.
pub(crate) struct AgentStatus {
    /// Why it cannot run at present.
    pub(crate) problem: Option<String>,
    /// Errors in its file that its reader could not know.
    pub(crate) findings: Vec<Diagnostic>,
    /// A warning for each unsupported requirement.
    pub(crate) warnings: Vec<String>,
    /// The warning about the program's version, which is the same for every agent of the program.
    version_warning: Option<String>,
    pub(crate) answers_by: AnswerChannel,
}

impl AgentStatus {
    /// Returns the status of an agent of which only its file is known.
    fn from_agent(agent: &Agent) -> Self {
        let answers_by = agent.setup.answer_channel();
        Self { problem: None, findings: Vec::new(), warnings: Vec::new(), version_warning: None, answers_by }
    }
}

/// The result of checking an agent.
struct Assessment {
    problem: Option<String>,
    findings: Vec<Diagnostic>,
    /// Its backend; `None` if it has none.
    backend: Option<BackendSpec>,
}

impl Ask for ListAgents {
    type Answer = AgentList;

    async fn answer(self, engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<AgentList, EngineError> {
        engine.list_agents(self)
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<AgentList, EngineError> {
        relayed_requests::relay(self, relay, progress).await
    }
}

/// Returns the agents that one folder defines: a dialect offers them as its own.
#[derive(Debug, Clone)]
pub struct ReadFolderAgents {
    pub folder: AgentFolder,
}

impl Ask for ReadFolderAgents {
    type Answer = FolderAgentList;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<FolderAgentList, EngineError> {
        engine.run_blocking(move |_| Ok(read_folder(&self.folder))).await
    }

    /// Doors inside a run start only agents of their project.
    async fn relay(self, _relay: &Relay, _progress: OnProgress<'_>) -> Result<FolderAgentList, EngineError> {
        Err(EngineError::denied("inside a run, only the project's own agents can be asked for"))
    }
}

impl Engine {
    pub(crate) fn list_agents(&self, ask: ListAgents) -> Result<AgentList, EngineError> {
        let (directory, catalog) = self.locate(ask.directory.as_deref())?;
        let executables = self.project_executables(&catalog, &directory);
        let mut agents = Vec::new();
        let (mut findings, mut requirement_warnings) = (Vec::new(), Vec::new());
        let mut version_warnings = BTreeSet::new();
        for agent in catalog.agents.values() {
            let ResolvedAgent { agent, warnings: settle_warnings, .. } =
                self.settled(&catalog, Cow::Borrowed(agent));
            let agent = &agent;
            let status = self.agent_status(&catalog, agent, &directory, &executables);
            agents.push(agent_view(&catalog, agent, &status));
            findings.extend(
                settle_warnings.into_iter().map(|warning| Diagnostic::warning(&agent.source.file, warning)),
            );
            findings.extend(status.findings);
            let AgentStatus { warnings: own_warnings, version_warning, .. } = status;
            let is_repeated =
                version_warning.clone().is_some_and(|warning| !version_warnings.insert(warning));
            let own_warnings = own_warnings
                .into_iter()
                .filter(|warning| !(is_repeated && version_warning.as_ref() == Some(warning)));
            requirement_warnings
                .extend(own_warnings.map(|sentence| warning_at_key(&agent.source.file, sentence)));
        }
        findings
            .extend(catalog.drafts.iter().flat_map(|draft| self.draft_findings(&catalog, draft, &directory)));
        // Last, and without findings: those are about files, and a run of a built-in agent has its own warnings.
        agents.extend(catalog.built_in_agents().into_iter().map(|agent| {
            let ResolvedAgent { agent, .. } = self.settled(&catalog, Cow::Owned(agent));
            let Assessment { problem, .. } = self.assess(&catalog, &agent, &directory, &executables);
            agent_view(&catalog, &agent, &AgentStatus { problem, ..AgentStatus::from_agent(&agent) })
        }));
        let mut diagnostics = catalog.diagnostics.clone();
        diagnostics.extend(catalog.unread_settings());
        diagnostics.extend(findings);
        diagnostics.extend(requirement_warnings);
        diagnostics.extend(registry::nested_agent_warnings(&directory, &catalog.project));
        Ok(AgentList { project: catalog.project.clone(), agents, diagnostics })
    }

    /// Returns the errors of a file that its reader could not find.
    fn draft_findings(&self, catalog: &Catalog, draft: &Agent, directory: &str) -> Vec<Diagnostic> {
        let file = &draft.source.file;
        let mut blockers = match self.configured_backend(catalog, draft) {
            Ok(backend) => {
                compatibility::blockers(&draft.system_prompt, &draft.setup, draft.source.format, &backend)
            }
            Err(error) => vec![Blocker::new("backend", error)],
        };
        blockers.extend(self.fallback_blockers(catalog, draft, directory));
        let findings = blockers.iter().map(|blockers| blocker_finding(file, blockers));
        findings.chain(unknown_delegates(catalog, draft)).collect()
    }

    fn fallback_blockers(&self, catalog: &Catalog, agent: &Agent, directory: &str) -> Vec<Blocker> {
        let blockers = self.fallback_errors(catalog, agent, directory).into_iter();
        blockers.map(|error| Blocker::new("fallback", error)).collect()
    }

    /// Checks an agent like a start would, without starting anything.
    pub(crate) fn agent_status(
        &self,
        catalog: &Catalog,
        agent: &Agent,
        directory: &str,
        executables: &ProjectExecutables<'_>,
    ) -> AgentStatus {
        let Assessment { problem, findings, backend } = self.assess(catalog, agent, directory, executables);
        let Some(backend) = backend else {
            return AgentStatus { problem, findings, ..AgentStatus::from_agent(agent) };
        };
        let mut warnings = compatibility::warnings(&Requirements::for_agent(agent), &backend);
        warnings.extend(self.fallback_warnings(catalog, agent));
        let answers_by = compatibility::answers_by(&agent.setup, &backend);
        AgentStatus {
            problem,
            findings,
            warnings,
            version_warning: compatibility::version_warning(&backend),
            answers_by,
        }
    }

    /// Returns why an agent cannot run, and the errors in its file. Starts no program to ask for its version.
    fn assess(
        &self,
        catalog: &Catalog,
        agent: &Agent,
        directory: &str,
        executables: &ProjectExecutables<'_>,
    ) -> Assessment {
        let refused = agent.directive.as_ref().and_then(|directive| check_directive(agent, directive).err());
        if let Some(refusal) = refused {
            let problem = AdmissionRefusal::Directive { agent: agent.name.clone(), refusal }.to_string();
            return Assessment { problem: Some(problem), findings: Vec::new(), backend: None };
        }
        let file = &agent.source.file;
        let backend = match self.configured_backend(catalog, agent) {
            Ok(backend) => backend,
            Err(error) => {
                let mut findings = vec![blocker_finding(file, &Blocker::new("backend", error.clone()))];
                findings.extend(unknown_delegates(catalog, agent));
                let problem = without_name(error.to_string(), &agent.name);
                return Assessment { problem: Some(problem), findings, backend: None };
            }
        };
        let mut blockers =
            compatibility::blockers(&agent.system_prompt, &agent.setup, agent.source.format, &backend);
        blockers.extend(self.fallback_blockers(catalog, agent, directory));
        let prepared = match blockers.is_empty() {
            true => self.prepare_launch(catalog, agent, &backend, directory),
            false => Ok(None),
        };
        // The backend cannot start it.
        blockers.extend(prepared.as_ref().err().cloned().map(|error| Blocker::new("backend", error)));
        let mut findings: Vec<Diagnostic> =
            blockers.iter().map(|blockers| blocker_finding(file, blockers)).collect();
        findings.extend(unknown_delegates(catalog, agent));
        findings.extend(empty_rehearsal(agent));
        let reader_error = catalog.diagnostics.iter().find(|found| found.is_error() && found.file == *file);
        let reader_error = reader_error.map(|found| found.message.clone());
        let problem = reader_error
            .or_else(|| self.checked_backend(catalog, agent).err().map(|error| first_line_with_hint(&error)))
            .or_else(|| blockers.first().map(|blockers| blockers.error.to_string()))
            .or_else(|| {
                let own = protected_paths::check(self.home.path(), &agent.setup, &backend, directory);
                own.err().map(|error| error.to_string())
            })
            .or_else(|| {
                let others = self.alternatives(catalog, agent, directory, None);
                let assessed = others.and_then(|(others, _)| executables.check(&backend, &others));
                assessed.err().map(|error| first_line_with_hint(&error))
            })
            .or_else(|| {
                let with_user_environment = with_user_environment(prepared.ok().flatten()?);
                with_user_environment
                    .and_then(|prepared| check_variables_set(&prepared))
                    .err()
                    .map(|error| error.to_string())
            })
            .or_else(|| worktree_problem(agent, directory));
        let problem = problem.map(|problem| without_name(problem, &agent.name));
        Assessment { problem, findings, backend: Some(backend) }
    }
}

/// Truncates a list for a model. A file may hold megabytes, and every client asks for all agents.
fn bound_texts(texts: &[String]) -> Vec<String> {
    texts.iter().take(LIST_MAX).map(|text| domain::size::head(text, LIST_TEXT_BYTES_MAX).to_owned()).collect()
}

pub(crate) fn agent_view(catalog: &Catalog, agent: &Agent, status: &AgentStatus) -> AgentView {
    let variant_name = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let login = login(agent.backend.as_str());
    AgentView {
        name: agent.name.to_string(),
        description: agent.description.clone(),
        backend: agent.backend.to_string(),
        model: agent.model.clone(),
        use_when: bound_texts(&agent.use_when),
        avoid_when: bound_texts(&agent.avoid_when),
        capabilities: bound_texts(&agent.capabilities),
        inputs: agent.inputs.iter().take(INPUTS_MAX).cloned().collect(),
        file: agent.source.file.clone(),
        format: agent.source.format.as_str().to_owned(),
        layer: variant_name(serde_json::json!(agent.source.layer)),
        built_in: agent.source.is_built_in(),
        takes_built_in_name: catalog.takes_built_in_name(agent),
        answers_by: status.answers_by,
        login_unknown: matches!(login, Some(LoginStatus::Keyring(_))),
        logged_out: matches!(login, Some(LoginStatus::Missing(_))),
        problem: status.problem.clone(),
    }
}

fn blocker_finding(file: &str, blocker: &Blocker) -> Diagnostic {
    let Blocker { key, error } = blocker;
    let finding = at_key(Diagnostic::error(file, &error.message), key);
    match &error.hint {
        Some(hint) => finding.hint(hint),
        None => finding,
    }
}

/// Returns a warning at the key that it begins with, in the file's own spelling, if the file has that key.
fn warning_at_key(file: &str, sentence: String) -> Diagnostic {
    let key = sentence.split([':', ' ']).next().unwrap_or_default();
    match find_key(file, key) {
        Some((own, (line, column))) => {
            let message = format!("{own}{}", &sentence[key.len()..]);
            Diagnostic::warning(file, message).at(line, column)
        }
        None => Diagnostic::warning(file, sentence),
    }
}

fn at_key(finding: Diagnostic, key: &str) -> Diagnostic {
    match find_key(&finding.file, key) {
        Some((_, (line, column))) => finding.at(line, column),
        None => finding,
    }
}

/// The names of Volery's keys in other formats.
const KEY_ALIASES: [(&str, &[&str]); 6] = [
    ("max_turns", &["maxTurns", "steps", "maxSteps"]),
    ("mcp_servers", &["mcpServers", "mcp-servers"]),
    ("effort", &["model_reasoning_effort", "reasoningEffort"]),
    ("permission", &["permissions", "permissionMode", "sandbox_mode"]),
    ("output_schema", &["outputSchema"]),
    ("backend", &["run-agent"]),
];

/// Returns a key as a file spells it, with line and column.
fn find_key<'a>(file: &str, key: &'a str) -> Option<(&'a str, (u32, u32))> {
    let others = KEY_ALIASES.iter().find(|(known, _)| *known == key);
    let mut aliases =
        std::iter::once(key).chain(others.into_iter().flat_map(|(_, aliases)| aliases.iter().copied()));
    aliases.find_map(|alias| Some((alias, registry::key_location(file, alias)?)))
}

/// Returns why an agent cannot get its own work tree here. Errors of git itself are left to the run.
fn worktree_problem(agent: &Agent, directory: &str) -> Option<String> {
    let refused =
        agent.setup.isolation == Isolation::Worktree && work_tree_root(Path::new(directory)).is_none();
    let reason = IsolationError::NoWorkTree(directory.to_owned());
    refused.then(|| format!("isolation: worktree cannot be had: {reason}"))
}

/// Returns a warning for a rehearsal without steps.
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

/// Returns a problem without the lines that would be the same for every agent of a list.
fn first_line_with_hint(error: &EngineError) -> String {
    let first = error.message.lines().next().unwrap_or_default().trim_end_matches(':');
    EngineError { message: first.to_owned(), ..error.clone() }.to_string()
}

/// Returns a problem without the agent's name, which the list already shows: so equal problems have equal texts.
fn without_name(problem: String, name: &AgentName) -> String {
    let rest = problem.strip_prefix(&format!("agent {name}"));
    let rest = rest.and_then(|rest| rest.strip_prefix(": ").or_else(|| rest.strip_prefix(' ')));
    rest.map(ToOwned::to_owned).unwrap_or(problem)
}

/// Returns a warning for each missing agent that this one may delegate to.
fn unknown_delegates(catalog: &Catalog, agent: &Agent) -> Vec<Diagnostic> {
    let Delegates::Only(names) = &agent.delegates else { return Vec::new() };
    let unknown = names.iter().filter(|name| catalog.agent(name).is_none());
    let finding = |name: &AgentName| {
        let message = format!("delegates: there is no agent {name} here");
        let finding = at_key(Diagnostic::warning(&agent.source.file, message), "delegates");
        match nearest(name.as_str(), catalog.agents.keys().map(AgentName::as_str)) {
            Some(near) => finding.hint(format!("did you mean {near}?")),
            None => finding,
        }
    };
    unknown.map(finding).collect()
}
