//! A plain HTTP client: one connection per request. It also returns replies that were cut.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{ScriptedServer, WireFormat};

pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A received reply.
#[derive(Debug)]
pub(super) struct HttpReply {
    /// 0 if nothing was received.
    pub(super) status: u16,
    pub(super) head: String,
    /// Without the framing of chunks.
    pub(super) body: String,
    /// Whether the reply is complete according to its framing.
    pub(super) complete: bool,
}

impl HttpReply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a whole reply is JSON")
    }

    /// Returns the JSON of all complete events, without `[DONE]`.
    pub(super) fn events(&self) -> Vec<Value> {
        let whole = self.body.split_inclusive("\n\n").filter(|event| event.ends_with("\n\n"));
        let data = whole.filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).expect("the data of an event is JSON"))
            .collect()
    }
}

/// Sends a minimal request in this protocol.
pub(super) fn ask(server: &ScriptedServer, format: WireFormat, stream: bool) -> HttpReply {
    let (path, body) = request_for(format, stream);
    send(server, "POST", path, &body)
}

pub(super) fn request_for(format: WireFormat, stream: bool) -> (&'static str, Value) {
    let user = json!({ "role": "user", "content": "hello" });
    match format {
        WireFormat::Messages => {
            ("/v1/messages?beta=true", json!({ "model": "m", "stream": stream, "messages": [user] }))
        }
        WireFormat::Responses => {
            ("/v1/responses", json!({ "model": "m", "stream": stream, "input": [user] }))
        }
        WireFormat::Chat => {
            ("/v1/chat/completions", json!({ "model": "m", "stream": stream, "messages": [user] }))
        }
        WireFormat::Google => {
            let path = if stream {
                "/v1beta/models/m:streamGenerateContent?alt=sse"
            } else {
                "/v1beta/models/m:generateContent"
            };
            (path, json!({ "contents": [{ "role": "user", "parts": [{ "text": "hello" }] }] }))
        }
    }
}

pub(super) fn send(server: &ScriptedServer, method: &str, path: &str, body: &Value) -> HttpReply {
    let mut stream = open(server, method, path, body);
    let mut bytes = Vec::new();
    // A cut connection may end in an error; the bytes before it count.
    let _ = stream.read_to_end(&mut bytes);
    parse_reply(&bytes)
}

/// Sends a request and leaves reading the answer to the caller.
pub(super) fn open(server: &ScriptedServer, method: &str, path: &str, body: &Value) -> TcpStream {
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

fn parse_reply(bytes: &[u8]) -> HttpReply {
    let text = String::from_utf8(bytes.to_vec()).expect("replies are text");
    let Some((head, rest)) = text.split_once("\r\n\r\n") else {
        return HttpReply { status: 0, head: text, body: String::new(), complete: false };
    };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let (body, complete) = match length {
        Some(length) => (rest.to_owned(), length.parse() == Ok(rest.len())),
        None => unchunk(rest),
    };
    HttpReply { status, head: head.to_owned(), body, complete }
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
