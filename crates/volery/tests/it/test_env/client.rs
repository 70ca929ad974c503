//! A bare MCP client: lines in, lines out, nothing hidden.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::PATIENCE;

/// A server that was started, and its client.
pub(crate) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    unread: Vec<Value>,
    next_id: u64,
}

impl Client {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { return };
                let value = serde_json::from_str(&line)
                    .unwrap_or_else(|error| panic!("not protocol on standard output ({error}): {line}"));
                if send.send(value).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, unread: Vec::new(), next_id: 0 }
    }

    /// Opens the connection as clients of the older generation do.
    pub(crate) fn initialize(self, name: &str) -> Self {
        self.initialize_with(name, json!({}))
    }

    /// Does the same as a client that can do more.
    pub(crate) fn initialize_with(mut self, name: &str, capabilities: Value) -> Self {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "clientInfo": {"name": name, "version": "1"},
        });
        self.request("initialize", params);
        self.notify("notifications/initialized", json!({}));
        self
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "method": method, "params": params}));
        self.send_raw(line.as_bytes());
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params});
        self.send_raw(format!("{message}\n").as_bytes());
        self.next_id
    }

    /// Answers a request of the server's.
    pub(crate) fn respond(&mut self, id: &Value, result: Value) {
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": result}));
        self.send_raw(line.as_bytes());
    }

    /// Sends a request and returns its result.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id, PATIENCE);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Calls a tool and returns its structured content.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_ne!(result["isError"], json!(true), "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that is expected to refuse, and returns what it says.
    #[track_caller]
    pub(crate) fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_eq!(result["isError"], json!(true), "{tool}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64, within: Duration) -> Value {
        self.next_where(within, |message| message["id"] == json!(id))
    }

    /// Waits for the answer to a request; there is none if the server is gone.
    pub(crate) fn answer_if_any(&mut self, id: u64) -> Option<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(message) if message["id"] == json!(id) => return Some(message),
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("neither an answer nor an end of the server"),
            }
        }
    }

    /// Waits for a message; others are buffered for later.
    #[track_caller]
    pub(crate) fn next_where(&mut self, within: Duration, matches: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.unread.iter().position(&matches) {
            return self.unread.remove(at);
        }
        let deadline = Instant::now() + within;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(message) if matches(&message) => return message,
                Ok(message) => self.unread.push(message),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no such message within {within:?}: {:?}", self.unread)
                }
                Err(RecvTimeoutError::Disconnected) => panic!("the server is gone: {:?}", self.unread),
            }
        }
    }

    /// Closes the server's input.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end of the server and returns its exit code, or `None` if a signal ended it.
    #[track_caller]
    pub(crate) fn exit(&mut self, within: Duration) -> Option<i32> {
        super::wait_for(within, "the server to leave", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have left already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
