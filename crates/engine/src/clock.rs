//! Time and randomness: the only module that reads them.

use domain::Timestamp;
use domain::id::RunId;

#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns the milliseconds of a monotonic clock, which is the same for all processes of the machine.
pub fn monotonic_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Returns an id for a run that is created now.
pub fn new_run_id() -> RunId {
    RunId::from_parts(now(), random())
}

/// Returns a random secret.
pub fn new_secret() -> [u8; 32] {
    random()
}

/// Tags are above any limit on locks that somebody may really have set.
pub const TAG_MIN: u64 = 1 << 61;

/// Returns a random tag for a run, below the value for "unlimited".
pub fn new_tag() -> u64 {
    let number = u64::from_le_bytes(random());
    (number >> 2) | TAG_MIN
}

/// Returns a tag for a process that does not belong to a run: a door below that process is outside of runs.
pub fn new_tag_without_run() -> u64 {
    new_tag() & !TAG_MIN
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel gives random numbers");
    bytes
}
