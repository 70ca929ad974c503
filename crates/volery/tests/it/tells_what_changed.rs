//! Which files changed while a run went on: in its record, on its page, and for its caller.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, git, kill, wait_for};

/// A test environment whose project is a git repository with a commit.
fn repository() -> TestEnv {
    let env = TestEnv::new();
    let project = env.project();
    fs::write(project.join("kept.txt"), "kept\n").unwrap();
    fs::write(project.join("notes.md"), "old\n").unwrap();
    git(&project, &["init", "--quiet", "--initial-branch", "main"]);
    git(&project, &["add", "--all"]);
    git(&project, &["commit", "--quiet", "--message", "first"]);
    env
}

fn files(shown: &Value) -> Vec<String> {
    let files = shown["changes"]["files"].as_array().unwrap_or_else(|| panic!("no changes in {shown}"));
    let line =
        |file: &Value| format!("{} {}", file["change"].as_str().unwrap(), file["path"].as_str().unwrap());
    files.iter().map(line).collect()
}

#[test]
fn of_a_rehearsal_the_files_it_wrote() {
    let env = repository();
    let steps =
        "- write: {path: notes.md, text: new}\n- write: {path: made/here.txt, text: new}\n- say: done";
    env.rehearsal("writer", steps, "");
    let output = env.volery(["run", "writer", "x"]).ok();
    insta::assert_snapshot!(env.masked(&output.stderr), @"[run-id] succeeded in [span], 2 files changed");
    let shown = env.json(["show", &env.only_run()]);
    assert_eq!(files(&shown), ["added made/here.txt", "modified notes.md"]);
    let page = env.volery(["show", &env.only_run()]).ok().stdout;
    insta::assert_snapshot!(env.masked(&page), @r"
    run         [run id]
    short id    [run-id]
    agent       writer (backend rehearsal)
    status      succeeded
    asked by    you
    prompt      x
    questions   denied at once: the command has no terminal
    created     [time] ([span] ago)
    started     [time] ([span] ago)
    ended       [time] ([span] ago)
    time        [span]
    tokens      not known
    cost        not known
    directory   [stage]/project
    success     unverified (no accept commands)
    session     [run id]
    changed     2 files changed
                added     made/here.txt
                modified  notes.md

    result (5 B)
      done
    ");
    assert!(env.events(&env.only_run()).iter().any(|event| event["type"] == json!("files_changed")));
}

#[test]
fn of_a_process_what_it_did_and_committed_below_the_work_tree() {
    let env = repository();
    let project = env.project();
    let below = project.join("below");
    fs::create_dir(&below).unwrap();
    fs::write(project.join("dirty.txt"), "was dirty before\n").unwrap();
    let script = "git mv ../kept.txt ../moved.txt && rm ../notes.md && echo x > new.txt && \
                  git -c user.name=A -c user.email=a@b.c commit --quiet --all --message second && echo y > later.txt";
    env.backend("shell", &["/bin/sh", "-c", script]).agent("shell", "backend: shell");
    let output = env.volery(["run", "shell", "x", "--dir", below.to_str().unwrap()]).ok();
    insta::assert_snapshot!(env.masked(&output.stderr), @"[run-id] succeeded in [span], 4 files changed");
    let shown = env.json(["show", &env.only_run()]);
    assert_eq!(
        files(&shown),
        ["added below/later.txt", "added below/new.txt", "renamed moved.txt", "deleted notes.md"]
    );
    assert_ne!(shown["changes"]["commits"]["before"], shown["changes"]["commits"]["after"]);
    assert_eq!(shown["changes"]["root"], json!(project.canonicalize().unwrap()));
}

#[test]
fn to_a_client_with_the_result_and_bounded() {
    let env = repository();
    let script = "for n in $(seq 1 1200); do echo x > file-$n; done; echo done";
    env.backend("shell", &["/bin/sh", "-c", script]).agent("shell", "backend: shell");
    let mut client = env.serve().initialize("test");
    let directory = env.project().display().to_string();
    let result = client
        .call("run_agent", json!({"agent": "shell", "prompt": "x", "directory": directory, "wait_s": 40}));
    let changed = &result["changed_files"];
    assert_eq!((&changed["count"], &changed["left_out"]), (&json!(1200), &json!(1150)), "{result}");
    let run = result["run_id"].clone();
    let result = client.call("get_run", json!({"run_id": run}));
    let changed = &result["changed_files"];
    assert_eq!(changed["files"].as_array().unwrap().len(), 500);
    assert_eq!(changed["files"][0], json!({"path": "file-1", "change": "added"}));
    let shown = env.json(["show", run.as_str().unwrap()]);
    assert_eq!(files(&shown).len(), 1000);
    assert_eq!(shown["changes"]["left_out"], json!(200));
}

#[test]
fn is_not_known_outside_of_a_work_tree_or_without_git_and_that_is_no_error() {
    let env = TestEnv::new();
    env.rehearsal("writer", "- write: {path: notes.md, text: new}\n- say: done", "");
    let output = env.volery(["run", "writer", "x"]).ok();
    insta::assert_snapshot!(env.masked(&output.stderr), @"[run-id] succeeded in [span]");
    assert_eq!(env.json(["show", &env.only_run()])["changes"], Value::Null);
    let env = repository();
    env.rehearsal("writer", "- write: {path: notes.md, text: new}\n- say: done", "");
    let mut command = env.command(["run", "writer", "x"]);
    let output = command.env("PATH", env.path("home")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown = env.json(["show", &env.only_run()]);
    assert_eq!((&shown["changes"], &shown["warnings"]), (&Value::Null, &Value::Null));
}

#[test]
fn is_reported_for_a_run_whose_worker_was_killed() {
    let env = repository();
    env.rehearsal("writer", "- write: {path: notes.md, text: new}\n- sleep: 600s", "");
    let run = env.start("writer", "x");
    wait_for(PATIENCE, "the write", || {
        env.events(&run).into_iter().filter(|event| event["type"] == "call_requested").nth(1)
    });
    let claimed = env.wait_for_event(&run, "claimed");
    kill(u32::try_from(claimed["worker_pid"].as_u64().unwrap()).unwrap(), Signal::KILL);
    let shown = env.wait_for_end(&run);
    assert_eq!(shown["status"], json!("interrupted"), "{shown}");
    assert_eq!(files(&shown), ["modified notes.md"]);
}

#[test]
fn covers_what_came_before_an_interruption_that_was_continued() {
    let env = repository();
    let steps = "- write: {path: notes.md, text: new}\n- sleep: 3s\n- write: {path: second.md, text: new}";
    env.rehearsal("writer", steps, "on_interrupt: resume");
    let run = env.start("writer", "x");
    wait_for(PATIENCE, "the write", || {
        env.events(&run).into_iter().filter(|event| event["type"] == "call_requested").nth(1)
    });
    let claimed = env.wait_for_event(&run, "claimed");
    kill(u32::try_from(claimed["worker_pid"].as_u64().unwrap()).unwrap(), Signal::KILL);
    assert_eq!(files(&env.wait_for_end(&run)), ["modified notes.md", "added second.md"]);
    assert!(Path::new(&env.project()).join("second.md").exists());
}
