//! `.opencode/agent` and `.opencode/agents`: the agents of opencode, named by their path below that folder unless the
//! file contains a name. `opencode.json` defines agents with the same keys.

use domain::agent::{Agent, AgentFormat};
use domain::diagnostic::Diagnostic;
use domain::permission::Level;
use domain::setup::PromptMode;

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::opencode_permission;
use super::setup::{read_effort, read_temperature, take_flag, take_turns};
use super::shared_keys::{
    COSMETIC_ONLY, new_agent, take_description, take_inherited_model, take_path_name, take_unsupported,
};
use crate::FILE_BYTES_MAX;
use crate::text::{
    Diagnostics, Fields, MapEntry, Node, NodeValue, SourceLocation, read_choice, read_commented_json,
    read_text,
};

/// opencode's built-in agents that cannot be run directly: an entry without a prompt only changes their appearance or
/// permission.
const BUILT_IN: [&str; 5] = ["general", "explore", "compaction", "summary", "title"];
/// opencode's built-in agents for users. An entry is an agent, with opencode's prompt if it has none.
const PRIMARY: [&str; 2] = ["build", PLAN];
/// It edits nothing.
const PLAN: &str = "plan";

/// Reads an agent. A disabled one gives `None` without a diagnostic.
pub fn read(agent_file: AgentFile<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    markdown::read(
        agent_file,
        AgentFormat::Opencode,
        Frontmatter::Optional,
        |mut fields, agent_file, diagnostics| {
            let agent = read_fields(&mut fields, agent_file, diagnostics);
            let ignored_in_files = [("prompt", "the text below the frontmatter is the system prompt")];
            take_unsupported(&mut fields, &ignored_in_files, diagnostics);
            fields.close(diagnostics);
            agent
        },
    )
}

/// Reads the agents of a configuration file, `opencode.json` or `opencode.jsonc`. An entry with an error is left out.
pub fn read_config(agent_file: AgentFile<'_>) -> (Vec<Agent>, Vec<Diagnostic>) {
    let json = agent_file.text.strip_prefix('\u{feff}').unwrap_or(agent_file.text);
    let mut diagnostics = Diagnostics::new(agent_file.file, json);
    let mut agents = Vec::new();
    if json.len() > FILE_BYTES_MAX {
        diagnostics.error(SourceLocation::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
    } else if let Some(Node { value: NodeValue::Map(settings), .. }) =
        read_commented_json(json, &mut diagnostics)
    {
        // `mode` is the older key with the same meaning.
        for section in settings.iter().filter(|setting| ["mode", "agent"].contains(&setting.key.as_str())) {
            let NodeValue::Map(entries) = &section.node.value else { continue };
            let own = entries.iter().filter(|entry| !only_adjusts_built_in(entry));
            for entry in own {
                let before = diagnostics.errors();
                let agent = read_entry(entry, agent_file, &mut diagnostics);
                agents.extend(agent.filter(|_| diagnostics.errors() == before));
            }
        }
    }
    (agents, diagnostics.finish())
}

fn only_adjusts_built_in(entry: &MapEntry) -> bool {
    let has_prompt =
        matches!(&entry.node.value, NodeValue::Map(keys) if keys.iter().any(|key| key.key == "prompt"));
    BUILT_IN.contains(&entry.key.as_str()) && !has_prompt
}

fn read_entry(
    entry: &MapEntry,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Agent> {
    let mut fields = Fields::open(&entry.node, &format!("agent.{}", entry.key), diagnostics)?;
    let agent_file = AgentFile { stem: &entry.key, ..agent_file };
    let agent = read_fields(&mut fields, agent_file, diagnostics);
    let prompt = fields.take("prompt").and_then(|node| read_text(node, &fields.name("prompt"), diagnostics));
    fields.close(diagnostics);
    let mut agent = agent?;
    agent.system_prompt = prompt.unwrap_or_default().trim().to_owned();
    let permission = &mut agent.setup.permission;
    if entry.key == PLAN && permission.level.is_none() {
        permission.level = Some(Level::ReadOnly);
    }
    Some(agent)
}

/// The callers that may run the agent.
#[derive(Clone, Copy)]
enum AgentMode {
    Direct,
    /// Only other agents of opencode.
    SubagentOnly,
}

fn read_fields(
    fields: &mut Fields<'_>,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Agent> {
    let name = take_path_name(fields, agent_file.stem, diagnostics);
    let mut agent = new_agent(name, "opencode", AgentFormat::Opencode, agent_file);
    agent.description = match PRIMARY.contains(&agent_file.stem) && !fields.has("description") {
        true => format!("opencode's own agent {}, as the configuration changes it", agent_file.stem),
        false => take_description(fields, diagnostics),
    };
    agent.model = take_inherited_model(fields, diagnostics);
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    let mut mode = AgentMode::Direct;
    if let Some(node) = fields.take("mode") {
        let modes = [
            ("primary", AgentMode::Direct),
            ("subagent", AgentMode::SubagentOnly),
            ("all", AgentMode::Direct),
        ];
        mode = read_choice(node, "mode", &modes, diagnostics).unwrap_or(mode);
    }
    // opencode silently runs another agent instead of a sub-agent.
    if let AgentMode::Direct = mode {
        setup.vendor_agent = Some(agent_file.stem.to_owned());
    }
    // `maxSteps` is the older key with the same meaning.
    let turns = [take_turns(fields, "steps", diagnostics), take_turns(fields, "maxSteps", diagnostics)];
    setup.max_turns = turns.into_iter().flatten().next();
    setup.effort = fields.take("variant").and_then(|node| read_effort(node, "variant", diagnostics));
    let (tools, permission) = (fields.take("tools"), fields.take("permission"));
    setup.permission = opencode_permission::read(tools, permission, diagnostics);
    setup.temperature = fields.take("temperature").and_then(|node| read_temperature(node, diagnostics));
    let disabled = take_flag(fields, "disable", diagnostics);
    let unsupported = [
        ("top_p", "opencode's default holds"),
        ("options", "opencode's default holds"),
        ("hidden", "the agent is listed like the others"),
        ("color", COSMETIC_ONLY),
    ];
    take_unsupported(fields, &unsupported, diagnostics);
    (!disabled).then_some(agent)
}
