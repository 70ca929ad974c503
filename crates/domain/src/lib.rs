//! DECIDES. The nouns of Volery and the rules between them: no I/O, no clock, no randomness, no async.
//!
//! Everything here is a plain value or a function from values to values, so every decision can be tested
//! without a process, a file or a wait.

pub mod access;
pub mod admission;
pub mod agent;
pub mod budget;
pub mod conversation;
pub mod diagnostic;
pub mod dialect;
pub mod directive;
pub mod duration;
pub mod go_duration;
pub mod hex;
pub mod id;
pub mod inherit;
pub mod inputs;
pub mod invisible_text;
pub mod launch;
pub mod mcp_server;
pub mod nearest;
pub mod overlay;
pub mod permission;
pub mod placeholders;
pub mod policy;
pub mod price;
pub mod run;
pub mod secret;
pub mod setup;
pub mod shell_script;
pub mod size;

pub use jiff::Timestamp;
