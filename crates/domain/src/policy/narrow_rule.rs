//! The narrowest rules that would allow a denied use, for a person who wants to allow it from now on.

use super::layers::Policy;
use super::matching::{Directory, strip_directory};
use super::read_only_commands::{argv_only_reads, parse_line};
use super::uses::{ExecCommand, Use, UsePath};
use super::verdict::Effect;
use crate::permission::Rule;

/// Programs whose first argument names what they do, so that a rule for the program alone would be too wide.
const PROGRAMS_WITH_SUBCOMMANDS: [&str; 34] = [
    "apt",
    "apt-get",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "deno",
    "docker",
    "dotnet",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "just",
    "kubectl",
    "make",
    "mix",
    "mvn",
    "npm",
    "npx",
    "pip",
    "pnpm",
    "podman",
    "poetry",
    "rails",
    "rustup",
    "systemctl",
    "task",
    "terraform",
    "uv",
    "yarn",
];
/// Subcommands that start something else, which the next word names.
const RUNNING_SUBCOMMANDS: [&str; 3] = ["run", "exec", "x"];
/// Programs that execute whatever their arguments say: a rule for any arguments would allow everything.
const INTERPRETERS: [&str; 32] = [
    "ash",
    "awk",
    "bash",
    "busybox",
    "dash",
    "doas",
    "env",
    "eval",
    "exec",
    "find",
    "fish",
    "gawk",
    "ksh",
    "lua",
    "nice",
    "node",
    "nohup",
    "perl",
    "php",
    "powershell",
    "pwsh",
    "python",
    "python2",
    "python3",
    "ruby",
    "setsid",
    "sh",
    "ssh",
    "sudo",
    "timeout",
    "xargs",
    "zsh",
];
/// How many rules are worth a suggestion.
const RULES_MAX: usize = 3;
/// The longest command that becomes a rule of its own.
const EXACT_BYTES_MAX: usize = 200;

impl Policy {
    /// Returns the narrowest rules that would together allow a use, as rules of the last layer; empty if only a rule for
    /// every use of the tool would, which nobody should grant because of one use.
    pub fn rules_to_allow(&self, of: &Use) -> Vec<Rule> {
        let would_allow =
            |rules: &Vec<Rule>| self.clone().with_allowed(rules).decide(of).effect == Effect::Allow;
        narrowest_rules(of, &self.directory).filter(would_allow).unwrap_or_default()
    }
}

/// Returns the narrowest rules that together cover a use.
fn narrowest_rules(of: &Use, directory: &Directory) -> Option<Vec<Rule>> {
    match of {
        Use::Exec(ExecCommand::Line(line)) => line_rules(line),
        Use::Exec(ExecCommand::Argv(words)) => command_rule(words).map(|rule| vec![rule]),
        Use::Exec(ExecCommand::Unknown) => None,
        Use::Write(path) => path_rule("Edit", path, directory),
        Use::Read(path) | Use::List(path) => path_rule("Read", path, directory),
        Use::Search(path) => path_rule("Grep", path, directory),
        Use::Reach(Some(host)) => rule("WebFetch", Some(&format!("domain:{host}"))),
        Use::WebSearch => rule("WebSearch", None),
        Use::Mcp { server, tool } => {
            let tool = tool.as_ref().map(|tool| format!("__{tool}")).unwrap_or_default();
            rule(&format!("mcp__{server}{tool}"), None)
        }
        Use::Delegate(Some(agent)) if !agent.contains([',', '*', '?']) => rule("Agent", Some(agent)),
        Use::Other(name) => rule(name, None),
        Use::Reach(None) | Use::Delegate(_) | Use::Env(_) => None,
    }
}

fn rule(tool: &str, pattern: Option<&str>) -> Option<Vec<Rule>> {
    // A star in the name of a tool would restrict more than it says, and allow nothing.
    let is_plain = !tool.contains(['*', '(', ')']) && !tool.is_empty();
    let text = match pattern {
        Some(pattern) => format!("{tool}({pattern})"),
        None => tool.to_owned(),
    };
    Some(vec![text.parse().ok().filter(|_| is_plain)?])
}

/// Returns the rule for exactly this file.
fn path_rule(tool: &str, path: &UsePath, directory: &Directory) -> Option<Vec<Rule>> {
    let target = path.target.as_deref().filter(|target| !target.contains(['*', '?', '(', ')']))?;
    rule(tool, Some(strip_directory(target, &directory.target).unwrap_or(target)))
}

