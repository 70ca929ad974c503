//! A prompt for the programs of the Gemini family, which look for commands and for names of files in it.

/// Returns the prompt so that it is taken as words: `/word` would be a command, and `@word` would put the files of that
/// name into the prompt, past every permission. The backslash stays visible to the model.
pub(crate) fn plain_words(prompt: &str) -> String {
    let escaped = prompt.replace('@', "\\@");
    if escaped.starts_with('/') { format!("\n{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_names_of_files_become_words() {
        assert_eq!(plain_words("/quit now"), "\n/quit now");
        assert_eq!(plain_words("read @.env, a/b"), "read \\@.env, a/b");
    }
}
