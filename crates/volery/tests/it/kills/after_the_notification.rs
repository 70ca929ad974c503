//! A worker notifies its client as soon as the ending is durable, and writes the files that follow from the ending
//! afterwards. A reader sees an ended run even before that, or after a kill in between.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{Client, PATIENCE, TestEnv, kill, run_processes, tagged, wait_for, with_argument};

/// A run whose worker is held after it has notified its client.
struct NotifiedRun {
    env: TestEnv,
    client: Client,
    id: String,
    worker: u32,
    reply: Value,
}

impl NotifiedRun {
    fn start() -> Self {
        let env = TestEnv::new();
        env.fake("speaks", &["say:hello"], "");
        env.volery(["ps"]).ok();
        // Nothing is swept before the test wants it.
        fs::write(env.path("state").join("sweep.stamp"), "").unwrap();
        env.hold("worker_notified");
        let mut client = env.serve().initialize("it");
        let ask = json!({"agent": "speaks", "prompt": "go", "directory": env.project()});
        let reply = client.call("run_agent", ask);
        let worker = env.wait_until_held("worker_notified");
        let id = env.only_run();
        Self { env, client, id, worker, reply }
    }

    fn outcome_path(&self) -> PathBuf {
        self.env.run_dir(&self.id).join("outcome.json")
    }

    fn sockets(&self) -> usize {
        fs::read_dir(self.env.path("state/sockets")).unwrap().count()
    }

    /// Asks everything that tells whether the run has ended, and how.
    fn check_shown_as_ended(&mut self) {
        assert!(!self.outcome_path().exists());
        let env = &self.env;
        assert_eq!(env.times_ended(&self.id), 1);
        let shown = env.json(["show", &self.id]);
        assert_eq!((&shown["ended"], &shown["result"]), (&json!(true), &json!("hello\n")), "{shown}");
        assert_eq!(env.volery(["wait", &self.id]).ok().stdout, "hello\n");
        let waited = self.client.call("wait_runs", json!({"run_ids": [self.id]}));
        assert_eq!(waited["runs"][0]["status"], json!("succeeded"), "{waited}");
        for listed in
            [env.json(["ps", "--all"]), self.client.call("list_runs", json!({"directory": env.project()}))]
        {
            let runs: Vec<_> = listed["runs"].as_array().unwrap().iter().collect();
            assert_eq!(runs.len(), 1, "{listed}");
            assert_eq!(runs[0]["status"], json!("succeeded"));
        }
        assert_eq!(fs::read_dir(env.path("state/open")).unwrap().count(), 0, "the index has it");
        let listed = env.json(["ps", "--all"]);
        env.volery(["reindex"]).ok();
        assert_eq!(env.json(["ps", "--all"]), listed);
    }
}

#[test]
fn a_run_has_ended_when_its_client_is_notified() {
    let mut run = NotifiedRun::start();
    assert_eq!((&run.reply["status"], &run.reply["result"]), (&json!("succeeded"), &json!("hello\n")));
    run.check_shown_as_ended();
    let kept = run.env.json(["clean", "--older-than", "1ms"]);
    assert_eq!(kept["deleted"], json!(0), "its worker is still there: {kept}");
    run.env.release("worker_notified");
    let path = run.outcome_path();
    let copy = wait_for(PATIENCE, "the copy of the ending", || fs::read_to_string(&path).ok());
    let log = fs::read_to_string(run.env.run_dir(&run.id).join("events.jsonl")).unwrap();
    assert_eq!(log.split_inclusive('\n').next_back(), Some(copy.as_str()));
}

#[test]
fn a_kill_after_the_notification_loses_nothing() {
    for victims in [["worker"].as_slice(), &["keeper", "worker"]] {
        let mut run = NotifiedRun::start();
        let keeper = run_processes(&run.env.run_dir(&run.id)).keeper.unwrap();
        if victims.contains(&"keeper") {
            assert!(keeper.signal(Signal::KILL));
        }
        kill(run.worker, Signal::KILL);
        run.env.release("worker_notified");
        wait_for(PATIENCE, "keeper and worker to be gone", || {
            with_argument(&run.id).is_empty().then_some(())
        });
        run.check_shown_as_ended();
        assert_eq!(tagged(run.env.tag(&run.id)), Vec::<u32>::new());
        assert_eq!(run.sockets(), 0, "{victims:?}");
        let cleaned = run.env.json(["clean", "--older-than", "1ms"]);
        assert_eq!(cleaned["runs"], json!([run.id]), "{victims:?}");
    }
}
