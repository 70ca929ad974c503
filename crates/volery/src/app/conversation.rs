//! Which session a run continues or copies, and whether it may.

use domain::agent::{Agent, Format, Layer, Source};
use domain::id::{RunId, SessionId};
use domain::launch::Launch;
use domain::run::replay::Exchange;
use domain::run::{BackendSpec, RunSpec};
use journal::RunLock;
use journal::session_names::{self, Named, SessionName};
use journal::sessions::{self, Kept, Session};

use super::engine::{Engine, Scope, store_error};
use super::honour;
use super::{AppError, Before, NamedSession};
use crate::clock;

/// What a caller says about the conversation.
pub(super) struct Wanted {
    pub(super) session: Option<SessionId>,
    pub(super) fork: bool,
}

/// The conversation that a run is part of.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) session: Option<SessionId>,
    /// What was said in it before it came here.
    pub(super) told: Vec<Exchange>,
    /// The caller's name for it, until the run is on record.
    pub(super) held: Option<RunLock>,
}

/// Returns the agent of a run as the run's record has it, with all that it was allowed.
pub(super) fn recorded_agent(spec: RunSpec) -> Agent {
    let source = Source { file: spec.source, format: Format::Volery, layer: Layer::Environment };
    Agent {
        model: spec.model,
        system_prompt: spec.system_prompt,
        env: spec.env,
        limits: (&spec.limits).into(),
        delegates: spec.delegates,
        on_interrupt: spec.on_interrupt,
        containment: spec.containment,
        launch: Launch::of(&spec.backend.options),
        setup: spec.setup,
        ..Agent::new(spec.agent, spec.backend.name, source)
    }
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
        if let Some(named) = &session
            && !self.may_continue(named, honour::chooses_sessions(backend))?
        {
            return Err(unknown(named));
        }
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
            if !agent.setup.keeps_session {
                return Ok(None);
            }
            let last = sessions::last_of(&self.home, &agent.name, directory).map_err(store_error)?;
            // One that others began is not this caller's to go on with.
            return match last {
                Some(last) if self.may_continue(&last, false)? => Ok(Some(last)),
                Some(_) | None => Ok(None),
            };
        };
        let known = match sessions::read(&self.home, &session).map_err(store_error)? {
            Some(known) => known,
            None => self.begun_by_run(&session)?.ok_or_else(|| unknown(&session))?,
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

    /// Returns the agent of a session as it was in its last run, and where that worked.
    pub(super) fn agent_before(&self, agent: &str, session: &str) -> Result<(Agent, String), AppError> {
        let unknown =
            || AppError::not_found(format!("there is no session {}", domain::size::head(session, 100)));
        let id: SessionId = session.parse().map_err(|_| unknown())?;
        let known = sessions::known(&self.home, &id).map_err(store_error)?.ok_or_else(unknown)?;
        let dir = self.home.run_dir(*known.runs.last().ok_or_else(unknown)?);
        if !dir.exists() || !self.may_see(&dir) {
            return Err(unknown());
        }
        let spec = dir.read_spec().map_err(store_error)?;
        if spec.agent.as_str() != agent {
            return Err(unknown());
        }
        Ok((recorded_agent(spec), known.directory))
    }

    /// Returns the session that a caller's name for it stands for. A name that is used for the first time stands for a
    /// session that begins with this run. What is returned is kept until the run is on record.
    pub(super) fn session_by_name(
        &self,
        agent: &Agent,
        backend: &BackendSpec,
        named: NamedSession,
        (run, directory): (RunId, &str),
    ) -> Result<Conversation, AppError> {
        let NamedSession { name, within, keep_ms, before } = named;
        let chosen: SessionId = name
            .unwrap_or_else(|| run.to_string())
            .parse()
            .map_err(|error: domain::id::IdError| AppError::usage(error.to_string()))?;
        if honour::chooses_sessions(backend) {
            return match self.may_continue(&chosen, true)? {
                true => Ok(Conversation { session: Some(chosen), ..Conversation::default() }),
                false => Err(unknown(&chosen)),
            };
        }
        // A name of one token is not that of another, and what was said before there were tokens is nobody's.
        let (within, before) = match self.token() {
            Some(token) => (format!("{within} of {token}"), Before::Nothing),
            None => (within.to_owned(), before),
        };
        let name = SessionName { within: &within, agent: &agent.name, name: chosen.as_str() };
        let held = Some(session_names::hold(&self.home, &name).map_err(store_error)?);
        let now = clock::now();
        let known = session_names::find(&self.home, &name, now).map_err(store_error)?;
        let is_there = |session| sessions::known(&self.home, session).map_err(store_error);
        if let Some(known) = known
            && is_there(&known.session)?.is_some()
        {
            let used = Named { used_at: now, keep_ms, ..known };
            session_names::give(&self.home, &name, &used).map_err(store_error)?;
            return Ok(Conversation { session: Some(used.session), told: Vec::new(), held });
        }
        let own: SessionId =
            run.to_string().parse().expect("the id of a run has only letters, digits and dashes");
        let own_name = Named { session: own.clone(), used_at: now, keep_ms };
        session_names::give(&self.home, &name, &own_name).map_err(store_error)?;
        let told = match before {
            Before::Nothing => Vec::new(),
            Before::Told(told) => told,
            Before::Vendor(native) => {
                let begun = Session {
                    session: own.clone(),
                    agent: agent.name.clone(),
                    backend: backend.name.clone(),
                    directory: directory.to_owned(),
                    kept: Kept::As(native),
                    runs: Vec::new(),
                    // What it used before, nobody has told.
                    used: None,
                    used_at: now,
                };
                sessions::write(&self.home, &begun).map_err(store_error)?;
                Vec::new()
            }
        };
        Ok(Conversation { session: Some(own), told, held })
    }

    /// Tells whether a conversation is this caller's, shown by the last run in it. For a token one that is not known to
    /// be its own is not, unless nobody has used that name and callers `choose` them.
    fn may_continue(&self, session: &SessionId, choose: bool) -> Result<bool, AppError> {
        let Scope::Token(_) = &self.scope else { return Ok(true) };
        let Some(known) = sessions::known(&self.home, session).map_err(store_error)? else {
            return Ok(choose);
        };
        Ok(known.runs.last().is_some_and(|run| self.may_see(&self.home.run_dir(*run))))
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

fn unknown(session: &SessionId) -> AppError {
    let hint = "a session has the id that an earlier run of the agent tells; begin without one";
    AppError::not_found(format!("there is no session {session}")).hint(hint)
}
