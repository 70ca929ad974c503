//! `volery doctor`: checks what this machine can enforce.

mod command;
mod examine;

pub(crate) use command::{Args, run};

#[cfg(test)]
mod tests;
