//! Agents: one reader per file format.

pub mod volery;

#[cfg(test)]
mod tests;
