//! Sessions that several runs continue: their agent and directory, their runs and their usage. The vendor stores the
//! conversation itself; this record makes it safe to use the vendor's id.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::Timestamp;
use domain::id::{AgentName, BackendName, RunId, SessionId};
use domain::run::Usage;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::durable::{create_private, fresh_path};
use crate::home::Home;
use crate::run_dir::read_bounded;
use crate::run_lock::RunLock;
use crate::session_names::{self, SessionAlias};
use crate::store_error::{StoreError, failed};

/// The folder below the home.
pub(crate) const FOLDER: &str = "sessions";
/// How many of its last runs a session records.
const RUNS_MAX: usize = 50;
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// The record of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub session: SessionId,
    pub agent: AgentName,
    pub backend: BackendName,
    pub directory: String,
    /// The id under which the vendor stores the conversation.
    #[serde(default)]
    #[serde(rename = "kept")]
    pub vendor_session: VendorSession,
    /// The last runs, oldest first.
    pub runs: Vec<RunId>,
    /// The usage of all its runs; `None` once a run did not report its usage. It has a cost only if every run had
    /// one.
    #[serde(rename = "used")]
    pub usage: Option<Usage>,
    pub used_at: Timestamp,
}

/// The id under which a vendor stores a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VendorSession {
    /// The session's own id.
    #[default]
    #[serde(rename = "as_named")]
    SameId,
    /// A later id: the conversation was replayed to the vendor.
    #[serde(rename = "as")]
    OtherId(SessionId),
    /// No vendor stores it: each run replays the conversation.
    #[serde(rename = "nowhere")]
    NotStored,
}

impl Session {
    /// Returns the backend that stores the conversation, and its id there.
    pub fn vendor_id(&self) -> Option<(BackendName, SessionId)> {
        let id = match &self.vendor_session {
            VendorSession::SameId => self.session.clone(),
            VendorSession::OtherId(id) => id.clone(),
            VendorSession::NotStored => return None,
        };
        Some((self.backend.clone(), id))
    }

    /// Adds a run that starts or resumes.
    pub fn add(&mut self, run: RunId, at: Timestamp) {
        if self.runs.last() != Some(&run) {
            self.runs.push(run);
            let surplus = self.runs.len().saturating_sub(RUNS_MAX);
            self.runs.drain(..surplus);
        }
        self.used_at = at;
    }

    /// Adds the usage of an ended run. A run without reported usage makes the sum unknown for good.
    pub fn add_usage(&mut self, usage: Usage) {
        let Some(used) = self.usage.take().filter(|_| usage.input_tokens + usage.output_tokens > 0) else {
            return;
        };
        let both = used.cost.zip(usage.cost);
        let mut sum = used;
        sum.add(usage);
        self.usage = Some(Usage { cost: sum.cost.filter(|_| both.is_some()), ..sum });
    }
}

/// Reads the record of a session.
pub fn read(home: &Home, session: &SessionId) -> Result<Option<Session>, StoreError> {
    read_file(&record_path(home, session))
}

/// Returns the record of a session. A session that a single run began has no record yet: its id is the run's id until
/// another run continues it.
pub fn read_or_derive(home: &Home, session: &SessionId) -> Result<Option<Session>, StoreError> {
    if let Some(record) = read(home, session)? {
        return Ok(Some(record));
    }
    let Ok(run) = session.as_str().parse::<RunId>() else { return Ok(None) };
    let dir = home.run_dir(run);
    if !dir.exists() {
        return Ok(None);
    }
    let spec = dir.read_spec()?;
    Ok(Some(Session {
        session: session.clone(),
        agent: spec.agent,
        backend: spec.backend.name,
        directory: spec.directory,
        vendor_session: VendorSession::NotStored,
        runs: vec![run],
        usage: None,
        used_at: spec.created_at,
    }))
}

/// Returns the last session of an agent in a directory.
pub fn last_session(
    home: &Home,
    agent: &AgentName,
    directory: &str,
) -> Result<Option<SessionId>, StoreError> {
    read_file(&last_path(home, agent, directory))
}

/// Writes the record of a session. The caller holds the session's lock.
pub fn write(home: &Home, session: &Session) -> Result<(), StoreError> {
    write_file(home, &record_path(home, &session.session), session)?;
    write_file(home, &last_path(home, &session.agent, &session.directory), &session.session)
}

/// Records that no vendor stores the conversation any more, so that the next run replays it.
pub fn write_vendor_lost(home: &Home, session: Session) -> Result<(), StoreError> {
    let path = record_path(home, &session.session);
    write_file(home, &path, &Session { vendor_session: VendorSession::NotStored, usage: None, ..session })
}

/// The scope within which a session id is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionScope<'a> {
    /// A vendor chose the id, so it is unique everywhere.
    Everywhere,
    /// Callers choose the id.
    Agent { project: &'a str, agent: &'a AgentName },
}

