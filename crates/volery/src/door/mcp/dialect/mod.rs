//! The dialects: each has the tool names and shapes of one system that this server can stand in for, and translates them
//! to requests of the app and its answers back. What they have in common is here; none has logic of its own.

mod budgie;
mod codex;
mod contract;
mod delegate;
mod ignored;
mod inheritance;
mod jarvis;
mod per_agent;
mod powerspawn;
mod reason;
mod sub_agents;
mod surface;
mod twice;
mod volery;

pub(crate) use budgie::Flags as BudgieFlags;
pub(crate) use jarvis::kept_session as kept_by_jarvis;
pub(crate) use powerspawn::find_version as find_powerspawn_version;
pub(crate) use sub_agents::{check as check_sub_agents, is_session as is_sub_agents_session};
pub(crate) use surface::{NativeTools, Surface, announcements, open};

use std::io::Write;

use contract::{Dialect, Resources};
use delegate::{Delegated, Unanswered, delegate};
use domain::diagnostic::Diagnostic;
use inheritance::Inheritance;

/// Tells whoever started the server what is wrong with the agents' files.
fn complain(diagnostics: &[Diagnostic]) {
    let mut stderr = std::io::stderr().lock();
    for diagnostic in diagnostics {
        // Nobody reads what cannot be written.
        let _ = writeln!(stderr, "{diagnostic}");
    }
}
