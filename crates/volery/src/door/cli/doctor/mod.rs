//! `volery doctor`: what this machine can enforce.

mod command;
mod examine;
mod machine;

pub(crate) use command::{Args, run};

#[cfg(test)]
mod tests;
