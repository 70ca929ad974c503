//! The run's part in its session: which one it is, known as soon as the agent names it, what was said in it before, and
//! its sums when the run has ended.

use domain::id::SessionId;
use domain::run::replay::Exchange;
use domain::run::{Asked, Event, RunSpec, Usage};
use journal::result::read_result;
use journal::sessions::{self, Kept, Session};
use journal::{Home, StoreError};

use super::desk::Desk;
use crate::clock;

/// The most of an earlier answer that is read to be told again.
const ANSWER_BYTES_MAX: usize = 64 << 10;

impl Desk {
    /// Returns what is known about the session that the run continues or copies.
    pub(super) fn session_record(&self) -> Option<Session> {
        let session = self.spec.session.as_ref()?;
        // What cannot be read is like a vendor that has forgotten: the run says so.
        sessions::known(self.dir.home(), session).ok().flatten()
    }

    /// Returns what the conversation of this attempt had used when it began, if that is known.
    pub(super) fn used_before(&self) -> Option<Usage> {
        let wanted = self.attempt.session.as_ref()?;
        let state = self.log.state();
        let (last, earlier) = state.attempts.split_last()?;
        if last.asked == Asked::Resume {
            return None;
        }
        let before = earlier.iter().filter(|attempt| attempt.native.as_ref() == Some(wanted));
        let record =
            self.session_record().filter(|known| known.native().is_some_and(|(_, id)| id == *wanted));
        let mut used = match record {
            Some(known) => known.used?,
            None => Usage::NOTHING,
        };
        for attempt in before {
            if attempt.usage.input_tokens + attempt.usage.output_tokens == 0 {
                return None;
            }
            used.add(attempt.usage);
        }
        Some(used)
    }

    /// Returns what was said in the session before this run.
    pub(super) fn earlier_exchanges(&self) -> Vec<Exchange> {
        let mut said = self.spec.told.clone();
        let Some(known) = self.session_record() else { return said };
        let runs = known.runs.into_iter().filter(|run| *run != self.spec.id);
        said.extend(runs.flat_map(|run| exchanges(self.dir.home(), run).unwrap_or_default()));
        said
    }

    /// Records the session that a later run can continue, by the vendor's name for it.
    pub(super) fn name_session(&mut self, native: &str) -> Result<(), StoreError> {
        let native: SessionId = match native.parse() {
            Ok(native) => native,
            Err(error) => {
                let error: domain::id::IdError = error;
                return self.append(Event::Warned { message: error.to_string() });
            }
        };
        let state = self.log.state();
        let named = state.attempts.last().and_then(|attempt| attempt.native.as_ref());
        if state.session.is_some() && named == Some(&native) {
            return Ok(());
        }
        let chosen = crate::app::chooses_sessions(&self.attempt.backend);
        let continued = self.spec.continued().cloned().filter(|_| !chosen);
        // One id for the whole conversation, whatever vendors call it since.
        let session = continued.or_else(|| state.session.clone());
        let session = match session {
            Some(session) => session,
            None if !chosen && self.is_given_anew(&native)? => self.spec.own_session(),
            None => native.clone(),
        };
        let kept = if native == session { Kept::AsNamed } else { Kept::As(native.clone()) };
        let native = Some(native).filter(|native| *native != session);
        self.append(Event::SessionNamed { session, native })?;
        self.keep_session(kept)
    }

    /// Tells whether the vendor calls a new conversation as it called another one, and writes down that it has forgotten that
    /// one: goose counts its sessions from one in each store.
    fn is_given_anew(&self, native: &SessionId) -> Result<bool, StoreError> {
        let home = self.dir.home();
        let other = sessions::read(home, native)?.filter(|known| !known.runs.contains(&self.spec.id));
        let Some(other) = other else { return Ok(false) };
        if other.kept == Kept::AsNamed {
            sessions::write_lost(home, other)?;
        }
        Ok(true)
    }

