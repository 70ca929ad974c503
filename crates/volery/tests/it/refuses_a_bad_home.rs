//! A state directory that is full, read-only, somebody else's or open to others: refused before anything starts, and
//! what it holds stays readable. A run in flight keeps what it has and says so.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Stdio;

use serde_json::json;

use crate::test_env::{Client, PATIENCE, SmallDisk, TestEnv, skip, wait_for};

fn vendor_env() -> TestEnv {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: good day, {prompt}", "");
    env
}

/// Checks that everything but a start is answered as before, and that a start is refused with this reason.
fn refuses_only_starts(env: &TestEnv, disk: &SmallDisk<'_>, reason: &str, hint: &str) {
    let refused = disk.volery(["run", "greeter", "moon"]).exits(2);
    let (first, second) = refused.stderr.split_once('\n').unwrap();
    assert!(first.starts_with("error: the run could not be recorded, so nothing was started: could not "));
    assert!(first.contains(env.path("state").to_str().unwrap()) && first.contains(reason), "{first}");
    assert_eq!(second.trim_end(), format!("hint: {hint}"));
    let mut client = Client::start(disk.command(["serve"])).initialize("it");
    let ask = json!({"agent": "greeter", "prompt": "moon", "directory": env.project()});
    assert!(client.refused("run_agent", ask).contains(reason));

    let listed = disk.volery(["ps", "--all", "--json"]).ok().json();
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("succeeded")), "{listed}");
    let id = runs[0]["run_id"].as_str().unwrap();
    let shown = disk.volery(["show", id, "--json"]).ok().json();
    assert_eq!(shown["result"], json!("good day, world\n"));
    assert_eq!(client.call("get_run", json!({"run_id": id}))["result"], json!("good day, world\n"));
    assert_eq!(client.call("list_runs", json!({}))["runs"].as_array().unwrap().len(), 1);
    let health = disk.volery(["health", "--json"]).ok().json();
    assert_eq!(health["agents"][0]["succeeded"], json!(1), "{health}");
    let left = std::fs::read_dir(disk.path("open")).unwrap().count();
    assert!(left <= 1, "no marker of a run that was refused");
}

#[test]
fn read_only() {
    let env = vendor_env();
    let Some(disk) = SmallDisk::mount(&env, "refuses_a_bad_home::read_only") else { return };
    disk.volery(["run", "greeter", "world"]).ok();
    disk.make_read_only();
    let hint = "set VOLERY_HOME to a directory that you can write to";
    refuses_only_starts(&env, &disk, "Read-only file system", hint);
}

