//! Kiro's JSON, with what budgie puts beside it: a prompt file that describes the agent, and the templates by which
//! an agent answers into a file. Kiro reads its own file by itself, so it is only told the agent's name.

use std::collections::BTreeSet;

use domain::agent::{Agent, Format};
use domain::diagnostic::Diagnostic;
use domain::permission::Rule;
use domain::setup::{ResponseFile, Setup, SubmitResult};

use super::AgentFile;
use super::servers::read_servers;
use super::setup::{names, parse_rule, read_rules, take_texts};
use super::values::{parse_name, read_model, take_unhonoured, vendor_agent};
use crate::FILE_BYTES_MAX;
use crate::frontmatter::{self, Missing};
use crate::text::{Fields, Findings, Node, Place, Shape, YamlText, flag, quoted, read_json, read_yaml, text};

/// Budgie offers an agent to others only if its description begins so.
const PREFIX: &str = "sub-agent:";
/// The agent of budgie that asks the others.
const ORCHESTRATOR: &str = "orchestrator";

/// The tools that Kiro has by itself.
const OWN_TOOLS: [&str; 9] = [
    "fs_read",
    "fs_write",
    "execute_bash",
    "use_aws",
    "knowledge",
    "introspect",
    "report_issue",
    "thinking",
    "todo_list",
];
/// What later versions call some of them, and what they have beside them.
const SHORT_NAMES: [&str; 10] =
    ["read", "write", "shell", "aws", "glob", "grep", "code", "web_fetch", "web_search", "subagent"];

/// What stands beside an agent's file. All of it is read anew each time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// The prompt file of the agent, and how messages name it.
    pub prompt: Option<(&'a str, &'a str)>,
    /// `_system.md`.
    pub system_template: Option<&'a str>,
    /// `_context-summary.md`.
    pub summary_template: Option<&'a str>,
    /// Only what budgie would offer is an agent; otherwise every file is one, as it is for Kiro.
    pub sub_agents_only: bool,
}

/// Returns the name in a file, for the caller to find what stands beside it.
pub fn name_of(json: &str, stem: &str) -> String {
    let mut findings = Findings::new("", json);
    let node = read_json(strip_mark(json), &mut findings);
    let entries = match node.map(|node| node.shape) {
        Some(Shape::Map(entries)) => entries,
        Some(_) | None => Vec::new(),
    };
    let name = entries.into_iter().rfind(|entry| entry.key == "name").map(|entry| entry.node.shape);
    match name {
        Some(Shape::Text(name)) => name,
        Some(_) | None => stem.to_owned(),
    }
}

