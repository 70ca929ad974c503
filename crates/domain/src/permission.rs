//! An agent's permissions: a level, and rules on tools. Backends translate them for their vendors and name the ones
//! that they cannot express.

mod stored;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use stored::RuleOrigin;
use stored::StoredPermission;

/// The longest rule that is read.
const RULE_BYTES_MAX: usize = 1_000;

/// The permission that an agent requires. An empty one requires nothing, and the backend's default applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredPermission", into = "StoredPermission")]
pub struct Permission {
    pub level: Option<Level>,
    pub allow: Vec<Rule>,
    pub ask: Vec<Rule>,
    pub deny: Vec<Rule>,
}

impl Permission {
    /// Returns whether the permission requires nothing.
    pub fn is_empty(&self) -> bool {
        self.level.is_none() && self.allow.is_empty() && self.ask.is_empty() && self.deny.is_empty()
    }
}

/// How much an agent may do without a rule of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Reads, and changes nothing.
    ReadOnly,
    /// Also edits files in its directory.
    SafeEdit,
    /// Everything, without questions.
    Yolo,
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::SafeEdit => "safe-edit",
            Self::Yolo => "yolo",
        }
    }
}

/// The reaction to a permission that the backend cannot express.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unenforceable {
    /// The run is refused with the list of unenforceable rules.
    #[default]
    Refuse,
    /// The run starts with a warning for each unenforceable rule.
    Warn,
}

/// A tool with an optional pattern for its use: `Read`, `Bash(curl:*)`, `Edit(src/**)`, `mcp__x__y`. It is stored in
/// its original spelling. Rules are equal if their spellings are, wherever they are written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Rule {
    spelling: String,
    tool_bytes: usize,
    origin: Option<RuleOrigin>,
}

/// A text that is not a valid rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a rule: {reason}")]
pub struct RuleError {
    pub text: String,
    pub reason: &'static str,
}

impl Rule {
    /// Returns the rule as it was written.
    pub fn spelling(&self) -> &str {
        &self.spelling
    }

    /// Returns the tool's name as the file spells it.
    pub fn tool(&self) -> &str {
        &self.spelling[..self.tool_bytes]
    }

    /// Returns the pattern in parentheses; `None` matches every use of the tool.
    pub fn pattern(&self) -> Option<&str> {
        self.spelling[self.tool_bytes..].strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
    }

    /// Returns the kind of the tool, whichever vendor's name was used.
    pub fn kind(&self) -> ToolKind<'_> {
        ToolKind::from_name(self.tool())
    }

    /// Returns where the rule is written, if that is known.
    pub fn origin(&self) -> Option<&RuleOrigin> {
        self.origin.as_ref()
    }

    /// Returns the rule with the place where it is written.
    #[must_use]
    pub fn with_origin(self, origin: Option<RuleOrigin>) -> Self {
        Self { origin, ..self }
    }

    /// Returns the rule for a tool and a pattern.
    pub fn with_pattern(tool: &str, pattern: &str) -> Result<Self, RuleError> {
        format!("{tool}({pattern})").parse()
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = |reason| Err(RuleError { text: crate::size::head(text, 80).to_owned(), reason });
        let spelling = text.trim();
        if spelling.is_empty() {
            return wrong("it is empty");
        }
        if spelling.len() > RULE_BYTES_MAX {
            return wrong("it has more than 1000 bytes");
        }
        if spelling.chars().any(char::is_control) {
            return wrong("it contains a control character");
        }
        // A rule becomes an argument of a program, so it must not look like an option.
        if spelling.starts_with('-') {
            return wrong("it begins with '-'");
        }
        let tool_bytes = match spelling.find('(') {
            Some(0) => return wrong("no tool stands before the parenthesis"),
            Some(_) if !spelling.ends_with(')') => return wrong("the parenthesis is not closed at its end"),
            Some(at) => at,
            None if spelling.ends_with(')') => return wrong("the parenthesis is not opened"),
            None => spelling.len(),
        };
        if spelling[..tool_bytes].contains(char::is_whitespace) {
            return wrong("the name of a tool has no spaces");
        }
        Ok(Self { spelling: spelling.to_owned(), tool_bytes, origin: None })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelling)
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.spelling
    }
}

