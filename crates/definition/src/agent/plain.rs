//! The files of sub-agents-mcp: no frontmatter, the whole file is the system prompt, and its first heading or line
//! describes it. Which program runs it is said outside of the file.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::id::BackendName;
use domain::permission::Level;

use super::AgentFile;
use super::values::parse_name;
use crate::FILE_BYTES_MAX;
use crate::frontmatter;
use crate::text::{Findings, Place};

/// What sub-agents-mcp says once for all of its agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainDefaults {
    pub backend: BackendName,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub level: Option<Level>,
}

impl Default for PlainDefaults {
    /// Returns what holds if nothing is said: the default of sub-agents-mcp.
    fn default() -> Self {
        let backend = "cursor".parse().expect("a valid name");
        Self { backend, model: None, effort: None, level: None }
    }
}

/// Reads an agent. There is one exactly if no finding is an error.
pub fn read(agent_file: AgentFile<'_>, defaults: &PlainDefaults) -> (Option<Agent>, Vec<Diagnostic>) {
    let text = frontmatter::normalize(agent_file.text);
    let mut findings = Findings::new(agent_file.file, &text);
    if text.len() > FILE_BYTES_MAX {
        findings.error(Place::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
    }
    if text.contains('\0') {
        findings.error(Place::START, "the system prompt contains a NUL character");
    }
    if text.trim().is_empty() {
        findings.error(Place::START, "the file is empty, so the agent has no system prompt");
    }
    let name = parse_name(agent_file.stem, Place::START, &mut findings);
    let agent = name.filter(|_| findings.errors() == 0).map(|name| {
        let PlainDefaults { backend, model, effort, level } = defaults.clone();
        let mut agent = Agent::new(name, backend, agent_file.source(Format::Plain));
        agent.description = describe(&text);
        agent.model = model;
        agent.setup.effort = effort;
        agent.setup.permission.level = level;
        text.trim().clone_into(&mut agent.system_prompt);
        agent
    });
    (agent, findings.finish())
}

/// Returns the first heading, with or without a space after its mark, else the first line that says something.
pub(super) fn describe(body: &str) -> String {
    let mut lines = body.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next().unwrap_or_default();
    let heading = lines.find_map(|line| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.trim()).filter(|title| !title.is_empty())
    });
    heading.unwrap_or(first).to_owned()
}
