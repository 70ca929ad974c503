//! Whether agents can be put into containers here.

use std::path::PathBuf;

use super::AppError;
use crate::{clock, env};

/// Returns the command that makes containers, tried out; or an error that says what is wrong with each.
pub fn find_container_engine(wanted_by: &str) -> Result<PathBuf, AppError> {
    backend::container::find_engine(&env::for_containers(), clock::new_tag()).map_err(|reasons| {
        let message = format!("{wanted_by} needs docker or podman: {}", reasons.join("; "));
        AppError::usage(message).hint(format!("start the daemon, or leave out {wanted_by}"))
    })
}
