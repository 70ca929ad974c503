//! Answers that are not the library's: refusals, each with a body that says what to do about it.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::model::ErrorCode;
use serde_json::{Value, json};

use super::super::line::Refusal;

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(super) type Reply = Response<Body>;

const JSON: &str = "application/json";

/// Says no, in the form of the protocol: clients look for an error there.
pub(super) fn refuse(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Reply {
    refuse_message(status, &Refusal::new(Value::Null, code, message))
}

pub(super) fn refuse_message(status: StatusCode, refusal: &Refusal) -> Reply {
    let mut reply = of(status, JSON, refusal.to_line());
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE) {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

pub(super) fn unauthorized(message: &str) -> Reply {
    let mut reply = of(StatusCode::UNAUTHORIZED, JSON, json!({ "error": message }).to_string().into_bytes());
    reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"volery\""));
    reply
}

pub(super) fn plain(status: StatusCode, message: &str) -> Reply {
    of(status, "text/plain; charset=utf-8", format!("{message}\n").into_bytes())
}

pub(super) fn only(methods: &'static str) -> Reply {
    let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, &format!("only {methods} here"));
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    reply
}

pub(super) fn of(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)).boxed_unsync());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}
