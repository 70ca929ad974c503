//! A permission in the language of Gemini CLI's policy engine. Everything that no rule allows is denied: nobody can be
//! asked, so what would be asked is denied too.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use domain::mcp_server::McpServer;
use domain::permission::{Level, Permission, Rule, ToolKind};
use serde_json::Value;

use super::versions::{self, NOTES};
use crate::mcp_config::{self, OWN_SERVER};
use crate::user;

/// Ranks of rules, the highest first. All stand above what settings can say, also where the engine takes the run's policy
/// for the user's: those it ranks below 951.
const DENY: u16 = 999;
const ASK: u16 = 998;
const ALLOW: u16 = 990;
const BESIDE_LEVEL: u16 = 985;
const LEVEL: u16 = 980;
const REST: u16 = 960;

/// The longest pattern that the engine takes. One that it does not take it passes over, which for a denial is fatal.
const REGEX_BYTES_MAX: usize = 1_500;

/// What a policy is made of.
pub(super) struct Wanted<'a> {
    pub(super) permission: &'a Permission,
    pub(super) tools: Option<&'a [String]>,
    pub(super) directory: &'a str,
    /// Our own server is there, and all of its tools may be used: who may delegate to whom is decided by its worker.
    pub(super) delegates: bool,
    /// The agent's own servers. Where no level is named, who gave them to the agent meant them to be used.
    pub(super) servers: &'a [McpServer],
}

/// One rule of the engine.
struct Line {
    tools: Vec<String>,
    server: Option<String>,
    arguments: Option<String>,
    decision: &'static str,
    rank: u16,
    reason: String,
}

