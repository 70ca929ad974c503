//! A clock for promises about time, on a machine that may be busy: it does not count the time in which the machine kept
//! a thread waiting that only sleeps, computes and writes a little.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::{PATIENCE, wait_for};

/// A round of the thread: a pause, some computing, and a write that reaches the disk, like the steps of a sweep.
const PAUSE: Duration = Duration::from_millis(4);
const COMPUTING: Duration = Duration::from_micros(500);
/// A round takes no longer on an idle machine. The rest of a longer one is the machine's own delay.
const ROUND_MAX: Duration = Duration::from_millis(8);

/// Runs from its start until it is dropped.
pub(crate) struct LoadAdjustedClock {
    shared: Arc<SharedClock>,
}

#[derive(Default)]
struct SharedClock {
    stop: AtomicBool,
    counted_ns: AtomicU64,
}

impl LoadAdjustedClock {
    /// Starts the clock. It writes into a directory on the disk that the measured program uses.
    pub(crate) fn start(directory: &Path) -> Self {
        let shared = Arc::new(SharedClock::default());
        let clock = Arc::clone(&shared);
        let mut file = tempfile::tempfile_in(directory).unwrap();
        std::thread::spawn(move || {
            while !clock.stop.load(Ordering::Relaxed) {
                let since = Instant::now();
                play_round(&mut file);
                let counted = u64::try_from(since.elapsed().min(ROUND_MAX).as_nanos()).unwrap();
                clock.counted_ns.fetch_add(counted, Ordering::Relaxed);
            }
        });
        Self { shared }
    }

    /// Returns the time since the start without the machine's own delays.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.shared.counted_ns.load(Ordering::Relaxed))
    }
}

impl Drop for LoadAdjustedClock {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

fn play_round(file: &mut File) {
    std::thread::sleep(PAUSE);
    let until = thread_cpu_time() + COMPUTING;
    while thread_cpu_time() < until {}
    file.write_all(b"x").unwrap();
    file.sync_data().unwrap();
}

fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

#[test]
fn counts_no_more_than_the_time_that_passes() {
    let directory = tempfile::tempdir().unwrap();
    let since = Instant::now();
    let clock = LoadAdjustedClock::start(directory.path());
    // However busy the machine is, each round counts at least its pause.
    let rounds = 10;
    let counted = wait_for(PATIENCE, "the clock to advance", || {
        Some(clock.elapsed()).filter(|counted| *counted >= PAUSE * rounds)
    });
    assert!(counted <= since.elapsed(), "{counted:?}");
}
