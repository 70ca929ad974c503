//! Where the programs of vendors are, for this user.

use backend::program::{Found, Program};
use domain::launch::Launch;

use crate::env;

/// Finds what a run starts: what its launch names, else the program where its user's variable says it is, else on the
/// search path.
pub fn find(program: &Program, launch: &Launch) -> Option<Found> {
    let path = env::get("PATH").unwrap_or_default();
    match (&launch.container, &launch.program) {
        (None, None) => program.find_for(&path, &env::get),
        (Some(_), _) | (_, Some(_)) => program.find_as(launch, &path),
    }
}
