//! Where a command runs, and how it reaches the engine.

use std::path::PathBuf;
use std::sync::Arc;

use domain::run::Door;

use crate::app::{App, AppContext, AppError};

/// The caller that every shell is.
const CALLER: &str = "main";
/// What an MCP client is called that has not said its name. Not `main`, or its runs would be the shell's own.
const NAMELESS_CLIENT: &str = "mcp-client";

/// What commands are given beside their arguments.
pub(crate) struct Context {
    pub(crate) directory: PathBuf,
}

impl Context {
    /// Returns the engine. Not opened before it is needed, so that `completions` works with a broken state directory.
    pub(crate) fn open(&self) -> Result<Arc<App>, AppError> {
        self.open_as(Door::Shell)
    }

    pub(crate) fn open_as(&self, door: Door) -> Result<Arc<App>, AppError> {
        let caller = match door {
            Door::Mcp => NAMELESS_CLIENT,
            Door::Shell | Door::Run => CALLER,
        };
        let context = AppContext { door, caller: caller.to_owned(), directory: self.directory.clone() };
        App::open(context).map(Arc::new)
    }

    /// Returns a directory that was typed as an absolute path.
    pub(crate) fn absolute(&self, typed: Option<&PathBuf>) -> Result<Option<String>, AppError> {
        let Some(typed) = typed else { return Ok(None) };
        let absolute = self.directory.join(typed);
        let Some(text) = absolute.to_str() else {
            return Err(AppError::usage(format!("the path {} is not valid UTF-8", absolute.display())));
        };
        Ok(Some(text.to_owned()))
    }

    /// Returns who answers a question: the login name, for the record.
    pub(crate) fn person(&self) -> String {
        let name = crate::env::get(crate::env::USER).and_then(|name| name.into_string().ok());
        name.unwrap_or_else(|| CALLER.to_owned())
    }
}
