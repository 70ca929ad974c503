//! The files that may name servers: those that `volery init` writes, and others that people use.

use std::path::{Path, PathBuf};

use backends::client_setup::{ClientEnvironment, ConfigScope, ServerCommand, Syntax};
use backends::clients;

use super::system::names_in;

/// A file that may name servers.
pub(super) struct ServerFile {
    pub(super) client: &'static str,
    pub(super) path: PathBuf,
    pub(super) scope: ConfigScope,
    pub(super) syntax: Syntax,
    /// The file in which the client looks for servers, if not this one.
    pub(super) belongs_in: Option<&'static str>,
}

/// Returns every file that may name servers, without duplicates.
pub(super) fn find_server_files(environment: &ClientEnvironment) -> Vec<ServerFile> {
    let no_command = ServerCommand { command: String::new(), arguments: Vec::new(), env: Vec::new() };
    let mut files: Vec<ServerFile> = Vec::new();
    for client in clients::setups() {
        for scope in [ConfigScope::Project, ConfigScope::User] {
            let desired_files = (client.desired_files)(environment, scope, &no_command);
            files.extend(desired_files.into_iter().map(|desired| ServerFile {
                client: client.name,
                path: desired.path,
                scope: desired.scope,
                syntax: desired.syntax,
                belongs_in: None,
            }));
        }
    }
    files.extend(others(environment));
    for file in files.iter_mut().filter(|file| file.client == "claude") {
        let is_settings = file.path.parent().is_some_and(|folder| folder.ends_with(".claude"));
        // Some documentation puts servers there, but Claude Code does not read them.
        file.belongs_in = is_settings.then_some(".mcp.json");
    }
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| seen.insert(file.path.clone()));
    files
}

fn others(environment: &ClientEnvironment) -> Vec<ServerFile> {
    let json =
        |client, scope, path| ServerFile { client, path, scope, syntax: Syntax::Json, belongs_in: None };
    let ClientEnvironment { project, home, .. } = environment;
    let desktop = "Claude/claude_desktop_config.json";
    let mut files = vec![
        // The design of Jarvis puts its server there.
        json("claude", ConfigScope::Project, project.join(".claude/settings.json")),
        json("claude-desktop", ConfigScope::User, home.join("Library/Application Support").join(desktop)),
    ];
    // Agents of Kiro have their own servers: budgie is in that of the orchestrator.
    for (scope, base) in [(ConfigScope::Project, project), (ConfigScope::User, home)] {
        let folder = base.join(".kiro/agents");
        files.extend(json_files(&folder).into_iter().map(|path| json("kiro", scope, path)));
    }
    files
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let names = names_in(folder, ".json");
    names.into_iter().map(|name| folder.join(format!("{name}.json"))).collect()
}
