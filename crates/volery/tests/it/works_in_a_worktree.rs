//! A run in a git work tree of its own: the user's is not touched, what was done stays as a branch, and nothing else
//! stays, however the run ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::{PATIENCE, Stage, git, kill, said, wait_for};

const ISOLATED: &str = "isolation: worktree";

/// A stage whose project is a git repository with a commit, and something in it that is not committed.
fn repository() -> Stage {
    let stage = Stage::new();
    let project = stage.project();
    fs::write(project.join("notes.md"), "old\n").unwrap();
    fs::create_dir_all(project.join("below")).unwrap();
    fs::write(project.join("below/kept.txt"), "kept\n").unwrap();
    git(&project, &["init", "--quiet", "--initial-branch", "main"]);
    git(&project, &["add", "notes.md", "below"]);
    git(&project, &["commit", "--quiet", "--message", "first"]);
    fs::write(project.join("dirty.txt"), "the user's\n").unwrap();
    stage
}

fn trees(stage: &Stage) -> Vec<String> {
    let folder = stage.path("home/.local/share/volery-worktrees");
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Asserts that the user's tree is as it was, and that no work tree is left.
#[track_caller]
fn untouched(stage: &Stage) {
    let project = stage.project();
    assert_eq!(fs::read_to_string(project.join("notes.md")).unwrap(), "old\n");
    assert_eq!(fs::read_to_string(project.join("dirty.txt")).unwrap(), "the user's\n");
    assert!(!project.join("made.txt").exists());
    assert_eq!(git(&project, &["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(git(&project, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&project, &["status", "--porcelain", "--", "notes.md", "below", "made.txt"]), "");
    assert_eq!(trees(stage), Vec::<String>::new());
}

fn branch_of(stage: &Stage, run: &Value) -> String {
    let name = run["branch"]["name"].as_str().unwrap_or_else(|| panic!("no branch in {run}")).to_owned();
    let tip = git(&stage.project(), &["rev-parse", &name]);
    assert_eq!(run["branch"]["tip"], json!(tip));
    name
}

#[test]
fn and_leaves_what_it_did_on_a_branch() {
    let stage = repository();
    let steps = "- write: {path: notes.md, text: new}\n- write: {path: made.txt, text: made}\n- say: done";
    stage.rehearsal("writer", steps, ISOLATED);
    let said = stage.volery(["run", "writer", "x"]).ok();
    let run = stage.json(["show", &stage.only_run()]);
    let branch = branch_of(&stage, &run);
    assert_eq!(branch, format!("volery/writer-{}", run["short_id"].as_str().unwrap()));
    assert!(said.stderr.contains(&format!("2 files changed, on the branch {branch}")), "{said:?}");
    untouched(&stage);
    let project = stage.project();
    assert_eq!(git(&project, &["show", &format!("{branch}:notes.md")]), "new");
    let log = git(&project, &["log", "--format=%an <%ae> %s", "main..", &branch]);
    assert!(log.contains("<volery@localhost> writer: what the run"), "{log}");
    let page = stage.volery(["show", &stage.only_run()]).ok().stdout;
    assert!(page.contains(&format!("git merge {branch}")), "{page}");
    git(&project, &["merge", "--quiet", &branch]);
    assert_eq!(fs::read_to_string(project.join("made.txt")).unwrap(), "made");
}

#[test]
fn with_commits_of_its_own_and_the_users_name() {
    let stage = repository();
    fs::write(stage.path("home/.gitconfig"), "[user]\nname = Ada\nemail = ada@example.org\n").unwrap();
    let script =
        "pwd && echo one > made.txt && git add made.txt && git commit -q -m mine && echo two > rest.txt";
    stage.backend("shell", &["/bin/sh", "-c", script]).agent("shell", &format!("backend: shell\n{ISOLATED}"));
    let below = stage.project().join("below");
    let said = stage.volery(["run", "shell", "x", "--dir", below.to_str().unwrap()]).ok();
    let run = stage.json(["show", &stage.only_run()]);
    let branch = branch_of(&stage, &run);
    let place = format!("volery-worktrees/shell-{}/below", run["short_id"].as_str().unwrap());
    assert!(said.stdout.trim_end().ends_with(&place), "{said:?}");
    let log = git(&stage.project(), &["log", "--format=%an %s", &format!("main..{branch}")]);
    let subjects: Vec<&str> = log.lines().collect();
    assert_eq!(subjects.len(), 2, "{log}");
    assert!(subjects[0].starts_with("Ada shell: what the run") && subjects[1] == "Ada mine", "{log}");
    assert_eq!(git(&stage.project(), &["show", &format!("{branch}:below/rest.txt")]), "two");
    untouched(&stage);
}

#[test]
fn and_leaves_nothing_if_it_did_nothing() {
    let stage = repository();
    stage.rehearsal("reader", "- say: looked", ISOLATED);
    let said = stage.volery(["run", "reader", "x"]).ok();
    assert!(said.stderr.contains("no file changed"), "{said:?}");
    assert_eq!(stage.json(["show", &stage.only_run()])["branch"], Value::Null);
    assert_eq!(git(&stage.project(), &["branch", "--list", "volery/*"]), "");
    untouched(&stage);
}

#[test]
fn that_works_on_no_branch_or_another_one_loses_nothing() {
    let stage = repository();
    for (agent, script) in [
        ("detached", "git checkout -q --detach && echo x > made.txt"),
        ("elsewhere", "git checkout -q -b elsewhere && echo x > made.txt"),
    ] {
        stage
            .backend(agent, &["/bin/sh", "-c", script])
            .agent(agent, &format!("backend: {agent}\n{ISOLATED}"));
        let _ = stage.volery(["run", agent, "x"]).ok();
        let run = stage.json(["show", &stage.newest_of(if agent == "detached" { 1 } else { 2 })]);
        let branch = branch_of(&stage, &run);
        assert_eq!(git(&stage.project(), &["show", &format!("{branch}:made.txt")]), "x");
        untouched(&stage);
    }
    assert_eq!(git(&stage.project(), &["branch", "--list", "elsewhere"]).trim(), "elsewhere");
}

#[test]
fn says_which_branches_hold_what_the_one_of_its_result_does_not() {
    let stage = repository();
    let script = "git config user.name A && git config user.email a@example.org \
        && echo x > one.txt && git add one.txt && git commit -qm one \
        && git checkout -q -b other main && echo x > two.txt";
    stage.backend("two", &["/bin/sh", "-c", script]).agent("two", &format!("backend: two\n{ISOLATED}"));
    let _ = stage.volery(["run", "two", "x"]).ok();
    let run = stage.json(["show", &stage.only_run()]);
    let branch = branch_of(&stage, &run);
    assert_eq!(git(&stage.project(), &["show", &format!("{branch}:two.txt")]), "x");
    let own = branch.strip_suffix("-2").unwrap_or_else(|| panic!("{run}"));
    assert_eq!(git(&stage.project(), &["show", &format!("{own}:one.txt")]), "x");
    assert!(run["warnings"].to_string().contains(&format!("see also {own}\"")), "{run}");
}

#[test]
fn that_is_not_found_at_the_end_keeps_its_branch_and_says_so() {
    let stage = repository();
    let script = "here=$PWD && mkdir -p \"$HOME/kept\" && mv \"$here\" \"$HOME/kept/moved\"";
    stage.backend("mover", &["/bin/sh", "-c", script]).agent("mover", &format!("backend: mover\n{ISOLATED}"));
    let _ = stage.volery(["run", "mover", "x"]).ok();
    let run = stage.json(["show", &stage.only_run()]);
    assert!(run["warnings"].to_string().contains("git worktree repair"), "{run}");
    let own = format!("volery/mover-{}", run["short_id"].as_str().unwrap());
    assert_eq!(git(&stage.project(), &["rev-parse", &own]), git(&stage.project(), &["rev-parse", "main"]));
}

#[test]
fn that_cannot_be_had_is_refused_with_the_reason() {
    let stage = Stage::new();
    stage.rehearsal("writer", "- write: {path: made.txt, text: x}", ISOLATED);
    let refused = |reason: &str| {
        let said = stage.volery(["run", "writer", "x"]).exits(3);
        assert!(said.stderr.contains(reason), "{said:?}");
        assert!(!stage.project().join("made.txt").exists());
    };
    refused("is not in a git work tree");
    git(&stage.project(), &["init", "--quiet"]);
    refused("has no commit yet");
    let mut command = stage.command(["run", "writer", "x"]);
    let said = said(command.env("PATH", stage.path("home")).output().unwrap()).exits(3);
    assert!(said.stderr.contains("git is not installed"), "{said:?}");
}

#[test]
fn whose_worker_was_killed_is_settled_by_its_keeper() {
    let stage = repository();
    stage.rehearsal("writer", "- write: {path: made.txt, text: made}\n- sleep: 600s", ISOLATED);
    let run = stage.start("writer", "x");
    written(&stage, &run);
    kill(pid(&stage, &run, "worker_pid"), Signal::KILL);
    let shown = stage.ended(&run);
    assert_eq!(shown["status"], json!("interrupted"), "{shown}");
    assert_eq!(shown["changes"]["files"][0]["path"], json!("made.txt"), "{shown}");
    let branch = branch_of(&stage, &shown);
    assert_eq!(git(&stage.project(), &["show", &format!("{branch}:made.txt")]), "made");
    untouched(&stage);
}

#[test]
fn whose_keeper_was_killed_too_is_settled_by_whoever_looks() {
    let stage = repository();
    stage.rehearsal("writer", "- write: {path: made.txt, text: made}\n- sleep: 600s", ISOLATED);
    let run = stage.start("writer", "x");
    written(&stage, &run);
    kill(pid(&stage, &run, "keeper_pid"), Signal::STOP);
    kill(pid(&stage, &run, "worker_pid"), Signal::KILL);
    kill(pid(&stage, &run, "keeper_pid"), Signal::KILL);
    let shown = wait_for(PATIENCE, "the end", || {
        Some(stage.json(["show", &run])).filter(|shown| shown["ended"] == json!(true))
    });
    let branch = branch_of(&stage, &shown);
    assert_eq!(git(&stage.project(), &["show", &format!("{branch}:made.txt")]), "made");
    untouched(&stage);
}

#[test]
fn goes_on_in_it_after_an_interruption() {
    let stage = repository();
    let steps = "- write: {path: made.txt, text: made}\n- sleep: 3s\n- write: {path: second.txt, text: made}";
    stage.rehearsal("writer", steps, &format!("{ISOLATED}\non_interrupt: resume"));
    let run = stage.start("writer", "x");
    written(&stage, &run);
    kill(pid(&stage, &run, "worker_pid"), Signal::KILL);
    let shown = stage.ended(&run);
    assert_eq!(shown["status"], json!("succeeded"), "{shown}");
    let branch = branch_of(&stage, &shown);
    let names = git(&stage.project(), &["diff", "--name-only", "main", &branch]);
    assert_eq!(names, "made.txt\nsecond.txt");
    untouched(&stage);
}

#[test]
fn that_delegates_has_its_children_in_it() {
    let stage = repository();
    stage.rehearsal("writer", "- write: {path: made.txt, text: by the child}\n- say: written", "");
    stage.rehearsal(
        "outer",
        "- delegate: {agent: writer, prompt: go}",
        &format!("{ISOLATED}\ndelegates: anyone"),
    );
    let said = stage.volery(["run", "outer", "x"]).ok();
    assert!(said.stdout.contains("written"), "{said:?}");
    let run = stage.json(["show", &stage.runs()[0]]);
    let branch = branch_of(&stage, &run);
    assert_eq!(git(&stage.project(), &["show", &format!("{branch}:made.txt")]), "by the child");
    let child = stage.json(["show", &stage.runs()[1]]);
    assert_eq!(child["project"], json!(stage.project()), "{child}");
    untouched(&stage);
    // And a child may have one of its own.
    stage.rehearsal("alone", "- write: {path: made.txt, text: alone}", ISOLATED);
    stage.rehearsal("plain", "- delegate: {agent: alone, prompt: go}", "delegates: anyone");
    let _ = stage.volery(["run", "plain", "x"]).ok();
    let branch = branch_of(&stage, &stage.json(["show", &stage.runs()[3]]));
    assert!(branch.starts_with("volery/alone-"));
    untouched(&stage);
}

#[test]
fn executes_nothing_that_the_repository_names() {
    let stage = repository();
    let project = stage.project();
    let mark = stage.path("executed");
    let trap = |path: &Path| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\necho {} >> '{}'\ncat\n", path.display(), mark.display()))
            .unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    fs::write(project.join(".gitattributes"), "* filter=a=b\n").unwrap();
    git(&project, &["add", ".gitattributes"]);
    git(&project, &["commit", "--quiet", "--message", "attributes"]);
    for kind in ["clean", "smudge"] {
        git(&project, &["config", &format!("filter.a=b.{kind}"), &trap(&project.join(".git").join(kind))]);
    }
    for hook in ["post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"] {
        trap(&project.join(".git/hooks").join(hook));
    }
    let monitor = trap(&project.join(".git/monitor"));
    git(&project, &["-c", "core.hooksPath=/dev/null", "config", "core.fsmonitor", &monitor]);
    stage.rehearsal("writer", "- write: {path: made.txt, text: x}", ISOLATED);
    let _ = stage.volery(["run", "writer", "x"]).ok();
    let run = stage.json(["show", &stage.only_run()]);
    assert!(run["branch"]["name"].is_string(), "{run}");
    assert_eq!(fs::read_to_string(&mark).ok(), None);
    git(&project, &["add", "--renormalize", "--all"]);
    assert!(fs::read_to_string(&mark).unwrap().contains("clean"), "the trap works");
}

#[track_caller]
fn written(stage: &Stage, run: &str) {
    wait_for(PATIENCE, "the write", || {
        stage.events(run).into_iter().filter(|event| event["type"] == "call_requested").nth(1)
    });
}

fn pid(stage: &Stage, run: &str, whose: &str) -> u32 {
    u32::try_from(stage.event(run, "claimed")[whose].as_u64().unwrap()).unwrap()
}

#[test]
fn and_leaves_the_records_of_other_work_trees_alone() {
    let stage = repository();
    let project = stage.project();
    let other = stage.path("disk");
    git(&project, &["worktree", "add", "--quiet", "--detach", other.to_str().unwrap()]);
    let away = stage.path("disk-away");
    fs::rename(&other, &away).unwrap();
    stage.rehearsal("writer", "- write: {path: made.txt, text: made}\n- say: done", ISOLATED);
    stage.volery(["run", "writer", "x"]).ok();
    fs::rename(&away, &other).unwrap();
    assert!(!git(&other, &["rev-parse", "HEAD"]).is_empty(), "the other work tree is still one");
}

#[test]
fn and_what_was_done_in_a_submodule_is_not_thrown_away() {
    let stage = repository();
    let project = stage.project();
    let module = stage.path("module");
    fs::create_dir(&module).unwrap();
    git(&module, &["init", "--quiet"]);
    fs::write(module.join("bird.txt"), "heron\n").unwrap();
    git(&module, &["add", "."]);
    git(&module, &["commit", "--quiet", "--message", "a bird"]);
    let allow = ["-c", "protocol.file.allow=always"];
    let add = ["submodule", "--quiet", "add", module.to_str().unwrap(), "birds"];
    git(&project, &[&allow[..], &add[..]].concat());
    git(&project, &["commit", "--quiet", "--message", "birds"]);
    let steps =
        "git -c protocol.file.allow=always submodule --quiet update --init && echo wren > birds/new.txt";
    stage.backend("shell", &["sh", "-c", steps]).agent("worker", &format!("backend: shell\n{ISOLATED}"));
    let run = stage.volery(["run", "worker", "x", "--json"]).json();
    let warned = run["warnings"].to_string();
    assert!(warned.contains("submodules were checked out in it"), "{run}");
    let kept = stage.path("home/.local/share/volery-worktrees").join(&trees(&stage)[0]);
    assert_eq!(fs::read_to_string(kept.join("birds/new.txt")).unwrap(), "wren\n");
}

#[test]
fn and_its_conversation_goes_on_in_the_next() {
    let stage = repository();
    stage.rehearsal("writer", "- say: \"{prompt}\"", ISOLATED);
    let first = stage.json(["run", "writer", "Count the herons."]);
    let session = first["session"].as_str().unwrap();
    let second = stage.json(["run", "writer", "How many?", "--session", session]);
    assert!(second["result"].as_str().unwrap().contains("Count the herons."), "{second}");
}

#[test]
fn and_a_run_that_goes_on_with_an_interrupted_one_begins_with_what_that_one_left() {
    let stage = repository();
    let script = "cat > /dev/null; ls; echo x >> made.txt; while [ ! -e \"$0\" ]; do sleep 0.02; done";
    stage.backend("maker", &["sh", "-c", script, stage.path("go").to_str().unwrap()]);
    stage.agent("maker", &format!("backend: maker\n{ISOLATED}"));
    let id = stage.start("maker", "Make it.");
    let spool = stage.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "its word", || fs::read(&spool).ok().filter(|said| !said.is_empty()));
    let tree = trees(&stage).remove(0);
    let made = stage.path("home/.local/share/volery-worktrees").join(tree).join("made.txt");
    wait_for(PATIENCE, "its work", || fs::read(&made).ok().filter(|made| made == b"x\n"));
    let crew = crate::stage::crew(&stage.run_dir(&id));
    for member in [crew.keeper, crew.worker] {
        member.unwrap().kill();
    }
    fs::write(stage.path("go"), "").unwrap();
    let resumed = stage.json(["resume", &id]);
    let before = stage.json(["show", &id]);
    let listed = resumed["result"].as_str().unwrap_or_else(|| panic!("{resumed}"));
    assert!(listed.contains("made.txt"), "{resumed}");
    assert_eq!(resumed["branch"]["base"], before["branch"]["tip"], "{resumed}");
    let branch = branch_of(&stage, &resumed);
    assert_eq!(git(&stage.project(), &["show", &format!("{branch}:made.txt")]), "x\nx");
    untouched(&stage);
}

#[test]
fn an_agent_that_can_have_no_work_tree_here_is_blocked_before_it_is_asked_for() {
    let stage = Stage::new();
    stage.rehearsal("alone", "- say: x", ISOLATED);
    let list = stage.json(["agents"]);
    let problem = list["agents"][0]["problem"].as_str().unwrap_or_default();
    let reason = format!("isolation: worktree cannot be had: {}", stage.project().display());
    assert!(problem.starts_with(&reason), "{list}");
    let checked = stage.volery(["agents", "check"]).ok().stderr;
    assert!(checked.contains(&reason), "{checked}");
    let ran = stage.volery(["run", "alone", "x"]);
    assert!(ran.code != 0 && ran.stderr.contains(&reason), "{ran:?}");
    git(&stage.project(), &["init", "--quiet"]);
    assert_eq!(stage.json(["agents"])["agents"][0]["problem"], json!(null));
}
