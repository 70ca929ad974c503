//! A run that needs more than one process of its agent: another backend or model where the first has no room, within the
//! one time, the one cancel and the one answer of the run.

use std::fs;

use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, fake_agent, tagged, wait_for};

/// The exit code by which the programs here say that their model has no room.
const NO_ROOM: &str = "exit:75";

/// Defines a backend that is the fake agent with these steps.
fn backend(env: &TestEnv, name: &str, steps: &[&str]) {
    let program = fake_agent();
    let mut command = vec![program.to_str().unwrap()];
    command.extend(steps);
    env.configure(&format!("[backends.{name}]\ncommand = {}\nshortage_codes = [75]\n", json!(command)));
}

fn attempts(env: &TestEnv, id: &str) -> Vec<Value> {
    env.events(id).into_iter().filter(|event| event["type"] == "attempt_began").collect()
}

fn run(env: &TestEnv, prompt: &str, more: &[&str]) -> Value {
    let mut arguments = vec!["run", "worker", prompt];
    arguments.extend(more);
    env.json(arguments)
}

#[test]
fn a_fallback_answers_without_the_output_of_the_first_attempt() {
    let env = TestEnv::new();
    backend(&env, "busy", &["say:half an answer", "err:no room", NO_ROOM]);
    backend(&env, "spare", &["say:a whole answer"]);
    // Limits are in force for each attempt anew.
    env.agent("worker", "backend: busy\nfallback: [{backend: spare}]\nlimits: {memory: 1GiB, processes: 99}");
    let run = run(&env, "x", &[]);
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("a whole answer\n")), "{run}");
    assert_eq!(run["backend"], json!("spare"), "the one that answered");
    insta::assert_snapshot!(env.masked_texts(&run["warnings"]), @"busy: the model's service limits its use: the command says so by its exit code 75");
    let id = run["run_id"].as_str().unwrap();
    let attempts = attempts(&env, id);
    assert_eq!(attempts.len(), 2);
    assert_eq!((&attempts[0]["choice"], &attempts[0]["backend"]), (&json!(0), &json!("busy")));
    assert_eq!((&attempts[1]["choice"], &attempts[1]["backend"]), (&json!(1), &json!("spare")));
    assert_eq!(fs::read_to_string(env.run_dir(id).join("stdout.attempt1")).unwrap(), "half an answer\n");
    assert_eq!(tagged(env.tag(id)), Vec::<u32>::new());
    let health = env.json(["health"]);
    assert_eq!(health["agents"][0]["backend"], json!("spare"), "{health}");
}

#[test]
fn after_an_attempt_with_unknown_effects_the_fallback_is_informed() {
    let env = TestEnv::new();
    backend(&env, "busy", &["say:I began", NO_ROOM]);
    backend(&env, "spare", &["read-stdin"]);
    env.agent("worker", "backend: busy\nfallback: [{backend: spare}]");
    let result = run(&env, "Count the herons.", &[])["result"].as_str().unwrap().to_owned();
    assert!(result.contains("was cut short: busy: the model's service limits its use"), "{result}");
    assert!(result.ends_with("Count the herons."), "{result}");
}

