//! Jarvis: a folder per agent in its home.

use std::path::{Path, PathBuf};

use domain::agent::{Agent, AgentFormat};

use super::super::super::serve::stored_jarvis_session;
use super::super::system::{SettingNote, SetupSite, System, honoured, not_honoured};

pub(crate) const SYSTEM: System = System {
    name: "jarvis",
    program: "subagent-server",
    matches_entry: |entry| entry.mentions("subagent-server") || entry.name == "jarvis-subagents",
    has_files: |project| project.join("dist/mcp/subagent-server.js").is_file(),
    tools: &["run_subagent"],
    backends: &["claude"],
    variables: &[
        honoured("JARVIS_HOME"),
        not_honoured("JARVIS_LOG_PORT", "there is no dashboard on a port; volery ps, show and logs tell it"),
        not_honoured("JARVIS_PARENT_SESSION_ID", "who asked for a run stands in its record"),
    ],
    flags: &[],
    folders: |site| vec![site.folder(home(site).join("agents"), AgentFormat::Jarvis)],
    sessions,
    // Always set, as an absolute path: agents' servers in a folder that is not configured need `volery trust`.
    set_env: |site| {
        let is_set = site.variable("JARVIS_HOME").is_some_and(|home| Path::new(home).is_absolute());
        let home = home(site).display().to_string();
        (!is_set).then_some(("JARVIS_HOME", home)).into_iter().collect()
    },
    startup_problems: |site| {
        let folder = home(site).join("agents");
        let missing = !folder.is_dir();
        let why = format!("there is no folder {}, so there are no agents", folder.display());
        missing.then(|| SettingNote { name: "JARVIS_HOME".to_owned(), why }).into_iter().collect()
    },
    note: None,
};

/// Returns the home: from the variable, else from the path of the server's program, else the project.
fn home(site: &SetupSite<'_>) -> PathBuf {
    let configured = site.entry.and_then(|entry| entry.env_path("JARVIS_HOME", site.project));
    let program = site
        .entry
        .and_then(|entry| entry.command_line.iter().find(|argument| argument.contains("subagent-server")));
    let from_program =
        program.and_then(|program| site.project.join(program).ancestors().nth(3).map(PathBuf::from));
    configured.or(from_program).unwrap_or_else(|| site.project.to_owned())
}

/// Returns the agents that continue the session that Jarvis stored for them.
fn sessions(site: &SetupSite<'_>, agents: &[Agent]) -> Vec<String> {
    let home = home(site);
    let continues = |agent: &&Agent| {
        agent.setup.keeps_session && stored_jarvis_session(&home, agent.name.as_str()).is_some()
    };
    agents.iter().filter(continues).map(|agent| agent.name.to_string()).collect()
}
