//! The commands that must succeed before an agent's success counts. They run without a shell: a text is only split into
//! a program and its arguments.

use crate::text::{Findings, Node, Shape, quoted, text};

/// How many commands there may be, and words in one.
const COMMANDS_MAX: usize = 16;
const WORDS_MAX: usize = 256;
/// What only a shell understands, where it stands by itself.
const SHELL_WORDS: [&str; 12] = ["&&", "||", "|", "&", ";", ">", ">>", "<", "<<", "2>", "2>&1", "`"];

/// Reads one command, as a text or as a list of words, or a list of such.
pub(super) fn read_accept(node: &Node, findings: &mut Findings<'_>) -> Vec<Vec<String>> {
    let commands: Vec<&Node> = match &node.shape {
        Shape::List(items) if items.iter().any(|item| matches!(item.shape, Shape::List(_))) => {
            items.iter().collect()
        }
        Shape::List(_)
        | Shape::Text(_)
        | Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::Map(_) => vec![node],
    };
    if commands.len() > COMMANDS_MAX {
        findings.error(node.place, format!("accept: {COMMANDS_MAX} commands are allowed at most"));
        return Vec::new();
    }
    commands.into_iter().filter_map(|command| read_command(command, findings)).collect()
}

fn read_command(node: &Node, findings: &mut Findings<'_>) -> Option<Vec<String>> {
    let words = match &node.shape {
        Shape::List(items) => {
            let words: Option<Vec<String>> =
                items.iter().map(|item| text(item, "accept", findings)).collect();
            let words = words?;
            if let [program, ..] = words.as_slice()
                && program.contains(' ')
            {
                let message = format!("accept: the program is named {} here", quoted(program));
                let hint = "several commands are a list of lists: [[cargo, test], [cargo, clippy]]";
                findings.warning_with_hint(node.place, message, hint);
            }
            words
        }
        Shape::Text(_)
        | Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::Map(_) => {
            let line = text(node, "accept", findings)?;
            match split(&line) {
                Ok(words) => words,
                Err(reason) => {
                    findings.error(node.place, format!("accept: {}: {reason}", quoted(&line)));
                    return None;
                }
            }
        }
    };
    if words.first().is_none_or(String::is_empty) || words.len() > WORDS_MAX {
        let message = format!("accept: a command has a program and at most {WORDS_MAX} words");
        findings.error_with_hint(node.place, message, "write for example accept: cargo test");
        return None;
    }
    if words.iter().any(|word| word.contains('\0')) {
        findings.error(node.place, "accept: a command cannot contain a NUL byte");
        return None;
    }
    Some(words)
}

/// Splits a line into words: at white space, with quotes and backslashes as people know them from shells.
fn split(line: &str) -> Result<Vec<String>, String> {
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
                    words.push(finished(done, bare)?);
                }
                bare = true;
            }
            letter => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(done) = word {
        words.push(finished(done, bare)?);
    }
    Ok(words)
}

/// A word that a shell would not have passed on is a mistake here.
fn finished(word: String, bare: bool) -> Result<String, String> {
    match bare && (SHELL_WORDS.contains(&word.as_str()) || word.ends_with(';')) {
        true => Err(format!("{} is for a shell, and there is none", quoted(&word))),
        false => Ok(word),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_line_is_split_as_people_expect() {
        let words = |line: &str| split(line).unwrap();
        assert_eq!(words("cargo test"), ["cargo", "test"]);
        assert_eq!(
            words(" a  'b c' \"d \\\"e\\\" $HOME\" f\\ g '' "),
            ["a", "b c", "d \"e\" $HOME", "f g", ""]
        );
        assert_eq!(words("sh -c 'a && b'"), ["sh", "-c", "a && b"]);
        assert_eq!(words("--x='1 2'"), ["--x=1 2"]);
        assert!(words("").is_empty());
        for line in ["a && b", "a; b", "a | b", "a > b", "a 'b", "a \"b\\", "a \\"] {
            assert!(split(line).is_err(), "{line}");
        }
        assert_eq!(words("a '&&'"), ["a", "&&"], "quoted, it is meant");
    }
}
