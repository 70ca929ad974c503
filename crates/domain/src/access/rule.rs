//! A single rule: how it is written for people, whether it is usable, and whether it matches a use.
//!
//! A rule that allows must match all of a use. A rule that restricts also matches in doubt.

use std::fmt;

use super::path_pattern::{InDoubt, PathPattern, PathPatternError};
use super::{AccessEffect, AccessRule, AccessSubject, command_pattern};
use crate::policy::{Directory, ExecCommand, Use, UsePath, matches_text_glob};
use crate::shell_script;

/// The kinds of uses that rules are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessKind {
    /// Of files; includes listing and searching.
    Read,
    Write,
    Exec,
    Reach,
    Mcp,
    Delegate,
    Env,
    Runtime,
}

impl AccessKind {
    pub(super) fn of_use(of: &Use) -> Self {
        match of {
            Use::Read(_) | Use::List(_) | Use::Search(_) => Self::Read,
            Use::Write(_) => Self::Write,
            Use::Exec(_) => Self::Exec,
            Use::Reach(_) | Use::WebSearch => Self::Reach,
            Use::Mcp { .. } => Self::Mcp,
            Use::Delegate(_) => Self::Delegate,
            Use::Env(_) => Self::Env,
            Use::Other(_) => Self::Runtime,
        }
    }
}

/// Why a rule is unusable: as one that allows it matches nothing, as one that restricts every use of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    #[error("the path is unusable: {0}")]
    Path(#[from] PathPatternError),
    #[error("the command has no program")]
    NoProgram,
    #[error("the name is empty")]
    EmptyName,
    #[error("this is no host; write `example.org`, `*.example.org` for the hosts below it, or `*`")]
    Host,
}

impl AccessSubject {
    /// Returns the kind of uses that the subject is about; `None` for all of them.
    pub fn kind(&self) -> Option<AccessKind> {
        match self {
            Self::Read(_) => Some(AccessKind::Read),
            Self::Write(_) => Some(AccessKind::Write),
            Self::Exec(_) => Some(AccessKind::Exec),
            Self::Reach(_) => Some(AccessKind::Reach),
            Self::Mcp { .. } => Some(AccessKind::Mcp),
            Self::Delegate(_) => Some(AccessKind::Delegate),
            Self::Env(_) => Some(AccessKind::Env),
            Self::Runtime(_) => Some(AccessKind::Runtime),
            Self::Any => None,
        }
    }

    /// Returns the pattern of the subject without its kind.
    pub(super) fn pattern(&self) -> String {
        match self {
            Self::Read(pattern)
            | Self::Write(pattern)
            | Self::Reach(pattern)
            | Self::Delegate(pattern)
            | Self::Env(pattern)
            | Self::Runtime(pattern) => pattern.clone(),
            Self::Exec(words) => {
                let quote = |word: &String| match word.contains('*') && !word.contains(char::is_whitespace) {
                    true => word.clone(),
                    false => shell_script::quote(word),
                };
                words.iter().map(quote).collect::<Vec<_>>().join(" ")
            }
            Self::Mcp { server, tool } => format!("{server}.{tool}"),
            Self::Any => "anything".to_owned(),
        }
    }
}

impl fmt::Display for AccessSubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Read(_) => "read ",
            Self::Write(_) => "write ",
            Self::Exec(_) => "exec ",
            Self::Reach(_) => "reach ",
            Self::Mcp { .. } => "mcp ",
            Self::Delegate(_) => "delegate ",
            Self::Env(_) => "env ",
            Self::Runtime(_) => "runtime ",
            Self::Any => "",
        };
        write!(formatter, "{kind}{}", self.pattern())
    }
}

impl fmt::Display for AccessRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            AccessEffect::Allow => "allow",
            AccessEffect::NeedsApproval => "ask",
            AccessEffect::Deny => "deny",
        };
        write!(formatter, "{effect} {}", self.subject)
    }
}

impl AccessRule {
    /// Returns why the rule is unusable, for a diagnostic.
    pub fn problem(&self) -> Option<RuleProblem> {
        CompiledRule::new(self, &Directory::default()).problem
    }
}

/// Returns whether a rule determines every argument of its command. Without a kernel that confines commands, only such a
/// rule holds a program that can start others.
pub fn fixes_arguments(rule: &AccessRule) -> bool {
    match &rule.subject {
        AccessSubject::Exec(words) => command_pattern::fixes_arguments(words),
        AccessSubject::Read(_)
        | AccessSubject::Write(_)
        | AccessSubject::Reach(_)
        | AccessSubject::Mcp { .. }
        | AccessSubject::Delegate(_)
        | AccessSubject::Env(_)
        | AccessSubject::Runtime(_)
        | AccessSubject::Any => false,
    }
}

