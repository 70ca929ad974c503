//! The command line: parses arguments into requests to the engine and renders the answers as text or JSON. One file per
//! command.

mod entry;

mod agents;
mod allow_rule;
mod answer;
mod approve;
mod cancel;
mod clean;
mod complete;
mod completions;
mod config;
mod demo;
mod deny;
mod doctor;
mod health;
mod help;
mod import;
mod init;
mod logs;
mod prices;
mod ps;
mod reindex;
mod resume;
mod run;
mod serve;
mod serve_budgie_flags;
mod show;
mod terminal_questions;
mod token;
mod trust;
mod wait;

mod closed_question;
mod context;
mod error;
mod event_follower;
mod exit;
mod last_run;
mod live_display;
mod output;
mod prompt;
mod run_result;
mod signals;
mod waiting_run;
mod watch;
mod watched_questions;

pub(crate) use entry::main;

#[cfg(test)]
mod tests;
