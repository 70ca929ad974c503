//! A permission in the words of opencode: decisions by tool and pattern, of which the last that matches counts. None
//! of them is `ask`: what is asked for ends a run without an answer, and in a sub-agent it never ends.

use domain::mcp_server::McpServer;
use domain::permission::{Level, Permission, Rule, ToolKind, is_in_repository};
use serde_json::{Map, Value, json};

use crate::mcp_config;

/// The program's keys for what tools do, without what a server provides.
const KEYS: [(ToolKind<'static>, &[&str]); 10] = [
    (ToolKind::Read, &["read", "list"]),
    (ToolKind::Search, &["grep", "glob"]),
    (ToolKind::Edit, &["edit"]),
    (ToolKind::Shell, &["bash"]),
    (ToolKind::Fetch, &["webfetch"]),
    (ToolKind::WebSearch, &["websearch", "codesearch"]),
    (ToolKind::Delegate, &["task"]),
    // Notes of the agent to itself.
    (ToolKind::Other("todowrite"), &["todowrite", "todoread"]),
    (ToolKind::Other("skill"), &["skill"]),
    (ToolKind::Other("lsp"), &["lsp"]),
];

/// Keys that have no tool: work outside the directory, and the same call again and again.
const BEYOND: [&str; 2] = ["external_directory", "doom_loop"];
/// The tool that loads a skill, by the skill's name.
const SKILL: &str = "skill";

/// Decisions in the order in which they were made: a later one counts more.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    made: Vec<(String, String, &'static str)>,
    /// What restricts and cannot be said.
    pub(super) unsaid: Vec<String>,
    /// What is allowed and cannot be said.
    pub(super) ungranted: Vec<String>,
}

/// Translates a permission for an agent that works in this folder of its work tree.
pub(super) fn translate(permission: &Permission, folder: &str, servers: &[McpServer]) -> Decisions {
    let mut decisions = Decisions::default();
    decisions.make("*", "*", "deny");
    let level = permission.level.unwrap_or(Level::SafeEdit);
    let everything = level == Level::Yolo
        || permission
            .allow
            .iter()
            .any(|rule| rule.kind() == ToolKind::Everything && rule.pattern().is_none());
    for (kind, keys) in KEYS {
        let within = match kind {
            ToolKind::Read | ToolKind::Search | ToolKind::Other(_) => true,
            ToolKind::Edit => level == Level::SafeEdit,
            _ => false,
        };
        if within || everything {
            keys.iter().for_each(|key| decisions.make(key, "*", "allow"));
        }
    }
    let beyond = if level == Level::Yolo { "allow" } else { "deny" };
    BEYOND.iter().for_each(|key| decisions.make(key, "*", beyond));
    permission.allow.iter().for_each(|rule| decisions.allow(rule, folder));
    for server in servers {
        let named = ToolKind::Mcp { server: &server.name, tool: None };
        let meant = everything || mcp_config::is_meant(permission, &server.name);
        if meant || permission.allow.iter().any(|rule| rule.kind() == named) {
            decisions.allow_server(server);
        }
    }
    // Nobody can be asked in this mode, so what is to be asked for is refused.
    permission.ask.iter().for_each(|rule| decisions.deny("ask", rule));
    permission.deny.iter().for_each(|rule| decisions.deny("deny", rule));
    if everything {
        decisions.ungranted.clear();
    }
    decisions
}

/// A decision of the user's own settings.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UsersRule {
    pub(super) key: String,
    pub(super) pattern: String,
    pub(super) action: &'static str,
}

/// What sub-agents-mcp denies below the level that allows everything, whatever the user's settings say: nobody can be asked, and
/// what other agents do is not held to the level.
const DENIED_BELOW_YOLO: [&str; 3] = ["task", "external_directory", "question"];