/// A rule with its compiled path.
#[derive(Debug, Clone)]
pub(super) struct CompiledRule {
    pub(super) rule: AccessRule,
    path: Option<PathPattern>,
    problem: Option<RuleProblem>,
}

impl CompiledRule {
    pub(super) fn new(rule: &AccessRule, directory: &Directory) -> Self {
        let mut path = None;
        let problem = match &rule.subject {
            AccessSubject::Read(pattern) | AccessSubject::Write(pattern) => {
                match PathPattern::new(pattern, directory) {
                    Ok(compiled) => {
                        path = Some(compiled);
                        None
                    }
                    Err(error) => Some(RuleProblem::Path(error)),
                }
            }
            AccessSubject::Exec(words) => {
                words.first().is_none_or(String::is_empty).then_some(RuleProblem::NoProgram)
            }
            AccessSubject::Reach(pattern) => (!is_host_pattern(pattern)).then_some(RuleProblem::Host),
            AccessSubject::Mcp { server, tool } => {
                (server.is_empty() || tool.is_empty()).then_some(RuleProblem::EmptyName)
            }
            AccessSubject::Delegate(name) | AccessSubject::Env(name) | AccessSubject::Runtime(name) => {
                name.is_empty().then_some(RuleProblem::EmptyName)
            }
            AccessSubject::Any => None,
        };
        Self { rule: rule.clone(), path, problem }
    }

    /// Returns whether the rule is about a kind, or about everything.
    pub(super) fn is_about(&self, kind: AccessKind) -> bool {
        self.rule.subject.kind().is_none_or(|own| own == kind)
    }

    /// Returns whether the rule, as one that allows, matches some uses of a kind.
    pub(super) fn may_cover(&self, kind: AccessKind) -> bool {
        self.is_about(kind) && self.problem.is_none()
    }

    /// Returns whether the rule, as one that allows, matches all of a use.
    pub(super) fn covers(&self, of: &Use, directory: &Directory) -> bool {
        if !self.may_cover(AccessKind::of_use(of)) {
            return false;
        }
        let matches = |path: &UsePath| {
            self.with_target(path, |pattern, target| {
                pattern.matches(target, &directory.target, InDoubt::DoesNotMatch)
            })
        };
        let could_match_below = |path: &UsePath| {
            self.with_target(path, |pattern, target| pattern.could_match_below(target, &directory.target))
        };
        match (&self.rule.subject, of) {
            (AccessSubject::Any, _) => true,
            (_, Use::Read(path) | Use::Write(path)) => matches(path),
            (_, Use::List(path)) => could_match_below(path),
            (_, Use::Search(path)) => matches(path) || could_match_below(path),
            (AccessSubject::Exec(rule), Use::Exec(ExecCommand::Argv(words))) => {
                command_pattern::covers(rule, words)
            }
            (AccessSubject::Reach(pattern), Use::Reach(Some(host))) => matches_host(pattern, host),
            (AccessSubject::Reach(pattern), Use::WebSearch) => pattern == "*",
            (AccessSubject::Mcp { server, tool }, Use::Mcp { server: used, tool: used_tool }) => {
                let covers_tool = match used_tool {
                    Some(used_tool) => matches_text_glob(tool, used_tool),
                    None => tool == "*",
                };
                matches_text_glob(server, used) && covers_tool
            }
            (AccessSubject::Delegate(pattern), Use::Delegate(Some(name)))
            | (AccessSubject::Env(pattern), Use::Env(name))
            | (AccessSubject::Runtime(pattern), Use::Other(name)) => matches_text_glob(pattern, name),
            (
                _,
                Use::Exec(_)
                | Use::Reach(_)
                | Use::WebSearch
                | Use::Mcp { .. }
                | Use::Delegate(_)
                | Use::Env(_)
                | Use::Other(_),
            ) => false,
        }
    }

