//! Matches the patterns of rules: paths, commands, hosts and names.

/// Characters that split a command line into several commands, or that redirect to files.
pub(super) const SHELL_METACHARACTERS: [char; 11] = [';', '|', '&', '`', '$', '(', ')', '<', '>', '\n', '\\'];

/// One element of a glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Literal(char),
    /// `?`: one character of a name.
    AnyCharacter,
    /// `*`: a part of a name.
    PartOfName,
    /// `**`: anything.
    Anything,
    /// `**/`: no folder, or any folders.
    Folders,
}

/// Returns whether a path matches a glob: `*` and `?` stay in their folder, `**` matches any folders. Other characters
/// stand for themselves. A property test compares the result with `globset`.
pub(super) fn matches_path_glob(pattern: &str, path: &str) -> bool {
    matches_tokens(path_tokens(pattern), path, |letter| letter != '/')
}

/// Returns whether a text matches a glob in which `*` matches anything.
pub(crate) fn matches_text_glob(pattern: &str, text: &str) -> bool {
    let tokens: Vec<Token> = pattern
        .chars()
        .map(|letter| match letter {
            '*' => Token::Anything,
            '?' => Token::AnyCharacter,
            _ => Token::Literal(letter),
        })
        .collect();
    matches_tokens(tokens, text, |_| true)
}

fn path_tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = pattern;
    let mut begins_name = true;
    while let Some(letter) = rest.chars().next() {
        let after_stars = rest.trim_start_matches('*');
        let stars = rest.len() - after_stars.len();
        let after_slash = after_stars.strip_prefix('/').filter(|after| !after.is_empty());
        let (token, next) = match (stars, after_slash) {
            (2, Some(after)) if begins_name => (Token::Folders, after),
            (2.., _) => (Token::Anything, after_stars),
            (1, _) => (Token::PartOfName, after_stars),
            (0, _) if letter == '?' => (Token::AnyCharacter, &rest[1..]),
            (0, _) => (Token::Literal(letter), &rest[letter.len_utf8()..]),
        };
        begins_name = matches!(token, Token::Folders | Token::Literal('/'));
        tokens.push(token);
        rest = next;
    }
    tokens
}

/// Follows all ways through the tokens at once, so that no pattern takes more than its length for each character.
fn matches_tokens(mut tokens: Vec<Token>, text: &str, is_in_name: fn(char) -> bool) -> bool {
    tokens.dedup_by(|next, token| next == token && matches!(token, Token::Anything | Token::Folders));
    let tokens = &tokens[..];
    let mut active = vec![false; tokens.len() + 1];
    enter(tokens, 0, &mut active);
    for letter in text.chars() {
        let mut next = vec![false; tokens.len() + 1];
        for (at, token) in tokens.iter().enumerate().filter(|(at, _)| active[*at]) {
            match token {
                Token::Literal(expected) if *expected == letter => enter(tokens, at + 1, &mut next),
                Token::AnyCharacter if is_in_name(letter) => enter(tokens, at + 1, &mut next),
                Token::PartOfName if is_in_name(letter) => enter(tokens, at, &mut next),
                Token::Anything => enter(tokens, at, &mut next),
                Token::Folders => {
                    // Inside of a name, only its slash leads on.
                    next[at] = true;
                    if letter == '/' {
                        enter(tokens, at + 1, &mut next);
                    }
                }
                Token::Literal(_) | Token::AnyCharacter | Token::PartOfName => {}
            }
        }
        active = next;
    }
    active[tokens.len()]
}

/// Activates a position, and those after it that need no character.
fn enter(tokens: &[Token], at: usize, active: &mut [bool]) {
    active[at] = true;
    if matches!(tokens.get(at), Some(Token::PartOfName | Token::Anything | Token::Folders)) {
        enter(tokens, at + 1, active);
    }
}

/// `curl:*` matches the command with any arguments, `git log` exactly this command, and `*` any command.
pub(super) fn matches_command_line(pattern: &str, command: &str) -> bool {
    match pattern.strip_suffix(":*") {
        Some(prefix) => {
            command.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        }
        None => matches_text_glob(pattern, command),
    }
}

