//! sub-agents-mcp: plain files in a folder that a variable names.

use domain::agent::Format;

use super::super::system::{Site, System, differs, honoured, names_in, not_honoured, nothing};

pub(crate) const SYSTEM: System = System {
    name: "sub-agents-mcp",
    is: |entry| entry.mentions("sub-agents-mcp") || entry.env.contains_key("AGENT_TYPE"),
    left_files: |project| project.join(".mcp-sessions").is_dir(),
    tools: &["run_agent"],
    variables: &[
        honoured("AGENTS_DIR"),
        honoured("AGENT_TYPE"),
        honoured("AGENT_PERMISSION"),
        honoured("AGENT_MODEL"),
        honoured("AGENT_EFFORT"),
        honoured("EXECUTION_TIMEOUT_MS"),
        honoured("SESSION_ENABLED"),
        differs(
            "SESSION_DIR",
            "sessions are read there and continued; new ones are kept in volery's own state",
        ),
        honoured("SESSION_RETENTION_DAYS"),
        differs("AGENTS_SETTINGS_PATH", "reaches claude, codex and cursor; others warn"),
        honoured("CLI_API_KEY"),
        honoured("CURSOR_API_KEY"),
        honoured("LOG_LEVEL"),
        honoured("SERVER_NAME"),
        not_honoured("SERVER_VERSION", "the version is volery's"),
        not_honoured("LOG_FILE", "the log goes to standard error"),
    ],
    flags: &[],
    folders: |site| {
        let entry = site.entry.and_then(|entry| entry.env_path("AGENTS_DIR", site.project));
        entry.map(|path| site.folder(path, Format::Plain)).into_iter().collect()
    },
    sessions,
    more_env: nothing,
    note: None,
};

fn sessions(site: &Site<'_>) -> Vec<String> {
    let named = site.entry.and_then(|entry| entry.env_path("SESSION_DIR", site.project));
    names_in(&named.unwrap_or_else(|| site.project.join(".mcp-sessions")), ".json")
}