/// Returns a rule for each command of a line that does more than read.
fn line_rules(line: &str) -> Option<Vec<Rule>> {
    let commands = parse_line(line)?;
    if let [words] = &commands[..]
        && is_interpreter(words)
    {
        return exact_rule(line.trim());
    }
    let mut rules: Vec<Rule> = Vec::new();
    for words in commands.iter().filter(|words| !argv_only_reads(words)) {
        let rule = command_rule(words)?;
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    (1..=RULES_MAX).contains(&rules.len()).then_some(rules)
}

/// Returns the rule for a program, and its subcommand if it has one, with any other arguments.
fn command_rule(words: &[String]) -> Option<Rule> {
    let (program, arguments) = words.split_first()?;
    if is_interpreter(words) || !is_plain_word(program) {
        return None;
    }
    let has_subcommands = PROGRAMS_WITH_SUBCOMMANDS.contains(&base_name(program));
    let is_name = |word: &&String| is_plain_word(word) && !word.starts_with('-');
    let mut named = vec![program.as_str()];
    if has_subcommands {
        // Without the subcommand, as in `git -C dir push`, the rule would allow all of them.
        let subcommand = arguments.first().filter(is_name)?;
        named.push(subcommand);
        if RUNNING_SUBCOMMANDS.contains(&subcommand.as_str()) {
            named.push(arguments.get(1).filter(is_name)?);
        }
    }
    Rule::with_pattern("Bash", &format!("{}:*", named.join(" "))).ok()
}

fn exact_rule(line: &str) -> Option<Vec<Rule>> {
    let is_literal = line.len() <= EXACT_BYTES_MAX && !line.contains(['*', '?']) && !line.ends_with(':');
    is_literal.then(|| Rule::with_pattern("Bash", line).ok().map(|rule| vec![rule])).flatten()
}

fn is_interpreter(words: &[String]) -> bool {
    words.first().is_some_and(|program| INTERPRETERS.contains(&base_name(program)))
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_plain_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|char| char.is_ascii_alphanumeric() || "-_./+".contains(char))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::generators::{effect, layers_in, permission};
    use super::*;
    use crate::permission::{Level, Permission};

    fn spellings_at(level: Level, of: &Use) -> Vec<String> {
        let own = Permission { level: Some(level), ..Permission::default() };
        let rules = layers_in(&[&own], "/work").rules_to_allow(of);
        rules.iter().map(|rule| rule.spelling().to_owned()).collect()
    }

    fn spellings(of: &Use) -> Vec<String> {
        spellings_at(Level::ReadOnly, of)
    }

    fn line(line: &str) -> Use {
        Use::Exec(ExecCommand::Line(line.to_owned()))
    }

    #[test]
    fn a_command_gets_the_rule_of_its_program_and_subcommand() {
        for (command, expected) in [
            ("touch a.txt", &["Bash(touch:*)"][..]),
            ("git push origin main", &["Bash(git push:*)"]),
            ("npm run build -- --watch", &["Bash(npm run build:*)"]),
            ("/usr/bin/touch a", &["Bash(/usr/bin/touch:*)"]),
            ("touch a && git log && rm 'b c'", &["Bash(touch:*)", "Bash(rm:*)"]),
            ("touch a; touch b", &["Bash(touch:*)"]),
            // An interpreter gets exactly this command.
            ("python3 scripts/build.py --fast", &["Bash(python3 scripts/build.py --fast)"]),
            ("sudo rm x", &["Bash(sudo rm x)"]),
            // No narrow rule can be written.
            ("git -C /tmp push", &[]),
            ("sh -c 'rm *'", &[]),
            ("python3 x && touch a", &[]),
            ("echo $(rm x)", &[]),
            ("touch a > b", &[]),
            ("a 1; b 1; c 1; d 1", &[]),
        ] {
            assert_eq!(spellings(&line(command)), expected, "{command}");
        }
        let words = ["cargo", "test", "--all"].map(ToOwned::to_owned).to_vec();
        assert_eq!(spellings(&Use::Exec(ExecCommand::Argv(words))), ["Bash(cargo test:*)"]);
    }

    #[test]
    fn other_uses_get_the_rule_of_their_subject() {
        let cases = [
            (Use::Write(UsePath::plain("/work/src/a.rs")), "Edit(src/a.rs)"),
            (Use::Reach(Some("example.org".to_owned())), "WebFetch(domain:example.org)"),
            (Use::WebSearch, "WebSearch"),
            (Use::Mcp { server: "a".to_owned(), tool: Some("x".to_owned()) }, "mcp__a__x"),
            (Use::Delegate(Some("helper".to_owned())), "Agent(helper)"),
            (Use::Other("TodoWrite".to_owned()), "TodoWrite"),
        ];
        for (of, expected) in cases {
            assert_eq!(spellings(&of), [expected]);
        }
        // No rule with a pattern applies outside of the directory.
        for of in [Use::Write(UsePath::plain("/etc/a")), Use::Write(UsePath::default()), Use::Reach(None)] {
            assert_eq!(spellings(&of), [""; 0]);
        }
        let starred = Use::Mcp { server: "a".to_owned(), tool: Some("*x".to_owned()) };
        assert_eq!(spellings(&starred), [""; 0]);
    }

    #[test]
    fn no_rule_is_suggested_that_would_not_help() {
        let own = permission(Some(Level::SafeEdit), &[], &[], &["Bash(touch:*)"]);
        assert_eq!(layers_in(&[&own], "/work").rules_to_allow(&line("touch a")), []);
        let parent = permission(Some(Level::ReadOnly), &[], &[], &[]);
        let child = permission(Some(Level::ReadOnly), &[], &[], &[]);
        assert_eq!(layers_in(&[&parent, &child], "/work").rules_to_allow(&line("touch a")), []);
    }

    proptest! {
        #[test]
        fn the_rules_allow_the_command_that_they_come_from(
            words in prop::collection::vec("[a-z]{1,6}|-[a-z]|'[a-z ]{0,5}'|&&|;|\\||git|python3|sudo", 1..8),
        ) {
            let of = line(&words.join(" "));
            let rules = spellings(&of);
            let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
            let allowed = permission(Some(Level::SafeEdit), &rules, &[], &[]);
            if !rules.is_empty() {
                prop_assert_eq!(effect(&allowed, &of), Effect::Allow, "{:?} {:?}", of, rules);
            }
        }

        #[test]
        fn any_line_is_answered(text in any::<String>()) {
            spellings(&line(&text));
        }
    }
}
