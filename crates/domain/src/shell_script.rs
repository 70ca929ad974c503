//! Extracts the script from a command line that starts a shell: `/bin/bash -lc '…'`, as Codex reports its commands. And quotes words
//! for a shell.

/// Returns the script of `/bin/bash -lc '…'`, or the whole line if it has another form. Returns `None` for unbalanced quotes:
/// a line that cannot be parsed must not look harmless.
pub fn script(line: &str) -> Option<String> {
    let words = split_words(line)?;
    match words.as_slice() {
        [shell, option, script] if is_shell(shell) && matches!(option.as_str(), "-c" | "-lc") => {
            Some(script.clone())
        }
        _ => Some(line.to_owned()),
    }
}

/// Quotes a text as one word of a shell, for a command that people copy.
pub fn quote(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:@%+=,".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns whether a program is a shell, by its name.
pub(crate) fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    matches!(name, "sh" | "bash" | "zsh" | "dash")
}

/// Splits a line by the quoting rules of a shell.
fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        other => quoted.push(other),
                    }
                }
            }
            '"' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '\\' => match characters.next()? {
                            special @ ('"' | '\\' | '$' | '`') => quoted.push(special),
                            other => quoted.extend(['\\', other]),
                        },
                        other => quoted.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next()?),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}
