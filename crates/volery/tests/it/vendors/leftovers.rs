//! What a killed sandbox leaves in the directory is gone after the run; what was there before stays. A program that may
//! be writing its user's settings is not killed while it leaves.

use std::fs;

use model_server::Reply;
use serde_json::json;

use super::place::{PATIENCE, Place, Vendor};
use crate::stage::wait_for;

const CODEX: Vendor = Vendor::named("codex");

#[test]
fn empty_folders_of_codex_are_removed_and_others_stay() {
    let Some(place) = Place::make(&CODEX, "leftovers", Vec::new()) else { return };
    let project = place.stage.project();
    fs::create_dir(project.join(".aws")).unwrap();
    place.offline.server().add([CODEX.executes("mkdir -p .agents/kept; touch started; sleep 600")]);
    place.agent(&CODEX, "timeout: 100s\npermission: safe-edit\ngrace: 1s");
    let run = place.volery(&["run", "worker", "Sleep.", "--background"]).ok().stdout.trim().to_owned();
    wait_for(PATIENCE, "the command, or a refusal", || {
        let ended = place.stage.events(&run).iter().any(|event| event["type"] == json!("ended"));
        (project.join("started").exists() || ended).then_some(())
    });
    let _ = place.volery(&["cancel", &run]);
    wait_for(PATIENCE, "the end", || {
        place.stage.events(&run).into_iter().find(|event| event["type"] == json!("ended"))
    });
    for folder in [".git", ".codex"] {
        assert!(!project.join(folder).exists(), "{folder} is left");
    }
    assert!(project.join(".aws").exists(), "what was there before stays");
}

#[test]
fn claude_is_let_go_when_its_adapter_has_left() {
    let vendor = Vendor::named("acp-claude");
    let Some(place) = Place::make(&vendor, "leaves", vec![Reply::say("Hello.").always()]) else { return };
    place.agent(&vendor, "timeout: 100s");
    let run = place.run("Say hello.", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    let events = place.stage.events(run["run_id"].as_str().unwrap());
    let ended = events.iter().find(|event| event["type"] == json!("ended")).unwrap();
    assert_eq!(ended["ending"]["killed"], json!(0), "{ended}");
}
