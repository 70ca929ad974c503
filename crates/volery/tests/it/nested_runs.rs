//! Runs that are started from inside a run: they go through its worker, belong to it, share its slot, and see and
//! touch only what is below it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::{PATIENCE, Said, Stage, crew, kill, said, tagged, wait_for};

const VOLERY: &str = env!("CARGO_BIN_EXE_volery");

/// Defines an agent that is a `volery` command without any environment but what it is given here.
fn inside(stage: &Stage, name: &str, env: &[&str], words: &[&str], frontmatter: &str) {
    let command = [&["/usr/bin/env", "-i"], env, &[VOLERY], words].concat();
    stage.backend(name, &command).agent(name, &format!("backend: {name}\n{frontmatter}"));
}

fn home(stage: &Stage) -> String {
    format!("VOLERY_HOME={}", stage.path("state").display())
}

/// Runs an agent with one slot on the machine.
fn with_one_slot(stage: &Stage, agent: &str) -> Said {
    said(stage.command(["run", agent, "x"]).env("VOLERY_SLOTS", "1").output().unwrap())
}

fn spec_of(stage: &Stage, agent: &str) -> Value {
    let specs = stage.runs().into_iter().map(|id| stage.spec(&id));
    specs.into_iter().find(|spec| spec["agent"] == json!(agent)).unwrap()
}

#[test]
fn use_the_slot_of_their_root() {
    let stage = Stage::new();
    stage.rehearsal("leaf", "- say: leaf got {prompt}", "");
    stage.rehearsal("middle", "- delegate: {agent: leaf, prompt: deeper}", "delegates: anyone");
    stage.rehearsal("top", "- delegate: {agent: middle, prompt: deep}\n- say: top", "delegates: anyone");
    let said = with_one_slot(&stage, "top").ok();
    assert_eq!(said.stdout, "leaf got deeper\ntop\n");
    let (top, middle, leaf) = (spec_of(&stage, "top"), spec_of(&stage, "middle"), spec_of(&stage, "leaf"));
    assert_eq!((&middle["parent"], &leaf["parent"]), (&top["id"], &middle["id"]));
    assert_eq!((&leaf["root"], &leaf["depth"]), (&top["id"], &json!(2)));
}

#[test]
fn without_their_environment_still_belong_to_their_run() {
    for containment in ["auto", "plain"] {
        let stage = Stage::new();
        stage.rehearsal("inner", "- say: inner got {prompt}", "");
        let home = home(&stage);
        let more = format!("delegates: anyone\ncontainment: {containment}");
        inside(&stage, "outer", &[&home], &["run", "inner", "hello"], &more);
        let said = with_one_slot(&stage, "outer").ok();
        assert_eq!(said.stdout, "inner got hello\n");
        let (outer, inner) = (spec_of(&stage, "outer"), spec_of(&stage, "inner"));
        assert_eq!(
            (&inner["parent"], &inner["root"], &inner["depth"]),
            (&outer["id"], &outer["id"], &json!(1))
        );
        assert_eq!(inner["caller"], json!({"door": "run", "name": "outer"}));
        let shown = stage.json(["show", outer["id"].as_str().unwrap()]);
        assert_eq!(shown["children"][0]["status"], json!("succeeded"), "{shown}");
    }
}

/// Plays an agent whose only act is a command inside its run, which must be refused.
#[track_caller]
fn refused(stage: &Stage, agent: &str, code: i32, because: &str) {
    let said = with_one_slot(stage, agent);
    assert_eq!(said.code, 1, "{said:?}");
    let shown = stage.json(["show", spec_of(stage, agent)["id"].as_str().unwrap()]);
    assert_eq!(shown["exit_code"], json!(code), "{shown}");
    let told = shown["stderr_tail"].as_str().unwrap();
    assert!(told.contains(because), "{told}");
}

#[test]
fn that_cannot_find_their_run_are_refused_with_the_reason() {
    let stage = Stage::new();
    stage.rehearsal("inner", "- say: inner", "");
    inside(&stage, "outer", &[], &["run", "inner", "hello"], "delegates: anyone");
    refused(&stage, "outer", 3, "VOLERY_HOME, or HOME if that is not set, must be an absolute path");
    assert_eq!(stage.runs().len(), 1, "no run was started beside the refused one");
}

#[test]
fn in_another_state_directory_are_refused() {
    let stage = Stage::new();
    stage.rehearsal("inner", "- say: inner", "");
    let other = format!("VOLERY_HOME={}", stage.path("home").display());
    inside(&stage, "outer", &[&other], &["run", "inner", "hello"], "delegates: anyone");
    refused(&stage, "outer", 3, "the run's worker cannot be reached");
    assert_eq!(fs::read_dir(stage.path("home")).unwrap().count(), 0, "nothing was written there");
}

