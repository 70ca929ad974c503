//! Decides whether a rule matches a use. A restricting rule matches in doubt; a rule that allows does not.

use super::command_forms::{argv_forms, command_forms};
use super::pattern::{
    SHELL_METACHARACTERS, matches_argv, matches_command_line, matches_host, matches_name, matches_path_glob,
};
use super::uses::{ExecCommand, Use, UsePath};
use crate::permission::{Rule, ToolKind};

/// The directory that an agent works in, by name and as resolved on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directory {
    pub name: String,
    /// The same directory, with every symbolic link resolved.
    pub target: String,
}

/// Returns whether a rule that asks or denies matches a use.
pub(super) fn is_restricted_by(rule: &Rule, of: &Use, directory: &Directory) -> bool {
    // An agent without any tool still needs its variables: only a rule that names them withholds them.
    let is_withheld_tool = rule.kind() != ToolKind::Everything || of.kind() != ToolKind::Env;
    if !is_withheld_tool || !(matches_tool(rule, of) || rule.restricts(of.kind())) {
        return false;
    }
    let Some(pattern) = rule.pattern() else { return true };
    match of {
        Use::Exec(ExecCommand::Line(line)) => {
            split_commands(line).any(|part| matches_command_line(pattern, part))
                || command_forms(line).iter().any(|form| matches_command_line(pattern, form))
        }
        Use::Exec(ExecCommand::Argv(words)) => {
            let forms = argv_forms(words);
            let matches_words = |words: &Vec<&str>| matches_argv(pattern, words);
            forms.words.iter().any(matches_words)
                || forms.lines.iter().any(|form| matches_command_line(pattern, form))
                || (is_glob(pattern) && matches_command_line(pattern, &words.join(" ")))
        }
        Use::Exec(ExecCommand::Unknown) => true,
        Use::Read(path) | Use::List(path) | Use::Search(path) | Use::Write(path) => {
            // Both the name and its target count.
            let both = [relative_name(path, directory), relative_target(path, directory)];
            both.iter().any(|path| path.as_ref().is_none_or(|path| matches_path(pattern, path, directory)))
        }
        Use::Reach(Some(host)) => matches_host(pattern, host).unwrap_or(true),
        Use::Delegate(Some(agent)) => matches_name(pattern, agent),
        Use::Env(name) => matches_name(pattern, name),
        Use::Reach(None) | Use::Delegate(None) | Use::WebSearch | Use::Mcp { .. } | Use::Other(_) => true,
    }
}

/// Returns whether a rule that allows covers all of a use.
pub(super) fn is_covered_by(rule: &Rule, of: &Use, directory: &Directory) -> bool {
    if !matches_tool(rule, of) {
        return false;
    }
    let Some(pattern) = rule.pattern() else { return true };
    match of {
        Use::Exec(ExecCommand::Line(line)) => {
            !line.contains(SHELL_METACHARACTERS) && matches_command_line(pattern, line.trim())
        }
        Use::Exec(ExecCommand::Argv(words)) => {
            // A program that joins the words for a shell must not find more in them than the rule has.
            let is_plain = |word: &String| !word.contains(SHELL_METACHARACTERS);
            let borrowed: Vec<&str> = words.iter().map(String::as_str).collect();
            words.iter().all(is_plain) && matches_argv(pattern, &borrowed)
        }
        // A pattern such as `src/**` does not match the hooks of a repository below it.
        Use::Write(path) => relative_target(path, directory).is_some_and(|path| {
            matches_path(pattern, &path, directory) && (is_in_git_dir(pattern) || !is_in_git_dir(&path))
        }),
        Use::Read(path) | Use::List(path) | Use::Search(path) => {
            relative_target(path, directory).is_some_and(|path| matches_path(pattern, &path, directory))
        }
        Use::Reach(Some(host)) => matches_host(pattern, host).unwrap_or(false),
        // Claude writes the allowed agents in parentheses after the tool, separated by commas.
        Use::Delegate(Some(agent)) => matches_name(pattern, agent),
        Use::Env(name) => matches_name(pattern, name),
        Use::Exec(ExecCommand::Unknown)
        | Use::Reach(None)
        | Use::Delegate(None)
        | Use::WebSearch
        | Use::Mcp { .. }
        | Use::Other(_) => false,
    }
}

/// Returns whether a use changes a file in the agent's directory, outside of `.git`.
pub(super) fn is_in_directory(of: &Use, directory: &Directory) -> bool {
    match of {
        Use::Read(path) | Use::List(path) | Use::Search(path) | Use::Write(path) => {
            relative_target(path, directory).is_some_and(|path| !is_in_git_dir(&path))
        }
        Use::Exec(_)
        | Use::Reach(_)
        | Use::WebSearch
        | Use::Mcp { .. }
        | Use::Delegate(_)
        | Use::Env(_)
        | Use::Other(_) => false,
    }
}

fn matches_tool(rule: &Rule, of: &Use) -> bool {
    match (rule.kind(), of.kind()) {
        (ToolKind::Everything, _) => true,
        (ToolKind::Mcp { server, tool: None }, ToolKind::Mcp { server: used, .. }) => server == used,
        (ToolKind::Other(ruled), ToolKind::Other(used)) => ruled.eq_ignore_ascii_case(used),
        (ruled, used) => ruled == used,
    }
}

/// Returns the path relative to the directory, without resolving links.
fn relative_name(path: &UsePath, directory: &Directory) -> Option<String> {
    let name = path.name.as_deref()?;
    let relative = match name.starts_with('/') {
        true => [&directory.name, &directory.target]
            .into_iter()
            .find_map(|directory| strip_directory(name, directory))?,
        false => name,
    };
    let plain = relative.split('/').all(|part| part != "..");
    plain.then(|| relative.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/"))
}

/// Returns the resolved path relative to the directory, if both the name and its target are inside.
fn relative_target(path: &UsePath, directory: &Directory) -> Option<String> {
    relative_name(path, directory)?;
    strip_directory(path.target.as_deref()?, &directory.target).map(ToOwned::to_owned)
}

/// Returns whether a path is inside a `.git` directory. Git executes hooks and settings there for the next person who
/// calls it.
pub fn is_in_git_dir(path: &str) -> bool {
    path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
}

/// Returns an absolute path relative to a directory.
pub(super) fn strip_directory<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    path.strip_prefix(directory.trim_end_matches('/'))?.strip_prefix('/')
}

/// Returns whether a pattern of commands has stars within its words; `git:*` has none.
fn is_glob(pattern: &str) -> bool {
    !pattern.ends_with(":*") && pattern.contains(['*', '?'])
}

/// Splits a compound line at metacharacters, without parsing it.
fn split_commands(line: &str) -> impl Iterator<Item = &str> {
    line.split(SHELL_METACHARACTERS).map(str::trim).filter(|part| !part.is_empty())
}

fn matches_path(pattern: &str, path: &str, directory: &Directory) -> bool {
    // Claude writes an absolute path with two slashes.
    let pattern = pattern.strip_prefix("//").map_or_else(|| pattern.to_owned(), |rest| format!("/{rest}"));
    let inside =
        strip_directory(&pattern, &directory.name).or_else(|| strip_directory(&pattern, &directory.target));
    let pattern = inside.unwrap_or(&pattern).trim_start_matches("./");
    matches_path_glob(pattern, path)
}
