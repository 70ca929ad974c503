//! Decides about one use of a tool: deny beats ask beats allow, and where no rule speaks, the level does.

use serde_json::Value;

use super::{Level, Permission, Rule, ToolKind};

/// What is decided about one use of a tool, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    Allow(String),
    /// Neither allowed nor denied: a person decides.
    Ask(String),
    Deny(String),
}

/// Characters by which one command line becomes several commands, or reads and writes files.
const COMPOUND: [char; 11] = [';', '|', '&', '`', '$', '(', ')', '<', '>', '\n', '\\'];

impl Permission {
    /// Decides about a use of a tool by an agent that works in this directory.
    pub fn decide(&self, tool: &str, input: &Value, directory: &str) -> Ruling {
        let usage = Usage { kind: ToolKind::named(tool), tool, input, directory };
        if let Some(rule) = self.deny.iter().find(|rule| usage.touches(rule)) {
            return Ruling::Deny(format!("the rule deny {rule}"));
        }
        if let Some(rule) = self.ask.iter().find(|rule| usage.touches(rule)) {
            return Ruling::Ask(format!("the rule ask {rule}"));
        }
        if let Some(rule) = self.allow.iter().find(|rule| usage.is_within(rule)) {
            return Ruling::Allow(format!("the rule allow {rule}"));
        }
        let within = match (self.level.unwrap_or(Level::SafeEdit), usage.kind) {
            (Level::Yolo, _) => true,
            (Level::ReadOnly | Level::SafeEdit, ToolKind::Read | ToolKind::Search) => true,
            (Level::SafeEdit, ToolKind::Edit) => usage.path().is_some(),
            (Level::ReadOnly | Level::SafeEdit, _) => false,
        };
        match (within, self.level) {
            (true, level) => {
                Ruling::Allow(format!("the level {}", level.unwrap_or(Level::SafeEdit).as_str()))
            }
            (false, Some(level)) => Ruling::Deny(format!("the level {} does not allow it", level.as_str())),
            (false, None) => Ruling::Ask("no rule allows or denies it".to_owned()),
        }
    }
}

/// One use of a tool.
struct Usage<'a> {
    kind: ToolKind<'a>,
    tool: &'a str,
    input: &'a Value,
    directory: &'a str,
}

impl Usage<'_> {
    fn is_of(&self, rule: &Rule) -> bool {
        match (rule.kind(), self.kind) {
            (ToolKind::Everything, _) => true,
            (ToolKind::Mcp { server, tool: None }, ToolKind::Mcp { server: used, .. }) => server == used,
            (ToolKind::Other(_), ToolKind::Other(_)) => rule.tool().eq_ignore_ascii_case(self.tool),
            (wanted, used) => wanted == used,
        }
    }

    /// Whether a rule that restricts speaks of this use: in doubt, it does.
    fn touches(&self, rule: &Rule) -> bool {
        let Some(pattern) = rule.pattern() else { return self.is_of(rule) };
        self.is_of(rule)
            && match self.kind {
                ToolKind::Shell => match self.command() {
                    Some(command) => commands(&command).any(|part| matches_command(pattern, part)),
                    None => true,
                },
                ToolKind::Read | ToolKind::Edit | ToolKind::Search => match self.path() {
                    Some(path) => matches_path(pattern, &path, self.directory),
                    None => true,
                },
                _ => true,
            }
    }

    /// Whether a rule that allows covers all of this use: in doubt, it does not.
    fn is_within(&self, rule: &Rule) -> bool {
        let Some(pattern) = rule.pattern() else { return self.is_of(rule) };
        self.is_of(rule)
            && match self.kind {
                ToolKind::Shell => self.command().is_some_and(|command| {
                    !command.contains(COMPOUND) && matches_command(pattern, command.trim())
                }),
                ToolKind::Read | ToolKind::Edit | ToolKind::Search => {
                    self.path().is_some_and(|path| matches_path(pattern, &path, self.directory))
                }
                // Claude writes the agents that may be called behind the tool, with commas.
                ToolKind::Delegate => {
                    let callee = self.input.get("subagent_type").and_then(Value::as_str);
                    callee.is_some_and(|callee| pattern.split(',').any(|name| name.trim() == callee))
                }
                _ => false,
            }
    }

    fn command(&self) -> Option<String> {
        let found = ["command", "cmd"].iter().find_map(|key| self.input.get(key))?;
        match found {
            Value::String(text) => Some(text.clone()),
            Value::Array(words) => words
                .iter()
                .map(|word| word.as_str())
                .collect::<Option<Vec<_>>>()
                .map(|words| words.join(" ")),
            _ => None,
        }
    }

    /// Returns the path within the directory, if the tool works on one and it stays there.
    fn path(&self) -> Option<String> {
        let keys = ["file_path", "path", "filePath", "notebook_path", "absolute_path"];
        let named = keys.iter().find_map(|key| self.input.get(key))?.as_str()?;
        let relative = match named.strip_prefix('/') {
            Some(_) => named.strip_prefix(self.directory.trim_end_matches('/'))?.strip_prefix('/')?,
            None => named,
        };
        let plain = relative.split('/').all(|part| part != "..");
        plain.then(|| {
            relative.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/")
        })
    }
}

