//! The MCP door: one client over standard input and output, in both generations of the protocol.
//!
//! Bytes become lines (`stdio`), lines become messages or are refused (`line`, `id_scan`), messages go through the
//! library (`transport`, `in_flight`, `guard`) to the `handler`, which asks the `engine` and renders its answers.

mod serve;

mod id_scan;
mod line;
mod stdio;

mod guard;
mod in_flight;
mod transport;

mod call;
mod clients;
mod engine;
mod events;
mod handler;
mod resources;
mod tasks;
mod tools;
mod waiting;

pub use clients::Waits;
pub use engine::{Answering, Engine};
pub use handler::Pace;
pub use serve::{Left, Options, serve};

#[cfg(test)]
mod tests;