/// Reads an agent. One that budgie would not offer is none where only those count, without a finding.
pub fn read(agent_file: AgentFile<'_>, mut beside: Beside<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let json = strip_mark(agent_file.text);
    let mut findings = Findings::new(agent_file.file, json);
    let mut agent = None;
    if json.len() > FILE_BYTES_MAX {
        findings.error(Place::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
    } else if let Some(node) = read_json(json, &mut findings) {
        let is_sub_agent = is_sub_agent(&node);
        let fields = Fields::open(&node, "", &mut findings);
        let fields = fields.filter(|_| is_sub_agent || !beside.sub_agents_only);
        if !is_sub_agent {
            // Budgie's prompts and templates are about its sub-agents.
            beside = Beside { sub_agents_only: beside.sub_agents_only, ..Beside::default() };
        }
        agent = fields.map(|fields| read_fields(fields, agent_file, beside, &mut findings));
    }
    let failed = findings.errors() > 0;
    let mut found = findings.finish();
    if let (Some(agent), Some((text, file))) = (&mut agent, beside.prompt) {
        let (described, of_prompt) = read_prompt(text, file, agent);
        found.extend(of_prompt);
        if !described {
            return (None, found);
        }
    }
    (agent.filter(|_| !failed), found)
}

fn strip_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn is_sub_agent(node: &Node) -> bool {
    let Shape::Map(entries) = &node.shape else { return false };
    let value = |key: &str| entries.iter().rfind(|entry| entry.key == key).map(|entry| &entry.node.shape);
    let orchestrates = matches!(value("name"), Some(Shape::Text(name)) if name == ORCHESTRATOR);
    let described = matches!(value("description"), Some(Shape::Text(text)) if after_prefix(text).is_some());
    described && !orchestrates
}

fn after_prefix(description: &str) -> Option<&str> {
    let description = description.trim_start();
    let head = description.get(..PREFIX.len())?;
    head.eq_ignore_ascii_case(PREFIX).then(|| description[PREFIX.len()..].trim())
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    beside: Beside<'_>,
    findings: &mut Findings<'_>,
) -> Agent {
    fields.take("$schema");
    let mut agent = vendor_agent("kiro", Format::Kiro, &mut fields, agent_file, findings);
    let description = fields.take("description").and_then(|node| text(node, "description", findings));
    if let Some(description) = &description {
        after_prefix(description).unwrap_or(description.trim()).clone_into(&mut agent.description);
    }
    agent.model = fields.take("model").and_then(|node| read_model(node, findings));
    if let Some(node) = fields.take("prompt") {
        let prompt = text(node, "prompt", findings).unwrap_or_default();
        // A file is for Kiro to find, which has rules of its own about where.
        agent.system_prompt = if prompt.starts_with("file://") { String::new() } else { prompt };
    }
    let setup = &mut agent.setup;
    setup.vendor_agent = Some(name_of(agent_file.text, agent_file.stem));
    let tools = fields.take("tools").map(|node| names(node, "tools", findings));
    setup.tools = tools.filter(|tools| !tools.iter().any(|tool| tool == "*")).map(with_names);
    if let Some(node) = fields.take("allowedTools") {
        setup.permission.allow = read_allowed(node, findings);
    }
    if let Some(node) = fields.take("mcpServers") {
        setup.mcp_servers = read_servers(node, "mcpServers", findings);
    }
    if let Some(node) = fields.take("hooks") {
        collect_commands(node, &mut agent.hooks);
    }
    // Kiro reads these in its own file.
    for key in [
        "toolAliases",
        "toolsSettings",
        "resources",
        "welcomeMessage",
        "permissions",
        "excludedTools",
        "includePowers",
    ] {
        fields.take(key);
    }
    for key in ["useLegacyMcpJson", "includeMcpJson"] {
        let Some(node) = fields.take(key) else { continue };
        if flag(node, key, findings) == Some(true) {
            agent.setup.vendor_file = Some(vendor_file(agent_file.text));
            let message = format!("{key} is not honoured: an agent gets only the servers of its own file");
            findings.warning(node.place, message);
        }
    }
    let unhonoured = [("keyboardShortcut", "there is nobody to press it")];
    take_unhonoured(&mut fields, &unhonoured, findings);
    let place = fields.place;
    fields.close(findings);
    if let Some(protocol) = response_file(beside) {
        match without_writing(&agent.setup) {
            None => agent.setup.response_file = Some(protocol),
            Some(key) => {
                agent.setup.submit_result = Some(submit_result(agent_file.text));
                let message = format!(
                    "{key} has no fs_write, so the agent answers by the tool submit_result and not into a file"
                );
                findings.warning(place, message);
            }
        }
    }
    agent
}

/// Puts the names of Kiro's own tools in the place of the word for them.
fn with_names(tools: Vec<String>) -> Vec<String> {
    let names = |tool: String| match tool.as_str() {
        "@builtin" => OWN_TOOLS.map(ToOwned::to_owned).to_vec(),
        _ => vec![tool],
    };
    tools.into_iter().flat_map(names).collect()
}

/// Reads the tools that need no question, with what stands for several of Kiro's own put into names: what is wider than
/// the file must not be granted.
fn read_allowed(node: &Node, findings: &mut Findings<'_>) -> Vec<Rule> {
    const NAME: &str = "allowedTools";
    let mut allowed: Vec<Rule> = Vec::new();
    let mut known = BTreeSet::new();
    for rule in read_rules(node, NAME, findings) {
        let names: Vec<&str> = match rule.spelling() {
            "*" => {
                let message = "allowedTools: \"*\" is not honoured: Kiro knows no word for every tool";
                findings.warning_with_hint(
                    node.place,
                    message,
                    "write @builtin, and @SERVER for each server",
                );
                continue;
            }
            "@builtin" => OWN_TOOLS.to_vec(),
            pattern if !pattern.starts_with('@') && pattern.contains(['*', '?']) => {
                let own = OWN_TOOLS.iter().chain(&SHORT_NAMES).copied();
                let names: Vec<&str> = own.filter(|name| matches_name(pattern, name)).collect();
                if names.is_empty() {
                    let message = format!("allowedTools: {} matches no tool of Kiro's", quoted(pattern));
                    findings.warning(node.place, message);
                }
                names
            }
            name => vec![name],
        };
        for name in names {
            let rule = parse_rule(name, NAME, node, findings);
            allowed.extend(rule.filter(|rule| known.insert(rule.clone())));
        }
    }
    allowed
}

/// `*` stands for anything, `?` for one letter.
fn matches_name(pattern: &str, name: &str) -> bool {
    let letters: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // Whether the rest of the name from each place on matches the pattern from the one at hand on.
    let mut rest: Vec<bool> = (0..=name.len()).map(|at| at == name.len()).collect();
    for letter in letters.iter().rev() {
        let mut now = vec![false; name.len() + 1];
        for at in (0..=name.len()).rev() {
            now[at] = match letter {
                '*' => rest[at] || (at < name.len() && now[at + 1]),
                letter => at < name.len() && (*letter == '?' || *letter == name[at]) && rest[at + 1],
            };
        }
        rest = now;
    }
    rest[0]
}

/// Returns the key by which an agent cannot write the file that holds its answer.
fn without_writing(setup: &Setup) -> Option<&'static str> {
    const NAMES: [&str; 2] = ["fs_write", "write"];
    let offered =
        |tools: &Vec<String>| tools.iter().any(|tool| NAMES.iter().any(|name| matches_name(tool, name)));
    match setup.permission.allow.iter().any(|rule| NAMES.contains(&rule.tool())) {
        false => Some("allowedTools"),
        true if !setup.tools.as_ref().is_none_or(offered) => Some("tools"),
        true => None,
    }
}

