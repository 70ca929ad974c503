//! Parses one line of input into a message, or into the answers that explain why it is not one. Pure.
//!
//! The library ignores a line that it cannot read, and its caller waits for ever. Here every line that could be a request
//! is answered; notifications, responses and blank lines are not.

use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, ClientJsonRpcMessage, ClientNotification, ClientRequest,
    ErrorCode, GetTaskParams, InitializeRequestParams, ReadResourceRequestParams, RequestId,
    UpdateTaskParams,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::id_scan::{IdScan, ScanResult};

/// The longest line that is read; longer ones are drained and refused.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// The methods that the library knows. It treats those with malformed parameters as unknown.
const KNOWN_METHODS: &[&str] = &[
    "initialize",
    "ping",
    "server/discover",
    "completion/complete",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
];

/// A parsed line.
#[derive(Debug)]
pub(super) enum Incoming {
    Message(Box<ClientJsonRpcMessage>),
    Refused(Vec<JsonRpcRefusal>),
}

/// A JSON-RPC error for a line that is not a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JsonRpcRefusal {
    /// `null` if none was found.
    pub(super) id: Value,
    pub(super) code: ErrorCode,
    pub(super) message: String,
}

impl JsonRpcRefusal {
    pub(super) fn new(id: Value, code: ErrorCode, message: impl Into<String>) -> Self {
        Self { id, code, message: message.into() }
    }

    pub(super) fn to_line(&self) -> Vec<u8> {
        let error = json!({ "code": self.code.0, "message": self.message });
        json!({ "jsonrpc": "2.0", "id": self.id, "error": error }).to_string().into_bytes()
    }
}

/// Parses one line. `None` if it needs no answer.
pub(super) fn read(line: &[u8]) -> Option<Incoming> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let refused = |refusal| Some(Incoming::Refused(vec![refusal]));
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("the message is not valid UTF-8 at byte {}", error.valid_up_to());
            return refused(broken(line, message));
        }
    };
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => read_object(object),
        Ok(Value::Array(batch)) => Some(Incoming::Refused(refuse_batch(&batch))),
        Ok(_) => {
            let message =
                "a message is a JSON object with \"jsonrpc\", \"method\" and, for a request, \"id\"";
            refused(JsonRpcRefusal::new(Value::Null, ErrorCode::INVALID_REQUEST, message))
        }
        Err(error) => refused(broken(line, format!("the message is not valid JSON: {error}"))),
    }
}

/// Refuses a line that is too long.
pub(super) fn refuse_oversized(scan: ScanResult) -> Option<Incoming> {
    if scan.notification {
        return None;
    }
    let message = format!(
        "the line is longer than {} MiB, the most that is read; pass large input as a file and name its path",
        LINE_BYTES_MAX >> 20
    );
    let id = scan.id.unwrap_or(Value::Null);
    Some(Incoming::Refused(vec![JsonRpcRefusal::new(id, ErrorCode::INVALID_REQUEST, message)]))
}

fn broken(line: &[u8], message: String) -> JsonRpcRefusal {
    let mut scan = IdScan::default();
    scan.feed(line);
    JsonRpcRefusal::new(scan.finish().id.unwrap_or(Value::Null), ErrorCode::PARSE_ERROR, message)
}

/// Refuses each request of a batch by its id, so that no caller waits.
fn refuse_batch(batch: &[Value]) -> Vec<JsonRpcRefusal> {
    let message = "batches are not supported; send one message per line";
    let refuse = |id| JsonRpcRefusal::new(id, ErrorCode::INVALID_REQUEST, message);
    let ids = batch.iter().filter(|item| item.get("method").is_some()).filter_map(|item| item.get("id"));
    let refusals: Vec<_> = ids.filter(|id| is_id(id)).cloned().map(refuse).collect();
    if refusals.is_empty() { vec![refuse(Value::Null)] } else { refusals }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_number()
}

