//! Launches: the keeper of an admitted run, and the agent's process of an attempt.

pub(crate) mod agent_process;
pub(crate) mod git_environment;
pub(crate) mod launch_plan;
mod start_keeper;
pub(crate) mod temp_dir;

pub(crate) use start_keeper::{CHANNEL_FD, LOCK_FD, OnRecorded, reuse_run};
