//! What a layer would execute, as text that trust is given to: shown to a person, and hashed.

use super::{ConfigLayer, Protocol};

/// Returns a line for each program that the layer names, in the order of the backends' names; empty if it names none.
/// The text depends only on what would run and what it would be handed, not on the file's layout.
pub fn executables(layer: &ConfigLayer) -> String {
    let mut lines = String::new();
    for (name, backend) in &layer.backends {
        lines.push_str(&format!("backend {name}: {}", argv(&backend.command)));
        if backend.protocol == Protocol::Acp {
            lines.push_str(" by acp");
        }
        if !backend.env.is_empty() {
            let mut names = backend.env.clone();
            names.sort();
            lines.push_str(&format!(" with the variables {}", names.join(" ")));
        }
        lines.push('\n');
    }
    lines
}

/// Returns a command as a JSON list in plain ASCII, so that nothing in it can play tricks on a terminal.
pub(crate) fn argv(command: &[String]) -> String {
    let elements: Vec<String> = command.iter().map(|element| ascii(element)).collect();
    format!("[{}]", elements.join(", "))
}

fn ascii(element: &str) -> String {
    let mut written = String::from("\"");
    for character in element.chars() {
        match character {
            '"' | '\\' => written.extend(['\\', character]),
            ' '..='~' => written.push(character),
            _ => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    written.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    written.push('"');
    written
}
