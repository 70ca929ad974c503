//! Translates a permission into rules of Gemini CLI's policy engine. Everything that no rule allows is denied. The program cannot
//! ask in this mode, so `ask` rules deny too.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use domain::mcp_server::McpServer;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::policy::{Extent, is_in_git_dir};
use serde_json::Value;

use super::versions::{self, NOTE_TOOLS};
use crate::mcp_config::{self, OWN_SERVER};
use crate::user_environment;

/// Ranks of rules, the highest first. All rank above settings, even if the engine treats the run's policy as the user's, whose
/// rules it ranks below 951.
const RANK_DENY: u16 = 999;
const RANK_ASK: u16 = 998;
const RANK_ALLOW_IN_GIT: u16 = 996;
const RANK_DENY_IN_GIT: u16 = 995;
const RANK_ALLOW: u16 = 990;
const RANK_LEVEL: u16 = 980;
const RANK_DEFAULT: u16 = 960;

/// The longest pattern that the engine accepts. It ignores a rule with a longer one, which would be fatal for a denial.
const REGEX_BYTES_MAX: usize = 1_500;

/// The permission and the setup that a policy is generated from.
pub(super) struct GeminiPermission<'a> {
    pub(super) permission: &'a Permission,
    pub(super) tools: Option<&'a [String]>,
    pub(super) directory: &'a str,
    /// Volery's own server is available, and all of its tools may be used: the worker decides who may delegate to whom.
    pub(super) delegates: bool,
    /// The agent's own servers. Without a level, the agent may use them.
    pub(super) servers: &'a [McpServer],
}

/// One rule of the engine.
struct PolicyRule {
    tools: Vec<String>,
    server: Option<String>,
    arguments: Option<String>,
    decision: &'static str,
    rank: u16,
    reason: String,
}

