//! Names that callers choose for sessions, in dialects that allow it. Within one dialect and one agent, a name refers
//! to one session for as long as that dialect retains its sessions.

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
use crate::sessions::{FOLDER, digest_parts, read_file, write_file};
use crate::store_error::{StoreError, failed};

/// How long to wait for a locked name: starting a run takes milliseconds.
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(10);
const LOCK_TRIES_MAX: u32 = 1_000;
/// The prefix of the files.
const PREFIX: &str = "name-";

/// A name and the scope within which it is unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionName<'a> {
    /// The dialect whose callers chose it.
    pub dialect: &'a str,
    pub agent: &'a AgentName,
    pub name: &'a str,
}

/// The session that a name refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionAlias {
    pub session: SessionId,
    pub used_at: Timestamp,
    /// How long the name is retained after its last use.
    pub keep_ms: u64,
}

/// Locks a name while its session is created or looked up, so that two callers who use it at once get the same
/// session.
pub fn lock(home: &Home, name: &SessionName<'_>) -> Result<RunLock, StoreError> {
    let path = record_path(home, name).with_extension("lock");
    for _ in 0..LOCK_TRIES_MAX {
        if let Some(lock) = RunLock::take(&path).map_err(failed("lock", &path))? {
            return Ok(lock);
        }
        std::thread::sleep(LOCK_RETRY_PAUSE);
    }
    let busy = io::Error::new(
        io::ErrorKind::TimedOut,
        "somebody else has been starting a run of this session for long",
    );
    Err(failed("lock", &path)(busy))
}

/// Returns the session of a name, unless the name has expired.
pub fn find(home: &Home, name: &SessionName<'_>, now: Timestamp) -> Result<Option<SessionAlias>, StoreError> {
    let record = read_file::<SessionAlias>(&record_path(home, name))?;
    Ok(record.filter(|record| !is_older(record.used_at, now, record.keep_ms)))
}

/// Assigns a name to a session, replacing an earlier assignment. The caller holds the name's lock.
pub fn assign(home: &Home, name: &SessionName<'_>, record: &SessionAlias) -> Result<(), StoreError> {
    write_file(home, &record_path(home, name), record)
}

/// Returns for each named session how long it is retained.
pub(crate) fn retention_by_session(home: &Path) -> HashMap<SessionId, u64> {
    let entries = fs::read_dir(home.join(FOLDER)).into_iter().flatten().filter_map(Result::ok);
    let names =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)));
    let records = names.filter_map(|entry| read_file::<SessionAlias>(&entry.path()).ok().flatten());
    records.map(|record| (record.session, record.keep_ms)).collect()
}

/// Returns whether the last use is longer ago than `keep_ms`.
fn is_older(used_at: Timestamp, now: Timestamp, keep_ms: u64) -> bool {
    let age_ms = now.as_millisecond().saturating_sub(used_at.as_millisecond());
    u64::try_from(age_ms).is_ok_and(|age_ms| age_ms > keep_ms)
}

fn record_path(home: &Home, name: &SessionName<'_>) -> PathBuf {
    let digest = digest_parts(&[name.dialect, name.agent.as_str(), name.name]);
    home.sessions_dir().join(format!("{PREFIX}{digest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{TestHome, at};

    const DAY_MS: u64 = 86_400_000;

    fn record(session: &str, used_at: Timestamp) -> SessionAlias {
        SessionAlias { session: session.parse().unwrap(), used_at, keep_ms: DAY_MS }
    }

    #[test]
    fn a_name_means_one_thing_within_a_dialect_and_an_agent() {
        let test = TestHome::new();
        let agent = "coder".parse().unwrap();
        let name = SessionName { dialect: "sub-agents-mcp", agent: &agent, name: "s" };
        let now = at(0);
        assert_eq!(find(&test.home, &name, now).unwrap(), None);
        assign(&test.home, &name, &record("one", now)).unwrap();
        assert_eq!(find(&test.home, &name, now).unwrap(), Some(record("one", now)));
        let other = "other".parse().unwrap();
        for elsewhere in
            [SessionName { dialect: "budgie", ..name.clone() }, SessionName { agent: &other, ..name.clone() }]
        {
            assert_eq!(find(&test.home, &elsewhere, now).unwrap(), None);
            drop(lock(&test.home, &elsewhere).unwrap());
        }
    }

    #[test]
    fn a_held_name_is_waited_for() {
        let test = TestHome::new();
        let agent = "coder".parse().unwrap();
        let name = SessionName { dialect: "sub-agents-mcp", agent: &agent, name: "s" };
        let held = lock(&test.home, &name).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _second = lock(&test.home, &name).unwrap();
                sender.send(()).unwrap();
            });
            assert!(receiver.recv_timeout(Duration::from_millis(200)).is_err(), "it is held");
            drop(held);
            receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        });
    }

    #[test]
    fn a_name_that_nobody_used_for_long_is_free_again() {
        let test = TestHome::new();
        let agent = "coder".parse().unwrap();
        let name = SessionName { dialect: "sub-agents-mcp", agent: &agent, name: "s" };
        let now = at(0);
        assign(&test.home, &name, &record("one", now)).unwrap();
        let later = now + jiff::SignedDuration::from_hours(25);
        assert_eq!(find(&test.home, &name, later).unwrap(), None);
        assign(&test.home, &name, &record("two", later)).unwrap();
        assert_eq!(find(&test.home, &name, later).unwrap(), Some(record("two", later)));
        assert_eq!(retention_by_session(test.home.path()).get(&"two".parse().unwrap()), Some(&DAY_MS));
    }
}
