//! opencode edits only within its work tree: neither through links that lead out of it nor in `.git`.

use std::fs;
use std::os::unix::fs::symlink;

use fake_llm::ScriptedReply;
use serde_json::json;

use super::cases::beyond_every_sandbox;
use super::vendor_env::{Vendor, VendorEnv};

#[test]
fn opencode_edits_neither_through_links_nor_within_git() {
    let vendor = Vendor::new("opencode");
    for is_repository in [true, false] {
        let Some(vendor_env) = VendorEnv::make(&vendor, "edits within the tree", Vec::new()) else { return };
        let project = vendor_env.env.project();
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
        vendor_env.offline.server().add(writes.chain([ScriptedReply::say("One was allowed.")]));
        vendor_env.agent(&vendor, "permission: safe-edit\ntimeout: 100s");
        let run = vendor_env.volery(&["run", "worker", "Write some files.", "--json"]).json();
        assert_eq!(run["status"], json!("succeeded"), "{run}");
        assert!(inside.exists(), "{run}");
        for file in &denied {
            assert!(!file.exists(), "{}: {run}", file.display());
        }
    }
}
