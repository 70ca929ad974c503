//! The session of a run: its id, as soon as the agent reports it; its earlier exchanges; and its usage when the run
//! has ended.

use domain::id::SessionId;
use domain::run::replay::Exchange;
use domain::run::{Event, PromptKind, RunSpec, Usage};
use journal::run_result::read_result;
use journal::sessions::{self, Session, VendorSession};
use journal::{Home, StoreError};

use super::supervisor::RunSupervisor;
use crate::clock;

/// The most of an earlier answer that is replayed.
const ANSWER_BYTES_MAX: usize = 64 << 10;

impl RunSupervisor {
    /// Returns the record of the session that the run continues or copies.
    pub(super) fn session_record(&self) -> Option<Session> {
        let session = self.spec.session.as_ref()?;
        // A record that cannot be read counts as forgotten: the run reports it.
        sessions::read_or_derive(self.dir.home(), session).ok().flatten()
    }

    /// Returns the usage of the attempt's conversation before the attempt, if it is known.
    pub(super) fn prior_usage(&self) -> Option<Usage> {
        let session_id = self.attempt_spec.session.as_ref()?;
        let state = self.log.state();
        let (last, earlier) = state.attempts.split_last()?;
        if last.prompt_kind == PromptKind::Resume {
            return None;
        }
        let before = earlier.iter().filter(|attempt| attempt.vendor_session.as_ref() == Some(session_id));
        let record = self
            .session_record()
            .filter(|record| record.vendor_id().is_some_and(|(_, id)| id == *session_id));
        let mut used = match record {
            Some(record) => record.usage?,
            None => Usage::ZERO,
        };
        for attempt in before {
            if attempt.usage.input_tokens + attempt.usage.output_tokens == 0 {
                return None;
            }
            used.add(attempt.usage);
        }
        Some(used)
    }

    /// Returns the exchanges of the session before this run.
    pub(super) fn earlier_exchanges(&self) -> Vec<Exchange> {
        let mut exchanges = self.spec.prior_exchanges.clone();
        let Some(record) = self.session_record() else { return exchanges };
        let runs = record.runs.into_iter().filter(|run| *run != self.spec.id);
        exchanges.extend(runs.flat_map(|run| load_exchanges(self.dir.home(), run).unwrap_or_default()));
        exchanges
    }

    /// Records the session that a later run can continue, by the vendor's id.
    pub(super) fn record_session(&mut self, native: &str) -> Result<(), StoreError> {
        let native: SessionId = match native.parse() {
            Ok(native) => native,
            Err(error) => {
                let error: domain::id::IdError = error;
                return self.append(Event::Warned { message: error.to_string() });
            }
        };
        let state = self.log.state();
        let last_native = state.attempts.last().and_then(|attempt| attempt.vendor_session.as_ref());
        if state.session.is_some() && last_native == Some(&native) {
            return Ok(());
        }
        let caller_chooses = crate::admission::chooses_sessions(&self.attempt_spec.backend);
        let continued = self.spec.continued_session().cloned().filter(|_| !caller_chooses);
        // One id for the whole conversation, even if vendors rename it.
        let session = continued.or_else(|| state.session.clone());
        let session = match session {
            Some(session) => session,
            None if !caller_chooses && self.is_reused_id(&native)? => self.spec.new_session_id(),
            None => native.clone(),
        };
        let vendor_session =
            if native == session { VendorSession::SameId } else { VendorSession::OtherId(native.clone()) };
        let native = Some(native).filter(|native| *native != session);
        self.append(Event::SessionReported { session, vendor_session: native })?;
        self.store_session(vendor_session)
    }

    /// Returns whether the vendor gave a new conversation the id of another one, and records that it has forgotten
    /// that one: goose counts its sessions from one in each store.
    fn is_reused_id(&self, native: &SessionId) -> Result<bool, StoreError> {
        let home = self.dir.home();
        let other = sessions::read(home, native)?.filter(|record| !record.runs.contains(&self.spec.id));
        let Some(other) = other else { return Ok(false) };
        if other.vendor_session == VendorSession::SameId {
            sessions::write_vendor_lost(home, other)?;
        }
        Ok(true)
    }

