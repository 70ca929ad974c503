//! Decides about one use of a tool: deny beats ask beats allow, and where no rule speaks, the level does.

use serde_json::Value;

use super::command_forms::command_forms;
use super::{Level, Permission, Rule, ToolKind};

/// The keys under which tools are given the path of a file.
const PATHS: [&str; 5] = ["file_path", "path", "filePath", "notebook_path", "absolute_path"];

/// What is decided about one use of a tool, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    Allow(String),
    /// Neither allowed nor denied: a person decides.
    Ask(String),
    Deny(String),
}

/// Where a tool is used, by name and as it is on disk. Whoever wants a decision looks there: a name alone does not tell
/// what a symbolic link leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ground {
    /// The directory that the agent works in.
    pub directory: String,
    /// The same, with every symbolic link followed.
    pub real_directory: String,
    /// What the path of [`named_path`] leads to, with every symbolic link followed; nothing where nobody can tell.
    pub real_path: Option<String>,
}

/// Returns the path that a tool shall work on, as its input names it. Two that differ are as good as none.
pub fn named_path(input: &Value) -> Option<&str> {
    let mut named = PATHS.iter().filter_map(|key| input.get(key));
    let first = named.next()?.as_str()?;
    named.all(|other| other.as_str() == Some(first)).then_some(first)
}

/// Characters by which one command line becomes several commands, or reads and writes files.
const COMPOUND: [char; 11] = [';', '|', '&', '`', '$', '(', ')', '<', '>', '\n', '\\'];

