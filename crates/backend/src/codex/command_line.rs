//! Takes apart the command line that Codex shows: a shell, an option, and the script in quotes.

/// Returns the script within `/bin/bash -lc '…'`, or the whole line if it is no such thing. Nothing if the quotes do
/// not close: what cannot be read must not be mistaken for something harmless.
pub(super) fn script(line: &str) -> Option<String> {
    let words = words(line)?;
    match words.as_slice() {
        [shell, option, script] if is_shell(shell) && matches!(option.as_str(), "-c" | "-lc") => {
            Some(script.clone())
        }
        _ => Some(line.to_owned()),
    }
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    matches!(name, "sh" | "bash" | "zsh" | "dash")
}

/// Splits a line into words by the rules of quoting that a shell has.
fn words(line: &str) -> Option<Vec<String>> {
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
