//! Runs that inherit their user's settings or MCP servers: Claude Code applies the user's own settings and rules first. The
//! project's settings and servers are not the user's, so they are excluded from such runs.

use std::path::{Path, PathBuf};

use domain::inherit::Inherited;
use domain::run::RunSpec;
use domain::setup::Setup;

use super::project_settings;
use crate::contract::{LaunchContext, ProjectExecutables};
use crate::project_executables::ancestors;
use crate::user_environment::{self, UserEnvironment};

/// The setting that lists the servers of a project's files that Claude Code must not start.
pub(super) const DISABLED_SERVERS_KEY: &str = "disabledMcpjsonServers";
/// The file with the servers that everybody in a project shares. Without a user, Claude Code starts them without confirmation.
const PROJECT_SERVERS_FILE: &str = ".mcp.json";

/// Returns the servers defined in files of the project, each with its file. A file that cannot be read is an error: Claude
/// Code may still read it, and would start servers whose names are needed to disable them.
pub(super) fn project_servers(spec: &RunSpec) -> Result<Vec<(PathBuf, String)>, String> {
    let mut servers = Vec::new();
    for folder in ancestors(&spec.directory) {
        let file = folder.join(PROJECT_SERVERS_FILE);
        let settings = user_environment::try_read_settings(&file).map_err(|reason| {
            format!(
                "the MCP servers of {} cannot be left out, because the file cannot be read: {reason}",
                file.display()
            )
        })?;
        let names = settings
            .map(|settings| user_environment::entry_names(&settings, "mcpServers"))
            .unwrap_or_default();
        servers.extend(names.into_iter().map(|name| (file.clone(), name)));
    }
    Ok(servers)
}

/// Returns whether the project's settings are excluded. Where the user's rules apply, Claude Code does not ask about what
/// settings allow, so settings that are not the user's must not allow anything.
pub(super) fn excludes_project(setup: &Setup, context: &LaunchContext<'_>) -> bool {
    context.project_executables == ProjectExecutables::Off || setup.inherits(Inherited::Settings)
}

/// Returns a sentence for each file whose servers are excluded.
pub(super) fn withheld_servers(spec: &RunSpec) -> Result<Vec<String>, String> {
    let mut sentences: Vec<String> = Vec::new();
    let servers = project_servers(spec)?;
    let mut files: Vec<&PathBuf> = servers.iter().map(|(file, _)| file).collect();
    files.dedup();
    for file in files {
        let names = servers.iter().filter(|(other, _)| other == file).map(|(_, name)| name.as_str());
        let names: Vec<&str> = names.collect();
        sentences.push(format!(
            "withheld: the MCP servers {} of {}: a project's servers are not the user's own; claude mcp add --scope user makes \
             one yours",
            names.join(", "),
            file.display()
        ));
    }
    Ok(sentences)
}

/// Returns a sentence for each settings file of the project that is excluded. In the user's home directory, the user's own
/// settings file has the path of a project's.
pub(super) fn withheld_settings(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<String> {
    let own = own_settings(user);
    let is_own = |file: &PathBuf| own.as_deref().is_some_and(|own| is_same_file(own, file));
    let files = project_settings::settings_files(spec).into_iter();
    let files = files.filter(|file| file.exists() && !is_own(file));
    let sentence = |file: PathBuf| {
        format!(
            "withheld: the settings of {}, except what they deny: a project's settings are not the user's own",
            file.display()
        )
    };
    files.map(sentence).collect()
}

/// Returns the rules that settings deny, with their files: those of the project always apply, and the user's where the
/// run inherits them.
pub(super) fn settings_denials(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<(PathBuf, String)> {
    let own = own_settings(user).filter(|_| spec.setup.inherits(Inherited::Settings));
    let files = project_settings::settings_files(spec).into_iter().chain(own);
    let rules = files.flat_map(|file| {
        let rules = project_settings::denied_rules_of(&file);
        rules.into_iter().map(move |rule| (file.clone(), rule))
    });
    rules.collect()
}

fn own_settings(user: &UserEnvironment<'_>) -> Option<PathBuf> {
    user.folder("CLAUDE_CONFIG_DIR", ".claude").map(|folder| folder.join("settings.json"))
}

/// Returns whether two paths lead to one file, also through symbolic links.
fn is_same_file(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}
