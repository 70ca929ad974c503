//! Decides which session a run continues or copies, and whether it may.

use domain::agent::{Agent, AgentFormat, AgentSource, Layer};
use domain::id::{RunId, RunRef, SessionId};
use domain::launch::LaunchOverrides;
use domain::run::replay::Exchange;
use domain::run::{BackendSpec, RunSpec};
use journal::RunLock;
use journal::run_lookup::FindError;
use journal::session_names::{self, SessionAlias, SessionName};
use journal::sessions::{self, Session, VendorSession};

use super::{compatibility, resumption};
use crate::api::{EngineError, NamedSession, PriorConversation};
use crate::clock;
use crate::engine::{Engine, Visibility, store_error};

/// The session that a caller requests.
pub(crate) struct SessionRequest {
    pub(crate) session: Option<SessionId>,
    pub(crate) fork: bool,
}

/// The session of a run.
#[derive(Default)]
pub(crate) struct ResolvedSession {
    pub(crate) session: Option<SessionId>,
    /// The exchanges before the session came here.
    pub(crate) prior_exchanges: Vec<Exchange>,
    /// The lock on the caller's name for it, until the run is recorded.
    pub(crate) name_lock: Option<RunLock>,
}

/// Returns the agent from a run's record, with its permission.
pub(crate) fn recorded_agent(spec: RunSpec) -> Agent {
    let source = AgentSource { file: spec.source, format: AgentFormat::Volery, layer: Layer::Environment };
    Agent {
        model: spec.model,
        system_prompt: spec.system_prompt,
        env: spec.env,
        limits: (&spec.limits).into(),
        delegates: spec.delegates,
        on_interrupt: spec.on_interrupt,
        containment: spec.containment,
        launch: LaunchOverrides::from_options(&spec.backend.options),
        setup: spec.setup,
        ..Agent::new(spec.agent, spec.backend.name, source)
    }
}

impl Engine {
    /// Returns the session that a run continues: the requested one, if it belongs to this agent in this directory, or
    /// the last one of an agent that keeps its session.
    pub(crate) fn resolve_session(
        &self,
        agent: &Agent,
        backend: &BackendSpec,
        request: SessionRequest,
        directory: &str,
    ) -> Result<Option<SessionId>, EngineError> {
        let SessionRequest { session, fork } = request;
        let session = session.map(|typed| self.session_of_reference(typed, backend)).transpose()?;
        if let Some(requested) = &session
            && !self.may_continue(requested, compatibility::chooses_sessions(backend))?
        {
            return Err(unknown_session(requested));
        }
        if compatibility::chooses_sessions(backend) {
            return match fork {
                true => Err(EngineError::usage(format!(
                    "the sessions of {} are its own and are not copied",
                    backend.name
                ))),
                false => Ok(session),
            };
        }
        let Some(session) = session else {
            if fork {
                return Err(EngineError::usage("only a session that is named can be copied"));
            }
            if !agent.setup.keeps_session {
                return Ok(None);
            }
            let last = sessions::last_session(&self.home, &agent.name, directory).map_err(store_error)?;
            // This caller may not continue a session that others began.
            return match last {
                Some(last) if self.may_continue(&last, false)? => Ok(Some(last)),
                Some(_) | None => Ok(None),
            };
        };
        let record = match sessions::read(&self.home, &session).map_err(store_error)? {
            Some(record) => record,
            None => self.session_of_run(&session)?.ok_or_else(|| unknown_session(&session))?,
        };
        let mismatches = [
            (record.agent != agent.name, format!("agent {}", record.agent)),
            (record.directory != directory, format!("the directory {}", record.directory)),
        ];
        match mismatches.into_iter().find(|(differs, _)| *differs) {
            Some((_, whose)) => Err(EngineError::usage(format!(
                "the session {session} belongs to {whose} and continues only there"
            ))),
            None => Ok(Some(session)),
        }
    }

    /// Returns the session that a caller names by the session's id or by the complete or short id of a run. If the backend
    /// lets callers choose session names, every text is a session name.
    fn session_of_reference(
        &self,
        typed: SessionId,
        backend: &BackendSpec,
    ) -> Result<SessionId, EngineError> {
        let is_session = compatibility::chooses_sessions(backend)
            || sessions::read(&self.home, &typed).map_err(store_error)?.is_some();
        let Ok(reference) = typed.as_str().parse::<RunRef>() else { return Ok(typed) };
        if is_session {
            return Ok(typed);
        }
        let dir = match self.home.find(&reference) {
            Ok(dir) if self.may_see(&dir) => dir,
            Ok(_) | Err(FindError::NotFound { .. }) => return Err(unknown_session(&typed)),
            Err(FindError::Ambiguous { .. } | FindError::Store(_)) => self.find(typed.as_str())?,
        };
        let spec = self.reconcile(&dir)?;
        let (state, _) = journal::read_state(&dir).map_err(store_error)?;
        let session = resumption::continuable_session(&spec, &state).and_then(|session| session.parse().ok());
        session.ok_or_else(|| {
            let (short, agent) = (spec.id.short(), &spec.agent);
            EngineError::usage(format!("the run {short} has no session: {} reported none", spec.backend.name))
                .hint(format!("start a new conversation: volery run {agent} \"…\""))
        })
    }

