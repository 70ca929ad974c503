//! One connection: reads requests, decides what each is, and answers it whole, in pieces, in part, or not at all.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{self, Request, Response};
use crate::script::{Answer, Body, End, Fault, Reply, Usage};
use crate::server::{Purpose, Seen, Shared};
use crate::side;
use crate::wire::{Format, Turn};

/// How often a waiting thread looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long a client has for what it got before the connection is cut: without it, it may see the cut first.
const BEFORE_CUT: Duration = Duration::from_millis(200);
/// How long a connection may be open without a request, and an answer may hang.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// Whether the connection can carry another request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    KeepOpen,
    Close,
}

/// A stream whose reads end when the server stops.
struct Peer<'a> {
    stream: &'a TcpStream,
    shared: &'a Shared,
}

impl Read for Peer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let deadline = Instant::now() + IDLE_MAX;
        loop {
            match self.stream.read(buffer) {
                Err(error) if is_time_out(&error) => {
                    if self.shared.stopping.load(Ordering::SeqCst) || Instant::now() > deadline {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }
}

/// The reading half buffers, the writing half does not.
struct Wire<'a>(BufReader<Peer<'a>>);

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl io::BufRead for Wire<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.0.consume(amount);
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = self.0.get_ref().stream;
        stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Answers the requests of one client until it leaves, a reply ends the connection, or the server stops.
pub(crate) fn serve(stream: &TcpStream, shared: &Shared) {
    let prepared = stream
        .set_read_timeout(Some(LOOK))
        .and_then(|()| stream.set_write_timeout(Some(IDLE_MAX)))
        .and_then(|()| stream.set_nodelay(true));
    if prepared.is_err() {
        return;
    }
    let mut wire = Wire(BufReader::new(Peer { stream, shared }));
    while let Ok(Some(request)) = http::read_request(&mut wire) {
        // An error in writing means that the client has left, which is noted where it matters.
        let after = answer(&mut wire, shared, &request).unwrap_or(After::Close);
        if after == After::Close || shared.stopping.load(Ordering::SeqCst) {
            break;
        }
    }
}

fn answer(wire: &mut Wire<'_>, shared: &Shared, request: &Request) -> io::Result<After> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    let path = request.path();
    let format = Format::of_path(path).filter(|_| request.method == "POST");
    let ask = format.map(|format| format.ask(path, &body));
    let mut seen = Seen {
        received: Instant::now(),
        method: request.method.clone(),
        path: request.target.clone(),
        headers: request.headers.clone(),
        body,
        format,
        ask,
        purpose: Purpose::Unknown,
        left: false,
    };
    if !request.target.starts_with('/') {
        seen.purpose = Purpose::Outside;
        shared.keep(seen);
        let refusal = json!({ "error": { "message": "this server is no proxy" } });
        send(wire, request, 403, Vec::new(), &refusal)?;
        return Ok(After::Close);
    }
    let Some((format, ask)) = format.zip(seen.ask.as_ref()) else {
        let (purpose, status, reply) = beside(request);
        seen.purpose = purpose;
        shared.keep(seen);
        return send(wire, request, status, Vec::new(), &reply);
    };
    let model = ask.model.clone();
    let streams = ask.stream;
    let (reply, number) = match side::answer(ask, &shared.side_rules) {
        Some(text) => {
            seen.purpose = Purpose::Side;
            (Reply::say(&text).using(Usage { input: 1, output: 1, cached: 0 }), 0)
        }
        None => {
            let taken = shared.take();
            seen.purpose = taken.purpose;
            let reply = taken.reply.unwrap_or_else(|| Reply::error(400, "the script has no reply left"));
            (reply, taken.number)
        }
    };
    let place = shared.keep(seen);
    let result =
        give(wire, shared, &Given { request, format, model: &model, streams, reply: &reply, number });
    let left = matches!(result, Ok(Delivered::ClientLeft) | Err(_));
    if left && !shared.stopping.load(Ordering::SeqCst) {
        shared.note_left(place);
    }
    match result? {
        Delivered::Complete(after) => Ok(after),
        Delivered::Dropped | Delivered::ClientLeft => Ok(After::Close),
    }
}

/// A reply on its way.
struct Given<'a> {
    request: &'a Request,
    format: Format,
    model: &'a str,
    streams: bool,
    reply: &'a Reply,
    /// Of the agent's work, from 1; 0 for what is asked beside it.
    number: usize,
}

enum Delivered {
    Complete(After),
    /// We dropped the connection, as the script says, or because the server stops.
    Dropped,
    ClientLeft,
}

fn give(wire: &mut Wire<'_>, shared: &Shared, given: &Given<'_>) -> io::Result<Delivered> {
    if given.reply.delay_ms > 0 && client_left(wire, shared, Duration::from_millis(given.reply.delay_ms)) {
        return Ok(Delivered::ClientLeft);
    }
    if shared.stopping.load(Ordering::SeqCst) {
        return Ok(Delivered::Dropped);
    }
    match &given.reply.body {
        Body::Fault(fault) => refuse(wire, given, fault),
        Body::Answer(answer) => {
            let turn = Turn { answer, usage: given.reply.usage, model: given.model, number: given.number };
            if answer.text.is_none() && matches!(answer.end, End::Cut | End::Hang) {
                return Ok(break_off(wire, shared, answer));
            }
            if given.streams { stream(wire, shared, given, &turn) } else { whole(wire, shared, given, &turn) }
        }
    }
}

