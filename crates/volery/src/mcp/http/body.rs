//! Reads the body of a request within its limits, and parses it before the library sees it.

use std::error::Error;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, JsonRpcMessage, ProtocolVersion};
use serde_json::Value;
use tokio::time::timeout;

use super::super::jsonrpc_line::{self, Incoming, JsonRpcRefusal};
use super::limits::HttpLimits;
use super::reply::{self, HttpReply};

/// Reads a whole body, or returns the refusal.
pub(super) async fn read<B>(body: B, limits: &HttpLimits) -> Result<Bytes, HttpReply>
where
    B: hyper::body::Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let declared = body.size_hint().lower();
    if declared > limits.body_bytes as u64 {
        return Err(too_large(limits));
    }
    match timeout(limits.body_time, Limited::new(body, limits.body_bytes).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limits)),
        Ok(Err(error)) => {
            let message = format!("the body could not be read: {error}");
            Err(reply::refuse(StatusCode::BAD_REQUEST, ErrorCode::PARSE_ERROR, message))
        }
        Err(_) => {
            let message = format!("the body took longer than {} s", limits.body_time.as_secs());
            Err(reply::refuse(StatusCode::REQUEST_TIMEOUT, ErrorCode::INVALID_REQUEST, message))
        }
    }
}

/// Methods that only the older generation has: in the newer one they are unknown, whatever their parameters are.
const LEGACY_METHODS: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// Returns the HTTP status of a refusal; adjusts its code for the protocol version.
pub(super) fn status_for(refusal: &mut JsonRpcRefusal, body: &[u8], version: Option<&str>) -> StatusCode {
    let newer = version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str());
    if newer && refusal.code == ErrorCode::INVALID_PARAMS {
        let method = serde_json::from_slice::<Value>(body).ok().map(|message| message["method"].clone());
        if let Some(method) = method.as_ref().and_then(Value::as_str)
            && LEGACY_METHODS.contains(&method)
        {
            refusal.code = ErrorCode::METHOD_NOT_FOUND;
            refusal.message = format!("{method} is not a method of this version of the protocol");
            return StatusCode::NOT_FOUND;
        }
    }
    StatusCode::BAD_REQUEST
}

/// Parses the message in a body.
pub(super) fn message(body: &[u8]) -> Result<ClientJsonRpcMessage, JsonRpcRefusal> {
    let refused = |text: &str| JsonRpcRefusal::new(Value::Null, ErrorCode::INVALID_REQUEST, text);
    match jsonrpc_line::read(body) {
        Some(Incoming::Message(message)) => Ok(*message),
        Some(Incoming::Refused(mut refusals)) => Err(match refusals.len() {
            1 => refusals.remove(0),
            // A batch gets only one answer, which belongs to none of its requests.
            _ => refused("batches are not supported; send one message per request"),
        }),
        // A response, or not a message.
        None => match serde_json::from_slice(body) {
            Ok(message @ (JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))) => Ok(message),
            Ok(JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_)) | Err(_) => {
                Err(refused("the body is no message: neither a request, a notification nor a response"))
            }
        },
    }
}

fn too_large(limits: &HttpLimits) -> HttpReply {
    let message = format!(
        "the body is larger than {} MiB, the most that is read; pass large input as a file and name its path",
        limits.body_bytes >> 20
    );
    reply::refuse(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::INVALID_REQUEST, message)
}
