//! Describes how each agent is driven: one folder per vendor, with a table of everything that is known about it
//! (`vendor.rs`), and the backends that are no vendor's.
//!
//! A backend starts nothing and knows neither the journal nor a door: it returns what to start or do, and reads the
//! output.

pub mod acp;
pub mod agent_files;
pub mod agent_loop;
mod agent_question;
pub mod api;
pub mod claude;
pub mod client_setup;
pub mod clients;
pub mod codex;
pub mod command;
pub mod container;
pub mod contract;
pub mod copilot;
pub mod cursor;
mod digest;
mod excerpt;
mod frontmatter;
pub mod gemini;
pub mod goose;
pub mod grok;
pub mod json_lines;
pub mod kimi;
pub mod kiro;
pub mod line_splitter;
pub mod login_advice;
pub mod logins;
mod lost_requests;
pub mod mcp_config;
mod model_error;
pub mod opencode;
mod pending_tool_calls;
pub mod permission_overrides;
mod policy_translation;
pub mod prices;
pub mod program;
mod project_executables;
mod prompt_escape;
pub mod prompt_with_system;
pub mod qwen;
pub mod registry;
pub mod rehearsal;
pub mod schema_prompt;
mod server_tools;
pub mod session_usage;
pub mod stream_buffer;
mod stream_json;
pub mod user_environment;
pub mod vendor;
pub mod vendor_tables;

#[cfg(test)]
mod recorded_streams;
#[cfg(test)]
mod test_fixtures;