/// The same for a program and its arguments. A word of the pattern is a whole word of the command.
pub(super) fn matches_argv(pattern: &str, words: &[&str]) -> bool {
    if let Some(prefix) = pattern.strip_suffix(":*") {
        let prefix: Vec<&str> = prefix.split_whitespace().collect();
        return !prefix.is_empty() && words.starts_with(&prefix);
    }
    let patterns: Vec<&str> = pattern.split_whitespace().collect();
    let (patterns, has_rest) = match patterns.split_last() {
        Some((&"*", first)) => (first, true),
        _ => (&patterns[..], false),
    };
    let has_length = if has_rest { words.len() >= patterns.len() } else { words.len() == patterns.len() };
    has_length && patterns.iter().zip(words).all(|(pattern, word)| matches_text_glob(pattern, word))
}

/// `domain:example.org` matches this host, and `domain:*.example.org` the hosts below it. Returns `None` for a pattern
/// that is not about hosts.
pub(super) fn matches_host(pattern: &str, host: &str) -> Option<bool> {
    let expected = pattern.strip_prefix("domain:")?.trim().to_ascii_lowercase();
    Some(match expected.strip_prefix("*.") {
        Some(parent) => {
            host.strip_suffix(parent).is_some_and(|below| below.len() > 1 && below.ends_with('.'))
        }
        None if expected == "*" => true,
        None => host == expected,
    })
}

/// Returns whether a list such as `worker, researcher` contains a name. A name may be a glob.
pub(super) fn matches_name(pattern: &str, name: &str) -> bool {
    pattern.split(',').any(|listed| matches_text_glob(listed.trim(), name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn globs_stay_in_their_folders() {
        let cases = [
            ("src/**", "src/a/b.rs", true),
            ("src/**", "src", false),
            ("*.md", "README.md", true),
            ("*.md", "docs/README.md", false),
            ("**/*.pem", "keys/old/a.pem", true),
            ("**/*.pem", "a.pem", true),
            ("**/key", "monkey", false),
            ("a?b", "a/b", false),
            ("secret**", "secrets/a", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/xb", false),
            ("[a]", "[a]", true),
            ("[a]", "a", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(matches_path_glob(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn words_of_a_command_are_whole() {
        assert!(matches_argv("git log:*", &["git", "log", "-1"]));
        assert!(!matches_argv("git log:*", &["git", "log; rm -rf x"]));
        assert!(!matches_argv("git log:*", &["git log"]));
        assert!(!matches_argv("rm:*", &["rm -rf", "x"]));
        assert!(!matches_argv(":*", &["rm"]));
        assert!(matches_argv("npm run *", &["npm", "run", "a b", "c"]));
        assert!(matches_argv("npm run test-*", &["npm", "run", "test-a"]));
        assert!(!matches_argv("npm run test-*", &["npm", "run", "test-a", "b"]));
        assert!(matches_argv("*", &["anything", "at all"]));
    }

    #[test]
    fn a_host_is_not_its_neighbour() {
        assert_eq!(matches_host("domain:example.org", "example.org"), Some(true));
        assert_eq!(matches_host("domain:example.org", "a.example.org"), Some(false));
        assert_eq!(matches_host("domain:*.example.org", "a.example.org"), Some(true));
        for other in ["example.org", "badexample.org", ".example.org"] {
            assert_eq!(matches_host("domain:*.example.org", other), Some(false), "{other}");
        }
        assert_eq!(matches_host("example.org", "example.org"), None);
    }

    /// Globs in which `**` is a whole name, as `globset` requires.
    fn globs() -> impl Strategy<Value = String> {
        let name = prop_oneof![3 => "[ab*?.]{1,4}", 1 => Just("**".to_owned())];
        let name = name.prop_map(|name| match name.as_str() {
            "**" => name,
            _ => name.replace("**", "*").replace("**", "*"),
        });
        proptest::collection::vec(name, 1..5).prop_map(|names| names.join("/"))
    }

    fn paths() -> impl Strategy<Value = String> {
        proptest::collection::vec("[ab.]{1,3}", 1..5).prop_map(|names| names.join("/"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn paths_match_as_with_globset(pattern in globs(), path in paths()) {
            let glob = globset::GlobBuilder::new(&pattern).literal_separator(true).build().unwrap();
            let expected = glob.compile_matcher().is_match(&path);
            prop_assert_eq!(matches_path_glob(&pattern, &path), expected, "{} {}", pattern, path);
        }
    }

    proptest! {
        #[test]
        fn globs_never_panic_and_a_text_matches_itself(pattern in "\\PC{0,20}", text in "[a-z/]{0,20}") {
            let _ = (matches_path_glob(&pattern, &text), matches_text_glob(&pattern, &text));
            prop_assert!(matches_path_glob(&text, &text));
            prop_assert!(matches_path_glob("**", &text));
        }
    }
}
