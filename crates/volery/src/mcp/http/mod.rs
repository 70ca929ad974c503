//! The MCP server over HTTP: both generations of the protocol on one endpoint, for many callers at once, each with its own
//! token and runs; and the metrics of the server behind the same tokens.
//!
//! A connection (`serve`) brings requests; each is checked (`origin_check`, `router`), read (`body`) and passed to the
//! library, with one service per token (`tenants`, `sessions`, `panic_guard`). Long calls get response headers and
//! keepalives before the answer (`keepalive`).

mod engine_backend;
mod limits;
mod serve;

mod body;
mod keepalive;
mod origin_check;
mod reply;
mod router;

mod http_backend;
mod panic_guard;
mod sessions;
mod tenants;

mod counters;
mod metrics;

pub(crate) use origin_check::OriginCheck;
pub(crate) use serve::{HttpListener, is_loopback, serve};

#[cfg(test)]
mod tests;
