//! `volery demo`: a real server and three agents at work, with nothing installed.

mod command;
mod environment;
mod mcp_client;
mod results;

pub(crate) use command::{Args, run};

#[cfg(test)]
mod tests;
