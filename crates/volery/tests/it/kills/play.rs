//! One run, held at a named point, and the victims of a SIGKILL; afterwards, what must be true whoever died.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{
    Client, PATIENCE, TestEnv, control_groups, kill, run_processes, state_and_parent, tagged, wait_for,
};

/// The moment at which the agent and everything it started run, and its first words are in the journal.
pub(super) const RUNNING: &str = "running";
/// The output of an agent that is not interrupted.
const WHOLE: &str = "before\nafter\n";

/// Descendants that are hard to get rid of.
const DESCENDANTS: [&str; 7] = [
    "setsid-child:60000",
    "double-fork:60000",
    "clean-env-child:60000",
    "overwrite-env-child:60000",
    "non-dumpable-child:60000",
    "fork-chain:10000",
    "term-ignoring-child:60000",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    Server,
    Keeper,
    Worker,
}

use Victim::{Keeper, Server, Worker};

/// Every combination of victims.
pub(super) const COMBINATIONS: [&[Victim]; 7] = [
    &[Server],
    &[Keeper],
    &[Worker],
    &[Server, Keeper],
    &[Server, Worker],
    &[Keeper, Worker],
    &[Server, Keeper, Worker],
];
/// Those that are possible while there is no worker.
pub(super) const WITHOUT_WORKER: [&[Victim]; 3] = [&[Server], &[Keeper], &[Server, Keeper]];

/// Who is killed, when, and how the agent was contained.
#[derive(Debug, Clone, Copy)]
pub(super) struct KillCase {
    pub(super) failpoint: &'static str,
    pub(super) victims: &'static [Victim],
    pub(super) containment: &'static str,
}

/// A run that has come to the point of its case.
pub(super) struct PausedRun {
    pub(super) env: TestEnv,
    pub(super) client: Client,
    pub(super) id: String,
    case: KillCase,
}

impl KillCase {
    fn kills(&self, victim: Victim) -> bool {
        self.victims.contains(&victim)
    }

    /// Whether the agent was started and waits for the word to go on.
    fn agent_lives(&self) -> bool {
        matches!(self.failpoint, "door_said_go" | "worker_spawned_agent" | RUNNING)
    }

    fn has_worker(&self) -> bool {
        self.agent_lives() || self.failpoint.starts_with("worker_")
    }

    /// Whether somebody is left who carries the run to its end.
    fn goes_on(&self) -> bool {
        let carrier = if self.has_worker() { Worker } else { Keeper };
        !self.kills(carrier) || matches!(self.failpoint, "worker_wrote_ending" | "worker_notified")
    }
}

impl PausedRun {
    /// Plays a run up to the point.
    pub(super) fn set(case: KillCase) -> Self {
        let env = TestEnv::new();
        let formed = format!("touch:{}", env.path("formed").display());
        let go = format!("wait-file:{}", env.path("go").display());
        let mut steps = vec!["say:before"];
        steps.extend(DESCENDANTS);
        steps.extend([formed.as_str(), go.as_str(), "say:after"]);
        env.fake("busy", &steps, &format!("containment: {}", case.containment));
        if case.failpoint != RUNNING {
            env.hold(case.failpoint);
        }
        if !case.agent_lives() {
            fs::write(env.path("go"), "").unwrap();
        }
        let mut client = env.serve().initialize("it");
        let arguments = json!({"agent": "busy", "prompt": "x", "directory": env.project()});
        client.send("tools/call", json!({"name": "run_agent", "arguments": arguments}));
        if case.failpoint != RUNNING {
            env.wait_until_held(case.failpoint);
        }
        let id = env.wait_for_run_count(1);
        let paused = Self { env, client, id, case };
        if case.agent_lives() {
            let formed = paused.env.path("formed");
            wait_for(PATIENCE, "the descendants to be formed", || formed.exists().then_some(()));
        }
        if case.failpoint == RUNNING {
            let spool = paused.directory().join("stdout");
            wait_for(PATIENCE, "the first words", || fs::read(&spool).ok().filter(|bytes| !bytes.is_empty()));
        }
        paused
    }

    fn directory(&self) -> PathBuf {
        self.env.run_dir(&self.id)
    }

