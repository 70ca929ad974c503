//! API keys: their sources, the warnings about them, and the files that must not contain them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::{KEY, PowerspawnEnv, call, newest_result, spawn};
use crate::test_env::{Client, git};

const SERVICES: [(&str, &[&str]); 3] = [
    ("spawn_grok", &["XAI_API_KEY", "X_API_KEY", "GROK_API_KEY"]),
    ("spawn_gemini", &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_AI_KEY"]),
    ("spawn_mistral", &["MISTRAL_API_KEY"]),
];

/// Returns the key that the last request showed.
fn shown(powerspawn: &PowerspawnEnv) -> String {
    let seen = powerspawn.server.requests().pop().unwrap();
    let mut headers = seen.headers.into_iter();
    let (_, value) = headers.find(|(name, _)| name == "authorization" || name == "x-goog-api-key").unwrap();
    value.trim_start_matches("Bearer ").to_owned()
}

#[test]
fn every_name_of_a_key_counts_in_the_environment_and_in_the_file() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let file = powerspawn.env.project().join("api_keys.json");
    for (tool, names) in SERVICES {
        for name in names {
            let mut command = powerspawn.command();
            SERVICES.iter().flat_map(|(_, names)| *names).for_each(|name| {
                command.env_remove(name);
            });
            command.env(name, format!("env-{name}-0123456789"));
            let mut client = Client::start(command).initialize("t");
            let ask = json!({"prompt": "x", "model": "m"});
            spawn(&mut client, tool, ask.clone());
            let waited = call(&mut client, "wait_for_agents", json!({}));
            assert_eq!(newest_result(&waited)["success"], json!(true), "{tool} {name}: {waited}");
            assert_eq!(shown(&powerspawn), format!("env-{name}-0123456789"), "{tool}");
            fs::write(&file, json!({*name: format!("file-{name}-0123456789")}).to_string()).unwrap();
            spawn(&mut client, tool, ask);
            call(&mut client, "wait_for_agents", json!({}));
            assert_eq!(shown(&powerspawn), format!("file-{name}-0123456789"), "{tool}: the file wins");
            fs::remove_file(&file).unwrap();
        }
    }
}

#[test]
fn a_key_file_that_git_tracks_is_warned_about_in_every_directory() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let warned = |project: &std::path::Path| {
        let mut command = powerspawn.command();
        command.current_dir(project);
        let mut client = Client::start(command).initialize("t");
        let spawned = call(&mut client, "spawn_grok", json!({"prompt": "x", "model": "m"}));
        call(&mut client, "wait_for_agents", json!({}));
        spawned.get("warnings").map(Value::to_string).unwrap_or_default()
    };
    let write = |file: &std::path::Path| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, json!({"XAI_API_KEY": "xai-from-the-file-itself"}).to_string()).unwrap();
        fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
    };
    let top = powerspawn.env.path("top");
    write(&top.join("powerspawn/api_keys.json"));
    git(&top, &["init", "-q"]);
    assert_eq!(warned(&top), "", "nobody tracks it yet");
    git(&top, &["add", "-f", "powerspawn/api_keys.json"]);
    assert!(warned(&top).contains("git tracks"), "in the folder of PowerSpawn");
    let below = top.join("below");
    fs::create_dir_all(below.join(".volery")).unwrap();
    write(&below.join("api_keys.json"));
    assert_eq!(warned(&below), "", "nobody tracks that one");
    git(&top, &["add", "-f", "below/api_keys.json"]);
    assert!(warned(&below).contains("git tracks"), "in a project that is a part of a repository");
}

/// Differs from powerspawn: the value of a key in a task or an answer | stands in `IAC.md` | masked
#[test]
fn a_key_in_a_prompt_is_masked_in_the_shared_file() {
    let powerspawn =
        PowerspawnEnv::new(vec![ScriptedReply::say("ok").after_ms(300), ScriptedReply::say("ok").always()]);
    let mut client = powerspawn.serve();
    let prompt = format!("{KEY} is the key.\nUse {KEY}.");
    let id = spawn(&mut client, "spawn_grok", json!({"prompt": prompt}));
    let check = |iac: &str| {
        assert!(!iac.contains(KEY), "{iac}");
        assert!(iac.contains("### 🤖 [redacted] is the key. Use [redacted].\n"), "{iac}");
    };
    check(&powerspawn.iac());
    let going = call(&mut client, "result", json!({"agent_id": id}));
    assert!(!going.to_string().contains(KEY), "{going}");
    call(&mut client, "wait_for_agents", json!({}));
    check(&powerspawn.iac());
    // Whoever writes the file next need not have the key.
    let mut command = powerspawn.command();
    command.env("X_API_KEY", "xai-another-key-of-somebody");
    let mut other = Client::start(command).initialize("t");
    spawn(&mut other, "spawn_grok", json!({"prompt": "x"}));
    call(&mut other, "wait_for_agents", json!({}));
    check(&powerspawn.iac());
    let spec = powerspawn.env.spec(&powerspawn.run(&id));
    assert_eq!(spec["prompt"], json!(prompt), "the record has what was asked");
    assert_eq!(powerspawn.server.model_requests()[0].last_user_text(), prompt, "and so has the agent");
}
