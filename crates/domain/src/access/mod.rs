//! Decides whether a directive may make a typed use. Everything that no rule allows is denied; of several layers, the
//! strictest verdict wins.

mod command_pattern;
mod decide;
mod path_pattern;
mod rule;
mod verdict;

use serde::{Deserialize, Serialize};

pub use decide::Access;
pub use path_pattern::PathPatternError;
pub use rule::{AccessKind, RuleProblem, fixes_arguments};
pub use verdict::{AccessBasis, AccessVerdict, AllowedUses, BuiltInDenial};

#[cfg(test)]
mod tests;

/// One rule: it allows or denies some uses, and names the line that says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRule {
    pub effect: AccessEffect,
    pub subject: AccessSubject,
    pub source: RuleSource,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessEffect {
    Allow,
    /// A person decides.
    NeedsApproval,
    Deny,
}

/// What a rule is about. Patterns of paths are globs in which `*` does not cross `/`; a relative pattern starts at the
/// run's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessSubject {
    /// Reads, lists and searches files.
    Read(String),
    Write(String),
    /// Words of a command, each a pattern; a last word `**` stands for any number of words. A single word allows the
    /// program with any arguments.
    Exec(Vec<String>),
    /// A host, or `*.example.org`.
    Reach(String),
    /// A tool of an MCP server; patterns in which `*` stands for any text.
    Mcp {
        server: String,
        tool: String,
    },
    /// Runs another agent or directive.
    Delegate(String),
    /// An environment variable.
    Env(String),
    /// A tool of the directive runtime itself, such as `search` or `load`.
    Runtime(String),
    /// Everything.
    Any,
}

/// The place where a rule is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSource {
    pub file: String,
    pub line: u32,
}

/// Rules of one origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessLayer {
    /// Who wrote them, for messages: `the directive's <permissions>`.
    pub name: String,
    pub rules: Vec<AccessRule>,
}
