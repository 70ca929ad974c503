//! The requests to the engine and its answers: plain values.

mod admin_types;
mod error;
mod request;
mod views;

pub use admin_types::*;
pub use error::{EngineError, ErrorKind};
pub use request::*;
pub use views::*;