/// Translates the permission of an agent that gets its user's settings: what these say counts, and the level decides about edits
/// and commands, as with sub-agents-mcp.
pub(super) fn translate_with_users(
    permission: &Permission,
    folder: &str,
    servers: &[McpServer],
    users: &[UsersRule],
) -> Decisions {
    let mut decisions = Decisions::default();
    decisions.make("*", "*", "allow");
    let changes = match permission.level.unwrap_or(Level::SafeEdit) {
        Level::Yolo => None,
        Level::SafeEdit => Some("allow"),
        Level::ReadOnly => Some("deny"),
    };
    if let Some(changes) = changes {
        users.iter().for_each(|rule| decisions.make(&rule.key, &rule.pattern, rule.action));
        ["edit", "bash"].iter().for_each(|key| decisions.make(key, "*", changes));
        DENIED_BELOW_YOLO.iter().for_each(|key| decisions.make(key, "*", "deny"));
    }
    permission.allow.iter().for_each(|rule| decisions.allow(rule, folder));
    servers.iter().for_each(|server| decisions.allow_server(server));
    permission.ask.iter().for_each(|rule| decisions.deny("ask", rule));
    permission.deny.iter().for_each(|rule| decisions.deny("deny", rule));
    decisions
}

/// Tells whether some edits are allowed, and others not.
pub(super) fn may_edit(permission: &Permission) -> bool {
    let edits = |rule: &Rule| matches!(rule.kind(), ToolKind::Edit | ToolKind::Everything);
    match permission.level {
        Some(Level::Yolo) => false,
        Some(Level::SafeEdit) | None => true,
        Some(Level::ReadOnly) => permission.allow.iter().any(edits),
    }
}

/// Returns the decisions of a program that can ask, as far as it has these tools of its own.
pub(super) fn asking_with_only(tools: &[String]) -> Decisions {
    let mut decisions = Decisions::default();
    ["edit", "bash", "webfetch"].iter().for_each(|key| decisions.make(key, "*", "ask"));
    decisions.keep_only(tools);
    decisions
}

impl Decisions {
    pub(super) fn make(&mut self, key: &str, pattern: &str, action: &'static str) {
        self.made.push((key.to_owned(), pattern.to_owned(), action));
    }

    /// Leaves only these tools of its own to the agent.
    pub(super) fn keep_only(&mut self, tools: &[String]) {
        for (kind, keys) in KEYS {
            let of_kind = tools.iter().any(|tool| ToolKind::named(tool) == kind);
            for key in keys {
                if !of_kind && !tools.iter().any(|tool| tool == key) {
                    self.make(key, "*", "deny");
                }
            }
        }
    }

