//! A run's question goes to the client's user if the client can ask, in both generations, and to its model if it cannot or
//! nobody answers.

use serde_json::{Value, json};

use super::client_session::{BOTH, ClientSession, Era};

const ARGUMENTS: &str = r#"{"agent": "asks", "prompt": "p"}"#;

fn arguments() -> Value {
    serde_json::from_str(ARGUMENTS).unwrap()
}

async fn begin(era: Era) -> ClientSession {
    ClientSession::begin(era, "x", json!({ "elicitation": { "form": {} } })).await
}

/// Makes a call in the older generation, and answers the server's request during the call.
async fn answer_during_call(result: Value) -> (ClientSession, Value) {
    let mut session = begin(Era::Legacy).await;
    let id =
        session.request(Era::Legacy, "tools/call", json!({ "name": "run_agent", "arguments": arguments() }));
    let question = session.next().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(question["params"]["message"], "The agent asks asks: may I?");
    assert_eq!(question["params"]["requestedSchema"]["type"], "object");
    session.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
    let answer = session.answer_to(id).await.0["result"].clone();
    (session, answer)
}

#[tokio::test]
async fn an_older_client_is_asked_during_its_call() {
    let (session, answer) =
        answer_during_call(json!({ "action": "accept", "content": { "answer": "blue" } })).await;
    assert_eq!(answer["structuredContent"]["result"], "blue", "{answer}");
    assert!(
        session.engine.log().contains(&"answer true Some(\"blue\") by x".to_owned()),
        "{:?}",
        session.engine.log()
    );
}

#[tokio::test]
async fn declining_denies() {
    let (session, _) = answer_during_call(json!({ "action": "decline" })).await;
    assert!(
        session.engine.log().contains(&"answer false None by x".to_owned()),
        "{:?}",
        session.engine.log()
    );
}

#[tokio::test]
async fn a_question_that_nobody_answers_goes_to_the_model() {
    let (session, answer) = answer_during_call(json!({ "action": "cancel" })).await;
    let report = &answer["structuredContent"];
    assert_eq!(
        (&report["status"], &report["question"]["question_id"]),
        (&json!("waiting"), &json!("q1")),
        "{answer}"
    );
    assert!(
        session.engine.log().iter().all(|line| !line.starts_with("answer")),
        "{:?}",
        session.engine.log()
    );
}

#[tokio::test]
async fn a_newer_client_gets_the_question_as_an_answer_and_repeats_its_call() {
    let mut session = begin(Era::Modern).await;
    let first = session.call(Era::Modern, "run_agent", arguments()).await;
    assert_eq!(first["resultType"], "input_required", "{first}");
    let state = first["requestState"].as_str().unwrap().to_owned();
    assert_eq!(first["inputRequests"]["q1"]["method"], "elicitation/create", "{first}");
    let retry = |action: &str| {
        json!({
            "name": "run_agent", "arguments": arguments(), "requestState": state,
            "inputResponses": { "q1": { "action": action, "content": { "answer": "blue" } } },
        })
    };
    let closed = session.ask(Era::Modern, "tools/call", retry("cancel")).await["result"].clone();
    assert_eq!(closed["structuredContent"]["question"]["question_id"], "q1", "not asked again: {closed}");
    let done = session.ask(Era::Modern, "tools/call", retry("accept")).await["result"].clone();
    assert_eq!(done["structuredContent"]["result"], "blue", "{done}");
    assert_eq!(session.engine.starts().len(), 1, "nothing is started twice");
}

#[tokio::test]
async fn an_unknown_state_and_an_invalid_response_are_refused() {
    let mut session = begin(Era::Modern).await;
    let first = session.call(Era::Modern, "run_agent", arguments()).await;
    let params = |state: &str, response: Value| {
        json!({ "name": "run_agent", "arguments": arguments(), "requestState": state,
            "inputResponses": { "q1": response } })
    };
    for state in ["", "x", "019371d8-0000-7000-8000-000000000000"] {
        let answer =
            session.ask(Era::Modern, "tools/call", params(state, json!({ "action": "accept" }))).await;
        assert_eq!(answer["error"]["code"], -32602, "{state}: {answer}");
    }
    let state = first["requestState"].as_str().unwrap();
    let answer = session.ask(Era::Modern, "tools/call", params(state, json!(7))).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(session.engine.starts().len(), 1);
}

#[tokio::test]
async fn a_client_that_cannot_ask_hands_the_question_to_its_model() {
    for era in BOTH {
        let mut session = ClientSession::begin(era, "x", json!({})).await;
        let answer = session.call(era, "run_agent", arguments()).await;
        assert_eq!(answer["structuredContent"]["question"]["question_id"], "q1", "{answer}");
    }
}
