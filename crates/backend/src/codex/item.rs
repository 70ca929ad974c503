//! The items of a turn that are the use of a tool, whatever Codex calls them.

use serde_json::{Value, json};

use super::asks::mcp_name;

/// Returns the name and input of an item that is the use of a tool.
pub(super) fn tool(item: &Value) -> Option<(String, Value)> {
    let kind = item["type"].as_str()?;
    let named = |name: &str, input: Value| Some((name.to_owned(), input));
    match kind {
        "commandExecution" => named("shell", json!({"command": item["command"], "directory": item["cwd"]})),
        "fileChange" => named("apply_patch", json!({ "changes": item["changes"] })),
        "mcpToolCall" => {
            let (server, tool) = (text_of(&item["server"]), text_of(&item["tool"]));
            Some((mcp_name(&server, &tool), item["arguments"].clone()))
        }
        "webSearch" => named("web_search", json!({ "query": item["query"] })),
        "imageView" => named("view_image", json!({ "path": item["path"] })),
        "collabAgentToolCall" => {
            Some((text_of(&item["tool"]), json!({"prompt": item["prompt"], "model": item["model"]})))
        }
        "dynamicToolCall" => Some((text_of(&item["tool"]), item["arguments"].clone())),
        _ => None,
    }
}

/// Returns what came of the use of a tool.
pub(super) fn output(item: &Value) -> String {
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

pub(super) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
