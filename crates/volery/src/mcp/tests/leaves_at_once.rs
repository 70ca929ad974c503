//! Shutdown: the server tells the engine, answers pending calls, and stops immediately.

use std::time::Duration;

use serde_json::json;

use super::super::options::Timing;
use super::super::serve::StopReason;
use super::client_session::{ClientSession, Era, fast_options};

/// The time between two ticks of a server's own thread.
const TICK: Duration = Duration::from_millis(10);
/// Less than the five seconds that the library would wait.
const STOP_TICKS: u32 = 300;

async fn wait_for_stop(session: &mut ClientSession) -> StopReason {
    let serving = &mut session.serving;
    tokio::time::timeout(Duration::from_secs(60), serving).await.expect("it leaves").unwrap().unwrap()
}

/// Waits for the end of the server, and counts the ticks until then. The ticks come from the server's own thread: a
/// machine that keeps this thread waiting delays both.
async fn count_ticks_to_stop(session: &mut ClientSession) -> (StopReason, u32) {
    let mut ticks = 0;
    let stopped = wait_for_stop(session);
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            reason = &mut stopped => return (reason, ticks),
            () = tokio::time::sleep(TICK) => ticks += 1,
        }
    }
}

#[test]
fn shutdown_timeouts_are_below_400_ms() {
    let Timing { leave_ready, leave_answer, leave_write, .. } = Timing::default();
    assert!(leave_ready + leave_answer + leave_write <= Duration::from_millis(350));
}

#[tokio::test]
async fn the_end_of_the_input_before_any_message_is_not_an_error() {
    let mut session = ClientSession::open(fast_options());
    session.hang_up();
    assert_eq!(wait_for_stop(&mut session).await, StopReason::Closed);
    assert_eq!(session.engine.log(), ["disconnect"]);
}

#[tokio::test]
async fn requests_before_the_end_of_the_input_are_answered() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let list = session.request(Era::Legacy, "tools/list", json!({}));
    let params = json!({ "name": "run_agent", "arguments": { "agent": "quick", "prompt": "hi" } });
    let call = session.request(Era::Legacy, "tools/call", params);
    session.hang_up();
    let mut ids = [session.next().await["id"].clone(), session.next().await["id"].clone()];
    ids.sort_by_key(|id| id.as_i64());
    assert_eq!(ids, [json!(list), json!(call)]);
    assert_eq!(wait_for_stop(&mut session).await, StopReason::Closed);
}

#[tokio::test]
async fn a_call_that_waits_answers_with_its_handle_and_the_run_is_neither_detached_nor_cancelled() {
    for reason in [StopReason::Closed, StopReason::Interrupted, StopReason::Terminated] {
        let mut options = fast_options();
        // More time than a call needs to answer.
        options.timing.leave_answer = Duration::from_secs(10);
        let mut session = ClientSession::open(options);
        session.hello(Era::Legacy, "x", json!({})).await;
        let params = json!({ "name": "run_agent", "arguments": { "agent": "slow", "prompt": "p" } });
        let id = session.request(Era::Legacy, "tools/call", params);
        session.engine.logged("start slow").await;
        match reason {
            StopReason::Closed => session.hang_up(),
            StopReason::Interrupted | StopReason::Terminated => session.stop(reason),
        }
        let (stopped_by, ticks) = count_ticks_to_stop(&mut session).await;
        assert_eq!(stopped_by, reason);
        assert!(ticks < STOP_TICKS, "{ticks} ticks");
        let answer = session.next().await;
        assert_eq!(answer["id"], json!(id));
        assert_eq!(answer["result"]["structuredContent"]["status"], "running");
        session.rest().await;
        let log = session.engine.log();
        assert!(log.contains(&"disconnect".to_owned()), "{log:?}");
        assert!(!log.iter().any(|line| line.starts_with("cancel") || line.starts_with("detach")), "{log:?}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_delay_the_end() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    session.call(Era::Legacy, "run_agent", json!({ "agent": "long", "prompt": "p" })).await;
    let run = session.engine.run_ids()[0].to_string();
    session.stop_reading();
    for _ in 0..20 {
        let arguments = json!({ "run_id": run, "result_max": 100_000 });
        session.request(Era::Legacy, "tools/call", json!({ "name": "get_run", "arguments": arguments }));
    }
    session.stop(StopReason::Terminated);
    let (stopped_by, ticks) = count_ticks_to_stop(&mut session).await;
    assert_eq!(stopped_by, StopReason::Terminated);
    assert!(ticks < STOP_TICKS, "{ticks} ticks");
}

#[tokio::test]
async fn a_client_that_closes_the_output_ends_the_server_quietly() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    session.close_output();
    // Writes succeed until the other end has closed, so retry.
    let left = loop {
        session.request(Era::Legacy, "ping", json!({}));
        if let Ok(left) = tokio::time::timeout(Duration::from_millis(20), &mut session.serving).await {
            break left.unwrap().unwrap();
        }
    };
    assert_eq!(left, StopReason::Closed);
    session.engine.logged("disconnect").await;
}
