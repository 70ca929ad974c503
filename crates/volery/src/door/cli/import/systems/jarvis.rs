//! Jarvis: a folder per agent, below its home.

use std::path::{Path, PathBuf};

use domain::agent::{Agent, Format};

use super::super::super::serve::kept_by_jarvis;
use super::super::system::{Site, System, Told, honoured, not_honoured};

pub(crate) const SYSTEM: System = System {
    name: "jarvis",
    program: "subagent-server",
    is: |entry| entry.mentions("subagent-server") || entry.name == "jarvis-subagents",
    left_files: |project| project.join("dist/mcp/subagent-server.js").is_file(),
    tools: &["run_subagent"],
    backends: &["claude"],
    variables: &[
        honoured("JARVIS_HOME"),
        not_honoured("JARVIS_LOG_PORT", "there is no dashboard on a port; volery ps, show and logs tell it"),
        not_honoured("JARVIS_PARENT_SESSION_ID", "who asked for a run stands in its record"),
    ],
    flags: &[],
    folders: |site| vec![site.folder(home(site).join("agents"), Format::Jarvis)],
    sessions,
    // Always: in a folder that nobody named, agents' servers wait for `volery trust`. A path from here is no name either.
    set_env: |site| {
        let named = site.variable("JARVIS_HOME").is_some_and(|home| Path::new(home).is_absolute());
        let home = home(site).display().to_string();
        (!named).then_some(("JARVIS_HOME", home)).into_iter().collect()
    },
    refused: |site| {
        let folder = home(site).join("agents");
        let missing = !folder.is_dir();
        let why = format!("there is no folder {}, so there are no agents", folder.display());
        missing.then(|| Told { name: "JARVIS_HOME".to_owned(), why }).into_iter().collect()
    },
    note: None,
};

/// Returns the home: as a variable says, else where the server's program stands, else the project.
fn home(site: &Site<'_>) -> PathBuf {
    let named = site.entry.and_then(|entry| entry.env_path("JARVIS_HOME", site.project));
    let program =
        site.entry.and_then(|entry| entry.words.iter().find(|word| word.contains("subagent-server")));
    let beside = program.and_then(|program| site.project.join(program).ancestors().nth(3).map(PathBuf::from));
    named.or(beside).unwrap_or_else(|| site.project.to_owned())
}

/// An agent goes on with the session that Jarvis kept for it, if it keeps sessions at all.
fn sessions(site: &Site<'_>, agents: &[Agent]) -> Vec<String> {
    let home = home(site);
    let goes_on =
        |agent: &&Agent| agent.setup.keeps_session && kept_by_jarvis(&home, agent.name.as_str()).is_some();
    agents.iter().filter(goes_on).map(|agent| agent.name.to_string()).collect()
}