impl Permission {
    /// Decides about a use of a tool by an agent that works here.
    pub fn decide(&self, tool: &str, input: &Value, ground: &Ground) -> Ruling {
        let usage = Usage { kind: ToolKind::named(tool), tool, input, ground };
        if let Some(ruling) = self.by_rules(&usage) {
            return ruling;
        }
        let within = match (self.level.unwrap_or(Level::SafeEdit), usage.kind) {
            (Level::Yolo, _) => true,
            (Level::ReadOnly | Level::SafeEdit, ToolKind::Read | ToolKind::Search) => true,
            (Level::SafeEdit, ToolKind::Edit) => usage.stays().is_some_and(|path| !is_in_repository(&path)),
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

    /// Decides about a use that the agent's program does not allow by the level's mode and its user's own rules, where those
    /// count first: beyond them only the agent's rules and yolo allow anything.
    pub fn decide_beyond_users(&self, tool: &str, input: &Value, ground: &Ground) -> Ruling {
        let usage = Usage { kind: ToolKind::named(tool), tool, input, ground };
        match (self.by_rules(&usage), self.level) {
            (Some(ruling), _) => ruling,
            (None, Some(Level::Yolo)) => Ruling::Allow("the level yolo".to_owned()),
            (None, Some(level)) => Ruling::Deny(format!(
                "neither the level {} nor the user's own rules allow it",
                level.as_str()
            )),
            (None, None) => Ruling::Ask("no rule allows or denies it".to_owned()),
        }
    }

    /// Returns what the agent's rules say, if one speaks of the use.
    fn by_rules(&self, usage: &Usage<'_>) -> Option<Ruling> {
        if let Some(rule) = self.deny.iter().find(|rule| usage.touches(rule)) {
            return Some(Ruling::Deny(format!("the rule deny {rule}")));
        }
        if let Some(rule) = self.ask.iter().find(|rule| usage.touches(rule)) {
            return Some(Ruling::Ask(format!("the rule ask {rule}")));
        }
        let allowed = self.allow.iter().find(|rule| usage.is_within(rule));
        allowed.map(|rule| Ruling::Allow(format!("the rule allow {rule}")))
    }
}

/// One use of a tool.
struct Usage<'a> {
    kind: ToolKind<'a>,
    tool: &'a str,
    input: &'a Value,
    ground: &'a Ground,
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
                    Some(command) => {
                        commands(&command).any(|part| matches_command(pattern, part))
                            || command_forms(&command).iter().any(|form| matches_command(pattern, form))
                    }
                    None => true,
                },
                ToolKind::Read | ToolKind::Edit | ToolKind::Search => {
                    // By its name as by what it leads to.
                    let both = [self.path(), self.stays()];
                    both.iter()
                        .any(|path| path.as_ref().is_none_or(|path| matches_path(pattern, path, self.ground)))
                }
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
                // A pattern such as `src/**` does not mean the hooks of a repository below it.
                ToolKind::Edit => self.stays().is_some_and(|path| {
                    matches_path(pattern, &path, self.ground)
                        && (is_in_repository(pattern) || !is_in_repository(&path))
                }),
                ToolKind::Read | ToolKind::Search => {
                    self.stays().is_some_and(|path| matches_path(pattern, &path, self.ground))
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

    /// Returns the path within the directory by its name alone.
    fn path(&self) -> Option<String> {
        let named = named_path(self.input)?;
        let relative = match named.starts_with('/') {
            true => [&self.ground.directory, &self.ground.real_directory]
                .into_iter()
                .find_map(|directory| below(named, directory))?,
            false => named,
        };
        let plain = relative.split('/').all(|part| part != "..");
        plain.then(|| {
            relative.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/")
        })
    }

    /// Returns where within the directory a path really leads to, if it stays there by its name too.
    fn stays(&self) -> Option<String> {
        self.path()?;
        let real = self.ground.real_path.as_deref()?;
        below(real, &self.ground.real_directory).map(ToOwned::to_owned)
    }
}

/// Tells whether a path is git's own. What stands there, hooks and settings, git executes for whoever calls it next.
pub fn is_in_repository(path: &str) -> bool {
    path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
}

/// Returns the rest of an absolute path in a directory.
pub(super) fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    path.strip_prefix(directory.trim_end_matches('/'))?.strip_prefix('/')
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

fn matches_path(pattern: &str, path: &str, ground: &Ground) -> bool {
    // Claude writes an absolute path with two slashes.
    let pattern = pattern.strip_prefix("//").map_or_else(|| pattern.to_owned(), |rest| format!("/{rest}"));
    let inside = below(&pattern, &ground.directory).or_else(|| below(&pattern, &ground.real_directory));
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

    /// A directory without symbolic links.
    fn word(permission: &Permission, tool: &str, input: &Value) -> &'static str {
        let named = named_path(input).map(|path| match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/work/{path}"),
        });
        told(permission, tool, input, named.as_deref())
    }

    fn told(permission: &Permission, tool: &str, input: &Value, real_path: Option<&str>) -> &'static str {
        let ground = Ground {
            directory: "/work".to_owned(),
            real_directory: "/work".to_owned(),
            real_path: real_path.map(ToOwned::to_owned),
        };
        match permission.decide(tool, input, &ground) {
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
    fn a_restricting_rule_matches_a_command_in_every_spelling() {
        let rules =
            permission(Some(Level::Yolo), &[], &["Bash(git push:*)"], &["Bash(rm:*)", "Bash(npm publish)"]);
        for sly in [
            "rm\tx",
            "ls; rm\tx",
            "{ rm x; }",
            "/bin/rm x",
            "\"rm\" x",
            "r''m x",
            "r\\m x",
            "A=1 B=2 rm x",
            "env -i A=1 rm x",
            "sudo rm x",
            "timeout 5 rm x",
            "if rm x; then ls; fi",
            "find . | xargs rm",
            "bash -c 'rm x'",
            "npm   publish",
            "\\\nrm x",
        ] {
            assert_eq!(shell(&rules, sly), "deny", "{sly}");
        }
        for sly in ["git  push", "git\tpush origin", "cd x && git push"] {
            assert_eq!(shell(&rules, sly), "ask", "{sly}");
        }
        for harmless in
            ["ls rm", "git status", "rmdir x", "git commit -m 'rm x'", "npm publish-dry", "echo /bin/rm"]
        {
            assert_eq!(shell(&rules, harmless), "allow", "{harmless}");
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
    fn what_a_symbolic_link_leads_to_counts() {
        let editor = permission(Some(Level::SafeEdit), &[], &[], &["Edit(secret/**)"]);
        let through = |rules: &Permission, name: &str, real: Option<&str>| {
            told(rules, "Write", &json!({ "file_path": name }), real)
        };
        assert_eq!(through(&editor, "/work/link/x", Some("/work/real/x")), "allow");
        assert_eq!(through(&editor, "/work/link/x", Some("/elsewhere/x")), "deny");
        assert_eq!(through(&editor, "/work/link/x", Some("/work")), "deny");
        assert_eq!(through(&editor, "/work/link/x", None), "deny");
        assert_eq!(through(&editor, "link/x", Some("/work/secret/x")), "deny");
        assert_eq!(through(&editor, "secret/x", Some("/work/real/x")), "deny");
        assert_eq!(through(&editor, "/elsewhere/link", Some("/work/x")), "deny");
        let narrow = permission(Some(Level::ReadOnly), &["Edit(src/**)"], &[], &[]);
        assert_eq!(through(&narrow, "src/link/x", Some("/work/src/y/x")), "allow");
        assert_eq!(through(&narrow, "src/link/x", Some("/work/docs/x")), "deny");
    }

    #[test]
    fn what_git_would_execute_is_not_edited_without_a_rule() {
        let edit = |rules: &Permission, path: &str, real: &str| {
            told(rules, "Write", &json!({ "file_path": path }), Some(real))
        };
        let editor = permission(Some(Level::SafeEdit), &[], &[], &[]);
        assert_eq!(edit(&editor, ".git/hooks/pre-commit", "/work/.git/hooks/pre-commit"), "deny");
        assert_eq!(edit(&editor, "part/.GIT/config", "/work/part/.GIT/config"), "deny");
        assert_eq!(edit(&editor, "link/config", "/work/.git/config"), "deny");
        assert_eq!(edit(&editor, ".github/x.yml", "/work/.github/x.yml"), "allow");
        let usual = permission(None, &[], &[], &[]);
        assert_eq!(edit(&usual, ".git", "/work/.git"), "ask");
        let allowed = permission(Some(Level::SafeEdit), &["Edit(.git/**)"], &[], &[]);
        assert_eq!(edit(&allowed, ".git/info/exclude", "/work/.git/info/exclude"), "allow");
        let below = permission(Some(Level::SafeEdit), &["Edit(part/**)"], &[], &[]);
        assert_eq!(edit(&below, "part/.git/config", "/work/part/.git/config"), "deny");
    }

    #[test]
    fn a_directory_that_is_a_symbolic_link_has_two_names() {
        let editor = permission(Some(Level::SafeEdit), &["Edit(/named/src/**)"], &[], &[]);
        for name in ["/named/a", "/real/a", "a"] {
            let ground = Ground {
                directory: "/named".to_owned(),
                real_directory: "/real".to_owned(),
                real_path: Some("/real/a".to_owned()),
            };
            let ruling = editor.decide("Write", &json!({ "file_path": name }), &ground);
            assert_eq!(ruling, Ruling::Allow("the level safe-edit".to_owned()), "{name}");
        }
    }

    #[test]
    fn an_input_that_names_two_paths_names_none() {
        let editor = permission(Some(Level::SafeEdit), &[], &[], &[]);
        let input = json!({"file_path": "/work/a", "path": "/etc/b"});
        assert_eq!(told(&editor, "Write", &input, Some("/work/a")), "deny");
        assert_eq!(named_path(&json!({"file_path": "a", "path": "a"})), Some("a"));
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
        fn blanks_and_quotes_around_words_do_not_escape_a_denial(
            blanks in proptest::collection::vec("[ \t]{1,3}", 3),
            quote in "['\"]?",
            folder in "(/[a-z]{1,4}){0,2}",
        ) {
            let rules = permission(Some(Level::Yolo), &[], &[], &["Bash(rm -r:*)"]);
            let slash = if folder.is_empty() { "" } else { "/" };
            let line = format!("{}{quote}{folder}{slash}rm{quote}{}-r{}x", blanks[0], blanks[1], blanks[2]);
            proptest::prop_assert_eq!(shell(&rules, &line), "deny");
        }

        #[test]
        fn globs_never_panic_and_a_text_matches_itself(pattern in ".{0,20}", text in "[a-z/]{0,20}") {
            let _ = matches_glob(&pattern, &text, true);
            proptest::prop_assert!(matches_glob(&text, &text, true));
            proptest::prop_assert!(matches_glob("**", &text, true));
        }
    }
}
