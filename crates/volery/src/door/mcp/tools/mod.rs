//! The native tools. One file per tool: its input, written for the model that reads it, its output, and its call.
//!
//! `catalogue` offers and dispatches them, `schema` makes their schemas portable, `arguments` says what is wrong
//! with an input, and `report` renders a run for a model.

mod arguments;
mod catalogue;
mod report;
mod schema;

mod answer_run;
mod cancel_run;
mod changed_files;
mod get_run;
mod health;
mod list_agents;
mod list_runs;
mod run_agent;
mod run_agents;
mod wait_runs;

pub(super) use catalogue::{call, list};
pub(super) use report::{RunReport, fit, fit_tail, is_failure};
pub(super) use run_agent::obey_cancel;
