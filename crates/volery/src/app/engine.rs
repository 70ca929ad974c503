//! The engine of one door: the state directory, who asks, and the leashes of the runs it started.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use definition::config::Config;
use domain::agent::Layer;
use domain::run::{Caller, Door, OnDisconnect, RunSpec};
use journal::{Home, HomeError, Unwritable};

use super::index_connection::IndexConnection;
use super::leashes::Leashes;
use super::{AppError, Progress, Request};
use crate::env;
use crate::registry::{self, Catalogue, Trust};

/// Who is asking: one per door.
#[derive(Debug, Clone)]
pub struct AppContext {
    pub door: Door,
    pub caller: String,
    /// The door's working directory, for requests that name none.
    pub directory: PathBuf,
}

/// What a door can see and touch.
#[derive(Debug, Clone)]
pub(super) enum Scope {
    Everything,
    /// Only the descendants of this run.
    Within(Box<RunSpec>),
    /// Only what was asked for with the token of this name.
    Token(String),
}

pub struct Engine {
    pub(super) home: Home,
    pub(super) door: Door,
    caller: Mutex<String>,
    pub(super) directory: PathBuf,
    pub(super) scope: Scope,
    pub(super) leashes: Arc<Leashes>,
    pub(super) index_connection: Arc<IndexConnection>,
}

impl Engine {
    /// Opens the state directory for a door outside all runs.
    pub fn open(context: AppContext) -> Result<Arc<Self>, AppError> {
        let Some(path) = env::state_home() else {
            let message = "there is no place for the state: VOLERY_HOME, or HOME if that is not set, must be an absolute path";
            return Err(
                AppError::usage(message).hint("set VOLERY_HOME to a directory of yours on a local disk")
            );
        };
        if env::get(env::VOLERY_CONFIG_HOME).is_some_and(|path| PathBuf::from(path).is_relative()) {
            // Passing it over could pass over a limit.
            let message = "VOLERY_CONFIG_HOME is a relative path, which means another place for every caller";
            return Err(AppError::usage(message).hint("set it to an absolute path, or not at all"));
        }
        let home = Home::open(&path).map_err(home_error)?;
        let AppContext { door, caller, directory } = context;
        let scope = Scope::Everything;
        let leashes = Arc::default();
        let index_connection = Arc::default();
        Ok(Arc::new(Self {
            home,
            door,
            caller: Mutex::new(caller),
            directory,
            scope,
            leashes,
            index_connection,
        }))
    }

    /// Returns the engine that a worker uses for the requests of its own agent.
    pub fn for_run(home: &Home, spec: &RunSpec) -> Arc<Self> {
        Arc::new(Self {
            home: home.clone(),
            door: Door::Run,
            caller: Mutex::new(spec.agent.to_string()),
            directory: PathBuf::from(&spec.directory),
            scope: Scope::Within(Box::new(spec.clone())),
            leashes: Arc::default(),
            index_connection: Arc::default(),
        })
    }

    /// Returns the engine as those see it who show a token: the same leashes, and only the token's runs.
    pub(super) fn for_token(&self, name: &str) -> Arc<Self> {
        Arc::new(Self {
            home: self.home.clone(),
            door: self.door,
            caller: Mutex::new(name.to_owned()),
            directory: self.directory.clone(),
            scope: Scope::Token(name.to_owned()),
            leashes: Arc::clone(&self.leashes),
            index_connection: Arc::clone(&self.index_connection),
        })
    }

    /// Returns who asks, for the record of a run.
    pub(super) fn caller(&self) -> Caller {
        let name = self.caller.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let token = match &self.scope {
            Scope::Everything => None,
            Scope::Within(parent) => parent.caller.token.clone(),
            Scope::Token(name) => Some(name.clone()),
        };
        Caller { door: self.door, name, token }
    }

    pub(super) fn set_caller(&self, name: &str) {
        if let Scope::Token(_) = &self.scope {
            // A client says of itself what it likes; its token was given to it.
            return;
        }
        *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = name.to_owned();
    }

