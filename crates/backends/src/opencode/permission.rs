//! Translates a permission into decisions of opencode by tool and pattern, of which the last that matches counts. None of them is
//! `ask`: an unanswered request ends the run, and in a sub-agent it blocks forever.

use domain::mcp_server::McpServer;
use domain::permission::{Permission, Rule, ToolKind};
use domain::policy::{Extent, is_in_git_dir};
use serde_json::{Map, Value, json};

use crate::mcp_config;
use crate::policy_translation::ByLevel;

/// Keys of the built-in tools, by the kind that permission rules use.
const KEYS_BY_KIND: [(ToolKind<'static>, &[&str]); 10] = [
    (ToolKind::Read, &["read", "list"]),
    (ToolKind::Search, &["grep", "glob"]),
    (ToolKind::Edit, &["edit"]),
    (ToolKind::Shell, &["bash"]),
    (ToolKind::Fetch, &["webfetch"]),
    (ToolKind::WebSearch, &["websearch", "codesearch"]),
    (ToolKind::Delegate, &["task"]),
    // The agent's own notes.
    (ToolKind::Other("todowrite"), &["todowrite", "todoread"]),
    (ToolKind::Other("skill"), &["skill"]),
    (ToolKind::Other("lsp"), &["lsp"]),
];

/// Keys without a tool: access outside the directory, and repeated identical calls.
const PSEUDO_TOOL_KEYS: [&str; 2] = ["external_directory", "doom_loop"];
/// The tool that loads a skill, by the skill's name.
const SKILL: &str = "skill";

/// The translated permission: decisions in their order, of which a later one takes precedence.
#[derive(Debug, Default)]
pub(super) struct OpencodePermission {
    decisions: Vec<(String, String, &'static str)>,
    /// Restricting rules that opencode cannot express.
    pub(super) unenforceable: Vec<String>,
    /// Allowing rules that opencode cannot express.
    pub(super) inexpressible_grants: Vec<String>,
}

/// Translates a permission for an agent that works in `folder` of its work tree.
pub(super) fn translate(permission: &Permission, folder: &str, servers: &[McpServer]) -> OpencodePermission {
    let mut translated = OpencodePermission::default();
    translated.add("*", "*", "deny");
    let is_free = permission.level_extent(ToolKind::Everything) == Extent::Everything;
    let everything = is_free || permission.grants_kind(ToolKind::Everything);
    for (kind, keys) in KEYS_BY_KIND {
        let is_harmless = matches!(kind, ToolKind::Other(_));
        if is_harmless || everything || permission.level_extent(kind) != Extent::Nothing {
            keys.iter().for_each(|key| translated.add(key, "*", "allow"));
        }
    }
    let pseudo_tools = if is_free { "allow" } else { "deny" };
    PSEUDO_TOOL_KEYS.iter().for_each(|key| translated.add(key, "*", pseudo_tools));
    permission.allow.iter().for_each(|rule| translated.allow(rule, folder));
    for server in servers {
        let whole_server = ToolKind::Mcp { server: &server.name, tool: None };
        let is_allowed = everything || mcp_config::is_implicitly_allowed(permission, &server.name);
        if is_allowed || permission.allow.iter().any(|rule| rule.kind() == whole_server) {
            translated.allow_server(server);
        }
    }
    // opencode cannot ask in this mode, so `ask` rules deny.
    permission.ask.iter().for_each(|rule| translated.deny("ask", rule));
    permission.deny.iter().for_each(|rule| translated.deny("deny", rule));
    if everything {
        translated.inexpressible_grants.clear();
    }
    translated
}

/// A decision in the user's own settings.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UserRule {
    pub(super) key: String,
    pub(super) pattern: String,
    pub(super) action: &'static str,
}

/// Keys that sub-agents-mcp denies below `yolo`, whatever the user's settings say: nobody can answer, and other agents are not
/// limited by the level.
const DENIED_BELOW_YOLO: [&str; 3] = ["task", "external_directory", "question"];

/// Translates the permission of an agent that inherits the user's settings: these apply, and the level decides about edits and
/// commands, as with sub-agents-mcp.
pub(super) fn translate_with_users(
    permission: &Permission,
    folder: &str,
    servers: &[McpServer],
    user_rules: &[UserRule],
) -> OpencodePermission {
    let mut translated = OpencodePermission::default();
    translated.add("*", "*", "allow");
    let edits_and_commands =
        ByLevel { read_only: Some("deny"), safe_edit: Some("allow"), yolo: None }.select(permission);
    if let Some(edits_and_commands) = edits_and_commands {
        user_rules.iter().for_each(|rule| translated.add(&rule.key, &rule.pattern, rule.action));
        ["edit", "bash"].iter().for_each(|key| translated.add(key, "*", edits_and_commands));
        DENIED_BELOW_YOLO.iter().for_each(|key| translated.add(key, "*", "deny"));
    }
    permission.allow.iter().for_each(|rule| translated.allow(rule, folder));
    servers.iter().for_each(|server| translated.allow_server(server));
    permission.ask.iter().for_each(|rule| translated.deny("ask", rule));
    permission.deny.iter().for_each(|rule| translated.deny("deny", rule));
    translated
}

/// Returns the decisions for a program that can ask, limited to these built-in tools.
pub(super) fn ask_decisions(tools: &[String]) -> OpencodePermission {
    let mut translated = OpencodePermission::default();
    ["edit", "bash", "webfetch"].iter().for_each(|key| translated.add(key, "*", "ask"));
    translated.keep_only(tools);
    translated
}

impl OpencodePermission {
    pub(super) fn add(&mut self, key: &str, pattern: &str, action: &'static str) {
        self.decisions.push((key.to_owned(), pattern.to_owned(), action));
    }

    /// Denies all built-in tools except these.
    pub(super) fn keep_only(&mut self, tools: &[String]) {
        for (kind, keys) in KEYS_BY_KIND {
            let has_kind = tools.iter().any(|tool| ToolKind::from_name(tool) == kind);
            for key in keys {
                if !has_kind && !tools.iter().any(|tool| tool == key) {
                    self.add(key, "*", "deny");
                }
            }
        }
    }

    /// Returns the decisions in the format of opencode. Their order counts, which a JSON object of `serde_json` does not
    /// preserve, so the text is built here.
    pub(super) fn to_json(&self) -> String {
        let mut keys: Vec<&str> = Vec::new();
        for (key, _, _) in &self.decisions {
            keys.retain(|known| known != key);
            keys.push(key);
        }
        let members = keys.into_iter().map(|key| {
            let mut patterns: Vec<(&str, &str)> = Vec::new();
            for (_, pattern, action) in self.decisions.iter().filter(|(other, _, _)| other == key) {
                // A wildcard overrides all earlier decisions.
                if pattern == "*" {
                    patterns.clear();
                }
                patterns.retain(|(known, _)| known != pattern);
                patterns.push((pattern, action));
            }
            let inner =
                patterns.iter().map(|(pattern, action)| format!("{}:{}", json!(pattern), json!(action)));
            match &patterns[..] {
                [("*", action)] => format!("{}:{}", json!(key), json!(action)),
                _ => format!("{}:{{{}}}", json!(key), inner.collect::<Vec<_>>().join(",")),
            }
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// Allows the tools of a server that the agent may see.
    fn allow_server(&mut self, server: &McpServer) {
        let all_tools = mcp_key(&server.name, None);
        match &server.tools {
            None => self.add(&all_tools, "*", "allow"),
            Some(tools) => {
                self.add(&all_tools, "*", "deny");
                tools.iter().for_each(|tool| self.add(&mcp_key(&server.name, Some(tool)), "*", "allow"));
            }
        }
    }

    fn allow(&mut self, rule: &Rule, folder: &str) {
        match (rule.kind(), rule.pattern()) {
            (ToolKind::Everything, None) => {}
            (ToolKind::Mcp { server, tool }, None) => self.add(&mcp_key(server, tool), "*", "allow"),
            (ToolKind::Shell, Some(pattern)) => {
                for pattern in command_patterns(pattern) {
                    self.add("bash", &pattern, "allow");
                }
            }
            (ToolKind::Delegate, Some(pattern)) => self.add("task", pattern, "allow"),
            // Edits in folders of git are denied after all rules.
            (ToolKind::Edit, Some(pattern)) if is_in_git_dir(pattern) => {
                self.inexpressible_grants.push(format!("the rule allow {rule}"));
            }
            // A star of opencode also matches slashes.
            (ToolKind::Edit, Some(pattern)) if !pattern.replace("**", "").contains('*') => {
                let inside = pattern.trim_start_matches("./").replace("**/", "*").replace("**", "*");
                self.add("edit", &format!("{folder}{inside}"), "allow");
            }
            (ToolKind::Read | ToolKind::Search, Some(_)) => {}
            // External directories and skills: opencode has patterns for these too.
            (ToolKind::Other(name), Some(pattern)) => self.add(name, pattern, "allow"),
            (kind, None) => {
                for key in keys_for(kind) {
                    self.add(&key, "*", "allow");
                }
            }
            (_, Some(_)) => self.inexpressible_grants.push(format!("the rule allow {rule}")),
        }
    }

    fn deny(&mut self, list: &str, rule: &Rule) {
        match (rule.kind(), rule.pattern()) {
            (ToolKind::Everything, None) => self.decisions = vec![("*".to_owned(), "*".to_owned(), "deny")],
            // A key has no stars within the names of servers and tools.
            (ToolKind::Mcp { .. }, None) if rule.has_server_glob() => {
                self.unenforceable.push(format!("the rule {list} {rule}"));
            }
            (ToolKind::Mcp { server, tool }, None) => self.add(&mcp_key(server, tool), "*", "deny"),
            (ToolKind::Shell, Some(pattern)) => {
                for pattern in command_patterns(pattern) {
                    self.add("bash", &pattern, "deny");
                }
            }
            (ToolKind::Edit | ToolKind::Read, Some(pattern)) => {
                let key = if rule.kind() == ToolKind::Edit { "edit" } else { "read" };
                let inside = pattern.trim_start_matches("./").replace("**/", "*").replace("**", "*");
                self.add(key, &inside, "deny");
                self.add(key, &format!("*/{}", inside.trim_start_matches('/')), "deny");
            }
            (kind, None) => {
                for key in keys_for(kind) {
                    self.add(&key, "*", "deny");
                }
            }
            (ToolKind::Delegate, Some(pattern)) => self.add("task", pattern, "deny"),
            (ToolKind::Other(name), Some(pattern)) if PSEUDO_TOOL_KEYS.contains(&name) || name == SKILL => {
                self.add(name, pattern, "deny");
            }
            (_, Some(_)) => self.unenforceable.push(format!("the rule {list} {rule}")),
        }
    }
}

fn keys_for(kind: ToolKind<'_>) -> Vec<String> {
    match (KEYS_BY_KIND.iter().find(|(known, _)| *known == kind), kind) {
        (Some((_, keys)), _) => keys.iter().map(|key| (*key).to_owned()).collect(),
        (None, ToolKind::Other(name)) => vec![name.to_owned()],
        (None, _) => Vec::new(),
    }
}

/// Returns the key of a server's tool, or of all its tools.
pub(super) fn mcp_key(server: &str, tool: Option<&str>) -> String {
    format!("{}_{}", sanitize_name(server), tool.map_or_else(|| "*".to_owned(), sanitize_name))
}

fn sanitize_name(name: &str) -> String {
    let is_valid = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    name.chars().map(|character| if is_valid(character) { character } else { '_' }).collect()
}

/// `curl:*` stands for the command with any arguments; everything else is already a pattern.
fn command_patterns(pattern: &str) -> Vec<String> {
    match pattern.strip_suffix(":*") {
        Some(command) => vec![command.to_owned(), format!("{command} *")],
        None => vec![pattern.to_owned()],
    }
}

/// Returns the servers of a run in the format of opencode.
pub(super) fn server_entries(servers: &Map<String, Value>) -> Map<String, Value> {
    let entry = |server: &Value| match server["command"].as_str() {
        Some(command) => {
            let command_line: Vec<&str> = std::iter::once(command)
                .chain(server["args"].as_array().into_iter().flatten().filter_map(Value::as_str))
                .collect();
            json!({"type": "local", "command": command_line, "environment": server["env"], "enabled": true})
        }
        None => {
            json!({"type": "remote", "url": server["url"], "headers": server["headers"], "enabled": true})
        }
    };
    servers.iter().map(|(name, server)| (name.clone(), entry(server))).collect()
}
