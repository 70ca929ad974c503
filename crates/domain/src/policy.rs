//! Decides what an agent may do. A policy is a chain of layers; [`Policy::decide`] maps a typed use to a verdict, which
//! names the rule or the level that it rests on. Vendors' folders only translate.
//!
//! Vendors' programs read one level and three lists of rules, so `overlay` and `narrow` merge layers into one permission
//! that is never weaker than the chain.

mod command_forms;
mod kinds;
mod layers;
mod levels;
mod matching;
mod narrow;
mod narrow_rule;
mod overlay;
mod pattern;
mod read_only_commands;
mod uses;
mod verdict;

pub(crate) use command_forms::argv_forms;
pub use layers::{Layer, Policy};
pub use levels::Extent;
pub use matching::{Directory, is_in_git_dir};
pub use narrow::Narrowed;
pub use overlay::{Authority, Grant, GrantSource, Overlaid, PermissionTooWide};
pub(crate) use pattern::matches_text_glob;
pub use uses::{ExecCommand, Use, UsePath, path_argument};
pub use verdict::{Basis, Effect, Verdict};

#[cfg(test)]
mod generators;
#[cfg(test)]
mod tests;
