//! All backends. A new one is a folder, and a line here.

use crate::command::Command;
use crate::contract::Backend;
use crate::rehearsal::Rehearsal;

static ALL: [&dyn Backend; 2] = [&Command, &Rehearsal];

/// Returns the backend that understands runs of this kind.
pub fn by_kind(kind: &str) -> Option<&'static dyn Backend> {
    ALL.iter().copied().find(|backend| backend.kind() == kind)
}

/// Returns the names that a configuration cannot define anew: every backend that needs no configuration.
pub fn built_in() -> Vec<&'static str> {
    ALL.iter().map(|backend| backend.kind()).filter(|kind| *kind != Command.kind()).collect()
}
