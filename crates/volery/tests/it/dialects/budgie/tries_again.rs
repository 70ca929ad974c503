//! The second try: once, after two seconds, on a time-out or a crash, on record, and not of what somebody cancelled.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::budgie_env::{BudgieEnv, answered, call, refused, same_in_both};
use crate::test_env::{PATIENCE, wait_for};

const TOOL: &str = "kiro-subagents.test-agent";

fn attempts(budgie: &BudgieEnv) -> Vec<serde_json::Value> {
    let events = budgie.env.events(&budgie.env.only_run());
    events.into_iter().filter(|event| event["type"] == "attempt_began").collect()
}

/// Differs from budgie: the second try | repeats the prompt | says that the first was cut short and may have
///    changed something; `attempts` in the answer is 2
#[test]
fn a_crash_is_retried_once_after_two_seconds_and_the_answer_counts_attempts() {
    let budgie = BudgieEnv::new();
    let begun = Instant::now();
    let answer = answered(&mut budgie.serve(&[]), budgie.ask("crash-once"));
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert_eq!(answer["attempts"], json!(2));
    assert!(answer["response"].as_str().unwrap().starts_with("done: "), "{answer}");
    let attempts = attempts(&budgie);
    assert_eq!((attempts.len(), &attempts[1]["asked"]), (2, &json!("again")));
    insta::assert_snapshot!(budgie.env.masked_texts(&attempts[1]["because"]), @"kiro: the agent exited with code 7");
    let second_call = &budgie.calls()[1];
    assert!(second_call.contains("may have changed files"), "it is not just repeated: {second_call}");
    assert!(second_call.contains("crash-once"), "{second_call}");
}

#[test]
fn a_death_by_signal_is_retried_once() {
    let budgie = BudgieEnv::new();
    let answer = answered(&mut budgie.serve(&[]), budgie.ask("signal-once"));
    assert_eq!((&answer["attempts"], budgie.calls().len()), (&json!(2), 2));
}

#[test]
fn a_crash_after_the_answer_was_submitted_is_not_retried() {
    let budgie = BudgieEnv::new();
    budgie.prompt("_system.md", "Answer into {{RESPONSE_FILE}}.");
    // It may not write files, so it answers by the tool `submit_result`.
    budgie.agent(json!({"name": "reader", "description": "sub-agent: Reads", "allowedTools": ["fs_read"]}));
    // If Kiro is started by the agent's name, it has its user's servers and no tool of Volery.
    budgie.env.configure("[dialects.budgie]\ninherit = [\"environment\", \"settings\"]\n");
    let server = format!("exec {} __submit-result\n", env!("CARGO_BIN_EXE_volery"));
    fs::write(budgie.home("submit-server"), server).unwrap();
    let result = call(&mut budgie.serve(&[]), "kiro-subagents.reader", budgie.ask("submit-and-crash"));
    let run = budgie.env.only_run();
    assert_eq!(budgie.env.wait_for_event(&run, "result_submitted")["text"], json!("the answer"));
    insta::assert_snapshot!(budgie.env.masked_texts(&same_in_both(&result)["response"]), @"
    ERROR: kiro-cli failed: the agent exited with code 7 (health of reader: success rate 0.0%, 1 of 1 calls failed, 0 by time-out)

    What it said before:
    the answer
    ");
    assert_eq!((attempts(&budgie).len(), budgie.calls().len()), (1, 1));
}

#[test]
fn an_exit_code_with_a_reason_is_not_retried() {
    let budgie = BudgieEnv::new();
    let result = call(&mut budgie.serve(&[]), TOOL, budgie.ask("crash"));
    let text = refused(&result);
    assert!(text.contains("kiro-cli failed: the agent reports: it broke"), "{text}");
    assert!(!text.contains("attempts"), "{text}");
    assert_eq!((attempts(&budgie).len(), budgie.calls().len()), (1, 1));
}

/// Differs from budgie: Kiro that ends with 0 and writes nothing | a second call of the model, then an empty answer |
///    `ERROR:` with the reason, and `isError`
#[test]
fn an_end_without_a_word_is_an_error_and_not_retried() {
    let budgie = BudgieEnv::new();
    let result = call(&mut budgie.serve(&[]), TOOL, budgie.ask("mute"));
    refused(&result);
    insta::assert_snapshot!(budgie.env.masked_texts(&same_in_both(&result)["response"]), @"ERROR: kiro-cli failed: the agent's output could not be used: nothing shows that a model answered (health of test-agent: success rate 0.0%, 1 of 1 calls failed, 0 by time-out)");
    assert_eq!((attempts(&budgie).len(), budgie.calls().len()), (1, 1));
}

#[test]
fn a_time_out_is_retried_once_with_a_full_time_limit() {
    let budgie = BudgieEnv::new();
    let answer = answered(&mut budgie.serve(&["--agent-timeout", "3s"]), budgie.ask("hang-once"));
    assert_eq!((&answer["attempts"], budgie.calls().len()), (&json!(2), 2));
    let run = budgie.env.json(["show", &budgie.env.only_run()]);
    assert_eq!((&run["status"], &run["attempts"]), (&json!("succeeded"), &json!(2)));
}

/// Differs from budgie: a failure | an ordinary answer that begins with `ERROR:` | the same, and `isError`, with
///    the health of the agent and the number of attempts
#[test]
fn a_second_failure_is_an_error_with_the_health_of_its_agent() {
    let budgie = BudgieEnv::new();
    let mut client = budgie.serve(&["-agent-timeout=1s"]);
    answered(&mut client, budgie.ask("fine"));
    let crashed = call(&mut client, TOOL, budgie.ask("bare-crash"));
    refused(&crashed);
    let answer = same_in_both(&crashed);
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["response", "sessionId", "attempts"]);
    let text = answer["response"].as_str().unwrap();
    assert!(text.starts_with("ERROR: kiro-cli failed: ") && text.contains("code 7"), "{text}");
    let health = "2 attempts; health of test-agent: success rate 50.0%, 1 of 2 calls failed, 0 by time-out";
    assert!(text.contains(health), "{text}");
    assert!(text.contains("half an answer"), "{text}");
    let hung = call(&mut client, TOOL, budgie.ask("hang"));
    refused(&hung);
    let text = hung["structuredContent"]["response"].as_str().unwrap();
    assert!(text.starts_with("ERROR: agent timeout after 1s (2 attempts; health of test-agent: "), "{text}");
    assert!(text.contains("2 of 3 calls failed, 1 by time-out"), "{text}");
    assert_eq!(budgie.calls().len(), 5);
}

