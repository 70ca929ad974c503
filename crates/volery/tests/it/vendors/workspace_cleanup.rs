//! Volery removes what a killed sandbox leaves in the directory, and keeps what was there before. A program that may be
//! writing its user's settings is not killed while it exits.

use std::fs;

use fake_llm::ScriptedReply;
use serde_json::json;

use super::vendor_env::{PATIENCE, Vendor, VendorEnv};
use crate::test_env::wait_for;

const CODEX: Vendor = Vendor::new("codex");

#[test]
fn empty_folders_of_codex_are_removed_and_others_stay() {
    let Some(vendor_env) = VendorEnv::make(&CODEX, "leftovers", Vec::new()) else { return };
    let project = vendor_env.env.project();
    fs::create_dir(project.join(".aws")).unwrap();
    vendor_env.offline.server().add([CODEX.executes("mkdir -p .agents/kept; touch started; sleep 600")]);
    vendor_env.agent(&CODEX, "timeout: 100s\npermission: safe-edit\ngrace: 1s");
    let run = vendor_env.volery(&["run", "worker", "Sleep.", "--background"]).ok().stdout.trim().to_owned();
    wait_for(PATIENCE, "the command, or a refusal", || {
        let ended = vendor_env.env.events(&run).iter().any(|event| event["type"] == json!("ended"));
        (project.join("started").exists() || ended).then_some(())
    });
    let _ = vendor_env.volery(&["cancel", &run]);
    wait_for(PATIENCE, "the end", || {
        vendor_env.env.events(&run).into_iter().find(|event| event["type"] == json!("ended"))
    });
    for folder in [".git", ".codex"] {
        assert!(!project.join(folder).exists(), "{folder} is left");
    }
    assert!(project.join(".aws").exists(), "what was there before stays");
}

#[test]
fn claude_is_not_killed_after_its_adapter_exits() {
    let vendor = Vendor::new("acp-claude");
    let Some(vendor_env) = VendorEnv::make(&vendor, "leaves", vec![ScriptedReply::say("Hello.").always()])
    else {
        return;
    };
    vendor_env.agent(&vendor, "timeout: 100s");
    let run = vendor_env.run("Say hello.", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    let events = vendor_env.env.events(run["run_id"].as_str().unwrap());
    let ended = events.iter().find(|event| event["type"] == json!("ended")).unwrap();
    assert_eq!(ended["ending"]["killed"], json!(0), "{ended}");
}