#[test]
fn are_denied_to_those_who_may_not_delegate() {
    let stage = Stage::new();
    stage.rehearsal("inner", "- say: inner", "").rehearsal("friend", "- say: friend", "");
    let home = home(&stage);
    inside(&stage, "alone", &[&home], &["run", "inner", "hello"], "");
    refused(&stage, "alone", 3, "agent alone may not delegate to inner");
    inside(&stage, "choosy", &[&home], &["run", "inner", "hello"], "delegates: [friend]");
    refused(&stage, "choosy", 3, "agent choosy may not delegate to inner");
}

#[test]
fn are_refused_below_the_greatest_depth() {
    let stage = Stage::new();
    stage.rehearsal("leaf", "- say: leaf", "");
    let home = home(&stage);
    inside(&stage, "middle", &[&home], &["run", "leaf", "x"], "delegates: anyone");
    inside(&stage, "top", &[&home], &["run", "middle", "x"], "delegates: anyone\nlimits: {depth: 1}");
    refused(&stage, "top", 1, "");
    let middle = spec_of(&stage, "middle");
    let shown = stage.json(["show", middle["id"].as_str().unwrap()]);
    let told = shown["stderr_tail"].as_str().unwrap();
    assert!(told.contains("the limit on depth is reached: 1 are allowed"), "{told}");
    assert_eq!(shown["exit_code"], json!(4));
}

#[test]
fn are_refused_beyond_the_greatest_number_of_children() {
    let stage = Stage::new();
    stage.rehearsal("leaf", "- say: leaf got {prompt}", "");
    let steps = "- delegate: {agent: leaf, prompt: one}\n- delegate: {agent: leaf, prompt: two}";
    stage.rehearsal("top", steps, "delegates: anyone\nlimits: {children: 1}");
    let said = with_one_slot(&stage, "top");
    assert!(said.stdout.contains("leaf got one"), "{said:?}");
    assert!(said.stdout.contains("the limit on children per run is reached: 1 are allowed"), "{said:?}");
    assert_eq!(stage.runs().len(), 2);
}

#[test]
fn are_refused_beyond_the_greatest_size_of_a_tree() {
    let stage = Stage::new();
    stage.rehearsal("leaf", "- say: leaf got {prompt}", "");
    stage.rehearsal("middle", "- delegate: {agent: leaf, prompt: deeper}", "delegates: anyone");
    let steps = "- delegate: {agent: middle, prompt: one}\n- delegate: {agent: leaf, prompt: two}";
    stage.rehearsal("top", steps, "delegates: anyone\nlimits: {tree_runs: 3}");
    let said = with_one_slot(&stage, "top");
    assert!(said.stdout.contains("leaf got deeper"), "{said:?}");
    assert!(said.stdout.contains("the limit on runs per tree is reached: 3 are allowed"), "{said:?}");
    assert_eq!(stage.runs().len(), 3);
}

#[test]
fn see_and_cancel_only_what_is_below_them() {
    let stage = Stage::new();
    let go = format!("wait-file:{}", stage.path("go").display());
    stage.fake("slow", &[&go], "");
    let other = stage.start("slow", "somebody else's");
    let home = home(&stage);
    inside(&stage, "lister", &[&home], &["ps", "--all", "--json"], "delegates: anyone");
    let listed: Value = with_slots(&stage, "lister").ok().json();
    assert_eq!(listed["runs"], json!([]));
    inside(&stage, "shower", &[&home], &["show", &other], "delegates: anyone");
    inside(&stage, "canceller", &[&home], &["cancel", &other], "delegates: anyone");
    for agent in ["shower", "canceller"] {
        let said = with_slots(&stage, agent);
        let shown = stage.json(["show", spec_of(&stage, agent)["id"].as_str().unwrap()]);
        assert_eq!(shown["exit_code"], json!(5), "{said:?} {shown}");
    }
    assert_eq!(stage.json(["show", &other])["status"], json!("running"));
    fs::write(stage.path("go"), "").unwrap();
    stage.outcome_by_itself(&other, PATIENCE);
}

fn with_slots(stage: &Stage, agent: &str) -> Said {
    said(stage.command(["run", agent, "x"]).output().unwrap())
}

#[test]
fn see_their_own_children() {
    let stage = Stage::new();
    stage.rehearsal("inner", "- say: inner", "");
    let home = home(&stage);
    let script = format!("{VOLERY} run inner hello >/dev/null; {VOLERY} ps --all --json");
    stage.backend("outer", &["/usr/bin/env", "-i", &home, "/bin/sh", "-c", &script]);
    stage.agent("outer", "backend: outer\ndelegates: anyone");
    let listed = with_one_slot(&stage, "outer").ok().json();
    let agents: Vec<&Value> = listed["runs"].as_array().unwrap().iter().map(|run| &run["agent"]).collect();
    assert_eq!(agents, [&json!("inner")]);
}