    /// Returns the agent of a session from its last run, and its directory.
    pub(crate) fn agent_of_session(
        &self,
        agent: &str,
        session: &str,
    ) -> Result<(Agent, String), EngineError> {
        let unknown_session =
            || EngineError::not_found(format!("there is no session {}", domain::size::head(session, 100)));
        let id: SessionId = session.parse().map_err(|_| unknown_session())?;
        let record =
            sessions::read_or_derive(&self.home, &id).map_err(store_error)?.ok_or_else(unknown_session)?;
        let dir = self.home.run_dir(*record.runs.last().ok_or_else(unknown_session)?);
        if !dir.exists() || !self.may_see(&dir) {
            return Err(unknown_session());
        }
        let spec = dir.read_spec().map_err(store_error)?;
        if spec.agent.as_str() != agent {
            return Err(unknown_session());
        }
        Ok((recorded_agent(spec), record.directory))
    }

    /// Returns the session with a caller's name. The first use of a name begins a session with this run. The returned
    /// lock is held until the run is recorded.
    pub(crate) fn resolve_named_session(
        &self,
        agent: &Agent,
        backend: &BackendSpec,
        named_session: NamedSession,
        (run, directory): (RunId, &str),
    ) -> Result<ResolvedSession, EngineError> {
        let NamedSession { name, namespace, keep_ms, prior } = named_session;
        let chosen: SessionId = name
            .unwrap_or_else(|| run.to_string())
            .parse()
            .map_err(|error: domain::id::IdError| EngineError::usage(error.to_string()))?;
        if compatibility::chooses_sessions(backend) {
            return match self.may_continue(&chosen, true)? {
                true => Ok(ResolvedSession { session: Some(chosen), ..ResolvedSession::default() }),
                false => Err(unknown_session(&chosen)),
            };
        }
        // Tokens have separate names, and no token owns the history from before there were tokens.
        let (dialect, before) = match self.token() {
            Some(token) => (format!("{namespace} of {token}"), PriorConversation::Nothing),
            None => (namespace.to_owned(), prior),
        };
        let name = SessionName { dialect: &dialect, agent: &agent.name, name: chosen.as_str() };
        let name_lock = Some(session_names::lock(&self.home, &name).map_err(store_error)?);
        let now = clock::now();
        let record = session_names::find(&self.home, &name, now).map_err(store_error)?;
        let is_there = |session| sessions::read_or_derive(&self.home, session).map_err(store_error);
        if let Some(record) = record
            && is_there(&record.session)?.is_some()
        {
            let used = SessionAlias { used_at: now, keep_ms, ..record };
            session_names::assign(&self.home, &name, &used).map_err(store_error)?;
            return Ok(ResolvedSession {
                session: Some(used.session),
                prior_exchanges: Vec::new(),
                name_lock,
            });
        }
        let own: SessionId =
            run.to_string().parse().expect("the id of a run has only letters, digits and dashes");
        let own_name = SessionAlias { session: own.clone(), used_at: now, keep_ms };
        session_names::assign(&self.home, &name, &own_name).map_err(store_error)?;
        let prior_exchanges = match before {
            PriorConversation::Nothing => Vec::new(),
            PriorConversation::Exchanges(prior_exchanges) => prior_exchanges,
            PriorConversation::VendorSession(native) => {
                let vendor_session = Session {
                    session: own.clone(),
                    agent: agent.name.clone(),
                    backend: backend.name.clone(),
                    directory: directory.to_owned(),
                    vendor_session: VendorSession::OtherId(native),
                    runs: Vec::new(),
                    // The usage before that is not known.
                    usage: None,
                    used_at: now,
                };
                sessions::write(&self.home, &vendor_session).map_err(store_error)?;
                Vec::new()
            }
        };
        Ok(ResolvedSession { session: Some(own), prior_exchanges, name_lock })
    }

    /// Returns whether a conversation belongs to this caller, by the last run in it. A token may not continue an
    /// unknown conversation, unless callers choose the names.
    fn may_continue(&self, session: &SessionId, callers_choose: bool) -> Result<bool, EngineError> {
        let Visibility::Token(_) = &self.visibility else { return Ok(true) };
        let Some(record) = sessions::read_or_derive(&self.home, session).map_err(store_error)? else {
            return Ok(callers_choose);
        };
        Ok(record.runs.last().is_some_and(|run| self.may_see(&self.home.run_dir(*run))))
    }

    /// Returns the session that a run of a backend without sessions has begun: it has the run's id.
    fn session_of_run(&self, session: &SessionId) -> Result<Option<sessions::Session>, EngineError> {
        let Ok(run) = session.as_str().parse::<RunId>() else { return Ok(None) };
        let dir = self.home.run_dir(run);
        if !dir.exists() || !self.may_see(&dir) {
            return Ok(None);
        }
        let spec = self.reconcile(&dir)?;
        if compatibility::keeps_sessions(&spec.backend) || spec.session.is_some() {
            return Ok(None);
        }
        if dir.ending().map_err(store_error)?.is_none() {
            let message = format!("the run {} has not ended yet, so it cannot be continued", run.short());
            return Err(EngineError::usage(message).hint(format!("volery wait {} first", run.short())));
        }
        sessions::read_or_derive(&self.home, session).map_err(store_error)
    }
}

fn unknown_session(session: &SessionId) -> EngineError {
    let hint = "`volery show RUN` (over MCP: get_run) prints the session of an earlier run; without a session a new \
                conversation begins";
    EngineError::not_found(format!("there is no session {session}")).hint(hint)
}