/// Returns the commands of a compound line, as far as splitting it blindly finds them.
fn commands(line: &str) -> impl Iterator<Item = &str> {
    line.split(COMPOUND).map(str::trim).filter(|part| !part.is_empty())
}

/// `curl:*` stands for the command with any arguments, `git log` for exactly this, and `*` for anything.
fn matches_command(pattern: &str, command: &str) -> bool {
    match pattern.strip_suffix(":*") {
        Some(prefix) => {
            command.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        }
        None => matches_glob(pattern, command, false),
    }
}

fn matches_path(pattern: &str, path: &str, directory: &str) -> bool {
    // Claude writes an absolute path with two slashes.
    let pattern = pattern.strip_prefix("//").map_or_else(|| pattern.to_owned(), |rest| format!("/{rest}"));
    let inside = pattern.strip_prefix(&format!("{}/", directory.trim_end_matches('/')));
    let pattern = inside.unwrap_or(&pattern).trim_start_matches("./");
    matches_glob(pattern, path, true)
}

/// `*` stands for anything, but not for a `/` of a path; `**` for anything at all.
fn matches_glob(pattern: &str, text: &str, is_path: bool) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    // Where to go on when what follows the last star did not fit: the place in the pattern, in the text, and whether
    // the star may take a slash.
    let mut retry: Option<(usize, usize, bool)> = None;
    while from < text.len() {
        let star = pattern.get(at) == Some(&b'*');
        if star {
            let wide = pattern.get(at + 1) == Some(&b'*');
            at += if wide { 2 } else { 1 };
            if wide && is_path && pattern.get(at) == Some(&b'/') && pattern.len() > at + 1 {
                at += 1;
            }
            retry = Some((at, from, wide || !is_path));
        } else if at < pattern.len() && (pattern[at] == text[from] || pattern[at] == b'?') {
            at += 1;
            from += 1;
        } else if let Some((after, start, takes_slash)) = retry
            && (takes_slash || text[start] != b'/')
        {
            retry = Some((after, start + 1, takes_slash));
            at = after;
            from = start + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn permission(level: Option<Level>, allow: &[&str], ask: &[&str], deny: &[&str]) -> Permission {
        let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Permission { level, allow: rules(allow), ask: rules(ask), deny: rules(deny) }
    }

    fn word(permission: &Permission, tool: &str, input: &Value) -> &'static str {
        match permission.decide(tool, input, "/work") {
            Ruling::Allow(_) => "allow",
            Ruling::Ask(_) => "ask",
            Ruling::Deny(_) => "deny",
        }
    }

    fn shell(permission: &Permission, command: &str) -> &'static str {
        word(permission, "Bash", &json!({"command": command}))
    }

    #[test]
    fn without_any_demand_edits_in_the_directory_are_allowed_and_the_rest_is_asked() {
        let nothing = Permission::default();
        assert_eq!(word(&nothing, "Read", &json!({"file_path": "/etc/passwd"})), "allow");
        assert_eq!(word(&nothing, "Write", &json!({"file_path": "/work/a/b.rs"})), "allow");
        assert_eq!(word(&nothing, "Write", &json!({"file_path": "/work/../etc/x"})), "ask");
        assert_eq!(word(&nothing, "Write", &json!({"file_path": "/worker/x"})), "ask");
        assert_eq!(shell(&nothing, "ls"), "ask");
    }

    #[test]
    fn a_level_that_was_named_denies_what_is_beyond_it() {
        let reader = permission(Some(Level::ReadOnly), &[], &[], &[]);
        assert_eq!(word(&reader, "Grep", &json!({})), "allow");
        assert_eq!(word(&reader, "Edit", &json!({"file_path": "/work/a"})), "deny");
        let editor = permission(Some(Level::SafeEdit), &["Bash(cargo test:*)"], &[], &[]);
        assert_eq!(shell(&editor, "cargo test --all"), "allow");
        assert_eq!(shell(&editor, "cargo testament"), "deny");
        assert_eq!(shell(&editor, "cargo build"), "deny");
        assert_eq!(shell(&permission(Some(Level::Yolo), &[], &[], &[]), "rm -rf /"), "allow");
    }

    #[test]
    fn deny_beats_ask_beats_allow() {
        let mixed = permission(Some(Level::Yolo), &["Bash"], &["Bash(git push:*)"], &["Bash(rm:*)"]);
        assert_eq!(shell(&mixed, "git status"), "allow");
        assert_eq!(shell(&mixed, "git push origin"), "ask");
        assert_eq!(shell(&mixed, "rm x"), "deny");
    }

    #[test]
    fn a_compound_command_is_never_allowed_by_its_beginning_and_denied_by_any_part() {
        let curl = permission(Some(Level::SafeEdit), &["Bash(curl:*)"], &[], &["Bash(rm:*)"]);
        assert_eq!(shell(&curl, "curl example.org"), "allow");
        for sly in ["curl x; ls", "curl x && ls", "curl $(ls)", "curl x > y", "curl x\nls"] {
            assert_eq!(shell(&curl, sly), "deny", "{sly}");
        }
        let free = permission(Some(Level::Yolo), &[], &[], &["Bash(rm:*)"]);
        for sly in ["ls; rm x", "ls && rm x", "echo $(rm x)", "ls | rm x"] {
            assert_eq!(shell(&free, sly), "deny", "{sly}");
        }
    }

    #[test]
    fn patterns_of_paths_stay_in_their_folders() {
        let rules = permission(Some(Level::ReadOnly), &["Edit(src/**)", "Edit(*.md)"], &[], &[]);
        let edit = |path: &str| word(&rules, "Write", &json!({ "file_path": path }));
        assert_eq!(edit("/work/src/a/b.rs"), "allow");
        assert_eq!(edit("src/main.rs"), "allow");
        assert_eq!(edit("README.md"), "allow");
        assert_eq!(edit("docs/README.md"), "deny");
        assert_eq!(edit("src/../secret"), "deny");
        assert_eq!(edit("/etc/src/x"), "deny");
    }

    #[test]
    fn a_rule_about_delegation_allows_those_that_it_names() {
        let rules = permission(None, &["Agent(worker, researcher)"], &[], &[]);
        let ask = |callee: &str| word(&rules, "Agent", &json!({"subagent_type": callee, "prompt": "worker"}));
        assert_eq!((ask("worker"), ask("researcher")), ("allow", "allow"));
        assert_eq!((ask("work"), ask("general-purpose"), ask("")), ("ask", "ask", "ask"));
        assert_eq!(word(&rules, "Task", &json!({"prompt": "worker"})), "ask");
    }

    #[test]
    fn a_server_stands_for_its_tools() {
        let rules = permission(Some(Level::ReadOnly), &["mcp__files"], &[], &["mcp__files__delete"]);
        assert_eq!(word(&rules, "mcp__files__read", &json!({})), "allow");
        assert_eq!(word(&rules, "mcp__files__delete", &json!({})), "deny");
        assert_eq!(word(&rules, "mcp__web__get", &json!({})), "deny");
    }

    proptest::proptest! {
        #[test]
        fn globs_never_panic_and_a_text_matches_itself(pattern in ".{0,20}", text in "[a-z/]{0,20}") {
            let _ = matches_glob(&pattern, &text, true);
            proptest::prop_assert!(matches_glob(&text, &text, true));
            proptest::prop_assert!(matches_glob("**", &text, true));
        }
    }
}
