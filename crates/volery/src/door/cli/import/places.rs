//! The files in which clients keep their servers: those that `volery init` writes, and others that people use.

use std::path::{Path, PathBuf};

use super::super::init::{CLIENTS, Scope, Server, Surroundings, Syntax};
use super::system::names_in;

/// A file that may name servers.
pub(super) struct Place {
    pub(super) client: &'static str,
    pub(super) path: PathBuf,
    pub(super) scope: Scope,
    pub(super) syntax: Syntax,
    /// Where the client looks for servers, if not in this file.
    pub(super) belongs_in: Option<&'static str>,
}

/// Returns every file that may name servers, each once.
pub(super) fn places(surroundings: &Surroundings) -> Vec<Place> {
    let nothing = Server { command: String::new(), arguments: Vec::new(), env: Vec::new() };
    let mut places: Vec<Place> = Vec::new();
    for client in CLIENTS {
        for scope in [Scope::Project, Scope::User] {
            let wishes = (client.wishes)(surroundings, scope, &nothing);
            places.extend(wishes.into_iter().map(|wish| Place {
                client: client.name,
                path: wish.path,
                scope: wish.scope,
                syntax: wish.syntax,
                belongs_in: None,
            }));
        }
    }
    places.extend(others(surroundings));
    for place in places.iter_mut().filter(|place| place.client == "claude") {
        let is_settings = place.path.parent().is_some_and(|folder| folder.ends_with(".claude"));
        // Documents put servers there, and Claude Code does not read them.
        place.belongs_in = is_settings.then_some(".mcp.json");
    }
    let mut seen = std::collections::BTreeSet::new();
    places.retain(|place| seen.insert(place.path.clone()));
    places
}

fn others(surroundings: &Surroundings) -> Vec<Place> {
    let json = |client, scope, path| Place { client, path, scope, syntax: Syntax::Json, belongs_in: None };
    let Surroundings { project, home, .. } = surroundings;
    let desktop = "Claude/claude_desktop_config.json";
    let mut places = vec![
        // Where the design of Jarvis puts its server.
        json("claude", Scope::Project, project.join(".claude/settings.json")),
        json("claude-desktop", Scope::User, home.join("Library/Application Support").join(desktop)),
    ];
    // An agent of Kiro's brings its servers along: budgie stands in that of the orchestrator.
    for (scope, base) in [(Scope::Project, project), (Scope::User, home)] {
        let folder = base.join(".kiro/agents");
        places.extend(json_files(&folder).into_iter().map(|path| json("kiro", scope, path)));
    }
    places
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let names = names_in(folder, ".json");
    names.into_iter().map(|name| folder.join(format!("{name}.json"))).collect()
}
