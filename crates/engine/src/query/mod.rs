//! Answers questions about runs and agents, from the journal, the index and the definitions on disk.

mod agent_page;
mod answer_check;
mod iac_entries;
mod list_agents;
mod open_questions;
mod read_events;
mod run_metrics;
pub(crate) mod run_queries;
mod runs;
mod wait;

pub use iac_entries::{CheckKeyFile, GetIacEntry, ListIacEntries};
pub use list_agents::ReadFolderAgents;
pub use run_metrics::{AgentMetrics, GetRunMetrics, RunMetrics};
pub(crate) use runs::ended_view;
