//! Agents: one reader per format of file.

mod accept;
mod codex_servers;
mod executables;
mod file;
mod inputs;
mod markdown;
mod named;
mod opencode_permission;
mod places;
mod references;
mod servers;
mod setup;
mod tools;
mod values;

pub mod volery;

pub mod claude;
pub mod codex;
pub mod copilot;
pub mod cursor;
pub mod directive;
pub mod dot_agents;
pub mod gemini;
pub mod jarvis;
pub mod kiro;
pub mod opencode;
pub mod plain;
pub mod qwen;

pub use executables::{executables, executables_without_secrets};
pub use file::AgentFile;
pub use named::name_of;
pub use places::{place_of_key, place_of_path};
pub(crate) use setup::{LEVELS, read_permission};
pub(crate) use values::{read_agent_name, read_backend, read_word};
pub(crate) use volery::CONTAINMENT;

#[cfg(test)]
mod tests;
