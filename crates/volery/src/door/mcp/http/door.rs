//! One request: where it comes from, who sends it, what it wants. Checked in this order, so that a page from elsewhere
//! learns nothing, not even whether a token is right.

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

use super::super::guard::BUSY;
use super::super::line::Refusal;
use super::allowed::{Allowed, Foreign};
use super::counters::Counters;
use super::guarded::Places;
use super::house::House;
use super::limits::Limits;
use super::reply::{self, Reply};
use super::tenants::Tenants;
use super::{body, early, metrics};
use crate::app::TokenHolder;

const MCP: &str = "/mcp";
const METRICS: &str = "/metrics";
const VERSION: &str = "mcp-protocol-version";

pub(super) struct Door<H: House> {
    pub(super) house: Arc<H>,
    pub(super) limits: Limits,
    pub(super) counters: Arc<Counters>,
    pub(super) places: Places,
    /// Answers have to be given now.
    pub(super) leaving: CancellationToken,
    /// Streams end now.
    pub(super) closing: CancellationToken,
    allowed: Allowed,
    tenants: Tenants<H::Handler>,
}

impl<H: House> Door<H> {
    pub(super) fn new(house: Arc<H>, allowed: Allowed, limits: Limits) -> Self {
        let counters = Arc::new(Counters::default());
        let places = Places::new(limits.requests);
        let closing = CancellationToken::new();
        let tenants = Tenants::new(limits.clone(), Arc::clone(&counters), places.clone(), closing.clone());
        Self { house, limits, counters, places, leaving: CancellationToken::new(), closing, allowed, tenants }
    }

    pub(super) async fn answer<B>(&self, request: Request<B>) -> Reply
    where
        B: hyper::body::Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let reply = self.route(request).await;
        self.counters.answered(reply.status());
        reply
    }

    async fn route<B>(&self, request: Request<B>) -> Reply
    where
        B: hyper::body::Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        match self.allowed.check(&parts) {
            Ok(()) => {}
            Err(Foreign::Host) => {
                let message = "this server does not answer to the name in Host; [serve] allowed_hosts lists further ones";
                return reply::plain(StatusCode::FORBIDDEN, message);
            }
            Err(Foreign::Origin) => {
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
        let Some(holder) = self.house.holder_of(token) else {
            return reply::unauthorized("this token is not known; volery token new NAME makes one");
        };
        match path {
            METRICS if parts.method == Method::GET => self.metrics(&holder).await,
            METRICS => reply::only("GET"),
            _ => self.mcp(&holder, parts, body).await,
        }
    }

    async fn metrics(&self, holder: &TokenHolder) -> Reply {
        match self.house.sums(holder).await {
            Ok(sums) => {
                let text = metrics::text(&sums, &self.counters, self.places.taken());
                reply::of(StatusCode::OK, metrics::KIND, text.into_bytes())
            }
            Err(error) => reply::plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    async fn mcp<B>(&self, holder: &TokenHolder, parts: Parts, body: B) -> Reply
    where
        B: hyper::body::Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let tenant = match self.tenants.of(&holder.name, || self.house.handlers(holder, self.leaving.clone()))
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
                    let status = body::status_of(&mut refusal, &body, version);
                    return reply::refuse_message(status, &refusal);
                }
            };
            if opens_session(&message) && !tenant.sessions.has_room() {
                let message =
                    format!("{} sessions are open; end one, or come back later", self.limits.sessions);
                return reply::refuse_message(
                    StatusCode::SERVICE_UNAVAILABLE,
                    &Refusal::new(Value::Null, BUSY, message),
                );
            }
        }
        let request = Request::from_parts(parts, Full::new(body));
        let service = tenant.service.clone();
        let answering = async move { service.handle(request).await }.boxed();
        if posted {
            return early::answer(answering, &self.limits).await;
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
