//! `.qwen/agents`: the sub-agents of Qwen Code. The keys are Claude Code's and a few of its own.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::permission::Level;
use domain::setup::PromptMode;

use super::AgentFile;
use super::claude::take_permission_mode;
use super::markdown::{self, Frontmatter};
use super::servers::read_servers;
use super::setup::{names, read_rules, read_temperature, take_turns};
use super::values::{ONLY_LOOKS, take_description, take_inherited_model, take_unhonoured, vendor_agent};
use crate::text::{Bounds, Fields, Findings, amount, choice_or_warning};

const MINIMAL: &str = "begin the file with four lines: `---`, `name: NAME`, `description: TEXT`, `---`";
const MINUTE_MS: u64 = 60_000;

/// What an approval mode means here; `None` leaves the default level.
const MODES: [(&str, Option<Level>); 5] = [
    ("plan", Some(Level::ReadOnly)),
    ("default", None),
    ("auto-edit", Some(Level::SafeEdit)),
    ("auto_edit", Some(Level::SafeEdit)),
    ("yolo", Some(Level::Yolo)),
];

/// Reads an agent. There is one exactly if no finding is an error.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, Format::Qwen, Frontmatter::Required { hint: MINIMAL }, read_fields)
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("qwen", Format::Qwen, &mut fields, agent_file, findings);
    agent.description = take_description(&mut fields, findings);
    agent.model = take_inherited_model(&mut fields, findings);
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    if let Some(node) = fields.take("disallowedTools") {
        setup.permission.deny = read_rules(node, "disallowedTools", findings);
    }
    let tools = fields.take("tools").map(|node| names(node, "tools", findings));
    setup.tools = tools.filter(|tools| !tools.iter().any(|tool| tool == "*"));
    let level = take_permission_mode(&mut fields, findings);
    let approval = fields.take("approvalMode").and_then(|node| {
        choice_or_warning(node, "approvalMode", &MODES, "the default level is used", findings)
    });
    // The program's own key comes before the one that it shares with Claude Code.
    setup.permission.level = approval.unwrap_or(level);
    if let Some(node) = fields.take("mcpServers") {
        setup.mcp_servers = read_servers(node, "mcpServers", findings);
    }
    setup.max_turns = take_turns(&mut fields, "maxTurns", findings);
    if let Some(mut run) = fields.take("runConfig").and_then(|node| Fields::open(node, "runConfig", findings))
    {
        setup.max_turns = setup.max_turns.or(take_turns(&mut run, "max_turns", findings));
        if let Some(node) = run.take("max_time_minutes") {
            let minutes =
                amount(node, "runConfig.max_time_minutes", Bounds::from(1).up_to(60 * 24 * 365), findings);
            agent.limits.timeout_ms = minutes.map(|minutes| minutes * MINUTE_MS);
        }
        run.close(findings);
    }
    if let Some(mut model) =
        fields.take("modelConfig").and_then(|node| Fields::open(node, "modelConfig", findings))
    {
        agent.model = agent.model.or(take_inherited_model(&mut model, findings));
        setup.temperature = model.take("temp").and_then(|node| read_temperature(node, findings));
        take_unhonoured(&mut model, &[("top_p", "the model's default is used")], findings);
        model.close(findings);
    }
    let unhonoured = [
        ("hooks", "no hook of the file is run"),
        ("skills", "no skill is loaded before the agent begins; name it in the system prompt"),
        ("background", "the caller decides whether it waits"),
        ("executor", "the agent runs in Qwen Code itself"),
        ("executionBackend", "the agent runs where every run of Volery runs"),
        ("level", "the folder of the file decides"),
        ("color", ONLY_LOOKS),
    ];
    take_unhonoured(&mut fields, &unhonoured, findings);
    fields.close(findings);
    Some(agent)
}
