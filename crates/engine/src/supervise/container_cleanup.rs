//! Removes the container of an attempt when the attempt ends.

use domain::launch::LaunchOverrides;
use domain::run::RunSpec;

use super::supervisor::RunSupervisor;
use crate::programs::container_engine;

impl RunSupervisor {
    /// Removes the container of the attempt, if it has one.
    pub(super) fn remove_container(&mut self) {
        if LaunchOverrides::from_options(&self.spec.backend.options).container.is_some() {
            self.extend_deadline(container_engine::REMOVE_MAX);
            remove(&self.spec);
        }
    }
}

/// Removes the container of a run, if it has one.
pub(super) fn remove(spec: &RunSpec) {
    container_engine::remove(spec, &crate::env::for_containers());
}
