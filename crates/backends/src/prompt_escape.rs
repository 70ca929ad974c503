//! Escapes prompts for programs that look for commands and file names in them.

/// Returns the prompt so that the program takes it literally: `/word` would be a command, and `@word` would insert
/// the files of that name, past every permission. The backslash stays visible to the model.
pub(crate) fn escape_prompt(prompt: &str) -> String {
    let escaped = prompt.replace('@', "\\@");
    if escaped.starts_with('/') { format!("\n{escaped}") } else { escaped }
}

/// Returns the prompt so that it is not taken for a command, for programs that skip leading whitespace and would run
/// what a project or the program itself calls `/word`. The backslash stays visible to the model.
pub(crate) fn escape_command(prompt: &str) -> String {
    let trimmed =
        prompt.trim_start_matches(|character: char| character.is_whitespace() || character == '\u{feff}');
    if trimmed.starts_with('/') { format!("\\{trimmed}") } else { prompt.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_file_names_are_escaped() {
        assert_eq!(escape_prompt("/quit now"), "\n/quit now");
        assert_eq!(escape_prompt("read @.env, a/b"), "read \\@.env, a/b");
        assert_eq!(escape_command("/quit now"), "\\/quit now");
        assert_eq!(escape_command(" \u{feff}\n/quit"), "\\/quit");
        assert_eq!(escape_command(" read @.env, a/b"), " read @.env, a/b");
    }
}
