//! Finds the files that people wrote: the project of a directory, its agents, its configuration, and whether the
//! programs that it names are trusted.

mod agent_folders;
mod agents;
mod built_in_agents;
mod catalog;
mod claude_plugins;
mod config_agents;
mod discovery;
mod duplicates;
mod file_cache;
mod file_state;
mod guarded_read;
mod key_location;
mod nested_agents;
mod parsed_files;
mod project;
mod sidecar_files;
mod trust;

pub use agent_folders::{AgentFolder, KiroPrompts, own_folder};
pub use agents::{folder_agents, read_folder};
pub use catalog::{Catalog, config_paths, load, load_config};
pub use duplicates::plain_name;
pub use guarded_read::would_escape;
pub use key_location::{executable_line, key_location};
pub use nested_agents::nested_agent_warnings;
pub use project::{find_project, marked_project, resolve_directory};
pub use trust::{AgentGrant, TrustError, TrustStore, agent_grants, is_in_project, project_executables};

#[cfg(test)]
mod tests;
