//! Commands as words. Nothing here goes through a shell, so whatever would need one is refused.

/// Characters that mean something else to a shell than themselves.
const SHELL_CHARACTERS: [char; 13] = ['|', '&', ';', '<', '>', '(', ')', '$', '`', '\\', '\n', '\r', '\0'];
/// Characters that a shell expands, outside of quotation marks.
const EXPANDED_CHARACTERS: [char; 5] = ['*', '?', '[', ']', '~'];

/// Returns the words of a command, or the text that needs a shell. Quotation marks join words; `{input:x}` and
/// `${inputs.x}` are words of their own or parts of one.
pub(super) fn command_words(command: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.trim();
    while let Some(letter) = rest.chars().next() {
        if let Some(length) = placeholder_length(rest) {
            word.get_or_insert_default().push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        let after = &rest[letter.len_utf8()..];
        match letter {
            '"' | '\'' => {
                let Some((quoted, after)) = after.split_once(letter) else { return Err(letter.to_string()) };
                let is_shells = |letter: char| matches!(letter, '$' | '`' | '\\' | '\0');
                if let Some(shells) = quoted.chars().find(|quoted| letter == '"' && is_shells(*quoted)) {
                    return Err(shells.to_string());
                }
                word.get_or_insert_default().push_str(quoted);
                rest = after;
                continue;
            }
            letter if SHELL_CHARACTERS.contains(&letter) || EXPANDED_CHARACTERS.contains(&letter) => {
                return Err(letter.to_string());
            }
            letter if letter.is_whitespace() => words.extend(word.take()),
            // A comment, a negation, or a list of alternatives.
            '#' | '!' | '{' if word.is_none() => return Err(letter.to_string()),
            letter => word.get_or_insert_default().push(letter),
        }
        rest = after;
    }
    words.extend(word);
    match words.first() {
        None => Err("an empty command".to_owned()),
        Some(first) if first.is_empty() || first.contains('=') => Err(first.clone()),
        Some(_) => Ok(words),
    }
}

/// Returns the words of a pattern of commands, in which `*` stands for any text, and at the end for any words.
pub(super) fn command_pattern(command: &str) -> Option<Vec<String>> {
    let is_shells = |letter: char| SHELL_CHARACTERS.contains(&letter) || matches!(letter, '"' | '\'');
    let mut words: Vec<String> = command.split_whitespace().map(ToOwned::to_owned).collect();
    if words.is_empty() || command.contains(is_shells) {
        return None;
    }
    if words.len() > 1
        && let Some(last) = words.last_mut().filter(|last| *last == "*")
    {
        "**".clone_into(last);
    }
    Some(words)
}

/// Returns the length of the placeholder that a text begins with.
fn placeholder_length(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("{input:").or_else(|| text.strip_prefix("${inputs."))?;
    let length = inside.find('}')?;
    let is_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '?');
    inside[..length].chars().all(is_name).then(|| text.len() - inside.len() + length + 1)
}
