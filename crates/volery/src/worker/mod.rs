//! Carries out one run: what is seen comes in, the pure machine decides, the effects go out. The only writer of
//! the run's events while it lives.

mod acceptance;
mod actions;
mod agent;
mod attempts;
mod audience;
mod begin;
mod calls;
mod changes;
mod conclude;
mod contained;
mod denials;
mod desk;
mod ground;
mod isolation;
mod leftovers;
mod output;
mod peers;
mod permission_question;
mod pricing;
mod questions;
mod session;
mod shape;
mod submission;
mod talk;
mod temporary;
mod tree;
mod visible;

pub use begin::masked;
pub use conclude::{end_lost, finish_unstarted, writes_for_people};
pub use desk::{Assignment, EXIT_BUG, EXIT_STORAGE, carry_out};
