//! What a server does in the background: goes on with runs that were lost and shall, puts ended runs into the index, so that lists find little left to do, and
//! removes what the retention says. Never on the way of a call: a run that is not yet in the index is listed by its
//! marker.

use std::sync::Arc;
use std::time::Duration;

use journal::retention::Policy;

use super::engine::Engine;
use super::{App, Way};

/// How many runs end before they are put into the index together.
const RUNS_TOGETHER: u64 = 64;
/// How long an ended run waits for others.
const WAIT: Duration = Duration::from_secs(5);
/// How long a new server is left alone with its client.
const START: Duration = Duration::from_secs(1);

impl App {
    /// Keeps index and retention up to date, for as long as the runtime lives.
    pub fn keep_house(&self) {
        if let Way::Own(engine) = &self.way {
            tokio::spawn(keep_house(Arc::clone(engine), self.retention()));
        }
    }
}

async fn keep_house(engine: Arc<Engine>, policy: Policy) {
    let mut ended = engine.leashes.ended();
    tokio::time::sleep(START).await;
    // What stands in the way is told by `volery resume`.
    let _ = engine.resume_marked().await;
    // Nobody asked for this sweep, so nobody is told when it fails; `volery clean` tells.
    let _ = engine.off_loop(move |engine| engine.sweep_if_due(&policy)).await;
    while ended.changed().await.is_ok() {
        let first = *ended.borrow_and_update();
        // Either way they go into the index now.
        let _ = tokio::time::timeout(WAIT, ended.wait_for(|count| count - first >= RUNS_TOGETHER - 1)).await;
        // What fails here is tried again with the next run, and by every list.
        let _ = engine.off_loop(|engine| engine.ingest().map(drop)).await;
    }
}
