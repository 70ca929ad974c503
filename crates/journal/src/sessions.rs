//! Conversations that several runs continue: whose each is, which runs it has, and what they used. A vendor keeps the
//! conversation itself; this is what makes its id safe to use.

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
use crate::session_names::{self, Named};
use crate::store_error::{StoreError, failed};

/// Below the home.
pub(crate) const FOLDER: &str = "sessions";
/// How many of its last runs a session knows.
const RUNS_MAX: usize = 50;
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// What is known about a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub session: SessionId,
    pub agent: AgentName,
    pub backend: BackendName,
    pub directory: String,
    /// Under which name the vendor has the conversation.
    #[serde(default)]
    pub kept: Kept,
    /// The last runs, oldest first.
    pub runs: Vec<RunId>,
    /// What all its runs used; `None` once one of them did not say. A cost only if each had one.
    pub used: Option<Usage>,
    pub used_at: Timestamp,
}

/// Under which name a vendor has a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Under the session's own.
    #[default]
    AsNamed,
    /// Under a later one: the conversation was told anew.
    As(SessionId),
    /// No vendor has it: each run is told what was said.
    Nowhere,
}

impl Session {
    /// Returns which backend has the conversation, and its name for it.
    pub fn native(&self) -> Option<(BackendName, SessionId)> {
        let id = match &self.kept {
            Kept::AsNamed => self.session.clone(),
            Kept::As(id) => id.clone(),
            Kept::Nowhere => return None,
        };
        Some((self.backend.clone(), id))
    }

    /// Adds a run that begins or goes on.
    pub fn add(&mut self, run: RunId, at: Timestamp) {
        if self.runs.last() != Some(&run) {
            self.runs.push(run);
            let surplus = self.runs.len().saturating_sub(RUNS_MAX);
            self.runs.drain(..surplus);
        }
        self.used_at = at;
    }

    /// Adds what a run used that has ended. One that says nothing leaves the sum unknown for good.
    pub fn settle(&mut self, usage: Usage) {
        let Some(used) = self.used.take().filter(|_| usage.input_tokens + usage.output_tokens > 0) else {
            return;
        };
        let both = used.cost.zip(usage.cost);
        let mut sum = used;
        sum.add(usage);
        self.used = Some(Usage { cost: sum.cost.filter(|_| both.is_some()), ..sum });
    }
}

/// Returns what is known about a session.
pub fn read(home: &Home, session: &SessionId) -> Result<Option<Session>, StoreError> {
    read_file(&record_path(home, session))
}

/// Returns what is known about a session that has a record, or that a run began which has none: it is named by the
/// run's id until somebody continues it.
pub fn known(home: &Home, session: &SessionId) -> Result<Option<Session>, StoreError> {
    if let Some(known) = read(home, session)? {
        return Ok(Some(known));
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
        kept: Kept::Nowhere,
        runs: vec![run],
        used: None,
        used_at: spec.created_at,
    }))
}

/// Returns the session that an agent used last in a directory.
pub fn last_of(home: &Home, agent: &AgentName, directory: &str) -> Result<Option<SessionId>, StoreError> {
    read_file(&last_path(home, agent, directory))
}

/// Writes what is known about a session. Whoever writes holds its lock.
pub fn write(home: &Home, session: &Session) -> Result<(), StoreError> {
    write_file(home, &record_path(home, &session.session), session)?;
    write_file(home, &last_path(home, &session.agent, &session.directory), &session.session)
}

/// Writes down that no vendor has a conversation any more: it will be told again.
pub fn write_lost(home: &Home, session: Session) -> Result<(), StoreError> {
    let path = record_path(home, &session.session);
    write_file(home, &path, &Session { kept: Kept::Nowhere, used: None, ..session })
}

/// Within what the id of a session means one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// A vendor chose it, so that it is the only one.
    Everywhere,
    /// Callers choose it.
    Agent { project: &'a str, agent: &'a AgentName },
}

/// Takes a session for one run; `None` while another run has it.
pub fn try_lock(home: &Home, session: &SessionId, scope: Scope<'_>) -> Result<Option<RunLock>, StoreError> {
    let name = match scope {
        Scope::Everywhere => digest_of(&[session.as_str()]),
        Scope::Agent { project, agent } => digest_of(&[project, agent.as_str(), session.as_str()]),
    };
    let path = home.sessions_dir().join(format!("{name}.lock"));
    RunLock::take(&path).map_err(failed("lock", &path))
}

