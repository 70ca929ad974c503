//! The engine behind every door: plans, starts, watches and ends runs.

mod error;
mod request;
mod view;

pub use error::{AppError, ErrorKind};
pub use request::*;
pub use view::*;
