//! Agents: one reader per format of file.

mod file;
mod markdown;
mod servers;
mod setup;
mod values;

pub mod dot_agents;
pub mod plain;
pub mod volery;

pub use file::AgentFile;
pub(crate) use values::read_agent_name;
pub(crate) use volery::CONTAINMENT;

#[cfg(test)]
mod tests;
