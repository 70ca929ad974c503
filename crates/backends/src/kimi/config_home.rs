//! A configuration directory for one run. Kimi Code has no other way to ignore the user's MCP servers, so the run gets links to
//! everything in the user's directory, above all logins and sessions, except what defines servers.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use domain::run::{Failure, RunSpec};
use serde_json::{Value, json};

use super::errors::turn_failure;
use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, SECRET_PREFIX, WorkFile};
use crate::mcp_config;
use crate::user_environment::UserEnvironment;
use system_files::regular_file;

/// The variable with the path of the directory, and its name in the run's work folder. It is deleted when the run ends, because
/// Kimi Code may write a login into it.
const HOME_VARIABLE: &str = "KIMI_CODE_HOME";
const HOME_FOLDER: &str = "kimi-home";
const SERVERS_FILE: &str = "mcp.json";
/// Entries of the user's directory that the run does not get: servers, plug-ins that define servers, the trust with which a
/// project's servers are started, and lists with absolute paths, which Kimi Code creates again.
const EXCLUDED_ENTRIES: [&str; 8] = [
    "cache",
    "logs",
    SERVERS_FILE,
    "plugins",
    "server",
    "session_index.jsonl",
    "workspace-trust",
    "workspaces.json",
];
/// Folders that must outlive the run. Their targets are created if they are missing.
const SHARED_FOLDERS: [&str; 2] = ["blobs", "sessions"];

/// The most of the end of a conversation's record that is read.
const RECORD_BYTES_MAX: u64 = 256 << 10;
/// The most folders of conversations that are searched.
const FOLDERS_MAX: usize = 10_000;

/// Returns why the last turn of a conversation failed, from Kimi Code's own record: over ACP a failed turn ends like any other.
pub(crate) fn last_turn_failure(work: &Path, session: &str) -> Option<Failure> {
    if session.contains(['/', '\0']) || session.starts_with('.') {
        return None;
    }
    let sessions = work.join(format!("{SECRET_PREFIX}{HOME_FOLDER}")).join("sessions");
    let folders = std::fs::read_dir(sessions).ok()?.filter_map(Result::ok).take(FOLDERS_MAX);
    let records = folders.map(|folder| folder.path().join(session).join("agents/main/wire.jsonl"));
    let mut record = records.filter_map(|path| regular_file::open(&path).ok()).next()?;
    let size = record.metadata().ok()?.len();
    record.seek(SeekFrom::Start(size.saturating_sub(RECORD_BYTES_MAX))).ok()?;
    let mut end = Vec::new();
    record.take(RECORD_BYTES_MAX).read_to_end(&mut end).ok()?;
    let end = String::from_utf8_lossy(&end);
    let values = end.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last_turn = values.into_iter().find(|value| value["type"] == "turn.ended")?;
    (last_turn["reason"] == "failed").then(|| turn_failure(&last_turn["error"]))
}

/// Adds the configuration directory, with the servers of the agent.
pub(super) fn add_config_home_with_servers(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    add_config_home(spec, launch, context, user)?;
    let content = json!({ "mcpServers": mcp_config::servers(spec, context) }).to_string();
    let name = format!("{SECRET_PREFIX}{HOME_FOLDER}/{SERVERS_FILE}");
    let variables = mcp_config::referenced_variables(spec);
    launch.files.push(WorkFile { variables, ..WorkFile::plain(&name, content) });
    Ok(())
}

/// Adds the configuration directory to the run's files.
pub(crate) fn add_config_home(
    _spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    let user_home = user.folder(HOME_VARIABLE, ".kimi-code").ok_or("there is no home directory")?;
    let entries = std::fs::read_dir(&user_home).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !EXCLUDED_ENTRIES.contains(&name.as_str())).collect();
    names.extend(SHARED_FOLDERS.map(ToOwned::to_owned));
    names.sort();
    names.dedup();
    let folder = format!("{SECRET_PREFIX}{HOME_FOLDER}");
    let links =
        names.into_iter().map(|name| WorkFile::link(&format!("{folder}/{name}"), user_home.join(&name)));
    launch.files.extend(links);
    launch.env_overrides.push((HOME_VARIABLE.to_owned(), EnvValue::Plain(context.work_file_path(&folder))));
    Ok(())
}
