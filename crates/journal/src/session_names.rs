//! Names that callers choose for conversations, where a dialect lets them: each stands for one session of ours, within
//! one dialect and one agent, and for as long as that dialect keeps its sessions.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::Timestamp;
use domain::id::{AgentName, SessionId};
use serde::{Deserialize, Serialize};

use crate::durable::{create_private, fresh_path};
use crate::home::Home;
use crate::sessions::{FOLDER, digest_of, read_file, write_file};
use crate::store_error::{StoreError, failed};

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

/// Returns what a name stands for, unless it has not been used for longer than it is kept.
pub fn find(home: &Home, name: &SessionName<'_>, now: Timestamp) -> Result<Option<Named>, StoreError> {
    let named = read_file::<Named>(&path_of(home, name))?;
    Ok(named.filter(|named| !is_older(named.used_at, now, named.keep_ms)))
}

/// Gives a name to a session, or tells which one has it: who comes first has it, until it is kept no longer.
pub fn give(home: &Home, name: &SessionName<'_>, named: &Named) -> Result<SessionId, StoreError> {
    let path = path_of(home, name);
    let bytes =
        serde_json::to_vec(named).map_err(|source| StoreError::Malformed { path: path.clone(), source })?;
    let temporary = fresh_path(&home.sessions_dir(), "name");
    let given = create_private(&temporary)
        .and_then(|file| home.disk().write_all(&file, &bytes))
        .and_then(|()| link(&temporary, &path));
    // A temporary file that stays is swept with the old sessions.
    let _ = fs::remove_file(&temporary);
    match given.map_err(failed("write", &path))? {
        true => Ok(named.session.clone()),
        false => match find(home, name, named.used_at)? {
            Some(other) => Ok(other.session),
            None => {
                give_anew(home, name, named)?;
                Ok(named.session.clone())
            }
        },
    }
}

/// Lets a name stand for a session, whatever it stood for: it is used again, or what it stood for is gone.
pub fn give_anew(home: &Home, name: &SessionName<'_>, named: &Named) -> Result<(), StoreError> {
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

/// Returns whether it was made; `false` if there is one.
fn link(temporary: &Path, path: &Path) -> io::Result<bool> {
    match fs::hard_link(temporary, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
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
    fn who_comes_first_has_the_name_and_others_mean_the_same() {
        let test = TestHome::new();
        let agent = "coder".parse().unwrap();
        let name = SessionName { within: "sub-agents-mcp", agent: &agent, name: "s" };
        let now = at(0);
        assert_eq!(find(&test.home, &name, now).unwrap(), None);
        assert_eq!(give(&test.home, &name, &named("one", now)).unwrap().as_str(), "one");
        assert_eq!(give(&test.home, &name, &named("two", now)).unwrap().as_str(), "one");
        assert_eq!(find(&test.home, &name, now).unwrap(), Some(named("one", now)));
        let other = "other".parse().unwrap();
        for elsewhere in
            [SessionName { within: "budgie", ..name.clone() }, SessionName { agent: &other, ..name }]
        {
            assert_eq!(find(&test.home, &elsewhere, now).unwrap(), None);
        }
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
        assert_eq!(give(&test.home, &name, &named("two", later)).unwrap().as_str(), "two");
        assert_eq!(find(&test.home, &name, later).unwrap(), Some(named("two", later)));
        assert_eq!(kept(test.home.path()).get(&"two".parse().unwrap()), Some(&DAY_MS));
    }
}
