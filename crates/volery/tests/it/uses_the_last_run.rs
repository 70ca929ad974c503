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
    let cancelled = env.volery(["cancel"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&cancelled), @"
    error: none of your runs in this project is active
    hint: name one: `volery ps --all` lists the active runs of every project
    ");
    let resumed = env.volery(["resume"]);
    assert_ne!(resumed.code, 0, "{resumed:?}");
    assert!(resumed.stderr.contains(&second[second.len() - 8..]), "{resumed:?}");
    insta::assert_snapshot!(env.masked(&resumed.stderr), @r#"
    the last run: [run-id] echo: second
    error: the run [run-id] was not interrupted: succeeded
    hint: to continue its conversation: volery run echo --session [run id] "…"
    "#);
}

#[test]
fn a_cancel_means_the_last_run_that_is_active() {
    let env = TestEnv::new();
    env.rehearsal("echo", "- say: \"{prompt}\"", "");
    env.rehearsal("sleeper", "- sleep: 10m", "");
    let older = env.start("sleeper", "older");
    let sleeper = env.start("sleeper", "newer");
    env.wait_for_event(&sleeper, "claimed");
    env.volery(["run", "echo", "newest"]).ok();
    let cancelled = env.volery(["cancel"]).ok();
    insta::assert_snapshot!(env.masked(&cancelled.stderr), @"the last active run: [run-id] sleeper: newer");
    assert_eq!(env.wait_for_end(&sleeper)["status"], "cancelled");
    assert_eq!(env.json(["show", &older])["ended"], false);
    env.volery(["cancel", &older]).ok();
    env.wait_for_end(&older);
}

#[test]
fn piped_input_that_is_not_read_is_named() {
    let env = TestEnv::new();
    env.rehearsal("echo", "- say: \"{prompt}\"", "");
    let file = env.path("notes");
    std::fs::write(&file, "text\n").unwrap();
    let run = |words: &[&str], file: &std::path::Path| {
        let stdin = std::fs::File::open(file).unwrap();
        command_output(env.command([&["run", "echo"], words].concat()).stdin(stdin).output().unwrap()).ok()
    };
    let ignored = run(&["hello"], &file);
    assert_eq!(ignored.stdout, "hello\n");
    insta::assert_snapshot!(env.masked(&ignored.stderr), @"
    warning: standard input is not read, because the prompt is an argument; to pass it, write - as the prompt
    [run-id] succeeded in [span]
    ");
    assert_eq!(run(&["-"], &file).stdout.trim(), "text");
    for (words, file) in [(&["hello"][..], std::path::Path::new("/dev/null")), (&["-"], &file), (&[], &file)]
    {
        assert!(!run(words, file).stderr.contains("standard input"), "{words:?}");
    }
}
