//! The door against a scripted engine, line by line as a client sees it. Each file is named for what it shows.

pub(super) mod scripted;
pub(super) mod session;

mod answers_every_line;
mod cancels_wait_or_run;
mod follows_the_protocol;
mod hands_over_in_time;
mod leaves_at_once;
mod offers_tasks;
mod offers_tools;
mod puts_questions_to_people;
mod reads_resources;
mod survives_pitfalls;
