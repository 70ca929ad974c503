//! The run's part in its session: known as soon as the agent names it, and settled when the run has ended.

use domain::run::{Cost, CostBasis, Event, RunSpec, Usage};
use journal::sessions::{self, Session};
use journal::{Home, StoreError};

use super::desk::Desk;
use crate::clock;

/// A session whose first run begins has used nothing.
const NOTHING: Usage =
    Usage { input_tokens: 0, output_tokens: 0, cost: Some(Cost { microusd: 0, basis: CostBasis::Reported }) };

/// Returns what the earlier runs of a run's session used, if that is known.
pub(super) fn used_before(home: &Home, spec: &RunSpec) -> Option<Usage> {
    let session = spec.session.as_ref()?;
    sessions::read(home, session).ok().flatten()?.used
}

impl Desk {
    /// Writes down that the session is this agent's, so that a later run may continue it.
    pub(super) fn keep_session(&mut self) -> Result<(), StoreError> {
        let kept = self.change_session(|session, run| session.add(run, clock::now()));
        self.tell_if_lost(kept)
    }

    /// Adds what the run used, when nothing more comes.
    pub(super) fn settle_session(&mut self) {
        let usage = self.log.state().usage;
        // The outcome of the run matters more than the sums of its session.
        let _ = self.change_session(|session, _| session.settle(usage));
    }

    fn change_session(&self, change: impl FnOnce(&mut Session, domain::id::RunId)) -> Result<(), StoreError> {
        let Some(id) = self.log.state().session.clone() else { return Ok(()) };
        let home = self.dir.home();
        let known = sessions::read(home, &id)?;
        let mut session = known.unwrap_or_else(|| Session {
            session: id,
            agent: self.spec.agent.clone(),
            backend: self.spec.backend.name.clone(),
            directory: self.spec.directory.clone(),
            runs: Vec::new(),
            used: Some(NOTHING),
            used_at: clock::now(),
        });
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
