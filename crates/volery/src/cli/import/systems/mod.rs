//! One file per system.

pub(super) mod budgie;
pub(super) mod codex;
pub(super) mod jarvis;
pub(super) mod kiwi;
pub(super) mod powerspawn;
pub(super) mod sub_agents;
