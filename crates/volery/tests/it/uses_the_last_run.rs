//! A command that names no run means the last one that its caller started in this project.

use crate::test_env::{TestEnv, command_output};

#[test]
fn the_last_run_of_the_caller_in_this_project_is_meant() {
    let env = TestEnv::new();
    env.rehearsal("echo", "- say: \"{prompt}\"", "");
    let none = env.volery(["show"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&none), @"
    error: you have not started a run in this project
    hint: name one: `volery ps` lists the runs of this project, `volery ps --all` those of every project
    ");
    env.volery(["run", "echo", "first"]).ok();
    let second = env.start("echo", "second");
    env.wait_for_end(&second);
    // Neither a run of another project nor one of another caller is meant, though both are newer.
    let echo = ".volery/agents/echo.md";
    std::fs::create_dir_all(env.path("other/.volery/agents")).unwrap();
    std::fs::copy(env.project().join(echo), env.path("other").join(echo)).unwrap();
    let mut elsewhere = env.command(["run", "echo", "elsewhere"]);
    command_output(elsewhere.current_dir(env.path("other")).output().unwrap()).ok();
    let mut client = env.serve().initialize("another");
    client.call("run_agent", serde_json::json!({ "agent": "echo", "prompt": "of a client" }));
    // Nor one of a client that does not say its name.
    let mut nameless = env.serve().initialize("");
    nameless.call("run_agent", serde_json::json!({ "agent": "echo", "prompt": "of somebody" }));

    assert_eq!(env.json(["show"])["run_id"], second.as_str());
    let shown = env.volery(["logs", "--raw"]).ok();
    assert_eq!(shown.stdout, "second\n");
    insta::assert_snapshot!(env.masked(&shown.stderr), @"the last run: [run-id] echo: second");
    assert_eq!(env.volery(["wait"]).ok().stdout.trim(), "second");
    let cancelled = env.volery(["cancel"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&cancelled), @"[run-id] has ended already");
    let resumed = env.volery(["resume"]);
    assert_ne!(resumed.code, 0, "{resumed:?}");
    assert!(resumed.stderr.contains(&second[second.len() - 8..]), "{resumed:?}");
    insta::assert_snapshot!(env.masked(&resumed.stderr), @r#"
    the last run: [run-id] echo: second
    error: the run [run-id] was not interrupted: succeeded
    hint: to continue its conversation: volery run echo --session [run id] "…"
    "#);
}
