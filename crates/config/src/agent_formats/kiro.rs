//! Kiro's JSON, with budgie's additional files: a prompt file that describes the agent, and templates for an agent
//! that writes its answer to a file. Kiro reads the agent's file itself and gets only the name.

use std::collections::BTreeSet;

use domain::agent::{Agent, AgentFormat, LimitedFile};
use domain::diagnostic::Diagnostic;
use domain::permission::Rule;
use domain::setup::{ResponseFile, Setup, SubmitResult};
use serde_json::Value;

use super::AgentFile;
use super::mcp_servers::read_servers;
use super::setup::{parse_rule, read_rules, read_tool_names, take_texts};
use super::shared_keys::{parse_name, read_model, take_unsupported, vendor_agent};
use crate::FILE_BYTES_MAX;
use crate::frontmatter::{self, Missing};
use crate::text::{
    Diagnostics, Fields, Node, NodeValue, SourceLocation, YamlText, quote, read_bool, read_json, read_text,
    read_yaml,
};

/// Budgie's sub-agents have this prefix in their description.
const PREFIX: &str = "sub-agent:";
/// The agent of budgie that delegates to the others.
const ORCHESTRATOR: &str = "orchestrator";

/// Kiro's built-in tools.
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
/// Shorter names of some of them, and further tools, in later versions.
const SHORT_NAMES: [&str; 10] =
    ["read", "write", "shell", "aws", "glob", "grep", "code", "web_fetch", "web_search", "subagent"];

/// The keys that allow something beyond `allowedTools`, and what stays of them if the file must not allow anything.
const GRANTING_KEYS: [&str; 2] = ["toolsSettings", "permissions"];
const DENYING_SETTINGS: [&str; 5] =
    ["blocked", "deniedCommands", "deniedPaths", "deniedServices", "denyByDefault"];
const DENYING_EFFECTS: [&str; 2] = ["ask", "deny"];

/// The other files of an agent. All of them are read again each time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SidecarFiles<'a> {
    /// The prompt file of the agent, and its name in messages.
    pub prompt: Option<(&'a str, &'a str)>,
    /// `_system.md`.
    pub system_template: Option<&'a str>,
    /// `_context-summary.md`.
    pub summary_template: Option<&'a str>,
    /// Only budgie's sub-agents are agents; otherwise every file is one, as in Kiro.
    pub sub_agents_only: bool,
}

/// Returns the name in a file, with which the caller finds the other files.
pub fn declared_name(json: &str, stem: &str) -> String {
    let mut diagnostics = Diagnostics::new("", json);
    let node = read_json(strip_byte_order_mark(json), &mut diagnostics);
    let entries = match node.map(|node| node.value) {
        Some(NodeValue::Map(entries)) => entries,
        Some(_) | None => Vec::new(),
    };
    let name = entries.into_iter().rfind(|entry| entry.key == "name").map(|entry| entry.node.value);
    match name {
        Some(NodeValue::String(name)) => name,
        Some(_) | None => stem.to_owned(),
    }
}

