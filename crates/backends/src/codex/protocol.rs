//! The messages of the app server's protocol: JSON-RPC without its version, one message per line.

use serde_json::{Value, json};

use super::versions::OPTED_OUT_NOTIFICATIONS;

/// The ids of Volery's requests. A message of the server with one of these ids and a method is a request of the server.
pub(super) const INITIALIZE_ID: u64 = 1;
pub(super) const CONFIG_ID: u64 = 2;
pub(super) const THREAD_ID: u64 = 3;
pub(super) const TURN_ID: u64 = 4;
const INTERRUPT_ID: u64 = 5;
pub(super) const ACCOUNT_ID: u64 = 6;

/// The JSON-RPC error code for an unknown method.
const METHOD_NOT_FOUND: i64 = -32_601;

/// Returns the first messages: they introduce the client, then ask for the user's account and for the settings in this
/// directory.
pub(super) fn opening_messages(directory: &str) -> Vec<u8> {
    let client = json!({"name": "volery", "title": "Volery", "version": env!("CARGO_PKG_VERSION")});
    let capabilities = json!({ "optOutNotificationMethods": OPTED_OUT_NOTIFICATIONS });
    let params = json!({"clientInfo": client, "capabilities": capabilities});
    let mut bytes = request(INITIALIZE_ID, "initialize", &params);
    bytes.extend(line(&json!({"method": "initialized"})));
    bytes.extend(request(ACCOUNT_ID, "account/read", &json!({"refreshToken": false})));
    bytes.extend(request(CONFIG_ID, "config/read", &json!({"cwd": directory, "includeLayers": false})));
    bytes
}

pub(super) fn interrupt(thread: &str, turn: &str) -> Vec<u8> {
    request(INTERRUPT_ID, "turn/interrupt", &json!({"threadId": thread, "turnId": turn}))
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"id": id, "method": method, "params": params}))
}

pub(super) fn response(id: &Value, result: &Value) -> Vec<u8> {
    line(&json!({"id": id, "result": result}))
}

pub(super) fn method_not_found(id: &Value, method: &str) -> Vec<u8> {
    let error = json!({"code": METHOD_NOT_FOUND, "message": format!("{method} is not supported")});
    line(&json!({"id": id, "error": error}))
}

/// Returns the id of Volery's request that a message answers.
pub(super) fn answered_request_id(message: &Value) -> Option<u64> {
    message.get("method").is_none().then(|| message["id"].as_u64()).flatten()
}

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}
