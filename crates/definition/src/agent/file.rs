//! A file as the registry found it: what every reader begins with.

use domain::agent::{Format, Layer, Source};

/// An agent's file, as the registry found it.
#[derive(Debug, Clone, Copy)]
pub struct AgentFile<'a> {
    pub text: &'a str,
    /// How messages name the file.
    pub file: &'a str,
    /// The file's name without its ending: the agent's name unless the file says another.
    pub stem: &'a str,
    pub layer: Layer,
}

impl AgentFile<'_> {
    pub(super) fn source(&self, format: Format) -> Source {
        Source { file: self.file.to_owned(), format, layer: self.layer }
    }
}
