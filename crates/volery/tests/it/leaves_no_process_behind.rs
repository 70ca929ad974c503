//! Whatever an agent starts, and however it tries to get away, it is gone when the run has ended.

use serde_json::json;

use crate::test_env::{TestEnv, tagged, with_argument};

const KINDS: [&str; 11] = [
    "setsid-child",
    "double-fork",
    "grandchild",
    "clean-env-child",
    "overwrite-env-child",
    "non-dumpable-child",
    "term-ignoring-child",
    "fork-chain",
    "lowered-limit-child",
    "leaderless-child",
    "stopped-child",
];

/// Runs an agent that leaves a child of each kind behind, one run per kind.
fn check(containment: &str, first_life: u32) {
    let env = TestEnv::new();
    for (kind, life) in KINDS.into_iter().zip(first_life..) {
        // The life of the child is also the mark by which it is found, whatever it did to its tags.
        let child = format!("{kind}:{life}");
        env.fake(kind, &[&child, "say:done"], &format!("containment: {containment}"));
        let run = env.volery(["run", kind, "go"]).ok();
        assert_eq!(run.stdout, "done\n", "{kind}");
        assert_eq!(with_argument(&format!(":{life}")), Vec::<u32>::new(), "{kind}");
    }
    for id in env.runs() {
        assert_eq!(tagged(env.tag(&id)), Vec::<u32>::new());
        let shown = env.json(["show", &id]);
        assert_eq!(shown["status"], json!("succeeded"), "{shown}");
    }
}

#[test]
fn with_the_strongest_means_there_are() {
    check("auto", 7_100_100);
}

#[test]
fn without_a_pid_namespace() {
    check("plain", 7_200_100);
}

#[test]
fn an_agent_that_ignores_the_order_to_stop_is_killed_with_its_children() {
    let env = TestEnv::new();
    let steps = ["ignore-term", "term-ignoring-child:7300100", "setsid-child:7300100", "part:so far", "hang"];
    env.fake("deaf", &steps, "timeout: 2s\ngrace: 200ms\ncontainment: plain");
    let run = env.volery(["run", "deaf", "go", "--json"]).exits(4).json();
    assert_eq!(
        run["outcome"],
        json!({"outcome": "partial", "cause": {"cause": "timed_out", "limit": "total"}})
    );
    assert_eq!(run["result"], json!("so far"));
    assert_eq!(with_argument(":7300100"), Vec::<u32>::new());
    assert_eq!(tagged(env.tag(&env.only_run())), Vec::<u32>::new());
}
