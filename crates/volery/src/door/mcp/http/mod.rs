//! The MCP door over HTTP: both generations of the protocol on one endpoint, for many callers at once, each with a token
//! and runs of its own; and the metrics of the server behind the same tokens.
//!
//! A connection (`serve`) brings requests; each is checked (`allowed`, `door`), read (`body`) and handed to the library,
//! with one service per token (`tenants`, `sessions`, `guarded`). What takes long begins to be answered before there
//! is an answer (`early`).

mod limits;
mod product;
mod serve;

mod allowed;
mod body;
mod door;
mod early;
mod reply;

mod guarded;
mod house;
mod sessions;
mod tenants;

mod counters;
mod metrics;

pub(crate) use allowed::Allowed;
pub(crate) use serve::{Listening, is_loopback, serve};

#[cfg(test)]
mod tests;
