//! A server over HTTP that was started, and requests to it as bytes: nothing is hidden.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{PATIENCE, TestEnv, wait_for};

/// A server over HTTP.
pub(crate) struct WebServer {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// Standard error so far.
    pub(crate) stderr: Arc<Mutex<String>>,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct WebAnswer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl WebAnswer {
    /// Returns the last message in it.
    #[track_caller]
    pub(crate) fn message(&self) -> Value {
        let lines = self.text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let mut found =
            lines.filter(|line| line.starts_with('{')).filter_map(|line| serde_json::from_str(line).ok());
        found.next_back().unwrap_or_else(|| panic!("no message: {self:?}"))
    }
}

impl WebServer {
    pub(crate) fn start(env: &TestEnv) -> Self {
        Self::start_command(env.command(["serve", "--http", "127.0.0.1:0"]))
    }

    pub(crate) fn start_command(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let (buffer, pipe) = (stderr.clone(), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                buffer.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        let address = wait_for(PATIENCE, "the address of the server", || {
            assert!(child.try_wait().unwrap().is_none(), "the server ended: {}", stderr.lock().unwrap());
            let text = stderr.lock().unwrap();
            text.lines().find_map(|line| {
                line.strip_prefix("listening at http://")?.strip_suffix("/mcp")?.parse().ok()
            })
        });
        Self { child, address, stderr }
    }

    /// Returns the token that a first start prints.
    pub(crate) fn printed_token(&self) -> Option<String> {
        let stderr = self.stderr.lock().unwrap();
        stderr.split_whitespace().find(|word| word.starts_with("volery_")).map(str::to_owned)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads until the server closes the connection.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> WebAnswer {
        let mut stream = self.connect();
        // A server that refuses need not have read everything.
        let _ = stream.write_all(bytes);
        read_to_end(&mut stream)
    }

    /// Calls a tool as the newer generation does and returns the whole message.
    pub(crate) fn call_raw(&self, token: &str, tool: &str, arguments: Value) -> Value {
        let answer = self.exchange(&call_of(token, tool, arguments));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.message()
    }

    /// Calls a tool that succeeds, and returns its structured content.
    #[track_caller]
    pub(crate) fn call(&self, token: &str, tool: &str, arguments: Value) -> Value {
        let message = self.call_raw(token, tool, arguments);
        assert_eq!(message["result"]["isError"], json!(false), "{tool}: {message}");
        message["result"]["structuredContent"].clone()
    }

    /// Calls a tool that refuses, and returns what it says.
    #[track_caller]
    pub(crate) fn refused(&self, token: &str, tool: &str, arguments: Value) -> String {
        let message = self.call_raw(token, tool, arguments);
        assert_eq!(message["result"]["isError"], json!(true), "{tool}: {message}");
        message["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Asks it to leave and returns its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        super::kill(self.child.id(), rustix::process::Signal::TERM);
        wait_for(PATIENCE, "the server to leave", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        // It may have left already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads all that comes. A reset counts as the end: a server that refuses does not read everything.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> WebAnswer {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("no end of the answer ({error}): {}", String::from_utf8_lossy(&bytes)),
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    WebAnswer { status, text }
}

/// Returns a request that is posted.
pub(crate) fn post_of(token: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\naccept: \
         application/json, text/event-stream\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\
         {headers}\r\n{body}"
    )
    .into_bytes()
}

/// Returns a request of the newer generation.
pub(crate) fn request_of(token: &str, method: &str, mut params: Value) -> Vec<u8> {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "tester", "version": "1"});
    let name = params["name"].as_str().map(|name| format!("mcp-name: {name}\r\n")).unwrap_or_default();
    let headers = format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}");
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    post_of(token, &headers, &message.to_string())
}

fn call_of(token: &str, tool: &str, arguments: Value) -> Vec<u8> {
    request_of(token, "tools/call", json!({"name": tool, "arguments": arguments}))
}
