//! What opencode may edit is in its work tree: neither behind a link that leads out of it, nor what git keeps for itself.

use std::fs;
use std::os::unix::fs::symlink;

use model_server::Reply;
use serde_json::json;

use super::cases::beyond_every_sandbox;
use super::place::{Place, Vendor};

#[test]
fn opencode_edits_neither_through_links_nor_within_git() {
    let vendor = Vendor::named("opencode");
    for is_repository in [true, false] {
        let Some(place) = Place::make(&vendor, "edits within the tree", Vec::new()) else { return };
        let project = place.stage.project();
        let outside = beyond_every_sandbox();
        symlink(outside.path(), project.join("out")).unwrap();
        fs::create_dir_all(project.join("part/.git")).unwrap();
        if is_repository {
            let made = std::process::Command::new("git").args(["init", "-q"]).arg(&project).status().unwrap();
            assert!(made.success());
        }
        let denied = ["out/made.txt", "part/.git/made.txt", ".git/made.txt"].map(|name| project.join(name));
        let inside = project.join("part/made.txt");
        let writes = denied.iter().chain([&inside]).map(|file| vendor.writes(file, "egg"));
        place.offline.server().add(writes.chain([Reply::say("One was allowed.")]));
        place.agent(&vendor, "permission: safe-edit\ntimeout: 100s");
        let run = place.volery(&["run", "worker", "Write some files.", "--json"]).json();
        assert_eq!(run["status"], json!("succeeded"), "{run}");
        assert!(inside.exists(), "{run}");
        for file in &denied {
            assert!(!file.exists(), "{}: {run}", file.display());
        }
    }
}
