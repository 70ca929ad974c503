//! The session files of sub-agents-mcp, read so that a conversation that began there goes on here. They are never
//! changed: what is said from then on is in the journal.

use std::fs;
use std::io;
use std::path::Path;

use backend::plain_file;
use domain::Timestamp;
use domain::run::replay::Exchange;
use serde::Deserialize;
use serde_json::Value;

const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    session_id: String,
    agent_type: String,
    history: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: Request,
    response: Response,
}

#[derive(Deserialize)]
struct Request {
    prompt: String,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    stdout: String,
}

/// Returns what was said in a session; nothing if there is no such file, or none that was changed since this moment:
/// sub-agents-mcp would have removed it. Session and agent are words without any character that means something in a
/// path.
pub(super) fn read(folder: &Path, session: &str, agent: &str, since: Timestamp) -> io::Result<Vec<Exchange>> {
    let path = folder.join(format!("{session}_{agent}.json"));
    let found = match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    if !found.is_file() || found.len() > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("{} is no file of at most 16 MiB", path.display())));
    }
    let changed = Timestamp::try_from(found.modified()?).map_err(io::Error::other)?;
    if changed < since {
        return Ok(Vec::new());
    }
    let text = plain_file::text(&path, FILE_BYTES_MAX)?;
    let file: File = serde_json::from_str(&text)?;
    if file.session_id != session || file.agent_type != agent {
        return Err(io::Error::other(format!("{} is another session's", path.display())));
    }
    let exchange =
        |entry: Entry| Exchange { request: entry.request.prompt, response: said(&entry.response.stdout) };
    Ok(file.history.into_iter().map(exchange).collect())
}

/// Returns the words in what an agent's program wrote: the last result or message of its JSON, else the text as it is.
fn said(stdout: &str) -> String {
    let of_line = |line: &str| {
        let value: Value = serde_json::from_str(line).ok()?;
        let item = &value["item"];
        let places =
            [&value["result"], &value["text"], &value["part"]["text"], &item["text"], &value["content"]];
        places.into_iter().find_map(|place| place.as_str().map(str::to_owned))
    };
    let whole = of_line(stdout.trim());
    whole.or_else(|| stdout.lines().rev().find_map(of_line)).unwrap_or_else(|| stdout.trim().to_owned())
}
