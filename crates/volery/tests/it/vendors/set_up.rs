//! Real programs as clients, set up by `volery init` and started as their user would: each finds the tools, calls one,
//! gets an answer that takes longer than a call may wait, loses its patience, cancels, is stopped in the middle of a
//! call, and leaves nothing behind.

use std::time::Duration;

use model_server::Reply;
use rustix::process::Signal;
use serde_json::json;

use super::seat::{Scope, Seat};
use crate::stage::kill;

/// How long calls wait where that does not matter.
const LONG: Duration = Duration::from_secs(120);
/// How long calls wait where the client shall ask again.
const SHORT: Duration = Duration::from_secs(8);

/// The client finds the tools and calls one.
fn calls_a_tool(name: &'static str, case: &'static str, scope: Scope) {
    let Some(seat) = Seat::make(name, case, LONG, scope) else { return };
    let call = seat.call("run_agent", json!({"agent": "quick", "prompt": "Count the herons."}));
    seat.script([call, Reply::say("There are three.")]);
    let mut client = seat.start();
    assert_eq!(seat.ended(&mut client), Some(0), "{}", seat.told());
    let bodies = seat.bodies();
    for tool in ["run_agent", "wait_runs", "list_agents"] {
        assert!(bodies[0].contains(tool), "{tool} is not offered: {}", bodies[0]);
    }
    let run = seat.place.stage.only_run();
    assert_eq!(seat.place.stage.ended(&run)["status"], "succeeded");
    assert!(bodies[1].contains("Three herons."), "the answer did not come back: {}", seat.told());
    seat.check_nothing_left();
    seat.works();
}

/// A run that takes longer than a call may wait is asked for again, and its answer arrives.
fn gets_a_late_answer(name: &'static str) {
    let Some(seat) = Seat::make(name, "client: late answer", SHORT, Scope::Project) else { return };
    seat.script([seat.call("run_agent", json!({"agent": "patient", "prompt": "Count."}))]);
    let mut client = seat.start();
    let run = seat.run_of(&mut client);
    // The call waits some seconds before the model is asked again, so this is in time.
    let wait = seat.call("wait_runs", json!({"run_ids": [run]}));
    seat.script([wait, Reply::say("There are three.")]);
    seat.asked(2);
    seat.release();
    assert_eq!(seat.ended(&mut client), Some(0), "{}", seat.told());
    let bodies = seat.bodies();
    let told_running = bodies[1].contains(&run) && bodies[1].contains("running");
    assert!(told_running, "it did not hear that the run goes on: {}", seat.told());
    assert!(!bodies[1].contains("Three herons.") && bodies[2].contains("Three herons."), "{}", seat.told());
    seat.check_nothing_left();
    seat.works();
}

/// The client's own time-out fires: that is the end of its call, and not of the run.
fn loses_its_patience(name: &'static str) {
    let Some(seat) = Seat::make(name, "client: time-out", LONG, Scope::Project) else { return };
    seat.limit();
    let call = seat.call("run_agent", json!({"agent": "patient", "prompt": "Count."}));
    // Time enough to let a server go on that was held.
    seat.script([call, Reply::say("Nobody told me.").after_ms(2_000)]);
    let mut client = seat.start();
    let run = seat.run_of(&mut client);
    seat.place.stage.event(&run, "claimed");
    // Their clocks start again with every progress, and so they hear none.
    let held = matches!(name, "opencode" | "copilot");
    if held {
        seat.signal_server(Signal::STOP);
    }
    seat.asked(2);
    if held {
        seat.signal_server(Signal::CONT);
    }
    assert_eq!(seat.ended(&mut client), Some(0), "{}", seat.told());
    let shown = seat.place.stage.json(["show", &run]);
    assert_eq!(shown["status"], "running", "{shown}: {}", seat.told());
    seat.release();
    let shown = seat.place.stage.ended(&run);
    assert_eq!(
        (&shown["status"], &shown["result"]),
        (&json!("succeeded"), &json!("Three herons.\n")),
        "{shown}"
    );
    seat.check_nothing_left();
    seat.works();
}

/// The client cancels a run whose id it was told.
fn cancels_a_run(name: &'static str) {
    let Some(seat) = Seat::make(name, "client: cancel", SHORT, Scope::Project) else { return };
    seat.script([seat.call("run_agent", json!({"agent": "endless", "prompt": "Count."}))]);
    let mut client = seat.start();
    let run = seat.run_of(&mut client);
    let cancel = seat.call("cancel_run", json!({"run_id": run, "reason": "too many herons"}));
    seat.script([cancel, Reply::say("I gave up.")]);
    assert_eq!(seat.ended(&mut client), Some(0), "{}", seat.told());
    let shown = seat.place.stage.ended(&run);
    assert_eq!(shown["status"], "cancelled", "{shown}");
    let events = seat.place.stage.events(&run);
    let reason = events.iter().any(|event| event.to_string().contains("too many herons"));
    assert!(reason, "somebody else has cancelled it: {events:?}");
    seat.check_nothing_left();
    seat.works();
}

/// Somebody stops the client in the middle of a call: the run is cancelled, and nothing is left.
fn is_stopped_in_a_call(name: &'static str) {
    let Some(seat) = Seat::make(name, "client: stopped", LONG, Scope::Project) else { return };
    seat.script([seat.call("run_agent", json!({"agent": "endless", "prompt": "Count."}))]);
    let mut client = seat.start();
    let run = seat.run_of(&mut client);
    seat.place.stage.event(&run, "claimed");
    let signal = if matches!(name, "claude" | "codex") { Signal::INT } else { Signal::TERM };
    kill(client.0.id(), signal);
    seat.ended(&mut client);
    let shown = seat.place.stage.ended(&run);
    assert_eq!(shown["status"], "cancelled", "{shown}: {}", seat.told());
    seat.check_nothing_left();
    seat.works();
}

macro_rules! clients {
    ($($client:ident),+ $(,)?) => {
        $(mod $client {
            const NAME: &str = stringify!($client);

            #[test]
            fn calls_a_tool() {
                super::calls_a_tool(NAME, "client: call", super::Scope::Project);
            }

            #[test]
            fn calls_a_tool_in_any_project() {
                super::calls_a_tool(NAME, "client: any project", super::Scope::User);
            }

            #[test]
            fn gets_a_late_answer() {
                super::gets_a_late_answer(NAME);
            }

            #[test]
            fn loses_its_patience() {
                super::loses_its_patience(NAME);
            }

            #[test]
            fn cancels_a_run() {
                super::cancels_a_run(NAME);
            }

            #[test]
            fn is_stopped_in_a_call() {
                super::is_stopped_in_a_call(NAME);
            }
        })+
    };
}

clients!(claude, codex, gemini, copilot, opencode, qwen);

/// What else is set up is tried as far as its entry: it is read, and a call goes there and back.
mod kimi {
    #[test]
    fn calls_a_tool() {
        super::calls_a_tool("kimi", "client: call", super::Scope::Project);
    }

    #[test]
    fn calls_a_tool_in_any_project() {
        super::calls_a_tool("kimi", "client: any project", super::Scope::User);
    }
}

mod goose {
    #[test]
    fn calls_a_tool_in_any_project() {
        super::calls_a_tool("goose", "client: any project", super::Scope::User);
    }
}
