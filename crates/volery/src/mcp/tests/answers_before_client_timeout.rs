//! A call is answered before its client times out, with the run's id and the output so far; meanwhile it gets progress.

use std::time::Duration;

use domain::id::RunId;
use serde_json::{Value, json};

use super::super::client_profiles::{ClientProfile, Waits};
use super::super::codex_settings;
use super::super::options::Options;
use super::super::tools::RunReport;
use super::client_session::{BOTH, ClientSession, Era, default_waits, fast_options};
use engine::WaitingView;

/// A session whose client waits only briefly.
async fn impatient_session(era: Era, wait_ms: u64) -> ClientSession {
    let waits = Waits { unknown: Duration::from_millis(wait_ms), ..default_waits() };
    let mut session = ClientSession::open(Options { waits, ..fast_options() });
    session.hello(era, "impatient", json!({})).await;
    session
}

#[tokio::test]
async fn a_result_that_is_ready_is_returned() {
    for era in BOTH {
        let mut session = ClientSession::begin(era, "x", json!({})).await;
        let result = session.call(era, "run_agent", json!({ "agent": "quick", "prompt": "hi" })).await;
        let report = &result["structuredContent"];
        assert_eq!((&report["status"], &report["result"]), (&json!("succeeded"), &json!("HI")));
        assert_eq!(report.get("next"), None);
        assert_eq!(session.engine.log().iter().filter(|line| line.starts_with("detach")).count(), 0);
    }
}

#[tokio::test]
async fn a_run_that_takes_longer_is_answered_with_its_id_and_detached() {
    for era in BOTH {
        let mut session = impatient_session(era, 300).await;
        let result = session.call(era, "run_agent", json!({ "agent": "slow", "prompt": "p" })).await;
        let run = session.engine.run_ids()[0];
        let report = &result["structuredContent"];
        assert_eq!(report["run_id"], run.to_string());
        assert_eq!((&report["status"], &report["ended"]), (&json!("running"), &json!(false)));
        assert_eq!(report["partial_text"], "so far so good");
        assert!(report["next"].as_str().unwrap().contains("wait_runs"));
        assert_eq!(result["isError"], json!(false));
        session.engine.logged(&format!("detach {}", run.short())).await;
        // Another client gets the result by its id.
        session.engine.end(run, "succeeded", "late but whole");
        let waited = session.call(era, "wait_runs", json!({ "run_ids": [run.to_string()] })).await;
        assert_eq!(waited["structuredContent"]["runs"][0]["result"], "late but whole");
        assert_eq!(waited["structuredContent"]["timed_out"], json!(false));
    }
}

#[tokio::test]
async fn the_caller_can_wait_for_less_than_the_client_allows() {
    let mut session = ClientSession::begin(Era::Legacy, "claude-code", json!({})).await;
    let arguments = json!({ "agent": "slow", "prompt": "p", "wait_s": 1 });
    let result = session.call(Era::Legacy, "run_agent", arguments).await;
    assert_eq!(result["structuredContent"]["status"], "running");
}

#[tokio::test]
async fn to_wait_for_nothing_is_asynchronous_from_the_start() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let arguments = json!({ "agent": "slow", "prompt": "p", "wait_s": 0 });
    let result = session.call(Era::Legacy, "run_agent", arguments).await;
    assert_eq!(result["structuredContent"]["status"], "running");
    assert_eq!(session.engine.logged("start").await, "start slow detached");
}

#[tokio::test]
async fn progress_comes_at_once_then_steadily_and_never_after_the_answer() {
    for era in BOTH {
        let mut session = impatient_session(era, 450).await;
        let params = json!({
            "name": "run_agent",
            "arguments": { "agent": "slow", "prompt": "p" },
            "_meta": { "progressToken": "token-1" },
        });
        let id = session.request(era, "tools/call", params);
        let (answer, before) = session.answer_to(id).await;
        assert_eq!(answer["result"]["structuredContent"]["status"], "running");
        let progress: Vec<_> = before.iter().filter(|m| m["method"] == "notifications/progress").collect();
        assert!(progress.len() >= 3, "{progress:?}");
        assert!(progress.iter().all(|message| message["params"]["progressToken"] == "token-1"));
        let values: Vec<_> = progress.iter().map(|m| m["params"]["progress"].as_f64().unwrap()).collect();
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{values:?}");
        let message = progress[1]["params"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("slow: $ cargo test (1.") && message.ends_with("s) … so good"),
            "{message}"
        );
        // The next message is the answer to the next request, not a straggler.
        let id = session.request(era, "tools/list", json!({}));
        assert_eq!(session.next().await["id"], json!(id));
    }
}

