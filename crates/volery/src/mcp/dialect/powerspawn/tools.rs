//! The spawning tools: the agent of each, its parameters and their defaults.

use std::sync::Arc;

use domain::permission::Level;
use domain::run::IacKind;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::version::PowerspawnVersion;

/// One tool that spawns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spawner {
    pub(super) tool: &'static str,
    description: &'static str,
    pub(super) agent_type: &'static str,
    pub(super) label: &'static str,
    pub(super) backend: &'static str,
    pub(super) kind: IacKind,
    /// Its provider names in the project's `models.json`; the first one found counts.
    pub(super) providers: &'static [&'static str],
    /// Its provider name in Volery's own list of models.
    pub(super) own_models: &'static str,
    pub(super) model: Option<&'static str>,
    models: &'static str,
    pub(super) timeout_s: u64,
    pub(super) takes_system_prompt: bool,
    pub(super) unrestricted_flag: Option<UnrestrictedFlag>,
    /// The only tools that it has.
    pub(super) tools: Option<&'static [&'static str]>,
    /// `AGENTS.md` is put before its task.
    pub(super) gets_agents_file: bool,
}

/// The parameter that lets an agent do everything without asking.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnrestrictedFlag {
    pub(super) key: &'static str,
    /// `None`: as the server's configuration says.
    pub(super) default: Option<bool>,
    /// The level without it.
    pub(super) without: Level,
}

const CLAUDE_TOOLS: &[&str] = &["Bash", "Read", "Write", "Edit", "Glob", "Grep"];

const PROGRAM: Spawner = Spawner {
    tool: "",
    description: "",
    agent_type: "",
    label: "",
    backend: "",
    kind: IacKind::Cli,
    providers: &[],
    own_models: "",
    model: None,
    models: "",
    timeout_s: 300,
    takes_system_prompt: false,
    unrestricted_flag: None,
    tools: None,
    gets_agents_file: false,
};
const SERVICE: Spawner = Spawner { kind: IacKind::Api, takes_system_prompt: true, ..PROGRAM };
const GROK_API: Spawner = Spawner {
    tool: "spawn_grok_api",
    description: "Spawn a Grok sub-agent via the X.ai API. It answers with a text and can neither read nor change files nor run commands: for analysis, research and second opinions.",
    agent_type: "grok",
    label: "Grok",
    backend: "api-grok",
    providers: &["grok-api", "grok_api", "grok"],
    own_models: "grok",
    model: Some("grok-3"),
    models: "For example grok-4 or grok-4-fast (default: grok-4, unless models.json names another).",
    ..SERVICE
};
const GROK_CLI: Spawner = Spawner {
    tool: "spawn_grok_cli",
    description: "Spawn a Grok CLI sub-agent. It plans and only reads, unless force is given.",
    agent_type: "grok_cli",
    label: "Grok CLI",
    backend: "grok",
    providers: &["grok-cli", "grok_cli"],
    own_models: "grok_cli",
    models: "Default: that of Grok CLI itself, unless models.json names another.",
    timeout_s: 600,
    takes_system_prompt: true,
    unrestricted_flag: Some(UnrestrictedFlag {
        key: "force",
        default: Some(false),
        without: Level::ReadOnly,
    }),
    gets_agents_file: true,
    ..PROGRAM
};

/// The three tools for Grok, in the order of the list.
const GROK_BEFORE_1_8: [Spawner; 3] =
    [Spawner { tool: "spawn_grok", providers: &["grok"], ..GROK_API }, GROK_CLI, GROK_API];
const GROK_SINCE_1_8: [Spawner; 3] = [
    Spawner {
        tool: "spawn_grok",
        agent_type: "grok",
        label: "Grok",
        providers: &["grok", "grok-cli", "grok_cli"],
        ..GROK_CLI
    },
    Spawner { providers: &["grok-cli", "grok_cli", "grok"], ..GROK_CLI },
    Spawner { agent_type: "grok_api", label: "Grok API", providers: &["grok-api", "grok_api"], ..GROK_API },
];

