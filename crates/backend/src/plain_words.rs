//! Prompts for programs that look for commands and for names of files in them.

/// Returns the prompt so that it is taken as words: `/word` would be a command, and `@word` would put the files of that
/// name into the prompt, past every permission. The backslash stays visible to the model.
pub(crate) fn plain_words(prompt: &str) -> String {
    let escaped = prompt.replace('@', "\\@");
    if escaped.starts_with('/') { format!("\n{escaped}") } else { escaped }
}

/// Returns the prompt so that it is not taken for a command, for programs that pass over spaces before one and would
/// carry out what a project or the program itself calls `/word`. The backslash stays visible to the model.
pub(crate) fn no_command(prompt: &str) -> String {
    let begin = prompt.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '\u{feff}');
    if begin.starts_with('/') { format!("\\{begin}") } else { prompt.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_names_of_files_become_words() {
        assert_eq!(plain_words("/quit now"), "\n/quit now");
        assert_eq!(plain_words("read @.env, a/b"), "read \\@.env, a/b");
        assert_eq!(no_command("/quit now"), "\\/quit now");
        assert_eq!(no_command(" \u{feff}\n/quit"), "\\/quit");
        assert_eq!(no_command(" read @.env, a/b"), " read @.env, a/b");
    }
}
