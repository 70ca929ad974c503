//! `.codex/agents/*.toml`: the custom agents of Codex. In addition to the keys below, such a file may set anything
//! that Codex's own configuration may; those keys are reported as unsupported. `[agents.NAME]` of `config.toml`
//! declares further agents, each with a file of its own.

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;
use domain::permission::Level;

use super::shared_keys::{read_word, take_description, take_inherited_model, take_unsupported, vendor_agent};
use super::{AgentFile, codex_mcp_servers};
use crate::FILE_BYTES_MAX;
use crate::text::{
    Diagnostics, Fields, MapEntry, Node, NodeValue, SourceLocation, read_choice, read_text, read_toml,
};

const UNSUPPORTED: [(&str, &str); 11] = [
    ("nickname_candidates", "a run is known by its id"),
    ("approval_policy", "what the sandbox does not allow is denied or asked about by Volery"),
    ("web_search", "Codex decides by itself whether it searches"),
    ("skills", "no skill is switched on or off"),
    ("model_reasoning_summary", "Codex's default holds"),
    ("model_verbosity", "Codex's default holds"),
    ("model_provider", "Codex's own configuration says where its models are"),
    ("sandbox_workspace_write", "the level of the sandbox is all that is passed on"),
    ("features", "Codex's default holds"),
    ("tools", "Codex's default holds"),
    ("shell_environment_policy", "the agent's environment is that of every run"),
];

/// Reads an agent. Returns `None` exactly if there is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    read_as(None, agent_file)
}

/// An agent that `config.toml` declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    pub name: String,
    pub description: Option<String>,
    /// The agent's own file, relative to the folder of `config.toml`.
    pub config_file: Option<String>,
}

/// Returns the agents that a `config.toml` declares. The other keys of the table are settings of Codex.
pub fn read_roles(agent_file: AgentFile<'_>) -> (Vec<Role>, Vec<Diagnostic>) {
    let toml = agent_file.text.strip_prefix('\u{feff}').unwrap_or(agent_file.text);
    let mut diagnostics = Diagnostics::new(agent_file.file, toml);
    if toml.len() > FILE_BYTES_MAX {
        diagnostics.error(SourceLocation::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
        return (Vec::new(), diagnostics.finish());
    }
    let Some(Node { value: NodeValue::Map(settings), .. }) = read_toml(toml, &mut diagnostics) else {
        return (Vec::new(), diagnostics.finish());
    };
    let agents = settings.iter().find(|setting| setting.key == "agents").map(|setting| &setting.node.value);
    let Some(NodeValue::Map(declared)) = agents else { return (Vec::new(), diagnostics.finish()) };
    let tables = declared.iter().filter(|entry| matches!(entry.node.value, NodeValue::Map(_)));
    let roles = tables.filter_map(|entry| read_role_table(entry, &mut diagnostics)).collect();
    (roles, diagnostics.finish())
}

fn read_role_table(entry: &MapEntry, diagnostics: &mut Diagnostics<'_>) -> Option<Role> {
    let mut fields = Fields::open(&entry.node, &format!("agents.{}", entry.key), diagnostics)?;
    let mut take = |key| fields.take(key).and_then(|node| read_text(node, &fields.name(key), diagnostics));
    let (description, config_file) = (take("description"), take("config_file"));
    fields.take("nickname_candidates");
    fields.close(diagnostics);
    Some(Role { name: entry.key.clone(), description, config_file })
}

/// Reads the file of an agent that `config.toml` declares; an agent without a file has an empty text.
pub fn read_role(role: &Role, agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    read_as(Some(role), AgentFile { stem: &role.name, ..agent_file })
}

fn read_as(role: Option<&Role>, agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let toml = agent_file.text.strip_prefix('\u{feff}').unwrap_or(agent_file.text);
    let mut diagnostics = Diagnostics::new(agent_file.file, toml);
    if toml.len() > FILE_BYTES_MAX {
        diagnostics.error(SourceLocation::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
        return (None, diagnostics.finish());
    }
    let node = read_toml(toml, &mut diagnostics);
    let fields = node.as_ref().and_then(|node| Fields::open(node, "", &mut diagnostics));
    let agent = fields.map(|fields| read_fields(fields, role, agent_file, &mut diagnostics));
    let agent = agent.filter(|_| diagnostics.errors() == 0);
    (agent, diagnostics.finish())
}

fn read_fields(
    mut fields: Fields<'_>,
    role: Option<&Role>,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Agent {
    let mut agent = vendor_agent("codex", AgentFormat::Codex, &mut fields, agent_file, diagnostics);
    // As in Codex, name and description of the file have priority over those of its declaration.
    let declared = role.and_then(|role| role.description.as_deref());
    agent.description = match declared.filter(|_| !fields.has("description")) {
        Some(description) => description.trim().to_owned(),
        None => take_description(&mut fields, diagnostics),
    };
    agent.model = take_inherited_model(&mut fields, diagnostics);
    match fields.take("developer_instructions") {
        Some(node) => {
            let prompt = read_text(node, "developer_instructions", diagnostics).unwrap_or_default();
            prompt.trim().clone_into(&mut agent.system_prompt);
        }
        // A declared agent may consist of settings alone.
        None if role.is_some() => {}
        None => {
            let hint = "write developer_instructions = \"\"\"…\"\"\"";
            diagnostics.error_with_hint(fields.location, "the key developer_instructions is missing", hint);
        }
    }
    if let Some(node) = fields.take("model_reasoning_effort") {
        agent.setup.effort = read_word(node, "model_reasoning_effort", "a word for an effort", diagnostics);
    }
    if let Some(node) = fields.take("sandbox_mode") {
        let modes = [
            ("read-only", Level::ReadOnly),
            ("workspace-write", Level::SafeEdit),
            ("danger-full-access", Level::Yolo),
        ];
        agent.setup.permission.level = read_choice(node, "sandbox_mode", &modes, diagnostics);
    }
    if let Some(node) = fields.take("mcp_servers") {
        // The sandbox applies to commands and files: Codex uses the agent's own servers without approval.
        agent.setup.mcp_servers = codex_mcp_servers::read(node, &mut agent.setup.permission, diagnostics);
    }
    take_unsupported(&mut fields, &UNSUPPORTED, diagnostics);
    fields.close(diagnostics);
    agent
}
