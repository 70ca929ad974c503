//! Fake CLIs for programs that no registry offers. They follow the documented interfaces.

use std::fs;
use std::path::Path;

use super::test_facts::{FakeCliFacts, TestFacts};

/// A vendor whose program is replaced by a fake CLI.
pub(super) struct FakeCli {
    cli_facts: FakeCliFacts,
}

/// The folder of the fake CLIs below the home of their user.
pub(super) const FAKE_CLI_FOLDER: &str = ".fake-cli";

pub(super) fn find_fake_cli(backend: &str) -> Option<FakeCli> {
    // An adapter is a program of its own, and none of them is fake.
    let is_vendor = backends::registry::vendor_for_backend(backend).is_some();
    let facts = is_vendor.then(|| TestFacts::read(backend)).and_then(|facts| facts.fake_cli);
    facts.map(|facts| FakeCli { cli_facts: facts })
}

impl FakeCli {
    /// Returns the name on the search path.
    pub(super) fn program(&self) -> &str {
        &self.cli_facts.program
    }

    /// Puts the program into a folder of the search path, points it at the model, and returns the variables it needs.
    pub(super) fn install(&self, bin: &Path, home: &Path, url: &str) -> Vec<(String, String)> {
        let built = Path::new(env!("CARGO_BIN_EXE_volery")).with_file_name("fake-cli");
        assert!(built.exists(), "build it first: cargo build -p fake-agent");
        let installed = bin.join(&self.cli_facts.program);
        // The program looks at its own name, and a symbolic link would be resolved to the original name.
        fs::hard_link(&built, &installed).or_else(|_| fs::copy(&built, &installed).map(|_| ())).unwrap();
        fs::create_dir_all(home.join(FAKE_CLI_FOLDER)).unwrap();
        fs::write(home.join(FAKE_CLI_FOLDER).join("model"), url).unwrap();
        vec![(self.cli_facts.key.clone(), "dummy".to_owned())]
    }

    /// Makes it fail in one of the ways that its vendor's program is known for.
    pub(super) fn fail(home: &Path, how: &str) {
        fs::write(home.join(FAKE_CLI_FOLDER).join("fails"), how).unwrap();
    }
}
