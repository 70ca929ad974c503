//! Finds what people wrote on disk: the project of a directory, its agents, its configuration, and whether the
//! programs it names are trusted.

mod files;
mod project;
mod trust;

pub use files::{Catalogue, load};
pub use project::{find_project, resolve_directory};
pub use trust::{Trust, TrustError};
