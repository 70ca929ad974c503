//! The output for users: the diff of every client, and the outcomes of files, as snapshots.

use std::path::{Path, PathBuf};

use super::super::super::output::{Out, OutputFormat, StreamProperties};
use super::super::file_report::print_files;
use super::super::user_scope_only_report;
use super::files::{InitOptions, TestHome};
use backends::client_setup::ConfigScope;
use backends::clients;

#[test]
fn the_difference_for_every_client_is_as_it_was_reviewed() {
    let mut output = String::new();
    for (scope, name) in [(ConfigScope::Project, "project"), (ConfigScope::User, "user")] {
        for client in clients::setups().filter(|client| client.supports(scope)) {
            let home = TestHome::new();
            home.write(
                "project/.mcp.json",
                "{\n  \"mcpServers\": {\n    \"other\": {\"command\": \"o\"}\n  }\n}\n",
            );
            home.write(
                "home/.codex/config.toml",
                "# mine\nmodel = \"m\"\n\n[mcp_servers.other]\ncommand = \"o\"\n",
            );
            home.write(
                "home/.config/goose/config.yaml",
                "# mine\nGOOSE_MODEL: m # this one\nextensions:\n  other:\n    cmd: o\n\n# the rest\nGOOSE_MODE: auto\n",
            );
            home.write(
                "home/.config/zed/settings.json",
                "// Zed settings\n{\n  \"vim_mode\": true, // yes\n}\n",
            );
            home.write("project/opencode.jsonc", "{\n  // mine\n  \"model\": \"m\" // this one\n}\n");
            output.push_str(&format!("# {} ({name})\n", client.name));
            for file in home.init(client.name, scope) {
                output.push_str(&file.diff.replace(home.path("").to_str().unwrap(), "/"));
            }
        }
    }
    insta::assert_snapshot!(output);
}

/// The outcomes of files on a terminal of 80 columns.
#[test]
fn what_became_of_files_fits_a_terminal() {
    let home = TestHome::new();
    home.write("project/.cursor/mcp.json", "{,}");
    home.write("home/.config/goose/config.yaml", "extensions: {a: {cmd: x}}\n");
    let cline = clients::setup_by_name("cline").unwrap();
    let mut files = home.init("cursor", ConfigScope::Project);
    files.extend(home.init("goose", ConfigScope::User));
    files.extend(home.init("kimi", ConfigScope::Project));
    files.extend(home.undo("kimi", ConfigScope::Project));
    files.extend(
        home.act("cline", ConfigScope::User, InitOptions { dry_run: true, ..InitOptions::default() })
            .iter()
            .map(|file| user_scope_only_report(cline, &file.path)),
    );
    // Line breaks must not depend on the path of the temporary directory.
    let real = home.path("").to_str().unwrap().to_owned();
    for file in &mut files {
        file.path = PathBuf::from(file.path.to_str().unwrap().replace(&real, "/somewhere/"));
        file.diff = file.diff.replace(&real, "/somewhere/");
    }
    let stream = StreamProperties { terminal: true, width: Some(80), ..StreamProperties::PIPE };
    let (mut out, captured) = Out::captured(OutputFormat::Text, stream);
    print_files(&files, Path::new("/somewhere/project"), &mut out).unwrap();
    out.flush().unwrap();
    // A path cannot be wrapped.
    let long = |line: &String| line.chars().count() > 80 && line.trim().contains(' ');
    let output = captured.data();
    assert_eq!(output.lines().map(str::to_owned).find(long), None);
    insta::assert_snapshot!(output);
}
