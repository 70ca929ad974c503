//! Real programs as clients, set up by `volery init` and started as their user would: each finds the tools, calls one,
//! gets an answer that takes longer than a call may wait, loses its patience, cancels, is stopped in the middle of a
//! call, and leaves nothing behind.

use std::time::Duration;

use fake_llm::ScriptedReply;
use rustix::process::Signal;
use serde_json::json;

use super::client_env::{ClientEnv, Scope};
use crate::test_env::kill;

/// How long calls wait where that does not matter.
const LONG: Duration = Duration::from_secs(120);
/// How long calls wait where the client is expected to call again.
const SHORT: Duration = Duration::from_secs(8);

/// The client finds the tools and calls one.
fn calls_a_tool(name: &'static str, case: &'static str, scope: Scope) {
    let Some(client_env) = ClientEnv::make(name, case, LONG, scope) else { return };
    let call = client_env.call("run_agent", json!({"agent": "quick", "prompt": "Count the herons."}));
    client_env.script([call, ScriptedReply::say("There are three.")]);
    let mut client = client_env.start();
    assert_eq!(client_env.ended(&mut client), Some(0), "{}", client_env.diagnostics());
    let bodies = client_env.bodies();
    check_offered_tools(&bodies);
    let run = client_env.vendor_env.env.only_run();
    assert_eq!(client_env.vendor_env.env.wait_for_end(&run)["status"], "succeeded");
    assert!(
        bodies[1].contains("Three herons."),
        "the answer did not come back: {}",
        client_env.diagnostics()
    );
    client_env.check_nothing_left();
    client_env.works();
}

/// The first request to the model offers the tools.
fn check_offered_tools(bodies: &[String]) {
    for tool in ["run_agent", "wait_runs", "list_agents"] {
        assert!(bodies[0].contains(tool), "{tool} is not offered: {}", bodies[0]);
    }
}

/// The client calls again for a run that takes longer than a call may wait, and gets the answer.
fn gets_a_late_answer(name: &'static str) {
    let Some(client_env) = ClientEnv::make(name, "client: late answer", SHORT, Scope::Project) else {
        return;
    };
    client_env.script([client_env.call("run_agent", json!({"agent": "patient", "prompt": "Count."}))]);
    let mut client = client_env.start();
    let run = client_env.run_of(&mut client);
    check_offered_tools(&client_env.bodies());
    // The call waits some seconds before the next request to the model, so this is in time.
    let wait = client_env.call("wait_runs", json!({"run_ids": [run]}));
    client_env.script([wait, ScriptedReply::say("There are three.")]);
    client_env.wait_for_requests(2);
    client_env.release();
    assert_eq!(client_env.ended(&mut client), Some(0), "{}", client_env.diagnostics());
    let bodies = client_env.bodies();
    let reports_running = bodies[1].contains(&run) && bodies[1].contains("running");
    assert!(reports_running, "it did not hear that the run goes on: {}", client_env.diagnostics());
    assert!(
        !bodies[1].contains("Three herons.") && bodies[2].contains("Three herons."),
        "{}",
        client_env.diagnostics()
    );
    client_env.check_nothing_left();
    client_env.works();
}

/// The client's own time-out fires: that is the end of its call, and not of the run.
fn loses_its_patience(name: &'static str) {
    let Some(client_env) = ClientEnv::make(name, "client: time-out", LONG, Scope::Project) else { return };
    client_env.limit();
    let call = client_env.call("run_agent", json!({"agent": "patient", "prompt": "Count."}));
    // Time enough to let a server go on that was held.
    client_env.script([call, ScriptedReply::say("Nobody told me.").after_ms(2_000)]);
    let mut client = client_env.start();
    let run = client_env.run_of(&mut client);
    client_env.vendor_env.env.wait_for_event(&run, "claimed");
    // Their clocks start again with every progress, and so they hear none.
    let held = matches!(name, "opencode" | "copilot");
    if held {
        client_env.signal_server(Signal::STOP);
    }
    client_env.wait_for_requests(2);
    if held {
        client_env.signal_server(Signal::CONT);
    }
    assert_eq!(client_env.ended(&mut client), Some(0), "{}", client_env.diagnostics());
    let shown = client_env.vendor_env.env.json(["show", &run]);
    assert_eq!(shown["status"], "running", "{shown}: {}", client_env.diagnostics());
    client_env.release();
    let shown = client_env.vendor_env.env.wait_for_end(&run);
    assert_eq!(
        (&shown["status"], &shown["result"]),
        (&json!("succeeded"), &json!("Three herons.\n")),
        "{shown}"
    );
    client_env.check_nothing_left();
    client_env.works();
}

/// The client cancels a run by the id that it got.
fn cancels_a_run(name: &'static str) {
    let Some(client_env) = ClientEnv::make(name, "client: cancel", SHORT, Scope::Project) else { return };
    client_env.script([client_env.call("run_agent", json!({"agent": "endless", "prompt": "Count."}))]);
    let mut client = client_env.start();
    let run = client_env.run_of(&mut client);
    let cancel = client_env.call("cancel_run", json!({"run_id": run, "reason": "too many herons"}));
    client_env.script([cancel, ScriptedReply::say("I gave up.")]);
    assert_eq!(client_env.ended(&mut client), Some(0), "{}", client_env.diagnostics());
    let shown = client_env.vendor_env.env.wait_for_end(&run);
    assert_eq!(shown["status"], "cancelled", "{shown}");
    let events = client_env.vendor_env.env.events(&run);
    let reason = events.iter().any(|event| event.to_string().contains("too many herons"));
    assert!(reason, "somebody else has cancelled it: {events:?}");
    client_env.check_nothing_left();
    client_env.works();
}

/// Somebody stops the client in the middle of a call: the run is cancelled, and nothing is left.
fn is_stopped_in_a_call(name: &'static str) {
    let Some(client_env) = ClientEnv::make(name, "client: stopped", LONG, Scope::Project) else { return };
    client_env.script([client_env.call("run_agent", json!({"agent": "endless", "prompt": "Count."}))]);
    let mut client = client_env.start();
    let run = client_env.run_of(&mut client);
    client_env.vendor_env.env.wait_for_event(&run, "claimed");
    let signal = if matches!(name, "claude" | "codex") { Signal::INT } else { Signal::TERM };
    kill(client.0.id(), signal);
    client_env.ended(&mut client);
    let shown = client_env.vendor_env.env.wait_for_end(&run);
    assert_eq!(shown["status"], "cancelled", "{shown}: {}", client_env.diagnostics());
    client_env.check_nothing_left();
    client_env.works();
}

macro_rules! clients {
    ($($client:ident),+ $(,)?) => {
        $(mod $client {
            const NAME: &str = stringify!($client);

            // That it calls a tool in the project that it was set up for is part of the other cases.
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

/// For the other clients only the configuration entry is tested: the client reads it, and one call works.
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
