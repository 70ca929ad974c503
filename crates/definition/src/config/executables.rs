//! What a layer would execute, and where it would send keys, as text that trust is given to: shown to a person, and hashed.

use super::{Backend, ConfigLayer, Program, Protocol, Provider, overlay};

/// Returns a line for each program or service that the layer names, in the order of the backends' names, and for each agent that
/// it may allow more than the agent's own file does; empty if there are none.
/// The text depends only on what would run and what it would be handed, not on the file's layout.
pub fn executables(layer: &ConfigLayer) -> String {
    let mut lines = String::new();
    for (name, backend) in &layer.backends {
        lines.push_str(&format!("backend {name}: {}\n", shown(backend)));
    }
    let named = layer.agents.iter().map(|(name, overlay)| (format!("agent {name}"), overlay));
    let defaults = layer.defaults.iter().map(|(name, overlay)| (format!("agents of {name}"), overlay));
    for (whom, overlay) in named.chain(defaults).filter(|(_, overlay)| overlay.may_widen()) {
        lines.push_str(&format!("{whom}: {}\n", ascii(&overlay::in_words(overlay))));
    }
    lines
}

/// Returns what a backend starts or asks, in a line.
pub(super) fn shown(backend: &Backend) -> String {
    match backend {
        Backend::Program(program) => shown_program(program),
        Backend::Provider(service) => shown_service(service),
    }
}

fn shown_program(program: &Program) -> String {
    let mut line = argv(&program.command);
    if program.protocol == Protocol::Acp {
        line.push_str(" by acp");
    }
    if !program.env.is_empty() {
        let mut names = program.env.clone();
        names.sort();
        line.push_str(&format!(" with the variables {}", names.join(" ")));
    }
    line
}

/// A service gets prompts, and a key: whoever names its address could have both.
fn shown_service(service: &Provider) -> String {
    let address =
        service.base_url.as_deref().map(|url| format!(" at {}", quoted_ascii(url))).unwrap_or_default();
    let key = service.key_env.as_deref().map(|key| format!(" with the key in {key}")).unwrap_or_default();
    format!("the API of {}{address}{key}", service.api)
}

/// Returns a command as a JSON list in plain ASCII, so that nothing in it can play tricks on a terminal.
pub(crate) fn argv(command: &[String]) -> String {
    let elements: Vec<String> = command.iter().map(|element| quoted_ascii(element)).collect();
    format!("[{}]", elements.join(", "))
}

/// Returns a text in quotes and plain ASCII.
pub(crate) fn quoted_ascii(element: &str) -> String {
    format!("\"{}\"", ascii(&element.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Returns a text in which everything that is not plain ASCII is written as its number.
fn ascii(text: &str) -> String {
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
