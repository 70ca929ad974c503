//! The container of a run's agent: it goes with the attempt that it was made for, whoever ends that.

use backend::container;
use domain::launch::Launch;
use domain::run::RunSpec;

use super::desk::Desk;

impl Desk {
    /// Removes the container of the attempt, if it has one.
    pub(super) fn leave_container(&mut self) {
        if Launch::of(&self.spec.backend.options).container.is_some() {
            self.extend_deadline(container::REMOVE_MAX);
            remove(&self.spec);
        }
    }
}

/// Removes the container of a run, if it has one.
pub(super) fn remove(spec: &RunSpec) {
    container::remove(spec, &crate::env::for_containers());
}