    /// Kills the victims at once, and releases the survivors.
    pub(super) fn strike(&mut self) {
        // What the server has started may still be on its way out of the server's tree.
        let settled = |pid| state_and_parent(pid).is_none_or(|(_, parent)| parent != self.client.pid());
        let run_processes = wait_for(PATIENCE, "a keeper of its own", || {
            let run_processes = run_processes(&self.directory());
            let needed = self.case.victims.iter().any(|victim| matches!(victim, Keeper));
            let there = run_processes.keeper.as_ref().map_or(!needed, |keeper| settled(keeper.pid));
            there.then_some(run_processes)
        });
        // All are stopped before the first is killed: one that saw the death of another would react to it.
        for signal in [Signal::STOP, Signal::KILL] {
            for victim in self.case.victims {
                let process = match victim {
                    Server => {
                        kill(self.client.pid(), signal);
                        continue;
                    }
                    Keeper => run_processes.keeper.as_ref(),
                    Worker => run_processes.worker.as_ref(),
                };
                assert!(process.unwrap().signal(signal), "{:?}", self.case);
            }
        }
        if self.case.failpoint != RUNNING {
            self.env.release(self.case.failpoint);
        }
        fs::write(self.env.path("go"), "").unwrap();
    }

    /// Whether the agent was put into a pid namespace, by the record.
    fn in_namespace(&self) -> bool {
        let events = self.env.events(&self.id);
        events.iter().any(|event| event["containment"]["pid_namespace"] == json!(true))
    }

    fn left(&self) -> Vec<u32> {
        tagged(self.env.tag(&self.id))
    }
}

/// Plays a case and checks everything that is promised for it. The benchmark measures how soon it is true.
pub(super) fn play(case: KillCase) {
    let mut paused = PausedRun::set(case);
    paused.strike();
    if case.goes_on() {
        paused.env.outcome_by_itself(&paused.id, PATIENCE);
    } else if !case.kills(Keeper) {
        paused.env.outcome_by_itself(&paused.id, PATIENCE);
        assert_eq!(paused.left(), Vec::<u32>::new(), "{case:?}");
    } else if paused.in_namespace() {
        wait_for(PATIENCE, "the namespace to end", || paused.left().is_empty().then_some(()));
    }
    // The dying take a moment to let go of the lock, and the server that waits may be looking just now.
    let shown = wait_for(PATIENCE, "a look to end the run", || {
        Some(paused.env.json(["show", &paused.id])).filter(|shown| shown["ended"] == json!(true))
    });
    assert_eq!(paused.left(), Vec::<u32>::new(), "after a look: {case:?}");
    let groups = control_groups(&HashSet::from([paused.env.tag(&paused.id)]));
    assert_eq!(groups, Vec::<PathBuf>::new(), "{case:?}");
    check_outcome(case, &shown);
    assert_eq!(paused.env.times_ended(&paused.id), 1, "{case:?}");
    drop(paused.client);
    let mut other = paused.env.serve().initialize("another");
    let fetched = other.call("get_run", json!({"run_id": paused.id}));
    assert_eq!((&fetched["status"], &fetched["result"]), (&shown["status"], &shown["result"]), "{case:?}");
}

fn check_outcome(case: KillCase, shown: &Value) {
    let outcome = &shown["outcome"];
    if case.goes_on() {
        assert_eq!((&outcome["outcome"], &shown["result"]), (&json!("succeeded"), &json!(WHOLE)), "{case:?}");
        return;
    }
    let lost = match (case.has_worker(), case.kills(Keeper)) {
        (false, _) => "before_start",
        (true, true) => "keeper_and_worker",
        (true, false) => "worker",
    };
    let result = shown["result"].as_str().unwrap_or_default();
    assert!(WHOLE.starts_with(result), "{case:?}: {shown}");
    if result.is_empty() {
        assert_eq!(outcome, &json!({"outcome": "interrupted", "lost": lost}), "{case:?}");
    } else {
        let cause = json!({"cause": "interrupted", "lost": lost});
        assert_eq!(outcome, &json!({"outcome": "partial", "cause": cause}), "{case:?}");
    }
    match case.failpoint {
        RUNNING => assert_eq!(result, "before\n", "what was said is kept: {case:?}"),
        "worker_swept" => assert_eq!(result, WHOLE, "what was said is kept: {case:?}"),
        _ => {}
    }
}
