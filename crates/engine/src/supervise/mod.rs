//! Carries out one run: events come in, the pure supervision machine decides, and the supervisor performs its
//! effects. The only writer of the run's events while it lives.

mod acceptance;
mod agent_io;
mod agent_loop;
mod approvals;
mod attempts;
mod children;
mod container_cleanup;
mod denials;
mod file_changes;
mod finish;
mod keeper;
mod launch;
mod loop_calls;
mod output;
mod output_validation;
mod permission_question;
mod pricing;
mod process_tree;
mod questions;
mod resolved_path;
mod run_ending;
mod session;
mod socket_connections;
mod submission;
mod subscribers;
mod supervisor;
mod workspace_cleanup;
mod worktree;

pub use keeper::main as keeper_main;
pub(crate) use run_ending::end_lost_run;
