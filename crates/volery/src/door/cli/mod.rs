//! The shell door: what was typed into a typed request, the answer into text or JSON. One file per command.

mod entry;

mod agents;
mod answer;
mod approve;
mod ask_here;
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
mod ps;
mod reindex;
mod resume;
mod run;
mod serve;
mod serve_budgie;
mod show;
mod token;
mod trust;
mod wait;

mod context;
mod error;
mod exit;
mod last_run;
mod live;
mod out;
mod prompt;
mod result;
mod signals;
mod watch;

pub(crate) use entry::main;

#[cfg(test)]
mod tests;
