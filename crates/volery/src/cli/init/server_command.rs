//! The command by which clients start this program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use backends::client_setup::{ConfigScope, ServerCommand};
use domain::dialect::DialectName;

use engine::EngineError;
use engine::{current_exe, env};

/// The name of the program.
const NAME: &str = "volery";

/// Returns the command of the server with the tools of these dialects.
pub(super) fn build_server(
    dialects: &[DialectName],
    scope: ConfigScope,
) -> Result<ServerCommand, EngineError> {
    let dialects = dialects.iter().flat_map(|dialect| ["--dialect".to_owned(), dialect.as_str().to_owned()]);
    let arguments = std::iter::once("serve".to_owned()).chain(dialects).collect();
    Ok(ServerCommand { command: command(scope)?, arguments, env: relocated_dirs() })
}

/// Returns the program's name if it is on the PATH, else its path. In the files of a project the name is used even if it
/// resolves to another build, because a path of this machine is useless to others.
pub(crate) fn command(scope: ConfigScope) -> Result<String, EngineError> {
    let own = current_exe::path().and_then(std::fs::canonicalize);
    let own = own.ok().filter(|path| !path.starts_with("/proc")).ok_or_else(|| {
        EngineError::usage("this program's file has been replaced since it started").hint("run it again")
    })?;
    let on_path = program_on_path();
    if scope == ConfigScope::Project && on_path.is_some() || on_path.is_some_and(|path| path == own) {
        return Ok(NAME.to_owned());
    }
    let text = own.to_str().map(str::to_owned);
    text.ok_or_else(|| EngineError::usage(format!("the path {} is not valid UTF-8", own.display())))
}

/// Returns the program that the name resolves to.
fn program_on_path() -> Option<PathBuf> {
    let found = env::get("PATH").and_then(|path| system_files::find_program(OsStr::new(NAME), &path));
    found.and_then(|found| std::fs::canonicalize(found).ok())
}

/// Returns the variables that point the server to this program's directories, if these are not the default ones.
fn relocated_dirs() -> Vec<(String, String)> {
    let moved = |names: [&str; 2]| names.into_iter().any(|name| env::get(name).is_some());
    let state = env::state_home().filter(|_| moved([env::VOLERY_HOME, "XDG_STATE_HOME"]));
    let config = env::config_home().filter(|_| moved([env::VOLERY_CONFIG_HOME, env::XDG_CONFIG_HOME]));
    let dirs = [(env::VOLERY_HOME, state), (env::VOLERY_CONFIG_HOME, config)];
    let dirs =
        dirs.into_iter().filter_map(|(name, path)| Some((name, path?.into_os_string().into_string().ok()?)));
    dirs.map(|(name, path)| (name.to_owned(), path)).collect()
}

/// Returns a warning if files that people commit name paths of this machine.
pub(crate) fn machine_path_warning(files: &[&Path], command: &str, variables: &[&str]) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let mut paths = Vec::new();
    let mut advice = Vec::new();
    if Path::new(command).is_absolute() {
        paths.push(format!("the command {command}"));
        advice.push("put volery on the PATH of everybody and write \"volery\" as the command".to_owned());
    }
    let is_own = |name: &&str| matches!(*name, env::VOLERY_HOME | env::VOLERY_CONFIG_HOME);
    let (own, needed): (Vec<&str>, Vec<&str>) = variables.iter().partition(|name| is_own(name));
    if !own.is_empty() {
        let names = own.join(" and ");
        paths.push(names.clone());
        advice.push(format!("take {names} out before you commit"));
    }
    if !needed.is_empty() {
        let names = needed.join(" and ");
        paths.push(names.clone());
        advice.push(format!(
            "the server needs an absolute path in {names}: everybody else has to write their own there, so do not commit \
             this change, or agree on a folder that is the same for all"
        ));
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
