//! The dialects: each has the tool names and formats of one system that this server can replace, and translates its calls
//! to requests to the engine and the answers back. Shared code is here; none has business logic of its own.

mod budgie;
mod codex;
mod delegate;
mod dual_content;
mod failure_reason;
mod ignored_arguments;
mod inheritance;
mod jarvis;
mod per_agent;
mod powerspawn;
mod sub_agents;
mod tool_registry;
mod traits;
mod volery;

pub(crate) use budgie::Flags as BudgieFlags;
pub(crate) use jarvis::stored_session as stored_jarvis_session;
pub(crate) use powerspawn::find_version as find_powerspawn_version;
pub(crate) use sub_agents::{check as check_sub_agents, is_session as is_sub_agents_session};
pub(crate) use tool_registry::{NativeTools, ToolRegistry, announcements, open_tool_registry};

use std::io::Write;

use delegate::{Delegated, UnansweredRuns, delegate};
use domain::diagnostic::Diagnostic;
use inheritance::Inheritance;
use traits::{DialectResources, ToolDialect};

/// Prints the problems of agents' files to standard error.
fn print_diagnostics(diagnostics: &[Diagnostic]) {
    let mut stderr = std::io::stderr().lock();
    for diagnostic in diagnostics {
        // If standard error is closed, nobody reads it.
        let _ = writeln!(stderr, "{diagnostic}");
    }
}