#[tokio::test]
async fn a_quick_call_with_a_token_gets_at_least_one_progress() {
    let mut session = ClientSession::begin(Era::Legacy, "x", json!({})).await;
    let params = json!({
        "name": "run_agent",
        "arguments": { "agent": "quick", "prompt": "p" },
        "_meta": { "progressToken": 7 },
    });
    let id = session.request(Era::Legacy, "tools/call", params);
    let (_, before) = session.answer_to(id).await;
    assert_eq!(before.len(), 1);
    assert_eq!(before[0]["params"]["progressToken"], 7);
}

#[tokio::test]
async fn a_call_without_a_token_gets_no_progress() {
    let mut session = impatient_session(Era::Legacy, 300).await;
    let params = json!({ "name": "run_agent", "arguments": { "agent": "slow", "prompt": "p" } });
    let id = session.request(Era::Legacy, "tools/call", params);
    assert_eq!(session.answer_to(id).await.1, Vec::<Value>::new());
}

#[tokio::test]
async fn a_question_is_answered_to_the_caller_immediately() {
    let mut session = ClientSession::begin(Era::Legacy, "claude-code", json!({})).await;
    let result = session.call(Era::Legacy, "run_agent", json!({ "agent": "asks", "prompt": "p" })).await;
    let report = &result["structuredContent"];
    assert_eq!(report["status"], "waiting");
    assert_eq!(report["question"]["question_id"], "q1");
    assert!(report["next"].as_str().unwrap().contains("answer_run"));
    let run = report["run_id"].as_str().unwrap();
    let answer = json!({ "run_id": run, "decision": "approve" });
    session.call(Era::Legacy, "answer_run", answer).await;
    assert_eq!(session.engine.logged("answer").await, "answer true None by claude-code");
    let waited = session.call(Era::Legacy, "wait_runs", json!({ "run_ids": [run] })).await;
    assert_eq!(waited["structuredContent"]["runs"][0]["result"], "approved");
}

#[test]
fn a_question_of_a_child_is_left_to_a_person() {
    let at: domain::Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
    let run_id = RunId::from_parts(at, [7; 10]);
    let client = ClientProfile::for_name("claude-code", &default_waits());
    let asking = |parent| {
        let mut view = crate::sample_run::sample_run(run_id, "asks");
        let (question, text, until) = ("q1".to_owned(), "may I?".to_owned(), String::new());
        view.waiting = Some(WaitingView::Answer { question, text, until, allow_rules: Vec::new() });
        view.parent = parent;
        let report = serde_json::to_value(RunReport::for_client(view, &client)).unwrap();
        report["next"].as_str().unwrap().to_owned()
    };
    assert!(asking(None).contains("answer_run"));
    let child_advice = asking(Some(run_id));
    assert!(child_advice.contains("of a person") && !child_advice.contains("answer_run"), "{child_advice}");
}

#[tokio::test]
async fn a_run_in_the_queue_is_waited_for() {
    let mut session = impatient_session(Era::Legacy, 250).await;
    let result = session.call(Era::Legacy, "run_agent", json!({ "agent": "queued", "prompt": "p" })).await;
    assert_eq!(result["structuredContent"]["queue_position"], 3);
    assert!(result["structuredContent"]["next"].as_str().unwrap().contains("wait_runs"));
}

