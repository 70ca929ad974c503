//! Finds the narrowest rules that would allow a denied use, for a person who wants to allow this use in the future.

use super::command_forms::changes_shell;
use super::layers::Policy;
use super::matching::{Directory, strip_directory};
use super::overlay::covers;
use super::read_only_commands::{LineCommand, argv_only_reads, parse_line};
use super::uses::{ExecCommand, Use, UsePath};
use super::verdict::Effect;
use crate::permission::Rule;

/// Matches the name of any script of the project.
const SCRIPT: &str = "*";
/// Commands that may get a rule for any arguments, because their arguments do not change the kind of their effect. Commands that
/// build or test execute the project's code, as users expect. Every other command gets a rule for exactly its own words,
/// because most programs have an option that starts a program or writes a file.
const COMMANDS_FOR_ANY_ARGUMENTS: [&[&str]; 20] = [
    &["touch"],
    &["mkdir"],
    &["pytest"],
    &["cargo", "build"],
    &["cargo", "check"],
    &["cargo", "clippy"],
    &["cargo", "doc"],
    &["cargo", "fmt"],
    &["cargo", "test"],
    &["cargo", "nextest", "run"],
    &["git", "add"],
    &["go", "build"],
    &["go", "test"],
    &["go", "vet"],
    &["npm", "test"],
    &["npm", "run", SCRIPT],
    &["pnpm", "test"],
    &["pnpm", "run", SCRIPT],
    &["yarn", "test"],
    &["yarn", "run", SCRIPT],
];
/// Programs that execute their input if they have no arguments.
const READ_SCRIPT_FROM_INPUT: [&str; 12] =
    ["ash", "bash", "dash", "fish", "ksh", "node", "perl", "php", "python", "python3", "sh", "zsh"];
/// The most rules that Volery suggests for one use.
const RULES_MAX: usize = 3;
/// The longest command that gets a rule for exactly its own words.
const EXACT_BYTES_MAX: usize = 200;

impl Policy {
    /// Returns the narrowest rules that would together allow a use, as rules of the last layer. Returns nothing if only a rule
    /// for every use of the tool would allow it, or if one of the rules would also allow a use that an `ask` rule covers.
    pub fn rules_to_allow(&self, of: &Use) -> Vec<Rule> {
        let is_about_the_use = |rule: &Rule| rule.kind() == of.kind();
        let asks = || self.layers().iter().flat_map(|layer| &layer.permission.ask);
        let covers_no_question = |rule: &Rule| !asks().any(|ask| covers(rule, ask));
        let would_allow =
            |rules: &Vec<Rule>| self.clone().with_allowed(rules).decide(of).effect == Effect::Allow;
        narrowest_rules(of, &self.directory)
            .filter(|rules| rules.iter().all(|rule| is_about_the_use(rule) && covers_no_question(rule)))
            .filter(would_allow)
            .unwrap_or_default()
    }
}

/// Returns the narrowest rules that together cover a use.
fn narrowest_rules(of: &Use, directory: &Directory) -> Option<Vec<Rule>> {
    match of {
        Use::Exec(ExecCommand::Line(line)) => line_rules(line),
        Use::Exec(ExecCommand::Argv(words)) => Some(vec![command_rule(words)?]),
        Use::Exec(ExecCommand::Unknown) => None,
        Use::Write(path) => path_rule("Edit", path, directory),
        Use::Read(path) | Use::List(path) => path_rule("Read", path, directory),
        Use::Search(path) => path_rule("Grep", path, directory),
        Use::Reach(Some(host)) => rule("WebFetch", Some(&format!("domain:{host}"))),
        Use::WebSearch => rule("WebSearch", None),
        Use::Mcp { server, tool: Some(tool) } => rule(&format!("mcp__{server}__{tool}"), None),
        Use::Delegate(Some(agent)) if !agent.contains([',', '*', '?']) => rule("Agent", Some(agent)),
        Use::Mcp { tool: None, .. } | Use::Other(_) | Use::Reach(None) | Use::Delegate(_) | Use::Env(_) => {
            None
        }
    }
}

