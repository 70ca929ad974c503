//! The MCP door: one client over standard input and output, or many over HTTP, in both generations of the protocol.
//!
//! Bytes become lines (`stdio`), lines become messages or are refused (`line`, `id_scan`), messages go through the
//! library (`transport`, `in_flight`, `guard`) to the `handler`, which asks the app
//! (`front`) and renders its answers.

mod options;
mod serve;
mod submit;

mod id_scan;
mod line;
mod stdio;

mod guard;
mod in_flight;
mod transport;

pub(crate) mod http;

mod call;
mod call_rate;
mod clean;
mod clients;
pub(crate) mod codex_settings;
mod dialect;
mod elicit;
mod events;
mod front;
mod handler;
mod resources;
mod tasks;
mod tools;
mod waiting;

pub(crate) use dialect::{BudgieFlags, NativeTools, announcements, open};
pub(crate) use dialect::{check_sub_agents, find_powerspawn_version, is_sub_agents_session, kept_by_jarvis};
pub(crate) use options::Options;
pub(crate) use serve::serve;
pub(crate) use submit::submit;

#[cfg(test)]
mod tests;