/// Returns the runs of all sessions that are kept: a later run may be told what they said. A session is kept this long
/// after its last use, or as long as its name is.
pub fn runs_in_use(home: &Path, now: Timestamp, keep_ms: u64) -> HashSet<RunId> {
    let named = session_names::kept(home);
    let entries = fs::read_dir(home.join(FOLDER)).into_iter().flatten().filter_map(Result::ok);
    // What cannot be read as a session is a lock, or a name.
    let sessions = entries.filter_map(|entry| read_file::<Session>(&entry.path()).ok().flatten());
    let in_use = sessions.filter(|session| {
        let keep_ms = named.get(&session.session).copied().unwrap_or_default().max(keep_ms);
        session.used_at >= before(now, keep_ms)
    });
    in_use.flat_map(|session| session.runs).collect()
}

/// Forgets the sessions that nobody used for so long, and returns how many files that were.
pub fn forget_unused(home: &Home, now: Timestamp, keep_ms: u64) -> Result<u64, StoreError> {
    let folder = home.sessions_dir();
    let named = session_names::kept(home.path());
    let mut forgotten = 0;
    for entry in fs::read_dir(&folder).map_err(failed("read", &folder))?.filter_map(Result::ok) {
        let keep_ms = keep_of(&entry.path(), &named).max(keep_ms);
        let then = std::time::SystemTime::from(before(now, keep_ms));
        let old = entry.metadata().and_then(|found| found.modified()).is_ok_and(|used| used < then);
        // A lock that somebody holds is in use, whatever its age.
        let free = matches!(RunLock::is_held(&entry.path()), Ok(false));
        if old && free && fs::remove_file(entry.path()).is_ok() {
            forgotten += 1;
        }
    }
    Ok(forgotten)
}

/// Returns how long a file of a session that has a name is kept.
fn keep_of(path: &Path, named: &HashMap<SessionId, u64>) -> u64 {
    let of_name = || read_file::<Named>(path).ok().flatten().map(|name| name.keep_ms);
    let session = read_file::<Session>(path).ok().flatten();
    let of_session = session.map(|session| named.get(&session.session).copied().unwrap_or_default());
    of_session.or_else(of_name).unwrap_or_default()
}

