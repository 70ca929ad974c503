//! The MCP server: one client over standard input and output, or many over HTTP, in both generations of the protocol.
//!
//! Bytes become lines (`stdio`), lines become messages or are refused (`jsonrpc_line`, `id_scan`), messages go through the
//! library (`transport`, `in_flight`, `request_guard`) to the `handler`, which calls the engine (`engine::EngineApi`) and renders
//! its answers.

mod options;
mod serve;
mod submit;

mod id_scan;
mod jsonrpc_line;
mod stdio;

mod in_flight;
mod request_guard;
mod transport;

pub(crate) mod http;

mod call_rate;
mod client_profiles;
pub(crate) mod codex_settings;
mod dialect;
mod elicit;
mod event_page;
mod handler;
mod resources;
mod sanitize;
mod tasks;
mod tool_call;
mod tools;
mod wait_for_runs;

pub(crate) use dialect::{BudgieFlags, NativeTools, announcements, open_tool_registry};
pub(crate) use dialect::{
    check_sub_agents, find_powerspawn_version, is_sub_agents_session, stored_jarvis_session,
};
pub(crate) use options::Options;
pub(crate) use serve::serve;
pub(crate) use submit::serve_submit_tool;

#[cfg(test)]
mod tests;
