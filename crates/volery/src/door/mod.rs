//! Ways in. A door turns what was said into a typed request, waits, and renders the answer; it never runs an agent.

pub mod cli;
pub mod mcp;