impl Wanted<'_> {
    /// Returns a policy with the agent's own rules alone, for a program whose mode and user decide about the rest.
    pub(super) fn rules(&self) -> String {
        self.own_rules().iter().map(Line::text).collect()
    }

    fn own_rules(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        self.restrictions(&self.permission.deny, DENY, "deny", &mut lines);
        self.restrictions(&self.permission.ask, ASK, "ask", &mut lines);
        for rule in &self.permission.allow {
            lines.extend(self.line(rule, "allow", ALLOW, format!("the rule allow {rule}")));
        }
        lines
    }

    /// Returns the policy file.
    pub(super) fn policy(&self) -> String {
        let mut lines = self.own_rules();
        if self.delegates {
            let mut line =
                Line::of(vec!["*".to_owned()], "allow", ALLOW, "the agent may delegate".to_owned());
            line.server = Some(OWN_SERVER.to_owned());
            lines.push(line);
        }
        if self.by_path() {
            lines.push(Line {
                tools: owned(versions::tools(ToolKind::Edit)),
                server: None,
                arguments: Some(CROOKED_PATHS.to_owned()),
                decision: "deny",
                rank: DENY,
                reason: "a path that goes up or has empty parts cannot be checked".to_owned(),
            });
        }
        if self.permission.level.unwrap_or(Level::SafeEdit) == Level::SafeEdit {
            let reason = "the level safe-edit does not allow what is git's own".to_owned();
            let mut tools = owned(versions::tools(ToolKind::Edit));
            tools.retain(|tool| self.is_wanted(tool));
            let arguments = Some(OF_GIT.to_owned());
            let line = Line { arguments, ..Line::of(tools, "deny", BESIDE_LEVEL, reason) };
            lines.extend((!line.tools.is_empty()).then_some(line));
        }
        lines.extend(self.level());
        lines.extend(self.own_servers());
        let rest = "no rule allows it, and nobody can be asked".to_owned();
        lines.push(Line::of(vec!["*".to_owned()], "deny", REST, rest));
        lines.iter().map(Line::text).collect()
    }

    /// Tells whether the program may take its own shortcut past every check: only if nothing restricts what it does.
    pub(super) fn is_unrestricted(&self) -> bool {
        let permission = self.permission;
        permission.level == Some(Level::Yolo) && permission.deny.is_empty() && permission.ask.is_empty()
    }

    fn by_path(&self) -> bool {
        let Permission { level: _, allow, ask, deny } = self.permission;
        allow
            .iter()
            .chain(ask)
            .chain(deny)
            .any(|rule| rule.kind() == ToolKind::Edit && rule.pattern().is_some())
    }

    fn restrictions(&self, rules: &[Rule], rank: u16, word: &str, lines: &mut Vec<Line>) {
        for rule in rules {
            lines.extend(self.line(rule, "deny", rank, format!("the rule {word} {rule}")));
        }
    }

    fn line(&self, rule: &Rule, decision: &'static str, rank: u16, reason: String) -> Option<Line> {
        let mut line = Line::of(Vec::new(), decision, rank, reason);
        match (rule.kind(), rule.pattern()) {
            (ToolKind::Everything, None) if decision == "allow" => line.tools = self.everything(),
            (ToolKind::Everything, None) => line.tools = vec!["*".to_owned()],
            (ToolKind::Mcp { server, tool }, None) => {
                line.server = Some(server.to_owned());
                line.tools = vec![tool.unwrap_or("*").to_owned()];
            }
            (ToolKind::Other(name), None) => line.tools = vec![name.to_owned()],
            (kind, None) => line.tools = owned(versions::tools(kind)),
            (kind, Some(pattern)) => {
                line.arguments = Some(regex(kind, pattern, self.directory)?);
                line.tools = owned(versions::tools(kind));
            }
        }
        if decision == "allow" && line.server.is_none() {
            line.tools.retain(|tool| tool == "*" || self.is_wanted(tool));
        }
        (!line.tools.is_empty()).then_some(line)
    }

    /// What the level allows by itself.
    fn level(&self) -> Vec<Line> {
        let level = self.permission.level.unwrap_or(Level::SafeEdit);
        let reason = format!("the level {}", level.as_str());
        let mut tools = owned(NOTES);
        match level {
            Level::Yolo => tools = self.everything(),
            Level::ReadOnly | Level::SafeEdit => {
                let kinds = [ToolKind::Read, ToolKind::Search];
                let edit = (level == Level::SafeEdit).then_some(ToolKind::Edit);
                let named = kinds.into_iter().chain(edit).flat_map(|kind| owned(versions::tools(kind)));
                tools.extend(named.filter(|tool| self.is_wanted(tool)));
            }
        }
        let mut lines = vec![Line::of(tools, "allow", LEVEL, reason.clone())];
        if level == Level::Yolo {
            let mut line = Line::of(vec!["*".to_owned()], "allow", LEVEL, reason);
            line.server = Some("*".to_owned());
            lines.push(line);
        }
        lines
    }

    /// What the agent's own servers offer, as far as its list of tools has it.
    fn own_servers(&self) -> Vec<Line> {
        let line = |server: &McpServer| {
            let tools = self.tools_of(&server.name);
            let reason = format!("the server {} is the agent's own", server.name);
            let line = Line { server: Some(server.name.clone()), ..Line::of(tools, "allow", LEVEL, reason) };
            (!line.tools.is_empty()).then_some(line)
        };
        let meant = |server: &&McpServer| mcp_config::is_meant(self.permission, &server.name);
        self.servers.iter().filter(meant).filter_map(line).collect()
    }

    /// Returns the tools of a server that the agent's list of tools, if it has one, has.
    fn tools_of(&self, server: &str) -> Vec<String> {
        let Some(named) = self.tools else { return vec!["*".to_owned()] };
        let prefixes = [format!("mcp_{server}_"), format!("mcp__{server}__")];
        let of_server = |name: &String| {
            let whole = matches!(name.as_str(), "*" | "mcp_*" | "mcp__*");
            let within = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix.as_str()));
            if whole { Some("*".to_owned()) } else { within.map(ToOwned::to_owned) }
        };
        named.iter().filter_map(of_server).collect()
    }

    /// Returns what stands for all of the program's own tools that the agent may have.
    fn everything(&self) -> Vec<String> {
        match self.tools {
            None => vec!["*".to_owned()],
            Some(named) => {
                let own = versions::all_tools().filter(|tool| self.is_wanted(tool)).map(ToOwned::to_owned);
                let others = named.iter().filter(|name| matches!(ToolKind::named(name), ToolKind::Other(_)));
                own.chain(others.cloned()).chain(owned(NOTES)).collect()
            }
        }
    }

    /// Tells whether the agent's list of tools, if it has one, has this one.
    fn is_wanted(&self, tool: &str) -> bool {
        self.tools.is_none_or(|named| has(named, tool))
    }
}

/// A name of the program's own stands for that tool alone, any other word for all that do the same.
fn has(named: &[String], tool: &str) -> bool {
    let kind = ToolKind::named(tool);
    named.iter().any(|name| match ToolKind::named(name) {
        _ if versions::all_tools().any(|known| known == name) => name == tool,
        wanted => wanted == kind || wanted == ToolKind::Everything,
    })
}