fn refuse(wire: &mut Wire<'_>, given: &Given<'_>, fault: &Fault) -> io::Result<Delivered> {
    let mut headers = vec![("request-id", "req_0001".to_owned())];
    if let Some(seconds) = fault.retry_after_s {
        headers.push(("retry-after", seconds.to_string()));
    }
    let body = given.format.fault(fault);
    send(wire, given.request, fault.status, headers, &body).map(Delivered::Complete)
}

fn stream(wire: &mut Wire<'_>, shared: &Shared, given: &Given<'_>, turn: &Turn<'_>) -> io::Result<Delivered> {
    http::write_stream_head(wire)?;
    for event in given.format.events(turn) {
        let bytes = event.bytes();
        match turn.answer.end {
            End::Cut if event.breaks => {
                http::write_half_chunk(wire, &bytes)?;
                return Ok(break_off(wire, shared, turn.answer));
            }
            End::Hang if event.breaks => return Ok(break_off(wire, shared, turn.answer)),
            End::Cut | End::Hang | End::Whole | End::Length => http::write_chunk(wire, &bytes)?,
        }
    }
    http::write_stream_end(wire)?;
    Ok(Delivered::Complete(after(given.request)))
}

fn whole(wire: &mut Wire<'_>, shared: &Shared, given: &Given<'_>, turn: &Turn<'_>) -> io::Result<Delivered> {
    let body = given.format.whole(turn);
    if matches!(turn.answer.end, End::Whole | End::Length) {
        return send(wire, given.request, 200, Vec::new(), &body).map(Delivered::Complete);
    }
    let bytes = body.to_string().into_bytes();
    let headers = vec![("content-type", "application/json".to_owned())];
    http::write_head(wire, &Response { status: 200, headers, body: &bytes })?;
    wire.write_all(&bytes[..bytes.len() / 2])?;
    Ok(break_off(wire, shared, turn.answer))
}

/// Ends an answer before its end: at once, or when the client has had enough.
fn break_off(wire: &mut Wire<'_>, shared: &Shared, answer: &Answer) -> Delivered {
    if answer.end == End::Hang && client_left(wire, shared, IDLE_MAX) {
        return Delivered::ClientLeft;
    }
    if answer.end == End::Cut && answer.text.is_some() {
        shared.pause(BEFORE_CUT);
    }
    Delivered::Dropped
}

/// Waits, and tells whether the client went away meanwhile.
fn client_left(wire: &mut Wire<'_>, shared: &Shared, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    let mut byte = [0];
    while Instant::now() < deadline && !shared.stopping.load(Ordering::SeqCst) {
        match wire.0.get_ref().stream.peek(&mut byte) {
            Ok(0) => return true,
            // The next request is already there; it waits its turn.
            Ok(_) => {
                shared.pause(LOOK);
            }
            Err(error) if is_time_out(&error) => {}
            Err(_) => return true,
        }
    }
    false
}

fn send(
    wire: &mut Wire<'_>,
    request: &Request,
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: &Value,
) -> io::Result<After> {
    let bytes = body.to_string().into_bytes();
    let mut all = vec![("content-type", "application/json".to_owned())];
    all.extend(headers);
    http::write_head(wire, &Response { status, headers: all, body: &bytes })?;
    if request.method != "HEAD" {
        wire.write_all(&bytes)?;
    }
    Ok(after(request))
}

/// Tells what the client wants of the connection.
fn after(request: &Request) -> After {
    let close = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if close { After::Close } else { After::KeepOpen }
}

/// Answers what is no request to a model.
fn beside(request: &Request) -> (Purpose, u16, Value) {
    let path = request.path().trim_end_matches('/');
    if path.ends_with("/count_tokens") || path.ends_with(":countTokens") {
        return (Purpose::Side, 200, json!({ "input_tokens": 100, "totalTokens": 100 }));
    }
    match request.method.as_str() {
        "HEAD" => (Purpose::Side, 200, json!({})),
        // A client that wants a web socket goes on without.
        "GET" if path.ends_with("/responses") => {
            let error = json!({ "error": { "message": "no web socket here" } });
            (Purpose::Side, 426, error)
        }
        "GET" if path.ends_with("/models") => (Purpose::Side, 200, models()),
        "GET" if path.is_empty() => (Purpose::Side, 200, json!({})),
        "GET" => match path.rsplit_once("/models/") {
            Some((_, model)) => (Purpose::Side, 200, one_model(model)),
            None => unknown(),
        },
        _ => unknown(),
    }
}

fn unknown() -> (Purpose, u16, Value) {
    let error = json!({ "type": "not_found_error", "message": "nothing is here", "code": 404 });
    (Purpose::Unknown, 404, json!({ "type": "error", "error": error }))
}

/// Returns a list of models that is right for every vendor: each reads its own members.
fn models() -> Value {
    let names = ["scripted-model", "claude-opus-5-5", "gpt-5.5", "gemini-2.5-flash"];
    let models: Vec<Value> = names.into_iter().map(one_model).collect();
    json!({
        "object": "list", "data": models, "models": models, "has_more": false,
        "first_id": names[0], "last_id": names[names.len() - 1],
    })
}

fn one_model(name: &str) -> Value {
    json!({
        "id": name, "object": "model", "type": "model", "created": 0, "owned_by": "script",
        "display_name": name, "created_at": "2026-01-01T00:00:00Z",
        "name": format!("models/{name}"), "displayName": name, "version": "1",
        "inputTokenLimit": 1_000_000, "outputTokenLimit": 8192,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    })
}

fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
