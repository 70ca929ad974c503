//! The end of the door: it says its word, answers what is ready, and is gone.

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::options::Pace;
use super::super::serve::Left;
use super::session::{Era, Session, brisk};

/// Far below the five seconds for which the library would wait, and above what a busy machine adds to the 0.4 s that
/// the benchmark measures.
const GONE: Duration = Duration::from_secs(2);

async fn left(session: &mut Session) -> Left {
    let serving = &mut session.serving;
    tokio::time::timeout(Duration::from_secs(10), serving).await.expect("it leaves").unwrap().unwrap()
}

#[test]
fn leaving_is_meant_to_take_less_than_four_tenths_of_a_second() {
    let Pace { leave_ready, leave_answer, leave_write, .. } = Pace::default();
    assert!(leave_ready + leave_answer + leave_write <= Duration::from_millis(350));
}

#[tokio::test]
async fn the_end_of_the_input_before_any_message_is_no_error() {
    let mut session = Session::open(brisk());
    session.hang_up();
    assert_eq!(left(&mut session).await, Left::Closed);
    assert_eq!(session.engine.log(), ["leave"]);
}

#[tokio::test]
async fn requests_before_the_end_of_the_input_are_answered() {
    let mut session = Session::begin(Era::Legacy, "x", json!({})).await;
    let list = session.request(Era::Legacy, "tools/list", json!({}));
    let params = json!({ "name": "run_agent", "arguments": { "agent": "quick", "prompt": "hi" } });
    let call = session.request(Era::Legacy, "tools/call", params);
    session.hang_up();
    let mut ids = [session.next().await["id"].clone(), session.next().await["id"].clone()];
    ids.sort_by_key(|id| id.as_i64());
    assert_eq!(ids, [json!(list), json!(call)]);
    assert_eq!(left(&mut session).await, Left::Closed);
}

#[tokio::test]
async fn a_call_that_waits_answers_with_its_handle_and_the_run_is_neither_detached_nor_cancelled() {
    for how in [Left::Closed, Left::Interrupted, Left::Terminated] {
        let mut options = brisk();
        // Time that a call which is told to answer does not need.
        options.pace.leave_answer = Duration::from_secs(10);
        let mut session = Session::open(options);
        session.hello(Era::Legacy, "x", json!({})).await;
        let params = json!({ "name": "run_agent", "arguments": { "agent": "slow", "prompt": "p" } });
        let id = session.request(Era::Legacy, "tools/call", params);
        session.engine.logged("start slow").await;
        let began = Instant::now();
        match how {
            Left::Closed => session.hang_up(),
            Left::Interrupted | Left::Terminated => session.stop(how),
        }
        assert_eq!(left(&mut session).await, how);
        assert!(began.elapsed() < GONE, "took {:?}", began.elapsed());
        let answer = session.next().await;
        assert_eq!(answer["id"], json!(id));
        assert_eq!(answer["result"]["structuredContent"]["status"], "running");
        session.rest().await;
        let log = session.engine.log();
        assert!(log.contains(&"leave".to_owned()), "{log:?}");
        assert!(!log.iter().any(|line| line.starts_with("cancel") || line.starts_with("detach")), "{log:?}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_hold_up_the_end() {
    let mut session = Session::begin(Era::Legacy, "x", json!({})).await;
    session.call(Era::Legacy, "run_agent", json!({ "agent": "long", "prompt": "p" })).await;
    let run = session.engine.run_ids()[0].to_string();
    session.stop_reading();
    for _ in 0..20 {
        let arguments = json!({ "run_id": run, "result_max": 100_000 });
        session.request(Era::Legacy, "tools/call", json!({ "name": "get_run", "arguments": arguments }));
    }
    let began = Instant::now();
    session.stop(Left::Terminated);
    assert_eq!(left(&mut session).await, Left::Terminated);
    assert!(began.elapsed() < GONE, "took {:?}", began.elapsed());
}

#[tokio::test]
async fn a_client_that_closes_the_output_ends_the_door_quietly() {
    let mut session = Session::begin(Era::Legacy, "x", json!({})).await;
    session.close_output();
    // What is written before the other end has closed still goes into the pipe, so it is tried again.
    let left = loop {
        session.request(Era::Legacy, "ping", json!({}));
        if let Ok(left) = tokio::time::timeout(Duration::from_millis(20), &mut session.serving).await {
            break left.unwrap().unwrap();
        }
    };
    assert_eq!(left, Left::Closed);
    session.engine.logged("leave").await;
}