impl TryFrom<String> for Rule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.spelling == other.spelling
    }
}

impl Eq for Rule {}

impl PartialOrd for Rule {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rule {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.spelling.cmp(&other.spelling)
    }
}

/// The kind of a tool. Vendors have different names for the same few tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind<'a> {
    Read,
    /// Changes files, also by writing new ones.
    Edit,
    Shell,
    /// Finds files or text in them.
    Search,
    Fetch,
    WebSearch,
    /// Delegates to another agent.
    Delegate,
    /// A server's tool, or all of them.
    Mcp {
        server: &'a str,
        tool: Option<&'a str>,
    },
    /// An environment variable. It is not a tool: Volery itself passes variables on or withholds them.
    Env,
    Everything,
    /// A name that no vendor's table contains.
    Other(&'a str),
}

/// The vendors' names for each kind of tool, in lower case.
const TOOL_NAMES: [(ToolKind<'static>, &[&str]); 9] = [
    (
        ToolKind::Read,
        &[
            "read",
            "fs_read",
            "read_file",
            "read_many_files",
            "notebookread",
            "view",
            "list",
            "ls",
            "list_directory",
        ],
    ),
    (
        ToolKind::Edit,
        &[
            "edit",
            "write",
            "fs_write",
            "write_file",
            "replace",
            "multiedit",
            "notebookedit",
            "create",
            "patch",
            "apply_patch",
            "str_replace",
        ],
    ),
    (
        ToolKind::Shell,
        &[
            "bash",
            "shell",
            "execute_bash",
            "execute_cmd",
            "run_shell_command",
            "execute",
            "terminal",
            "powershell",
            "monitor",
        ],
    ),
    (
        ToolKind::Search,
        &["glob", "grep", "search", "search_file_content", "grep_search", "find_files", "code", "codebase"],
    ),
    (ToolKind::Fetch, &["webfetch", "web_fetch", "fetch", "web"]),
    (ToolKind::WebSearch, &["websearch", "web_search", "google_web_search"]),
    (
        ToolKind::Delegate,
        &["task", "agent", "delegate", "subagent", "use_subagent", "custom-agent", "invoke_agent"],
    ),
    (ToolKind::Env, &["env"]),
    (ToolKind::Everything, &["*", "all"]),
];

impl<'a> ToolKind<'a> {
    /// Returns the kind of the tool with this name.
    pub fn from_name(name: &'a str) -> Self {
        if let Some(mcp) = parse_mcp_tool(name) {
            return mcp;
        }
        let word = name.to_ascii_lowercase();
        let known = TOOL_NAMES.iter().find(|(_, words)| words.contains(&word.as_str()));
        known.map_or(Self::Other(name), |(kind, _)| *kind)
    }
}

/// `mcp__server__tool` is the most common spelling; Kiro writes `@server/tool`.
fn parse_mcp_tool(name: &str) -> Option<ToolKind<'_>> {
    let (rest, separator) = match (name.strip_prefix("mcp__"), name.strip_prefix('@')) {
        (Some(rest), _) => (rest, "__"),
        // Kiro's own tools: neither a server nor all tools.
        (None, Some("builtin")) => return None,
        (None, Some(rest)) => (rest, "/"),
        (None, None) => return None,
    };
    let (server, tool) = match rest.split_once(separator) {
        Some((server, tool)) => (server, Some(tool)),
        None => (rest, None),
    };
    Some(ToolKind::Mcp { server, tool: tool.filter(|tool| *tool != "*") })
}

#[cfg(test)]
mod tests;
