//! The content of the metrics for each token, and that no agent's name breaks their format.

use super::super::counters::Counters;
use super::super::metrics;
use super::test_server::{ANN, BEN, TestServer, bearer_header, test_limits};
use engine::{AgentMetrics, RunMetrics};

#[tokio::test]
async fn each_token_sees_what_it_may() {
    let server = TestServer::open(test_limits()).await;
    for (token, running) in [(ANN, 1), (BEN, 0)] {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{}\r\n",
            bearer_header(token)
        );
        let answer = server.exchange(request.as_bytes()).await;
        assert_eq!(answer.status, 200);
        assert!(answer.text.contains(&format!("\nvolery_runs_running {running}\n")), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some(metrics::CONTENT_TYPE));
    }
}

#[test]
fn every_line_is_a_comment_or_a_value_whatever_an_agent_is_called() {
    let agent = AgentMetrics {
        agent: "quo\"te\\\n".into(),
        backend: "claude".into(),
        outcomes: vec![("succeeded", 2), ("failed", 0)],
        runs: 2,
        duration_ms: 61_005,
        cost_microusd: 1_000_020,
        input_tokens: 3,
        output_tokens: 4,
    };
    let sums =
        RunMetrics { running: 1, waiting: 2, slots: 3, slots_taken: 1, queued: 5, agents: vec![agent] };
    let text = metrics::text(&sums, &Counters::default(), 7);
    let labels = r#"agent="quo\"te\\\n",backend="claude""#;
    for line in [
        format!("volery_runs_ended{{{labels},outcome=\"succeeded\"}} 2"),
        format!("volery_runs_ended_seconds{{{labels}}} 61.005"),
        format!("volery_runs_ended_dollars{{{labels}}} 1.000020"),
        format!("volery_runs_ended_tokens{{{labels},direction=\"output\"}} 4"),
        "volery_queued 5".to_owned(),
        "volery_http_requests_in_flight 7".to_owned(),
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is missing:\n{text}");
    }
    assert!(!text.contains("outcome=\"failed\""), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}