impl GeminiPermission<'_> {
    /// Returns a policy with the agent's own rules only, for a run in which the mode and the user's rules decide about the rest.
    pub(super) fn rules_only_policy(&self) -> String {
        let git_denial = self.git_denial().filter(|_| self.allows_edits_by_pattern());
        self.own_rules().iter().chain(&git_denial).map(PolicyRule::to_toml).collect()
    }

    fn own_rules(&self) -> Vec<PolicyRule> {
        let mut rules = Vec::new();
        self.add_restrictions(&self.permission.deny, RANK_DENY, "deny", &mut rules);
        self.add_restrictions(&self.permission.ask, RANK_ASK, "ask", &mut rules);
        for rule in &self.permission.allow {
            // A pattern matches files in `.git` only if it names `.git`.
            let edits = matches!(rule.kind(), ToolKind::Edit | ToolKind::Everything);
            let is_in_git = edits && rule.pattern().is_none_or(is_in_git_dir);
            let rank = if is_in_git { RANK_ALLOW_IN_GIT } else { RANK_ALLOW };
            rules.extend(self.policy_rule(rule, "allow", rank, format!("the rule allow {rule}")));
        }
        rules
    }

    /// Returns whether the level does not allow every edit, and a rule allows some.
    fn allows_edits_by_pattern(&self) -> bool {
        let has_pattern = |rule: &Rule| rule.kind() == ToolKind::Edit && rule.pattern().is_some();
        self.permission.level_extent(ToolKind::Edit) != Extent::Everything
            && self.permission.allow.iter().any(has_pattern)
    }

    /// Returns the rule that denies edits in `.git`.
    fn git_denial(&self) -> Option<PolicyRule> {
        let reason = "no level and no pattern allows what is git's own, unless it names .git".to_owned();
        let mut tools = to_strings(versions::tools_for(ToolKind::Edit));
        tools.retain(|tool| self.is_listed(tool));
        let arguments = Some(GIT_PATHS.to_owned());
        let policy_rule =
            PolicyRule { arguments, ..PolicyRule::new(tools, "deny", RANK_DENY_IN_GIT, reason) };
        (!policy_rule.tools.is_empty()).then_some(policy_rule)
    }

    /// Returns the policy file of a run in which the permission decides about everything.
    pub(super) fn full_policy(&self) -> String {
        let mut rules = self.own_rules();
        if self.delegates {
            let mut policy_rule = PolicyRule::new(
                vec!["*".to_owned()],
                "allow",
                RANK_ALLOW,
                "the agent may delegate".to_owned(),
            );
            policy_rule.server = Some(OWN_SERVER.to_owned());
            rules.push(policy_rule);
        }
        if self.has_path_rules() {
            rules.push(PolicyRule {
                tools: to_strings(versions::tools_for(ToolKind::Edit)),
                server: None,
                arguments: Some(UNNORMALIZED_PATHS.to_owned()),
                decision: "deny",
                rank: RANK_DENY,
                reason: "a path that goes up or has empty parts cannot be checked".to_owned(),
            });
        }
        let by_level = self.permission.level_extent(ToolKind::Edit) == Extent::Directory;
        if by_level || self.allows_edits_by_pattern() {
            rules.extend(self.git_denial());
        }
        rules.extend(self.level_rules());
        rules.extend(self.server_rules());
        let reason = "no rule allows it, and nobody can be asked".to_owned();
        rules.push(PolicyRule::new(vec!["*".to_owned()], "deny", RANK_DEFAULT, reason));
        rules.iter().map(PolicyRule::to_toml).collect()
    }

    /// Returns whether nothing restricts the agent, so that the program may skip its checks.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.permission.is_unrestricted()
    }

    fn has_path_rules(&self) -> bool {
        let Permission { level: _, allow, ask, deny } = self.permission;
        allow
            .iter()
            .chain(ask)
            .chain(deny)
            .any(|rule| rule.kind() == ToolKind::Edit && rule.pattern().is_some())
    }

    fn add_restrictions(
        &self,
        permission_rules: &[Rule],
        rank: u16,
        list: &str,
        rules: &mut Vec<PolicyRule>,
    ) {
        for rule in permission_rules {
            rules.extend(self.policy_rule(rule, "deny", rank, format!("the rule {list} {rule}")));
        }
    }

    fn policy_rule(
        &self,
        rule: &Rule,
        decision: &'static str,
        rank: u16,
        reason: String,
    ) -> Option<PolicyRule> {
        let mut policy_rule = PolicyRule::new(Vec::new(), decision, rank, reason);
        match (rule.kind(), rule.pattern()) {
            (ToolKind::Everything, None) if decision == "allow" => {
                policy_rule.tools = self.all_listed_tools()
            }
            (ToolKind::Everything, None) => policy_rule.tools = vec!["*".to_owned()],
            (ToolKind::Mcp { server, tool }, None) => {
                policy_rule.server = Some(server.to_owned());
                policy_rule.tools = vec![tool.unwrap_or("*").to_owned()];
            }
            (ToolKind::Other(name), None) => policy_rule.tools = vec![name.to_owned()],
            (kind, None) => policy_rule.tools = to_strings(versions::tools_for(kind)),
            (kind, Some(pattern)) => {
                policy_rule.arguments = Some(argument_regex(kind, pattern, self.directory)?);
                policy_rule.tools = to_strings(versions::tools_for(kind));
            }
        }
        if decision == "allow" && policy_rule.server.is_none() {
            policy_rule.tools.retain(|tool| tool == "*" || self.is_listed(tool));
        }
        (!policy_rule.tools.is_empty()).then_some(policy_rule)
    }

    /// Returns the rules for what the level allows.
    fn level_rules(&self) -> Vec<PolicyRule> {
        let level = self.permission.level.unwrap_or(Level::SafeEdit);
        let reason = format!("the level {}", level.as_str());
        let mut tools = to_strings(NOTE_TOOLS);
        match level.is_limited() {
            false => tools = self.all_listed_tools(),
            true => {
                let kinds = [ToolKind::Read, ToolKind::Search, ToolKind::Edit];
                let kinds = kinds.into_iter().filter(|kind| level.extent(*kind) != Extent::Nothing);
                let tools_by_kind = kinds.flat_map(|kind| to_strings(versions::tools_for(kind)));
                tools.extend(tools_by_kind.filter(|tool| self.is_listed(tool)));
            }
        }
        let mut rules = vec![PolicyRule::new(tools, "allow", RANK_LEVEL, reason.clone())];
        if !level.is_limited() {
            let mut policy_rule = PolicyRule::new(vec!["*".to_owned()], "allow", RANK_LEVEL, reason);
            policy_rule.server = Some("*".to_owned());
            rules.push(policy_rule);
        }
        rules
    }

    /// Returns the rules that allow the tools of the agent's own servers, limited by its list of tools.
    fn server_rules(&self) -> Vec<PolicyRule> {
        let policy_rule = |server: &McpServer| {
            let tools = self.server_tools(&server.name);
            let reason = format!("the server {} is the agent's own", server.name);
            let policy_rule = PolicyRule {
                server: Some(server.name.clone()),
                ..PolicyRule::new(tools, "allow", RANK_LEVEL, reason)
            };
            (!policy_rule.tools.is_empty()).then_some(policy_rule)
        };
        let is_allowed =
            |server: &&McpServer| mcp_config::is_implicitly_allowed(self.permission, &server.name);
        self.servers.iter().filter(is_allowed).filter_map(policy_rule).collect()
    }

    /// Returns the tools of a server that are in the agent's list of tools; all of them if there is no list.
    fn server_tools(&self, server: &str) -> Vec<String> {
        let Some(listed) = self.tools else { return vec!["*".to_owned()] };
        let prefixes = [format!("mcp_{server}_"), format!("mcp__{server}__")];
        let tool_of_server = |name: &String| {
            let is_wildcard = matches!(name.as_str(), "*" | "mcp_*" | "mcp__*");
            let own_tool = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix.as_str()));
            if is_wildcard { Some("*".to_owned()) } else { own_tool.map(ToOwned::to_owned) }
        };
        listed.iter().filter_map(tool_of_server).collect()
    }

    /// Returns all built-in tools that the agent may have.
    fn all_listed_tools(&self) -> Vec<String> {
        match self.tools {
            None => vec!["*".to_owned()],
            Some(listed) => {
                let own_tools =
                    versions::all_tools().filter(|tool| self.is_listed(tool)).map(ToOwned::to_owned);
                let other_tools =
                    listed.iter().filter(|name| matches!(ToolKind::from_name(name), ToolKind::Other(_)));
                own_tools.chain(other_tools.cloned()).chain(to_strings(NOTE_TOOLS)).collect()
            }
        }
    }

    /// Returns whether a tool is in the agent's list of tools, or there is no list.
    fn is_listed(&self, tool: &str) -> bool {
        self.tools.is_none_or(|listed| lists_tool(listed, tool))
    }
}

