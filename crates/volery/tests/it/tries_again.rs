//! A run that needs more than one process of its agent: another backend or model where the first has no room, within the
//! one time, the one cancel and the one answer of the run.

use std::fs;

use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, fake_agent, tagged, wait_for};

/// The exit code by which the programs here say that their model has no room.
const NO_ROOM: &str = "exit:75";

/// Defines a backend that is the fake agent with these steps.
fn backend(stage: &Stage, name: &str, steps: &[&str]) {
    let program = fake_agent();
    let mut command = vec![program.to_str().unwrap()];
    command.extend(steps);
    stage.configure(&format!("[backends.{name}]\ncommand = {}\nshortage_codes = [75]\n", json!(command)));
}

fn attempts(stage: &Stage, id: &str) -> Vec<Value> {
    stage.events(id).into_iter().filter(|event| event["type"] == "attempt_began").collect()
}

fn run(stage: &Stage, prompt: &str, more: &[&str]) -> Value {
    let mut arguments = vec!["run", "worker", prompt];
    arguments.extend(more);
    stage.json(arguments)
}

#[test]
fn a_fallback_answers_and_what_the_first_one_said_is_no_part_of_it() {
    let stage = Stage::new();
    backend(&stage, "busy", &["say:half an answer", "err:no room", NO_ROOM]);
    backend(&stage, "spare", &["say:a whole answer"]);
    // Limits are in force for each attempt anew.
    stage.agent(
        "worker",
        "backend: busy\nfallback: [{backend: spare}]\nlimits: {memory: 1GiB, processes: 99}",
    );
    let run = run(&stage, "x", &[]);
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("a whole answer\n")), "{run}");
    assert_eq!(run["backend"], json!("spare"), "the one that answered");
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("busy: the model's service limits its use"), "{warnings}");
    let id = run["run_id"].as_str().unwrap();
    let attempts = attempts(&stage, id);
    assert_eq!(attempts.len(), 2);
    assert_eq!((&attempts[0]["choice"], &attempts[0]["backend"]), (&json!(0), &json!("busy")));
    assert_eq!((&attempts[1]["choice"], &attempts[1]["backend"]), (&json!(1), &json!("spare")));
    assert_eq!(fs::read_to_string(stage.run_dir(id).join("stdout.attempt1")).unwrap(), "half an answer\n");
    assert_eq!(tagged(stage.tag(id)), Vec::<u32>::new());
    let health = stage.json(["health"]);
    assert_eq!(health["agents"][0]["backend"], json!("spare"), "{health}");
}

#[test]
fn where_nobody_can_know_what_was_done_the_next_one_is_told() {
    let stage = Stage::new();
    backend(&stage, "busy", &["say:I began", NO_ROOM]);
    backend(&stage, "spare", &["read-stdin"]);
    stage.agent("worker", "backend: busy\nfallback: [{backend: spare}]");
    let result = run(&stage, "Count the herons.", &[])["result"].as_str().unwrap().to_owned();
    assert!(result.contains("was cut short: busy: the model's service limits its use"), "{result}");
    assert!(result.ends_with("Count the herons."), "{result}");
}

#[test]
fn when_none_has_room_the_last_error_stands_and_all_attempts_are_told() {
    let stage = Stage::new();
    for name in ["one", "two", "three"] {
        backend(&stage, name, &[&format!("say:I am {name}"), NO_ROOM]);
    }
    stage.agent("worker", "backend: one\nfallback: [{backend: two}, {backend: three, model: m}]");
    let run = run(&stage, "x", &[]);
    assert_eq!((&run["status"], &run["outcome"]["error"]), (&json!("failed"), &json!("rate_limit")), "{run}");
    assert_eq!((&run["backend"], &run["result"]), (&json!("three"), &json!("I am three\n")), "{run}");
    let warnings = run["warnings"].to_string();
    assert!(warnings.contains("one: the model's") && warnings.contains("two: the model's"), "{warnings}");
    assert_eq!(attempts(&stage, run["run_id"].as_str().unwrap()).len(), 3);
}