fn before(now: Timestamp, ms: u64) -> Timestamp {
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

/// Replaces a file whole: a reader sees the old one or the new one.
pub(crate) fn write_file<T: Serialize>(home: &Home, path: &Path, value: &T) -> Result<(), StoreError> {
    let bytes = serde_json::to_vec(value)
        .map_err(|source| StoreError::Malformed { path: path.to_owned(), source })?;
    let temporary = fresh_path(&home.sessions_dir(), "session");
    let written = create_private(&temporary).and_then(|file| home.disk().write_all(&file, &bytes));
    let moved = written.and_then(|()| fs::rename(&temporary, path));
    if moved.is_err() {
        // It is swept with the old sessions.
        let _ = fs::remove_file(&temporary);
    }
    moved.map_err(failed("write", path))
}

fn record_path(home: &Home, session: &SessionId) -> PathBuf {
    home.sessions_dir().join(digest_of(&[session.as_str()]))
}

fn last_path(home: &Home, agent: &AgentName, directory: &str) -> PathBuf {
    home.sessions_dir().join(format!("last-{}", digest_of(&[agent.as_str(), directory])))
}

pub(crate) fn digest_of(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        // With its length, so that no two names run together into the same bytes.
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use domain::run::{Cost, CostBasis};

    use super::*;
    use crate::sample::{TestHome, at, run_id};
    use crate::session_names::SessionName;

    fn session(id: &str) -> Session {
        Session {
            session: id.parse().unwrap(),
            agent: "coder".parse().unwrap(),
            backend: "claude".parse().unwrap(),
            directory: "/p".to_owned(),
            kept: Kept::AsNamed,
            runs: vec![run_id(1)],
            used: Some(Usage::default()),
            used_at: at(0),
        }
    }

    #[test]
    fn what_is_written_is_read_and_the_last_one_is_known() {
        let test = TestHome::new();
        assert_eq!(read(&test.home, &"s-1".parse().unwrap()).unwrap(), None);
        for id in ["s-1", "s-2"] {
            write(&test.home, &session(id)).unwrap();
        }
        assert_eq!(read(&test.home, &"s-1".parse().unwrap()).unwrap(), Some(session("s-1")));
        let agent = "coder".parse().unwrap();
        assert_eq!(last_of(&test.home, &agent, "/p").unwrap(), Some("s-2".parse().unwrap()));
        assert_eq!(last_of(&test.home, &agent, "/q").unwrap(), None);
    }

    #[test]
    fn a_session_has_one_run_at_a_time() {
        let test = TestHome::new();
        let id = "s-1".parse().unwrap();
        let held = try_lock(&test.home, &id, Scope::Everywhere).unwrap().unwrap();
        assert!(try_lock(&test.home, &id, Scope::Everywhere).unwrap().is_none());
        let agent = "coder".parse().unwrap();
        let chosen = Scope::Agent { project: "/p", agent: &agent };
        assert!(try_lock(&test.home, &id, chosen).unwrap().is_some(), "the same word of somebody else");
        drop(held);
        assert!(try_lock(&test.home, &id, Scope::Everywhere).unwrap().is_some());
    }

    #[test]
    fn runs_are_bounded_and_their_use_is_summed() {
        let mut known = session("s-1");
        let cost = Some(Cost { microusd: 1, basis: CostBasis::Reported });
        known.used =
            Some(Usage { cost: Some(Cost { microusd: 0, basis: CostBasis::Reported }), ..Usage::default() });
        let usage = Usage { input_tokens: 2, output_tokens: 0, cost, ..Usage::default() };
        for number in 0..60 {
            known.add(run_id(number), at(1));
            known.add(run_id(number), at(1));
            known.settle(usage);
        }
        let used = known.used.unwrap();
        assert_eq!((known.runs.len(), used.input_tokens, used.cost.unwrap().microusd), (RUNS_MAX, 120, 60));
        assert_eq!(known.runs.last(), Some(&run_id(59)));
        known.settle(Usage { cost: None, ..usage });
        assert_eq!(known.used.unwrap().cost, None, "a sum without one of its parts is none");
        known.settle(Usage::default());
        known.settle(usage);
        assert_eq!(known.used, None);
    }

    #[test]
    fn the_runs_of_sessions_in_use_are_known_and_those_of_old_ones_are_not() {
        let test = TestHome::new();
        write(&test.home, &session("s-1")).unwrap();
        let runs = || runs_in_use(test.home.path(), at(2), 1);
        assert_eq!(runs_in_use(test.home.path(), at(2), 2_000), HashSet::from([run_id(1)]));
        assert_eq!(runs(), HashSet::new());
        let agent = "coder".parse().unwrap();
        let name = SessionName { within: "sub-agents-mcp", agent: &agent, name: "mine" };
        let named = Named { session: "s-1".parse().unwrap(), used_at: at(0), keep_ms: 2_000 };
        session_names::give(&test.home, &name, &named).unwrap();
        assert_eq!(runs(), HashSet::from([run_id(1)]), "its name is kept longer");
        let told_anew = Session { kept: Kept::As("s-9".parse().unwrap()), ..session("s-1") };
        assert_eq!(told_anew.native(), Some(("claude".parse().unwrap(), "s-9".parse().unwrap())));
        assert_eq!(Session { kept: Kept::Nowhere, ..session("s-1") }.native(), None);
    }

    #[test]
    fn old_sessions_are_forgotten_and_those_in_use_are_not() {
        let test = TestHome::new();
        write(&test.home, &session("s-1")).unwrap();
        let id = "s-2".parse().unwrap();
        let _held = try_lock(&test.home, &id, Scope::Everywhere).unwrap().unwrap();
        let later = Timestamp::from_second(9_000_000_000).unwrap();
        let agent = "coder".parse().unwrap();
        let name = SessionName { within: "sub-agents-mcp", agent: &agent, name: "mine" };
        write(&test.home, &session("s-9")).unwrap();
        let named = Named { session: "s-9".parse().unwrap(), used_at: at(0), keep_ms: u64::MAX };
        session_names::give(&test.home, &name, &named).unwrap();
        assert_eq!(forget_unused(&test.home, at(0), 0).unwrap(), 0);
        assert_eq!(forget_unused(&test.home, later, 0).unwrap(), 2, "the record and the last one");
        assert!(read(&test.home, &"s-9".parse().unwrap()).unwrap().is_some(), "its name is kept longer");
        assert!(try_lock(&test.home, &id, Scope::Everywhere).unwrap().is_none());
    }
}
