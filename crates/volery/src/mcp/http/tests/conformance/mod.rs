//! The protocol's own conformance suite, against the catalog that it expects: behind Volery's transport, limits, tokens, guard
//! and tasks, with no expected failures. The catalog exists only in tests.

#[expect(clippy::disallowed_methods, reason = "a test starts the suite and reads the environment by itself")]
#[path = "../../../../../tests/it/test_env/conformance_suite.rs"]
mod suite;

mod catalog;
mod fixture;
mod input_rounds;
mod task_tools;

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::super::http_backend::{Handlers, HttpBackend};
use super::super::limits::HttpLimits;
use super::super::origin_check::OriginCheck;
use super::super::router::RequestRouter;
use super::super::serve::{HttpListener, serve_connections};
use super::test_server::ANN;
use crate::mcp::handler::Handler;
use crate::mcp::serve::StopReason;
use crate::mcp::tests::client_session::fast_options;
use crate::mcp::tests::scripted_engine::ScriptedEngine;
use engine::EngineFuture;
use engine::{EngineError, RunMetrics, TokenHolder};
use fixture::Fixture;

/// Checks that no revision requires and that Volery's tasks cannot pass, because a task is a run.
const UNSCORED: [&str; 2] = [
    // A failed run ends with an outcome, so its task is completed with an error inside.
    "tasks-lifecycle:sep-2663-tasks-get-status-failed",
    // A run has one question at a time.
    "tasks-mrtr-input:tasks-mrtr-partial-fulfillment",
];

/// The catalog that the suite expects.
struct FixtureBackend {
    engine: Arc<ScriptedEngine>,
    changes: broadcast::Sender<fixture::ListChange>,
}

impl HttpBackend for FixtureBackend {
    type Handler = Fixture;

    fn token_holder(&self, token: &str) -> Option<TokenHolder> {
        (token == ANN).then(|| TokenHolder { name: "ann".to_owned(), all_metrics: false })
    }

    fn handlers(
        &self,
        _holder: &TokenHolder,
        leaving: CancellationToken,
    ) -> Result<Handlers<Fixture>, EngineError> {
        let (engine, changes) = (self.engine.clone(), self.changes.clone());
        Ok(Box::new(move || {
            let handler = Handler::new(engine.clone(), fast_options(), leaving.clone());
            Fixture { handler, engine: engine.clone(), changes: changes.clone() }
        }))
    }

    fn run_metrics(&self, _holder: &TokenHolder) -> EngineFuture<'_, RunMetrics> {
        async { Ok(RunMetrics::default()) }.boxed()
    }

    fn leave(&self) {}
}

async fn findings(revision: &'static str) -> Option<suite::Findings> {
    let listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address;
    let backend = FixtureBackend { engine: Arc::default(), changes: broadcast::channel(16).0 };
    let router =
        Arc::new(RequestRouter::new(Arc::new(backend), OriginCheck::default(), HttpLimits::default()));
    let timing = fast_options().timing;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let serving = tokio::spawn(async move {
        let stopped = async { stopped.await.unwrap_or(StopReason::Terminated) };
        serve_connections(listener, router, &timing, stopped).await
    });
    let found = tokio::task::spawn_blocking(move || suite::conformance(address, ANN, revision, None)).await;
    stop.send(StopReason::Terminated).unwrap();
    serving.await.unwrap();
    found.unwrap()
}

#[tokio::test]
async fn the_newer_generation_conforms() {
    let Some(found) = findings("2026-07-28").await else { return };
    assert_eq!(found.code, 0, "{}", found.text);
    let failed: Vec<&str> = found.failed.iter().map(String::as_str).collect();
    assert_eq!(failed, UNSCORED, "{}", found.text);
    assert!(found.passed > 150, "only {} checks passed", found.passed);
}

#[tokio::test]
async fn the_older_generation_conforms() {
    let Some(found) = findings("2025-11-25").await else { return };
    assert_eq!(found.code, 0, "{}", found.text);
    assert!(found.failed.is_empty(), "{:?}\n{}", found.failed, found.text);
    assert!(found.passed > 70, "only {} checks passed", found.passed);
}
