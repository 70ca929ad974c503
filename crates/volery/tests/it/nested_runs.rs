//! Runs that are started from inside a run: they go through its worker, belong to it, share its slot, and see and
//! touch only what is below it.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{
    CommandOutput, PATIENCE, TestEnv, command_output, kill, run_processes, tagged, wait_for,
};

const VOLERY: &str = env!("CARGO_BIN_EXE_volery");

/// Defines an agent that is a `volery` command without any environment but what it is given here.
fn inside(env: &TestEnv, name: &str, variables: &[&str], words: &[&str], frontmatter: &str) {
    let command = [&["/usr/bin/env", "-i"], variables, &[VOLERY], words].concat();
    env.backend(name, &command).agent(name, &format!("backend: {name}\n{frontmatter}"));
}

fn home(env: &TestEnv) -> String {
    format!("VOLERY_HOME={}", env.path("state").display())
}

/// Runs an agent with one slot on the machine.
fn with_one_slot(env: &TestEnv, agent: &str) -> CommandOutput {
    command_output(env.command(["run", agent, "x"]).env("VOLERY_SLOTS", "1").output().unwrap())
}

fn spec_of(env: &TestEnv, agent: &str) -> Value {
    let specs = env.runs().into_iter().map(|id| env.spec(&id));
    specs.into_iter().find(|spec| spec["agent"] == json!(agent)).unwrap()
}

#[test]
fn use_the_slot_of_their_root() {
    let env = TestEnv::new();
    env.rehearsal("leaf", "- say: leaf got {prompt}", "");
    env.rehearsal("middle", "- delegate: {agent: leaf, prompt: deeper}", "delegates: anyone");
    env.rehearsal("top", "- delegate: {agent: middle, prompt: deep}\n- say: top", "delegates: anyone");
    let output = with_one_slot(&env, "top").ok();
    assert_eq!(output.stdout, "leaf got deeper\ntop\n");
    let (top, middle, leaf) = (spec_of(&env, "top"), spec_of(&env, "middle"), spec_of(&env, "leaf"));
    assert_eq!((&middle["parent"], &leaf["parent"]), (&top["id"], &middle["id"]));
    assert_eq!((&leaf["root"], &leaf["depth"]), (&top["id"], &json!(2)));
}

#[test]
fn without_their_environment_still_belong_to_their_run() {
    for containment in ["auto", "plain"] {
        let env = TestEnv::new();
        env.rehearsal("inner", "- say: inner got {prompt}", "");
        let home = home(&env);
        let more = format!("delegates: anyone\ncontainment: {containment}");
        inside(&env, "outer", &[&home], &["run", "inner", "hello"], &more);
        let output = with_one_slot(&env, "outer").ok();
        assert_eq!(output.stdout, "inner got hello\n");
        let (outer, inner) = (spec_of(&env, "outer"), spec_of(&env, "inner"));
        assert_eq!(
            (&inner["parent"], &inner["root"], &inner["depth"]),
            (&outer["id"], &outer["id"], &json!(1))
        );
        assert_eq!(inner["caller"], json!({"door": "run", "name": "outer"}));
        let shown = env.json(["show", outer["id"].as_str().unwrap()]);
        assert_eq!(shown["children"][0]["status"], json!("succeeded"), "{shown}");
    }
}

/// Plays an agent whose only act is a command inside its run, which must be refused, and returns what that says.
#[track_caller]
fn refused(env: &TestEnv, agent: &str, code: i32) -> String {
    let output = with_one_slot(env, agent);
    assert_eq!(output.code, 1, "{output:?}");
    let shown = env.json(["show", spec_of(env, agent)["id"].as_str().unwrap()]);
    assert_eq!(shown["exit_code"], json!(code), "{shown}");
    env.masked_texts(&shown["stderr_tail"])
}

