//! The Tasks extension.

use serde_json::{Value, json};

use super::client_session::{ClientSession, Era};

fn with_tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": { "form": {} } })
}

async fn begin() -> ClientSession {
    ClientSession::begin(Era::Modern, "claude-code", with_tasks()).await
}

async fn create(session: &mut ClientSession, agent: &str) -> String {
    let task = session.call(Era::Modern, "run_agent", json!({ "agent": agent, "prompt": "p" })).await;
    assert_eq!(task["resultType"], "task", "{task}");
    task["taskId"].as_str().unwrap().to_owned()
}

async fn get(session: &mut ClientSession, task: &str) -> Value {
    session.ask(Era::Modern, "tasks/get", json!({ "taskId": task })).await["result"].clone()
}

#[tokio::test]
async fn a_run_that_takes_longer_becomes_a_task_and_its_result_is_inside_it() {
    let mut session = begin().await;
    let params = json!({ "name": "run_agent", "arguments": { "agent": "slow", "prompt": "p" } });
    let created = session.ask(Era::Modern, "tools/call", params).await["result"].clone();
    let run = session.engine.run_ids()[0];
    assert_eq!(
        created,
        json!({
            "resultType": "task",
            "taskId": run.to_string(),
            "status": "working",
            "statusMessage": "slow: running",
            "createdAt": "2026-11-15T10:00:00Z",
            "lastUpdatedAt": "2026-11-15T10:00:02.5Z",
            "ttlMs": 604_800_000_u64,
            "pollIntervalMs": 1_000,
        })
    );
    session.engine.logged("detach").await;
    assert_eq!(get(&mut session, &run.to_string()).await["status"], "working");
    session.engine.end(run, "succeeded", "done");
    let task = get(&mut session, &run.to_string()).await;
    assert_eq!(task["status"], "completed");
    assert_eq!(task["result"]["structuredContent"]["result"], "done");
    assert_eq!(task["result"]["isError"], json!(false));
}

#[tokio::test]
async fn a_quick_run_is_answered_without_a_task() {
    let mut session = begin().await;
    let result = session.call(Era::Modern, "run_agent", json!({ "agent": "quick", "prompt": "hi" })).await;
    assert_eq!(
        (&result["resultType"], &result["structuredContent"]["result"]),
        (&json!("complete"), &json!("HI"))
    );
}

#[tokio::test]
async fn a_client_without_the_extension_never_sees_a_task() {
    let mut session = ClientSession::begin(Era::Modern, "x", json!({})).await;
    let arguments = json!({ "agent": "slow", "prompt": "p", "wait_s": 1 });
    let result = session.call(Era::Modern, "run_agent", arguments).await;
    assert_eq!(result["structuredContent"]["status"], "running");
    let run = session.engine.run_ids()[0].to_string();
    let answer = session.ask(Era::Modern, "tasks/get", json!({ "taskId": run })).await;
    assert_eq!(answer["error"]["code"], -32021);
}

#[tokio::test]
async fn a_failed_run_is_a_completed_task_with_an_error_inside() {
    let mut session = begin().await;
    let task = create(&mut session, "slow").await;
    session.engine.end(session.engine.run_ids()[0], "failed", "");
    let got = get(&mut session, &task).await;
    assert_eq!((&got["status"], &got["result"]["isError"]), (&json!("completed"), &json!(true)));
}

#[tokio::test]
async fn to_cancel_a_task_is_to_cancel_its_run() {
    let mut session = begin().await;
    let task = create(&mut session, "slow").await;
    let answer = session.ask(Era::Modern, "tasks/cancel", json!({ "taskId": task })).await;
    assert_eq!(answer["result"], json!({ "resultType": "complete" }));
    session.engine.logged("cancel").await;
    assert_eq!(get(&mut session, &task).await["status"], "cancelled");
}

#[tokio::test]
async fn a_question_becomes_an_input_request_and_its_response_an_answer() {
    let mut session = begin().await;
    let task = create(&mut session, "asks").await;
    let got = get(&mut session, &task).await;
    assert_eq!(got["status"], "input_required");
    assert_eq!(got["inputRequests"]["q1"]["method"], "elicitation/create");
    assert_eq!(got["inputRequests"]["q1"]["params"]["message"], "The agent asks asks: may I?");
    let responses = json!({ "q1": { "action": "accept", "content": { "answer": "you may" } }, "q9": { "action": "cancel" } });
    let params = json!({ "taskId": task, "inputResponses": responses });
    let answer = session.ask(Era::Modern, "tasks/update", params).await;
    assert_eq!(answer["result"], json!({ "resultType": "complete" }));
    assert_eq!(session.engine.logged("answer").await, "answer true Some(\"you may\") by claude-code");
    let got = get(&mut session, &task).await;
    assert_eq!(got["result"]["structuredContent"]["result"], "you may");
}

#[tokio::test]
async fn a_declined_question_is_denied() {
    let mut session = begin().await;
    let task = create(&mut session, "asks").await;
    let params = json!({ "taskId": task, "inputResponses": { "q1": { "action": "decline" } } });
    session.ask(Era::Modern, "tasks/update", params).await;
    assert_eq!(session.engine.logged("answer").await, "answer false None by claude-code");
}

#[tokio::test]
async fn an_unknown_task_is_an_invalid_parameter() {
    let mut session = begin().await;
    create(&mut session, "slow").await;
    let short = session.engine.run_ids()[0].short();
    for task in ["nonsense", "../../etc/passwd", &short, "0193a1b2-0000-7000-8000-000000000000"] {
        for method in ["tasks/get", "tasks/cancel"] {
            let answer = session.ask(Era::Modern, method, json!({ "taskId": task })).await;
            assert_eq!(answer["error"]["code"], -32602, "{method} {task}");
        }
    }
}

#[tokio::test]
async fn to_wait_for_nothing_gives_a_plain_handle_also_to_a_client_with_tasks() {
    let mut session = begin().await;
    let arguments = json!({ "agent": "slow", "prompt": "p", "wait_s": 0 });
    let result = session.call(Era::Modern, "run_agent", arguments).await;
    assert_eq!(result["structuredContent"]["status"], "running");
}
