//! `.opencode/agent` and `.opencode/agents`: the agents of opencode, named by their path below that folder unless a name is
//! in the file. `opencode.json` defines agents by the same keys.

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::permission::Level;
use domain::setup::PromptMode;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::opencode_permission;
use super::setup::{read_effort, read_temperature, take_flag, take_turns};
use super::values::{
    ONLY_LOOKS, new_agent, take_description, take_inherited_model, take_path_name, take_unhonoured,
};
use crate::FILE_BYTES_MAX;
use crate::text::{Entry, Fields, Findings, Node, Place, Shape, choice, read_commented_json, text};

/// The agents that opencode has by itself and that nobody can ask for directly: an entry without a prompt only changes how they
/// look or what they may do.
const BUILT_IN: [&str; 5] = ["general", "explore", "compaction", "summary", "title"];
/// The agents of its own that a user talks to. An entry is an agent, with opencode's prompt where it has none.
const PRIMARY: [&str; 2] = ["build", PLAN];
/// It edits nothing.
const PLAN: &str = "plan";

/// Reads an agent. One that is switched off is none, without a finding.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(agent_file, Format::Opencode, Frontmatter::Optional, |mut fields, agent_file, findings| {
        let agent = read_fields(&mut fields, agent_file, findings);
        let of_file = [("prompt", "the text below the frontmatter is the system prompt")];
        take_unhonoured(&mut fields, &of_file, findings);
        fields.close(findings);
        agent
    })
}

/// Reads the agents of a configuration file, `opencode.json` or `opencode.jsonc`. An entry with an error is left out, and
/// the others count.
pub fn read_config(agent_file: AgentFile<'_>) -> (Vec<Agent>, Vec<Diagnostic>) {
    let json = agent_file.text.strip_prefix('\u{feff}').unwrap_or(agent_file.text);
    let mut findings = Findings::new(agent_file.file, json);
    let mut agents = Vec::new();
    if json.len() > FILE_BYTES_MAX {
        findings.error(Place::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
    } else if let Some(Node { shape: Shape::Map(settings), .. }) = read_commented_json(json, &mut findings) {
        // The older key says the same.
        for section in settings.iter().filter(|setting| ["mode", "agent"].contains(&setting.key.as_str())) {
            let Shape::Map(entries) = &section.node.shape else { continue };
            let own = entries.iter().filter(|entry| !only_tunes(entry));
            for entry in own {
                let before = findings.errors();
                let agent = read_entry(entry, agent_file, &mut findings);
                agents.extend(agent.filter(|_| findings.errors() == before));
            }
        }
    }
    (agents, findings.finish())
}

fn only_tunes(entry: &Entry) -> bool {
    let has_prompt =
        matches!(&entry.node.shape, Shape::Map(keys) if keys.iter().any(|key| key.key == "prompt"));
    BUILT_IN.contains(&entry.key.as_str()) && !has_prompt
}

fn read_entry(entry: &Entry, agent_file: AgentFile<'_>, findings: &mut Findings<'_>) -> Option<Agent> {
    let mut fields = Fields::open(&entry.node, &format!("agent.{}", entry.key), findings)?;
    let agent_file = AgentFile { stem: &entry.key, ..agent_file };
    let agent = read_fields(&mut fields, agent_file, findings);
    let prompt = fields.take("prompt").and_then(|node| text(node, &fields.name("prompt"), findings));
    fields.close(findings);
    let mut agent = agent?;
    agent.system_prompt = prompt.unwrap_or_default().trim().to_owned();
    let permission = &mut agent.setup.permission;
    if entry.key == PLAN && permission.level.is_none() {
        permission.level = Some(Level::ReadOnly);
    }
    Some(agent)
}

/// Who may ask for the agent.
#[derive(Clone, Copy)]
enum Mode {
    Direct,
    /// Only other agents of opencode.
    Below,
}

fn read_fields(
    fields: &mut Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    let name = take_path_name(fields, agent_file.stem, findings);
    let mut agent = new_agent(name, "opencode", Format::Opencode, agent_file);
    agent.description = match PRIMARY.contains(&agent_file.stem) && !fields.has("description") {
        true => format!("opencode's own agent {}, as the configuration changes it", agent_file.stem),
        false => take_description(fields, findings),
    };
    agent.model = take_inherited_model(fields, findings);
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    let mut mode = Mode::Direct;
    if let Some(node) = fields.take("mode") {
        let modes = [("primary", Mode::Direct), ("subagent", Mode::Below), ("all", Mode::Direct)];
        mode = choice(node, "mode", &modes, findings).unwrap_or(mode);
    }
    // The program runs another agent without an error if it is asked for one that stands below others.
    if let Mode::Direct = mode {
        setup.vendor_agent = Some(agent_file.stem.to_owned());
    }
    // The older key says the same.
    let turns = [take_turns(fields, "steps", findings), take_turns(fields, "maxSteps", findings)];
    setup.max_turns = turns.into_iter().flatten().next();
    setup.effort = fields.take("variant").and_then(|node| read_effort(node, "variant", findings));
    let (tools, permission) = (fields.take("tools"), fields.take("permission"));
    setup.permission = opencode_permission::read(tools, permission, findings);
    setup.temperature = fields.take("temperature").and_then(|node| read_temperature(node, findings));
    let disabled = take_flag(fields, "disable", findings);
    let unhonoured = [
        ("top_p", "opencode's default holds"),
        ("options", "opencode's default holds"),
        ("hidden", "the agent is listed like the others"),
        ("color", ONLY_LOOKS),
    ];
    take_unhonoured(fields, &unhonoured, findings);
    (!disabled).then_some(agent)
}
