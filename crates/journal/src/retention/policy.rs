//! The decision, without any file: policy and times in, action out.

use domain::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

const HOUR_MS: u64 = 3_600_000;

/// How long things are kept after the end of their run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Spooled output.
    pub output_ms: u64,
    /// Everything else: what was asked, what happened, how it ended.
    pub record_ms: u64,
}

/// What is to be done about a run. Later ones include earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    Keep,
    DropOutput,
    Delete,
}

impl Default for Policy {
    fn default() -> Self {
        Self { output_ms: 24 * HOUR_MS, record_ms: 7 * 24 * HOUR_MS }
    }
}

/// Decides about a run by the time of its end; one without an end is kept.
pub fn decide(policy: &Policy, now: Timestamp, ended_at: Option<Timestamp>) -> Action {
    let age_ms = ended_at.and_then(|at| u64::try_from(now.as_millisecond() - at.as_millisecond()).ok());
    match age_ms {
        None => Action::Keep,
        Some(age_ms) if age_ms >= policy.record_ms => Action::Delete,
        Some(age_ms) if age_ms >= policy.output_ms => Action::DropOutput,
        Some(_) => Action::Keep,
    }
}

/// Returns the most that can be due for any run of a day: none of them ended before the day began.
pub(super) fn most_for_day(policy: &Policy, now: Timestamp, day: Date) -> Action {
    decide(policy, now, begin_of(day))
}

/// Tells whether no more runs can come to a day, with an hour for clocks that were set.
pub(super) fn is_over(day: Date, now: Timestamp) -> bool {
    let end = day.tomorrow().ok().and_then(begin_of);
    end.is_some_and(|end| now.as_millisecond() - end.as_millisecond() >= HOUR_MS.cast_signed())
}

fn begin_of(day: Date) -> Option<Timestamp> {
    day.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}
