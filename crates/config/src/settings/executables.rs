//! The programs that a layer would execute, and the addresses that it would send keys to, as a text for the decision
//! about trust: shown to a person, and hashed.

use crate::quote_ascii::{argv, escape_non_ascii, quote_ascii};

use super::{Backend, CommandBackend, ConfigLayer, Protocol, Provider, overlay};

/// Returns a line for each backend of the layer, in the order of names, and for each agent that it may allow more
/// than the agent's own file does; empty if there are none. The text depends only on the execution and its inputs,
/// not on the file's layout.
pub fn executables(layer: &ConfigLayer) -> String {
    let mut lines = String::new();
    for (name, backend) in &layer.backends {
        lines.push_str(&format!("backend {name}: {}\n", describe_backend(backend)));
    }
    let named = layer.agents.iter().map(|(name, overlay)| (format!("agent {name}"), overlay));
    let defaults = layer.defaults.iter().map(|(name, overlay)| (format!("agents of {name}"), overlay));
    for (subject, overlay) in named.chain(defaults).filter(|(_, overlay)| overlay.may_widen()) {
        lines.push_str(&format!("{subject}: {}\n", escape_non_ascii(&overlay::describe_overlay(overlay))));
    }
    lines
}

/// Describes a backend in a line.
pub(super) fn describe_backend(backend: &Backend) -> String {
    match backend {
        Backend::Command(program) => describe_command(program),
        Backend::Provider(service) => describe_provider(service),
    }
}

fn describe_command(program: &CommandBackend) -> String {
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

/// A provider receives prompts and a key, so its address decides who gets both.
fn describe_provider(service: &Provider) -> String {
    let address =
        service.base_url.as_deref().map(|url| format!(" at {}", quote_ascii(url))).unwrap_or_default();
    let key = service.key_env.as_deref().map(|key| format!(" with the key in {key}")).unwrap_or_default();
    format!("the API of {}{address}{key}", service.api)
}