#[test]
fn may_not_answer_questions() {
    let stage = Stage::new();
    stage.people_answer();
    stage.rehearsal("asker", "- ask: may I?", "");
    let asker = stage.start("asker", "x");
    wait_for(PATIENCE, "the question", || {
        (stage.json(["show", &asker])["status"] == json!("waiting")).then_some(())
    });
    let home = home(&stage);
    inside(&stage, "answerer", &[&home], &["approve", &asker], "delegates: anyone");
    let said = with_slots(&stage, "answerer");
    let shown = stage.json(["show", spec_of(&stage, "answerer")["id"].as_str().unwrap()]);
    assert_eq!(shown["exit_code"], json!(3), "{said:?} {shown}");
    let told = shown["stderr_tail"].as_str().unwrap();
    assert!(told.contains("never from inside a run"), "{told}");
    assert_eq!(stage.json(["show", &asker])["status"], json!("waiting"));
    assert_eq!(stage.volery(["cancel", &asker]).code, 0);
    stage.outcome_by_itself(&asker, PATIENCE);
}

/// Kills the worker of a run with a child, and returns how long it takes until the run has its outcome.
fn lose_parent() -> Duration {
    let stage = Stage::new();
    stage.fake("slow", &["say:up", "setsid-child:60000", "sleep:60000"], "grace: 100ms");
    stage.rehearsal("top", "- delegate: {agent: slow, prompt: work}", "delegates: anyone");
    let top = stage.start("top", "x");
    let child = stage.newest_of(2);
    let spool = stage.run_dir(&child).join("stdout");
    wait_for(PATIENCE, "the child to be up", || fs::read(&spool).ok().filter(|said| !said.is_empty()));
    crew(&stage.run_dir(&top)).worker.unwrap().signal(Signal::KILL);
    let since = Instant::now();
    stage.outcome_by_itself(&top, PATIENCE);
    let took = since.elapsed();
    let ending = stage.outcome_by_itself(&child, PATIENCE);
    assert_eq!(ending["cause"]["cause"], json!("cancelled"), "{ending}");
    assert_eq!(tagged(stage.tag(&child)), Vec::<u32>::new());
    took
}

#[test]
fn end_with_their_parent_and_do_not_hold_up_its_end() {
    let took = lose_parent();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn end_with_a_parent_that_was_killed_while_it_started_them() {
    let stage = Stage::new();
    stage.fake("slow", &["say:up", "hang"], "grace: 100ms");
    stage.rehearsal("top", "- delegate: {agent: slow, prompt: work}", "delegates: anyone");
    stage.hold("worker_started_child");
    let top = stage.start("top", "x");
    let worker = stage.held("worker_started_child");
    let child = stage.newest_of(2);
    kill(worker, Signal::KILL);
    let ending = stage.outcome_by_itself(&child, PATIENCE);
    let by = format!("the end of its parent {}", &top[top.len() - 8..]);
    let cancelled = ending["by"] == json!(by) || ending["cause"]["by"] == json!(by);
    assert!(cancelled, "{ending}");
    assert_eq!(stage.outcome_by_itself(&top, PATIENCE)["outcome"], json!("interrupted"));
}

#[test]
fn are_found_again_by_a_parent_that_goes_on_after_a_kill() {
    let stage = Stage::new();
    let go = format!("wait-file:{}", stage.path("go").display());
    stage.fake("slow", &["say:up", &go], "");
    let more = "delegates: anyone\non_interrupt: resume\nlimits: {children: 1}";
    stage.rehearsal("top", "- delegate: {agent: slow, prompt: work}\n- say: done", more);
    let top = stage.start("top", "x");
    let child = stage.newest_of(2);
    stage.event(&child, "agent_started");
    let worker = crew(&stage.run_dir(&top)).worker.unwrap();
    worker.signal(Signal::KILL);
    wait_for(PATIENCE, "another worker", || {
        crew(&stage.run_dir(&top)).worker.filter(|other| other.pid != worker.pid)
    });
    fs::write(stage.path("go"), "").unwrap();
    stage.outcome_by_itself(&top, PATIENCE);
    assert_eq!(stage.json(["show", &top])["result"], json!("up\ndone\n"));
    assert_eq!(stage.runs(), [top, child], "the child was not started twice");
}

#[test]
fn that_never_began_are_started_by_a_parent_that_goes_on_after_a_kill() {
    let stage = Stage::new();
    stage.fake("quick", &["say:up"], "");
    let more = "delegates: anyone\non_interrupt: resume";
    stage.rehearsal("top", "- delegate: {agent: quick, prompt: work}\n- say: done", more);
    stage.hold("worker_recorded_child");
    let top = stage.start("top", "x");
    kill(stage.held("worker_recorded_child"), Signal::KILL);
    stage.release("worker_recorded_child");
    stage.outcome_by_itself(&top, PATIENCE);
    assert_eq!(stage.json(["show", &top])["result"], json!("up\ndone\n"));
    assert_eq!(stage.runs().len(), 3, "the one that never began, and the one that did");
}

#[test]
fn do_not_see_the_sums_of_other_projects() {
    let stage = Stage::new();
    stage.rehearsal("inner", "- say: inner", "");
    stage.volery(["run", "inner", "hello"]).ok();
    inside(&stage, "outer", &[&home(&stage)], &["health", "--all"], "delegates: anyone");
    refused(&stage, "outer", 3, "not yours to see from inside a run");
}