/// The tools that every version has, and the positions of those for Grok.
const GROK_POSITIONS: [usize; 3] = [3, 8, 9];
static OTHERS: [Spawner; 7] = [
    Spawner {
        tool: "spawn_claude",
        description: "Spawn a Claude sub-agent for complex reasoning and code review. It can read and change files and run commands in the project.",
        agent_type: "claude",
        label: "Claude",
        backend: "claude",
        providers: &["claude"],
        own_models: "claude",
        model: Some("sonnet"),
        models: "haiku, sonnet or opus (default: sonnet).",
        timeout_s: 600,
        unrestricted_flag: Some(UnrestrictedFlag {
            key: "dangerously_skip_permissions",
            default: Some(true),
            without: Level::SafeEdit,
        }),
        tools: Some(CLAUDE_TOOLS),
        gets_agents_file: true,
        ..PROGRAM
    },
    Spawner {
        tool: "spawn_codex",
        description: "Spawn a Codex sub-agent for any task: writing code, testing. It can read and change files and run commands in the project.",
        agent_type: "codex",
        label: "Codex",
        backend: "codex",
        providers: &["codex"],
        own_models: "codex",
        models: "Default: that of Codex itself.",
        ..PROGRAM
    },
    Spawner {
        tool: "spawn_copilot",
        description: "Spawn a GitHub Copilot CLI sub-agent with any supported model. It can read and change files and run commands in the project.",
        agent_type: "copilot",
        label: "Copilot",
        backend: "copilot",
        providers: &["copilot"],
        own_models: "copilot",
        model: Some("gpt-5.1"),
        models: "gpt-5.1, gpt-5, gpt-5-mini, claude-sonnet, claude-haiku, claude-opus or gemini (default: gpt-5.1).",
        timeout_s: 600,
        ..PROGRAM
    },
    Spawner {
        tool: "spawn_gemini",
        description: "Spawn a Gemini sub-agent via the Google API. It answers with a text and can neither read nor change files nor run commands: for long contexts and research.",
        agent_type: "gemini",
        label: "Gemini",
        backend: "api-gemini",
        providers: &["gemini"],
        own_models: "gemini",
        model: Some("gemini-2.0-flash"),
        models: "For example gemini-2.5-flash or gemini-2.5-pro (default: gemini-2.5-flash, unless models.json names another).",
        ..SERVICE
    },
    Spawner {
        tool: "spawn_mistral",
        description: "Spawn a Mistral sub-agent via the Mistral API. It answers with a text and can neither read nor change files nor run commands: for code analysis, and where data must stay in Europe.",
        agent_type: "mistral",
        label: "Mistral",
        backend: "api-mistral",
        providers: &["mistral"],
        own_models: "mistral",
        model: Some("mistral-large-latest"),
        models: "mistral-large-latest, mistral-small-latest, codestral-latest or open-mistral-nemo (default: mistral-large-latest).",
        ..SERVICE
    },
    Spawner {
        tool: "spawn_cursor",
        description: "Spawn a Cursor CLI sub-agent. It can read and change files and run commands in the project; force: false holds it to edits.",
        agent_type: "cursor",
        label: "Cursor",
        backend: "cursor",
        providers: &["cursor"],
        own_models: "cursor",
        models: "Default: that of Cursor itself.",
        unrestricted_flag: Some(UnrestrictedFlag { key: "force", default: None, without: Level::SafeEdit }),
        ..PROGRAM
    },
    Spawner {
        tool: "spawn_gemini_cli",
        description: "Spawn a Gemini CLI sub-agent. It can read and change files and run commands in the project; yolo: false holds it to edits.",
        agent_type: "gemini_cli",
        label: "Gemini CLI",
        backend: "gemini",
        providers: &["gemini-cli", "gemini_cli"],
        own_models: "gemini_cli",
        models: "Default: that of Gemini CLI itself.",
        unrestricted_flag: Some(UnrestrictedFlag { key: "yolo", default: None, without: Level::SafeEdit }),
        ..PROGRAM
    },
];

