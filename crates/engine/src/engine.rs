//! The engine of one door: the state directory, the caller, and the channels to the runs that it started.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use config::settings::Config;
use domain::agent::Layer;
use domain::run::{Caller, CallerOrigin, OnDisconnect, RunSpec};
use journal::{Home, HomeError, Unwritable};

use crate::api::EngineError;
use crate::env;
use crate::index_connection::IndexConnection;
use crate::ipc::run_channels::RunChannels;
use crate::registry::{self, Catalog, TrustStore};

/// The caller's context: one per door.
#[derive(Debug, Clone)]
pub struct CallerContext {
    pub door: CallerOrigin,
    pub caller: String,
    /// The door's working directory, for requests that name none.
    pub directory: PathBuf,
}

/// The runs that a door can see and touch.
#[derive(Debug, Clone)]
pub(crate) enum Visibility {
    All,
    /// Only the descendants of this run.
    DescendantsOf(Box<RunSpec>),
    /// Only runs that were started with the token of this name.
    Token(String),
}

pub struct Engine {
    pub(crate) home: Home,
    pub(crate) door: CallerOrigin,
    caller: Mutex<String>,
    pub(crate) directory: PathBuf,
    pub(crate) visibility: Visibility,
    pub(crate) channels: Arc<RunChannels>,
    pub(crate) index_connection: Arc<IndexConnection>,
}

impl Engine {
    /// Opens the state directory for a door outside all runs.
    pub(crate) fn open(context: CallerContext) -> Result<Arc<Self>, EngineError> {
        let Some(path) = env::state_home() else {
            let message = "there is no place for the state: VOLERY_HOME, or HOME if that is not set, must be an absolute path";
            return Err(
                EngineError::usage(message).hint("set VOLERY_HOME to a directory of yours on a local disk")
            );
        };
        if env::get(env::VOLERY_CONFIG_HOME).is_some_and(|path| PathBuf::from(path).is_relative()) {
            // Ignoring the variable could ignore a limit.
            let message = "VOLERY_CONFIG_HOME is a relative path, which means another place for every caller";
            return Err(EngineError::usage(message).hint("set it to an absolute path, or not at all"));
        }
        let home = Home::open(&path).map_err(home_error)?;
        let CallerContext { door, caller, directory } = context;
        let visibility = Visibility::All;
        let channels = Arc::default();
        let index_connection = Arc::default();
        Ok(Arc::new(Self {
            home,
            door,
            caller: Mutex::new(caller),
            directory,
            visibility,
            channels,
            index_connection,
        }))
    }

    /// Returns the engine that a worker uses for the requests of its own agent.
    pub(crate) fn for_run(home: &Home, spec: &RunSpec) -> Arc<Self> {
        Arc::new(Self {
            home: home.clone(),
            door: CallerOrigin::Run,
            caller: Mutex::new(spec.agent.to_string()),
            directory: PathBuf::from(&spec.directory),
            visibility: Visibility::DescendantsOf(Box::new(spec.clone())),
            channels: Arc::default(),
            index_connection: Arc::default(),
        })
    }

    /// Returns the engine for clients with a token: the same channels, and only the token's runs.
    pub(crate) fn for_token(&self, name: &str) -> Arc<Self> {
        Arc::new(Self {
            home: self.home.clone(),
            door: self.door,
            caller: Mutex::new(name.to_owned()),
            directory: self.directory.clone(),
            visibility: Visibility::Token(name.to_owned()),
            channels: Arc::clone(&self.channels),
            index_connection: Arc::clone(&self.index_connection),
        })
    }

    /// Returns the caller, for the record of a run.
    pub(crate) fn caller(&self) -> Caller {
        let name = self.caller.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let token = match &self.visibility {
            Visibility::All => None,
            Visibility::DescendantsOf(parent) => parent.caller.token.clone(),
            Visibility::Token(name) => Some(name.clone()),
        };
        Caller { origin: self.door, name, token }
    }

    pub(crate) fn set_caller(&self, name: &str) {
        if let Visibility::Token(_) = &self.visibility {
            // A client chooses its own name, but not its token.
            return;
        }
        *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = name.to_owned();
    }

    /// Returns what happens to a run whose door disconnects, if neither the call nor the agent says so. Clients of a
    /// shared server come and go, and so does the server: their runs continue unless the configuration says
    /// otherwise.
    pub(crate) fn on_disconnect(&self, config: &Config) -> OnDisconnect {
        match &self.visibility {
            Visibility::Token(_) if config.on_disconnect.layer == Layer::Default => OnDisconnect::Continue,
            Visibility::Token(_) | Visibility::All | Visibility::DescendantsOf(_) => config.on_disconnect(),
        }
    }

    /// Returns the layered configuration of the door's own directory.
    pub(crate) fn own_config(&self) -> Config {
        registry::load(&registry::find_project(&self.directory.to_string_lossy())).config.clone()
    }

    pub(crate) fn trust(&self) -> TrustStore {
        TrustStore::new(self.home.trust_dir())
    }

    /// Returns the directory of a request and the definitions of its project.
    pub(crate) fn locate(&self, directory: Option<&str>) -> Result<(String, Catalog), EngineError> {
        let own = self.directory.to_string_lossy();
        let requested = directory.unwrap_or(&own);
        let directory = registry::resolve_directory(requested).map_err(|error| {
            EngineError::usage(error.to_string()).hint("give the absolute path of an existing directory")
        })?;
        let project = self.project_at(&directory);
        Ok((directory, registry::load(&project)))
    }

    /// Returns the project of a directory. A run in its own work tree still belongs to the project that it came from,
    /// and so do its children there: the tree holds only committed files, and nobody has trusted it.
    fn project_at(&self, directory: &str) -> String {
        let found = registry::find_project(directory);
        match &self.visibility {
            Visibility::DescendantsOf(spec) if found == registry::find_project(&spec.directory) => {
                spec.project.clone()
            }
            Visibility::DescendantsOf(_) | Visibility::All | Visibility::Token(_) => found,
        }
    }

    /// Runs work that blocks on the disk outside of the event loop.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let engine = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&engine)).await;
        done.unwrap_or_else(|error| {
            Err(EngineError::internal(format!("a look at the journal failed: {error}")))
        })
    }
}

pub(crate) fn home_error(error: HomeError) -> EngineError {
    let hint = error.hint();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    EngineError::usage(format!("could not {error}{cause}")).hint(hint)
}

/// The hint for a disk that cannot be written.
pub(crate) const UNWRITABLE_HINT: &str =
    "free some space (`volery clean --older-than 1d` removes old runs), or set VOLERY_HOME to another disk";

pub(crate) fn store_error(error: journal::StoreError) -> EngineError {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let message = format!("could not {error}{cause}");
    match error.unwritable() {
        Some(Unwritable::Full | Unwritable::Quota) => EngineError::usage(message).hint(UNWRITABLE_HINT),
        Some(Unwritable::ReadOnly | Unwritable::Denied) => {
            EngineError::usage(message).hint("set VOLERY_HOME to a directory that you can write to")
        }
        None => EngineError::internal(message),
    }
}
