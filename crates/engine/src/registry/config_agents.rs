//! Reads the agents that vendors' configuration files define: `agent` in `opencode.json`, and `[agents.NAME]` in
//! Codex' `config.toml`.

use std::path::{Path, PathBuf};

use config::agent_formats::{AgentFile, codex, opencode};
use domain::agent::Agent;
use domain::diagnostic::Diagnostic;

use super::agent_folders::{ConfigFile, ConfigKind};
use super::file_state::observe;
use super::guarded_read::{ESCAPES_FOLDER, escapes_folder, read_text};

/// The most files that the prompt of one agent may name.
const PROMPT_FILES_MAX: usize = 20;

/// Reads the agents of one file; none if the file does not exist.
pub(super) fn read_config_file(config: &ConfigFile, diagnostics: &mut Vec<Diagnostic>) -> Vec<Agent> {
    let shown = config.path.display().to_string();
    observe(&config.path);
    if !config.path.exists() {
        return Vec::new();
    }
    if config.within.as_ref().is_some_and(|within| escapes_folder(&config.path, within)) {
        diagnostics.push(Diagnostic::error(&shown, ESCAPES_FOLDER));
        return Vec::new();
    }
    let Some(text) = read_text(&config.path, diagnostics) else { return Vec::new() };
    let agent_file = AgentFile { text: &text, file: &shown, stem: "", layer: config.layer };
    match config.kind {
        ConfigKind::Opencode => {
            let (mut agents, found) = opencode::read_config(agent_file);
            diagnostics.extend(found);
            agents.retain_mut(|agent| insert_prompt_files(agent, config, diagnostics));
            agents
        }
        ConfigKind::Codex => {
            let (roles, found) = codex::read_roles(agent_file);
            diagnostics.extend(found);
            roles.iter().filter_map(|role| read_role(role, agent_file, config, diagnostics)).collect()
        }
    }
}

fn read_role(
    role: &codex::Role,
    config_file: AgentFile<'_>,
    config: &ConfigFile,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Agent> {
    let Some(reference) = &role.config_file else {
        let (agent, found) = codex::read_role(role, AgentFile { text: "", ..config_file });
        diagnostics.extend(found);
        return agent;
    };
    let path = referenced_path(config, reference)?;
    let text = read_referenced(&path, config, &format!("agents.{}.config_file", role.name), diagnostics)?;
    let file = path.display().to_string();
    let (agent, found) = codex::read_role(role, AgentFile { text: &text, file: &file, ..config_file });
    diagnostics.extend(found);
    if let Some(agent) = agent.as_ref().filter(|agent| agent.name.as_str() != role.name) {
        let message = format!(
            "agents.{}: the agent is called {}, because its file {} has that name",
            role.name,
            agent.name,
            path.display()
        );
        diagnostics.push(Diagnostic::warning(config_file.file, message));
    }
    agent
}

/// Returns the path of a file that a configuration file names.
fn referenced_path(config: &ConfigFile, reference: &str) -> Option<PathBuf> {
    let folder = config.path.parent()?;
    match reference.strip_prefix("~/") {
        Some(below) => crate::env::home().map(|home| home.join(below)),
        None => Some(folder.join(reference.strip_prefix("./").unwrap_or(reference))),
    }
}

/// Reads a file that a configuration file names. A project's configuration may only name files of the project.
fn read_referenced(
    path: &Path,
    config: &ConfigFile,
    key: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    let file = config.path.display().to_string();
    observe(path);
    if !path.exists() {
        let message = format!("{key}: there is no file {}", path.display());
        diagnostics.push(Diagnostic::error(&file, message));
        return None;
    }
    if config.within.as_ref().is_some_and(|within| escapes_folder(path, within)) {
        let message = format!("{key}: {} is outside of the project, so it is not read", path.display());
        diagnostics.push(Diagnostic::error(&file, message));
        return None;
    }
    read_text(path, diagnostics)
}

/// Inserts the text of each file into the prompt where `{file:PATH}` names it, as opencode does. Returns whether the
/// agent can be used.
fn insert_prompt_files(agent: &mut Agent, config: &ConfigFile, diagnostics: &mut Vec<Diagnostic>) -> bool {
    const BEGIN: &str = "{file:";
    let key = format!("agent.{}.prompt", agent.name);
    let mut prompt = String::new();
    let written = std::mem::take(&mut agent.system_prompt);
    let mut rest = written.as_str();
    for _ in 0..PROMPT_FILES_MAX {
        let Some((before, after)) = rest.split_once(BEGIN) else { break };
        let Some((reference, after)) = after.split_once('}') else { break };
        let text = referenced_path(config, reference.trim())
            .and_then(|path| read_referenced(&path, config, &key, diagnostics));
        let Some(text) = text else { return false };
        prompt.push_str(before);
        prompt.push_str(text.trim());
        rest = after;
    }
    prompt.push_str(rest);
    agent.system_prompt = prompt;
    true
}
