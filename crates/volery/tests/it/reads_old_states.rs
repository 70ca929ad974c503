//! State directories that earlier versions of the program made are read as those versions read them.
//!
//! `old_state/DATE.tar.gz` holds what the program of that day wrote: runs that succeeded, failed, ended early, were cancelled,
//! were interrupted and wait; runs with children, in a session and with an idempotency key; trust, tokens and the index.
//! The snapshots were recorded with that program.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::test_env::TestEnv;

/// Unpacks a state directory and its user's configuration.
fn env_with(archive: &str) -> TestEnv {
    let env = TestEnv::new();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/old_state").join(archive);
    let unpacked = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(env.path("")).status();
    assert!(unpacked.unwrap().success());
    env.configure("[slots]\ncount = 16\n");
    env
}

fn ids(env: &TestEnv) -> Vec<String> {
    let list = env.json(["ps", "--all", "-n", "100"]);
    list["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
}

/// Returns what a command prints as JSON, without when, by whom and after how long the waiting run was found dead: that
/// happens in the test.
fn shown(env: &TestEnv, words: &[&str]) -> String {
    let mut value = env.json(words);
    mask_end(&mut value, false);
    serde_json::to_string_pretty(&value).unwrap()
}

fn mask_end(value: &mut Value, is_of_waiting_run: bool) {
    const VARYING: [&str; 5] = ["duration_ms", "mean_ms", "max_ms", "keeper_pid", "worker_pid"];
    match value {
        Value::Object(fields) => {
            let is_of_waiting_run = is_of_waiting_run || fields.get("agent") == Some(&json!("asker"));
            for (key, value) in fields {
                match is_of_waiting_run && VARYING.contains(&key.as_str()) {
                    true => *value = json!("[masked]"),
                    false => mask_end(value, is_of_waiting_run),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask_end(item, is_of_waiting_run)),
        // Everything else happened within this minute.
        Value::String(text) if text.ends_with('Z') && !text.starts_with("2026-11-18T09:49:") => {
            *value = json!("[masked]");
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn runs_of_2026_11_18_are_shown_as_they_were() {
    let env = env_with("2026-11-18.tar.gz");
    let ids = ids(&env);
    assert_eq!(ids.len(), 18, "{ids:?}");
    let run = |id: &String| shown(&env, &["show", id.as_str(), "--events"]);
    insta::assert_snapshot!("runs", ids.iter().map(run).collect::<Vec<_>>().join("\n"));
    let output = |id: &String| format!("{id}: {}", env.volery(["logs", id.as_str(), "--raw"]).ok().stdout);
    insta::assert_snapshot!("output", ids.iter().map(output).collect::<String>());
}

#[test]
fn lists_sums_trust_and_tokens_of_2026_11_18_are_shown_as_they_were() {
    let env = env_with("2026-11-18.tar.gz");
    insta::assert_snapshot!("ps", shown(&env, &["ps", "--all", "-n", "100"]));
    insta::assert_snapshot!("health", shown(&env, &["health", "--all"]));
    insta::assert_snapshot!("tokens", shown(&env, &["token", "list"]));
    insta::assert_snapshot!("trust", shown(&env, &["trust", "--list"]));
}

/// The recorded project does not exist on this machine, so the record is carried over to a project that does: its
/// fingerprint covers the path and the recorded text.
#[test]
fn trust_of_2026_11_18_still_holds() {
    let env = env_with("2026-11-18.tar.gz");
    let records = env.path("state/trust");
    let file = fs::read_dir(&records).unwrap().next().unwrap().unwrap().path();
    let mut record: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let project = env.project().to_str().unwrap().to_owned();
    let executables = record["executables"].as_str().unwrap();
    let digest = Sha256::digest(format!("{project}\0{executables}"));
    let fingerprint: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    record["project"] = json!(project);
    record["fingerprint"] = json!(fingerprint);
    fs::write(records.join(format!("{fingerprint}.json")), record.to_string()).unwrap();
    let configure = |command: &str| {
        fs::create_dir_all(env.project().join(".volery")).unwrap();
        let text = format!("[backends.ours]\ncommand = [\"/bin/echo\", \"{command}\"]\n");
        fs::write(env.project().join(".volery/config.toml"), text).unwrap();
        let listed = env.json(["trust", "--list"]);
        let projects = listed["projects"].as_array().unwrap().clone();
        projects.into_iter().find(|listed| listed["project"] == json!(project)).unwrap()["state"].clone()
    };
    assert_eq!(configure("hello"), json!("trusted"));
    assert_eq!(configure("goodbye"), json!("changed"));
}

#[test]
fn keys_and_sessions_of_2026_11_18_still_hold() {
    let env = env_with("2026-11-18.tar.gz");
    let runs = ids(&env);
    let run = |prompt: &str, more: &[&str]| {
        let words = [&["run", "shouter", prompt, "--dir", "/usr", "--json"], more].concat();
        env.volery(words).ok().json()
    };
    let repeated = run("Only once", &["--idempotency-key", "nightly"]);
    assert_eq!(repeated["run_id"], json!("01a1ee0f-a7f6-7ec0-bcad-f8fdcff3ad1f"), "{repeated}");
    assert_eq!(ids(&env), runs);
    let session = "01a1ee0f-a845-75b6-98ce-4d6a51a71f52";
    let continued = run("And once more", &["--session", session]);
    assert_eq!(continued["session"], json!(session), "{continued}");
    let spec = env.spec(continued["run_id"].as_str().unwrap());
    assert_eq!(spec["session"], json!(session), "{spec}");
}
