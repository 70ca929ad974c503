//! Which session a run continues or copies, and whether it may.

use domain::agent::Agent;
use domain::id::{RunId, SessionId};
use domain::run::BackendSpec;
use journal::sessions;

use super::AppError;
use super::engine::{Engine, store_error};
use super::honour;

/// What a caller says about the conversation.
pub(super) struct Wanted {
    pub(super) session: Option<SessionId>,
    pub(super) fork: bool,
}

impl Engine {
    /// Returns the session that a run continues: the one that was named, if it is this agent's in this directory, or
    /// the last one of an agent that keeps its session.
    pub(super) fn session_of(
        &self,
        agent: &Agent,
        backend: &BackendSpec,
        wanted: Wanted,
        directory: &str,
    ) -> Result<Option<SessionId>, AppError> {
        let Wanted { session, fork } = wanted;
        if honour::chooses_sessions(backend) {
            return match fork {
                true => Err(AppError::usage(format!(
                    "the sessions of {} are its own and are not copied",
                    backend.name
                ))),
                false => Ok(session),
            };
        }
        let Some(session) = session else {
            if fork {
                return Err(AppError::usage("only a session that is named can be copied"));
            }
            let last = || sessions::last_of(&self.home, &agent.name, directory).map_err(store_error);
            return if agent.setup.keeps_session { last() } else { Ok(None) };
        };
        let unknown = || {
            let hint = "a session has the id that an earlier run of the agent tells; begin without one";
            AppError::not_found(format!("there is no session {session}")).hint(hint)
        };
        let known = match sessions::read(&self.home, &session).map_err(store_error)? {
            Some(known) => known,
            None => self.begun_by_run(&session)?.ok_or_else(unknown)?,
        };
        let wrong = [
            (known.agent != agent.name, format!("agent {}", known.agent)),
            (known.directory != directory, format!("the directory {}", known.directory)),
        ];
        match wrong.into_iter().find(|(differs, _)| *differs) {
            Some((_, whose)) => Err(AppError::usage(format!(
                "the session {session} belongs to {whose} and continues only there"
            ))),
            None => Ok(Some(session)),
        }
    }

    /// Returns the session that a run of a backend without sessions has begun: it has the run's id.
    fn begun_by_run(&self, session: &SessionId) -> Result<Option<sessions::Session>, AppError> {
        let Ok(run) = session.as_str().parse::<RunId>() else { return Ok(None) };
        let dir = self.home.run_dir(run);
        if !dir.exists() || !self.may_see(&dir) {
            return Ok(None);
        }
        let spec = self.look(&dir)?;
        if honour::keeps_sessions(&spec.backend) || spec.session.is_some() {
            return Ok(None);
        }
        if dir.ending().map_err(store_error)?.is_none() {
            let message = format!("the run {} has not ended yet, so it cannot be continued", run.short());
            return Err(AppError::usage(message).hint(format!("volery wait {} first", run.short())));
        }
        sessions::known(&self.home, session).map_err(store_error)
    }
}
