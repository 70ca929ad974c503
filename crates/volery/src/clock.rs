//! Time and randomness: the only place that reads them.

use domain::Timestamp;
use domain::id::RunId;

/// Returns the time of day.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns milliseconds of a clock that only goes forward, the same for all processes of the machine.
pub fn monotonic_ms() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Returns the id for a run that begins now.
pub fn new_run_id() -> RunId {
    RunId::from_parts(now(), random())
}

/// Returns what nobody guesses.
pub fn new_secret() -> [u8; 32] {
    random()
}

/// Tags are above any limit on locks that somebody may really have set.
pub const TAG_MIN: u64 = 1 << 61;

/// Returns a number that no other run has, below "unlimited".
pub fn new_tag() -> u64 {
    let number = u64::from_le_bytes(random());
    (number >> 2) | TAG_MIN
}

/// Returns a number by which a program is found again that does not belong to a run: a door below it is outside of runs.
pub fn new_tag_without_run() -> u64 {
    new_tag() & !TAG_MIN
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel gives random numbers");
    bytes
}
