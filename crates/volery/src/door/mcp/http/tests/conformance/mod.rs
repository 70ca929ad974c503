//! The protocol's own conformance suite, against a catalogue that it knows: behind our transport, bounds, tokens, guard
//! and tasks, with nothing that is expected to fail. The catalogue exists in tests only.

#[expect(clippy::disallowed_methods, reason = "a test starts the suite and reads the environment by itself")]
#[path = "../../../../../../tests/it/stage/suite.rs"]
mod suite;

mod fixture;
mod jobs;
mod offers;
mod rounds;

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::super::allowed::Allowed;
use super::super::door::Door;
use super::super::house::{Handlers, House};
use super::super::limits::Limits;
use super::super::serve::{Listening, serve_door};
use super::stage::ANN;
use crate::app::{AppError, Sums, TokenHolder};
use crate::door::mcp::front::Answering;
use crate::door::mcp::handler::Handler;
use crate::door::mcp::serve::Left;
use crate::door::mcp::tests::scripted::Scripted;
use crate::door::mcp::tests::session::brisk;
use fixture::Fixture;

/// What the suite runs and no revision requires, and what a task of ours cannot do: a task is a run.
const UNSCORED: [&str; 2] = [
    // A run that cannot be carried out ends with an outcome, and so its task is completed with an error inside.
    "tasks-lifecycle:sep-2663-tasks-get-status-failed",
    // A run asks one question at a time.
    "tasks-mrtr-input:tasks-mrtr-partial-fulfillment",
];

/// The catalogue that the suite knows.
struct Fixtures {
    engine: Arc<Scripted>,
    changes: broadcast::Sender<fixture::Change>,
}

impl House for Fixtures {
    type Handler = Fixture;

    fn holder_of(&self, token: &str) -> Option<TokenHolder> {
        (token == ANN).then(|| TokenHolder { name: "ann".to_owned(), all_metrics: false })
    }

    fn handlers(
        &self,
        _holder: &TokenHolder,
        leaving: CancellationToken,
    ) -> Result<Handlers<Fixture>, AppError> {
        let (engine, changes) = (self.engine.clone(), self.changes.clone());
        Ok(Box::new(move || {
            let handler = Handler::new(engine.clone(), brisk(), leaving.clone());
            Fixture { handler, engine: engine.clone(), changes: changes.clone() }
        }))
    }

    fn sums(&self, _holder: &TokenHolder) -> Answering<'_, Sums> {
        async { Ok(Sums::default()) }.boxed()
    }

    fn leave(&self) {}
}

async fn findings(revision: &'static str) -> Option<suite::Findings> {
    let listening = Listening::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listening.address;
    let house = Fixtures { engine: Arc::default(), changes: broadcast::channel(16).0 };
    let door = Arc::new(Door::new(Arc::new(house), Allowed::default(), Limits::default()));
    let pace = brisk().pace;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let serving = tokio::spawn(async move {
        let stopped = async { stopped.await.unwrap_or(Left::Terminated) };
        serve_door(listening, door, &pace, stopped).await
    });
    let found = tokio::task::spawn_blocking(move || suite::conformance(address, ANN, revision, None)).await;
    stop.send(Left::Terminated).unwrap();
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
