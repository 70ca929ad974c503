//! Agents are found only at the path and in the version of the manifest.

use std::path::Path;

use super::{InstalledCli, InstalledCliError, find_in};

const MANIFEST: &str = "# name package with runs program\n\
    node  a-node@24.1.0       required  native            bin/node\n\
    one   @scope/one@1.2.3-x  required  native            bin/one\n\
    two   two@2.0.0           all       node,--expose-gc  cli.js\n";

fn install(folder: &Path, name: &str, file: &str, stamp: &str) {
    let path = folder.join(name).join("node_modules").join(file);
    std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders can be made");
    std::fs::write(path, "").expect("files can be written");
    std::fs::write(folder.join(name).join("stamp"), stamp).expect("files can be written");
}

#[test]
fn a_program_is_found_with_its_interpreter() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = |file: &str| folder.path().join(file).display().to_string();
    install(folder.path(), "node", "a-node/bin/node", "a-node@24.1.0 required\n");
    install(folder.path(), "one", "@scope/one/bin/one", "@scope/one@1.2.3-x required\n");
    install(folder.path(), "two", "two/cli.js", "two@2.0.0 all\n");
    let one = InstalledCli {
        name: "one".to_owned(),
        version: "1.2.3-x".to_owned(),
        argv: vec![path("one/node_modules/@scope/one/bin/one")],
    };
    assert_eq!(find_in(MANIFEST, folder.path(), "one"), Ok(one));
    let two = InstalledCli {
        name: "two".to_owned(),
        version: "2.0.0".to_owned(),
        argv: vec![
            path("node/node_modules/a-node/bin/node"),
            "--expose-gc".to_owned(),
            path("two/node_modules/two/cli.js"),
        ],
    };
    assert_eq!(find_in(MANIFEST, folder.path(), "two"), Ok(two));
}

#[test]
fn another_version_or_a_missing_interpreter_is_not_installed() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    install(folder.path(), "one", "@scope/one/bin/one", "@scope/one@1.2.2 required\n");
    install(folder.path(), "two", "two/cli.js", "two@2.0.0 all\n");
    for (name, version) in [("one", "1.2.3-x"), ("two", "2.0.0"), ("node", "24.1.0")] {
        let expected = InstalledCliError::NotInstalled { name: name.to_owned(), version: version.to_owned() };
        assert_eq!(find_in(MANIFEST, folder.path(), name), Err(expected));
    }
    let unknown = InstalledCliError::Unknown("three".to_owned());
    assert_eq!(find_in(MANIFEST, folder.path(), "three"), Err(unknown));
}

#[test]
fn the_manifest_lists_every_agent_that_the_tests_run() {
    let agents = ["claude", "codex", "gemini", "copilot", "qwen", "opencode", "goose", "kimi"];
    for name in agents.into_iter().chain(["claude-agent-acp", "codex-acp"]) {
        assert_ne!(InstalledCli::find(name), Err(InstalledCliError::Unknown(name.to_owned())));
    }
}
