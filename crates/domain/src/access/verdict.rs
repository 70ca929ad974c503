//! The decision about one use, with its reason and what is allowed instead, in words for a model and for people.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{AccessEffect, AccessRule};

/// The decision about one use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessVerdict {
    pub effect: AccessEffect,
    /// What was to be done, in words: `writing docs/a.md`.
    pub action: String,
    pub basis: AccessBasis,
    /// For a denial: the uses of the same kind that the rules allow.
    pub allowed: AllowedUses,
    /// A rule that allows the command determines each of its arguments.
    pub fixes_arguments: bool,
}

/// What a decision rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessBasis {
    Rule {
        rule: AccessRule,
        /// The name of the layer.
        layer: String,
    },
    /// No rule of this layer allows it.
    NoRule {
        layer: String,
    },
    NoLayer,
    BuiltIn(BuiltInDenial),
}

/// What no rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuiltInDenial {
    /// Git executes what is written there.
    GitDirectory,
    VoleryDirectory,
    /// Volery's own state and configuration.
    ProtectedDirectory,
    /// It is unknown which file the path leads to.
    UnresolvedPath,
    /// A line for a shell.
    CommandLine,
    /// The command has no program, or words that no program can receive.
    UnreadableCommand,
}

impl fmt::Display for BuiltInDenial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::GitDirectory => "nothing may be written in a .git directory",
            Self::VoleryDirectory => "nothing may be written in a .volery directory",
            Self::ProtectedDirectory => "Volery's own files are there",
            Self::UnresolvedPath => "it is unknown which file this path leads to",
            Self::CommandLine => "a command is a list of words, not a line for a shell",
            Self::UnreadableCommand => "it has no program, or words that no program can receive",
        })
    }
}

/// A bounded list of what rules allow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedUses {
    /// Patterns of paths, commands, hosts or names.
    pub patterns: Vec<String>,
    /// How many more there are.
    pub omitted: usize,
}

impl AllowedUses {
    /// The maximum number of patterns. A model reads all of them with each denial.
    const PATTERNS_MAX: usize = 20;
    const PATTERN_CHARS_MAX: usize = 200;

    pub(super) fn new(mut patterns: Vec<String>) -> Self {
        let mut known = std::collections::HashSet::new();
        patterns.retain(|pattern| known.insert(pattern.clone()));
        let omitted = patterns.len().saturating_sub(Self::PATTERNS_MAX);
        patterns.truncate(Self::PATTERNS_MAX);
        let patterns = patterns.iter().map(|pattern| shorten(pattern, Self::PATTERN_CHARS_MAX)).collect();
        Self { patterns, omitted }
    }
}

impl fmt::Display for AllowedUses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.patterns.is_empty(), self.omitted) {
            (true, _) => formatter.write_str("nothing"),
            (false, 0) => formatter.write_str(&self.patterns.join(", ")),
            (false, omitted) => write!(formatter, "{} and {omitted} more", self.patterns.join(", ")),
        }
    }
}

impl AccessVerdict {
    /// Returns the rule or its absence in words, with where it is written.
    pub fn reason(&self) -> String {
        match &self.basis {
            AccessBasis::Rule { rule, layer } => {
                let source = &rule.source;
                format!("the rule `{rule}` of {layer} ({}:{})", source.file, source.line)
            }
            AccessBasis::NoRule { layer } => format!("no rule of {layer} allows it"),
            AccessBasis::NoLayer => "no rule allows it".to_owned(),
            AccessBasis::BuiltIn(denial) => denial.to_string(),
        }
    }

    /// Returns the decision as a sentence, for a denial with what is allowed instead.
    pub fn explanation(&self) -> String {
        let Self { action, .. } = self;
        let reason = self.reason();
        match self.effect {
            AccessEffect::Allow => format!("{action} is allowed: {reason}."),
            AccessEffect::NeedsApproval => format!("{action} needs the approval of a person: {reason}."),
            AccessEffect::Deny => {
                format!("{action} is denied: {reason}. Allowed for this kind of use: {}.", self.allowed)
            }
        }
    }
}

/// Returns a text with its end replaced if it is too long, and with invisible characters visible.
pub(super) fn shorten(text: &str, chars_max: usize) -> String {
    let mut shortened: String = text.chars().take(chars_max).collect();
    if shortened.len() < text.len() {
        shortened.push('…');
    }
    crate::invisible_text::escape_invisible(&shortened).into_owned()
}
