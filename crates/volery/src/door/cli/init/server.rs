//! How clients start this program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use domain::dialect::DialectName;

use super::client::{Scope, Server};
use crate::app::AppError;
use crate::{env, own_program};

/// What clients type to start the program.
const NAME: &str = "volery";

/// Returns the server with the tools of these dialects.
pub(super) fn server(dialects: &[DialectName], scope: Scope) -> Result<Server, AppError> {
    let dialects = dialects.iter().flat_map(|dialect| ["--dialect".to_owned(), dialect.as_str().to_owned()]);
    let arguments = std::iter::once("serve".to_owned()).chain(dialects).collect();
    Ok(Server { command: command(scope)?, arguments, env: own_places() })
}

/// Returns the command of the program: its name, where that finds it, else its path. In the files of a project the name
/// also counts if it finds another build of the program, since a path is of no use to others.
pub(crate) fn command(scope: Scope) -> Result<String, AppError> {
    let own = own_program::path().and_then(std::fs::canonicalize);
    let own = own.ok().filter(|path| !path.starts_with("/proc")).ok_or_else(|| {
        AppError::usage("this program's file has been replaced since it started").hint("run it again")
    })?;
    let named = named();
    if scope == Scope::Project && named.is_some() || named.is_some_and(|named| named == own) {
        return Ok(NAME.to_owned());
    }
    let text = own.to_str().map(str::to_owned);
    text.ok_or_else(|| AppError::usage(format!("the path {} is not valid UTF-8", own.display())))
}

/// Returns the program that the name finds.
fn named() -> Option<PathBuf> {
    let found = env::get("PATH").and_then(|path| backend::process::find_program(OsStr::new(NAME), &path));
    found.and_then(|found| std::fs::canonicalize(found).ok())
}

/// Returns the variables by which the server finds what this program finds, where they are not the usual places.
fn own_places() -> Vec<(String, String)> {
    let moved = |names: [&str; 2]| names.into_iter().any(|name| env::get(name).is_some());
    let state = env::state_home().filter(|_| moved([env::VOLERY_HOME, "XDG_STATE_HOME"]));
    let config = env::config_home().filter(|_| moved([env::VOLERY_CONFIG_HOME, env::XDG_CONFIG_HOME]));
    let places = [(env::VOLERY_HOME, state), (env::VOLERY_CONFIG_HOME, config)];
    let places = places
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?.into_os_string().into_string().ok()?)));
    places.map(|(name, path)| (name.to_owned(), path)).collect()
}

/// Returns what to say about files that people commit and that name paths of this machine, if they do.
pub(crate) fn about_machine_paths(files: &[&Path], command: &str, variables: &[&str]) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let mut paths = Vec::new();
    let mut advice = Vec::new();
    if Path::new(command).is_absolute() {
        paths.push(format!("the command {command}"));
        advice.push("put volery on the PATH of everybody and write \"volery\" as the command".to_owned());
    }
    if !variables.is_empty() {
        let names = variables.join(" and ");
        paths.push(names.clone());
        advice.push(format!("take {names} out before you commit"));
    }
    if paths.is_empty() {
        return None;
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    Some(format!(
        "{} is usually shared with others, and names paths of this machine: {}; {}",
        names.join(", "),
        paths.join(", "),
        advice.join("; ")
    ))
}