#[test]
fn each_client_is_answered_before_its_own_limit() {
    let cases = [
        ("claude-code", 600, 32 << 10),
        ("codex-mcp-client", 240, 8 << 10),
        ("gemini-cli-mcp-client", 540, 32 << 10),
        ("qwen-cli-mcp-client-volery", 240, 32 << 10),
        ("opencode", 45, 32 << 10),
        ("copilot-cli", 100, 32 << 10),
        ("goose", 45, 32 << 10),
        ("kimi-code", 45, 32 << 10),
        ("vibe", 45, 32 << 10),
        ("claude-ai", 200, 32 << 10),
        // The default name of the library, and names with the same prefix.
        ("mcp", 3, 32 << 10),
        ("mcp-inspector", 45, 32 << 10),
        ("Claude Desktop (unknown spelling)", 45, 32 << 10),
        ("", 45, 32 << 10),
    ];
    for (name, wait_s, result_bytes) in cases {
        let client = ClientProfile::for_name(name, &default_waits());
        assert_eq!((client.wait.as_secs(), client.result_bytes), (wait_s, result_bytes), "{name}");
        assert!(client.wait < client.limit, "{name}");
    }
    assert_eq!(ClientProfile::for_name("opencode", &default_waits()).wait_with_progress.as_secs(), 300);
}

#[test]
fn a_wait_that_the_user_set_wins() {
    let waits = Waits {
        unknown: Duration::from_secs(20),
        by_client: [("Codex".to_owned(), Duration::from_secs(900))].into(),
        codex_limit: None,
    };
    assert_eq!(ClientProfile::for_name("codex-mcp-client", &waits).wait.as_secs(), 900);
    assert_eq!(ClientProfile::for_name("codex-mcp-client", &waits).limit.as_secs(), 900);
    assert_eq!(ClientProfile::for_name("claude-code", &waits).wait.as_secs(), 600);
    assert_eq!(ClientProfile::for_name("somebody", &waits).wait.as_secs(), 20);
    let waits = Waits { by_client: [("mcp".to_owned(), Duration::from_secs(50))].into(), ..waits };
    let unnamed = ClientProfile::for_name("mcp", &waits);
    assert_eq!((unnamed.wait.as_secs(), unnamed.limit.as_secs()), (50, 50));
}

#[test]
fn codex_is_answered_before_the_limit_in_its_own_settings() {
    let waits_with_limit =
        |limit_s| Waits { codex_limit: Some(Duration::from_secs(limit_s)), ..default_waits() };
    let codex = |limit_s| ClientProfile::for_name("codex-mcp-client", &waits_with_limit(limit_s));
    assert_eq!((codex(10).wait.as_secs(), codex(10).limit.as_secs()), (8, 10));
    assert_eq!((codex(600).wait.as_secs(), codex(600).limit.as_secs()), (240, 600));
    assert_eq!(ClientProfile::for_name("gemini", &waits_with_limit(10)).wait.as_secs(), 540);
    let set =
        Waits { by_client: [("codex".to_owned(), Duration::from_secs(60))].into(), ..waits_with_limit(10) };
    let set = ClientProfile::for_name("codex-mcp-client", &set);
    assert_eq!((set.wait.as_secs(), set.limit.as_secs()), (60, 10), "a limit does not grow with a wish");
}

#[test]
fn the_limit_of_codex_is_the_shortest_that_may_apply() {
    let root = tempfile::tempdir().unwrap();
    let (project, home) = (root.path().join("project/below"), root.path().join("home"));
    let put = |folder: &std::path::Path, text: &str| {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("config.toml"), text).unwrap();
    };
    let limit = || codex_settings::limit(&project, Some(&home)).map(|limit| limit.as_millis());
    assert_eq!(limit(), None);
    put(&home, "[mcp_servers.birds]\ncommand = \"/opt/volery\"\ntool_timeout_sec = 90\n");
    assert_eq!(limit(), Some(90_000));
    let project_dir = root.path().join("project/.codex");
    put(&project_dir, "[mcp_servers.volery]\ncommand = \"sh\"\ntool_timeout_sec = 12.5\n");
    assert_eq!(limit(), Some(12_500));
    put(&project_dir, "[mcp_servers.other]\ncommand = \"other\"\ntool_timeout_sec = 3\n");
    assert_eq!(limit(), Some(90_000));
    for wrong in ["-1", "0", "\"5\"", "nan", "1e300"] {
        put(&home, &format!("[mcp_servers.volery]\ntool_timeout_sec = {wrong}\n"));
        assert_eq!(limit(), None, "{wrong}");
    }
    put(&home, "[mcp_servers.volery\n");
    assert_eq!(limit(), None);
}
