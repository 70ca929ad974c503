//! The messages of the protocol: JSON-RPC, one message per line.

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    CancelNotification, ClientCapabilities, Implementation, InitializeRequest, PermissionOptionId,
    RequestPermissionOutcome, RequestPermissionResponse, SelectedPermissionOutcome,
};
use serde::Serialize;
use serde_json::{Value, json};

/// The ids of Volery's requests. The agent's own requests have a method, so their ids are never confused with these.
pub(super) const INITIALIZE: u64 = 1;
pub(super) const SESSION: u64 = 2;
pub(super) const SETTING: u64 = 3;
pub(super) const PROMPT: u64 = 4;
pub(super) const CLOSE: u64 = 5;
pub(super) const NAMING: u64 = 6;

/// The JSON-RPC error code for a method that does not exist.
const NO_SUCH_METHOD: i64 = -32_601;

/// Returns the first message. It offers neither files nor terminals: an agent has its own, to which its permissions
/// apply.
pub(super) fn greeting() -> Vec<u8> {
    let client = Implementation::new("volery", env!("CARGO_PKG_VERSION")).title("Volery".to_owned());
    let hello = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(ClientCapabilities::new())
        .client_info(client);
    request(INITIALIZE, "initialize", &hello)
}

pub(super) fn request(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// Returns the message that ends a turn.
pub(super) fn cancel(session: &str) -> Vec<u8> {
    let params = CancelNotification::new(session.to_owned());
    line(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}))
}

/// Returns the response to a permission request: an option of the agent's, or none.
pub(super) fn permission(id: &Value, option: Option<&str>) -> Vec<u8> {
    let outcome = match option {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
            PermissionOptionId::new(option.to_owned()),
        )),
        None => RequestPermissionOutcome::Cancelled,
    };
    line(&json!({"jsonrpc": "2.0", "id": id, "result": RequestPermissionResponse::new(outcome)}))
}

pub(super) fn refusal(id: &Value, method: &str) -> Vec<u8> {
    let error = json!({"code": NO_SUCH_METHOD, "message": format!("{method} is not supported")});
    line(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}
