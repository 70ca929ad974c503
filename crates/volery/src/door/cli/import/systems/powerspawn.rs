//! PowerSpawn: one tool per vendor, no files of agents.

use super::super::system::{System, honoured, no_sessions, not_honoured, nothing};

pub(crate) const SYSTEM: System = System {
    name: "powerspawn",
    program: "powerspawn",
    is: |entry| entry.mentions("powerspawn") || (entry.name == "agents" && entry.mentions("mcp_server.py")),
    left_files: |project| project.join("powerspawn/mcp_server.py").is_file(),
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
        honoured("XAI_BASE_URL"),
        honoured("GOOGLE_GEMINI_BASE_URL"),
        honoured("MISTRAL_BASE_URL"),
        not_honoured("POWERSPAWN_OUTPUT_DIR", "PowerSpawn did not use it either"),
        not_honoured("PYTHONIOENCODING", "there is no Python any more"),
        not_honoured("PYTHONUNBUFFERED", "there is no Python any more"),
    ],
    flags: &[],
    folders: nothing,
    // It keeps what it knows in memory.
    sessions: no_sessions,
    set_env: nothing,
    refused: nothing,
    note: Some(
        "api_keys.json and models.json are read in the project's root and in its folder powerspawn; IAC.md is written \
         in the root",
    ),
};
