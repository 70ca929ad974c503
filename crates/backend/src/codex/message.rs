//! The messages of the app server's protocol: JSON-RPC without its version, one message per line.

use serde_json::{Value, json};

use super::versions::UNWANTED;

/// The numbers of our requests. The server's own are another matter: they come with a method.
pub(super) const INITIALIZE: u64 = 1;
pub(super) const CONFIG: u64 = 2;
pub(super) const THREAD: u64 = 3;
pub(super) const TURN: u64 = 4;
const INTERRUPT: u64 = 5;
pub(super) const ACCOUNT: u64 = 6;

/// JSON-RPC's number for a method that is not there.
const NO_SUCH_METHOD: i64 = -32_601;

/// Returns what is said first: who we are; then who the user is for Codex, and what its own settings for this
/// directory are.
pub(super) fn greeting(directory: &str) -> Vec<u8> {
    let client = json!({"name": "volery", "title": "Volery", "version": env!("CARGO_PKG_VERSION")});
    let capabilities = json!({ "optOutNotificationMethods": UNWANTED });
    let hello = json!({"clientInfo": client, "capabilities": capabilities});
    let mut bytes = request(INITIALIZE, "initialize", &hello);
    bytes.extend(line(&json!({"method": "initialized"})));
    bytes.extend(request(ACCOUNT, "account/read", &json!({"refreshToken": false})));
    bytes.extend(request(CONFIG, "config/read", &json!({"cwd": directory, "includeLayers": false})));
    bytes
}

/// Returns the word that ends a turn.
pub(super) fn interrupt(thread: &str, turn: &str) -> Vec<u8> {
    request(INTERRUPT, "turn/interrupt", &json!({"threadId": thread, "turnId": turn}))
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"id": id, "method": method, "params": params}))
}

pub(super) fn answer(id: &Value, result: &Value) -> Vec<u8> {
    line(&json!({"id": id, "result": result}))
}

pub(super) fn refusal(id: &Value, method: &str) -> Vec<u8> {
    let error = json!({"code": NO_SUCH_METHOD, "message": format!("{method} is not supported")});
    line(&json!({"id": id, "error": error}))
}

/// Returns the number of the request of ours that a message answers.
pub(super) fn answered(message: &Value) -> Option<u64> {
    message.get("method").is_none().then(|| message["id"].as_u64()).flatten()
}

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}
