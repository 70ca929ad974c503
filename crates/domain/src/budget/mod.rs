//! What a run and its descendants may spend: time, memory, processes, output, depth and fan-out.

mod limits;
mod narrow;

pub use limits::{AskedLimits, Limits};
pub use narrow::{narrow, resolve};

#[cfg(test)]
mod tests;
