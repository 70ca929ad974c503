//! Values into text for people: tables, pages and live frames. Pure: no clock, no terminal, no printing.

mod administration;
mod agent_page;
mod agents;
mod caller_name;
mod denials;
mod doctor;
mod events;
mod health;
mod number_format;
mod open_questions;
mod page;
mod prices;
mod progress_frame;
mod prompt_excerpt;
mod run_page;
mod run_table;
mod settings;
mod step_lines;
mod step_text;
mod table;
mod text;
mod text_style;
mod transcript;

pub(crate) use administration::{clean_report, reindex_report, token_list, trust_list, trust_page};
pub(crate) use agent_page::agent_page;
pub(crate) use agents::{agents, diagnostics, first_names, grouped_diagnostics, problems};
pub(crate) use denials::denial_lines;
pub(crate) use doctor::{Check, Grade, doctor};
pub(crate) use events::event_line;
pub(crate) use health::health;
pub(crate) use number_format::{count, money, span};
pub(crate) use open_questions::{distinct_questions, question_lines, question_sentence};
pub(crate) use page::details_page;
pub(crate) use prices::prices;
pub(crate) use progress_frame::{LiveRow, frame};
pub(crate) use run_page::{damage_warning, run_page, summary};
pub(crate) use run_table::{run_table, runs_in_order, view_table};
pub(crate) use settings::{config_files, settings};
pub(crate) use step_lines::{StepLine, StepLines, warning};
pub(crate) use table::{Cell, Column, Table};
pub(crate) use text::{INDENT, fit, one_line, sanitize_for_terminal, width, with_tilde, wrap, wrap_hanging};
pub(crate) use text_style::{ColorMode, TextStyle, Tone};
pub(crate) use transcript::Transcript;

#[cfg(test)]
mod tests;
