//! What people see before they agree: the diff of every client, as a snapshot.

use std::path::{Path, PathBuf};

use super::super::super::out::{Format, Medium, Out};
use super::super::client::{CLIENTS, Scope, named};
use super::super::for_every_project;
use super::super::report::tell_files;
use super::files::{How, Place};

#[test]
fn the_difference_for_every_client_is_as_it_was_reviewed() {
    let mut shown = String::new();
    for (scope, name) in [(Scope::Project, "project"), (Scope::User, "user")] {
        for client in CLIENTS.into_iter().filter(|client| client.fits(scope)) {
            let place = Place::new();
            place.write(
                "project/.mcp.json",
                "{\n  \"mcpServers\": {\n    \"other\": {\"command\": \"o\"}\n  }\n}\n",
            );
            place.write(
                "home/.codex/config.toml",
                "# mine\nmodel = \"m\"\n\n[mcp_servers.other]\ncommand = \"o\"\n",
            );
            place.write(
                "home/.config/goose/config.yaml",
                "# mine\nGOOSE_MODEL: m # this one\nextensions:\n  other:\n    cmd: o\n\n# the rest\nGOOSE_MODE: auto\n",
            );
            place.write(
                "home/.config/zed/settings.json",
                "// Zed settings\n{\n  \"vim_mode\": true, // yes\n}\n",
            );
            place.write("project/opencode.jsonc", "{\n  // mine\n  \"model\": \"m\" // this one\n}\n");
            shown.push_str(&format!("# {} ({name})\n", client.name));
            for file in place.init(client.name, scope) {
                shown.push_str(&file.diff.replace(place.path("").to_str().unwrap(), "/"));
            }
        }
    }
    insta::assert_snapshot!(shown);
}

/// What became of files, on a terminal of 80 columns.
#[test]
fn what_became_of_files_fits_a_terminal() {
    let place = Place::new();
    place.write("project/.cursor/mcp.json", "{,}");
    place.write("home/.config/goose/config.yaml", "extensions: {a: {cmd: x}}\n");
    let cline = named("cline").unwrap();
    let mut files = place.init("cursor", Scope::Project);
    files.extend(place.init("goose", Scope::User));
    files.extend(place.init("kimi", Scope::Project));
    files.extend(place.undo("kimi", Scope::Project));
    files.extend(
        place
            .act("cline", Scope::User, How { dry_run: true, ..How::default() })
            .iter()
            .map(|file| for_every_project(cline, &file.path)),
    );
    // Where lines break must not depend on where the test runs.
    let real = place.path("").to_str().unwrap().to_owned();
    for file in &mut files {
        file.path = PathBuf::from(file.path.to_str().unwrap().replace(&real, "/somewhere/"));
        file.diff = file.diff.replace(&real, "/somewhere/");
    }
    let medium = Medium { terminal: true, width: Some(80), ..Medium::PIPE };
    let (mut out, captured) = Out::captured(Format::Text, medium);
    tell_files(&files, Path::new("/somewhere/project"), &mut out).unwrap();
    out.flush().unwrap();
    // A path has no place to break.
    let long = |line: &String| line.chars().count() > 80 && line.trim().contains(' ');
    let shown = captured.data();
    assert_eq!(shown.lines().map(str::to_owned).find(long), None);
    insta::assert_snapshot!(shown);
}