/// Returns the spawning tools, in a fixed order.
fn spawners(version: PowerspawnVersion) -> Vec<Spawner> {
    let mut all = OTHERS.to_vec();
    let grok_spawners = match version {
        PowerspawnVersion::V1_6 => GROK_BEFORE_1_8,
        PowerspawnVersion::V1_8 => GROK_SINCE_1_8,
    };
    for (position, spawner) in GROK_POSITIONS.into_iter().zip(grok_spawners) {
        all.insert(position, spawner);
    }
    all
}

pub(super) fn find_spawner(version: PowerspawnVersion, tool: &str) -> Option<Spawner> {
    spawners(version).into_iter().find(|spawner| spawner.tool == tool)
}

/// Returns a sentence for each argument of a call that its tool does not have.
pub(super) fn ignored(version: PowerspawnVersion, tool: &str, arguments: &JsonObject) -> Vec<String> {
    let listed = list(version).into_iter().find(|listed| listed.name == tool);
    let properties = listed.and_then(|listed| listed.input_schema.get("properties")?.as_object().cloned());
    let known = properties.unwrap_or_default();
    super::super::ignored_arguments::ignored_arguments(
        tool,
        arguments,
        &known.keys().map(String::as_str).collect::<Vec<_>>(),
    )
}

/// Returns all tools, in a fixed order.
pub(super) fn list(version: PowerspawnVersion) -> Vec<Tool> {
    let spawns = spawners(version).into_iter().map(|spawner| {
        let hints = ToolAnnotations::with_title(format!("Spawn {}", spawner.label))
            .read_only(false)
            .destructive(spawner.kind == IacKind::Cli)
            .idempotent(false)
            .open_world(true);
        tool(spawner.tool, spawner.description, spawner.properties(), &["prompt"], hints)
    });
    let read_only = |title: &str| {
        ToolAnnotations::with_title(title)
            .read_only(true)
            .destructive(false)
            .idempotent(true)
            .open_world(false)
    };
    let id = json!({ "agent_id": { "type": "string", "description": "The id that spawning returned." } });
    let timeout = json!({ "timeout": {
        "type": "integer", "default": super::WAIT_S, "minimum": 0,
        "description": "The most seconds to wait (default: 300). If your client gives up earlier, the answer comes before that; call again.",
    }});
    spawns
        .chain([
            tool(
                "list",
                "List the agents of this project that run, and the ids of the last that completed.",
                json!({}),
                &[],
                read_only("List agents"),
            ),
            tool(
                "result",
                "Get the result of an agent by its id.",
                id,
                &["agent_id"],
                read_only("Get a result"),
            ),
            tool(
                "wait_for_agents",
                "Block until all running agents of this project complete, then return all results.",
                timeout,
                &[],
                read_only("Wait for agents"),
            ),
        ])
        .collect()
}

impl Spawner {
    fn properties(&self) -> Value {
        let mut properties = Map::new();
        let mut add = |key: &str, value: Value| properties.insert(key.to_owned(), value);
        add(
            "prompt",
            json!({ "type": "string", "description": "The whole task: the agent sees nothing else." }),
        );
        add("model", json!({ "type": "string", "description": self.models }));
        if self.takes_system_prompt {
            add("system_prompt", json!({ "type": "string", "description": "A role for the agent." }));
        }
        if let Some(unrestricted_flag) = self.unrestricted_flag {
            let default_text = match unrestricted_flag.default {
                Some(default) => format!(" (default: {default})."),
                None => ". Left out: as far as the server lets it.".to_owned(),
            };
            let description = format!("Whether it does everything unasked{default_text}");
            let mut flag = json!({ "type": "boolean", "description": description });
            if let Some(default) = unrestricted_flag.default {
                flag["default"] = default.into();
            }
            add(unrestricted_flag.key, flag);
        }
        add(
            "timeout",
            json!({
                "type": "integer", "default": self.timeout_s, "minimum": 1, "maximum": super::spawn_request::TIMEOUT_S_MAX,
                "description": format!("The most seconds it may take (default: {}).", self.timeout_s),
            }),
        );
        properties.into()
    }
}

fn tool(
    name: &'static str,
    description: &'static str,
    properties: Value,
    required: &[&str],
    hints: ToolAnnotations,
) -> Tool {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    Tool::new(name, description, Arc::new(schema)).with_annotations(hints)
}
