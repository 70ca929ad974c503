//! A file as the registry found it: the input of every reader.

use domain::agent::{AgentFormat, AgentSource, Layer};

/// An agent's file, as the registry found it.
#[derive(Debug, Clone, Copy)]
pub struct AgentFile<'a> {
    pub text: &'a str,
    /// How messages name the file.
    pub file: &'a str,
    /// The file's name without its extension: the agent's name unless the file declares another.
    pub stem: &'a str,
    pub layer: Layer,
}

impl AgentFile<'_> {
    pub(super) fn source(&self, format: AgentFormat) -> AgentSource {
        AgentSource { file: self.file.to_owned(), format, layer: self.layer }
    }
}