/// Returns whether a list contains a tool. A name of the program stands for that tool alone, any other name for all tools of its
/// kind.
fn lists_tool(listed: &[String], tool: &str) -> bool {
    let kind = ToolKind::from_name(tool);
    listed.iter().any(|name| match ToolKind::from_name(name) {
        _ if versions::all_tools().any(|known| known == name) => name == tool,
        listed_kind => listed_kind == kind || listed_kind == ToolKind::Everything,
    })
}

/// Returns a policy that denies the built-in tools that are not in a list, and says nothing about other tools.
pub(super) fn unlisted_tools_policy(tools: &[String]) -> String {
    let unlisted: Vec<String> =
        versions::all_tools().filter(|tool| !lists_tool(tools, tool)).map(ToOwned::to_owned).collect();
    let reason = "the agent's list of tools does not have it".to_owned();
    if unlisted.is_empty() {
        String::new()
    } else {
        PolicyRule::new(unlisted, "deny", RANK_DENY, reason).to_toml()
    }
}

/// Returns a policy file in the system's folder, if there is one. It takes precedence over the run's policy.
pub(super) fn system_policy(folder: &Path) -> Option<PathBuf> {
    user_environment::files_with_extension(folder, |ending| ending == "toml").into_iter().next()
}

/// Returns the restricting rules that the engine cannot express.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    // The engine compares the names of servers and tools as texts.
    let is_gap = |rule: &Rule| inexpressible(&rule) || rule.has_server_glob();
    let gaps = permission.restricting_rules().filter(|(_, rule)| is_gap(rule));
    gaps.map(|(list, rule)| format!("the rule {list} {rule}")).collect()
}

/// Returns the allowing rules that the engine cannot express.
pub(super) fn inexpressible_grants(permission: &Permission) -> Vec<String> {
    if permission.level.is_some_and(|level| !level.is_limited()) {
        return Vec::new();
    }
    permission.allow.iter().filter(inexpressible).map(|rule| format!("the rule allow {rule}")).collect()
}

fn inexpressible(rule: &&Rule) -> bool {
    rule.pattern().is_some_and(|pattern| argument_regex(rule.kind(), pattern, "/").is_none())
}

