//! Replies that do not come from the library: refusals with an explanation.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::model::ErrorCode;
use serde_json::{Value, json};

use super::super::jsonrpc_line::JsonRpcRefusal;

pub(super) type ReplyBody = UnsyncBoxBody<Bytes, Infallible>;
pub(super) type HttpReply = Response<ReplyBody>;

const JSON: &str = "application/json";

/// Builds a refusal in the form of the protocol, where clients expect errors.
pub(super) fn refuse(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> HttpReply {
    refuse_message(status, &JsonRpcRefusal::new(Value::Null, code, message))
}

pub(super) fn refuse_message(status: StatusCode, refusal: &JsonRpcRefusal) -> HttpReply {
    let mut reply = build(status, JSON, refusal.to_line());
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE) {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

pub(super) fn unauthorized(message: &str) -> HttpReply {
    let mut reply =
        build(StatusCode::UNAUTHORIZED, JSON, json!({ "error": message }).to_string().into_bytes());
    reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"volery\""));
    reply
}

pub(super) fn plain(status: StatusCode, message: &str) -> HttpReply {
    build(status, "text/plain; charset=utf-8", format!("{message}\n").into_bytes())
}

pub(super) fn method_not_allowed(methods: &'static str) -> HttpReply {
    let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, &format!("only {methods} here"));
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    reply
}

pub(super) fn build(status: StatusCode, kind: &'static str, body: Vec<u8>) -> HttpReply {
    let mut reply = Response::new(Full::new(Bytes::from(body)).boxed_unsync());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}
