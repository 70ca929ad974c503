//! Decides whether and how a run starts: finds the agent, resolves permission, backend, fallbacks and session, and compares
//! them with what the backend can enforce and what the project may execute.

pub(crate) mod attempt_backend;
pub(crate) mod compatibility;
mod config_section;
mod container;
mod fallbacks;
mod grants;
pub(crate) mod loop_model;
pub(crate) mod project_executables;
pub(crate) mod protected_paths;
pub(crate) mod resumption;
mod session_resolution;
pub(crate) mod start;
mod unattended_denials;

pub(crate) use compatibility::chooses_sessions;
pub use config_section::{config_section, without_agent_name};
pub use container::find_container_engine;
pub(crate) use grants::{resolve_untrusted, section_name};
pub(crate) use start::StartedChild;
pub use start::check_installed;
