//! Torn and bit-flipped journals, and indexes of any kind: every question is still answered, and damage is reported.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, wait_for};

/// A test environment with one ended run and its log.
fn ended() -> (TestEnv, String, PathBuf, Vec<u8>) {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: good day\n- say: and good night\n- usage: {input_tokens: 5}", "");
    env.volery(["run", "greeter", "world"]).ok();
    let id = env.only_run();
    let log = env.run_dir(&id).join("events.jsonl");
    let bytes = fs::read(&log).unwrap();
    (env, id, log, bytes)
}

#[test]
fn a_flipped_bit_anywhere_changes_no_answer() {
    let (env, id, log, whole) = ended();
    let mut client = env.serve().initialize("it");
    let mut warned = 0;
    // The last byte is the end of the last line; without it the log is torn, which is another test.
    for at in (0..whole.len() - 1).step_by(11) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 7);
        fs::write(&log, &bytes).unwrap();
        let got = client.call("get_run", json!({"run_id": id, "events_from": 0}));
        let answer = (&got["status"], &got["result"]);
        assert_eq!(answer, (&json!("succeeded"), &json!("good day\nand good night\n")), "byte {at}: {got}");
        warned += usize::from(got["warnings"].is_array());
        let listed = client.call("list_runs", json!({}));
        assert_eq!(listed["runs"][0]["status"], json!("succeeded"), "byte {at}");
    }
    assert_eq!(warned, (whole.len() - 1).div_ceil(11), "each time the damage is told");
    let shown = env.volery(["show", &id]).ok().stdout;
    insta::assert_snapshot!(env.masked(&shown), @r"
    run         [run id]
    short id    [run-id]
    agent       greeter (backend rehearsal)
    status      succeeded
    asked by    you
    prompt      world
    questions   denied at once: the command has no terminal
    created     [time] ([span] ago)
    started     [time] ([span] ago)
    ended       [time] ([span] ago)
    time        [span]
    tokens      5 in, 0 out
    cost        not known
    directory   [stage]/project
    success     unverified (no accept commands)
    session     [run id]
    warning     1 damaged line of its journal could not be read

    result (24 B)
      good day
      and good night
    ");
    assert!(env.volery(["show", &id, "--events"]).ok().stdout.contains("ended"));
}

#[test]
fn a_log_cut_off_anywhere_changes_no_answer() {
    let (env, id, log, whole) = ended();
    let mut client = env.serve().initialize("it");
    for length in (0..whole.len()).step_by(7) {
        fs::write(&log, &whole[..length]).unwrap();
        let got = client.call("get_run", json!({"run_id": id}));
        let answer = (&got["status"], &got["result"]);
        assert_eq!(answer, (&json!("succeeded"), &json!("good day\nand good night\n")), "at {length}: {got}");
    }
    fs::remove_file(&log).unwrap();
    assert_eq!(client.call("get_run", json!({"run_id": id}))["status"], json!("succeeded"));
}

#[test]
fn a_run_without_any_end_is_ended_with_its_partial_output() {
    let (env, id, log, whole) = ended();
    let dir = env.run_dir(&id);
    let text = String::from_utf8(whole).unwrap();
    let torn = text.find("\"type\":\"ended\"").unwrap();
    fs::remove_file(dir.join("outcome.json")).unwrap();
    fs::write(&log, &text[..torn]).unwrap();
    // Its keeper may still be on its way out, and holds the lock so long.
    let shown = wait_for(PATIENCE, "the end", || {
        Some(env.json(["show", &id])).filter(|shown| shown["ended"] == json!(true))
    });
    assert_eq!((&shown["status"], &shown["damaged_lines"]), (&json!("partial"), &json!(0)), "{shown}");
    assert_eq!(shown["result"], json!("good day\nand good night\n"));
    assert_eq!(shown["outcome"]["cause"]["cause"], json!("interrupted"));
}

#[test]
fn a_spec_that_cannot_be_read_hides_no_other_run() {
    let (env, id, ..) = ended();
    fs::write(env.run_dir(&id).join("spec.json"), "{\"version\":1,").unwrap();
    let other = env.start("greeter", "again");
    env.outcome_by_itself(&other, PATIENCE);
    let listed = env.json(["ps", "--all"]);
    let ids: Vec<&str> =
        listed["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    assert!(ids.contains(&other.as_str()), "{listed}");
    let refused = env.volery(["show", &id]).exits(70).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"error: could not understand [stage]/state/runs/[day]/[run id]/spec.json: EOF while parsing a value at line 1 column 13");
}

/// Runs some agents, spoils the index, and checks that every list and sum is as before.
fn check_index(spoil: impl Fn(&TestEnv, PathBuf)) {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: good day", "");
    env.rehearsal("failing", "- fail: no", "");
    for agent in ["greeter", "failing", "greeter"] {
        let run = env.volery(["run", agent, "go"]);
        assert_eq!(run.code, i32::from(agent == "failing"));
    }
    let ask = |env: &TestEnv| -> Vec<Value> {
        let mut client = env.serve().initialize("it");
        let steady = |mut health: Value| {
            health.as_object_mut().unwrap().remove("slots");
            health
        };
        vec![
            env.json(["ps", "--all"]),
            steady(env.json(["health", "--all"])),
            client.call("list_runs", json!({})),
        ]
    };
    let before = ask(&env);
    spoil(&env, env.path("state").join("index-v3.db"));
    assert_eq!(ask(&env), before);
}

#[test]
fn an_index_that_is_missing_is_rebuilt() {
    check_index(|_, path| fs::remove_file(path).unwrap());
}

#[test]
fn an_index_of_rubbish_is_rebuilt() {
    check_index(|_, path| fs::write(path, "rubbish".repeat(5_000)).unwrap());
}

#[test]
fn an_index_that_is_empty_or_cut_off_is_rebuilt() {
    check_index(|_, path| fs::write(path, "").unwrap());
    check_index(|_, path| {
        let bytes = fs::read(&path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    });
}

#[test]
fn an_index_with_damage_inside_is_rebuilt() {
    check_index(|env, path| {
        // Everything is in the file itself, and then overwritten from its second page on.
        env.volery(["reindex"]).ok();
        let mut bytes = fs::read(&path).unwrap();
        bytes[4096..].fill(0x5a);
        fs::write(path, bytes).unwrap();
    });
}

#[test]
fn an_index_of_an_older_version_is_rebuilt() {
    check_index(|env, path| {
        let older = env.path("state").join("index-v0.db");
        fs::rename(path, older).unwrap();
    });
    check_index(|_, path| {
        // The version of the schema is at byte 60 of the file.
        let mut bytes = fs::read(&path).unwrap();
        bytes[60..64].fill(0);
        fs::write(path, bytes).unwrap();
    });
}

#[test]
fn reindex_counts_what_it_read() {
    let (env, ..) = ended();
    let report = env.json(["reindex"]);
    assert_eq!(
        (&report["runs"], &report["open"], &report["damaged"]),
        (&json!(1), &json!(0), &json!(0)),
        "{report}"
    );
}