    /// Returns what happens to a run whose door leaves, where neither call nor agent says it. Clients of a server that
    /// many share come and go, and so does the server: their runs go on unless somebody has configured otherwise.
    pub(super) fn on_disconnect(&self, config: &Config) -> OnDisconnect {
        match &self.scope {
            Scope::Token(_) if config.on_disconnect.layer == Layer::Default => OnDisconnect::Continue,
            Scope::Token(_) | Scope::Everything | Scope::Within(_) => config.on_disconnect(),
        }
    }

    /// Answers any request but a start, which is planned where the tree's allowance is known.
    pub async fn serve(
        self: &Arc<Self>,
        request: Request,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<serde_json::Value, AppError> {
        let value = match request {
            Request::ListAgents(ask) => serde_json::to_value(self.list_agents(ask)?),
            Request::ShowAgent(ask) => serde_json::to_value(self.show_agent(&ask)?),
            Request::SubmitResult(_) => {
                return Err(AppError::internal("an answer goes through the desk"));
            }
            Request::Start(_) => return Err(AppError::internal("a start goes through the desk")),
            Request::Wait(ask) => serde_json::to_value(self.wait(ask, progress).await?),
            Request::GetRun(ask) => serde_json::to_value(self.get_run(ask).await?),
            Request::ListRuns(ask) => serde_json::to_value(self.list_runs(ask).await?),
            Request::Cancel(ask) => serde_json::to_value(self.cancel(ask).await?),
            Request::Answer(ask) => serde_json::to_value(self.answer(ask).await?),
            Request::Health(ask) => serde_json::to_value(self.health(ask).await?),
            Request::ReadOutput(ask) => serde_json::to_value(self.read_output(&ask)?),
        };
        value.map_err(|error| AppError::internal(error.to_string()))
    }

    pub(super) fn trust(&self) -> Trust {
        Trust::new(self.home.trust_dir())
    }

    /// Returns the directory of a request and its project's definitions.
    pub(super) fn place(&self, directory: Option<&str>) -> Result<(String, Catalogue), AppError> {
        let own = self.directory.to_string_lossy();
        let asked = directory.unwrap_or(&own);
        let directory = registry::resolve_directory(asked).map_err(|error| {
            AppError::usage(error.to_string()).hint("give the absolute path of an existing directory")
        })?;
        let project = self.project_at(&directory);
        Ok((directory, registry::load(&project)))
    }

    /// Returns the project of a directory. A run in a work tree of its own still belongs to the project that it came
    /// from, and so do its children there: the tree holds only what is committed, and nobody has trusted it.
    fn project_at(&self, directory: &str) -> String {
        let found = registry::find_project(directory);
        match &self.scope {
            Scope::Within(spec) if found == registry::find_project(&spec.directory) => spec.project.clone(),
            Scope::Within(_) | Scope::Everything | Scope::Token(_) => found,
        }
    }

    /// Runs something that reads or writes the disk for a while, away from the loop.
    pub(super) async fn off_loop<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, AppError> + Send + 'static,
    ) -> Result<T, AppError> {
        let engine = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&engine)).await;
        done.unwrap_or_else(|error| Err(AppError::internal(format!("a look at the journal failed: {error}"))))
    }
}

pub(super) fn home_error(error: HomeError) -> AppError {
    let hint = error.hint();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    AppError::usage(format!("could not {error}{cause}")).hint(hint)
}

/// What somebody can do about a disk that takes nothing.
pub(super) const UNWRITABLE_HINT: &str =
    "free some space (`volery clean --older-than 1d` removes old runs), or set VOLERY_HOME to another disk";

pub(super) fn store_error(error: journal::StoreError) -> AppError {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let message = format!("could not {error}{cause}");
    match error.unwritable() {
        Some(Unwritable::Full | Unwritable::Quota) => AppError::usage(message).hint(UNWRITABLE_HINT),
        Some(Unwritable::ReadOnly | Unwritable::Denied) => {
            AppError::usage(message).hint("set VOLERY_HOME to a directory that you can write to")
        }
        None => AppError::internal(message),
    }
}
