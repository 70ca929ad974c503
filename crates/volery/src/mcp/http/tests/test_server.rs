//! A server in the same process, on its own port, and clients that write raw bytes to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::http_backend::{Handlers, HttpBackend};
use super::super::limits::HttpLimits;
use super::super::origin_check::OriginCheck;
use super::super::router::RequestRouter;
use super::super::serve::{HttpListener, serve_connections};
use crate::mcp::handler::Handler;
use crate::mcp::serve::StopReason;
use crate::mcp::tests::client_session::fast_options;
use crate::mcp::tests::scripted_engine::ScriptedEngine;
use engine::{EngineApi, EngineFuture};
use engine::{EngineError, RunMetrics, TokenHolder};

/// The timeout of every step.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The valid tokens, each with its own engine.
pub(super) const ANN: &str = "volery_ann_1";
pub(super) const BEN: &str = "volery_ben_2";

/// Two callers, each with a scripted engine.
pub(super) struct ScriptedBackend {
    pub(super) ann: Arc<ScriptedEngine>,
    pub(super) ben: Arc<ScriptedEngine>,
}

impl HttpBackend for ScriptedBackend {
    type Handler = Handler;

    fn token_holder(&self, token: &str) -> Option<TokenHolder> {
        let name = [(ANN, "ann"), (BEN, "ben")].iter().find(|(known, _)| *known == token)?.1;
        Some(TokenHolder { name: name.to_owned(), all_metrics: false })
    }

    fn handlers(
        &self,
        holder: &TokenHolder,
        leaving: CancellationToken,
    ) -> Result<Handlers<Handler>, EngineError> {
        let engine: Arc<dyn EngineApi> =
            if holder.name == "ann" { self.ann.clone() } else { self.ben.clone() };
        Ok(Box::new(move || Handler::new(engine.clone(), fast_options(), leaving.clone())))
    }

    fn run_metrics(&self, holder: &TokenHolder) -> EngineFuture<'_, RunMetrics> {
        let running = u64::from(holder.name == "ann");
        async move { Ok(RunMetrics { running, ..RunMetrics::default() }) }.boxed()
    }

    fn leave(&self) {
        self.ann.disconnect();
    }
}

/// A server that listens.
pub(super) struct TestServer {
    pub(super) address: SocketAddr,
    pub(super) ann: Arc<ScriptedEngine>,
    pub(super) serving: JoinHandle<StopReason>,
    pub(super) stop: Option<oneshot::Sender<StopReason>>,
}

/// Limits for fast tests.
pub(super) fn test_limits() -> HttpLimits {
    HttpLimits { headers_after: Duration::from_millis(50), ..HttpLimits::default() }
}

impl TestServer {
    pub(super) async fn open(limits: HttpLimits) -> Self {
        Self::with_origin_check(limits, OriginCheck::default()).await
    }

    pub(super) async fn with_origin_check(limits: HttpLimits, origin_check: OriginCheck) -> Self {
        let listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address;
        let (ann, ben) = (Arc::new(ScriptedEngine::default()), Arc::new(ScriptedEngine::default()));
        let router =
            RequestRouter::new(Arc::new(ScriptedBackend { ann: ann.clone(), ben }), origin_check, limits);
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or(StopReason::Terminated) };
            serve_connections(listener, Arc::new(router), &fast_options().timing, stopped).await
        });
        Self { address, ann, serving, stop: Some(stop) }
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the server closes the connection.
    pub(super) async fn exchange(&self, bytes: &[u8]) -> RawResponse {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_all(&mut stream).await
    }

    /// Posts a message with additional headers.
    pub(super) async fn post(&self, headers: &str, body: &str) -> RawResponse {
        self.exchange(post_request(headers, body).as_bytes()).await
    }

    /// Sends a request of the newer generation, with Ann's token.
    pub(super) async fn ask(&self, method: &str, params: Value) -> RawResponse {
        self.exchange(modern(ANN, method, params).as_bytes()).await
    }
}

/// The response of a server.
#[derive(Debug)]
pub(super) struct RawResponse {
    pub(super) status: u16,
    pub(super) text: String,
}

impl RawResponse {
    /// Returns its messages, whether sent as events or as one document.
    pub(super) fn messages(&self) -> Vec<Value> {
        let lines = self.text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        lines
            .filter(|line| line.starts_with('{'))
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Returns the last message.
    #[track_caller]
    pub(super) fn last(&self) -> Value {
        self.messages().pop().unwrap_or_else(|| panic!("no message: {self:?}"))
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines().take_while(|line| !line.is_empty());
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

pub(super) async fn read_all(stream: &mut TcpStream) -> RawResponse {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    read.expect("the server closes the connection").unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    RawResponse { status, text }
}

/// Reads until a text has arrived.
pub(super) async fn read_until(stream: &mut TcpStream, expected: &str) -> String {
    let mut text = String::new();
    let read = async {
        let mut piece = [0; 4096];
        while !text.contains(expected) {
            let count = stream.read(&mut piece).await.unwrap();
            assert!(count > 0, "closed before {expected:?}: {text}");
            text.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("it comes");
    text
}

/// A POST request, complete except for its token.
pub(super) fn post_request(headers: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\naccept: \
         application/json, text/event-stream\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

pub(super) fn bearer_header(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

/// A request of the newer generation.
pub(super) fn modern(token: &str, method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "tester", "version": "1"});
    let name = params["name"].as_str().or(params["uri"].as_str()).map(|name| format!("mcp-name: {name}\r\n"));
    let headers = format!(
        "{}mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{}",
        bearer_header(token),
        name.unwrap_or_default()
    );
    post_request(
        &headers,
        &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string(),
    )
}

/// A call of `run_agent` of the newer generation.
pub(super) fn run_agent(token: &str, agent: &str) -> String {
    modern(token, "tools/call", json!({"name": "run_agent", "arguments": {"agent": agent, "prompt": "x"}}))
}

/// A request of the older generation in its session.
pub(super) fn legacy(token: &str, session: &str, message: &Value) -> String {
    let headers =
        format!("{}mcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n", bearer_header(token));
    post_request(&headers, &message.to_string())
}

/// Opens a session of the older generation and returns its id.
pub(super) async fn open_session(server: &TestServer, token: &str) -> String {
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "older", "version": "1"},
    });
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let opened = server.post(&bearer_header(token), &message.to_string()).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let response = server.exchange(legacy(token, &session, &ready).as_bytes()).await;
    assert_eq!(response.status, 202, "{response:?}");
    session
}
