//! The MCP server with a scripted engine, line by line as a client sees it. Each file is named for the behaviour it tests.

pub(super) mod client_session;
pub(super) mod scripted_engine;

mod answers_before_client_timeout;
mod answers_every_line;
mod cancels_wait_or_run;
mod elicits_answers_from_users;
mod follows_the_protocol;
mod leaves_at_once;
mod offers_tasks;
mod offers_tools;
mod reads_resources;
mod survives_pitfalls;
