//! `.qwen/agents`: the sub-agents of Qwen Code. The keys are Claude Code's and a few of its own.

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;
use domain::permission::Level;
use domain::setup::PromptMode;

use super::AgentFile;
use super::claude::take_permission_mode;
use super::markdown::{self, Frontmatter};
use super::mcp_servers::read_servers;
use super::setup::{read_rules, read_temperature, read_tool_names, take_turns};
use super::shared_keys::{
    COSMETIC_ONLY, take_description, take_inherited_model, take_unsupported, vendor_agent,
};
use crate::text::{Bounds, Diagnostics, Fields, read_choice_or_warn, read_integer};

const MINIMAL: &str = "begin the file with four lines: `---`, `name: NAME`, `description: TEXT`, `---`";
const MINUTE_MS: u64 = 60_000;

/// The meaning of an approval mode; `None` leaves the default level.
const MODES: [(&str, Option<Level>); 5] = [
    ("plan", Some(Level::ReadOnly)),
    ("default", None),
    ("auto-edit", Some(Level::SafeEdit)),
    ("auto_edit", Some(Level::SafeEdit)),
    ("yolo", Some(Level::Yolo)),
];

/// Reads an agent. Returns `None` exactly if there is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, AgentFormat::Qwen, Frontmatter::Required { hint: MINIMAL }, read_fields)
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("qwen", AgentFormat::Qwen, &mut fields, agent_file, diagnostics);
    agent.description = take_description(&mut fields, diagnostics);
    agent.model = take_inherited_model(&mut fields, diagnostics);
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    if let Some(node) = fields.take("disallowedTools") {
        setup.permission.deny = read_rules(node, "disallowedTools", diagnostics);
    }
    let tools = fields.take("tools").map(|node| read_tool_names(node, "tools", diagnostics));
    setup.tools = tools.filter(|tools| !tools.iter().any(|tool| tool == "*"));
    let level = take_permission_mode(&mut fields, diagnostics);
    let approval = fields.take("approvalMode").and_then(|node| {
        read_choice_or_warn(node, "approvalMode", &MODES, "the default level is used", diagnostics)
    });
    // The program's own key has priority over the one that it shares with Claude Code.
    setup.permission.level = approval.unwrap_or(level);
    if let Some(node) = fields.take("mcpServers") {
        setup.mcp_servers = read_servers(node, "mcpServers", diagnostics);
    }
    setup.max_turns = take_turns(&mut fields, "maxTurns", diagnostics);
    if let Some(mut run) =
        fields.take("runConfig").and_then(|node| Fields::open(node, "runConfig", diagnostics))
    {
        setup.max_turns = setup.max_turns.or(take_turns(&mut run, "max_turns", diagnostics));
        if let Some(node) = run.take("max_time_minutes") {
            let minutes = read_integer(
                node,
                "runConfig.max_time_minutes",
                Bounds::from(1).up_to(60 * 24 * 365),
                diagnostics,
            );
            agent.limits.timeout_ms = minutes.map(|minutes| minutes * MINUTE_MS);
        }
        run.close(diagnostics);
    }
    if let Some(mut model) =
        fields.take("modelConfig").and_then(|node| Fields::open(node, "modelConfig", diagnostics))
    {
        agent.model = agent.model.or(take_inherited_model(&mut model, diagnostics));
        setup.temperature = model.take("temp").and_then(|node| read_temperature(node, diagnostics));
        take_unsupported(&mut model, &[("top_p", "the model's default is used")], diagnostics);
        model.close(diagnostics);
    }
    let unsupported = [
        ("hooks", "no hook of the file is run"),
        ("skills", "no skill is loaded before the agent begins; name it in the system prompt"),
        ("background", "the caller decides whether it waits"),
        ("executor", "the agent runs in Qwen Code itself"),
        ("executionBackend", "the agent runs where every run of Volery runs"),
        ("level", "the folder of the file decides"),
        ("color", COSMETIC_ONLY),
    ];
    take_unsupported(&mut fields, &unsupported, diagnostics);
    fields.close(diagnostics);
    Some(agent)
}
