//! Settings of a run for Claude Code, which count more than its user's and the project's: what they would let pass
//! without a question is asked for, so that the permission decides.

use domain::inherit::Inherited;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::run::RunSpec;
use serde_json::{Map, Value, json};

use super::{Endpoint, inherited};
use crate::mcp_config::OWN_SERVER;

/// What Claude Code's tools do that a permission can speak of.
const TOOLS: [(ToolKind<'static>, &[&str]); 7] = [
    (ToolKind::Read, &["Read"]),
    (ToolKind::Search, &["Glob", "Grep"]),
    (ToolKind::Edit, &["Edit", "NotebookEdit", "Write"]),
    (ToolKind::Shell, &["Bash", "Monitor", "PowerShell"]),
    (ToolKind::Fetch, &["WebFetch"]),
    (ToolKind::WebSearch, &["WebSearch"]),
    (ToolKind::Delegate, &["Agent", "Task"]),
];

/// What a level denies, and settings could allow.
const BEYOND_LEVELS: [ToolKind<'static>; 4] =
    [ToolKind::Edit, ToolKind::Shell, ToolKind::Fetch, ToolKind::WebSearch];

/// Variables of another service, which must not reach this one, nor lead to that one. Settings can hold them too.
const OF_SERVICES: [&str; 9] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
];

/// Returns the variables that a service must not be given: all but the one that its own key is in.
pub(super) fn of_other_services(service: Endpoint) -> impl Iterator<Item = &'static str> {
    OF_SERVICES.into_iter().filter(move |name| *name != service.key_variable)
}

/// Returns the settings of a run; nothing where its agent demands nothing of the usual service. A service of its own
/// gets its own key, a reference to a variable here, and no other.
pub(super) fn of(spec: &RunSpec, service: Option<Endpoint>) -> Option<Value> {
    let mut settings = Map::new();
    if spec.setup.inherits(Inherited::McpServers) {
        // Which they are is known when the run is fitted to its user.
        settings.insert(inherited::LEFT_OUT.to_owned(), json!([]));
    }
    let asked = asked(spec);
    if !asked.is_empty() {
        settings.insert("permissions".to_owned(), json!({ "ask": asked }));
    }
    if let Some(service) = service {
        let mut env: Map<String, Value> =
            of_other_services(service).map(|name| (name.to_owned(), json!(""))).collect();
        env.insert("ANTHROPIC_BASE_URL".to_owned(), json!(service.address));
        env.insert(service.key_variable.to_owned(), json!(format!("${{{}}}", service.key)));
        settings.insert("env".to_owned(), Value::Object(env));
        // What is not a text makes Claude Code pass over all of these settings.
        settings.insert("apiKeyHelper".to_owned(), json!(""));
    }
    (!settings.is_empty()).then_some(Value::Object(settings))
}

/// Returns the tools that are always asked for.
fn asked(spec: &RunSpec) -> Vec<String> {
    let by_user = Permission { deny: Vec::new(), ..spec.setup.permission.clone() };
    // Where its user's rules count, Claude Code itself denies what it is told to, and asks about nothing more.
    let permission = match spec.setup.inherits(Inherited::Settings) {
        true => &by_user,
        false => &spec.setup.permission,
    };
    let leveled = matches!(permission.level, Some(Level::ReadOnly | Level::SafeEdit))
        && !spec.setup.inherits(Inherited::Settings);
    let of_kinds = TOOLS
        .iter()
        .filter(|(kind, _)| {
            (leveled && BEYOND_LEVELS.contains(kind))
                || restricts(permission, *kind)
                || names_callees(permission, *kind)
        })
        .flat_map(|(_, tools)| tools.iter().map(|tool| (*tool).to_owned()));
    let servers = spec.setup.mcp_servers.iter().map(|server| server.name.as_str());
    let of_servers = servers
        .chain([OWN_SERVER])
        .filter(|server| (leveled && *server != OWN_SERVER) || restricts_server(permission, server))
        .map(|server| format!("mcp__{}", plain(server)));
    // A rule about a tool that only Claude Code knows stands as it is written.
    let others = restricting(permission).filter(|rule| matches!(rule.kind(), ToolKind::Other(_)));
    of_kinds.chain(of_servers).chain(others.map(|rule| rule.tool().to_owned())).collect()
}

fn restricting(permission: &Permission) -> impl Iterator<Item = &Rule> {
    permission.ask.iter().chain(&permission.deny)
}

fn restricts(permission: &Permission, kind: ToolKind<'_>) -> bool {
    restricting(permission).any(|rule| rule.kind() == kind || rule.kind() == ToolKind::Everything)
}

/// Tells whether only some agents may be called, since Claude Code calls any without asking.
fn names_callees(permission: &Permission, kind: ToolKind<'_>) -> bool {
    let named = |rule: &Rule| rule.kind() == ToolKind::Delegate && rule.pattern().is_some();
    let all = |rule: &Rule| rule.kind() == ToolKind::Delegate && rule.pattern().is_none();
    kind == ToolKind::Delegate && permission.allow.iter().any(named) && !permission.allow.iter().any(all)
}

fn restricts_server(permission: &Permission, server: &str) -> bool {
    restricting(permission).any(|rule| match rule.kind() {
        ToolKind::Mcp { server: named, .. } => named == server,
        kind => kind == ToolKind::Everything,
    })
}

/// Returns the name of a server as it stands in the names of its tools.
fn plain(server: &str) -> String {
    let kept = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    server.chars().map(|letter| if kept(letter) { letter } else { '_' }).collect()
}

/// Returns somebody's settings with ours on top: lists are joined, and all else is as we say.
pub(super) fn on_top(theirs: Value, ours: &Value) -> Value {
    let mut all = match theirs {
        Value::Object(all) => all,
        _ => Map::new(),
    };
    for (key, value) in ours.as_object().into_iter().flatten() {
        let joined = match (all.remove(key), value) {
            (Some(Value::Array(mut known)), Value::Array(more)) => {
                known.extend(more.iter().cloned());
                Value::Array(known)
            }
            (Some(known @ Value::Object(_)), Value::Object(_)) => on_top(known, value),
            (_, value) => value.clone(),
        };
        all.insert(key.clone(), joined);
    }
    Value::Object(all)
}
