//! Where a stand-in finds what it needs: its user's home, the address of its model, and how it shall fail.

use std::fs;
use std::path::PathBuf;

/// The folder of what is no vendor's.
const OWN: &str = ".stand-in";

#[expect(clippy::disallowed_methods, reason = "a vendor's program reads its own environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub(crate) fn home() -> PathBuf {
    variable("HOME").unwrap_or_default().into()
}

/// Returns the address of the model: host and port.
pub(crate) fn model() -> String {
    let text = fs::read_to_string(home().join(OWN).join("model")).unwrap_or_default();
    text.trim().trim_start_matches("http://").to_owned()
}

/// Tells whether it shall fail in this way.
pub(crate) fn fails(how: &str) -> bool {
    fs::read_to_string(home().join(OWN).join("fails")).is_ok_and(|word| word.trim() == how)
}

/// Waits for ever, as somebody does whom nobody answers.
pub(crate) fn wait_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}
