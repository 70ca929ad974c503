//! `volery demo`: a real server and three agents at work, with nothing installed.

mod command;
mod conversation;
mod stage;
mod tally;

pub(crate) use command::{Args, run};

#[cfg(test)]
mod tests;
