//! A server in the same process, on a port of its own, and clients that write bytes to it.

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

use super::super::allowed::Allowed;
use super::super::door::Door;
use super::super::house::{Handlers, House};
use super::super::limits::Limits;
use super::super::serve::{Listening, serve_door};
use crate::app::{AppError, Sums, TokenHolder};
use crate::door::mcp::front::{Answering, Front};
use crate::door::mcp::handler::Handler;
use crate::door::mcp::serve::Left;
use crate::door::mcp::tests::scripted::Scripted;
use crate::door::mcp::tests::session::brisk;

/// The longest that anything may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The tokens that are known, each with an engine of its own.
pub(super) const ANN: &str = "volery_ann_1";
pub(super) const BEN: &str = "volery_ben_2";

/// Two callers, each with a scripted engine.
pub(super) struct Scene {
    pub(super) ann: Arc<Scripted>,
    pub(super) ben: Arc<Scripted>,
}

impl House for Scene {
    type Handler = Handler;

    fn holder_of(&self, token: &str) -> Option<TokenHolder> {
        let name = [(ANN, "ann"), (BEN, "ben")].iter().find(|(known, _)| *known == token)?.1;
        Some(TokenHolder { name: name.to_owned(), all_metrics: false })
    }

    fn handlers(
        &self,
        holder: &TokenHolder,
        leaving: CancellationToken,
    ) -> Result<Handlers<Handler>, AppError> {
        let app: Arc<dyn Front> = if holder.name == "ann" { self.ann.clone() } else { self.ben.clone() };
        Ok(Box::new(move || Handler::new(app.clone(), brisk(), leaving.clone())))
    }

    fn sums(&self, holder: &TokenHolder) -> Answering<'_, Sums> {
        let running = u64::from(holder.name == "ann");
        async move { Ok(Sums { running, ..Sums::default() }) }.boxed()
    }

    fn leave(&self) {
        self.ann.leave();
    }
}

/// A server that listens.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) ann: Arc<Scripted>,
    pub(super) serving: JoinHandle<Left>,
    pub(super) stop: Option<oneshot::Sender<Left>>,
}

/// Bounds that make a test quick.
pub(super) fn small() -> Limits {
    Limits { headers_after: Duration::from_millis(50), ..Limits::default() }
}

impl Server {
    pub(super) async fn open(limits: Limits) -> Self {
        Self::allowing(limits, Allowed::default()).await
    }

    pub(super) async fn allowing(limits: Limits, allowed: Allowed) -> Self {
        let listening = Listening::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listening.address;
        let (ann, ben) = (Arc::new(Scripted::default()), Arc::new(Scripted::default()));
        let door = Door::new(Arc::new(Scene { ann: ann.clone(), ben }), allowed, limits);
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or(Left::Terminated) };
            serve_door(listening, Arc::new(door), &brisk().pace, stopped).await
        });
        Self { address, ann, serving, stop: Some(stop) }
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads all that comes until the server closes the connection.
    pub(super) async fn exchange(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_all(&mut stream).await
    }

    /// Posts a message with these further headers.
    pub(super) async fn post(&self, headers: &str, body: &str) -> Answer {
        self.exchange(posted(headers, body).as_bytes()).await
    }

    /// Asks as the newer generation does, with Ann's token.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Answer {
        self.exchange(modern(ANN, method, params).as_bytes()).await
    }
}

/// What a server sent.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: String,
}

impl Answer {
    /// Returns the messages in it, whether they came as events or in one piece.
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

pub(super) async fn read_all(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    read.expect("the server closes the connection").unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, text }
}

/// Reads until the text has come.
pub(super) async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let read = async {
        let mut piece = [0; 4096];
        while !text.contains(wanted) {
            let count = stream.read(&mut piece).await.unwrap();
            assert!(count > 0, "closed before {wanted:?}: {text}");
            text.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("it comes");
    text
}

/// A request that is posted, complete but for its token.
pub(super) fn posted(headers: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\naccept: \
         application/json, text/event-stream\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

pub(super) fn bearing(token: &str) -> String {
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
        bearing(token),
        name.unwrap_or_default()
    );
    posted(&headers, &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
}

/// A call of `run_agent` of the newer generation.
pub(super) fn run_agent(token: &str, agent: &str) -> String {
    modern(token, "tools/call", json!({"name": "run_agent", "arguments": {"agent": agent, "prompt": "x"}}))
}

/// A request of the older generation in its session.
pub(super) fn legacy(token: &str, session: &str, message: &Value) -> String {
    let headers =
        format!("{}mcp-session-id: {session}\r\nmcp-protocol-version: 2025-06-18\r\n", bearing(token));
    posted(&headers, &message.to_string())
}

/// Opens a session of the older generation and returns its id.
pub(super) async fn open_session(server: &Server, token: &str) -> String {
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "older", "version": "1"},
    });
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let opened = server.post(&bearing(token), &message.to_string()).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let said = server.exchange(legacy(token, &session, &ready).as_bytes()).await;
    assert_eq!(said.status, 202, "{said:?}");
    session
}
