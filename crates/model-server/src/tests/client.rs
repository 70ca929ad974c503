//! A plain HTTP client: one connection per request, and a look at what arrived even if it was cut.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Format, Server};

pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What came back.
#[derive(Debug)]
pub(super) struct Got {
    /// 0 if nothing came back.
    pub(super) status: u16,
    pub(super) head: String,
    /// Without the framing of chunks.
    pub(super) body: String,
    /// The framing said that all is there.
    pub(super) complete: bool,
}

impl Got {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a whole reply is JSON")
    }

    /// Returns the JSON of all whole events; `[DONE]` is left out.
    pub(super) fn events(&self) -> Vec<Value> {
        let whole = self.body.split_inclusive("\n\n").filter(|event| event.ends_with("\n\n"));
        let data = whole.filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).expect("the data of an event is JSON"))
            .collect()
    }
}

/// Asks as the protocol wants to be asked.
pub(super) fn ask(server: &Server, format: Format, stream: bool) -> Got {
    let (path, body) = question(format, stream);
    send(server, "POST", path, &body)
}

pub(super) fn question(format: Format, stream: bool) -> (&'static str, Value) {
    let user = json!({ "role": "user", "content": "hello" });
    match format {
        Format::Messages => {
            ("/v1/messages?beta=true", json!({ "model": "m", "stream": stream, "messages": [user] }))
        }
        Format::Responses => ("/v1/responses", json!({ "model": "m", "stream": stream, "input": [user] })),
        Format::Chat => {
            ("/v1/chat/completions", json!({ "model": "m", "stream": stream, "messages": [user] }))
        }
        Format::Google => {
            let path = if stream {
                "/v1beta/models/m:streamGenerateContent?alt=sse"
            } else {
                "/v1beta/models/m:generateContent"
            };
            (path, json!({ "contents": [{ "role": "user", "parts": [{ "text": "hello" }] }] }))
        }
    }
}

pub(super) fn send(server: &Server, method: &str, path: &str, body: &Value) -> Got {
    let mut stream = open(server, method, path, body);
    let mut bytes = Vec::new();
    // A cut connection may end in an error; what came before it counts.
    let _ = stream.read_to_end(&mut bytes);
    understand(&bytes)
}

/// Sends a request and leaves the answer to the caller.
pub(super) fn open(server: &Server, method: &str, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
    let body = body.to_string();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nX-Key: k\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("the server reads");
    stream.write_all(body.as_bytes()).expect("the server reads");
    stream
}

fn understand(bytes: &[u8]) -> Got {
    let text = String::from_utf8(bytes.to_vec()).expect("replies are text");
    let Some((head, rest)) = text.split_once("\r\n\r\n") else {
        return Got { status: 0, head: text, body: String::new(), complete: false };
    };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let (body, complete) = match length {
        Some(length) => (rest.to_owned(), length.parse() == Ok(rest.len())),
        None => unchunk(rest),
    };
    Got { status, head: head.to_owned(), body, complete }
}

fn unchunk(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk has a size");
        if size == 0 {
            return (body, true);
        }
        if after.len() < size + 2 {
            body.push_str(after);
            return (body, false);
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    (body, false)
}
