//! The demo's client against a scripted server.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, duplex};

use super::environment::{DEMO_AGENTS, DemoEnv};
use super::mcp_client::{DemoClient, ServerMessage};
use super::results::DemoReport;
use crate::report::{ColorMode, TextStyle};

type TestClient = DemoClient<DuplexStream, DuplexStream>;

/// The server's end of the pipes.
struct FakeServer {
    requests: Lines<BufReader<DuplexStream>>,
    answers: DuplexStream,
}

fn connect() -> (TestClient, FakeServer) {
    let (to_server, requests) = duplex(1 << 16);
    let (answers, from_server) = duplex(1 << 16);
    (
        DemoClient::new(to_server, from_server),
        FakeServer { requests: BufReader::new(requests).lines(), answers },
    )
}

impl FakeServer {
    async fn request(&mut self) -> Value {
        let line = self.requests.next_line().await.expect("a pipe that works").expect("a request");
        serde_json::from_str(&line).expect("JSON")
    }

    async fn send(&mut self, message: Value) {
        self.answers.write_all(format!("{message}\n").as_bytes()).await.expect("a pipe that works");
    }

    async fn answer(&mut self, request: &Value, structured: Value) {
        let result = json!({ "content": [], "structuredContent": structured });
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }
}

fn in_time<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let bounded = async { tokio::time::timeout(std::time::Duration::from_secs(20), work).await };
    runtime.block_on(bounded).expect("the conversation ends in time")
}

#[test]
fn the_client_initializes_delegates_and_receives_progress_and_results() {
    in_time(async {
        let (mut client, mut server) = connect();
        let (greeted, ()) = tokio::join!(client.initialize(), async {
            let request = server.request().await;
            assert_eq!(request["method"], "initialize");
            server.answer(&request, json!({})).await;
        });
        greeted.expect("a greeting");
        assert_eq!(server.request().await["method"], "notifications/initialized");

        client.delegate(&json!([{ "agent": "scout" }])).await.expect("a request");
        let delegation = server.request().await;
        assert_eq!(delegation["params"]["name"], "run_agents");
        assert_eq!(delegation["params"]["_meta"]["progressToken"], "demo");
        let progress = json!({ "progressToken": "demo", "progress": 1, "message": "scout: started" });
        server
            .send(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress }))
            .await;
        assert_eq!(client.receive().await, Ok(ServerMessage::Progress("scout: started".into())));
        server.answer(&delegation, json!({ "runs": [{ "run_id": "r1" }] })).await;
        assert_eq!(client.receive().await, Ok(ServerMessage::Delegated(vec!["r1".into()])));
        assert!(client.is_answered());

        client.request_runs(&["r1".to_owned()]).await.expect("a request");
        assert!(!client.is_answered());
        let request = server.request().await;
        assert_eq!(request["params"]["arguments"]["run_id"], "r1");
        server.answer(&request, json!({ "agent": "scout" })).await;
        assert_eq!(client.receive().await, Ok(ServerMessage::Run(Box::new(json!({ "agent": "scout" })))));
    });
}

#[test]
fn a_message_in_pieces_survives_a_cancelled_receive() {
    in_time(async {
        let (mut client, mut server) = connect();
        let text =
            json!({ "method": "notifications/progress", "params": { "message": "whole" } }).to_string();
        let (head, tail) = text.split_at(20);
        server.answers.write_all(head.as_bytes()).await.expect("a pipe that works");
        let timed_out = tokio::time::timeout(std::time::Duration::from_millis(20), client.receive()).await;
        assert!(timed_out.is_err());
        server.answers.write_all(format!("{tail}\n").as_bytes()).await.expect("a pipe that works");
        assert_eq!(client.receive().await, Ok(ServerMessage::Progress("whole".into())));
    });
}

#[test]
fn refusals_and_a_dead_server_are_errors_with_their_reason() {
    in_time(async {
        let (mut client, mut server) = connect();
        client.delegate(&json!([])).await.expect("a request");
        let request = server.request().await;
        let content = json!([{ "type": "text", "text": "no such agent" }]);
        let result = json!({ "isError": true, "content": content });
        server.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
        let refused = client.receive().await.expect_err("a refusal");
        assert_eq!(refused.message, "the server refused: no such agent");
        drop(server);
        let gone = client.receive().await.expect_err("an end");
        assert_eq!(gone.message, "the server ended the conversation");
    });
}

#[test]
fn a_delegation_that_is_refused_in_part_is_an_error() {
    in_time(async {
        let (mut client, mut server) = connect();
        client.delegate(&json!([])).await.expect("a request");
        let request = server.request().await;
        let refused = json!([{ "index": 0, "agent": "scout", "reason": "no such agent" }]);
        server.answer(&request, json!({ "runs": [], "refused": refused })).await;
        let error = client.receive().await.expect_err("a refusal");
        assert_eq!(error.message, "the server refused: scout: no such agent");
    });
}

#[test]
fn the_environment_has_the_agents_and_is_removed_afterwards() {
    let env = DemoEnv::create().expect("a temporary directory");
    let project = env.project();
    for agent in DEMO_AGENTS {
        assert!(project.join(format!(".volery/agents/{}.md", agent.name)).is_file());
    }
    assert_eq!(env.tasks().as_array().map(Vec::len), Some(DEMO_AGENTS.len()));
    drop(env);
    assert!(!project.exists());
}

#[test]
fn a_report_counts_and_an_ended_run_stays_ended() {
    let run = |agent: &str, status: &str| {
        json!({
            "agent": agent, "run_id": "r", "status": status, "duration_ms": 1_500, "result": "Done.\n",
            "input_tokens": 1_000, "output_tokens": 50, "cost_usd": 0.0025
        })
    };
    let mut report = DemoReport::new(["scout", "critic"]);
    report.update_run(&run("scout", "succeeded"));
    report.update_run(&run("scout", "running"));
    assert!(!report.is_complete());
    report.update_run(&run("critic", "succeeded"));
    report.update_run(&run("stranger", "failed"));
    assert!(report.is_complete() && report.all_succeeded());
    let style =
        TextStyle { width: None, color: ColorMode::Plain, now: domain::Timestamp::UNIX_EPOCH, home: None };
    insta::assert_snapshot!(report.finish(1_600).page(&style), @r"
    scout
      Done.

    critic
      Done.

    AGENT   STATUS     TIME  TOKENS IN  OUT     COST
    scout   succeeded  1.5s      1,000   50  $0.0025
    critic  succeeded  1.5s      1,000   50  $0.0025

    3.0s of work in 1.6s, $0.0050
    ");
}