/// Returns a policy that denies the program's own tools that are not in a list, and says nothing of the others.
pub(super) fn without(tools: &[String]) -> String {
    let unwanted: Vec<String> =
        versions::all_tools().filter(|tool| !has(tools, tool)).map(ToOwned::to_owned).collect();
    let reason = "the agent's list of tools does not have it".to_owned();
    if unwanted.is_empty() { String::new() } else { Line::of(unwanted, "deny", DENY, reason).text() }
}

/// Returns a policy in the machine's folder of them. The engine asks it before the run's.
pub(super) fn of_the_machine(folder: &Path) -> Option<PathBuf> {
    user::files(folder, |ending| ending == "toml").into_iter().next()
}

/// Names the rules that the engine cannot express.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    let lists = [("ask", &permission.ask), ("deny", &permission.deny)];
    lists
        .into_iter()
        .flat_map(|(word, rules)| {
            rules.iter().filter(inexpressible).map(move |rule| format!("the rule {word} {rule}"))
        })
        .collect()
}

/// Names the rules that allow what cannot be said.
pub(super) fn ungranted(permission: &Permission) -> Vec<String> {
    if permission.level == Some(Level::Yolo) {
        return Vec::new();
    }
    permission.allow.iter().filter(inexpressible).map(|rule| format!("the rule allow {rule}")).collect()
}

fn inexpressible(rule: &&Rule) -> bool {
    rule.pattern().is_some_and(|pattern| regex(rule.kind(), pattern, "/").is_none())
}

/// Paths that name a file in a roundabout way. The engine sees the arguments as text, each between two zero bytes.
const CROOKED_PATHS: &str = r#"\x00"file_path":"(?:\.\./|\./\.|[^\x00]*/\.\.?/|[^\x00]*//)"#;

/// Paths of files that are git's own.
const OF_GIT: &str = r#"\x00"file_path":"(?:[^\x00]*/|)\.[gG][iI][tT][/"]"#;

/// Returns the expression for the arguments of a tool, if the pattern of a rule has one. No group may be repeated: the
/// engine takes such expressions for dangerous and drops the rule.
fn regex(kind: ToolKind<'_>, pattern: &str, directory: &str) -> Option<String> {
    let expression = match kind {
        ToolKind::Shell => match pattern.strip_suffix(":*") {
            Some(prefix) => format!(r#"\x00"command":"{}(?:[\s"]|\\)"#, literal(prefix)?),
            None => format!(r#"\x00"command":"{}"\x00"#, glob(pattern, r"[^\x00]*")?),
        },
        ToolKind::Edit => {
            // Claude writes an absolute path with two slashes.
            let absolute = pattern.strip_prefix('/').filter(|rest| rest.starts_with('/')).unwrap_or(pattern);
            let directory = directory.trim_end_matches('/');
            let inside = absolute.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
            let (prefix, path) = match (inside, absolute.starts_with('/')) {
                (None, true) => (String::new(), absolute),
                (inside, _) => {
                    let path = inside.unwrap_or(absolute).trim_start_matches("./");
                    (format!(r"(?:{}/|\./|)", literal(directory)?), path)
                }
            };
            let path = glob(path, r"[^/\x00]*")?;
            format!(r#"\x00"file_path":"{prefix}{path}"\x00"#)
        }
        _ => return None,
    };
    (expression.len() <= REGEX_BYTES_MAX).then_some(expression)
}

/// Returns the expression for a pattern: `star` for one star, anything for two, one character for `?`.
fn glob(pattern: &str, star: &str) -> Option<String> {
    let mut expression = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find(['*', '?']) {
        expression.push_str(&literal(&rest[..at])?);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("**") {
            expression.push_str(r"[^\x00]*");
            // `**/` also stands for no folder at all.
            rest = after.strip_prefix('/').filter(|after| !after.is_empty()).unwrap_or(after);
        } else {
            expression.push_str(if rest.starts_with('*') { star } else { r"[^\x00]" });
            rest = &rest[1..];
        }
    }
    expression.push_str(&literal(rest)?);
    Some(expression)
}

/// Returns the expression for a text as it stands within JSON; nothing where JSON would write it otherwise than it is.
fn literal(text: &str) -> Option<String> {
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

impl Line {
    fn of(tools: Vec<String>, decision: &'static str, rank: u16, reason: String) -> Self {
        Self { tools, server: None, arguments: None, decision, rank, reason }
    }

    /// Returns the rule as TOML, whose strings may be written like those of JSON.
    fn text(&self) -> String {
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

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