/// Differs from budgie: a second try that is not wanted | cannot be turned off | `--no-retry`
#[test]
fn without_retries_there_is_one_attempt() {
    let budgie = BudgieEnv::new();
    let result = call(&mut budgie.serve(&["--no-retry"]), TOOL, budgie.ask("bare-crash"));
    assert!(!refused(&result).contains("attempts"), "{result}");
    assert_eq!((attempts(&budgie).len(), budgie.calls().len()), (1, 1));
}

/// Differs from budgie: a cancelled call | a crash like any other, so it is tried again | ends the agent and is not
///    tried again
#[test]
fn a_cancelled_call_is_not_retried() {
    let budgie = BudgieEnv::new();
    let mut client = budgie.serve(&[]);
    let id = client.send("tools/call", json!({"name": TOOL, "arguments": budgie.ask("hang")}));
    let run = budgie.env.wait_for_run_count(1);
    budgie.env.wait_for_event(&run, "agent_started");
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "the user pressed escape"}));
    let ended = budgie.env.wait_for_end(&run);
    // Partial if it had printed something by then.
    let outcome = &ended["outcome"];
    let cancelled = json!("cancelled");
    assert!(outcome["outcome"] == cancelled || outcome["cause"]["cause"] == cancelled, "{ended}");
    assert_eq!(attempts(&budgie).len(), 1);
}

#[test]
fn a_cancel_between_two_attempts_ends_the_run() {
    let budgie = BudgieEnv::new();
    let mut client = budgie.serve(&[]);
    budgie.env.hold("worker_between_attempts");
    let id = client.send("tools/call", json!({"name": TOOL, "arguments": budgie.ask("bare-crash")}));
    let run = budgie.env.wait_for_run_count(1);
    budgie.env.wait_until_held("worker_between_attempts");
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "the user pressed escape"}));
    let letter = budgie.env.run_dir(&run).join("inbox/cancel");
    wait_for(PATIENCE, "the order to cancel", || letter.exists().then_some(()));
    budgie.env.release("worker_between_attempts");
    let ended = budgie.env.wait_for_end(&run);
    assert_eq!(ended["status"], json!("cancelled"), "{ended}");
    assert_eq!((attempts(&budgie).len(), budgie.calls().len()), (1, 1));
}
