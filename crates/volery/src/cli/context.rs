//! The working directory of a command, and its access to the engine.

use std::path::PathBuf;
use std::sync::Arc;

use domain::run::CallerOrigin;

use engine::{CallerContext, EngineError, EngineHandle};

/// The caller's name of every shell.
const SHELL_CALLER: &str = "main";
/// The caller's name of an MCP client that has not sent one. Not `main`, or it would share the runs of the shell.
const UNNAMED_MCP_CLIENT: &str = "mcp-client";

/// What commands need in addition to their arguments.
pub(crate) struct Context {
    pub(crate) directory: PathBuf,
}

impl Context {
    /// Opens the engine. Called only when needed, so that `completions` works with a broken state directory.
    pub(crate) fn open(&self) -> Result<Arc<EngineHandle>, EngineError> {
        self.open_as(CallerOrigin::Shell)
    }

    pub(crate) fn open_as(&self, door: CallerOrigin) -> Result<Arc<EngineHandle>, EngineError> {
        let caller = match door {
            CallerOrigin::Mcp => UNNAMED_MCP_CLIENT,
            CallerOrigin::Shell | CallerOrigin::Run => SHELL_CALLER,
        };
        let context = CallerContext { door, caller: caller.to_owned(), directory: self.directory.clone() };
        EngineHandle::open(context).map(Arc::new)
    }

    /// Opens the engine for a command about earlier runs. Unlike a command that starts a run, it creates no directory.
    pub(crate) fn open_existing(&self) -> Result<Arc<EngineHandle>, EngineError> {
        match self.missing_state_home() {
            Some(home) => Err(EngineError::not_found(format!("{} does not exist", home.display()))
                .hint("VOLERY_HOME is set to this directory; check the path")),
            None => self.open(),
        }
    }

    /// Returns the directory that `VOLERY_HOME` names if it does not exist, because the name may be wrong. Opening the engine
    /// would create it.
    pub(crate) fn missing_state_home(&self) -> Option<PathBuf> {
        let home = PathBuf::from(engine::env::get(engine::env::VOLERY_HOME)?);
        (home.is_absolute() && !home.exists()).then_some(home)
    }

    /// Resolves a directory from the command line to an absolute path.
    pub(crate) fn absolute(&self, typed: Option<&PathBuf>) -> Result<Option<String>, EngineError> {
        let Some(typed) = typed else { return Ok(None) };
        let absolute = self.directory.join(typed);
        let Some(text) = absolute.to_str() else {
            return Err(EngineError::usage(format!("the path {} is not valid UTF-8", absolute.display())));
        };
        Ok(Some(text.to_owned()))
    }

    /// Returns the login name, which is recorded with answers and cancels.
    pub(crate) fn user_name(&self) -> String {
        let name = engine::env::get(engine::env::USER).and_then(|name| name.into_string().ok());
        name.unwrap_or_else(|| SHELL_CALLER.to_owned())
    }
}
