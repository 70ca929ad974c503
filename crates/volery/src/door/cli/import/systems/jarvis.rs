//! Jarvis: a folder per agent, below its home.

use std::path::PathBuf;

use domain::agent::Format;

use super::super::system::{Site, System, honoured, not_honoured};

pub(crate) const SYSTEM: System = System {
    name: "jarvis",
    is: |entry| entry.mentions("subagent-server") || entry.name == "jarvis-subagents",
    left_files: |project| project.join("dist/mcp/subagent-server.js").is_file(),
    tools: &["run_subagent"],
    variables: &[
        honoured("JARVIS_HOME"),
        not_honoured("JARVIS_LOG_PORT", "there is no dashboard on a port; volery ps, show and logs tell it"),
        not_honoured("JARVIS_PARENT_SESSION_ID", "who asked for a run stands in its record"),
    ],
    flags: &[],
    folders: |site| vec![site.folder(home(site).join("agents"), Format::Jarvis)],
    sessions,
    more_env: |site| {
        let named = site.entry.is_some_and(|entry| entry.env.contains_key("JARVIS_HOME"));
        let home = home(site);
        let needed = !named && home != site.project;
        needed.then(|| ("JARVIS_HOME", home.display().to_string())).into_iter().collect()
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

fn sessions(site: &Site<'_>) -> Vec<String> {
    let files = ["data/sessions.json", "data/subagent-sessions.json"];
    let texts = files.iter().filter_map(|file| std::fs::read_to_string(home(site).join(file)).ok());
    let known =
        texts.filter_map(|text| serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(&text).ok());
    let mut agents: Vec<String> = known.flat_map(|known| known.into_iter().map(|(agent, _)| agent)).collect();
    agents.sort();
    agents.dedup();
    agents
}
