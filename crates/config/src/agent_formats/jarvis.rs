//! `agents/NAME/agent.md`, as in Jarvis: the agent can do only what its rules allow without a question, and its
//! memory and skills are in its folder.

use domain::agent::{Agent, AgentFormat, Callers};
use domain::diagnostic::Diagnostic;
use domain::permission::{Permission, Rule, ToolKind};
use domain::setup::{PromptMode, Setup};

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::mcp_servers::read_servers;
use super::setup::{read_rules, take_flag, take_output};
use super::shared_keys::{read_callers, take_inherited_model, vendor_agent};
use crate::text::{Bounds, Diagnostics, Fields, Node, read_integer, read_text};

const MINIMAL: &str = "begin the file with four lines: `---`, `name: NAME`, `description: TEXT`, `---`";
/// Jarvis' default time-out.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// A day is more than any agent needs.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

/// The other files of an agent's folder.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentFolder<'a> {
    /// The folder of the agent, which it may use.
    pub folder: &'a str,
    /// Only for an agent with a persistent session.
    pub memory: Option<&'a str>,
    /// The texts of `skills/*.md`, by name.
    pub skills: &'a [String],
}

/// Reads an agent. Returns `None` exactly if there is an error.
pub fn read(agent_file: AgentFile<'_>, agent_folder: AgentFolder<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let required = Frontmatter::Required { hint: MINIMAL };
    let (mut agent, diagnostics) = markdown::read(agent_file, AgentFormat::Jarvis, required, read_fields);
    if let Some(agent) = &mut agent {
        // An agent that starts a new session with each call has no memory.
        let memory = agent_folder.memory.filter(|_| agent.setup.keeps_session);
        let texts = agent_folder.skills.iter().map(String::as_str).chain(memory);
        for text in texts.map(str::trim).filter(|text| !text.is_empty()) {
            agent.system_prompt.push_str("\n\n");
            agent.system_prompt.push_str(&text.replace('\0', ""));
        }
        agent.system_prompt = agent.system_prompt.trim().to_owned();
        agent.setup.extra_directories = vec![agent_folder.folder.to_owned()];
    }
    (agent, diagnostics)
}

/// Returns the readable part of a file with errors, so that all problems can be reported at once. Not to be run.
pub fn draft(agent_file: AgentFile<'_>) -> Option<Agent> {
    markdown::draft(agent_file, AgentFormat::Jarvis, Frontmatter::Required { hint: MINIMAL }, read_fields).0
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("claude", AgentFormat::Jarvis, &mut fields, agent_file, diagnostics);
    match fields.take("description") {
        Some(node) => {
            let description = read_text(node, "description", diagnostics).unwrap_or_default();
            agent.description = description.trim().to_owned();
        }
        None => {
            let hint = "callers choose an agent by its description";
            diagnostics.error_with_hint(fields.location, "the key description is missing", hint);
        }
    }
    agent.model = take_inherited_model(&mut fields, diagnostics);
    agent.callers = match fields.take("allowed_callers") {
        Some(node) => read_callers(node, "allowed_callers", diagnostics),
        None => Callers::Only(vec!["main".to_owned()]),
    };
    let timeout = fields
        .take("timeout_ms")
        .map(|node| read_integer(node, "timeout_ms", Bounds::from(1).up_to(TIMEOUT_MS_MAX), diagnostics));
    agent.limits.timeout_ms = timeout.unwrap_or(Some(DEFAULT_TIMEOUT_MS));
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    setup.keeps_session = take_flag(&mut fields, "session", diagnostics);
    if let Some(node) = fields.take("permissions") {
        setup.permission = read_permissions(node, diagnostics);
    }
    if let Some(node) = fields.take("mcp_servers") {
        setup.mcp_servers = read_servers(node, "mcp_servers", diagnostics);
        allow_own_servers(setup);
        for server in denied_servers(setup) {
            let message = format!("mcp_servers: {server} is denied by a rule, so the agent cannot use it");
            diagnostics.warning(node.location, message);
        }
    }
    let servers = setup.mcp_servers.iter().map(|server| format!("mcp__{}", server.name)).collect();
    setup.tools = Some(tool_names(&setup.permission.allow, servers));
    take_output(&mut fields, setup, diagnostics);
    fields.close(diagnostics);
    Some(agent)
}

fn read_permissions(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Permission {
    let Some(mut fields) = Fields::open(node, "permissions", diagnostics) else {
        return Permission::default();
    };
    let mut rules = |key| {
        let name = fields.name(key);
        fields.take(key).map(|node| read_rules(node, &name, diagnostics)).unwrap_or_default()
    };
    let permission = Permission { allow: rules("allow"), deny: rules("deny"), ..Permission::default() };
    fields.close(diagnostics);
    permission
}

/// Allows the servers of the agent's file, unless a rule on single tools of a server restricts it. Denied tools stay
/// denied, because deny beats allow.
fn allow_own_servers(setup: &mut Setup) {
    let single =
        |rule: &Rule, name: &str| matches!(rule.kind(), ToolKind::Mcp { server, .. } if server == name);
    for server in &setup.mcp_servers {
        let allow = &mut setup.permission.allow;
        if !allow.iter().any(|rule| single(rule, &server.name)) {
            // The reader of servers reports a name that is not valid in a rule.
            allow.extend(format!("mcp__{}", server.name).parse::<Rule>());
        }
    }
}

/// Returns the servers whose tools are all denied by a rule.
fn denied_servers(setup: &Setup) -> Vec<String> {
    let denies = |rule: &Rule, name: &str| match rule.kind() {
        ToolKind::Mcp { server, tool: None } => server == name,
        kind => kind == ToolKind::Everything && rule.pattern().is_none(),
    };
    let names = setup.mcp_servers.iter().map(|server| server.name.clone());
    names.filter(|name| setup.permission.deny.iter().any(|rule| denies(rule, name))).collect()
}

/// An agent has the tools that its rules name, and its own servers.
fn tool_names(allow: &[Rule], servers: Vec<String>) -> Vec<String> {
    let mut tools: Vec<String> = Vec::new();
    for rule in allow {
        let mcp = matches!(rule.kind(), ToolKind::Mcp { .. });
        if !mcp && !tools.iter().any(|tool| tool == rule.tool()) {
            tools.push(rule.tool().to_owned());
        }
    }
    tools.extend(servers);
    tools
}
