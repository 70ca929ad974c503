//! A model server that follows a script, for agents that are tested without a network and for `volery doctor --live`: it speaks the protocols of
//! four vendors on loopback, answers what a test told it to answer, and keeps every request for the test to look at.
//!
//! It checks no keys, knows no models and computes nothing. Whichever protocol is spoken to it, the same script is
//! rendered in that protocol. What agents ask beside their work (titles, token counts, model lists) takes nothing from the script.

mod ask;
mod connection;
mod http;
mod offline;
mod play;
mod program;
mod recipe;
mod script;
mod server;
mod side;
mod wire;

pub use ask::{Ask, Message, ToolResult};
pub use offline::{Closed, HOLD, Offline, hold};
pub use play::{Folders, Played, Recipe, play};
pub use program::{Program, ProgramError};
pub use recipe::{Order, Surroundings, around, recipe, surroundings};
pub use script::{Answer, Body, End, Fault, Reply, ScriptError, Times, ToolCall, Usage, parse_script};
pub use server::{Purpose, Seen, Server};
pub use side::SideRule;
pub use wire::Format;

#[cfg(test)]
mod tests;