#[test]
fn that_cannot_find_their_run_are_refused_with_the_reason() {
    let env = TestEnv::new();
    env.rehearsal("inner", "- say: inner", "");
    inside(&env, "outer", &[], &["run", "inner", "hello"], "delegates: anyone");
    insta::assert_snapshot!(refused(&env, "outer", 3), @"
    error: this process is inside a run, and the run's worker cannot be reached: VOLERY_HOME, or HOME if that is not set, must be an absolute path
    hint: child runs are started through the worker; VOLERY_HOME must be as it was outside
    ");
    assert_eq!(env.runs().len(), 1, "no run was started beside the refused one");
}

#[test]
fn in_another_state_directory_are_refused() {
    let env = TestEnv::new();
    env.rehearsal("inner", "- say: inner", "");
    let other = format!("VOLERY_HOME={}", env.path("home").display());
    inside(&env, "outer", &[&other], &["run", "inner", "hello"], "delegates: anyone");
    insta::assert_snapshot!(refused(&env, "outer", 3), @"
    error: this process is inside a run, and the run's worker cannot be reached: No such file or directory (os error 2)
    hint: child runs are started through the worker; VOLERY_HOME must be as it was outside
    ");
    assert_eq!(fs::read_dir(env.path("home")).unwrap().count(), 0, "nothing was written there");
}

#[test]
fn are_denied_to_those_who_may_not_delegate() {
    let env = TestEnv::new();
    env.rehearsal("inner", "- say: inner", "").rehearsal("friend", "- say: friend", "");
    let home = home(&env);
    inside(&env, "alone", &[&home], &["run", "inner", "hello"], "");
    insta::assert_snapshot!(refused(&env, "alone", 3), @"error: agent alone may not delegate to inner");
    inside(&env, "choosy", &[&home], &["run", "inner", "hello"], "delegates: [friend]");
    insta::assert_snapshot!(refused(&env, "choosy", 3), @"error: agent choosy may not delegate to inner");
}

#[test]
fn are_refused_below_the_greatest_depth() {
    let env = TestEnv::new();
    env.rehearsal("leaf", "- say: leaf", "");
    let home = home(&env);
    inside(&env, "middle", &[&home], &["run", "leaf", "x"], "delegates: anyone");
    inside(&env, "top", &[&home], &["run", "middle", "x"], "delegates: anyone\nlimits: {depth: 1}");
    refused(&env, "top", 1);
    let middle = spec_of(&env, "middle");
    let shown = env.json(["show", middle["id"].as_str().unwrap()]);
    insta::assert_snapshot!(env.masked_texts(&shown["stderr_tail"]), @"error: the limit on depth is reached: 1 are allowed");
    assert_eq!(shown["exit_code"], json!(4));
}

#[test]
fn are_refused_beyond_the_greatest_number_of_children() {
    let env = TestEnv::new();
    env.rehearsal("leaf", "- say: leaf got {prompt}", "");
    let steps = "- delegate: {agent: leaf, prompt: one}\n- delegate: {agent: leaf, prompt: two}";
    env.rehearsal("top", steps, "delegates: anyone\nlimits: {children: 1}");
    let output = with_one_slot(&env, "top");
    insta::assert_snapshot!(env.masked(&output.stdout), @"
    leaf got one
    the limit on children per run is reached: 1 are allowed
    ");
    assert_eq!(env.runs().len(), 2);
}

#[test]
fn are_refused_beyond_the_greatest_size_of_a_tree() {
    let env = TestEnv::new();
    env.rehearsal("leaf", "- say: leaf got {prompt}", "");
    env.rehearsal("middle", "- delegate: {agent: leaf, prompt: deeper}", "delegates: anyone");
    let steps = "- delegate: {agent: middle, prompt: one}\n- delegate: {agent: leaf, prompt: two}";
    env.rehearsal("top", steps, "delegates: anyone\nlimits: {tree_runs: 3}");
    let output = with_one_slot(&env, "top");
    insta::assert_snapshot!(env.masked(&output.stdout), @"
    leaf got deeper
    the limit on runs per tree is reached: 3 are allowed
    ");
    assert_eq!(env.runs().len(), 3);
}

#[test]
fn see_and_cancel_only_what_is_below_them() {
    let env = TestEnv::new();
    let go = format!("wait-file:{}", env.path("go").display());
    env.fake("slow", &[&go], "");
    let other = env.start("slow", "somebody else's");
    let home = home(&env);
    inside(&env, "lister", &[&home], &["ps", "--all", "--json"], "delegates: anyone");
    let listed: Value = with_slots(&env, "lister").ok().json();
    assert_eq!(listed["runs"], json!([]));
    inside(&env, "shower", &[&home], &["show", &other], "delegates: anyone");
    inside(&env, "canceller", &[&home], &["cancel", &other], "delegates: anyone");
    for agent in ["shower", "canceller"] {
        let output = with_slots(&env, agent);
        let shown = env.json(["show", spec_of(&env, agent)["id"].as_str().unwrap()]);
        assert_eq!(shown["exit_code"], json!(5), "{output:?} {shown}");
    }
    assert_eq!(env.json(["show", &other])["status"], json!("running"));
    fs::write(env.path("go"), "").unwrap();
    env.outcome_by_itself(&other, PATIENCE);
}

fn with_slots(env: &TestEnv, agent: &str) -> CommandOutput {
    command_output(env.command(["run", agent, "x"]).output().unwrap())
}

#[test]
fn see_their_own_children() {
    let env = TestEnv::new();
    env.rehearsal("inner", "- say: inner", "");
    let home = home(&env);
    let script = format!("{VOLERY} run inner hello >/dev/null; {VOLERY} ps --all --json");
    env.backend("outer", &["/usr/bin/env", "-i", &home, "/bin/sh", "-c", &script]);
    env.agent("outer", "backend: outer\ndelegates: anyone");
    let listed = with_one_slot(&env, "outer").ok().json();
    let agents: Vec<&Value> = listed["runs"].as_array().unwrap().iter().map(|run| &run["agent"]).collect();
    assert_eq!(agents, [&json!("inner")]);
}

/// The output of a child run can hide instructions from people. Its parent reads neither list, view, nor events with them.
#[test]
fn read_no_hidden_text_of_their_children() {
    let env = TestEnv::new();
    env.rehearsal("inner", "- say: \"seen\\U000E0041\\u200B text\"", "");
    let home = home(&env);
    let script = format!(
        "{VOLERY} run inner 'hello {}' >/dev/null; {VOLERY} logs --json; {VOLERY} logs --raw; {VOLERY} show --json; \
         {VOLERY} ps --all --json",
        "\u{e0041}\u{200b}"
    );
    env.backend("outer", &["/usr/bin/env", "-i", &home, "/bin/sh", "-c", &script]);
    env.agent("outer", "backend: outer\ndelegates: anyone");
    let read = with_one_slot(&env, "outer").ok().stdout;
    let is_hidden = |text: &str| text.contains(['\u{e0041}', '\u{200b}']);
    assert_eq!((read.matches("seen text").count() >= 3, is_hidden(&read)), (true, false), "{read}");
    assert!(read.contains("\"hello\"") || read.contains("\"hello \""), "{read}");
    // A person's own copy is complete.
    let inner = spec_of(&env, "inner")["id"].as_str().unwrap().to_owned();
    assert!(is_hidden(&Value::from(env.events(&inner)).to_string()));
    // The model of an MCP client reads no hidden text either.
    let mut client = env.serve().initialize("it");
    let shown = client.call("get_run", json!({"run_id": inner, "events_from": 0, "events_max": 100}));
    assert!(shown["events"].to_string().contains("seen text"), "{shown}");
    assert!(!is_hidden(&shown.to_string()), "{shown}");
}

#[test]
fn may_not_answer_questions() {
    let env = TestEnv::new();
    env.people_answer();
    env.rehearsal("asker", "- ask: may I?", "");
    let asker = env.start("asker", "x");
    wait_for(PATIENCE, "the question", || {
        (env.json(["show", &asker])["status"] == json!("waiting")).then_some(())
    });
    let home = home(&env);
    inside(&env, "answerer", &[&home], &["approve", &asker], "delegates: anyone");
    let output = with_slots(&env, "answerer");
    let shown = env.json(["show", spec_of(&env, "answerer")["id"].as_str().unwrap()]);
    assert_eq!(shown["exit_code"], json!(3), "{output:?} {shown}");
    insta::assert_snapshot!(env.masked_texts(&shown["stderr_tail"]), @"error: questions are answered by people, never from inside a run");
    assert_eq!(env.json(["show", &asker])["status"], json!("waiting"));
    assert_eq!(env.volery(["cancel", &asker]).code, 0);
    env.outcome_by_itself(&asker, PATIENCE);
}

#[test]
fn end_with_their_parent() {
    let env = TestEnv::new();
    env.fake("slow", &["say:up", "setsid-child:60000", "sleep:60000"], "grace: 100ms");
    env.rehearsal("top", "- delegate: {agent: slow, prompt: work}", "delegates: anyone");
    let top = env.start("top", "x");
    let child = env.wait_for_run_count(2);
    let spool = env.run_dir(&child).join("stdout");
    wait_for(PATIENCE, "the child to be up", || fs::read(&spool).ok().filter(|bytes| !bytes.is_empty()));
    run_processes(&env.run_dir(&top)).worker.unwrap().signal(Signal::KILL);
    env.outcome_by_itself(&top, PATIENCE);
    let ending = env.outcome_by_itself(&child, PATIENCE);
    assert_eq!(ending["cause"]["cause"], json!("cancelled"), "{ending}");
    assert_eq!(tagged(env.tag(&child)), Vec::<u32>::new());
}

#[test]
fn end_with_a_parent_that_was_killed_while_it_started_them() {
    let env = TestEnv::new();
    env.fake("slow", &["say:up", "hang"], "grace: 100ms");
    env.rehearsal("top", "- delegate: {agent: slow, prompt: work}", "delegates: anyone");
    env.hold("worker_started_child");
    let top = env.start("top", "x");
    let worker = env.wait_until_held("worker_started_child");
    let child = env.wait_for_run_count(2);
    kill(worker, Signal::KILL);
    let ending = env.outcome_by_itself(&child, PATIENCE);
    let by = format!("the end of its parent {}", &top[top.len() - 8..]);
    let cancelled = ending["by"] == json!(by) || ending["cause"]["by"] == json!(by);
    assert!(cancelled, "{ending}");
    assert_eq!(env.outcome_by_itself(&top, PATIENCE)["outcome"], json!("interrupted"));
}

#[test]
fn are_found_again_by_a_parent_that_goes_on_after_a_kill() {
    let env = TestEnv::new();
    let go = format!("wait-file:{}", env.path("go").display());
    env.fake("slow", &["say:up", &go], "");
    let more = "delegates: anyone\non_interrupt: resume\nlimits: {children: 1}";
    env.rehearsal("top", "- delegate: {agent: slow, prompt: work}\n- say: done", more);
    let top = env.start("top", "x");
    let child = env.wait_for_run_count(2);
    env.wait_for_event(&child, "agent_started");
    let worker = run_processes(&env.run_dir(&top)).worker.unwrap();
    worker.signal(Signal::KILL);
    wait_for(PATIENCE, "another worker", || {
        run_processes(&env.run_dir(&top)).worker.filter(|other| other.pid != worker.pid)
    });
    fs::write(env.path("go"), "").unwrap();
    env.outcome_by_itself(&top, PATIENCE);
    assert_eq!(env.json(["show", &top])["result"], json!("up\ndone\n"));
    assert_eq!(env.runs(), [top, child], "the child was not started twice");
}

#[test]
fn that_never_began_are_started_by_a_parent_that_goes_on_after_a_kill() {
    let env = TestEnv::new();
    env.fake("quick", &["say:up"], "");
    let more = "delegates: anyone\non_interrupt: resume";
    env.rehearsal("top", "- delegate: {agent: quick, prompt: work}\n- say: done", more);
    env.hold("worker_recorded_child");
    let top = env.start("top", "x");
    kill(env.wait_until_held("worker_recorded_child"), Signal::KILL);
    env.release("worker_recorded_child");
    env.outcome_by_itself(&top, PATIENCE);
    assert_eq!(env.json(["show", &top])["result"], json!("up\ndone\n"));
    assert_eq!(env.runs().len(), 3, "the one that never began, and the one that did");
}

#[test]
fn do_not_see_the_sums_of_other_projects() {
    let env = TestEnv::new();
    env.rehearsal("inner", "- say: inner", "");
    env.volery(["run", "inner", "hello"]).ok();
    inside(&env, "outer", &[&home(&env)], &["health", "--all"], "delegates: anyone");
    insta::assert_snapshot!(refused(&env, "outer", 3), @"error: health sums up runs that are not yours to see from inside a run");
}
