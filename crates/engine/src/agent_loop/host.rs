//! What the driver of a loop needs from the run that it belongs to. Everything else is the driver's own.

use domain::run::{Event, RunState};
use journal::StoreError;

/// The run of a loop.
pub(crate) trait LoopHost {
    /// Appends an event to the log and applies it to the state.
    fn append(&mut self, event: Event) -> Result<(), StoreError>;

    /// Makes the log durable.
    fn sync(&mut self) -> Result<(), StoreError>;

    fn state(&self) -> &RunState;

    /// Sets the current step, for people who watch the run.
    fn set_activity(&mut self, activity: String);

    /// Shows text of the model, for people who watch the run.
    fn push_text(&mut self, text: &str);
}
