//! A run that passes a limit is killed, and both the limit and what enforced it are named; also on a machine that has
//! no control groups to give.

use serde_json::{Value, json};

use crate::test_env::{TestEnv, command_output, control_groups, fake_agent, tagged};

/// Runs an agent beyond a limit, and returns the outcome and what enforced which limit.
fn beyond(limits: &str, steps: &[&str]) -> (Value, Value) {
    let env = TestEnv::new();
    env.fake("greedy", steps, &format!("limits: {{{limits}}}"));
    let run = env.volery(["run", "greedy", "go", "--json"]);
    let id = env.only_run();
    assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
    let shown = run.json();
    let expected = if shown["status"] == "succeeded" { 0 } else { 4 };
    assert_eq!(run.code, expected, "{run:?}");
    (shown["outcome"].clone(), shown["containment"]["limits"].clone())
}

fn passed(limit: &str) -> Value {
    json!({"outcome": "failed", "kind": "limit", "limit": limit})
}

#[test]
fn memory() {
    let (outcome, by) = beyond("memory: 64MiB", &["say:so far", "memory:300000000", "sleep:20000"]);
    assert_eq!(outcome, passed("memory"));
    // A control group where one can be had, else the worker's own watch.
    assert!(by == json!({"memory": "cgroup"}) || by == json!({"memory": "watch"}), "{by}");
}

#[test]
fn memory_of_the_whole_tree_and_not_of_one_process() {
    let env = TestEnv::new();
    let fake = fake_agent();
    let fake = fake.display();
    let script = format!("for i in 1 2 3 4 5 6; do {fake} memory:20000000 sleep:20000 & done; wait");
    env.backend("crowd", &["sh", "-c", &script]);
    env.agent("crowd", "backend: crowd\nlimits: {memory: 64MiB}");
    let run = env.volery(["run", "crowd", "go", "--json"]).exits(4).json();
    assert_eq!(run["outcome"], passed("memory"));
    assert_eq!(tagged(env.tag(&env.only_run())), Vec::<u32>::new());
}

#[test]
fn cpu_time() {
    let (outcome, by) = beyond("cpu: 300ms", &["spin:60000"]);
    assert_eq!((outcome, by), (passed("cpu"), json!({"cpu": "watch"})));
}

#[test]
fn processes() {
    let child = "grandchild:60000";
    let (outcome, by) = beyond("processes: 4", &[child, child, child, child, child, child, "sleep:20000"]);
    assert_eq!(outcome, passed("processes"));
    assert!(by == json!({"processes": "cgroup"}) || by == json!({"processes": "watch"}), "{by}");
}

#[test]
fn the_size_of_a_file() {
    let env = TestEnv::new();
    let path = env.path("big");
    let (outcome, by) = beyond("file_size: 1MiB", &[&format!("big-file:{}:5000000", path.display())]);
    assert_eq!((outcome, by), (passed("file_size"), json!({"file_size": "rlimit"})));
    assert_eq!(std::fs::metadata(path).unwrap().len(), 1 << 20);
}

#[test]
fn open_files_are_refused_by_the_kernel() {
    let env = TestEnv::new();
    env.fake("opener", &["open-files:100"], "limits: {open_files: 20}");
    let run = env.volery(["run", "opener", "go", "--json"]).ok().json();
    assert_eq!(run["result"], json!("opened 17\n"));
    assert_eq!(run["containment"]["limits"], json!({"open_files": "rlimit"}));
}

#[test]
fn a_run_within_its_limits_is_left_alone() {
    let limits = "memory: 512MiB, cpu: 30s, processes: 50, open_files: 100, file_size: 10MiB";
    let (outcome, by) = beyond(limits, &["memory:1000000", "sleep:600", "say:fine"]);
    assert_eq!(outcome, json!({"outcome": "succeeded"}));
    assert_eq!(by.as_object().unwrap().len(), 5, "{by}");
}

/// Runs a program beyond a limit where no control group can be had, and checks that the limit is named, who enforced
/// it, and that nothing is left.
#[track_caller]
fn killed_without_groups(command: &[&str], limits: &str, limit: &str) {
    for containment in ["auto", "plain"] {
        let env = TestEnv::new();
        // If the limit did not hold, the time-out would end the run with another outcome.
        let more = format!("containment: {containment}\ntimeout: 30s\ngrace: 1s\nlimits: {{{limits}}}");
        env.backend("greedy", command).agent("greedy", &format!("backend: greedy\n{more}"));
        let mut run = env.command(["run", "greedy", "go", "--json"]);
        let run = command_output(run.env("VOLERY_TEST_WITHOUT_CGROUP", "1").output().unwrap());
        let shown = run.exits(4).json();
        assert_eq!(shown["outcome"], passed(limit), "{containment}: {shown}");
        assert_eq!(shown["containment"]["limits"], json!({limit: "watch"}), "{containment}: {shown}");
        assert_eq!(shown["containment"].get("cgroup"), None, "{containment}: {shown}");
        let tag = env.tag(&env.only_run());
        assert_eq!(tagged(tag), Vec::<u32>::new(), "{containment}");
        assert_eq!(control_groups(&[tag].into()), Vec::<std::path::PathBuf>::new(), "{containment}");
    }
}

/// Like [`killed_without_groups`], for a shell script in which `$0` is the fake agent.
#[track_caller]
fn script_killed_without_groups(script: &str, limits: &str, limit: &str) {
    killed_without_groups(&["sh", "-c", script, fake_agent().to_str().unwrap()], limits, limit);
}

#[test]
fn memory_without_control_groups() {
    script_killed_without_groups("exec $0 memory:300000000 sleep:20000", "memory: 64MiB", "memory");
    let crowd = "for i in 1 2 3 4 5 6; do $0 memory:20000000 sleep:20000 & done; wait";
    script_killed_without_groups(crowd, "memory: 64MiB", "memory");
}

#[test]
fn cpu_time_without_control_groups() {
    script_killed_without_groups("exec $0 spin:60000", "cpu: 300ms", "cpu");
    // No process of these uses much, and most have ended when the sum is reached.
    script_killed_without_groups("while :; do $0 spin:50; done", "cpu: 1s", "cpu");
}

#[test]
fn processes_without_control_groups() {
    let crowd = "for i in 1 2 3 4 5 6; do $0 sleep:20000 & done; wait";
    script_killed_without_groups(crowd, "processes: 4", "processes");
    // Also those that have left the agent's session.
    let strayed = "$0 setsid-child:60000 double-fork:60000 setsid-child:60000 double-fork:60000 sleep:20000";
    script_killed_without_groups(strayed, "processes: 4", "processes");
}

#[test]
fn a_run_within_its_limits_is_left_alone_without_control_groups() {
    let env = TestEnv::new();
    let limits = "limits: {memory: 512MiB, cpu: 30s, processes: 50, open_files: 100, file_size: 10MiB}";
    env.fake("modest", &["memory:1000000", "sleep:600", "say:fine"], limits);
    let mut run = env.command(["run", "modest", "go", "--json"]);
    let run = command_output(run.env("VOLERY_TEST_WITHOUT_CGROUP", "1").output().unwrap()).ok().json();
    let by = json!({
        "memory": "watch", "cpu": "watch", "processes": "watch", "open_files": "rlimit", "file_size": "rlimit",
    });
    assert_eq!((&run["result"], &run["containment"]["limits"]), (&json!("fine\n"), &by));
}
