//! A minimal MCP client: starts each server, lists its tools, and stops it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Map, Value, json};

/// A server that could not be started or queried.
pub(crate) struct McpStartError {
    pub(crate) server: String,
}

/// Returns the tools of all servers in a configuration, under the vendor's names for them.
pub(crate) fn list_all_tools(
    servers: &Map<String, Value>,
    directory: &Path,
    tool_name: impl Fn(&str, &str) -> String,
) -> Result<Vec<String>, McpStartError> {
    let mut all = Vec::new();
    for (server, entry) in servers {
        let tools = list_tools(entry, directory).ok_or_else(|| McpStartError { server: server.clone() })?;
        all.extend(tools.iter().map(|tool| tool_name(server, tool)));
    }
    Ok(all)
}

#[expect(clippy::disallowed_methods, reason = "a vendor's program starts its own servers")]
fn list_tools(entry: &Value, directory: &Path) -> Option<Vec<String>> {
    let args = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let variables = entry["env"].as_object().into_iter().flatten();
    let mut child = Command::new(entry["command"].as_str()?)
        .args(args)
        .envs(variables.filter_map(|(name, value)| Some((name, value.as_str()?))))
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let tools = child.stdin.take().zip(child.stdout.take()).and_then(|(to, from)| exchange(to, from));
    // Its input is closed by now, which tells the server to exit.
    let _ = child.wait();
    tools
}

fn exchange(mut to: ChildStdin, from: ChildStdout) -> Option<Vec<String>> {
    let mut from = BufReader::new(from);
    let client = json!({"name": "fake-cli", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    request(&mut to, &mut from, 1, "initialize", &hello)?;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    writeln!(to, "{ready}").ok()?;
    let listed = request(&mut to, &mut from, 2, "tools/list", &json!({}))?;
    let tools = listed["tools"].as_array()?.iter();
    Some(tools.filter_map(|tool| tool["name"].as_str()).map(ToOwned::to_owned).collect())
}

fn request(
    to: &mut impl Write,
    from: &mut impl BufRead,
    id: u64,
    method: &str,
    params: &Value,
) -> Option<Value> {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    writeln!(to, "{message}").ok()?;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let answer: Value = serde_json::from_str(&line).ok()?;
        if answer["id"] == id {
            return answer.get("result").cloned();
        }
    }
}