/// Locks a session for one run; `None` while another run holds the lock.
pub fn try_lock(
    home: &Home,
    session: &SessionId,
    scope: SessionScope<'_>,
) -> Result<Option<RunLock>, StoreError> {
    let name = match scope {
        SessionScope::Everywhere => digest_parts(&[session.as_str()]),
        SessionScope::Agent { project, agent } => digest_parts(&[project, agent.as_str(), session.as_str()]),
    };
    let path = home.sessions_dir().join(format!("{name}.lock"));
    RunLock::take(&path).map_err(failed("lock", &path))
}

/// Returns the runs of all retained sessions, which a later run may have to replay. A session is retained for
/// `keep_ms` after its last use, or for as long as its name.
pub fn runs_in_use(home: &Path, now: Timestamp, keep_ms: u64) -> HashSet<RunId> {
    let named_retention = session_names::retention_by_session(home);
    let entries = fs::read_dir(home.join(FOLDER)).into_iter().flatten().filter_map(Result::ok);
    // Files that are not session records are locks or names.
    let sessions = entries.filter_map(|entry| read_file::<Session>(&entry.path()).ok().flatten());
    let in_use = sessions.filter(|session| {
        let keep_ms = named_retention.get(&session.session).copied().unwrap_or_default().max(keep_ms);
        session.used_at >= earlier_by(now, keep_ms)
    });
    in_use.flat_map(|session| session.runs).collect()
}

/// Removes sessions that were not used for `keep_ms`, and returns how many files were removed.
pub fn forget_unused(home: &Home, now: Timestamp, keep_ms: u64) -> Result<u64, StoreError> {
    let folder = home.sessions_dir();
    let named_retention = session_names::retention_by_session(home.path());
    let mut forgotten = 0;
    for entry in fs::read_dir(&folder).map_err(failed("read", &folder))?.filter_map(Result::ok) {
        let keep_ms = retention_ms(&entry.path(), &named_retention).max(keep_ms);
        let then = std::time::SystemTime::from(earlier_by(now, keep_ms));
        let old = entry.metadata().and_then(|found| found.modified()).is_ok_and(|used| used < then);
        // A held lock is in use, whatever its age.
        let free = matches!(RunLock::is_held(&entry.path()), Ok(false));
        if old && free && fs::remove_file(entry.path()).is_ok() {
            forgotten += 1;
        }
    }
    Ok(forgotten)
}

/// Returns how long a file that belongs to a named session is retained.
fn retention_ms(path: &Path, named_retention: &HashMap<SessionId, u64>) -> u64 {
    let name_retention = || read_file::<SessionAlias>(path).ok().flatten().map(|name| name.keep_ms);
    let session = read_file::<Session>(path).ok().flatten();
    let session_retention =
        session.map(|session| named_retention.get(&session.session).copied().unwrap_or_default());
    session_retention.or_else(name_retention).unwrap_or_default()
}

fn earlier_by(now: Timestamp, ms: u64) -> Timestamp {
    let then = now.as_millisecond().saturating_sub_unsigned(ms);
    Timestamp::from_millisecond(then).unwrap_or(Timestamp::MIN)
}

pub(crate) fn read_file<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    match read_bounded(path, RECORD_BYTES_MAX) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| StoreError::Malformed { path: path.to_owned(), source }),
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file atomically: a reader sees the old content or the new.
pub(crate) fn write_file<T: Serialize>(home: &Home, path: &Path, value: &T) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec(value)
        .map_err(|source| StoreError::Malformed { path: path.to_owned(), source })?;
    let temporary = fresh_path(&home.sessions_dir(), "session");
    let written = create_private(&temporary).and_then(|file| home.disk().write_all(&file, &bytes));
    let moved = written.and_then(|()| fs::rename(&temporary, path));
    if moved.is_err() {
        // It is removed with the old sessions.
        let _ = fs::remove_file(&temporary);
    }
    moved.map_err(failed("write", path))
}

fn record_path(home: &Home, session: &SessionId) -> PathBuf {
    home.sessions_dir().join(digest_parts(&[session.as_str()]))
}

fn last_path(home: &Home, agent: &AgentName, directory: &str) -> PathBuf {
    home.sessions_dir().join(format!("last-{}", digest_parts(&[agent.as_str(), directory])))
}

