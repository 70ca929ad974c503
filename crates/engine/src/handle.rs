//! The engine as a door holds it: the engine itself, or inside a run a relay to the run's worker.

use std::sync::Arc;

use domain::id::RunId;
use domain::run::Caller;

use crate::api::EngineError;
use crate::ask::{Ask, OnProgress};
use crate::engine::{CallerContext, Engine};
use crate::ipc::relay::{Relay, own_run_tag};

/// The API of the engine for a door.
pub struct EngineHandle {
    pub(crate) access: EngineAccess,
    pub(crate) config: config::settings::Config,
}

pub(crate) enum EngineAccess {
    Direct(Arc<Engine>),
    Relayed(Relay),
}

impl EngineHandle {
    /// Opens the engine, or a relay to it from inside a run.
    pub fn open(context: CallerContext) -> Result<Self, EngineError> {
        let directory = context.directory.to_string_lossy().into_owned();
        let config = crate::registry::load(&crate::registry::find_project(&directory)).config.clone();
        let access = match own_run_tag()? {
            Some(tag) => EngineAccess::Relayed(Relay::new(tag)?),
            None => EngineAccess::Direct(Engine::open(context)?),
        };
        Ok(Self { access, config })
    }

    /// Returns the layered configuration of the door's own directory.
    pub fn config(&self) -> &config::settings::Config {
        &self.config
    }

    /// Sets the name of the caller: the MCP door learns its client's name only with the first message.
    pub fn set_caller(&self, name: &str) {
        if let EngineAccess::Direct(engine) = &self.access {
            engine.set_caller(name);
        }
    }

    /// Returns the caller behind this door; `None` inside a run, where the worker knows it.
    pub fn caller(&self) -> Option<Caller> {
        match &self.access {
            EngineAccess::Direct(engine) => Some(engine.caller()),
            EngineAccess::Relayed(_) => None,
        }
    }

    /// Answers a request.
    pub async fn ask<R: Ask>(&self, request: R) -> Result<R::Answer, EngineError> {
        self.ask_with_progress(request, &mut |_| {}).await
    }

    /// Answers a request, and calls `progress` at once and then with every update of the runs that it waits for.
    pub async fn ask_with_progress<R: Ask>(
        &self,
        request: R,
        progress: OnProgress<'_>,
    ) -> Result<R::Answer, EngineError> {
        match &self.access {
            EngineAccess::Direct(engine) => request.answer(engine, progress).await,
            EngineAccess::Relayed(relay) => request.relay(relay, progress).await,
        }
    }

    /// Returns the working directory of this door.
    pub fn directory(&self) -> Option<std::path::PathBuf> {
        match &self.access {
            EngineAccess::Direct(engine) => Some(engine.directory.clone()),
            EngineAccess::Relayed(_) => None,
        }
    }

    /// Returns whether this door is inside a run.
    pub fn is_inside_run(&self) -> bool {
        matches!(self.access, EngineAccess::Relayed(_))
    }

    /// Returns the project of this door.
    pub fn project(&self) -> Option<std::path::PathBuf> {
        self.directory().map(|directory| crate::registry::find_project(&directory.to_string_lossy()).into())
    }

    /// Returns whether the project is marked as one, by `.git` or `.volery`.
    pub fn has_project(&self) -> bool {
        let directory = self.directory().unwrap_or_default();
        crate::registry::marked_project(&directory.to_string_lossy()).is_some()
    }

    /// Lets the run continue without this door: the caller got a handle instead of a result.
    pub fn detach(&self, run: RunId) {
        if let EngineAccess::Direct(engine) = &self.access {
            engine.channels.detach(run);
        }
    }

    /// Sends the disconnect policy over every channel to the runs of this door. Never waits.
    pub fn disconnect(&self) {
        if let EngineAccess::Direct(engine) = &self.access {
            engine.channels.disconnect();
            crate::failpoint::reach("door_left");
        }
    }
}
