//! PowerSpawn: one tool per vendor, no files of agents.

use std::path::{Path, PathBuf};

use super::super::super::serve::find_powerspawn_version;
use super::super::system::{SetupSite, System, honoured, names_in, no_sessions, not_honoured, nothing};

const VERSION: &str = "POWERSPAWN_VERSION";
const SERVER: &str = "mcp_server.py";

pub(crate) const SYSTEM: System = System {
    name: "powerspawn",
    program: "powerspawn",
    matches_entry: |entry| {
        entry.mentions("powerspawn") || (entry.name == "agents" && entry.mentions("mcp_server.py"))
    },
    has_files: |project| project.join("powerspawn/mcp_server.py").is_file(),
    tools: &[
        "spawn_claude",
        "spawn_codex",
        "spawn_copilot",
        "spawn_grok",
        "spawn_gemini",
        "spawn_mistral",
        "spawn_cursor",
        "spawn_gemini_cli",
        "spawn_grok_api",
        "spawn_grok_cli",
        "list",
        "result",
        "wait_for_agents",
    ],
    backends: &["claude", "codex", "copilot", "cursor", "gemini", "grok"],
    variables: &[
        honoured("XAI_API_KEY"),
        honoured("GROK_API_KEY"),
        honoured("X_API_KEY"),
        honoured("GEMINI_API_KEY"),
        honoured("GOOGLE_API_KEY"),
        honoured("GOOGLE_AI_KEY"),
        honoured("MISTRAL_API_KEY"),
        honoured("CURSOR_AGENT_BIN"),
        honoured("GROK_BIN"),
        honoured("POWERSPAWN_NO_AGENTS_CONTEXT"),
        honoured(VERSION),
        honoured("XAI_BASE_URL"),
        honoured("GOOGLE_GEMINI_BASE_URL"),
        honoured("MISTRAL_BASE_URL"),
        not_honoured("POWERSPAWN_OUTPUT_DIR", "PowerSpawn did not use it either"),
        not_honoured("PYTHONIOENCODING", "there is no Python any more"),
        not_honoured("PYTHONUNBUFFERED", "there is no Python any more"),
    ],
    flags: &[],
    folders: nothing,
    // PowerSpawn stores its sessions only in memory.
    sessions: no_sessions,
    set_env: |site| {
        let is_set = site.variable(VERSION).is_some();
        installed_version(site).filter(|_| !is_set).map(|version| (VERSION, version)).into_iter().collect()
    },
    startup_problems: nothing,
    note: Some(
        "api_keys.json and models.json are read in the project's root and in its folder powerspawn; IAC.md is written \
         in the root",
    ),
};

/// Returns the version of the PowerSpawn that an entry starts: of the script that it names, of the package that is
/// installed for its program, or of the copy in the project.
fn installed_version(site: &SetupSite<'_>) -> Option<String> {
    let arguments = site.entry.map(|entry| entry.command_line.as_slice()).unwrap_or_default();
    let scripts = arguments
        .iter()
        .filter(|argument| argument.ends_with(SERVER))
        .map(|argument| site.project.join(argument));
    let mut folders: Vec<PathBuf> =
        scripts.filter_map(|script| script.parent().map(Path::to_owned)).collect();
    folders.extend([site.project.join("powerspawn"), site.project.to_owned()]);
    let program = arguments.first().map(|program| site.project.join(program));
    program.and_then(|program| packaged_version(&program)).or_else(|| find_powerspawn_version(&folders))
}

/// Returns the version of the package that is installed in the environment of a program, `ENV/bin/PROGRAM`.
fn packaged_version(program: &Path) -> Option<String> {
    let libraries = program.parent()?.parent()?.join("lib");
    names_in(&libraries, "").into_iter().find_map(|python| {
        let packages = names_in(&libraries.join(python).join("site-packages"), ".dist-info");
        packages.into_iter().find_map(|package| package.strip_prefix("powerspawn-").map(ToOwned::to_owned))
    })
}
