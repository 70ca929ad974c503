//! A home of the run's own for Kimi Code, which has no other way to leave its user's MCP servers alone: links to all that
//! the user has there, logins and sessions first, without what brings servers.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use domain::run::{Failure, ModelError, RunSpec};
use serde_json::{Value, json};

use crate::contract::{Place, ProcessDrive, SECRET_PREFIX, Setting, WorkFile};
use crate::kept;
use crate::mcp_config;
use crate::plain_file;
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

/// How much of the end of a conversation's own record is looked at.
const RECORD_BYTES: u64 = 256 << 10;
/// How many folders of conversations are looked into.
const FOLDERS_MAX: usize = 10_000;

/// Returns why the last turn of a conversation failed, by the record that Kimi Code keeps of it: over ACP such a turn ends as
/// any other.
pub(crate) fn failed_turn(work: &Path, session: &str) -> Option<Failure> {
    if session.contains(['/', '\0']) || session.starts_with('.') {
        return None;
    }
    let sessions = work.join(format!("{SECRET_PREFIX}{FOLDER}")).join("sessions");
    let folders = std::fs::read_dir(sessions).ok()?.filter_map(Result::ok).take(FOLDERS_MAX);
    let records = folders.map(|folder| folder.path().join(session).join("agents/main/wire.jsonl"));
    let mut record = records.filter_map(|path| plain_file::open(&path).ok()).next()?;
    let length = record.metadata().ok()?.len();
    record.seek(SeekFrom::Start(length.saturating_sub(RECORD_BYTES))).ok()?;
    let mut end = Vec::new();
    record.take(RECORD_BYTES).read_to_end(&mut end).ok()?;
    let end = String::from_utf8_lossy(&end);
    let values = end.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = values.into_iter().find(|value| value["type"] == "turn.ended")?;
    (last["reason"] == "failed").then(|| failure(&last["error"]))
}

fn failure(error: &Value) -> Failure {
    let status = error["details"]["statusCode"].as_u64().map(ModelError::of_status);
    let unreachable = || (error["code"] == "provider.connection_error").then_some(ModelError::Unreachable);
    let message = error["message"].as_str().unwrap_or("it does not say why");
    Failure::Model {
        error: status.or_else(unreachable).unwrap_or(ModelError::Other),
        message: kept::message(message),
    }
}

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
