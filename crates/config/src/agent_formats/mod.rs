//! Agents: one reader per format of file.

mod acceptance;
mod agent_file;
mod codex_mcp_servers;
mod declared_name;
mod env_references;
mod executables;
mod inputs;
mod key_location;
mod markdown;
mod mcp_servers;
mod opencode_permission;
mod setup;
mod shared_keys;
mod tool_list;

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

pub use agent_file::AgentFile;
pub use declared_name::declared_name;
pub use executables::{executables, executables_without_secrets};
pub use key_location::{locate_key, locate_key_path};
pub(crate) use setup::{LEVELS, read_permission};
pub(crate) use shared_keys::{read_agent_name, read_backend, read_word};
pub(crate) use volery::CONTAINMENT;

#[cfg(test)]
mod tests;
