//! A client of the door in the same process: raw lines over pipes, in either generation of the protocol.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::super::call_rate::CallRate;
use super::super::clients::Waits;
use super::super::dialect::Surface;
use super::super::options::{Options, Pace};
use super::super::serve::{Left, serve_on};
use super::scripted::Scripted;

/// The longest that any answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the reading end does.
const READS: u8 = 0;
const PAUSES: u8 = 1;
const CLOSES: u8 = 2;

/// Which protocol the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Legacy,
    Modern,
}

pub(super) const BOTH: [Era; 2] = [Era::Legacy, Era::Modern];

pub(super) struct Session {
    pub(super) engine: Arc<Scripted>,
    pub(super) serving: JoinHandle<std::io::Result<Left>>,
    writer: Option<std::sync::mpsc::Sender<Vec<u8>>>,
    lines: mpsc::UnboundedReceiver<String>,
    stop: Option<oneshot::Sender<Left>>,
    reading: Arc<AtomicU8>,
    /// Writes that the pipe has not taken yet.
    unsent: Arc<AtomicUsize>,
    client: String,
    capabilities: Value,
    next_id: i64,
}

/// Options that make a test quick: progress ten times a second.
pub(in crate::door::mcp) fn brisk() -> Options {
    let pace = Pace {
        progress: Duration::from_millis(100),
        task_after: Duration::from_millis(50),
        ..Pace::default()
    };
    Options {
        surface: Surface::native(),
        waits: waits(),
        disconnect_grace_ms: 30_000,
        retention_ms: 604_800_000,
        rate: Arc::new(CallRate::new(10_000)),
        caller: None,
        pace,
    }
}

/// The waits as they are when nobody has set them.
pub(in crate::door::mcp) fn waits() -> Waits {
    Waits { unknown: Duration::from_secs(45), by_client: BTreeMap::new(), codex_limit: None }
}

impl Session {
    pub(super) fn open(options: Options) -> Self {
        let engine = Arc::new(Scripted::default());
        let (input, mut to_server) = std::io::pipe().unwrap();
        let (writer, to_write) = std::sync::mpsc::channel::<Vec<u8>>();
        // On a thread of its own: the server shares the thread of the test, which must not block on a full pipe.
        let unsent = Arc::new(AtomicUsize::new(0));
        let left = unsent.clone();
        std::thread::spawn(move || {
            to_write.iter().all(|bytes| {
                let sent = to_server.write_all(&bytes).is_ok();
                left.fetch_sub(1, Ordering::Release);
                sent
            })
        });
        let (reader, output) = std::io::pipe().unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        let reading = Arc::new(AtomicU8::new(READS));
        let mode = reading.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                while mode.load(Ordering::Relaxed) == PAUSES {
                    std::thread::sleep(Duration::from_millis(5));
                }
                if mode.load(Ordering::Relaxed) == CLOSES || sender.send(line).is_err() {
                    return;
                }
            }
        });
        let (stop, stopped) = oneshot::channel();
        let stopped = async move {
            match stopped.await {
                Ok(left) => left,
                Err(_) => std::future::pending().await,
            }
        };
        let serving = tokio::spawn(serve_on(engine.clone(), options, (input, output), stopped));
        Self {
            engine,
            serving,
            writer: Some(writer),
            lines,
            stop: Some(stop),
            reading,
            unsent,
            client: "test-client".into(),
            capabilities: json!({}),
            next_id: 100,
        }
    }

    /// Opens a session and says hello in the manner of the era.
    pub(super) async fn begin(era: Era, client: &str, capabilities: Value) -> Self {
        let mut session = Self::open(brisk());
        session.hello(era, client, capabilities).await;
        session
    }

    pub(super) async fn hello(&mut self, era: Era, client: &str, capabilities: Value) -> Value {
        self.client = client.into();
        self.capabilities = capabilities;
        let hello = match era {
            Era::Legacy => {
                let client = json!({ "name": self.client, "version": "1" });
                let params = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": self.capabilities,
                    "clientInfo": client,
                });
                self.ask_plain("initialize", params).await
            }
            Era::Modern => self.ask(Era::Modern, "server/discover", json!({})).await,
        };
        if era == Era::Legacy {
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        hello
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        self.unsent.fetch_add(1, Ordering::Release);
        // The thread is gone when the server no longer reads.
        let _ = self.writer.as_ref().expect("the input is open").send(bytes.to_vec());
    }

    /// Closes the input.
    pub(super) fn hang_up(&mut self) {
        self.writer = None;
    }

    /// Leaves what is written from now on in the pipe.
    pub(super) fn stop_reading(&mut self) {
        self.reading.store(PAUSES, Ordering::Relaxed);
    }

    pub(super) fn go_on_reading(&mut self) {
        self.reading.store(READS, Ordering::Relaxed);
    }

    /// Tells whether the server takes in all that was sent, within this time.
    pub(super) async fn input_is_drained(&self, within: Duration) -> bool {
        let drained = async {
            while self.unsent.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(within, drained).await.is_ok()
    }

    /// Closes the output at the next line.
    pub(super) fn close_output(&mut self) {
        self.reading.store(CLOSES, Ordering::Relaxed);
    }

    pub(super) fn stop(&mut self, left: Left) {
        self.stop.take().expect("stopped once").send(left).unwrap();
    }

    pub(super) async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await.expect("an answer in time");
        serde_json::from_str(&line.expect("the output is open")).expect("nothing but JSON on the output")
    }

    /// Returns the lines that are left until the server has gone.
    pub(super) async fn rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(line) =
            tokio::time::timeout(PATIENCE, self.lines.recv()).await.expect("an end in time")
        {
            rest.push(serde_json::from_str(&line).expect("nothing but JSON on the output"));
        }
        rest
    }

    /// Sends a request and returns its id, without waiting.
    pub(super) fn request(&mut self, era: Era, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        let params = if era == Era::Modern { self.with_meta(params) } else { params };
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn with_meta(&self, mut params: Value) -> Value {
        let meta = params
            .as_object_mut()
            .expect("parameters are an object")
            .entry("_meta")
            .or_insert_with(|| json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": self.client, "version": "1" });
        meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        params
    }

    /// Returns the answer to a request, and what was notified before it.
    pub(super) async fn answer_to(&mut self, id: i64) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.next().await;
            if message["id"] == json!(id) {
                return (message, before);
            }
            before.push(message);
        }
    }

    pub(super) async fn ask(&mut self, era: Era, method: &str, params: Value) -> Value {
        let id = self.request(era, method, params);
        self.answer_to(id).await.0
    }

    async fn ask_plain(&mut self, method: &str, params: Value) -> Value {
        self.ask(Era::Legacy, method, params).await
    }

    /// Calls a tool and returns its whole result.
    pub(super) async fn call(&mut self, era: Era, tool: &str, arguments: Value) -> Value {
        let answer = self.ask(era, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
        answer["result"].clone()
    }

    pub(super) fn cancel(&mut self, id: i64, reason: &str) {
        let params = json!({ "requestId": id, "reason": reason });
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }
}
