//! Long answers, many agents, a locked roster, and an agent that cannot start.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fake_llm::ScriptedReply;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use super::{PowerspawnEnv, call, spawn};

fn roster(powerspawn: &PowerspawnEnv) -> PathBuf {
    fs::read_dir(powerspawn.env.path("state/rosters")).unwrap().next().unwrap().unwrap().path()
}

/// Differs from powerspawn: a long answer | whole, or its first 500 characters | both ends, as much as the client
///    shows; `volery wait ID` prints all of it
#[test]
fn a_long_answer_is_cut_in_the_middle_and_several_share_the_clients_limit() {
    let long = format!("first words{}last words", "é".repeat(400_000));
    let bytes = long.len();
    let powerspawn = PowerspawnEnv::new(vec![
        ScriptedReply::say(&long),
        ScriptedReply::say("short"),
        ScriptedReply::say(&long),
    ]);
    let mut client = powerspawn.serve();
    let mut ids = Vec::new();
    for prompt in ["one", "two", "three"] {
        ids.push(spawn(&mut client, "spawn_mistral", json!({"prompt": prompt})));
        call(&mut client, "wait_for_agents", json!({}));
    }
    let result_text = |result: &serde_json::Value| result["result"].as_str().unwrap().to_owned();
    let check = |text: &str, id: &str, bytes_max: usize| {
        let cut = format!("[cut: the answer has {bytes} bytes; `volery wait {id}` prints all of it]");
        assert!(text.starts_with("first words") && text.ends_with("last words"), "{text}");
        assert!(text.contains(&cut) && text.len() <= bytes_max, "{} {text}", text.len());
    };
    let one = call(&mut client, "result", json!({"agent_id": ids[0]}));
    check(&result_text(&one), &ids[0], 32 << 10);
    let recent = call(&mut client, "wait_for_agents", json!({}));
    let recent = recent["recent_results"].as_array().unwrap();
    assert_eq!(result_text(&recent[1]), "short");
    check(&result_text(&recent[0]), &ids[0], 16 << 10);
    check(&result_text(&recent[2]), &ids[2], 16 << 10);
    assert_eq!(powerspawn.env.volery(["wait", &ids[0]]).ok().stdout.trim_end(), long);
    let iac = powerspawn.iac();
    assert_eq!(iac.matches(&format!("📤 Output ({bytes} bytes)")).count(), 2, "counted without reading it");
    assert!(iac.contains("first wordsé") && iac.contains("élast words") && iac.contains("Output (5 chars)"));
    assert_eq!(iac.matches('é').count(), 2 * (50_000 - "first wordslast words".len()));
}

#[test]
fn a_held_roster_lock_does_not_block_spawning_waiting_and_listing() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let mut client = powerspawn.serve();
    let first = spawn(&mut client, "spawn_mistral", json!({"prompt": "one"}));
    call(&mut client, "wait_for_agents", json!({}));
    let before = powerspawn.iac();
    let held = File::open(roster(&powerspawn)).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let began = Instant::now();
    let spawned = call(&mut client, "spawn_mistral", json!({"prompt": "two"}));
    assert_eq!(spawned["warnings"], json!(["IAC.md is not written: somebody holds it"]), "{spawned}");
    let second = spawned["agent_id"].clone();
    powerspawn.env.wait_for_end(&powerspawn.run(second.as_str().unwrap()));
    let listed = call(&mut client, "list", json!({}));
    assert_eq!(listed["completed_ids"], json!([first, second]), "{listed}");
    let idle = call(&mut client, "wait_for_agents", json!({}));
    assert_eq!(idle["recent_results"][0]["result"], json!("ok"), "{idle}");
    assert!(began.elapsed() < Duration::from_secs(60), "nobody waits for long: {:?}", began.elapsed());
    assert_eq!(powerspawn.iac(), before);
    drop(held);
    spawn(&mut client, "spawn_mistral", json!({"prompt": "three"}));
    call(&mut client, "wait_for_agents", json!({}));
    let iac = powerspawn.iac();
    assert_eq!(iac.matches("✅ **Done**").count(), 3, "what was not written is written later: {iac}");
}

