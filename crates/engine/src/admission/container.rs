//! Finds the container engine.

use std::path::PathBuf;

use crate::api::EngineError;
use crate::clock;
use crate::env;

/// Returns the command that makes containers, after a test; or an error that says what is wrong with each candidate.
pub fn find_container_engine(wanted_by: &str) -> Result<PathBuf, EngineError> {
    crate::programs::container_engine::find_engine(&env::for_containers(), clock::new_tag()).map_err(
        |reasons| {
            let message = format!("{wanted_by} needs docker or podman: {}", reasons.join("; "));
            EngineError::usage(message).hint(format!("start the daemon, or leave out {wanted_by}"))
        },
    )
}