#[test]
fn when_no_backend_has_capacity_the_last_error_is_the_outcome_and_all_attempts_are_reported() {
    let env = TestEnv::new();
    for name in ["one", "two", "three"] {
        backend(&env, name, &[&format!("say:I am {name}"), NO_ROOM]);
    }
    env.agent("worker", "backend: one\nfallback: [{backend: two}, {backend: three, model: m}]");
    let run = run(&env, "x", &[]);
    assert_eq!((&run["status"], &run["outcome"]["error"]), (&json!("failed"), &json!("rate_limit")), "{run}");
    assert_eq!((&run["backend"], &run["result"]), (&json!("three"), &json!("I am three\n")), "{run}");
    insta::assert_snapshot!(env.masked_texts(&run["warnings"]), @"
    as a fallback: the model is not passed on: the command of three has no {model}
    one: the model's service limits its use: the command says so by its exit code 75
    two: the model's service limits its use: the command says so by its exit code 75
    ");
    assert_eq!(attempts(&env, run["run_id"].as_str().unwrap()).len(), 3);
}

#[test]
fn any_other_failure_is_the_end() {
    let env = TestEnv::new();
    backend(&env, "broken", &["exit:7"]);
    backend(&env, "spare", &["say:never"]);
    env.agent("worker", "backend: broken\nfallback: [{backend: spare}]");
    let run = run(&env, "x", &[]);
    assert_eq!(run["outcome"], json!({"outcome": "failed", "kind": "exit", "code": 7}), "{run}");
    assert_eq!(attempts(&env, run["run_id"].as_str().unwrap()).len(), 1);
}

#[test]
fn the_time_out_counts_over_all_attempts() {
    let env = TestEnv::new();
    backend(&env, "busy", &["sleep:2500", NO_ROOM]);
    backend(&env, "slow", &["say:begun", "sleep:60000"]);
    env.agent("worker", "backend: busy\nfallback: [{backend: slow}]\ntimeout: 4s\ngrace: 1s");
    let run = run(&env, "x", &[]);
    assert_eq!(run["status"], json!("partial"), "{run}");
    assert_eq!(run["result"], json!("begun\n"), "{run}");
    let took = run["duration_ms"].as_u64().unwrap();
    // A time-out of its own would have given the second attempt 4 s more.
    assert!((4_000..6_300).contains(&took), "{took}");
}

#[test]
fn a_cancel_between_two_attempts_is_the_end() {
    let env = TestEnv::new();
    backend(&env, "busy", &["say:half", NO_ROOM]);
    backend(&env, "spare", &["say:never"]);
    env.agent("worker", "backend: busy\nfallback: [{backend: spare}]");
    env.hold("worker_between_attempts");
    let id = env.start("worker", "x");
    env.wait_until_held("worker_between_attempts");
    // The cancel command does not wait for the worker, which is stopped.
    let mut cancel = env.command(["cancel", &id]).spawn().unwrap();
    let letter = env.run_dir(&id).join("inbox/cancel");
    wait_for(PATIENCE, "the letter", || letter.exists().then_some(()));
    env.release("worker_between_attempts");
    let run = env.wait_for_end(&id);
    cancel.wait().unwrap();
    assert_eq!(run["status"], json!("cancelled"), "{run}");
    assert_eq!(attempts(&env, &id).len(), 1);
    assert_eq!(env.times_ended(&id), 1);
}

#[test]
fn a_worker_that_is_killed_between_two_attempts_repeats_nothing() {
    let env = TestEnv::new();
    backend(&env, "busy", &["say:half", NO_ROOM]);
    backend(&env, "spare", &["say:never"]);
    env.agent("worker", "backend: busy\nfallback: [{backend: spare}]");
    env.hold("worker_between_attempts");
    let id = env.start("worker", "x");
    crate::test_env::kill(env.wait_until_held("worker_between_attempts"), rustix::process::Signal::KILL);
    let ending = env.outcome_by_itself(&id, PATIENCE);
    assert_eq!(ending["cause"], json!({"cause": "interrupted", "lost": "worker"}), "{ending}");
}

#[test]
fn a_fallback_is_weighed_before_anything_starts() {
    let env = TestEnv::new();
    backend(&env, "busy", &[NO_ROOM]);
    env.agent("worker", "backend: rehearsal\nfallback: [{backend: nowhere}]\nsteps: [{say: hi}]");
    let unknown = env.volery(["run", "worker", "x"]).exits(2);
    insta::assert_snapshot!(env.masked(&unknown.stderr), @"
    error: agent worker needs the backend nowhere, which is not configured
    hint: configured are: busy, rehearsal, loop, claude, glm, claude-kimi, codex, gemini, copilot, qwen, opencode, goose, cursor, kiro, grok, kimi, acp-claude, acp-codex, acp-gemini, acp-copilot, acp-qwen, acp-opencode, acp-goose, acp-kiro, acp-kimi, api-anthropic, api-openai, api-grok, api-gemini, api-mistral; define it as [backends.nowhere]
    ");
    let allowed =
        "backend: rehearsal\npermission: read-only\nunenforceable: warn\nfallback: [{backend: busy}]";
    env.agent("worker", &format!("{allowed}\nsteps: [{{say: hi}}]"));
    env.volery(["trust", "--yes"]).ok();
    let warned = run(&env, "x", &[]);
    insta::assert_snapshot!(env.masked_texts(&warned["warnings"]), @"as a fallback: the level read-only is not enforced by busy");
    // Not installed: left out, with a warning.
    env.agent("worker", "backend: rehearsal\nfallback: [{backend: kiro}]\nsteps: [{say: hi}]");
    let run = run(&env, "x", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    insta::assert_snapshot!(env.masked_texts(&run["warnings"]), @"the fallback to kiro is left out: agent worker needs kiro-cli, which is not on the PATH");
}

#[test]
fn a_fallback_that_cannot_enforce_the_permission_is_refused_by_name() {
    let env = TestEnv::new();
    backend(&env, "busy", &[NO_ROOM]);
    let bin = env.path("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(fake_agent(), bin.join("claude")).unwrap();
    env.agent("worker", "backend: claude\npermission: read-only\nfallback: [{backend: busy}]");
    let mut command = env.command(["run", "worker", "x"]);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let refused =
        crate::test_env::command_output(command.stdin(std::process::Stdio::null()).output().unwrap())
            .exits(3);
    insta::assert_snapshot!(env.masked(&refused.stderr), @"
    error: agent worker: as a fallback, the backend busy cannot enforce the level read-only
    hint: choose another fallback, or write unenforceable: warn into the agent's file
    ");
    assert_eq!(env.runs(), Vec::<String>::new());
}

#[test]
fn a_projects_own_program_is_no_fallback_until_it_is_trusted() {
    let env = TestEnv::new();
    let config = env.project().join(".volery/config.toml");
    fs::write(config, "[backends.own]\ncommand = [\"echo\", \"hi\"]\n").unwrap();
    env.agent("worker", "backend: rehearsal\nfallback: [{backend: own}]\nsteps: [{say: hi}]");
    let refused = env.volery(["run", "worker", "x"]).exits(3);
    insta::assert_snapshot!(env.masked(&refused.stderr), @r#"
    error: the project [stage]/project would execute programs that you have not trusted:
      backend own: ["echo", "hi"]
    hint: look at them, then: volery trust [stage]/project
    "#);
}

/// A test environment with a fake Claude Code that only notes that it was started, and then hangs.
fn with_silent_claude() -> TestEnv {
    let env = TestEnv::new();
    let bin = env.path("bin");
    fs::create_dir(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$*\" = --version ] && echo 2.1.325 && exit\necho x >> '{}'\nexec sleep 60\n",
        env.path("started").display()
    );
    fs::write(bin.join("claude"), script).unwrap();
    fs::set_permissions(bin.join("claude"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    env.agent("worker", "backend: claude\non_interrupt: resume");
    env
}

/// Returns when the fake has noted that it was started.
fn has_started(env: &TestEnv) {
    let noted = || fs::read(env.path("started")).is_ok_and(|noted| noted.ends_with(b"\n"));
    wait_for(PATIENCE, "the agent", || noted().then_some(()));
}

fn start_with_claude(env: &TestEnv) -> String {
    let mut command = env.command(["run", "worker", "x", "--background"]);
    command.env("PATH", format!("{}:{}", env.path("bin").display(), std::env::var("PATH").unwrap()));
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    crate::test_env::command_output(output).ok().stdout.trim().to_owned()
}

#[test]
fn a_lost_agent_that_had_named_no_session_is_not_started_again() {
    let env = with_silent_claude();
    env.hold("worker_spawned_agent");
    let id = start_with_claude(&env);
    let worker = env.wait_until_held("worker_spawned_agent");
    has_started(&env);
    crate::test_env::kill(worker, rustix::process::Signal::KILL);
    let ending = env.outcome_by_itself(&id, PATIENCE);
    assert_eq!((&ending["outcome"], &ending["lost"]), (&json!("interrupted"), &json!("worker")), "{ending}");
    assert_eq!(fs::read_to_string(env.path("started")).unwrap(), "x\n", "once");
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
}

#[test]
fn a_worker_that_was_lost_before_it_began_is_followed_by_one_that_begins() {
    let env = with_silent_claude();
    env.hold("worker_claimed");
    let id = start_with_claude(&env);
    let first = env.wait_until_held("worker_claimed");
    crate::test_env::kill(first, rustix::process::Signal::KILL);
    wait_for(PATIENCE, "the next worker", || {
        Some(env.wait_until_held("worker_claimed")).filter(|pid| *pid != first)
    });
    assert!(!env.path("started").exists());
    env.release("worker_claimed");
    has_started(&env);
    assert_eq!(env.volery(["cancel", "--now", &id]).code, 0);
    assert_eq!(env.wait_for_end(&id)["status"], json!("cancelled"));
    assert_eq!(attempts(&env, &id).len(), 1);
}

/// A program that repeats its prompt and then waits for the release.
fn with_slow_parrot() -> TestEnv {
    let env = TestEnv::new();
    let script = "cat; while [ ! -e \"$0\" ]; do sleep 0.02; done";
    env.backend("parrot", &["sh", "-c", script, env.path("go").to_str().unwrap()]);
    env.agent("parrot", "backend: parrot");
    env
}

#[test]
fn what_was_lost_with_keeper_and_worker_goes_on_when_somebody_says_so() {
    let env = with_slow_parrot();
    let ask = ["run", "parrot", "Count the herons.", "--background", "--timeout", "77s"];
    let id = env.volery(ask).ok().stdout.trim().to_owned();
    let spool = env.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "its word", || fs::read(&spool).ok().filter(|bytes| !bytes.is_empty()));
    let refused = env.volery(["resume", &id]).exits(2);
    insta::assert_snapshot!(env.masked(&refused.stderr), @"error: the run [run-id] was not interrupted: running");
    let run_processes = crate::test_env::run_processes(&env.run_dir(&id));
    for member in [run_processes.keeper, run_processes.worker] {
        member.unwrap().kill();
    }
    fs::write(env.path("go"), "").unwrap();
    for words in [["wait", &id], ["show", &id]] {
        let hints = env.volery(words).stderr;
        assert!(env.masked(&hints).contains("hint: volery resume [run-id] continues "), "{words:?}: {hints}");
    }
    let resumed = env.json(["resume", &id]);
    let result = resumed["result"].as_str().unwrap();
    assert!(result.contains("# Session History: parrot") && result.contains("was interrupted"), "{result}");
    assert!(result.ends_with("\n\nCount the herons."), "{result}");
    let listed = env.json(["ps", "--all"]);
    let prompts: Vec<&Value> = listed["runs"].as_array().unwrap().iter().map(|run| &run["prompt"]).collect();
    assert_eq!(prompts, [&json!("Count the herons."); 2], "what was really asked: {listed}");
    assert_eq!(resumed["session"], json!(id), "the same conversation");
    assert_eq!(env.json(["resume", &id])["run_id"], resumed["run_id"], "once for each interruption");
    let limits = env.spec(resumed["run_id"].as_str().unwrap())["limits"].clone();
    assert_eq!(limits["timeout_ms"], json!(77_000), "what the caller allowed");
    assert_eq!(env.json(["show", &id])["outcome"]["cause"]["lost"], json!("keeper_and_worker"));
}

#[test]
fn a_resumed_run_can_have_another_time_limit() {
    let env = with_slow_parrot();
    let id = env.start("parrot", "Count the herons.");
    let spool = env.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "its word", || fs::read(&spool).ok().filter(|bytes| !bytes.is_empty()));
    let run_processes = crate::test_env::run_processes(&env.run_dir(&id));
    for member in [run_processes.keeper, run_processes.worker] {
        member.unwrap().kill();
    }
    fs::write(env.path("go"), "").unwrap();
    let resumed = env.json(["resume", &id, "--timeout", "50s"]);
    let limits = env.spec(resumed["run_id"].as_str().unwrap())["limits"].clone();
    assert_eq!(limits["timeout_ms"], json!(50_000));
}

#[test]
fn what_had_begun_and_named_no_session_is_not_begun_again_by_hand_either() {
    let env = with_silent_claude();
    let id = start_with_claude(&env);
    has_started(&env);
    env.wait_for_event(&id, "agent_started");
    let run_processes = crate::test_env::run_processes(&env.run_dir(&id));
    for member in [run_processes.keeper, run_processes.worker] {
        member.unwrap().kill();
    }
    let refused = env.volery(["resume", &id]).exits(2);
    insta::assert_snapshot!(env.masked(&refused.stderr), @"
    error: the run [run-id] had started, but reported no session to continue
    hint: to see how far it came: volery show [run-id]; to run it again: volery run worker x
    ");
    assert_eq!(env.runs().len(), 1);
}

/// Kills keeper and worker of a run whose agent was started, and takes away what the journal had not made durable: the
/// lines from the first of this kind on, or from the one after it.
fn crash(env: &TestEnv, id: &str, lost: &str, from: usize) {
    has_started(env);
    env.wait_for_event(id, "agent_started");
    let run_processes = crate::test_env::run_processes(&env.run_dir(id));
    for member in [run_processes.keeper, run_processes.worker] {
        member.unwrap().kill();
    }
    wait_for(PATIENCE, "the end of all", || tagged(env.tag(id)).is_empty().then_some(()));
    let path = env.run_dir(id).join("events.jsonl");
    let log = fs::read(&path).unwrap();
    let mut lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let kind = format!("\"type\":\"{lost}\"");
    let is_of_kind = |line: &&[u8]| String::from_utf8_lossy(line).contains(&kind);
    let at = lines.iter().position(is_of_kind).unwrap() + from;
    lines.truncate(at);
    // A line was being written.
    fs::write(&path, [lines.concat().as_slice(), b"{\"seq\":"].concat()).unwrap();
}

#[test]
fn what_the_journal_had_not_made_durable_is_not_taken_for_not_begun() {
    let mut messages = String::new();
    for (on_interrupt, lost, from) in [("end", "attempt_began", 0), ("resume", "attempt_began", 1)] {
        let env = with_silent_claude();
        env.agent("worker", &format!("backend: claude\non_interrupt: {on_interrupt}"));
        let id = start_with_claude(&env);
        crash(&env, &id, lost, from);
        env.volery(["resume", &id]).exits(2);
        // Whose agent wants it done by itself finds the reason with the run.
        let warnings = env.masked_texts(&env.json(["show", &id])["warnings"]);
        messages += &format!("{on_interrupt}\n{warnings}\n");
        assert_eq!(fs::read_to_string(env.path("started")).unwrap(), "x\n", "{on_interrupt}: once");
        assert_eq!(env.runs().len(), 1);
    }
    insta::assert_snapshot!(messages, @"
    end
    null
    resume
    the run was not resumed automatically: the run [run-id] had started, but reported no session to continue
    hint: to see how far it came: volery show [run-id]; to run it again: volery run worker x
    ");
}