    /// Records a session for a backend that has none, if somebody wants to continue it.
    pub(super) fn record_own_session(&mut self) -> Result<(), StoreError> {
        let is_continuable = self.spec.session.is_some() || self.spec.setup.keeps_session;
        if !is_continuable || crate::admission::chooses_sessions(&self.spec.backend) {
            return Ok(());
        }
        let state = self.log.state();
        let continued = self.spec.continued_session().cloned();
        let session =
            continued.or_else(|| state.session.clone()).unwrap_or_else(|| self.spec.new_session_id());
        if state.session.as_ref() != Some(&session) {
            self.append(Event::SessionReported { session, vendor_session: None })?;
        }
        self.store_session(VendorSession::NotStored)
    }

    /// Stores the session as this agent's, so that a later run may continue it.
    fn store_session(&mut self, vendor_session: VendorSession) -> Result<(), StoreError> {
        let backend = self.attempt_spec.backend.name.clone();
        let changed = self.update_session(|session, run| {
            if session.vendor_session != vendor_session || session.backend != backend {
                // This is a new conversation at the vendor, which has used nothing yet.
                (session.vendor_session, session.backend, session.usage) =
                    (vendor_session, backend, Some(Usage::ZERO));
            }
            session.add(run, clock::now());
        });
        self.warn_if_unsaved(changed)
    }

    /// Adds the usage of the run to its session, at the end of the run.
    pub(super) fn add_session_usage(&mut self) {
        let state = self.log.state();
        let usage = state.usage;
        let mut natives = state.attempts.iter().map(|attempt| &attempt.vendor_session);
        let first = natives.next();
        let one = natives.all(|native| Some(native) == first);
        // The outcome of the run matters more than the sums of its session.
        let _ = self.update_session(|session, _| match one {
            true => session.add_usage(usage),
            // Which part of the usage belongs to the current conversation is not known.
            false => session.usage = None,
        });
    }

    fn update_session(&self, change: impl FnOnce(&mut Session, domain::id::RunId)) -> Result<(), StoreError> {
        let Some(id) = self.log.state().session.clone() else { return Ok(()) };
        let home = self.dir.home();
        let known = match id == self.spec.new_session_id() {
            true => sessions::read(home, &id)?,
            false => sessions::read_or_derive(home, &id)?,
        };
        let before = if self.spec.fork { self.session_record() } else { None };
        // A copy that the vendor made continues the count of its original.
        let used = match self.attempt_spec.session.is_some() {
            true => before.as_ref().map_or(Some(Usage::ZERO), |before| before.usage),
            false => Some(Usage::ZERO),
        };
        let new_session = || -> Result<Session, StoreError> {
            Ok(Session {
                session: id,
                agent: self.spec.agent.clone(),
                backend: self.attempt_spec.backend.name.clone(),
                // The requested directory: the run's own work tree is removed with the run.
                directory: self.dir.read_spec()?.directory,
                vendor_session: VendorSession::SameId,
                runs: before.map(|before| before.runs).unwrap_or_default(),
                usage: used,
                used_at: clock::now(),
            })
        };
        let mut session = known.map_or_else(new_session, Ok)?;
        change(&mut session, self.spec.id);
        sessions::write(home, &session)
    }

    fn warn_if_unsaved(&mut self, saved: Result<(), StoreError>) -> Result<(), StoreError> {
        match saved {
            Ok(()) => Ok(()),
            Err(error) => {
                let reason = crate::error_chain::explain(&error);
                let message = format!("the session cannot be continued later: could not {reason}");
                self.append(Event::Warned { message })
            }
        }
    }
}

/// Returns the request and the answer of a run, after the exchanges that it was started with; `None` if its record is
/// gone.
fn load_exchanges(home: &Home, run: domain::id::RunId) -> Option<Vec<Exchange>> {
    let dir = home.run_dir(run);
    let RunSpec { prompt: request, prior_exchanges: mut exchanges, .. } = dir.read_spec().ok()?;
    let ending = dir.ending().ok()??;
    let answer = read_result(&dir, &ending.result, 0, ANSWER_BYTES_MAX).ok()?.text;
    let response = match answer.trim() {
        "" => format!("[no answer: {}]", ending.outcome),
        answer => answer.to_owned(),
    };
    exchanges.push(Exchange { request, response });
    Some(exchanges)
}
