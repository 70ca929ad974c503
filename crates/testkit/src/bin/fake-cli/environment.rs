//! The environment of a fake program: its user's home, the address of its model, and the failure to simulate.

use std::fs;
use std::path::PathBuf;

/// The folder with the settings of the fake programs, which no vendor uses.
const SETTINGS_DIR: &str = ".fake-cli";

#[expect(clippy::disallowed_methods, reason = "a vendor's program reads its own environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(crate) fn home() -> PathBuf {
    variable("HOME").unwrap_or_default().into()
}

/// Returns the address of the model: host and port.
pub(crate) fn model_address() -> String {
    let text = fs::read_to_string(home().join(SETTINGS_DIR).join("model")).unwrap_or_default();
    text.trim().trim_start_matches("http://").to_owned()
}

/// Returns whether the program must simulate this failure.
pub(crate) fn should_fail(how: &str) -> bool {
    fs::read_to_string(home().join(SETTINGS_DIR).join("fails")).is_ok_and(|mode| mode.trim() == how)
}

/// Blocks forever, like a program that waits for an answer that never comes.
pub(crate) fn wait_forever() -> ! {
    loop {
        std::thread::park();
    }
}
