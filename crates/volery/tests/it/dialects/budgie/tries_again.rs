//! The second try: once, after two seconds, on a time-out or a crash, on record, and not of what somebody cancelled.

use std::time::{Duration, Instant};

use serde_json::json;

use super::place::{Place, answered, call, refused, same_in_both};
use crate::stage::{PATIENCE, wait_for};

const TOOL: &str = "kiro-subagents.test-agent";

fn attempts(place: &Place) -> Vec<serde_json::Value> {
    let events = place.stage.events(&place.stage.only_run());
    events.into_iter().filter(|event| event["type"] == "attempt_began").collect()
}

/// Differs from budgie: the second try | repeats the prompt | says that the first was cut short and may have
///    changed something; `attempts` in the answer is 2
#[test]
fn a_crash_is_tried_once_more_after_two_seconds_and_the_answer_says_so() {
    let place = Place::new();
    let begun = Instant::now();
    let said = answered(&mut place.serve(&[]), place.ask("crash-once"));
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert_eq!(said["attempts"], json!(2));
    assert!(said["response"].as_str().unwrap().starts_with("done: "), "{said}");
    let attempts = attempts(&place);
    assert_eq!((attempts.len(), &attempts[1]["asked"]), (2, &json!("again")));
    assert!(attempts[1]["because"].as_str().unwrap().contains("code 7"), "{attempts:?}");
    let told = &place.calls()[1];
    assert!(told.contains("may have changed files"), "it is not just repeated: {told}");
    assert!(told.contains("crash-once"), "{told}");
}

#[test]
fn a_signal_is_tried_once_more() {
    let place = Place::new();
    let said = answered(&mut place.serve(&[]), place.ask("signal-once"));
    assert_eq!((&said["attempts"], place.calls().len()), (&json!(2), 2));
}

#[test]
fn an_exit_code_with_a_reason_is_not_tried_again() {
    let place = Place::new();
    let result = call(&mut place.serve(&[]), TOOL, place.ask("crash"));
    let text = refused(&result);
    assert!(text.contains("kiro-cli failed: the agent reports: it broke"), "{text}");
    assert!(!text.contains("attempts"), "{text}");
    assert_eq!((attempts(&place).len(), place.calls().len()), (1, 1));
}

#[test]
fn a_time_out_is_tried_once_more_with_all_of_its_time() {
    let place = Place::new();
    let said = answered(&mut place.serve(&["--agent-timeout", "3s"]), place.ask("hang-once"));
    assert_eq!((&said["attempts"], place.calls().len()), (&json!(2), 2));
    let run = place.stage.json(["show", &place.stage.only_run()]);
    assert_eq!((&run["status"], &run["attempts"]), (&json!("succeeded"), &json!(2)));
}

/// Differs from budgie: a failure | an ordinary answer that begins with `ERROR:` | the same, and `isError`, with
///    the health of the agent and the number of attempts
#[test]
fn what_fails_twice_is_an_error_with_the_health_of_its_agent() {
    let place = Place::new();
    let mut client = place.serve(&["-agent-timeout=1s"]);
    answered(&mut client, place.ask("fine"));
    let crashed = call(&mut client, TOOL, place.ask("bare-crash"));
    refused(&crashed);
    let said = same_in_both(&crashed);
    let keys: Vec<&String> = said.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["response", "sessionId", "attempts"]);
    let text = said["response"].as_str().unwrap();
    assert!(text.starts_with("ERROR: kiro-cli failed: ") && text.contains("code 7"), "{text}");
    let health = "2 attempts; health of test-agent: success rate 50.0%, 1 of 2 calls failed, 0 by time-out";
    assert!(text.contains(health), "{text}");
    assert!(text.contains("half an answer"), "{text}");
    let hung = call(&mut client, TOOL, place.ask("hang"));
    refused(&hung);
    let text = hung["structuredContent"]["response"].as_str().unwrap();
    assert!(text.starts_with("ERROR: agent timeout after 1s (2 attempts; health of test-agent: "), "{text}");
    assert!(text.contains("2 of 3 calls failed, 1 by time-out"), "{text}");
    assert_eq!(place.calls().len(), 5);
}

/// Differs from budgie: a second try that is not wanted | cannot be turned off | `--no-retry`
#[test]
fn without_retries_there_is_one_attempt() {
    let place = Place::new();
    let result = call(&mut place.serve(&["--no-retry"]), TOOL, place.ask("bare-crash"));
    assert!(!refused(&result).contains("attempts"), "{result}");
    assert_eq!((attempts(&place).len(), place.calls().len()), (1, 1));
}

/// Differs from budgie: a cancelled call | a crash like any other, so it is tried again | ends the agent and is not
///    tried again
#[test]
fn what_somebody_cancelled_is_not_tried_again() {
    let place = Place::new();
    let mut client = place.serve(&[]);
    let id = client.send("tools/call", json!({"name": TOOL, "arguments": place.ask("hang")}));
    let run = place.stage.newest_of(1);
    place.stage.event(&run, "agent_started");
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "the user pressed escape"}));
    let ended = place.stage.ended(&run);
    // Partial if it had said something by then.
    let outcome = &ended["outcome"];
    let cancelled = json!("cancelled");
    assert!(outcome["outcome"] == cancelled || outcome["cause"]["cause"] == cancelled, "{ended}");
    assert_eq!(attempts(&place).len(), 1);
}

#[test]
fn a_cancel_between_two_attempts_ends_the_run() {
    let place = Place::new();
    let mut client = place.serve(&[]);
    place.stage.hold("worker_between_attempts");
    let id = client.send("tools/call", json!({"name": TOOL, "arguments": place.ask("bare-crash")}));
    let run = place.stage.newest_of(1);
    place.stage.held("worker_between_attempts");
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "the user pressed escape"}));
    let letter = place.stage.run_dir(&run).join("inbox/cancel");
    wait_for(PATIENCE, "the order to cancel", || letter.exists().then_some(()));
    place.stage.release("worker_between_attempts");
    let ended = place.stage.ended(&run);
    assert_eq!(ended["status"], json!("cancelled"), "{ended}");
    assert_eq!((attempts(&place).len(), place.calls().len()), (1, 1));
}