#[test]
fn read_only_from_the_beginning() {
    let env = vendor_env();
    let test = "refuses_a_bad_home::read_only_from_the_beginning";
    let Some(disk) = SmallDisk::mount(&env, test) else { return };
    disk.make_read_only();
    let refused = disk.volery(["run", "greeter", "world"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: could not write to volery's home [stage]/state/runs: the filesystem is read-only: Read-only file system (os error 30)
    hint: set VOLERY_HOME to a directory that you can write to
    ");
}

#[test]
fn full() {
    let env = vendor_env();
    let Some(disk) = SmallDisk::mount(&env, "refuses_a_bad_home::full") else { return };
    disk.volery(["run", "greeter", "world"]).ok();
    disk.fill();
    let hint = "free some space (`volery clean --older-than 1d` removes old runs), or set VOLERY_HOME to another disk";
    refuses_only_starts(&env, &disk, "No space left on device", hint);
    disk.free();
    disk.volery(["run", "greeter", "world"]).ok();
    assert_eq!(disk.volery(["ps", "--all", "--json"]).ok().json()["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn an_agent_whose_output_no_longer_fits_is_stopped_and_keeps_what_it_wrote() {
    let env = vendor_env();
    let test = "refuses_a_bad_home::an_agent_whose_output_no_longer_fits";
    let Some(disk) = SmallDisk::mount(&env, test) else { return };
    let gate = env.path("gate");
    let wait = format!("wait-file:{}", gate.display());
    env.fake("writer", &["say:so far", &wait, "flood:200000:stdout", "hang"], "");
    let mut shell = disk.command(["run", "writer", "go", "--json"]);
    let shell = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    wait_for(PATIENCE, "the agent's word", || {
        let day = std::fs::read_dir(disk.path("runs")).ok()?.next()?.ok()?.path();
        let run = std::fs::read_dir(day).ok()?.next()?.ok()?.path();
        std::fs::read(run.join("stdout")).ok().filter(|text| !text.is_empty())
    });
    disk.fill();
    std::fs::write(gate, "").unwrap();
    let run = crate::test_env::command_output(shell.wait_with_output().unwrap()).json();
    let reason = "failed: what happened could not be recorded: could not write ";
    let explained = |run: &serde_json::Value| {
        let explanation = run["explanation"].as_str().unwrap();
        assert!(
            explanation.starts_with(reason) && explanation.contains("No space left on device"),
            "{explanation}"
        );
        assert_eq!(run["outcome"]["kind"], json!("storage"), "{run}");
        assert!(run["result"].as_str().unwrap().starts_with("so far\nxxx"), "{run}");
    };
    explained(&run);
    let id = run["run_id"].as_str().unwrap();
    explained(&disk.volery(["show", id, "--json"]).ok().json());
    disk.free();
    explained(&disk.volery(["show", id, "--json"]).ok().json());
}

#[test]
fn a_step_that_cannot_be_recorded_is_not_made_and_the_run_says_why() {
    let env = vendor_env();
    let test = "refuses_a_bad_home::a_step_that_cannot_be_recorded";
    let Some(disk) = SmallDisk::mount(&env, test) else { return };
    // More than is reserved ahead, so that the disk is full before the text is printed.
    let words: String = (1..600).map(|number| format!("- say: {}\n", "z".repeat(number))).collect();
    env.people_answer();
    env.rehearsal("speaker", &format!("- say: so far\n- ask: go on?\n{words}- say: the end"), "");
    let id = disk.volery(["run", "speaker", "go", "--background"]).ok().stdout.trim().to_owned();
    let ended = |disk: &SmallDisk<'_>| {
        let shown = disk.volery(["show", &id, "--json"]).ok().json();
        (shown["ended"] == json!(true)).then_some(shown)
    };
    wait_for(PATIENCE, "the question", || {
        let shown = disk.volery(["show", &id, "--json"]).ok().json();
        (shown["status"] == json!("waiting")).then_some(())
    });
    answer_on_full_disk(&env, &disk, &id);
    let full = wait_for(PATIENCE, "the end", || ended(&disk));
    assert_eq!((&full["status"], &full["outcome"]["kind"]), (&json!("failed"), &json!("storage")), "{full}");
    assert!(full["explanation"].as_str().unwrap().contains("No space left on device"), "{full}");
    let result = full["result"].as_str().unwrap();
    assert!(result.contains("zz") && !result.contains("the end"), "{result}");
    let listed = disk.volery(["ps", "--all", "--json"]).ok().json();
    assert_eq!(listed["runs"][0]["run_id"], json!(id));
    disk.free();
    assert_eq!(ended(&disk).unwrap()["outcome"], full["outcome"]);
}

#[test]
fn a_run_whose_end_cannot_be_recorded_is_shown_and_ended_later() {
    let env = vendor_env();
    let test = "refuses_a_bad_home::a_run_whose_end_cannot_be_recorded";
    let Some(disk) = SmallDisk::mount(&env, test) else { return };
    env.people_answer();
    env.rehearsal("speaker", "- say: so far\n- ask: go on?", "");
    let id = disk.volery(["run", "speaker", "go", "--background"]).ok().stdout.trim().to_owned();
    let shown = |what: &str| {
        wait_for(PATIENCE, what, || {
            let shown = disk.volery(["show", &id, "--json"]).ok().json();
            (shown["status"] == what || shown["warnings"].to_string().contains(what)).then_some(shown)
        })
    };
    shown("waiting");
    let (keeper, worker) = keeper_and_worker(&disk, &id);
    crate::test_env::kill(keeper, rustix::process::Signal::KILL);
    crate::test_env::kill(worker, rustix::process::Signal::KILL);
    disk.make_read_only();
    let lost = shown("the end of this run could not be recorded yet: could not ");
    assert_eq!(lost["partial"], json!("so far\n"), "{lost}");
    disk.make_writable();
    let ended = disk.volery(["show", &id, "--json"]).ok().json();
    assert_eq!((&ended["status"], &ended["ended"]), (&json!("partial"), &json!(true)), "{ended}");
    assert_eq!(ended["result"], json!("so far\n"), "{ended}");
}

/// Returns the pids of those who carry out a run.
fn keeper_and_worker(disk: &SmallDisk<'_>, id: &str) -> (u32, u32) {
    let shown = disk.volery(["show", id, "--events", "--json"]).ok().json();
    let pid = |key: &str| u32::try_from(shown["events"][0][key].as_u64().unwrap()).unwrap();
    (pid("keeper_pid"), pid("worker_pid"))
}

/// Answers a question, and fills the disk before the worker acts on the answer. The test holds the worker at a checkpoint
/// instead of stopping it, because the keeper kills a stopped worker after half a second.
fn answer_on_full_disk(env: &TestEnv, disk: &SmallDisk<'_>, id: &str) {
    env.hold("worker_checks_inbox");
    env.wait_until_held("worker_checks_inbox");
    disk.volery(["approve", id]).ok();
    disk.fill();
    env.release("worker_checks_inbox");
}

#[test]
fn of_another_user() {
    let env = vendor_env();
    if chown(env.path("state"), Some(12_345), None).is_err() {
        skip("refuses_a_bad_home::of_another_user", "only root can give a directory away");
        return;
    }
    let refused = env.volery(["run", "greeter", "world"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: could not use [stage]/state as volery's home: it belongs to user 12345, and this is user 0
    hint: set VOLERY_HOME to a directory of your own, or run volery as the user who owns this one
    ");
    assert_eq!(std::fs::read_dir(env.path("state")).unwrap().count(), 0, "nothing was written");
}

#[test]
fn open_to_others_is_closed() {
    let env = vendor_env();
    let state = env.path("state");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let open = || std::fs::set_permissions(&state, PermissionsExt::from_mode(0o755)).unwrap();
    open();
    env.volery(["run", "greeter", "world"]).ok();
    assert_eq!(mode(&state), 0o700);
    open();
    env.volery(["ps"]).ok();
    assert_eq!(mode(&state), 0o700, "also when it is in use");
    let dir = env.run_dir(&env.only_run());
    assert_eq!(mode(&dir), 0o700);
    for file in std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
        let expected = if file.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&file), expected, "{}", file.display());
    }
}

#[test]
fn everything_in_it_is_readable_by_its_owner_only() {
    let env = vendor_env();
    // Trust, a file for the agent, a child, a session and a key: whatever leaves something behind.
    let config = "[backends.reader]\ncommand = [\"cat\", \"{prompt_file}\"]\n";
    std::fs::write(env.project().join(".volery/config.toml"), config).unwrap();
    env.agent("reader", "backend: reader");
    env.rehearsal("top", "- delegate: {agent: greeter, prompt: moon}\n- ask: more?", "delegates: anyone");
    env.volery(["trust", "--yes"]).ok();
    let first = env.json(["run", "reader", "x"])["session"].as_str().unwrap().to_owned();
    env.volery(["run", "reader", "x", "--session", &first, "--idempotency-key", "k"]).ok();
    let id = env.start("top", "x");
    env.wait_for_event(&id, "asked");
    env.volery(["ps"]).ok();
    let mut folders = vec![env.path("state")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, if kind.is_dir() { 0o700 } else { 0o600 }, "{}", entry.path().display());
            folders.extend(kind.is_dir().then(|| entry.path()));
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
    env.volery(["cancel", "--now", &id]).ok();
    env.wait_for_end(&id);
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let env = vendor_env();
    std::fs::write(env.path("state").join("thesis.txt"), "").unwrap();
    std::fs::set_permissions(env.path("state"), PermissionsExt::from_mode(0o755)).unwrap();
    let refused = env.volery(["run", "greeter", "world"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: could not use [stage]/state as volery's home: it holds other files and other users may enter it
    hint: set VOLERY_HOME to an empty directory, or chmod 700 this one if that is meant
    ");
}