#[test]
fn any_other_failure_is_the_end() {
    let stage = Stage::new();
    backend(&stage, "broken", &["exit:7"]);
    backend(&stage, "spare", &["say:never"]);
    stage.agent("worker", "backend: broken\nfallback: [{backend: spare}]");
    let run = run(&stage, "x", &[]);
    assert_eq!(run["outcome"], json!({"outcome": "failed", "kind": "exit", "code": 7}), "{run}");
    assert_eq!(attempts(&stage, run["run_id"].as_str().unwrap()).len(), 1);
}

#[test]
fn the_time_out_counts_over_all_attempts() {
    let stage = Stage::new();
    backend(&stage, "busy", &["sleep:2500", NO_ROOM]);
    backend(&stage, "slow", &["say:begun", "sleep:60000"]);
    stage.agent("worker", "backend: busy\nfallback: [{backend: slow}]\ntimeout: 4s\ngrace: 1s");
    let run = run(&stage, "x", &[]);
    assert_eq!(run["status"], json!("partial"), "{run}");
    assert_eq!(run["result"], json!("begun\n"), "{run}");
    let took = run["duration_ms"].as_u64().unwrap();
    // A time-out of its own would have given the second attempt 4 s more.
    assert!((4_000..6_300).contains(&took), "{took}");
}

#[test]
fn a_cancel_between_two_attempts_is_the_end() {
    let stage = Stage::new();
    backend(&stage, "busy", &["say:half", NO_ROOM]);
    backend(&stage, "spare", &["say:never"]);
    stage.agent("worker", "backend: busy\nfallback: [{backend: spare}]");
    stage.hold("worker_between_attempts");
    let id = stage.start("worker", "x");
    stage.held("worker_between_attempts");
    // Whoever cancels does not wait for the worker, which stands still.
    let mut cancel = stage.command(["cancel", &id]).spawn().unwrap();
    let letter = stage.run_dir(&id).join("inbox/cancel");
    wait_for(PATIENCE, "the letter", || letter.exists().then_some(()));
    stage.release("worker_between_attempts");
    let run = stage.ended(&id);
    cancel.wait().unwrap();
    assert_eq!(run["status"], json!("cancelled"), "{run}");
    assert_eq!(attempts(&stage, &id).len(), 1);
    assert_eq!(stage.times_ended(&id), 1);
}

#[test]
fn a_worker_that_is_killed_between_two_attempts_repeats_nothing() {
    let stage = Stage::new();
    backend(&stage, "busy", &["say:half", NO_ROOM]);
    backend(&stage, "spare", &["say:never"]);
    stage.agent("worker", "backend: busy\nfallback: [{backend: spare}]");
    stage.hold("worker_between_attempts");
    let id = stage.start("worker", "x");
    crate::stage::kill(stage.held("worker_between_attempts"), rustix::process::Signal::KILL);
    let ending = stage.outcome_by_itself(&id, PATIENCE);
    assert_eq!(ending["cause"], json!({"cause": "interrupted", "lost": "worker"}), "{ending}");
}