    /// Returns the decisions as the program reads them. The text is put together here since its order counts, which an
    /// object of JSON does not keep.
    pub(super) fn to_json(&self) -> String {
        let mut keys: Vec<&str> = Vec::new();
        for (key, _, _) in &self.made {
            keys.retain(|known| known != key);
            keys.push(key);
        }
        let members = keys.into_iter().map(|key| {
            let mut patterns: Vec<(&str, &str)> = Vec::new();
            for (_, pattern, action) in self.made.iter().filter(|(of, _, _)| of == key) {
                // What stands for everything overrules all that was said before.
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

    /// Allows the tools of a server that the agent shall see.
    fn allow_server(&mut self, server: &McpServer) {
        let whole = mcp_key(&server.name, None);
        match &server.tools {
            None => self.make(&whole, "*", "allow"),
            Some(tools) => {
                self.make(&whole, "*", "deny");
                tools.iter().for_each(|tool| self.make(&mcp_key(&server.name, Some(tool)), "*", "allow"));
            }
        }
    }

    fn allow(&mut self, rule: &Rule, folder: &str) {
        match (rule.kind(), rule.pattern()) {
            (ToolKind::Everything, None) => {}
            (ToolKind::Mcp { server, tool }, None) => self.make(&mcp_key(server, tool), "*", "allow"),
            (ToolKind::Shell, Some(pattern)) => {
                for pattern in commands(pattern) {
                    self.make("bash", &pattern, "allow");
                }
            }
            (ToolKind::Delegate, Some(pattern)) => self.make("task", pattern, "allow"),
            // What is git's own is denied after all rules.
            (ToolKind::Edit, Some(pattern)) if is_in_repository(pattern) => {
                self.ungranted.push(format!("the rule allow {rule}"));
            }
            // A star of the program's crosses folders.
            (ToolKind::Edit, Some(pattern)) if !pattern.replace("**", "").contains('*') => {
                let inside = pattern.trim_start_matches("./").replace("**/", "*").replace("**", "*");
                self.make("edit", &format!("{folder}{inside}"), "allow");
            }
            (ToolKind::Read | ToolKind::Search, Some(_)) => {}
            // Folders outside of its own, or its skills: the program has patterns for these too.
            (ToolKind::Other(name), Some(pattern)) => self.make(name, pattern, "allow"),
            (kind, None) => {
                for key in keys_of(kind) {
                    self.make(&key, "*", "allow");
                }
            }
            (_, Some(_)) => self.ungranted.push(format!("the rule allow {rule}")),
        }
    }

    fn deny(&mut self, word: &str, rule: &Rule) {
        match (rule.kind(), rule.pattern()) {
            (ToolKind::Everything, None) => self.made = vec![("*".to_owned(), "*".to_owned(), "deny")],
            (ToolKind::Mcp { server, tool }, None) => self.make(&mcp_key(server, tool), "*", "deny"),
            (ToolKind::Shell, Some(pattern)) => {
                for pattern in commands(pattern) {
                    self.make("bash", &pattern, "deny");
                }
            }
            (ToolKind::Edit | ToolKind::Read, Some(pattern)) => {
                let key = if rule.kind() == ToolKind::Edit { "edit" } else { "read" };
                let inside = pattern.trim_start_matches("./").replace("**/", "*").replace("**", "*");
                self.make(key, &inside, "deny");
                self.make(key, &format!("*/{}", inside.trim_start_matches('/')), "deny");
            }
            (kind, None) => {
                for key in keys_of(kind) {
                    self.make(&key, "*", "deny");
                }
            }
            (ToolKind::Delegate, Some(pattern)) => self.make("task", pattern, "deny"),
            (ToolKind::Other(name), Some(pattern)) if BEYOND.contains(&name) || name == SKILL => {
                self.make(name, pattern, "deny");
            }
            (_, Some(_)) => self.unsaid.push(format!("the rule {word} {rule}")),
        }
    }
}

fn keys_of(kind: ToolKind<'_>) -> Vec<String> {
    match (KEYS.iter().find(|(known, _)| *known == kind), kind) {
        (Some((_, keys)), _) => keys.iter().map(|key| (*key).to_owned()).collect(),
        (None, ToolKind::Other(name)) => vec![name.to_owned()],
        (None, _) => Vec::new(),
    }
}

/// Returns the key of a server's tool, or of all of them.
pub(super) fn mcp_key(server: &str, tool: Option<&str>) -> String {
    format!("{}_{}", sanitised(server), tool.map_or_else(|| "*".to_owned(), sanitised))
}

fn sanitised(name: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    name.chars().map(|character| if plain(character) { character } else { '_' }).collect()
}

/// `curl:*` stands for the command with any arguments; all else is a pattern already.
fn commands(pattern: &str) -> Vec<String> {
    match pattern.strip_suffix(":*") {
        Some(command) => vec![command.to_owned(), format!("{command} *")],
        None => vec![pattern.to_owned()],
    }
}

/// Returns the servers of a run as the program reads them.
pub(super) fn servers(servers: &Map<String, Value>) -> Map<String, Value> {
    let entry = |server: &Value| match server["command"].as_str() {
        Some(command) => {
            let words: Vec<&str> = std::iter::once(command)
                .chain(server["args"].as_array().into_iter().flatten().filter_map(Value::as_str))
                .collect();
            json!({"type": "local", "command": words, "environment": server["env"], "enabled": true})
        }
        None => {
            json!({"type": "remote", "url": server["url"], "headers": server["headers"], "enabled": true})
        }
    };
    servers.iter().map(|(name, server)| (name.clone(), entry(server))).collect()
}
