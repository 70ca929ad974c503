//! A home of the run's own for Kimi Code, which has no other way to leave its user's MCP servers alone: links to all that
//! the user has there, logins and sessions first, without what brings servers.

use domain::run::RunSpec;
use serde_json::json;

use crate::contract::{Place, ProcessDrive, SECRET_PREFIX, Setting, WorkFile};
use crate::mcp_config;
use crate::user::User;

/// The variable that names the home, and where it is in the run's work folder: gone with the run's end, since the program
/// may write a login there.
const VARIABLE: &str = "KIMI_CODE_HOME";
const FOLDER: &str = "kimi-home";
const SERVERS_FILE: &str = "mcp.json";
/// What the home of a user has that the run's has not: servers, plug-ins that bring some, the trust by which a
/// project's are started, and lists with paths of one home, which the program makes anew.
const LEFT_OUT: [&str; 8] = [
    "cache",
    "logs",
    SERVERS_FILE,
    "plugins",
    "server",
    "session_index.jsonl",
    "workspace-trust",
    "workspaces.json",
];
/// What must outlive the run, whether it is there or not.
const KEPT: [&str; 2] = ["blobs", "sessions"];

/// Gives the run its home, with the servers of its agent.
pub(super) fn furnish_with_servers(
    spec: &RunSpec,
    drive: &mut ProcessDrive,
    place: &Place<'_>,
    user: &User<'_>,
) -> Result<(), String> {
    furnish(spec, drive, place, user)?;
    let content = json!({ "mcpServers": mcp_config::servers(spec, place) }).to_string();
    let name = format!("{SECRET_PREFIX}{FOLDER}/{SERVERS_FILE}");
    let variables = mcp_config::variables(spec);
    drive.files.push(WorkFile { variables, ..WorkFile::plain(&name, content) });
    Ok(())
}

/// Gives the run its home.
pub(crate) fn furnish(
    _spec: &RunSpec,
    drive: &mut ProcessDrive,
    place: &Place<'_>,
    user: &User<'_>,
) -> Result<(), String> {
    let users = user.folder(VARIABLE, ".kimi-code").ok_or("there is no home directory")?;
    let entries = std::fs::read_dir(&users).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !LEFT_OUT.contains(&name.as_str())).collect();
    names.extend(KEPT.map(ToOwned::to_owned));
    names.sort();
    names.dedup();
    let folder = format!("{SECRET_PREFIX}{FOLDER}");
    let links = names.into_iter().map(|name| WorkFile::link(&format!("{folder}/{name}"), users.join(&name)));
    drive.files.extend(links);
    drive.set.push((VARIABLE.to_owned(), Setting::Plain(place.file(&folder))));
    Ok(())
}