#[test]
fn a_fallback_is_weighed_before_anything_starts() {
    let stage = Stage::new();
    backend(&stage, "busy", &[NO_ROOM]);
    stage.agent("worker", "backend: rehearsal\nfallback: [{backend: nowhere}]\nsteps: [{say: hi}]");
    let unknown = stage.volery(["run", "worker", "x"]).exits(2);
    assert!(unknown.stderr.contains("nowhere, which is not configured"), "{unknown:?}");
    let allowed =
        "backend: rehearsal\npermission: read-only\nunenforceable: warn\nfallback: [{backend: busy}]";
    stage.agent("worker", &format!("{allowed}\nsteps: [{{say: hi}}]"));
    let warned = run(&stage, "x", &[]);
    let told = "as a fallback: the level read-only is not enforced by busy";
    assert!(warned["warnings"].to_string().contains(told), "{warned}");
    // Not installed: left out, and said.
    stage.agent("worker", "backend: rehearsal\nfallback: [{backend: kiro}]\nsteps: [{say: hi}]");
    let run = run(&stage, "x", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    let told = "the fallback to kiro is left out: agent worker needs kiro-cli, which is not on the PATH";
    assert!(run["warnings"].to_string().contains(told), "{run}");
}

#[test]
fn a_fallback_that_cannot_enforce_the_permission_is_refused_by_name() {
    let stage = Stage::new();
    backend(&stage, "busy", &[NO_ROOM]);
    let bin = stage.path("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(fake_agent(), bin.join("claude")).unwrap();
    stage.agent("worker", "backend: claude\npermission: read-only\nfallback: [{backend: busy}]");
    let mut command = stage.command(["run", "worker", "x"]);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let refused = crate::stage::said(command.stdin(std::process::Stdio::null()).output().unwrap()).exits(3);
    let told = "agent worker: as a fallback, the backend busy cannot enforce the level read-only";
    assert!(refused.stderr.contains(told), "{refused:?}");
    assert_eq!(stage.runs(), Vec::<String>::new());
}

#[test]
fn a_projects_own_program_is_no_fallback_until_it_is_trusted() {
    let stage = Stage::new();
    let config = stage.project().join(".volery/config.toml");
    fs::write(config, "[backends.own]\ncommand = [\"echo\", \"hi\"]\n").unwrap();
    stage.agent("worker", "backend: rehearsal\nfallback: [{backend: own}]\nsteps: [{say: hi}]");
    let refused = stage.volery(["run", "worker", "x"]).exits(3);
    assert!(refused.stderr.contains("that you have not trusted"), "{refused:?}");
}

/// A place with a stand-in for Claude Code that only notes that it was started, and then hangs.
fn with_silent_claude() -> Stage {
    let stage = Stage::new();
    let bin = stage.path("bin");
    fs::create_dir(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$*\" = --version ] && echo 2.1.325 && exit\necho x >> '{}'\nexec sleep 60\n",
        stage.path("started").display()
    );
    fs::write(bin.join("claude"), script).unwrap();
    fs::set_permissions(bin.join("claude"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    stage.agent("worker", "backend: claude\non_interrupt: resume");
    stage
}

/// Returns when the stand-in has noted that it was started.
fn has_started(stage: &Stage) {
    let noted = || fs::read(stage.path("started")).is_ok_and(|noted| noted.ends_with(b"\n"));
    wait_for(PATIENCE, "the agent", || noted().then_some(()));
}

fn start_with_claude(stage: &Stage) -> String {
    let mut command = stage.command(["run", "worker", "x", "--background"]);
    command.env("PATH", format!("{}:{}", stage.path("bin").display(), std::env::var("PATH").unwrap()));
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    crate::stage::said(output).ok().stdout.trim().to_owned()
}

#[test]
fn a_lost_agent_that_had_named_no_session_is_not_started_again() {
    let stage = with_silent_claude();
    stage.hold("worker_spawned_agent");
    let id = start_with_claude(&stage);
    let worker = stage.held("worker_spawned_agent");
    has_started(&stage);
    crate::stage::kill(worker, rustix::process::Signal::KILL);
    let ending = stage.outcome_by_itself(&id, PATIENCE);
    assert_eq!((&ending["outcome"], &ending["lost"]), (&json!("interrupted"), &json!("worker")), "{ending}");
    assert_eq!(fs::read_to_string(stage.path("started")).unwrap(), "x\n", "once");
    assert_eq!(tagged(stage.tag(&id)), Vec::<u32>::new());
}

#[test]
fn a_worker_that_was_lost_before_it_began_is_followed_by_one_that_begins() {
    let stage = with_silent_claude();
    stage.hold("worker_claimed");
    let id = start_with_claude(&stage);
    let first = stage.held("worker_claimed");
    crate::stage::kill(first, rustix::process::Signal::KILL);
    wait_for(PATIENCE, "the next worker", || Some(stage.held("worker_claimed")).filter(|pid| *pid != first));
    assert!(!stage.path("started").exists());
    stage.release("worker_claimed");
    has_started(&stage);
    assert_eq!(stage.volery(["cancel", "--now", &id]).code, 0);
    assert_eq!(stage.ended(&id)["status"], json!("cancelled"));
    assert_eq!(attempts(&stage, &id).len(), 1);
}

/// A program that repeats what it is told and then waits to be let go.
fn with_slow_parrot() -> Stage {
    let stage = Stage::new();
    let script = "cat; while [ ! -e \"$0\" ]; do sleep 0.02; done";
    stage.backend("parrot", &["sh", "-c", script, stage.path("go").to_str().unwrap()]);
    stage.agent("parrot", "backend: parrot");
    stage
}

#[test]
fn what_was_lost_with_keeper_and_worker_goes_on_when_somebody_says_so() {
    let stage = with_slow_parrot();
    let ask = ["run", "parrot", "Count the herons.", "--background", "--timeout", "77s"];
    let id = stage.volery(ask).ok().stdout.trim().to_owned();
    let spool = stage.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "its word", || fs::read(&spool).ok().filter(|said| !said.is_empty()));
    let refused = stage.volery(["resume", &id]).exits(2);
    assert!(refused.stderr.contains("was not interrupted: running"), "{refused:?}");
    let crew = crate::stage::crew(&stage.run_dir(&id));
    for member in [crew.keeper, crew.worker] {
        member.unwrap().kill();
    }
    fs::write(stage.path("go"), "").unwrap();
    let resumed = stage.json(["resume", &id]);
    let told = resumed["result"].as_str().unwrap();
    assert!(told.contains("# Session History: parrot") && told.contains("was interrupted"), "{told}");
    assert!(told.ends_with("\n\nCount the herons."), "{told}");
    let listed = stage.json(["ps", "--all"]);
    let prompts: Vec<&Value> = listed["runs"].as_array().unwrap().iter().map(|run| &run["prompt"]).collect();
    assert_eq!(prompts, [&json!("Count the herons."); 2], "what was really asked: {listed}");
    assert_eq!(resumed["session"], json!(id), "the same conversation");
    assert_eq!(stage.json(["resume", &id])["run_id"], resumed["run_id"], "once for each interruption");
    let limits = stage.spec(resumed["run_id"].as_str().unwrap())["limits"].clone();
    assert_eq!(limits["timeout_ms"], json!(77_000), "what the caller allowed");
    assert_eq!(stage.json(["show", &id])["outcome"]["cause"]["lost"], json!("keeper_and_worker"));
}

#[test]
fn what_had_begun_and_named_no_session_is_not_begun_again_by_hand_either() {
    let stage = with_silent_claude();
    let id = start_with_claude(&stage);
    has_started(&stage);
    stage.event(&id, "agent_started");
    let crew = crate::stage::crew(&stage.run_dir(&id));
    for member in [crew.keeper, crew.worker] {
        member.unwrap().kill();
    }
    let refused = stage.volery(["resume", &id]).exits(2);
    assert!(refused.stderr.contains("had begun and named no session to go on with"), "{refused:?}");
    assert_eq!(stage.runs().len(), 1);
}

/// Kills keeper and worker of a run whose agent was started, and takes away what the journal had not made durable: the
/// lines from the first of this kind on, or from the one after it.
fn crash(stage: &Stage, id: &str, lost: &str, from: usize) {
    has_started(stage);
    stage.event(id, "agent_started");
    let crew = crate::stage::crew(&stage.run_dir(id));
    for member in [crew.keeper, crew.worker] {
        member.unwrap().kill();
    }
    wait_for(PATIENCE, "the end of all", || tagged(stage.tag(id)).is_empty().then_some(()));
    let path = stage.run_dir(id).join("events.jsonl");
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
    for (on_interrupt, lost, from) in [("end", "attempt_began", 0), ("resume", "attempt_began", 1)] {
        let stage = with_silent_claude();
        stage.agent("worker", &format!("backend: claude\non_interrupt: {on_interrupt}"));
        let id = start_with_claude(&stage);
        crash(&stage, &id, lost, from);
        let refused = stage.volery(["resume", &id]).exits(2);
        let told = "had begun and named no session to go on with";
        assert!(refused.stderr.contains(told), "{on_interrupt}: {refused:?}");
        // Whose agent wants it done by itself finds the reason with the run.
        let warnings = stage.json(["show", &id])["warnings"].to_string();
        let kept = "it is not gone on with by itself: the run";
        assert_eq!(warnings.contains(kept), on_interrupt == "resume", "{warnings}");
        assert_eq!(fs::read_to_string(stage.path("started")).unwrap(), "x\n", "{on_interrupt}: once");
        assert_eq!(stage.runs().len(), 1);
    }
}