#[test]
fn the_newest_two_hundred_are_shown_and_every_running_agent() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::hang(), ScriptedReply::say("ok").always()]);
    let mut client = powerspawn.serve();
    let going = spawn(&mut client, "spawn_mistral", json!({"prompt": "hangs"}));
    assert!(powerspawn.server.wait_until(crate::test_env::PATIENCE, |seen| !seen.is_empty()));
    let model = spawn(&mut client, "spawn_mistral", json!({"prompt": "ends"}));
    powerspawn.env.wait_for_end(&powerspawn.run(&model));
    // As if there had been many of it.
    let whole = powerspawn.run(&model);
    let dir = powerspawn.env.run_dir(&whole);
    let mut lines = String::new();
    for number in 0..205 {
        let id = format!("{}{number:012x}", &whole[..whole.len() - 12]);
        let copy = dir.with_file_name(&id);
        fs::create_dir(&copy).unwrap();
        for name in ["events.jsonl", "outcome.json"] {
            fs::copy(dir.join(name), copy.join(name)).unwrap();
        }
        let spec = fs::read_to_string(dir.join("spec.json")).unwrap();
        fs::write(copy.join("spec.json"), spec.replace(&whole, &id)).unwrap();
        lines.push_str(&format!("{id}\n"));
    }
    OpenOptions::new().append(true).open(roster(&powerspawn)).unwrap().write_all(lines.as_bytes()).unwrap();
    let last = spawn(&mut client, "spawn_mistral", json!({"prompt": "last"}));
    powerspawn.env.wait_for_end(&powerspawn.run(&last));
    let iac = crate::test_env::wait_for(crate::test_env::PATIENCE, "the end of the last", || {
        Some(powerspawn.iac()).filter(|iac| {
            iac.contains(&format!("<!-- RESULT_{going} -->")) && iac.matches("RESULT_").count() == 1
        })
    });
    let ids: Vec<&str> = iac.split("| `#").skip(1).map(|rest| &rest[..8]).collect();
    let newest = (6..205).rev().map(|number| format!("{number:08x}"));
    let expected: Vec<String> = [last].into_iter().chain(newest).chain([going.clone()]).collect();
    assert_eq!(ids, expected);
    let listed = call(&mut client, "list", json!({}));
    assert_eq!(listed["running"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["running"][0]["id"], json!(going), "{listed}");
    let waited = call(&mut client, "wait_for_agents", json!({"timeout": 1}));
    assert_eq!(waited["still_running"], json!([going]), "{waited}");
    powerspawn.env.volery(["cancel", &going]).ok();
}

#[test]
fn an_agent_that_could_not_be_started_is_not_shown_as_running() {
    let powerspawn = PowerspawnEnv::new(Vec::new());
    let program = powerspawn.env.path("volery");
    let own = std::path::Path::new(env!("CARGO_BIN_EXE_volery"));
    fs::hard_link(own, &program).or_else(|_| fs::copy(own, &program).map(|_| ())).unwrap();
    let usual = powerspawn.command();
    let mut command = std::process::Command::new(&program);
    command.args(usual.get_args()).current_dir(powerspawn.env.project()).env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut client = crate::test_env::Client::start(command).initialize("t");
    // From here on no keeper can be started: so Linux calls a program whose file is gone.
    fs::write(powerspawn.env.path("volery (deleted)"), "no program").unwrap();
    fs::remove_file(&program).unwrap();
    let refused = call(&mut client, "spawn_mistral", json!({"prompt": "x"}));
    insta::assert_snapshot!(powerspawn.env.masked_texts(&refused["error"]), @"could not start a keeper: Permission denied (os error 13)");
    let iac = powerspawn.iac();
    assert!(iac.contains("*No active agents*") && !iac.contains("⏳"), "{iac}");
    assert_eq!(call(&mut client, "list", json!({}))["running"], json!([]));
}
