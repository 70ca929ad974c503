//! Limits the calls of a caller per minute. A model in a loop has to wait instead of starting hundreds of runs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MINUTE_S: f64 = 60.0;
/// How many callers are remembered; those with a full allowance are forgotten first.
const CALLERS_MAX: usize = 1_000;

/// The call limits of all callers of a server.
#[derive(Debug)]
pub(crate) struct CallRate {
    per_minute: u32,
    callers: Mutex<HashMap<String, CallAllowance>>,
}

/// The remaining calls of a caller at a point in time.
#[derive(Debug, Clone, Copy)]
struct CallAllowance {
    calls: f64,
    at: Instant,
}

impl CallRate {
    pub(crate) fn new(per_minute: u32) -> Self {
        Self { per_minute, callers: Mutex::default() }
    }

    pub(super) fn per_minute(&self) -> u32 {
        self.per_minute
    }

    /// Uses one call of a caller; if none is left, returns the time until the next one.
    pub(super) fn acquire(&self, caller: &str, now: Instant) -> Result<(), Duration> {
        let most = f64::from(self.per_minute);
        let per_second = most / MINUTE_S;
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let refilled = |allowance: CallAllowance| {
            (allowance.calls + now.saturating_duration_since(allowance.at).as_secs_f64() * per_second)
                .min(most)
        };
        if callers.len() >= CALLERS_MAX && !callers.contains_key(caller) {
            callers.retain(|_, allowance| refilled(*allowance) < most);
        }
        let calls = callers.get(caller).map_or(most, |allowance| refilled(*allowance));
        let taken = calls >= 1.0;
        let calls = if taken { calls - 1.0 } else { calls };
        callers.insert(caller.to_owned(), CallAllowance { calls, at: now });
        if taken { Ok(()) } else { Err(Duration::from_secs_f64((1.0 - calls) / per_second)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_its_calls_and_gets_them_back_with_time() {
        let rate = CallRate::new(60);
        let begun = Instant::now();
        let later = |seconds| begun + Duration::from_secs(seconds);
        for _ in 0..60 {
            rate.acquire("ann", begun).unwrap();
        }
        let wait = rate.acquire("ann", begun).unwrap_err();
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
        rate.acquire("bob", begun).unwrap();
        rate.acquire("ann", later(2)).unwrap();
        rate.acquire("ann", later(2)).unwrap();
        assert!(rate.acquire("ann", later(2)).is_err());
        let an_hour_later = (0..100).filter(|_| rate.acquire("ann", later(3_600)).is_ok());
        assert_eq!(an_hour_later.count(), 60, "never more than a minute's");
    }

    #[test]
    fn callers_are_forgotten_when_they_have_all_their_calls_again() {
        let rate = CallRate::new(60);
        let begun = Instant::now();
        for number in 0..CALLERS_MAX {
            rate.acquire(&format!("caller {number}"), begun).unwrap();
        }
        rate.acquire("one more", begun + Duration::from_secs(60)).unwrap();
        assert_eq!(rate.callers.lock().unwrap().len(), 1);
    }
}
