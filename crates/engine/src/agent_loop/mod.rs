//! The loop of a directive: a model asks for calls, and Volery carries them out. The machine of `domain` decides what
//! comes next; this is the part that acts.

mod bounded_output;
mod command;
mod command_grant;
mod driver;
mod file_jobs;
mod host;
mod model_process;
mod process_starter;
mod signal;
mod tool_runner;
pub(crate) mod tools;

pub(crate) use command_grant::{CommandGrant, GrantContext, command_grant};
pub(crate) use driver::{DriverSetup, LoopDriver};
pub(crate) use file_jobs::{FileJobs, visibility};
pub(crate) use host::LoopHost;
pub(crate) use process_starter::{CommandRequest, ProcessStarter, start_command};
pub(crate) use signal::LoopSignal;
pub(crate) use tool_runner::{ToolRules, ToolRunner};
