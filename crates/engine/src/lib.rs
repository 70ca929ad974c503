//! RUNS agents: admits, starts, supervises, recovers and queries runs. Knows no user interface: the command line and the MCP
//! server talk to it through `EngineHandle`.

mod admin;
mod admission;
mod agent_loop;
mod api;
mod ask;
pub mod clock;
pub mod current_exe;
mod engine;
pub mod env;
mod error_chain;
pub mod failpoint;
mod handle;
mod iac;
mod index_connection;
mod ipc;
pub mod key_file;
mod launch;
mod programs;
mod query;
mod recover;
pub mod registry;
mod relayed_requests;
mod run_access;
mod slot_count;
mod supervise;
pub mod unattended;
mod wait_readable;

pub use admin::*;
pub use admission::{check_installed, config_section, find_container_engine, without_agent_name};
pub use api::*;
pub use ask::{AnyAnswer, AnyRequest, Ask, EngineApi, EngineFuture, OnProgress};
pub use engine::{CallerContext, Engine};
pub use handle::EngineHandle;
pub use iac::{Excerpt, IacEntry};
pub use ipc::relay::Relay;
pub use journal::LogCursor;
pub use programs::{LoginStatus, unset_key_variables, vendor_programs};
pub use query::{
    AgentMetrics, CheckKeyFile, GetIacEntry, GetRunMetrics, ListIacEntries, ReadFolderAgents, RunMetrics,
};
pub use registry::{AgentFolder, KiroPrompts};
pub use supervise::keeper_main;
