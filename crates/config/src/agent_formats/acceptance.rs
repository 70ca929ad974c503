//! The commands that must succeed before an agent's success counts. They run without a shell: a text is only split
//! into a program and its arguments.

use crate::text::{Diagnostics, Node, NodeValue, quote, read_text};

/// The most commands, and words of one command.
const COMMANDS_MAX: usize = 16;
const WORDS_MAX: usize = 256;
/// Words that only a shell understands.
const SHELL_WORDS: [&str; 12] = ["&&", "||", "|", "&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "`"];

/// Reads one command, as a text or as a list of words, or a list of commands.
pub(super) fn read_accept(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Vec<Vec<String>> {
    let commands: Vec<&Node> = match &node.value {
        NodeValue::List(items) if items.iter().any(|item| matches!(item.value, NodeValue::List(_))) => {
            items.iter().collect()
        }
        NodeValue::List(_)
        | NodeValue::String(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::Map(_) => vec![node],
    };
    if commands.len() > COMMANDS_MAX {
        diagnostics.error(node.location, format!("accept: {COMMANDS_MAX} commands are allowed at most"));
        return Vec::new();
    }
    commands.into_iter().filter_map(|command| read_command(command, diagnostics)).collect()
}

fn read_command(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<Vec<String>> {
    let words = match &node.value {
        NodeValue::List(items) => {
            let words: Option<Vec<String>> =
                items.iter().map(|item| read_text(item, "accept", diagnostics)).collect();
            let words = words?;
            if let [program, ..] = words.as_slice()
                && program.contains(' ')
            {
                let message = format!("accept: the program is named {} here", quote(program));
                let hint = "several commands are a list of lists: [[cargo, test], [cargo, clippy]]";
                diagnostics.warning_with_hint(node.location, message, hint);
            }
            words
        }
        NodeValue::String(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::Map(_) => {
            let line = read_text(node, "accept", diagnostics)?;
            match split_command_line(&line) {
                Ok(words) => words,
                Err(reason) => {
                    diagnostics.error(node.location, format!("accept: {}: {reason}", quote(&line)));
                    return None;
                }
            }
        }
    };
    if words.first().is_none_or(String::is_empty) || words.len() > WORDS_MAX {
        let message = format!("accept: a command has a program and at most {WORDS_MAX} words");
        diagnostics.error_with_hint(node.location, message, "write for example accept: cargo test");
        return None;
    }
    if words.iter().any(|word| word.contains('\0')) {
        diagnostics.error(node.location, "accept: a command cannot contain a NUL byte");
        return None;
    }
    Some(words)
}

/// Splits a line into words at white space, with quotes and backslashes as in shells.
fn split_command_line(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut letters = line.chars();
    let mut word: Option<String> = None;
    let mut bare = true;
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                bare = false;
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        None => return Err(format!("the quote {letter} is not closed")),
                        Some(closing) if closing == letter => break,
                        Some('\\') if letter == '"' => match letters.next() {
                            Some(escaped @ ('"' | '\\')) => word.push(escaped),
                            Some(other) => word.extend(['\\', other]),
                            None => return Err("the quote \" is not closed".to_owned()),
                        },
                        Some(other) => word.push(other),
                    }
                }
            }
            '\\' => {
                bare = false;
                let escaped = letters.next().ok_or("nothing follows the last backslash")?;
                word.get_or_insert_default().push(escaped);
            }
            letter if letter.is_whitespace() => {
                if let Some(done) = word.take() {
                    words.push(check_word(done, bare)?);
                }
                bare = true;
            }
            letter => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(done) = word {
        words.push(check_word(done, bare)?);
    }
    Ok(words)
}

/// Refuses a word that a shell would interpret.
fn check_word(word: String, bare: bool) -> Result<String, String> {
    match bare && (SHELL_WORDS.contains(&word.as_str()) || word.ends_with(';')) {
        true => Err(format!("{} is for a shell, and there is none", quote(&word))),
        false => Ok(word),
    }
}

#[cfg(test)]
mod tests {
    use super::split_command_line;

    #[test]
    fn a_line_is_split_as_people_expect() {
        let words = |line: &str| split_command_line(line).unwrap();
        assert_eq!(words("cargo test"), ["cargo", "test"]);
        assert_eq!(
            words(" a  'b c' \"d \\\"e\\\" $HOME\" f\\ g '' "),
            ["a", "b c", "d \"e\" $HOME", "f g", ""]
        );
        assert_eq!(words("sh -c 'a && b'"), ["sh", "-c", "a && b"]);
        assert_eq!(words("--x='1 2'"), ["--x=1 2"]);
        assert!(words("").is_empty());
        for line in ["a && b", "a; b", "a | b", "a > b", "a 'b", "a \"b\\", "a \\"] {
            assert!(split_command_line(line).is_err(), "{line}");
        }
        assert_eq!(words("a '&&'"), ["a", "&&"], "quoted, it is meant");
    }
}