fn rule(tool: &str, pattern: Option<&str>) -> Option<Vec<Rule>> {
    // In a tool's name, a star is a pattern only in rules that restrict. A rule with it would allow nothing.
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
    if let [LineCommand { words, .. }] = &commands[..] {
        // The rule repeats the line, with its quotes.
        return Some(vec![any_arguments_rule(words).or_else(|| exact_rule(words, line.trim()))?]);
    }
    let mut rules: Vec<Rule> = Vec::new();
    for LineCommand { words, .. } in commands.iter().filter(|command| !argv_only_reads(&command.words)) {
        let rule = command_rule(words)?;
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    (1..=RULES_MAX).contains(&rules.len()).then_some(rules)
}

fn command_rule(words: &[String]) -> Option<Rule> {
    let is_plain = words.iter().all(|word| is_plain_word(word));
    any_arguments_rule(words).or_else(|| exact_rule(words, &words.join(" ")).filter(|_| is_plain))
}

/// Returns the rule for a command with any arguments, for the few commands where that is harmless.
fn any_arguments_rule(words: &[String]) -> Option<Rule> {
    let is_script = |word: &str| is_plain_word(word) && !word.starts_with('-');
    let matches = |known: &&&[&str]| {
        known.len() <= words.len()
            && known
                .iter()
                .zip(words)
                .all(|(known, word)| known == word || (*known == SCRIPT && is_script(word)))
    };
    let known = COMMANDS_FOR_ANY_ARGUMENTS.iter().find(matches)?;
    Rule::with_pattern("Bash", &format!("{}:*", words[..known.len()].join(" "))).ok()
}

/// Returns the rule for exactly this command.
fn exact_rule(words: &[String], line: &str) -> Option<Rule> {
    let program = words.first()?;
    // A relative path names another program in another directory.
    let is_relative = program.contains('/') && !program.starts_with('/');
    let name = program.rsplit('/').next().unwrap_or(program);
    let reads_script = words.len() == 1 && READ_SCRIPT_FROM_INPUT.contains(&name);
    let is_literal = line.len() <= EXACT_BYTES_MAX && !line.contains(['*', '?']) && !line.ends_with(':');
    let is_usable =
        is_literal && is_plain_word(program) && !is_relative && !reads_script && !changes_shell(words);
    is_usable.then(|| Rule::with_pattern("Bash", line).ok()).flatten()
}

fn is_plain_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|char| char.is_ascii_alphanumeric() || "-_./+,:@=%".contains(char))
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
    fn a_command_gets_the_narrowest_rule() {
        for (command, expected) in [
            ("touch a.txt", &["Bash(touch:*)"][..]),
            ("cargo test --all", &["Bash(cargo test:*)"]),
            ("npm run build -- --watch", &["Bash(npm run build:*)"]),
            ("touch a && git log && mkdir 'b c'", &["Bash(touch:*)", "Bash(mkdir:*)"]),
            ("touch a; touch b", &["Bash(touch:*)"]),
            ("touch a && git push origin main", &["Bash(touch:*)", "Bash(git push origin main)"]),
            // The rule for any other program allows exactly this command.
            ("git push origin main", &["Bash(git push origin main)"]),
            ("git -C /tmp push", &["Bash(git -C /tmp push)"]),
            ("python3 scripts/build.py --fast", &["Bash(python3 scripts/build.py --fast)"]),
            ("python3.12 x.py", &["Bash(python3.12 x.py)"]),
            ("sudo rm x", &["Bash(sudo rm x)"]),
            ("sed -i s/a/b/ 'c d'", &["Bash(sed -i s/a/b/ 'c d')"]),
            ("/usr/bin/touch a", &["Bash(/usr/bin/touch a)"]),
            ("npm run -x", &["Bash(npm run -x)"]),
            // No narrow rule exists.
            ("sh -c 'rm *'", &[]),
            ("python3", &[]),
            ("./build.sh", &[]),
            ("touch a && ./build.sh", &[]),
            ("cd sub && npm test", &[]),
            ("export A=b && touch c", &[]),
            ("printf -v PATH /work/bin && touch a", &[]),
            ("time touch a", &[]),
            ("if touch a; then touch b; fi", &[]),
            ("A=1 touch b", &[]),
            ("cat x | python3 y", &[]),
            ("rm 'a b' && touch c", &[]),
            ("echo $(rm x)", &[]),
            ("touch a > b", &[]),
            ("a 1; b 1; c 1; d 1", &[]),
        ] {
            assert_eq!(spellings(&line(command)), expected, "{command}");
        }
        let argv = |words: &[&str]| {
            Use::Exec(ExecCommand::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
        };
        assert_eq!(spellings(&argv(&["cargo", "test", "--all"])), ["Bash(cargo test:*)"]);
        assert_eq!(spellings(&argv(&["rm", "a b"])), [""; 0]);
    }

    #[test]
    fn other_uses_get_the_rule_of_their_subject() {
        let cases = [
            (Use::Write(UsePath::plain("/work/src/a.rs")), "Edit(src/a.rs)"),
            (Use::Reach(Some("example.org".to_owned())), "WebFetch(domain:example.org)"),
            (Use::WebSearch, "WebSearch"),
            (Use::Mcp { server: "a".to_owned(), tool: Some("x".to_owned()) }, "mcp__a__x"),
            (Use::Delegate(Some("helper".to_owned())), "Agent(helper)"),
        ];
        for (of, expected) in cases {
            assert_eq!(spellings(&of), [expected]);
        }
        // No rule with a pattern applies outside of the directory.
        for of in [Use::Write(UsePath::plain("/etc/a")), Use::Write(UsePath::default()), Use::Reach(None)] {
            assert_eq!(spellings(&of), [""; 0]);
        }
        // These would allow more than one tool.
        let mcp = |tool: Option<&str>| Use::Mcp { server: "a".to_owned(), tool: tool.map(ToOwned::to_owned) };
        let other = |name: &str| Use::Other(name.to_owned());
        for of in [mcp(Some("*x")), mcp(None), other("All"), other("*"), other("TodoWrite")] {
            assert_eq!(spellings(&of), [""; 0], "{of:?}");
        }
    }

    #[test]
    fn no_rule_is_suggested_that_would_not_help() {
        let own = permission(Some(Level::SafeEdit), &[], &[], &["Bash(touch:*)"]);
        assert_eq!(layers_in(&[&own], "/work").rules_to_allow(&line("touch a")), []);
        let parent = permission(Some(Level::ReadOnly), &[], &[], &[]);
        let child = permission(Some(Level::ReadOnly), &[], &[], &[]);
        assert_eq!(layers_in(&[&parent, &child], "/work").rules_to_allow(&line("touch a")), []);
        // The rule would also allow what an `ask` rule covers.
        let asks = permission(Some(Level::ReadOnly), &[], &["Bash(touch secret:*)"], &[]);
        assert_eq!(layers_in(&[&asks], "/work").rules_to_allow(&line("touch a")), []);
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
