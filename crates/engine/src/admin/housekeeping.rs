//! Background work of a server: resumes lost runs whose agents want that, inserts ended runs into the index, so that
//! lists have little left to do, and applies the retention. Never delays a call: a run that is not yet in the index
//! is listed by its marker.

use std::sync::Arc;
use std::time::Duration;

use journal::retention::RetentionPolicy;

use crate::engine::Engine;
use crate::handle::{EngineAccess, EngineHandle};

/// How many ended runs are inserted into the index together.
const BATCH_RUNS: u64 = 64;
/// How long an ended run waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(5);
/// How long a new server waits before it begins.
const START_DELAY: Duration = Duration::from_secs(1);

impl EngineHandle {
    /// Keeps index and retention up to date while the runtime lives.
    pub fn spawn_housekeeping(&self) {
        if let EngineAccess::Direct(engine) = &self.access {
            tokio::spawn(run_housekeeping(Arc::clone(engine), self.retention()));
        }
    }
}

async fn run_housekeeping(engine: Arc<Engine>, policy: RetentionPolicy) {
    let mut ended = engine.channels.ended();
    tokio::time::sleep(START_DELAY).await;
    // `volery resume` reports why a run cannot be resumed.
    let _ = engine.resume_interrupted().await;
    // The user did not request this sweep, so its errors are ignored; `volery clean` reports them.
    let _ = engine.run_blocking(move |engine| engine.sweep_if_due(&policy)).await;
    while ended.changed().await.is_ok() {
        let first = *ended.borrow_and_update();
        // In both cases the runs are inserted now.
        let _ =
            tokio::time::timeout(BATCH_WAIT, ended.wait_for(|count| count - first >= BATCH_RUNS - 1)).await;
        // A failure here is retried with the next run, and by every list.
        let _ = engine.run_blocking(|engine| engine.ingest().map(drop)).await;
    }
}
