//! The decision as a pure function: policy and times in, action out.

use domain::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

const HOUR_MS: u64 = 3_600_000;

/// How long data is retained after the end of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Spooled output.
    pub output_ms: u64,
    /// Everything else: the request, the events and the ending.
    pub record_ms: u64,
}

/// The action for a run. Later variants include earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetentionAction {
    Keep,
    DropOutput,
    Delete,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self { output_ms: 24 * HOUR_MS, record_ms: 7 * 24 * HOUR_MS }
    }
}

/// Decides about a run by the time of its end; a run without an end is retained.
pub fn decide(policy: &RetentionPolicy, now: Timestamp, ended_at: Option<Timestamp>) -> RetentionAction {
    let age_ms = ended_at.and_then(|at| u64::try_from(now.as_millisecond() - at.as_millisecond()).ok());
    match age_ms {
        None => RetentionAction::Keep,
        Some(age_ms) if age_ms >= policy.record_ms => RetentionAction::Delete,
        Some(age_ms) if age_ms >= policy.output_ms => RetentionAction::DropOutput,
        Some(_) => RetentionAction::Keep,
    }
}

/// Returns the strictest action that can be due for any run of a day: none of them ended before the day began.
pub(super) fn strictest_action_for_day(
    policy: &RetentionPolicy,
    now: Timestamp,
    day: Date,
) -> RetentionAction {
    decide(policy, now, day_start(day))
}

/// Returns whether no more runs can be added to a day, with an hour's margin for clock changes.
pub(super) fn is_over(day: Date, now: Timestamp) -> bool {
    let end = day.tomorrow().ok().and_then(day_start);
    end.is_some_and(|end| now.as_millisecond() - end.as_millisecond() >= HOUR_MS.cast_signed())
}

fn day_start(day: Date) -> Option<Timestamp> {
    day.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}
