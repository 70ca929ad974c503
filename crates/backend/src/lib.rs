//! RUNS. How agents are driven: one folder per backend, and the one place that starts processes.
//!
//! A backend sees neither the journal nor a door: it says what to start or do, and reads what comes back.

pub mod acp;
pub mod api;
mod calls;
pub mod claude;
pub mod codex;
pub mod combined_prompt;
pub mod command;
pub mod container;
pub mod contract;
pub mod copilot;
pub mod cumulative;
pub mod cursor;
mod digest;
mod excerpt;
mod frontmatter;
pub mod gemini;
pub mod goose;
pub mod grok;
pub mod json_lines;
pub mod kept;
pub mod kimi;
pub mod kiro;
pub mod lines;
pub mod logins;
mod loosened;
mod lost_requests;
pub mod mcp_config;
pub mod opencode;
pub mod plain_file;
mod plain_words;
pub mod prices;
pub mod process;
pub mod program;
mod project_settings;
pub mod qwen;
pub mod registry;
pub mod rehearsal;
mod server_tools;
mod stream_json;
mod told_error;
pub mod user;
pub mod worded_schema;
pub mod work_tree;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod sample;
