//! The resources that a run and its descendants may use: time, memory, processes, output, depth and fan-out.

mod limits;
mod narrow;

pub use limits::{Limits, RequestedLimits};
pub use narrow::{narrow, resolve};

#[cfg(test)]
mod tests;