fn read_object(mut object: Map<String, Value>) -> Option<Incoming> {
    let id = object.remove("id");
    let method = object.remove("method");
    if method.is_none() && (object.contains_key("result") || object.contains_key("error")) {
        // A response to a server request. An unreadable one is dropped, because responses are not answered.
        object.insert("id".to_owned(), id?);
        let response = serde_json::from_value(Value::Object(object)).ok()?;
        return Some(Incoming::Message(Box::new(response)));
    }
    let echo = id.clone().filter(is_id).unwrap_or(Value::Null);
    let refused = |code, message: String| {
        Some(Incoming::Refused(vec![JsonRpcRefusal::new(echo.clone(), code, message)]))
    };
    let method = match method {
        Some(Value::String(method)) => method,
        Some(_) => return refused(ErrorCode::INVALID_REQUEST, "\"method\" must be a string".into()),
        None => return refused(ErrorCode::INVALID_REQUEST, "\"method\" is missing".into()),
    };
    let speaks_2_0 = object.get("jsonrpc").is_some_and(|version| version == "2.0");
    let params = object.remove("params").filter(|params| !params.is_null());
    let Some(id) = id else {
        // A notification is never answered, not even an invalid one.
        return if speaks_2_0 { read_notification(&method, params) } else { None };
    };
    if !speaks_2_0 {
        return refused(ErrorCode::INVALID_REQUEST, "\"jsonrpc\" must be \"2.0\"".into());
    }
    let Ok(id) = serde_json::from_value::<RequestId>(id) else {
        return refused(
            ErrorCode::INVALID_REQUEST,
            "\"id\" must be a string or an integer of 64 bits".into(),
        );
    };
    if params.as_ref().is_some_and(|params| !params.is_object()) {
        return refused(ErrorCode::INVALID_PARAMS, "\"params\" must be an object".into());
    }
    match read_request(&method, params) {
        Ok(request) => Some(Incoming::Message(Box::new(ClientJsonRpcMessage::request(request, id)))),
        Err(message) => refused(ErrorCode::INVALID_PARAMS, message),
    }
}

fn read_notification(method: &str, params: Option<Value>) -> Option<Incoming> {
    let notification: ClientNotification = serde_json::from_value(envelope(method, params)).ok()?;
    Some(Incoming::Message(Box::new(ClientJsonRpcMessage::notification(notification))))
}

fn read_request(method: &str, params: Option<Value>) -> Result<ClientRequest, String> {
    let known = KNOWN_METHODS.contains(&method);
    let original_params = if known { params.clone() } else { None };
    match serde_json::from_value(envelope(method, params)) {
        Ok(ClientRequest::CustomRequest(_)) if known => Err(explain_params(method, original_params)),
        Ok(request) => Ok(request),
        Err(error) => Err(format!("the request could not be read: {error}")),
    }
}

fn envelope(method: &str, params: Option<Value>) -> Value {
    let mut object = Map::new();
    object.insert("method".into(), Value::String(method.to_owned()));
    if let Some(params) = params {
        object.insert("params".into(), params);
    }
    Value::Object(object)
}

/// Explains what is wrong with the parameters of a known method.
fn explain_params(method: &str, params: Option<Value>) -> String {
    let Some(params) = params else { return format!("{method} needs \"params\"") };
    if params.get("_meta").is_some_and(|meta| !meta.is_object()) {
        return format!("\"params._meta\" of {method} must be an object");
    }
    let problem = match method {
        "initialize" => problem_as::<InitializeRequestParams>(params),
        "tools/call" => problem_as::<CallToolRequestParams>(params),
        "resources/read" => problem_as::<ReadResourceRequestParams>(params),
        "tasks/get" => problem_as::<GetTaskParams>(params),
        "tasks/update" => problem_as::<UpdateTaskParams>(params),
        "tasks/cancel" => problem_as::<CancelTaskParams>(params),
        _ => None,
    };
    let problem = problem.unwrap_or_else(|| "they do not have the shape that the protocol says".into());
    format!("\"params\" of {method} cannot be used: {problem}")
}

fn problem_as<T: DeserializeOwned>(params: Value) -> Option<String> {
    serde_json::from_value::<T>(params).err().map(|error| error.to_string())
}