/// Matches paths that are not normalized. The engine matches arguments as text, each between two zero bytes.
const UNNORMALIZED_PATHS: &str = r#"\x00"file_path":"(?:\.\./|\./\.|[^\x00]*/\.\.?/|[^\x00]*//)"#;

/// Matches paths in `.git`.
const GIT_PATHS: &str = r#"\x00"file_path":"(?:[^\x00]*/|)\.[gG][iI][tT][/"]"#;

/// Returns the regular expression for the arguments of a tool, if the pattern of a rule has one. No group may be repeated: the
/// engine considers such an expression dangerous and drops the rule.
fn argument_regex(kind: ToolKind<'_>, pattern: &str, directory: &str) -> Option<String> {
    let expression = match kind {
        ToolKind::Shell => match pattern.strip_suffix(":*") {
            Some(prefix) => format!(r#"\x00"command":"{}(?:[\s"]|\\)"#, literal_regex(prefix)?),
            None => format!(r#"\x00"command":"{}"\x00"#, glob_regex(pattern, r"[^\x00]*")?),
        },
        ToolKind::Edit => {
            // Rules in the format of Claude Code write an absolute path with two slashes.
            let absolute = pattern.strip_prefix('/').filter(|rest| rest.starts_with('/')).unwrap_or(pattern);
            let directory = directory.trim_end_matches('/');
            let inside = absolute.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
            let (prefix, path) = match (inside, absolute.starts_with('/')) {
                (None, true) => (String::new(), absolute),
                (inside, _) => {
                    let path = inside.unwrap_or(absolute).trim_start_matches("./");
                    (format!(r"(?:{}/|\./|)", literal_regex(directory)?), path)
                }
            };
            let path = glob_regex(path, r"[^/\x00]*")?;
            format!(r#"\x00"file_path":"{prefix}{path}"\x00"#)
        }
        _ => return None,
    };
    (expression.len() <= REGEX_BYTES_MAX).then_some(expression)
}

/// Returns the expression for a glob: `star` for one star, anything for two, one character for `?`.
fn glob_regex(pattern: &str, star: &str) -> Option<String> {
    let mut expression = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find(['*', '?']) {
        expression.push_str(&literal_regex(&rest[..at])?);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("**") {
            expression.push_str(r"[^\x00]*");
            // `**/` also matches no folder at all.
            rest = after.strip_prefix('/').filter(|after| !after.is_empty()).unwrap_or(after);
        } else {
            expression.push_str(if rest.starts_with('*') { star } else { r"[^\x00]" });
            rest = &rest[1..];
        }
    }
    expression.push_str(&literal_regex(rest)?);
    Some(expression)
}

/// Returns the expression for a literal text, or `None` if JSON would escape the text.
fn literal_regex(text: &str) -> Option<String> {
    if text.contains(['"', '\\']) || text.chars().any(char::is_control) {
        return None;
    }
    let plain = |character: char| {
        !character.is_ascii() || character.is_ascii_alphanumeric() || matches!(character, ' ' | '-' | '_')
    };
    let escaped = text.chars().flat_map(|character| {
        let escape = (!plain(character)).then_some('\\');
        escape.into_iter().chain(std::iter::once(character))
    });
    Some(escaped.collect())
}

impl PolicyRule {
    fn new(tools: Vec<String>, decision: &'static str, rank: u16, reason: String) -> Self {
        Self { tools, server: None, arguments: None, decision, rank, reason }
    }

    /// Returns the rule as TOML, which accepts JSON strings.
    fn to_toml(&self) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let mut text = "[[rule]]\n".to_owned();
        let mut field = |name: &str, value: String| {
            writeln!(text, "{name} = {value}").expect("a string takes every text");
        };
        let tools: Vec<String> = self.tools.iter().map(|tool| quoted(tool)).collect();
        field("toolName", format!("[{}]", tools.join(", ")));
        if let Some(server) = &self.server {
            field("mcpName", quoted(server));
        }
        if let Some(arguments) = &self.arguments {
            field("argsPattern", quoted(arguments));
        }
        field("decision", quoted(self.decision));
        field("priority", self.rank.to_string());
        match self.decision {
            "deny" => field("denyMessage", quoted(&self.reason)),
            _ => field("allowRedirection", (self.tools == ["*"] && self.server.is_none()).to_string()),
        }
        text.push('\n');
        text
    }
}

fn to_strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
