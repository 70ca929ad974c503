//! Finds what people wrote on disk: the project of a directory, its agents, its configuration, and whether the
//! programs it names are trusted.

mod agents;
mod beside;
mod built_in;
mod config_agents;
mod duplicates;
mod file_cache;
mod file_state;
mod files;
mod folders;
mod listing;
mod nearer;
mod places;
mod plugins;
pub mod programs_of_projects;
mod project;
mod text;
mod trust;

pub use agents::{folder_agents, read_folder};
pub use duplicates::plain_name;
pub use files::{Catalogue, config_paths, load, load_config};
pub use folders::{Folder, Prompts, own_folder};
pub use nearer::unread_agents;
pub use places::{place_of_executable, place_of_key};
pub use project::{find_project, marked_project, resolve_directory};
pub use text::would_leave;
pub use trust::{Trust, TrustError};

#[cfg(test)]
mod tests;