/// Returns what an agent's own file is to have beside our tool. Its servers are in the setup, where secrets are known.
fn submit_result(json: &str) -> SubmitResult {
    SubmitResult { vendor_file: vendor_file(json) }
}

/// Returns an agent's own file without its servers, which are in the setup.
fn vendor_file(json: &str) -> serde_json::Map<String, serde_json::Value> {
    let file = serde_json::from_str::<serde_json::Map<_, _>>(strip_mark(json));
    let mut vendor_file = file.unwrap_or_default();
    vendor_file.remove("mcpServers");
    vendor_file
}

fn response_file(beside: Beside<'_>) -> Option<ResponseFile> {
    let template = beside.system_template.map(str::trim).filter(|template| !template.is_empty())?;
    let summary = beside.summary_template.map(str::trim).filter(|template| !template.is_empty());
    Some(ResponseFile {
        template: template.replace('\0', ""),
        summary_template: summary.map(|template| template.replace('\0', "")),
    })
}

/// Collects every `command` below a node, whatever the shape of hooks in this version of Kiro.
fn collect_commands(node: &Node, commands: &mut Vec<String>) {
    match &node.shape {
        Shape::List(items) => items.iter().for_each(|item| collect_commands(item, commands)),
        Shape::Map(entries) => {
            for entry in entries {
                match &entry.node.shape {
                    Shape::Text(command) if entry.key == "command" => commands.push(command.clone()),
                    Shape::Text(_)
                    | Shape::List(_)
                    | Shape::Map(_)
                    | Shape::Nothing
                    | Shape::Truth(_)
                    | Shape::Integer(_)
                    | Shape::Number(_)
                    | Shape::Moment => collect_commands(&entry.node, commands),
                }
            }
        }
        Shape::Text(_)
        | Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment => {}
    }
}

/// Reads the frontmatter of the prompt file into the agent; its body is the vendor's business. Tells whether it
/// could be read.
fn read_prompt(prompt: &str, file: &str, agent: &mut Agent) -> (bool, Vec<Diagnostic>) {
    let text = frontmatter::normalize(prompt);
    let mut findings = Findings::new(file, &text);
    let parts = match frontmatter::split(&text) {
        Ok(parts) => parts,
        // A prompt without frontmatter describes nothing, which is allowed.
        Err(Missing::Begin) => return (true, Vec::new()),
        Err(Missing::End) => {
            findings.error(Place::START, "the frontmatter has no end");
            return (false, findings.finish());
        }
    };
    let node = read_yaml(YamlText { text: parts.yaml, lines_before: parts.lines_before }, &mut findings);
    let fields = node.as_ref().filter(|node| node.shape != Shape::Nothing);
    if let Some(fields) = fields.and_then(|node| Fields::open(node, "", &mut findings)) {
        take_prompt_fields(fields, agent, &mut findings);
    }
    (findings.errors() == 0, findings.finish())
}

fn take_prompt_fields(mut fields: Fields<'_>, agent: &mut Agent, findings: &mut Findings<'_>) {
    if let Some(node) = fields.take("name")
        && let Some(name) = text(node, "name", findings)
        && parse_name(&name, node.place, findings).is_some_and(|name| name != agent.name)
    {
        let message =
            format!("name: {} is not the agent {} that the file belongs to", quoted(&name), agent.name);
        findings.warning(node.place, message);
    }
    if let Some(description) = fields.take("description").and_then(|node| text(node, "description", findings))
    {
        let description = after_prefix(&description).unwrap_or(description.trim());
        description.clone_into(&mut agent.description);
    }
    agent.capabilities = take_texts(&mut fields, "capabilities", findings);
    agent.use_when = take_texts(&mut fields, "use_when", findings);
    agent.avoid_when = take_texts(&mut fields, "avoid_when", findings);
    agent.tags = take_texts(&mut fields, "tags", findings);
    if let Some(node) = fields.take("model") {
        agent.model = read_model(node, findings).or_else(|| agent.model.clone());
    }
    if let Some(node) = fields.take("tools") {
        let described = names(node, "tools", findings);
        let more = described
            .iter()
            .filter(|tool| !agent.setup.permission.allow.iter().any(|rule| rule.tool() == *tool));
        let more: Vec<&str> = more.map(String::as_str).collect();
        if !more.is_empty() {
            let message =
                format!("tools: {} is not among the agent's allowedTools, which decide", more.join(", "));
            findings.warning(node.place, message);
        }
    }
    fields.close(findings);
}
