//! Command lines: plain words pass, and nothing that a shell would interpret.

use proptest::prelude::*;

use crate::run::agent_loop::{CommandLineError, split_command_line};

fn split(line: &str) -> Vec<String> {
    split_command_line(line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

#[test]
fn plain_words_and_quotes_are_split() {
    for (line, words) in [
        ("git log -1", &["git", "log", "-1"][..]),
        ("  git\tstatus \n", &["git", "status"]),
        ("git commit -m 'a; b | c $(d) `e`'", &["git", "commit", "-m", "a; b | c $(d) `e`"]),
        (r#"grep "a b" x"#, &["grep", "a b", "x"]),
        (r#"echo "\$HOME \"x\"""#, &["echo", "$HOME \"x\""]),
        (r"find . -name \*.rs ! -type d", &["find", ".", "-name", "*.rs", "!", "-type", "d"]),
        (
            "git show HEAD~1 --format=%H a#b user@host a:b ]",
            &["git", "show", "HEAD~1", "--format=%H", "a#b", "user@host", "a:b", "]"],
        ),
        ("env A=1 x", &["env", "A=1", "x"]),
        ("a ''", &["a", ""]),
        ("git commit -m 'two\nlines'", &["git", "commit", "-m", "two\nlines"]),
        ("ls ünï '*'", &["ls", "ünï", "*"]),
        ("--x=1", &["--x=1"]),
    ] {
        assert_eq!(split(line), words, "{line}");
    }
}

#[test]
fn everything_that_a_shell_interprets_is_refused() {
    use CommandLineError::{Assignment, Comment, Empty, Nul, ProgramWithBlanks, ShellSyntax, Unbalanced};
    for (line, error) in [
        ("git x; id", ShellSyntax(';')),
        ("git x;id", ShellSyntax(';')),
        ("git $(id)", ShellSyntax('$')),
        ("git \"$(id)\"", ShellSyntax('$')),
        ("git \"`id`\"", ShellSyntax('`')),
        ("git `id`", ShellSyntax('`')),
        ("git x\nid", ShellSyntax('\n')),
        ("git x\r\nid", ShellSyntax('\r')),
        ("git x \\\nid", ShellSyntax('\n')),
        ("git \"a\\\nb\"", ShellSyntax('\n')),
        ("git x | id", ShellSyntax('|')),
        ("git x > out", ShellSyntax('>')),
        ("git x < in", ShellSyntax('<')),
        ("git x 2>&1", ShellSyntax('>')),
        ("git x & id", ShellSyntax('&')),
        ("git x && id", ShellSyntax('&')),
        ("(git x)", ShellSyntax('(')),
        ("{ git x", ShellSyntax('{')),
        ("echo {a,b}", ShellSyntax('{')),
        ("ls *.rs", ShellSyntax('*')),
        ("ls a?", ShellSyntax('?')),
        ("ls [ab]", ShellSyntax('[')),
        ("ls ~", ShellSyntax('~')),
        ("ls ~/x", ShellSyntax('~')),
        ("~/x", ShellSyntax('~')),
        ("x --dir=~/a", ShellSyntax('~')),
        ("! git x", ShellSyntax('!')),
        ("git $'x'", ShellSyntax('$')),
        ("git x\u{b}id", ShellSyntax('\u{b}')),
        ("git x # y", Comment),
        ("# git", Comment),
        ("A=1 git x", Assignment),
        ("_a9+=1 git", Assignment),
        (" A= git", Assignment),
        ("git 'x", Unbalanced),
        ("git \"x", Unbalanced),
        ("git x\\", Unbalanced),
        ("", Empty),
        (" \t\n", Empty),
        ("'' x", Empty),
        ("git a\0b", Nul),
        ("git 'a\0b'", Nul),
        ("'git log' -1", ProgramWithBlanks("git log".to_owned())),
    ] {
        assert_eq!(split_command_line(line), Err(error), "{line:?}");
    }
    assert_eq!(split_command_line(&"a ".repeat(5000)), Err(CommandLineError::TooLong));
    assert_eq!(split_command_line(&"a".repeat(200_000)), Err(CommandLineError::TooLong));
}

#[test]
fn a_refusal_says_how_to_write_the_command() {
    let text = split_command_line("git x; id").unwrap_err().to_string();
    insta::assert_snapshot!(text, @r#"';' outside of quotes has a meaning only for a shell; this tool starts one program without a shell: write the program and each argument as a word of a list, such as ["git", "log", "-1"]; make one call for each program"#);
}

/// Words whose first one is a program without blanks.
fn commands() -> impl Strategy<Value = Vec<String>> {
    let word = prop_oneof!["[^\\x00]{0,8}", "[a-z;|&<>$`(){}*?\\[~#='\"\\\\ \\n\\t!]{0,8}"];
    ("[a-zA-Z0-9./_-]{1,8}", proptest::collection::vec(word, 0..6)).prop_map(|(program, mut words)| {
        words.insert(0, program);
        words
    })
}

proptest! {
    #[test]
    fn quoting_and_splitting_gives_the_same_words(words in commands()) {
        let line = shlex::try_join(words.iter().map(String::as_str)).unwrap();
        prop_assert_eq!(split_command_line(&line), Ok(words));
    }

    #[test]
    fn single_quotes_hide_everything(words in commands()) {
        let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
        prop_assert_eq!(split_command_line(&quoted.collect::<Vec<_>>().join(" ")), Ok(words));
    }

    #[test]
    fn a_metacharacter_between_quoted_words_is_refused(
        words in commands(),
        at in 0_usize..7,
        syntax in prop::sample::select(&[
            ";", "|", "&", "&&", "||", ">", ">>", "<", "$x", "${x}", "$(x)", "`x`", "(", ")", "\nx", "\rx", "*", "a*",
            "?", "[a]", "{a,b}", "~", "~/x", "# x", "$'x'", "$\"x\"", "2>&1", "<<x",
        ][..]),
    ) {
        let mut words: Vec<String> =
            words.iter().map(|word| shlex::try_quote(word).unwrap().into_owned()).collect();
        words.insert(at.min(words.len()), syntax.to_owned());
        prop_assert!(split_command_line(&words.join(" ")).is_err(), "{:?}", words);
    }

    #[test]
    fn an_accepted_line_has_no_unquoted_metacharacter(line in "[a-c;|&<>$`()*?\\[{}~#='\"\\\\ \\n!]{1,12}") {
        if let Ok(words) = split_command_line(&line) {
            // Another way to see quotes: what is within them, or after a backslash, is deleted first.
            let bare = without_quoted(line.trim_end_matches('\n'));
            prop_assert!(!bare.contains([';', '|', '&', '<', '>', '$', '`', '(', ')', '*', '?', '[', '{', '}', '\n']), "{}", bare);
            prop_assert!(!bare.trim_start().starts_with('#') && !bare.contains(" #") && !bare.contains(" ~"), "{}", bare);
            prop_assert!(!words.is_empty());
        }
    }

    #[test]
    fn no_line_makes_splitting_fail(line in "\\PC{0,40}") {
        let _ = split_command_line(&line);
    }
}

/// Replaces each quoted text by a `Q`.
fn without_quoted(line: &str) -> String {
    let mut bare = String::new();
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\\' => rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or(""),
            '\'' => rest = rest.split_once('\'').map_or("", |(_, after)| after),
            '"' => {
                let mut escaped = false;
                let end = rest.find(|inner| {
                    let is_end = inner == '"' && !escaped;
                    escaped = inner == '\\' && !escaped;
                    is_end
                });
                rest = end.map_or("", |end| &rest[end + 1..]);
            }
            letter => {
                bare.push(letter);
                continue;
            }
        }
        bare.push('Q');
    }
    bare
}
