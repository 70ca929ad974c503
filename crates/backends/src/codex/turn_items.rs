//! The items of a turn that are tool calls; Codex has several types of them.

use serde_json::{Value, json};

use super::approvals::mcp_tool_name;

/// Returns the tool and the input of an item that is a tool call.
pub(super) fn tool_call(item: &Value) -> Option<(String, Value)> {
    let kind = item["type"].as_str()?;
    let call = |name: &str, input: Value| Some((name.to_owned(), input));
    match kind {
        "commandExecution" => call("shell", json!({"command": item["command"], "directory": item["cwd"]})),
        "fileChange" => call("apply_patch", json!({ "changes": item["changes"] })),
        "mcpToolCall" => {
            let (server, tool) = (string_or_empty(&item["server"]), string_or_empty(&item["tool"]));
            Some((mcp_tool_name(&server, &tool), item["arguments"].clone()))
        }
        "webSearch" => call("web_search", json!({ "query": item["query"] })),
        "imageView" => call("view_image", json!({ "path": item["path"] })),
        "collabAgentToolCall" => {
            Some((string_or_empty(&item["tool"]), json!({"prompt": item["prompt"], "model": item["model"]})))
        }
        "dynamicToolCall" => Some((string_or_empty(&item["tool"]), item["arguments"].clone())),
        _ => None,
    }
}

/// Returns the result of a tool call.
pub(super) fn tool_output(item: &Value) -> String {
    if let Some(text) = item["aggregatedOutput"].as_str() {
        return text.to_owned();
    }
    if let Some(error) = item["error"]["message"].as_str() {
        return error.to_owned();
    }
    let blocks = item["result"]["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    match &item["result"]["structuredContent"] {
        Value::Null => texts.join("\n"),
        value => value.to_string(),
    }
}

pub(super) fn string_or_empty(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
