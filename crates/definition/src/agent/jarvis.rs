//! `agents/NAME/agent.md`, as Jarvis has it: what the agent may do without being asked is all it can do, and its
//! memory and skills stand beside it.

use domain::agent::{Agent, Callers, Format};
use domain::diagnostic::Diagnostic;
use domain::permission::{Permission, Rule, ToolKind};
use domain::setup::{PromptMode, Setup};

use super::AgentFile;
use super::markdown::{self, Frontmatter};
use super::servers::read_servers;
use super::setup::{read_rules, take_flag, take_output};
use super::values::{read_callers, take_inherited_model, vendor_agent};
use crate::text::{Bounds, Fields, Findings, Node, amount, text};

const MINIMAL: &str = "begin the file with four lines: `---`, `name: NAME`, `description: TEXT`, `---`";
/// What Jarvis allows an agent that names no time.
const TIMEOUT_MS: u64 = 120_000;
/// A day is more than any agent of one process gets.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

/// What stands beside an agent's file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beside<'a> {
    /// The folder of the agent, which it may use.
    pub folder: &'a str,
    /// Only for an agent that keeps its session.
    pub memory: Option<&'a str>,
    /// The texts of `skills/*.md`, by name.
    pub skills: &'a [String],
}

/// Reads an agent. There is one exactly if no finding is an error.
pub fn read(agent_file: AgentFile<'_>, beside: Beside<'_>) -> (Option<Agent>, Vec<Diagnostic>) {
    let required = Frontmatter::Required { hint: MINIMAL };
    let (mut agent, found) = markdown::read(agent_file, Format::Jarvis, required, read_fields);
    if let Some(agent) = &mut agent {
        // Whoever begins anew with each call remembers nothing.
        let memory = beside.memory.filter(|_| agent.setup.keeps_session);
        let texts = beside.skills.iter().map(String::as_str).chain(memory);
        for text in texts.map(str::trim).filter(|text| !text.is_empty()) {
            agent.system_prompt.push_str("\n\n");
            agent.system_prompt.push_str(&text.replace('\0', ""));
        }
        agent.system_prompt = agent.system_prompt.trim().to_owned();
        agent.setup.extra_directories = vec![beside.folder.to_owned()];
    }
    (agent, found)
}

/// Returns what can be read of a file with errors, so that all that is wrong can be told at once. Not to be run.
pub fn draft(agent_file: AgentFile<'_>) -> Option<Agent> {
    markdown::draft(agent_file, Format::Jarvis, Frontmatter::Required { hint: MINIMAL }, read_fields).0
}

fn read_fields(
    mut fields: Fields<'_>,
    agent_file: AgentFile<'_>,
    findings: &mut Findings<'_>,
) -> Option<Agent> {
    let mut agent = vendor_agent("claude", Format::Jarvis, &mut fields, agent_file, findings);
    match fields.take("description") {
        Some(node) => {
            let description = text(node, "description", findings).unwrap_or_default();
            agent.description = description.trim().to_owned();
        }
        None => {
            let hint = "callers choose an agent by its description";
            findings.error_with_hint(fields.place, "the key description is missing", hint);
        }
    }
    agent.model = take_inherited_model(&mut fields, findings);
    agent.callers = match fields.take("allowed_callers") {
        Some(node) => read_callers(node, "allowed_callers", findings),
        None => Callers::Only(vec!["main".to_owned()]),
    };
    let timeout = fields
        .take("timeout_ms")
        .map(|node| amount(node, "timeout_ms", Bounds::from(1).up_to(TIMEOUT_MS_MAX), findings));
    agent.limits.timeout_ms = timeout.unwrap_or(Some(TIMEOUT_MS));
    let setup = &mut agent.setup;
    setup.prompt_mode = PromptMode::Replace;
    setup.keeps_session = take_flag(&mut fields, "session", findings);
    if let Some(node) = fields.take("permissions") {
        setup.permission = read_permissions(node, findings);
    }
    if let Some(node) = fields.take("mcp_servers") {
        setup.mcp_servers = read_servers(node, "mcp_servers", findings);
        allow_own_servers(setup);
        for server in denied_servers(setup) {
            let message = format!("mcp_servers: {server} is denied by a rule, so the agent cannot use it");
            findings.warning(node.place, message);
        }
    }
    let servers = setup.mcp_servers.iter().map(|server| format!("mcp__{}", server.name)).collect();
    setup.tools = Some(tools_of(&setup.permission.allow, servers));
    take_output(&mut fields, setup, findings);
    fields.close(findings);
    Some(agent)
}

fn read_permissions(node: &Node, findings: &mut Findings<'_>) -> Permission {
    let Some(mut fields) = Fields::open(node, "permissions", findings) else { return Permission::default() };
    let mut rules = |key| {
        let name = fields.name(key);
        fields.take(key).map(|node| read_rules(node, &name, findings)).unwrap_or_default()
    };
    let permission = Permission { allow: rules("allow"), deny: rules("deny"), ..Permission::default() };
    fields.close(findings);
    permission
}

/// Allows the servers that the file gives to the agent, unless a rule on single tools of a server says how far. What is denied
/// stays denied, since deny beats allow.
fn allow_own_servers(setup: &mut Setup) {
    let single =
        |rule: &Rule, name: &str| matches!(rule.kind(), ToolKind::Mcp { server, .. } if server == name);
    for server in &setup.mcp_servers {
        let allow = &mut setup.permission.allow;
        if !allow.iter().any(|rule| single(rule, &server.name)) {
            // A name that makes no rule is reported where the servers are read.
            allow.extend(format!("mcp__{}", server.name).parse::<Rule>());
        }
    }
}

/// Returns the servers of which a rule denies everything.
fn denied_servers(setup: &Setup) -> Vec<String> {
    let denies = |rule: &Rule, name: &str| match rule.kind() {
        ToolKind::Mcp { server, tool: None } => server == name,
        kind => kind == ToolKind::Everything && rule.pattern().is_none(),
    };
    let names = setup.mcp_servers.iter().map(|server| server.name.clone());
    names.filter(|name| setup.permission.deny.iter().any(|rule| denies(rule, name))).collect()
}

/// An agent has the tools that its rules name, and its own servers.
fn tools_of(allow: &[Rule], servers: Vec<String>) -> Vec<String> {
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
