//! A run in a git work tree of its own: the user's is not touched, what was done stays as a branch, and nothing else
//! stays, however the run ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, command_output, git, kill, wait_for};

const ISOLATED: &str = "isolation: worktree";

/// A test environment whose project is a git repository with a commit, and something in it that is not committed.
fn repository() -> TestEnv {
    let env = TestEnv::new();
    let project = env.project();
    fs::write(project.join("notes.md"), "old\n").unwrap();
    fs::create_dir_all(project.join("below")).unwrap();
    fs::write(project.join("below/kept.txt"), "kept\n").unwrap();
    git(&project, &["init", "--quiet", "--initial-branch", "main"]);
    git(&project, &["add", "notes.md", "below"]);
    git(&project, &["commit", "--quiet", "--message", "first"]);
    fs::write(project.join("dirty.txt"), "the user's\n").unwrap();
    env
}

fn trees(env: &TestEnv) -> Vec<String> {
    let folder = env.path("home/.local/share/volery-worktrees");
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Asserts that the user's tree is as it was, and that no work tree is left.
#[track_caller]
fn untouched(env: &TestEnv) {
    let project = env.project();
    assert_eq!(fs::read_to_string(project.join("notes.md")).unwrap(), "old\n");
    assert_eq!(fs::read_to_string(project.join("dirty.txt")).unwrap(), "the user's\n");
    assert!(!project.join("made.txt").exists());
    assert_eq!(git(&project, &["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(git(&project, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&project, &["status", "--porcelain", "--", "notes.md", "below", "made.txt"]), "");
    assert_eq!(trees(env), Vec::<String>::new());
}

fn branch_of(env: &TestEnv, run: &Value) -> String {
    let name = run["branch"]["name"].as_str().unwrap_or_else(|| panic!("no branch in {run}")).to_owned();
    let tip = git(&env.project(), &["rev-parse", &name]);
    assert_eq!(run["branch"]["tip"], json!(tip));
    name
}

#[test]
fn and_leaves_what_it_did_on_a_branch() {
    let env = repository();
    let steps = "- write: {path: notes.md, text: new}\n- write: {path: made.txt, text: made}\n- say: done";
    env.rehearsal("writer", steps, ISOLATED);
    let output = env.volery(["run", "writer", "x"]).ok();
    let run = env.json(["show", &env.only_run()]);
    let branch = branch_of(&env, &run);
    assert_eq!(branch, format!("volery/writer-{}", run["short_id"].as_str().unwrap()));
    insta::assert_snapshot!(env.masked(&output.stderr), @"[run-id] succeeded in [span], 2 files changed, on the branch volery/writer-[run-id]");
    untouched(&env);
    let project = env.project();
    assert_eq!(git(&project, &["show", &format!("{branch}:notes.md")]), "new");
    let log = git(&project, &["log", "--format=%an <%ae> %s", "main..", &branch]);
    insta::assert_snapshot!(env.masked(&log), @"Volery <volery@localhost> writer: what the run [run-id] left uncommitted");
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
                added     made.txt
                modified  notes.md
    branch      volery/writer-[run-id]
                git merge volery/writer-[run-id] brings the work in, git branch -D volery/writer-[run-id] drops it

    result (5 B)
      done
    ");
    git(&project, &["merge", "--quiet", &branch]);
    assert_eq!(fs::read_to_string(project.join("made.txt")).unwrap(), "made");
}

#[test]
fn with_commits_of_its_own_and_the_users_name() {
    let env = repository();
    fs::write(env.path("home/.gitconfig"), "[user]\nname = Ada\nemail = ada@example.org\n").unwrap();
    let script =
        "pwd && echo one > made.txt && git add made.txt && git commit -q -m mine && echo two > rest.txt";
    env.backend("shell", &["/bin/sh", "-c", script]).agent("shell", &format!("backend: shell\n{ISOLATED}"));
    let below = env.project().join("below");
    let output = env.volery(["run", "shell", "x", "--dir", below.to_str().unwrap()]).ok();
    let run = env.json(["show", &env.only_run()]);
    let branch = branch_of(&env, &run);
    let vendor_env = format!("volery-worktrees/shell-{}/below", run["short_id"].as_str().unwrap());
    assert!(output.stdout.trim_end().ends_with(&vendor_env), "{output:?}");
    let log = git(&env.project(), &["log", "--format=%an %s", &format!("main..{branch}")]);
    insta::assert_snapshot!(env.masked(&log), @"
    Ada shell: what the run [run-id] left uncommitted
    Ada mine
    ");
    assert_eq!(git(&env.project(), &["show", &format!("{branch}:below/rest.txt")]), "two");
    untouched(&env);
}

#[test]
fn and_leaves_nothing_if_it_did_nothing() {
    let env = repository();
    env.rehearsal("reader", "- say: looked", ISOLATED);
    let output = env.volery(["run", "reader", "x"]).ok();
    insta::assert_snapshot!(env.masked(&output.stderr), @"[run-id] succeeded in [span], no file changed");
    assert_eq!(env.json(["show", &env.only_run()])["branch"], Value::Null);
    assert_eq!(git(&env.project(), &["branch", "--list", "volery/*"]), "");
    untouched(&env);
}

#[test]
fn that_works_on_no_branch_or_another_one_loses_nothing() {
    let env = repository();
    for (agent, script) in [
        ("detached", "git checkout -q --detach && echo x > made.txt"),
        ("elsewhere", "git checkout -q -b elsewhere && echo x > made.txt"),
    ] {
        env.backend(agent, &["/bin/sh", "-c", script]).agent(agent, &format!("backend: {agent}\n{ISOLATED}"));
        let _ = env.volery(["run", agent, "x"]).ok();
        let run = env.json(["show", &env.wait_for_run_count(if agent == "detached" { 1 } else { 2 })]);
        let branch = branch_of(&env, &run);
        assert_eq!(git(&env.project(), &["show", &format!("{branch}:made.txt")]), "x");
        untouched(&env);
    }
    assert_eq!(git(&env.project(), &["branch", "--list", "elsewhere"]).trim(), "elsewhere");
}

#[test]
fn says_which_branches_hold_what_the_one_of_its_result_does_not() {
    let env = repository();
    let script = "git config user.name A && git config user.email a@example.org \
        && echo x > one.txt && git add one.txt && git commit -qm one \
        && git checkout -q -b other main && echo x > two.txt";
    env.backend("two", &["/bin/sh", "-c", script]).agent("two", &format!("backend: two\n{ISOLATED}"));
    let _ = env.volery(["run", "two", "x"]).ok();
    let run = env.json(["show", &env.only_run()]);
    let branch = branch_of(&env, &run);
    assert_eq!(git(&env.project(), &["show", &format!("{branch}:two.txt")]), "x");
    let own = branch.strip_suffix("-2").unwrap_or_else(|| panic!("{run}"));
    assert_eq!(git(&env.project(), &["show", &format!("{own}:one.txt")]), "x");
    insta::assert_snapshot!(env.masked_texts(&run["warnings"]), @"the branch volery/two-[run-id]-2 does not hold all that was done: see also volery/two-[run-id]");
}

#[test]
fn that_is_not_found_at_the_end_keeps_its_branch_and_says_so() {
    let env = repository();
    let script = "here=$PWD && mkdir -p \"$HOME/kept\" && mv \"$here\" \"$HOME/kept/moved\"";
    env.backend("mover", &["/bin/sh", "-c", script]).agent("mover", &format!("backend: mover\n{ISOLATED}"));
    let _ = env.volery(["run", "mover", "x"]).ok();
    let run = env.json(["show", &env.only_run()]);
    insta::assert_snapshot!(env.masked_texts(&run["warnings"]), @"
    which files change is not known: git ls-files: No such file or directory (os error 2)
    the work tree of this run is not settled, and its branch volery/mover-[run-id] stays: its folder [stage]/home/.local/share/volery-worktrees/mover-[run-id] is not there any more; if it was moved, `git worktree repair FOLDER` makes it known again
    ");
    let own = format!("volery/mover-{}", run["short_id"].as_str().unwrap());
    assert_eq!(git(&env.project(), &["rev-parse", &own]), git(&env.project(), &["rev-parse", "main"]));
}

#[test]
fn that_cannot_be_had_is_refused_with_the_reason() {
    let env = TestEnv::new();
    env.rehearsal("writer", "- write: {path: made.txt, text: x}", ISOLATED);
    let refused = || {
        let output = env.volery(["run", "writer", "x"]).exits(3);
        assert!(!env.project().join("made.txt").exists());
        env.masked(&output.stderr)
    };
    insta::assert_snapshot!(refused(), @"
    [run-id] refused: isolation: worktree cannot be had: [stage]/project is not in a git work tree, after [span]
    hint: volery show [run-id] tells all that is known about it
    ");
    git(&env.project(), &["init", "--quiet"]);
    insta::assert_snapshot!(refused(), @"
    [run-id] refused: isolation: worktree cannot be had: [stage]/project has no commit yet that a work tree could be made from, after [span]
    hint: volery show [run-id] tells all that is known about it
    ");
    let mut command = env.command(["run", "writer", "x"]);
    let output = command_output(command.env("PATH", env.path("home")).output().unwrap()).exits(3);
    insta::assert_snapshot!(env.masked(&output.stderr), @"
    [run-id] refused: isolation: worktree cannot be had: git is not installed, or not on the PATH, after [span]
    hint: volery show [run-id] tells all that is known about it
    ");
}

#[test]
fn whose_worker_was_killed_is_settled_by_its_keeper() {
    let env = repository();
    env.rehearsal("writer", "- write: {path: made.txt, text: made}\n- sleep: 600s", ISOLATED);
    let run = env.start("writer", "x");
    written(&env, &run);
    kill(pid(&env, &run, "worker_pid"), Signal::KILL);
    let shown = env.wait_for_end(&run);
    assert_eq!(shown["status"], json!("interrupted"), "{shown}");
    assert_eq!(shown["changes"]["files"][0]["path"], json!("made.txt"), "{shown}");
    let branch = branch_of(&env, &shown);
    assert_eq!(git(&env.project(), &["show", &format!("{branch}:made.txt")]), "made");
    untouched(&env);
}

#[test]
fn whose_keeper_was_killed_too_is_settled_by_the_next_query() {
    let env = repository();
    env.rehearsal("writer", "- write: {path: made.txt, text: made}\n- sleep: 600s", ISOLATED);
    let run = env.start("writer", "x");
    written(&env, &run);
    kill(pid(&env, &run, "keeper_pid"), Signal::STOP);
    kill(pid(&env, &run, "worker_pid"), Signal::KILL);
    kill(pid(&env, &run, "keeper_pid"), Signal::KILL);
    let shown = wait_for(PATIENCE, "the end", || {
        Some(env.json(["show", &run])).filter(|shown| shown["ended"] == json!(true))
    });
    let branch = branch_of(&env, &shown);
    assert_eq!(git(&env.project(), &["show", &format!("{branch}:made.txt")]), "made");
    untouched(&env);
}

#[test]
fn goes_on_in_it_after_an_interruption() {
    let env = repository();
    let steps = "- write: {path: made.txt, text: made}\n- sleep: 3s\n- write: {path: second.txt, text: made}";
    env.rehearsal("writer", steps, &format!("{ISOLATED}\non_interrupt: resume"));
    let run = env.start("writer", "x");
    written(&env, &run);
    kill(pid(&env, &run, "worker_pid"), Signal::KILL);
    let shown = env.wait_for_end(&run);
    assert_eq!(shown["status"], json!("succeeded"), "{shown}");
    let branch = branch_of(&env, &shown);
    let names = git(&env.project(), &["diff", "--name-only", "main", &branch]);
    assert_eq!(names, "made.txt\nsecond.txt");
    untouched(&env);
}

#[test]
fn that_delegates_has_its_children_in_it() {
    let env = repository();
    env.rehearsal("writer", "- write: {path: made.txt, text: by the child}\n- say: written", "");
    env.rehearsal(
        "outer",
        "- delegate: {agent: writer, prompt: go}",
        &format!("{ISOLATED}\ndelegates: anyone"),
    );
    let output = env.volery(["run", "outer", "x"]).ok();
    assert!(output.stdout.contains("written"), "{output:?}");
    let run = env.json(["show", &env.runs()[0]]);
    let branch = branch_of(&env, &run);
    assert_eq!(git(&env.project(), &["show", &format!("{branch}:made.txt")]), "by the child");
    let child = env.json(["show", &env.runs()[1]]);
    assert_eq!(child["project"], json!(env.project()), "{child}");
    untouched(&env);
    // And a child may have one of its own.
    env.rehearsal("alone", "- write: {path: made.txt, text: alone}", ISOLATED);
    env.rehearsal("plain", "- delegate: {agent: alone, prompt: go}", "delegates: anyone");
    let _ = env.volery(["run", "plain", "x"]).ok();
    let branch = branch_of(&env, &env.json(["show", &env.runs()[3]]));
    assert!(branch.starts_with("volery/alone-"));
    untouched(&env);
}

#[test]
fn executes_nothing_that_the_repository_names() {
    let env = repository();
    let project = env.project();
    let mark = env.path("executed");
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
    env.rehearsal("writer", "- write: {path: made.txt, text: x}", ISOLATED);
    let _ = env.volery(["run", "writer", "x"]).ok();
    let run = env.json(["show", &env.only_run()]);
    assert!(run["branch"]["name"].is_string(), "{run}");
    assert_eq!(fs::read_to_string(&mark).ok(), None);
    git(&project, &["add", "--renormalize", "--all"]);
    assert!(fs::read_to_string(&mark).unwrap().contains("clean"), "the trap works");
}

#[track_caller]
fn written(env: &TestEnv, run: &str) {
    wait_for(PATIENCE, "the write", || {
        env.events(run).into_iter().filter(|event| event["type"] == "call_requested").nth(1)
    });
}

fn pid(env: &TestEnv, run: &str, whose: &str) -> u32 {
    u32::try_from(env.wait_for_event(run, "claimed")[whose].as_u64().unwrap()).unwrap()
}

#[test]
fn and_leaves_the_records_of_other_work_trees_alone() {
    let env = repository();
    let project = env.project();
    let other = env.path("disk");
    git(&project, &["worktree", "add", "--quiet", "--detach", other.to_str().unwrap()]);
    let away = env.path("disk-away");
    fs::rename(&other, &away).unwrap();
    env.rehearsal("writer", "- write: {path: made.txt, text: made}\n- say: done", ISOLATED);
    env.volery(["run", "writer", "x"]).ok();
    fs::rename(&away, &other).unwrap();
    assert!(!git(&other, &["rev-parse", "HEAD"]).is_empty(), "the other work tree is still one");
}

#[test]
fn and_what_was_done_in_a_submodule_is_not_thrown_away() {
    let env = repository();
    let project = env.project();
    let module = env.path("module");
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
    env.backend("shell", &["sh", "-c", steps]).agent("worker", &format!("backend: shell\n{ISOLATED}"));
    let run = env.volery(["run", "worker", "x", "--json"]).json();
    insta::assert_snapshot!(env.masked_texts(&run["warnings"]), @"the work tree of this run stays at [stage]/home/.local/share/volery-worktrees/worker-[run-id], with the branch volery/worker-[run-id]: submodules were checked out in it, and a branch cannot hold what was done there");
    let work_tree = env.path("home/.local/share/volery-worktrees").join(&trees(&env)[0]);
    assert_eq!(fs::read_to_string(work_tree.join("birds/new.txt")).unwrap(), "wren\n");
}

#[test]
fn and_its_conversation_goes_on_in_the_next() {
    let env = repository();
    env.rehearsal("writer", "- say: \"{prompt}\"", ISOLATED);
    let first = env.json(["run", "writer", "Count the herons."]);
    let session = first["session"].as_str().unwrap();
    let second = env.json(["run", "writer", "How many?", "--session", session]);
    assert!(second["result"].as_str().unwrap().contains("Count the herons."), "{second}");
}

#[test]
fn and_a_run_that_goes_on_with_an_interrupted_one_begins_with_what_that_one_left() {
    let env = repository();
    let script = "cat > /dev/null; ls; echo x >> made.txt; while [ ! -e \"$0\" ]; do sleep 0.02; done";
    env.backend("maker", &["sh", "-c", script, env.path("go").to_str().unwrap()]);
    env.agent("maker", &format!("backend: maker\n{ISOLATED}"));
    let id = env.start("maker", "Make it.");
    let spool = env.run_dir(&id).join("stdout");
    wait_for(PATIENCE, "its word", || fs::read(&spool).ok().filter(|bytes| !bytes.is_empty()));
    let tree = trees(&env).remove(0);
    let made = env.path("home/.local/share/volery-worktrees").join(tree).join("made.txt");
    wait_for(PATIENCE, "its work", || fs::read(&made).ok().filter(|made| made == b"x\n"));
    let run_processes = crate::test_env::run_processes(&env.run_dir(&id));
    for member in [run_processes.keeper, run_processes.worker] {
        member.unwrap().kill();
    }
    fs::write(env.path("go"), "").unwrap();
    let resumed = env.json(["resume", &id]);
    let before = env.json(["show", &id]);
    let listed = resumed["result"].as_str().unwrap_or_else(|| panic!("{resumed}"));
    assert!(listed.contains("made.txt"), "{resumed}");
    assert_eq!(resumed["branch"]["base"], before["branch"]["tip"], "{resumed}");
    let branch = branch_of(&env, &resumed);
    assert_eq!(git(&env.project(), &["show", &format!("{branch}:made.txt")]), "x\nx");
    untouched(&env);
}

#[test]
fn an_agent_that_can_have_no_work_tree_here_is_blocked_before_it_runs() {
    let env = TestEnv::new();
    env.rehearsal("alone", "- say: x", ISOLATED);
    let list = env.json(["agents"]);
    insta::assert_snapshot!(env.masked_texts(&list["agents"][0]["problem"]), @"isolation: worktree cannot be had: [stage]/project is not in a git work tree");
    let checked = env.volery(["agents", "check"]).ok().stderr;
    insta::assert_snapshot!(env.masked(&checked), @"
    warning: alone: isolation: worktree cannot be had: [stage]/project is not in a git work tree
    1 agent, 1 of them blocked, 0 errors, 1 warning
    ");
    env.volery(["run", "alone", "x"]).exits(3);
    git(&env.project(), &["init", "--quiet"]);
    assert_eq!(env.json(["agents"])["agents"][0]["problem"], json!(null));
}
