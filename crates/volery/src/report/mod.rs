//! Values into text for people: tables, pages and live frames. Pure: no clock, no terminal, no printing.

mod agent_page;
mod agents;
mod doctor;
mod events;
mod figures;
mod health;
pub(crate) mod iac;
mod live;
mod look;
mod page;
mod run_page;
mod run_table;
mod settings;
mod table;
mod text;
mod upkeep;

pub(crate) use agent_page::agent_page;
pub(crate) use agents::{agents, diagnostics, grouped_diagnostics, problems, some_of};
pub(crate) use doctor::{Check, Grade, doctor};
pub(crate) use events::event_line;
pub(crate) use figures::{count, money, span};
pub(crate) use health::health;
pub(crate) use live::{LiveRow, frame};
pub(crate) use look::{Look, Paint, Tone};
pub(crate) use page::facts;
pub(crate) use run_page::{damage, denials, run_page, summary};
pub(crate) use run_table::{run_table, runs_in_order, view_table};
pub(crate) use settings::{config_files, settings};
pub(crate) use table::{Cell, Column, Table};
pub(crate) use text::{neutralise, one_line, width, with_tilde, wrap, wrap_after};
pub(crate) use upkeep::{cleaned, reindexed, token_list, trust_list, trust_page};

#[cfg(test)]
mod tests;
