//! Quotes commands and addresses for a person who decides about trust: what is shown must be exactly what is executed, so
//! everything outside printable ASCII is escaped.

/// Returns a command as a JSON list in plain ASCII, so that nothing in it can play tricks on a terminal.
pub(crate) fn argv(command: &[String]) -> String {
    let elements: Vec<String> = command.iter().map(|element| quote_ascii(element)).collect();
    format!("[{}]", elements.join(", "))
}

/// Returns a text in quotes and plain ASCII.
pub(crate) fn quote_ascii(element: &str) -> String {
    format!("\"{}\"", escape_non_ascii(&element.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Escapes everything that is not printable ASCII.
pub(crate) fn escape_non_ascii(text: &str) -> String {
    let mut written = String::new();
    for character in text.chars() {
        match character {
            ' '..='~' => written.push(character),
            _ => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    written.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    written
}
