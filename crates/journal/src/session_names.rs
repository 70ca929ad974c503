//! Names that callers choose for conversations, where a dialect lets them: each stands for one session of ours, within
//! one dialect and one agent, and for as long as that dialect keeps its sessions.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use std::time::Duration;

use domain::Timestamp;
use domain::id::{AgentName, SessionId};
use serde::{Deserialize, Serialize};

use crate::home::Home;
use crate::run_lock::RunLock;
use crate::sessions::{FOLDER, digest_of, read_file, write_file};
use crate::store_error::{StoreError, failed};

/// How long a name that somebody holds is waited for: starting a run takes milliseconds.
const HELD_PAUSE: Duration = Duration::from_millis(10);
const HELD_TRIES: u32 = 1_000;
/// How the files of names begin.
const PREFIX: &str = "name-";

/// A name, and within what it means one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionName<'a> {
    /// Which dialect's callers chose it.
    pub within: &'a str,
    pub agent: &'a AgentName,
    pub name: &'a str,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub session: SessionId,
    pub used_at: Timestamp,
    /// How long it is kept after its last use.
    pub keep_ms: u64,
}

/// Takes a name for the time that its session begins or is found, so that two who use it at once mean the same.
pub fn hold(home: &Home, name: &SessionName<'_>) -> Result<RunLock, StoreError> {
    let path = path_of(home, name).with_extension("lock");
    for _ in 0..HELD_TRIES {
        if let Some(lock) = RunLock::take(&path).map_err(failed("lock", &path))? {
            return Ok(lock);
        }
        std::thread::sleep(HELD_PAUSE);
    }
    let busy = io::Error::new(
        io::ErrorKind::TimedOut,
        "somebody else has been starting a run of this session for long",
    );
    Err(failed("lock", &path)(busy))
}

/// Returns what a name stands for, unless it has not been used for longer than it is kept.
pub fn find(home: &Home, name: &SessionName<'_>, now: Timestamp) -> Result<Option<Named>, StoreError> {
    let named = read_file::<Named>(&path_of(home, name))?;
    Ok(named.filter(|named| !is_older(named.used_at, now, named.keep_ms)))
}

/// Lets a name stand for a session, whatever it stood for: it is used again, or what it stood for is gone. Whoever writes
/// holds it.
pub fn give(home: &Home, name: &SessionName<'_>, named: &Named) -> Result<(), StoreError> {
    write_file(home, &path_of(home, name), named)
}

/// Returns how long sessions that have names are kept, by session.
pub(crate) fn kept(home: &Path) -> HashMap<SessionId, u64> {
    let entries = fs::read_dir(home.join(FOLDER)).into_iter().flatten().filter_map(Result::ok);
    let names =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)));
    let named = names.filter_map(|entry| read_file::<Named>(&entry.path()).ok().flatten());
    named.map(|named| (named.session, named.keep_ms)).collect()
}

/// Tells whether something was used longer ago than this.
fn is_older(used_at: Timestamp, now: Timestamp, keep_ms: u64) -> bool {
    let age_ms = now.as_millisecond().saturating_sub(used_at.as_millisecond());
    u64::try_from(age_ms).is_ok_and(|age_ms| age_ms > keep_ms)
}

fn path_of(home: &Home, name: &SessionName<'_>) -> PathBuf {
    let digest = digest_of(&[name.within, name.agent.as_str(), name.name]);
    home.sessions_dir().join(format!("{PREFIX}{digest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{TestHome, at};

    const DAY_MS: u64 = 86_400_000;

    fn named(session: &str, used_at: Timestamp) -> Named {
        Named { session: session.parse().unwrap(), used_at, keep_ms: DAY_MS }
    }

    #[test]
    fn a_name_means_one_thing_within_a_dialect_and_an_agent() {
        let test = TestHome::new();
        let agent = "coder".parse().unwrap();
        let name = SessionName { within: "sub-agents-mcp", agent: &agent, name: "s" };
        let now = at(0);
        assert_eq!(find(&test.home, &name, now).unwrap(), None);
        give(&test.home, &name, &named("one", now)).unwrap();
        assert_eq!(find(&test.home, &name, now).unwrap(), Some(named("one", now)));
        let other = "other".parse().unwrap();
        for elsewhere in
            [SessionName { within: "budgie", ..name.clone() }, SessionName { agent: &other, ..name.clone() }]
        {
            assert_eq!(find(&test.home, &elsewhere, now).unwrap(), None);
            drop(hold(&test.home, &elsewhere).unwrap());
        }
    }

    #[test]
    fn who_uses_a_name_that_is_held_waits() {
        let test = TestHome::new();
        let agent = "coder".parse().unwrap();
        let name = SessionName { within: "sub-agents-mcp", agent: &agent, name: "s" };
        let held = hold(&test.home, &name).unwrap();
        let (told, hears) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _second = hold(&test.home, &name).unwrap();
                told.send(()).unwrap();
            });
            assert!(hears.recv_timeout(Duration::from_millis(200)).is_err(), "it is held");
            drop(held);
            hears.recv_timeout(Duration::from_secs(20)).unwrap();
        });
    }

    #[test]
    fn a_name_that_nobody_used_for_long_is_free_again() {
        let test = TestHome::new();
        let agent = "coder".parse().unwrap();
        let name = SessionName { within: "sub-agents-mcp", agent: &agent, name: "s" };
        let now = at(0);
        give(&test.home, &name, &named("one", now)).unwrap();
        let later = now + jiff::SignedDuration::from_hours(25);
        assert_eq!(find(&test.home, &name, later).unwrap(), None);
        give(&test.home, &name, &named("two", later)).unwrap();
        assert_eq!(find(&test.home, &name, later).unwrap(), Some(named("two", later)));
        assert_eq!(kept(test.home.path()).get(&"two".parse().unwrap()), Some(&DAY_MS));
    }
}