    /// Names the session of a backend that keeps none, where somebody wants it continued.
    pub(super) fn name_own_session(&mut self) -> Result<(), StoreError> {
        let wanted = self.spec.session.is_some() || self.spec.setup.keeps_session;
        if !wanted || crate::app::chooses_sessions(&self.spec.backend) {
            return Ok(());
        }
        let state = self.log.state();
        let continued = self.spec.continued().cloned();
        let session = continued.or_else(|| state.session.clone()).unwrap_or_else(|| self.spec.own_session());
        if state.session.as_ref() != Some(&session) {
            self.append(Event::SessionNamed { session, native: None })?;
        }
        self.keep_session(Kept::Nowhere)
    }

    /// Writes down that the session is this agent's, so that a later run may continue it.
    fn keep_session(&mut self, kept: Kept) -> Result<(), StoreError> {
        let backend = self.attempt.backend.name.clone();
        let changed = self.change_session(|session, run| {
            if session.kept != kept || session.backend != backend {
                // Another conversation at the vendor, which has used nothing yet.
                (session.kept, session.backend, session.used) = (kept, backend, Some(Usage::NOTHING));
            }
            session.add(run, clock::now());
        });
        self.tell_if_lost(changed)
    }

    /// Adds what the run used, when nothing more comes.
    pub(super) fn settle_session(&mut self) {
        let state = self.log.state();
        let usage = state.usage;
        let mut natives = state.attempts.iter().map(|attempt| &attempt.native);
        let first = natives.next();
        let one = natives.all(|native| Some(native) == first);
        // The outcome of the run matters more than the sums of its session.
        let _ = self.change_session(|session, _| match one {
            true => session.settle(usage),
            // Which part belongs to the conversation as it is now, nobody has told.
            false => session.used = None,
        });
    }

    fn change_session(&self, change: impl FnOnce(&mut Session, domain::id::RunId)) -> Result<(), StoreError> {
        let Some(id) = self.log.state().session.clone() else { return Ok(()) };
        let home = self.dir.home();
        let known = match id == self.spec.own_session() {
            true => sessions::read(home, &id)?,
            false => sessions::known(home, &id)?,
        };
        let before = if self.spec.fork { self.session_record() } else { None };
        // A copy that the vendor made counts on from what it is a copy of.
        let used = match self.attempt.session.is_some() {
            true => before.as_ref().map_or(Some(Usage::NOTHING), |before| before.used),
            false => Some(Usage::NOTHING),
        };
        let begun = || -> Result<Session, StoreError> {
            Ok(Session {
                session: id,
                agent: self.spec.agent.clone(),
                backend: self.attempt.backend.name.clone(),
                // As it was asked for: a work tree of the run's own is gone with the run.
                directory: self.dir.read_spec()?.directory,
                kept: Kept::AsNamed,
                runs: before.map(|before| before.runs).unwrap_or_default(),
                used,
                used_at: clock::now(),
            })
        };
        let mut session = known.map_or_else(begun, Ok)?;
        change(&mut session, self.spec.id);
        sessions::write(home, &session)
    }

    fn tell_if_lost(&mut self, kept: Result<(), StoreError>) -> Result<(), StoreError> {
        match kept {
            Ok(()) => Ok(()),
            Err(error) => {
                let reason = crate::causes::explain(&error);
                let message = format!("the session cannot be continued later: could not {reason}");
                self.append(Event::Warned { message })
            }
        }
    }
}

/// Returns what a run was asked and what it answered, after what it was told itself; nothing if its record is gone.
fn exchanges(home: &Home, run: domain::id::RunId) -> Option<Vec<Exchange>> {
    let dir = home.run_dir(run);
    let RunSpec { prompt: request, told: mut said, .. } = dir.read_spec().ok()?;
    let ending = dir.ending().ok()??;
    let answer = read_result(&dir, &ending.result, 0, ANSWER_BYTES_MAX).ok()?.text;
    let response = match answer.trim() {
        "" => format!("[no answer: {}]", ending.outcome),
        answer => answer.to_owned(),
    };
    said.push(Exchange { request, response });
    Some(said)
}