/// Reads an agent. If only sub-agents count, any other agent gives `None` without a diagnostic.
pub fn read(agent_file: AgentFile<'_>, mut sidecars: SidecarFiles<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let json = strip_byte_order_mark(agent_file.text);
    let mut diagnostics = Diagnostics::new(agent_file.file, json);
    let mut agent = None;
    if json.len() > FILE_BYTES_MAX {
        diagnostics.error(SourceLocation::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
    } else if let Some(node) = read_json(json, &mut diagnostics) {
        let is_sub_agent = is_sub_agent(&node);
        let fields = Fields::open(&node, "", &mut diagnostics);
        let fields = fields.filter(|_| is_sub_agent || !sidecars.sub_agents_only);
        if !is_sub_agent {
            // Budgie's prompts and templates apply only to its sub-agents.
            sidecars = SidecarFiles { sub_agents_only: sidecars.sub_agents_only, ..SidecarFiles::default() };
        }
        agent = fields.map(|fields| read_fields(fields, agent_file, sidecars, &mut diagnostics));
    }
    let failed = diagnostics.errors() > 0;
    let mut diagnostics = diagnostics.finish();
    if let (Some(agent), Some((text, file))) = (&mut agent, sidecars.prompt) {
        let (described, prompt_diagnostics) = read_prompt(text, file, agent);
        diagnostics.extend(prompt_diagnostics);
        if !described {
            return (None, diagnostics);
        }
    }
    (agent.filter(|_| !failed), diagnostics)
}

fn strip_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn is_sub_agent(node: &Node) -> bool {
    let NodeValue::Map(entries) = &node.value else { return false };
    let value = |key: &str| entries.iter().rfind(|entry| entry.key == key).map(|entry| &entry.node.value);
    let orchestrates = matches!(value("name"), Some(NodeValue::String(name)) if name == ORCHESTRATOR);
    let described = matches!(value("description"), Some(NodeValue::String(text)) if strip_sub_agent_prefix(text).is_some());
    described && !orchestrates
}

fn strip_sub_agent_prefix(description: &str) -> Option<&str> {
    let description = description.trim_start();
    let head = description.get(..PREFIX.len())?;
    head.eq_ignore_ascii_case(PREFIX).then(|| description[PREFIX.len()..].trim())
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    sidecars: SidecarFiles<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Agent {
    fields.take("$schema");
    let mut agent = vendor_agent("kiro", AgentFormat::Kiro, &mut fields, agent_file, diagnostics);
    let description = fields.take("description").and_then(|node| read_text(node, "description", diagnostics));
    if let Some(description) = &description {
        strip_sub_agent_prefix(description).unwrap_or(description.trim()).clone_into(&mut agent.description);
    }
    agent.model = fields.take("model").and_then(|node| read_model(node, diagnostics));
    if let Some(node) = fields.take("prompt") {
        let prompt = read_text(node, "prompt", diagnostics).unwrap_or_default();
        // Kiro has its own rules for finding this file.
        agent.system_prompt = if prompt.starts_with("file://") { String::new() } else { prompt };
    }
    let setup = &mut agent.setup;
    setup.vendor_agent = Some(declared_name(agent_file.text, agent_file.stem));
    let tools = fields.take("tools").map(|node| read_tool_names(node, "tools", diagnostics));
    setup.tools = tools.filter(|tools| !tools.iter().any(|tool| tool == "*")).map(expand_builtin_tools);
    if let Some(node) = fields.take("allowedTools") {
        setup.permission.allow = read_allowed_tools(node, diagnostics);
    }
    if let Some(node) = fields.take("mcpServers") {
        setup.mcp_servers = read_servers(node, "mcpServers", diagnostics);
    }
    if let Some(node) = fields.take("hooks") {
        collect_commands(node, &mut agent.hooks);
    }
    agent.limited_file = Some(limited_file(agent_file.text));
    // Kiro reads these keys itself.
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
        if read_bool(node, key, diagnostics) == Some(true) {
            agent.setup.vendor_file = Some(vendor_file(agent_file.text));
            let message = format!("{key} is not honoured: an agent gets only the servers of its own file");
            diagnostics.warning(node.location, message);
        }
    }
    let unsupported = [("keyboardShortcut", "there is nobody to press it")];
    take_unsupported(&mut fields, &unsupported, diagnostics);
    let location = fields.location;
    fields.close(diagnostics);
    if let Some(protocol) = response_file(sidecars) {
        match key_without_write_tool(&agent.setup) {
            None => agent.setup.response_file = Some(protocol),
            Some(key) => {
                agent.setup.submit_result = Some(submit_result(agent_file.text));
                let message = format!(
                    "{key} has no fs_write, so the agent answers by the tool submit_result and not into a file"
                );
                diagnostics.warning(location, message);
            }
        }
    }
    agent
}

/// Replaces `@builtin` with the names of Kiro's built-in tools.
fn expand_builtin_tools(tools: Vec<String>) -> Vec<String> {
    let names = |tool: String| match tool.as_str() {
        "@builtin" => OWN_TOOLS.map(ToOwned::to_owned).to_vec(),
        _ => vec![tool],
    };
    tools.into_iter().flat_map(names).collect()
}

/// Reads the tools that need no approval. Wildcards become the names of built-in tools, because a rule must not allow
/// more than the file does.
fn read_allowed_tools(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Vec<Rule> {
    const NAME: &str = "allowedTools";
    let mut allowed: Vec<Rule> = Vec::new();
    let mut known = BTreeSet::new();
    for rule in read_rules(node, NAME, diagnostics) {
        let names: Vec<&str> = match rule.spelling() {
            "*" => {
                let message = "allowedTools: \"*\" is not honoured: Kiro knows no word for every tool";
                diagnostics.warning_with_hint(
                    node.location,
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
                    let message = format!("allowedTools: {} matches no tool of Kiro's", quote(pattern));
                    diagnostics.warning(node.location, message);
                }
                names
            }
            name => vec![name],
        };
        for name in names {
            let rule = parse_rule(name, NAME, node, diagnostics);
            allowed.extend(rule.filter(|rule| known.insert(rule.clone())));
        }
    }
    allowed
}

/// `*` matches anything, `?` one character.
fn matches_name(pattern: &str, name: &str) -> bool {
    let letters: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // For each offset, whether the name from there on matches the pattern from the current character on.
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

/// Returns the key because of which an agent cannot write the file with its answer.
fn key_without_write_tool(setup: &Setup) -> Option<&'static str> {
    const NAMES: [&str; 2] = ["fs_write", "write"];
    let offered =
        |tools: &Vec<String>| tools.iter().any(|tool| NAMES.iter().any(|name| matches_name(tool, name)));
    match setup.permission.allow.iter().any(|rule| NAMES.contains(&rule.tool())) {
        false => Some("allowedTools"),
        true if !setup.tools.as_ref().is_none_or(offered) => Some("tools"),
        true => None,
    }
}

/// Returns the agent's own file, to which Volery's tool is added. Its servers are in the setup, where secrets are known.
fn submit_result(json: &str) -> SubmitResult {
    SubmitResult { vendor_file: vendor_file(json) }
}

/// Returns an agent's own file without its servers, which are in the setup.
fn vendor_file(json: &str) -> serde_json::Map<String, Value> {
    let file = serde_json::from_str::<serde_json::Map<_, _>>(strip_byte_order_mark(json));
    let mut vendor_file = file.unwrap_or_default();
    vendor_file.remove("mcpServers");
    vendor_file
}

/// Returns an agent's own file without what it allows: Kiro adds that to the tools of its command line. What it denies
/// stays.
fn limited_file(json: &str) -> LimitedFile {
    let file = vendor_file(json);
    let mut content = file.clone();
    content.remove("allowedTools");
    for (_, tool) in content.get_mut("toolsSettings").and_then(Value::as_object_mut).into_iter().flatten() {
        if let Value::Object(settings) = tool {
            settings.retain(|key, _| DENYING_SETTINGS.contains(&key.as_str()));
        }
    }
    if let Some(Value::Array(rules)) = content.get_mut("permissions") {
        rules.retain(|rule| DENYING_EFFECTS.iter().any(|effect| rule["effect"] == **effect));
    }
    let withheld = GRANTING_KEYS.into_iter().filter(|key| content.get(*key) != file.get(*key));
    let withheld = withheld.filter_map(|key| Some((key, file.get(key)?.clone()))).collect();
    LimitedFile { content, withheld }
}

fn response_file(sidecars: SidecarFiles<'_>) -> Option<ResponseFile> {
    let template = sidecars.system_template.map(str::trim).filter(|template| !template.is_empty())?;
    let summary = sidecars.summary_template.map(str::trim).filter(|template| !template.is_empty());
    Some(ResponseFile {
        template: template.replace('\0', ""),
        summary_template: summary.map(|template| template.replace('\0', "")),
    })
}

/// Collects every `command` below a node, because the structure of hooks depends on the version of Kiro.
fn collect_commands(node: &Node, commands: &mut Vec<String>) {
    match &node.value {
        NodeValue::List(items) => items.iter().for_each(|item| collect_commands(item, commands)),
        NodeValue::Map(entries) => {
            for entry in entries {
                match &entry.node.value {
                    NodeValue::String(command) if entry.key == "command" => commands.push(command.clone()),
                    NodeValue::String(_)
                    | NodeValue::List(_)
                    | NodeValue::Map(_)
                    | NodeValue::Null
                    | NodeValue::Bool(_)
                    | NodeValue::Integer(_)
                    | NodeValue::Float(_)
                    | NodeValue::DateTime => collect_commands(&entry.node, commands),
                }
            }
        }
        NodeValue::String(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime => {}
    }
}

/// Reads the frontmatter of the prompt file into the agent; the vendor uses the body. Returns whether it could be
/// read.
fn read_prompt(prompt: &str, file: &str, agent: &mut Agent) -> (bool, Vec<Diagnostic>) {
    let text = frontmatter::normalize(prompt);
    let mut diagnostics = Diagnostics::new(file, &text);
    let parts = match frontmatter::split(&text) {
        Ok(parts) => parts,
        // A prompt without frontmatter describes nothing, which is allowed.
        Err(Missing::Begin) => return (true, Vec::new()),
        Err(Missing::End) => {
            diagnostics.error(SourceLocation::START, "the frontmatter has no end");
            return (false, diagnostics.finish());
        }
    };
    let node = read_yaml(YamlText { text: parts.yaml, lines_before: parts.lines_before }, &mut diagnostics);
    let fields = node.as_ref().filter(|node| node.value != NodeValue::Null);
    if let Some(fields) = fields.and_then(|node| Fields::open(node, "", &mut diagnostics)) {
        take_prompt_fields(fields, agent, &mut diagnostics);
    }
    (diagnostics.errors() == 0, diagnostics.finish())
}

fn take_prompt_fields(mut fields: Fields<'_>, agent: &mut Agent, diagnostics: &mut Diagnostics<'_>) {
    if let Some(node) = fields.take("name")
        && let Some(name) = read_text(node, "name", diagnostics)
        && parse_name(&name, node.location, diagnostics).is_some_and(|name| name != agent.name)
    {
        let message =
            format!("name: {} is not the agent {} that the file belongs to", quote(&name), agent.name);
        diagnostics.warning(node.location, message);
    }
    if let Some(description) =
        fields.take("description").and_then(|node| read_text(node, "description", diagnostics))
    {
        let description = strip_sub_agent_prefix(&description).unwrap_or(description.trim());
        description.clone_into(&mut agent.description);
    }
    agent.capabilities = take_texts(&mut fields, "capabilities", diagnostics);
    agent.use_when = take_texts(&mut fields, "use_when", diagnostics);
    agent.avoid_when = take_texts(&mut fields, "avoid_when", diagnostics);
    agent.tags = take_texts(&mut fields, "tags", diagnostics);
    if let Some(node) = fields.take("model") {
        agent.model = read_model(node, diagnostics).or_else(|| agent.model.clone());
    }
    if let Some(node) = fields.take("tools") {
        let described = read_tool_names(node, "tools", diagnostics);
        let more = described
            .iter()
            .filter(|tool| !agent.setup.permission.allow.iter().any(|rule| rule.tool() == *tool));
        let more: Vec<&str> = more.map(String::as_str).collect();
        if !more.is_empty() {
            let message =
                format!("tools: {} is not among the agent's allowedTools, which decide", more.join(", "));
            diagnostics.warning(node.location, message);
        }
    }
    fields.close(diagnostics);
}
