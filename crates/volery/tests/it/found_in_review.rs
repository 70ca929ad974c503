//! Defects that a review found, each with the test that would have noticed.

use std::time::Duration;

use serde_json::json;

use crate::test_env::{PATIENCE, TestEnv, kill, wait_for};

#[test]
fn a_time_out_of_an_agent_that_ignores_the_request_to_stop_is_a_time_out() {
    let env = TestEnv::new();
    // The grace is longer than any margin of the keeper once was.
    env.fake("stubborn", &["ignore-term", "hang"], "timeout: 200ms\ngrace: 3s");
    let output = env.volery(["run", "stubborn", "x"]);
    assert_eq!(output.code, 4, "{output:?}");
    let outcome = env.json(["ps"])["runs"][0]["status"].clone();
    assert_eq!(outcome, json!("timed_out"));
}

#[test]
fn an_agent_that_cannot_be_resumed_is_never_started_twice() {
    let env = TestEnv::new();
    let starts = env.path("starts");
    std::fs::create_dir(&starts).unwrap();
    let script = format!("touch {}/$$; exec sleep 60", starts.display());
    env.backend("shell", &["sh", "-c", &script]).agent("once", "backend: shell\non_interrupt: resume");
    let run = env.start("once", "x");
    let worker = wait_for(PATIENCE, "the agent to start", || {
        let started = std::fs::read_dir(&starts).unwrap().count() > 0;
        let claimed = env.events(&run).into_iter().find(|event| event["type"] == json!("claimed"))?;
        started.then(|| u32::try_from(claimed["worker_pid"].as_u64().unwrap()).unwrap())
    });
    kill(worker, rustix::process::Signal::KILL);
    assert_eq!(env.outcome_by_itself(&run, PATIENCE)["outcome"], json!("interrupted"));
    assert_eq!(std::fs::read_dir(&starts).unwrap().count(), 1);
}

#[test]
fn a_resumed_run_has_no_more_time_than_its_timeout() {
    let env = TestEnv::new();
    env.rehearsal("loop", "- say: begun\n- sleep: 60s", "on_interrupt: resume\ntimeout: 2s");
    let run = env.start("loop", "x");
    let began = std::time::Instant::now();
    for epoch in 1..=2 {
        let worker = wait_for(PATIENCE, "a worker", || {
            let events = env.events(&run);
            let claimed = events
                .iter()
                .find(|event| event["type"] == json!("claimed") && event["epoch"] == json!(epoch))?;
            u32::try_from(claimed["worker_pid"].as_u64()?).ok().filter(|pid| *pid != 0)
        });
        // Each worker is left to work for a while, as the run's time goes by.
        wait_for(PATIENCE, "the time to pass", || {
            (began.elapsed() > Duration::from_millis(700 * epoch)).then_some(())
        });
        kill(worker, rustix::process::Signal::KILL);
    }
    let ending = env.outcome_by_itself(&run, Duration::from_secs(8));
    assert_eq!(ending["cause"]["cause"], json!("timed_out"), "{ending}");
}

#[test]
fn a_server_whose_program_was_replaced_still_starts_runs() {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: good day, {prompt}", "");
    let program = env.path("volery");
    std::fs::copy(env!("CARGO_BIN_EXE_volery"), &program).unwrap();
    let original = env.command(["serve"]);
    let mut command = std::process::Command::new(&program);
    command.arg("serve").current_dir(env.project()).env_clear();
    command.envs(original.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut client = crate::test_env::Client::start(command).initialize("it");
    std::fs::remove_file(&program).unwrap();
    let arguments = json!({"agent": "greeter", "prompt": "world", "directory": env.project()});
    assert_eq!(client.call("run_agent", arguments)["result"], json!("good day, world\n"));
}

#[test]
fn an_answer_with_a_hole_says_so() {
    let env = TestEnv::new();
    env.fake("flood", &["flood:400000:stdout"], "limits: {output: 100KiB}");
    let run = env.json(["run", "flood", "x"]);
    insta::assert_snapshot!(env.masked_texts(&run["warnings"]), @"standard output was longer than the 100.0 KiB that are kept: its middle is missing");
}

#[test]
fn a_run_whose_keeper_was_killed_leaves_no_socket() {
    let env = TestEnv::new();
    env.fake("slow", &["say:up", "hang"], "grace: 100ms");
    let id = env.start("slow", "x");
    let keeper =
        wait_for(PATIENCE, "the keeper", || crate::test_env::run_processes(&env.run_dir(&id)).keeper);
    env.wait_for_event(&id, "agent_started");
    keeper.signal(rustix::process::Signal::KILL);
    env.volery(["cancel", "--now", &id]).ok();
    env.wait_for_end(&id);
    // The worker removes it after it has notified its callers of the end.
    let sockets = || std::fs::read_dir(env.path("state/sockets")).unwrap().count();
    wait_for(PATIENCE, "the socket to be removed", || (sockets() == 0).then_some(()));
}

#[test]
fn an_empty_folder_called_git_makes_no_project() {
    let env = TestEnv::new();
    std::fs::create_dir_all(env.path("loose/.git")).unwrap();
    std::fs::create_dir_all(env.path("loose/inner")).unwrap();
    let output = env.command(["health", "--json"]).current_dir(env.path("loose/inner")).output().unwrap();
    assert!(output.status.success());
    let listed = env.command(["agents", "--json"]).current_dir(env.path("loose/inner")).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("loose/inner"), "{text}");
}
