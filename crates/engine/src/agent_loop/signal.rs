//! What the tasks of a loop report to its driver.

use std::time::Duration;

use super::command::CommandEnd;
use super::tools::{ToolError, ToolOutput};

/// A report of a task.
#[derive(Debug)]
pub(crate) enum LoopSignal {
    /// Output of the process that calls the model.
    ModelOutput(Vec<u8>),
    /// The error stream of that process.
    ModelErrors(Vec<u8>),
    /// That process has closed its output.
    ModelClosed,
    FileEnded {
        call: u32,
        result: Result<ToolOutput, ToolError>,
    },
    /// The program of a command has ended; its output may not be read yet.
    CommandExited {
        call: u32,
    },
    CommandTimedOut {
        call: u32,
        after: Duration,
    },
    CommandEnded {
        call: u32,
        end: CommandEnd,
    },
    /// The time for ordinary calls is over.
    OutOfTime,
}
