//! Which files changed while a run went on: in its record, on its page, and for its caller.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, git, kill, wait_for};

/// A stage whose project is a git repository with a commit.
fn repository() -> Stage {
    let stage = Stage::new();
    let project = stage.project();
    fs::write(project.join("kept.txt"), "kept\n").unwrap();
    fs::write(project.join("notes.md"), "old\n").unwrap();
    git(&project, &["init", "--quiet", "--initial-branch", "main"]);
    git(&project, &["add", "--all"]);
    git(&project, &["commit", "--quiet", "--message", "first"]);
    stage
}

fn files(shown: &Value) -> Vec<String> {
    let files = shown["changes"]["files"].as_array().unwrap_or_else(|| panic!("no changes in {shown}"));
    let line =
        |file: &Value| format!("{} {}", file["change"].as_str().unwrap(), file["path"].as_str().unwrap());
    files.iter().map(line).collect()
}

#[test]
fn of_a_rehearsal_the_files_it_wrote() {
    let stage = repository();
    let steps =
        "- write: {path: notes.md, text: new}\n- write: {path: made/here.txt, text: new}\n- say: done";
    stage.rehearsal("writer", steps, "");
    let said = stage.volery(["run", "writer", "x"]).ok();
    assert!(said.stderr.contains("2 files changed"), "{said:?}");
    let shown = stage.json(["show", &stage.only_run()]);
    assert_eq!(files(&shown), ["added made/here.txt", "modified notes.md"]);
    let page = stage.volery(["show", &stage.only_run()]).ok().stdout;
    assert!(page.contains("added     made/here.txt"), "{page}");
    assert!(stage.events(&stage.only_run()).iter().any(|event| event["type"] == json!("files_changed")));
}

#[test]
fn of_a_process_what_it_did_and_committed_below_the_work_tree() {
    let stage = repository();
    let project = stage.project();
    let below = project.join("below");
    fs::create_dir(&below).unwrap();
    fs::write(project.join("dirty.txt"), "was dirty before\n").unwrap();
    let script = "git mv ../kept.txt ../moved.txt && rm ../notes.md && echo x > new.txt && \
                  git -c user.name=A -c user.email=a@b.c commit --quiet --all --message second && echo y > later.txt";
    stage.backend("shell", &["/bin/sh", "-c", script]).agent("shell", "backend: shell");
    let said = stage.volery(["run", "shell", "x", "--dir", below.to_str().unwrap()]).ok();
    assert!(said.stderr.contains("4 files changed"), "{said:?}");
    let shown = stage.json(["show", &stage.only_run()]);
    assert_eq!(
        files(&shown),
        ["added below/later.txt", "added below/new.txt", "renamed moved.txt", "deleted notes.md"]
    );
    assert_ne!(shown["changes"]["commits"]["before"], shown["changes"]["commits"]["after"]);
    assert_eq!(shown["changes"]["root"], json!(project.canonicalize().unwrap()));
}

#[test]
fn to_a_client_with_the_result_and_bounded() {
    let stage = repository();
    let script = "for n in $(seq 1 1200); do echo x > file-$n; done; echo done";
    stage.backend("shell", &["/bin/sh", "-c", script]).agent("shell", "backend: shell");
    let mut client = stage.serve().initialize("test");
    let directory = stage.project().display().to_string();
    let result = client
        .call("run_agent", json!({"agent": "shell", "prompt": "x", "directory": directory, "wait_s": 40}));
    let changed = &result["changed_files"];
    assert_eq!((&changed["count"], &changed["left_out"]), (&json!(1200), &json!(1150)), "{result}");
    let run = result["run_id"].clone();
    let result = client.call("get_run", json!({"run_id": run}));
    let changed = &result["changed_files"];
    assert_eq!(changed["files"].as_array().unwrap().len(), 500);
    assert_eq!(changed["files"][0], json!({"path": "file-1", "change": "added"}));
    let shown = stage.json(["show", run.as_str().unwrap()]);
    assert_eq!(files(&shown).len(), 1000);
    assert_eq!(shown["changes"]["left_out"], json!(200));
}

#[test]
fn is_not_known_outside_of_a_work_tree_or_without_git_and_that_is_no_error() {
    let stage = Stage::new();
    stage.rehearsal("writer", "- write: {path: notes.md, text: new}\n- say: done", "");
    let said = stage.volery(["run", "writer", "x"]).ok();
    assert!(!said.stderr.contains("changed"), "{said:?}");
    assert_eq!(stage.json(["show", &stage.only_run()])["changes"], Value::Null);
    let stage = repository();
    stage.rehearsal("writer", "- write: {path: notes.md, text: new}\n- say: done", "");
    let mut command = stage.command(["run", "writer", "x"]);
    let output = command.env("PATH", stage.path("home")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown = stage.json(["show", &stage.only_run()]);
    assert_eq!((&shown["changes"], &shown["warnings"]), (&Value::Null, &Value::Null));
}

#[test]
fn is_told_of_a_run_whose_worker_was_killed() {
    let stage = repository();
    stage.rehearsal("writer", "- write: {path: notes.md, text: new}\n- sleep: 600s", "");
    let run = stage.start("writer", "x");
    wait_for(PATIENCE, "the write", || {
        stage.events(&run).into_iter().filter(|event| event["type"] == "call_requested").nth(1)
    });
    let claimed = stage.event(&run, "claimed");
    kill(u32::try_from(claimed["worker_pid"].as_u64().unwrap()).unwrap(), Signal::KILL);
    let shown = stage.ended(&run);
    assert_eq!(shown["status"], json!("interrupted"), "{shown}");
    assert_eq!(files(&shown), ["modified notes.md"]);
}

#[test]
fn covers_what_came_before_an_interruption_that_was_continued() {
    let stage = repository();
    let steps = "- write: {path: notes.md, text: new}\n- sleep: 3s\n- write: {path: second.md, text: new}";
    stage.rehearsal("writer", steps, "on_interrupt: resume");
    let run = stage.start("writer", "x");
    wait_for(PATIENCE, "the write", || {
        stage.events(&run).into_iter().filter(|event| event["type"] == "call_requested").nth(1)
    });
    let claimed = stage.event(&run, "claimed");
    kill(u32::try_from(claimed["worker_pid"].as_u64().unwrap()).unwrap(), Signal::KILL);
    assert_eq!(files(&stage.ended(&run)), ["modified notes.md", "added second.md"]);
    assert!(Path::new(&stage.project()).join("second.md").exists());
}