    /// Returns whether the rule, as one that restricts, is about a use. Both the target of a path and its name count.
    pub(super) fn restricts(&self, of: &Use, directory: &Directory) -> bool {
        if !self.is_about(AccessKind::of_use(of)) {
            return false;
        }
        if self.problem.is_some() {
            return true;
        }
        match (&self.rule.subject, of) {
            (_, Use::Read(path) | Use::Write(path)) => {
                self.with_each_path(path, directory, |pattern, path| {
                    pattern.matches(path, &directory.target, InDoubt::Matches)
                })
            }
            (_, Use::List(path) | Use::Search(path)) => {
                self.with_each_path(path, directory, |pattern, path| {
                    pattern.matches(path, &directory.target, InDoubt::Matches)
                        || pattern.covers_below(path, &directory.target)
                })
            }
            (AccessSubject::Exec(rule), Use::Exec(ExecCommand::Argv(words))) => {
                command_pattern::restricts(rule, words)
            }
            (AccessSubject::Reach(pattern), Use::Reach(Some(host))) => matches_host(pattern, host),
            (AccessSubject::Mcp { server, tool }, Use::Mcp { server: used, tool: used_tool }) => {
                matches_text_glob(server, used)
                    && used_tool.as_ref().is_none_or(|used_tool| matches_text_glob(tool, used_tool))
            }
            (AccessSubject::Delegate(pattern), Use::Delegate(Some(name)))
            | (AccessSubject::Env(pattern), Use::Env(name))
            | (AccessSubject::Runtime(pattern), Use::Other(name)) => matches_text_glob(pattern, name),
            (
                _,
                Use::Exec(_)
                | Use::Reach(_)
                | Use::WebSearch
                | Use::Mcp { .. }
                | Use::Delegate(_)
                | Use::Env(_)
                | Use::Other(_),
            ) => true,
        }
    }

    /// Returns whether the rule matches every use of its kind.
    pub(super) fn is_total(&self) -> bool {
        let is_star = |pattern: &str| !pattern.is_empty() && pattern.chars().all(|letter| letter == '*');
        match &self.rule.subject {
            _ if self.problem.is_some() => true,
            AccessSubject::Read(_) | AccessSubject::Write(_) => {
                self.path.as_ref().is_some_and(PathPattern::covers_everything)
            }
            AccessSubject::Exec(words) => match words.as_slice() {
                [program] => is_star(program),
                [program, rest] => is_star(program) && rest == "**",
                _ => false,
            },
            AccessSubject::Mcp { server, tool } => is_star(server) && is_star(tool),
            AccessSubject::Reach(name)
            | AccessSubject::Delegate(name)
            | AccessSubject::Env(name)
            | AccessSubject::Runtime(name) => is_star(name),
            AccessSubject::Any => true,
        }
    }

    /// Compares the pattern with the target of a path. An unknown target matches nothing.
    fn with_target(&self, path: &UsePath, compare: impl Fn(&PathPattern, &str) -> bool) -> bool {
        match (&self.path, &path.target) {
            (Some(pattern), Some(target)) => compare(pattern, target),
            (None, _) | (Some(_), None) => false,
        }
    }

    /// Compares the pattern with the target of a path and with its name. An unknown target matches.
    fn with_each_path(
        &self,
        path: &UsePath,
        directory: &Directory,
        compare: impl Fn(&PathPattern, &str) -> bool,
    ) -> bool {
        let Some(pattern) = &self.path else { return true };
        let written = path.name.as_deref().map(|name| absolute_name(name, directory));
        match (&path.target, written) {
            (None, _) => true,
            (Some(target), None) => compare(pattern, target),
            (Some(target), Some(written)) => compare(pattern, target) || compare(pattern, &written),
        }
    }
}

/// Returns the absolute path of a name in the run's directory, from its text alone.
fn absolute_name(name: &str, directory: &Directory) -> String {
    let target = directory.target.trim_end_matches('/');
    let path = match super::path_pattern::below(name, &directory.name) {
        Some(inside) if name.starts_with('/') => format!("{target}/{inside}"),
        _ if name.starts_with('/') => name.to_owned(),
        _ => format!("{target}/{name}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn is_host_pattern(pattern: &str) -> bool {
    let host = pattern.strip_prefix("*.").unwrap_or(pattern);
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | ':' | '[' | ']');
    pattern == "*" || (!host.is_empty() && host.chars().all(is_plain))
}

fn matches_host(pattern: &str, host: &str) -> bool {
    let normalise = |host: &str| host.trim_end_matches('.').to_ascii_lowercase();
    let (pattern, host) = (normalise(pattern), normalise(host));
    match pattern.strip_prefix("*.") {
        Some(parent) => {
            host.strip_suffix(parent).is_some_and(|below| below.len() > 1 && below.ends_with('.'))
        }
        None => pattern == "*" || pattern == host,
    }
}
