//! What an agent may do with its tools, as its file says it: a level, and rules on tools. Translating them for a
//! vendor is the work of a backend; what one cannot express, it names.

mod command_forms;
mod decide;
mod narrow;
mod overlay;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use decide::{Ground, Ruling, is_in_repository, named_path};
pub use narrow::Narrowed;
pub use overlay::{Authority, Grant, GrantSource, Overlaid, TooWide};

/// The longest rule that is read.
const RULE_BYTES_MAX: usize = 1_000;

/// What an agent demands of its backend. Empty: nothing is demanded, and the backend's default holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Permission {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Rule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<Rule>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Rule>,
}

impl Permission {
    /// Tells whether nothing is demanded.
    pub fn is_empty(&self) -> bool {
        self.level.is_none() && self.allow.is_empty() && self.ask.is_empty() && self.deny.is_empty()
    }
}

/// How much an agent may do without a rule of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Looks, and changes nothing.
    ReadOnly,
    /// Also edits files in its directory.
    SafeEdit,
    /// Everything, unasked.
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

/// What happens when the backend cannot express a permission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unenforceable {
    /// The run is refused, with what cannot be enforced.
    #[default]
    Refuse,
    /// The run starts, and says what is not enforced.
    Warn,
}

/// A tool, or a tool with a pattern for what it is used on: `Read`, `Bash(curl:*)`, `Edit(src/**)`, `mcp__x__y`.
/// Keeps its spelling, which is also how it is stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Rule {
    spelling: String,
    tool_bytes: usize,
}

/// A text that is no rule.
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

    /// Returns the tool's name, in the words of the file that it comes from.
    pub fn tool(&self) -> &str {
        &self.spelling[..self.tool_bytes]
    }

    /// Returns what stands in the parentheses; `None` stands for every use of the tool.
    pub fn pattern(&self) -> Option<&str> {
        self.spelling[self.tool_bytes..].strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
    }

    /// Returns what the tool does, whichever vendor's word was used.
    pub fn kind(&self) -> ToolKind<'_> {
        ToolKind::named(self.tool())
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
        // A rule becomes an argument of a program: it must not be able to look like an option.
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
        Ok(Self { spelling: spelling.to_owned(), tool_bytes })
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

/// What a tool does. Vendors have their own words for the same few tools.
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
    /// Hands work to another agent.
    Delegate,
    /// A server's tool, or all of them.
    Mcp {
        server: &'a str,
        tool: Option<&'a str>,
    },
    Everything,
    /// A word that no vendor's table has.
    Other(&'a str),
}

/// Each vendor's words, in lower case, for what a tool does.
const WORDS: [(ToolKind<'static>, &[&str]); 8] = [
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
    (ToolKind::Everything, &["*", "all"]),
];

impl<'a> ToolKind<'a> {
    /// Returns what a tool of this name does.
    pub fn named(name: &'a str) -> Self {
        if let Some(mcp) = mcp_tool(name) {
            return mcp;
        }
        let word = name.to_ascii_lowercase();
        let known = WORDS.iter().find(|(_, words)| words.contains(&word.as_str()));
        known.map_or(Self::Other(name), |(kind, _)| *kind)
    }
}

/// `mcp__server__tool` is the most common spelling; Kiro writes `@server/tool`.
fn mcp_tool(name: &str) -> Option<ToolKind<'_>> {
    let (rest, separator) = match (name.strip_prefix("mcp__"), name.strip_prefix('@')) {
        (Some(rest), _) => (rest, "__"),
        // Kiro's own tools, which are no server's and not everything.
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
mod sample;
#[cfg(test)]
mod tests;
