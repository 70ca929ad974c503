//! Routes one request: checks its origin, then its token, then its path. In this order, so that a page from elsewhere
//! learns nothing, not even whether a token is valid.

use std::error::Error;
use std::sync::Arc;

use futures::FutureExt;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::super::jsonrpc_line::JsonRpcRefusal;
use super::super::request_guard::BUSY;
use super::counters::Counters;
use super::http_backend::HttpBackend;
use super::limits::HttpLimits;
use super::origin_check::{OriginCheck, OriginViolation};
use super::panic_guard::RequestSlots;
use super::reply::{self, HttpReply};
use super::tenants::Tenants;
use super::{body, keepalive, metrics};
use engine::TokenHolder;

const MCP: &str = "/mcp";
const METRICS: &str = "/metrics";
const VERSION: &str = "mcp-protocol-version";

pub(super) struct RequestRouter<H: HttpBackend> {
    pub(super) backend: Arc<H>,
    pub(super) limits: HttpLimits,
    pub(super) counters: Arc<Counters>,
    pub(super) slots: RequestSlots,
    /// Calls must answer now.
    pub(super) leaving: CancellationToken,
    /// Streams end now.
    pub(super) closing: CancellationToken,
    origin_check: OriginCheck,
    tenants: Tenants<H::Handler>,
}

impl<H: HttpBackend> RequestRouter<H> {
    pub(super) fn new(backend: Arc<H>, origin_check: OriginCheck, limits: HttpLimits) -> Self {
        let counters = Arc::new(Counters::default());
        let slots = RequestSlots::new(limits.requests);
        let closing = CancellationToken::new();
        let tenants = Tenants::new(limits.clone(), Arc::clone(&counters), slots.clone(), closing.clone());
        Self {
            backend,
            limits,
            counters,
            slots,
            leaving: CancellationToken::new(),
            closing,
            origin_check,
            tenants,
        }
    }

    pub(super) async fn answer<B>(&self, request: Request<B>) -> HttpReply
    where
        B: hyper::body::Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let reply = self.route(request).await;
        self.counters.answered(reply.status());
        reply
    }

    async fn route<B>(&self, request: Request<B>) -> HttpReply
    where
        B: hyper::body::Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        match self.origin_check.check(&parts) {
            Ok(()) => {}
            Err(OriginViolation::Host) => {
                let message = "this server does not answer to the name in Host; [serve] allowed_hosts lists further ones";
                return reply::plain(StatusCode::FORBIDDEN, message);
            }
            Err(OriginViolation::Origin) => {
                let message = "pages of this Origin may not speak to this server; [serve] allowed_origins lists those that may";
                return reply::plain(StatusCode::FORBIDDEN, message);
            }
        }
        let path = parts.uri.path();
        if ![MCP, METRICS].contains(&path) {
            return reply::plain(StatusCode::NOT_FOUND, "there is /mcp and /metrics");
        }
        let Some(token) = bearer(&parts.headers) else {
            return reply::unauthorized("a token is needed: Authorization: Bearer TOKEN");
        };
        let Some(holder) = self.backend.token_holder(token) else {
            return reply::unauthorized("this token is not known; volery token new NAME makes one");
        };
        match path {
            METRICS if parts.method == Method::GET => self.metrics(&holder).await,
            METRICS => reply::method_not_allowed("GET"),
            _ => self.mcp(&holder, parts, body).await,
        }
    }

    async fn metrics(&self, holder: &TokenHolder) -> HttpReply {
        match self.backend.run_metrics(holder).await {
            Ok(sums) => {
                let text = metrics::text(&sums, &self.counters, self.slots.in_use());
                reply::build(StatusCode::OK, metrics::CONTENT_TYPE, text.into_bytes())
            }
            Err(error) => reply::plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    async fn mcp<B>(&self, holder: &TokenHolder, parts: Parts, body: B) -> HttpReply
    where
        B: hyper::body::Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let tenant = match self
            .tenants
            .get_or_create(&holder.name, || self.backend.handlers(holder, self.leaving.clone()))
        {
            Ok(tenant) => tenant,
            Err(error) => {
                return reply::refuse(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    ErrorCode::INTERNAL_ERROR,
                    error.to_string(),
                );
            }
        };
        let posted = parts.method == Method::POST;
        let body = match body::read(body, &self.limits).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        if posted {
            let message = match body::message(&body) {
                Ok(message) => message,
                Err(mut refusal) => {
                    let version = parts.headers.get(VERSION).and_then(|version| version.to_str().ok());
                    let status = body::status_for(&mut refusal, &body, version);
                    return reply::refuse_message(status, &refusal);
                }
            };
            if opens_session(&message) && !tenant.sessions.has_room() {
                let message =
                    format!("{} sessions are open; end one, or come back later", self.limits.sessions);
                return reply::refuse_message(
                    StatusCode::SERVICE_UNAVAILABLE,
                    &JsonRpcRefusal::new(Value::Null, BUSY, message),
                );
            }
        }
        let request = Request::from_parts(parts, Full::new(body));
        let service = tenant.service.clone();
        let answering = async move { service.handle(request).await }.boxed();
        if posted {
            return keepalive::answer(answering, &self.limits).await;
        }
        answering.await.map(BodyExt::boxed_unsync)
    }
}

fn opens_session(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::InitializeRequest(_)))
}

/// Returns the token of a request that has exactly one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}
