//! The files of sub-agents-mcp: no frontmatter, the whole file is the system prompt, and its first heading or line is
//! the description. The program that runs it is set elsewhere.

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;
use domain::id::BackendName;
use domain::permission::Level;

use super::AgentFile;
use super::shared_keys::parse_name;
use crate::FILE_BYTES_MAX;
use crate::frontmatter;
use crate::text::{Diagnostics, SourceLocation};

/// The settings of sub-agents-mcp for all of its agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainDefaults {
    pub backend: BackendName,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub level: Option<Level>,
}

impl Default for PlainDefaults {
    /// Returns the defaults of sub-agents-mcp.
    fn default() -> Self {
        let backend = "cursor".parse().expect("a valid name");
        Self { backend, model: None, effort: None, level: None }
    }
}

/// Reads an agent. Returns `None` exactly if there is an error.
pub fn read(agent_file: AgentFile<'_>, defaults: &PlainDefaults) -> (Option<Agent>, Vec<Diagnostic>) {
    let text = frontmatter::normalize(agent_file.text);
    let mut diagnostics = Diagnostics::new(agent_file.file, &text);
    if text.len() > FILE_BYTES_MAX {
        diagnostics.error(SourceLocation::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
    }
    if text.contains('\0') {
        diagnostics.error(SourceLocation::START, "the system prompt contains a NUL character");
    }
    if text.trim().is_empty() {
        diagnostics.error(SourceLocation::START, "the file is empty, so the agent has no system prompt");
    }
    let name = parse_name(agent_file.stem, SourceLocation::START, &mut diagnostics);
    let agent = name.filter(|_| diagnostics.errors() == 0).map(|name| {
        let PlainDefaults { backend, model, effort, level } = defaults.clone();
        let mut agent = Agent::new(name, backend, agent_file.source(AgentFormat::Plain));
        agent.description = describe(&text);
        agent.model = model;
        agent.setup.effort = effort;
        agent.setup.permission.level = level;
        text.trim().clone_into(&mut agent.system_prompt);
        agent
    });
    (agent, diagnostics.finish())
}

/// Returns the first heading, with or without a space after its mark, else the first line that is not empty.
pub(super) fn describe(body: &str) -> String {
    let mut lines = body.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next().unwrap_or_default();
    let heading = lines.find_map(|line| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.trim()).filter(|title| !title.is_empty())
    });
    heading.unwrap_or(first).to_owned()
}
