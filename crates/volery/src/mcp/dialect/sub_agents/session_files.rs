//! Reads the session files of sub-agents-mcp, so that conversations can continue here. The files are never changed: new
//! exchanges are in the journal.

use std::fs;
use std::io;
use std::path::Path;

use domain::Timestamp;
use domain::run::replay::Exchange;
use serde::Deserialize;
use serde_json::Value;
use system_files::regular_file;

const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionFile {
    session_id: String,
    agent_type: String,
    history: Vec<HistoryEntry>,
}

#[derive(Deserialize)]
struct HistoryEntry {
    request: HistoryRequest,
    response: HistoryResponse,
}

#[derive(Deserialize)]
struct HistoryRequest {
    prompt: String,
}

#[derive(Deserialize)]
struct HistoryResponse {
    #[serde(default)]
    stdout: String,
}

/// Returns the history of a session; empty if there is no such file, or it was not changed since `since`:
/// sub-agents-mcp would have deleted it. Session and agent contain no characters with a meaning in paths.
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
    let text = regular_file::read_text(&path, FILE_BYTES_MAX)?;
    let file: SessionFile = serde_json::from_str(&text)?;
    if file.session_id != session || file.agent_type != agent {
        return Err(io::Error::other(format!("{} is another session's", path.display())));
    }
    let exchange = |entry: HistoryEntry| Exchange {
        request: entry.request.prompt,
        response: extract_text(&entry.response.stdout),
    };
    Ok(file.history.into_iter().map(exchange).collect())
}

/// Extracts the text from the output of an agent's program: the last result or message of its JSON, else all of it.
fn extract_text(stdout: &str) -> String {
    let parse_line = |line: &str| {
        let value: Value = serde_json::from_str(line).ok()?;
        let item = &value["item"];
        let candidates =
            [&value["result"], &value["text"], &value["part"]["text"], &item["text"], &value["content"]];
        candidates.into_iter().find_map(|candidate| candidate.as_str().map(str::to_owned))
    };
    let whole = parse_line(stdout.trim());
    whole.or_else(|| stdout.lines().rev().find_map(parse_line)).unwrap_or_else(|| stdout.trim().to_owned())
}
