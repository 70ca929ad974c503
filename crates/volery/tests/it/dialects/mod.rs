//! Servers that stand in for other systems: their tools, their answers, and their defects, which are not there.

mod budgie;
mod codex;
mod every_dialect;
mod jarvis;
mod per_agent;
mod powerspawn;
mod sub_agents_mcp;
