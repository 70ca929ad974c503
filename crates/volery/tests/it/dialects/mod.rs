//! Servers that replace other systems: their tools and answers, without their defects.

mod budgie;
mod codex;
mod every_dialect;
mod jarvis;
mod per_agent;
mod powerspawn;
mod sub_agents_mcp;