pub(crate) fn digest_parts(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        // Each part is hashed with its length, so that no two names concatenate to the same bytes.
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    domain::hex::hex(&digest.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use domain::run::{Cost, CostBasis};

    use super::*;
    use crate::fixtures::{TestHome, at, run_id};
    use crate::session_names::SessionName;

    fn session(id: &str) -> Session {
        Session {
            session: id.parse().unwrap(),
            agent: "coder".parse().unwrap(),
            backend: "claude".parse().unwrap(),
            directory: "/p".to_owned(),
            vendor_session: VendorSession::SameId,
            runs: vec![run_id(1)],
            usage: Some(Usage::default()),
            used_at: at(0),
        }
    }

    #[test]
    fn a_record_is_read_back_and_the_last_session_is_found() {
        let test = TestHome::new();
        assert_eq!(read(&test.home, &"s-1".parse().unwrap()).unwrap(), None);
        for id in ["s-1", "s-2"] {
            write(&test.home, &session(id)).unwrap();
        }
        assert_eq!(read(&test.home, &"s-1".parse().unwrap()).unwrap(), Some(session("s-1")));
        let agent = "coder".parse().unwrap();
        assert_eq!(last_session(&test.home, &agent, "/p").unwrap(), Some("s-2".parse().unwrap()));
        assert_eq!(last_session(&test.home, &agent, "/q").unwrap(), None);
    }

    #[test]
    fn a_session_has_one_run_at_a_time() {
        let test = TestHome::new();
        let id = "s-1".parse().unwrap();
        let held = try_lock(&test.home, &id, SessionScope::Everywhere).unwrap().unwrap();
        assert!(try_lock(&test.home, &id, SessionScope::Everywhere).unwrap().is_none());
        let agent = "coder".parse().unwrap();
        let chosen = SessionScope::Agent { project: "/p", agent: &agent };
        assert!(try_lock(&test.home, &id, chosen).unwrap().is_some(), "the same word of somebody else");
        drop(held);
        assert!(try_lock(&test.home, &id, SessionScope::Everywhere).unwrap().is_some());
    }

    #[test]
    fn runs_are_bounded_and_their_use_is_summed() {
        let mut record = session("s-1");
        let cost = Some(Cost { microusd: 1, basis: CostBasis::Reported });
        record.usage =
            Some(Usage { cost: Some(Cost { microusd: 0, basis: CostBasis::Reported }), ..Usage::default() });
        let usage = Usage { input_tokens: 2, output_tokens: 0, cost, ..Usage::default() };
        for number in 0..60 {
            record.add(run_id(number), at(1));
            record.add(run_id(number), at(1));
            record.add_usage(usage);
        }
        let used = record.usage.unwrap();
        assert_eq!((record.runs.len(), used.input_tokens, used.cost.unwrap().microusd), (RUNS_MAX, 120, 60));
        assert_eq!(record.runs.last(), Some(&run_id(59)));
        record.add_usage(Usage { cost: None, ..usage });
        assert_eq!(record.usage.unwrap().cost, None, "a sum without one of its parts is none");
        record.add_usage(Usage::default());
        record.add_usage(usage);
        assert_eq!(record.usage, None);
    }

    #[test]
    fn runs_of_recent_sessions_are_in_use_and_those_of_old_ones_are_not() {
        let test = TestHome::new();
        write(&test.home, &session("s-1")).unwrap();
        let runs = || runs_in_use(test.home.path(), at(2), 1);
        assert_eq!(runs_in_use(test.home.path(), at(2), 2_000), HashSet::from([run_id(1)]));
        assert_eq!(runs(), HashSet::new());
        let agent = "coder".parse().unwrap();
        let name = SessionName { dialect: "sub-agents-mcp", agent: &agent, name: "mine" };
        let assignment = SessionAlias { session: "s-1".parse().unwrap(), used_at: at(0), keep_ms: 2_000 };
        session_names::assign(&test.home, &name, &assignment).unwrap();
        assert_eq!(runs(), HashSet::from([run_id(1)]), "its name is kept longer");
        let replayed =
            Session { vendor_session: VendorSession::OtherId("s-9".parse().unwrap()), ..session("s-1") };
        assert_eq!(replayed.vendor_id(), Some(("claude".parse().unwrap(), "s-9".parse().unwrap())));
        assert_eq!(Session { vendor_session: VendorSession::NotStored, ..session("s-1") }.vendor_id(), None);
    }

    #[test]
    fn old_sessions_are_forgotten_and_those_in_use_are_not() {
        let test = TestHome::new();
        write(&test.home, &session("s-1")).unwrap();
        let id = "s-2".parse().unwrap();
        let _held = try_lock(&test.home, &id, SessionScope::Everywhere).unwrap().unwrap();
        let later = Timestamp::from_second(9_000_000_000).unwrap();
        let agent = "coder".parse().unwrap();
        let name = SessionName { dialect: "sub-agents-mcp", agent: &agent, name: "mine" };
        write(&test.home, &session("s-9")).unwrap();
        let assignment = SessionAlias { session: "s-9".parse().unwrap(), used_at: at(0), keep_ms: u64::MAX };
        session_names::assign(&test.home, &name, &assignment).unwrap();
        assert_eq!(forget_unused(&test.home, at(0), 0).unwrap(), 0);
        assert_eq!(forget_unused(&test.home, later, 0).unwrap(), 2, "the record and the last one");
        assert!(read(&test.home, &"s-9".parse().unwrap()).unwrap().is_some(), "its name is kept longer");
        assert!(try_lock(&test.home, &id, SessionScope::Everywhere).unwrap().is_none());
    }
}
