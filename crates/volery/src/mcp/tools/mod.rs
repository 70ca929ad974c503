//! The native tools. One file per tool: its input, documented for the model, its output, and its call.
//!
//! `catalog` lists and dispatches them, `schema` makes their schemas portable, `arguments` validates inputs, and
//! `run_report` renders a run for a model.

mod arguments;
mod catalog;
mod returned_results;
mod run_report;
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

pub(super) use catalog::{call, list};
pub(super) use returned_results::ReturnedResults;
pub(super) use run_agent::apply_cancel;
pub(super) use run_report::{RunReport, fit, fit_tail, is_failure};
