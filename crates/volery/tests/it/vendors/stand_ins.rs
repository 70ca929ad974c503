//! Programs that no registry offers are stood in for by ours, which follow their documented interfaces: where they come
//! from, and what they need in a place.

use std::fs;
use std::path::Path;

/// A vendor whose program is stood in for.
pub(super) struct StandIn {
    /// The name of the backend.
    pub(super) backend: &'static str,
    /// The name on the search path.
    pub(super) program: &'static str,
    /// The variable of its key, which it demands.
    key: &'static str,
    /// Where it keeps its state below its user's home.
    pub(super) state: &'static [&'static str],
}

/// What all of them need, beside their own state.
const OWN: &str = ".stand-in";

const ALL: [StandIn; 3] = [
    StandIn { backend: "cursor", program: "cursor-agent", key: "CURSOR_API_KEY", state: &[".cursor", OWN] },
    StandIn {
        backend: "kiro",
        program: "kiro-cli",
        key: "KIRO_API_KEY",
        state: &[".kiro", ".local/share/kiro-cli", OWN],
    },
    StandIn { backend: "grok", program: "grok", key: "XAI_API_KEY", state: &[".grok", OWN] },
];

pub(super) fn stand_in(backend: &str) -> Option<&'static StandIn> {
    let vendor = backend.strip_prefix("acp-").unwrap_or(backend);
    ALL.iter().find(|known| known.backend == vendor)
}

impl StandIn {
    /// Puts the program into a folder of the search path, points it at the model, and returns the variables it needs.
    pub(super) fn furnish(&self, bin: &Path, home: &Path, url: &str) -> Vec<(String, String)> {
        let built = Path::new(env!("CARGO_BIN_EXE_volery")).with_file_name("stand-in");
        assert!(built.exists(), "build it first: cargo build -p fake-agent");
        let named = bin.join(self.program);
        // It goes by its name, so that a symbolic link, which is followed to its end, will not do.
        fs::hard_link(&built, &named).or_else(|_| fs::copy(&built, &named).map(|_| ())).unwrap();
        fs::create_dir_all(home.join(OWN)).unwrap();
        fs::write(home.join(OWN).join("model"), url).unwrap();
        vec![(self.key.to_owned(), "dummy".to_owned())]
    }

    /// Makes it fail in one of the ways that its vendor's program is known for.
    pub(super) fn fail(home: &Path, how: &str) {
        fs::write(home.join(OWN).join("fails"), how).unwrap();
    }
}
