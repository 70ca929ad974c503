//! One connection: reads requests, classifies each, and answers it completely, in chunks, partially, or not at all.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{self, HttpRequest, HttpResponse};
use crate::model_request::ModelRequest;
use crate::script::{AnswerEnd, Fault, ModelAnswer, ReplyBody, ScriptedReply, ScriptedUsage};
use crate::server::{RecordedRequest, RequestPurpose, ServerState};
use crate::side_requests;
use crate::wire::{AnswerTurn, WireFormat};

/// How often a waiting thread checks whether the server stops.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a client has to read what was sent before the connection is cut; otherwise it may see the cut first.
const BEFORE_CUT: Duration = Duration::from_millis(200);
/// How long a connection may be idle, and how long an answer may hang.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// Whether the connection is used for another request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeepAlive {
    KeepOpen,
    Close,
}

/// A stream whose reads end when the server stops.
struct StoppableReader<'a> {
    stream: &'a TcpStream,
    shared: &'a ServerState,
}

impl Read for StoppableReader<'_> {
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

/// Buffers reads, but not writes.
struct ClientStream<'a>(BufReader<StoppableReader<'a>>);

impl Read for ClientStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl io::BufRead for ClientStream<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.0.consume(amount);
    }
}

impl Write for ClientStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = self.0.get_ref().stream;
        stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Answers the requests of one client until it disconnects, a reply ends the connection, or the server stops.
pub(crate) fn serve(stream: &TcpStream, shared: &ServerState, number: usize) {
    let prepared = stream
        .set_read_timeout(Some(POLL_INTERVAL))
        .and_then(|()| stream.set_write_timeout(Some(IDLE_MAX)))
        .and_then(|()| stream.set_nodelay(true));
    if prepared.is_err() {
        return;
    }
    let mut client = ClientStream(BufReader::new(StoppableReader { stream, shared }));
    while let Ok(Some(request)) = http::read_request(&mut client) {
        // A write error means that the client has disconnected, which is recorded where it matters.
        let keep_alive = answer(&mut client, shared, &request, number).unwrap_or(KeepAlive::Close);
        if keep_alive == KeepAlive::Close || shared.stopping.load(Ordering::SeqCst) {
            break;
        }
    }
}

fn answer(
    client: &mut ClientStream<'_>,
    shared: &ServerState,
    request: &HttpRequest,
    connection: usize,
) -> io::Result<KeepAlive> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    let path = request.path();
    let format = WireFormat::from_path(path).filter(|_| request.method == "POST");
    let ask = format.map(|format| format.parse_request(path, &body));
    let mut seen = RecordedRequest {
        received_at: Instant::now(),
        method: request.method.clone(),
        path: request.target.clone(),
        headers: request.headers.clone(),
        body,
        format,
        model_request: ask,
        purpose: RequestPurpose::Unknown,
        connection,
        client_left: false,
    };
    if !request.target.starts_with('/') {
        seen.purpose = RequestPurpose::Outside;
        shared.record(seen);
        let refusal = json!({ "error": { "message": "this server is no proxy" } });
        send(client, request, 403, Vec::new(), &refusal)?;
        return Ok(KeepAlive::Close);
    }
    let Some((format, ask)) = format.zip(seen.model_request.as_ref()) else {
        let (purpose, status, reply) = answer_side_request(request);
        seen.purpose = purpose;
        shared.record(seen);
        return send(client, request, status, Vec::new(), &reply);
    };
    let model = ask.model.clone();
    let streams = ask.stream;
    let (reply, purpose, number) = choose_reply(shared, format, ask, &seen.body);
    seen.purpose = purpose;
    let index = shared.record(seen);
    let result = deliver(
        client,
        shared,
        &ReplyContext { request, format, model: &model, streams, reply: &reply, number },
    );
    let left = matches!(result, Ok(Delivery::ClientLeft) | Err(_));
    if left && !shared.stopping.load(Ordering::SeqCst) {
        shared.mark_client_left(index);
    }
    match result? {
        Delivery::Complete(keep_alive) => Ok(keep_alive),
        Delivery::Dropped | Delivery::ClientLeft => Ok(KeepAlive::Close),
    }
}

/// Returns the reply to a request to the model, how the request was classified, and the number of the reply.
fn choose_reply(
    shared: &ServerState,
    format: WireFormat,
    ask: &ModelRequest,
    body: &Value,
) -> (ScriptedReply, RequestPurpose, usize) {
    if let Some(text) = side_requests::answer(ask, &shared.side_rules) {
        let usage = ScriptedUsage { input: 1, output: 1, cached: 0 };
        return (ScriptedReply::say(&text).using(usage), RequestPurpose::Side, 0);
    }
    if format == WireFormat::Messages
        && let Err(reason) = shared.verify(body)
    {
        return (ScriptedReply::error(400, &reason), RequestPurpose::Invalid, 0);
    }
    let taken = shared.take(ask);
    let reply = taken.reply.unwrap_or_else(|| ScriptedReply::error(400, "the script has no reply left"));
    (reply, taken.purpose, taken.number)
}

/// A reply with the request that it answers.
struct ReplyContext<'a> {
    request: &'a HttpRequest,
    format: WireFormat,
    model: &'a str,
    streams: bool,
    reply: &'a ScriptedReply,
    /// The number of the scripted reply, from 1; 0 for side requests.
    number: usize,
}

enum Delivery {
    Complete(KeepAlive),
    /// The server dropped the connection, as scripted or because it stops.
    Dropped,
    ClientLeft,
}

fn deliver(
    client: &mut ClientStream<'_>,
    shared: &ServerState,
    context: &ReplyContext<'_>,
) -> io::Result<Delivery> {
    if context.reply.delay_ms > 0
        && client_left(client, shared, Duration::from_millis(context.reply.delay_ms))
    {
        return Ok(Delivery::ClientLeft);
    }
    if shared.stopping.load(Ordering::SeqCst) {
        return Ok(Delivery::Dropped);
    }
    match &context.reply.body {
        ReplyBody::Fault(fault) => refuse(client, context, fault),
        ReplyBody::Answer(answer) => {
            let turn = AnswerTurn {
                answer,
                usage: context.reply.usage,
                usage_json: context.reply.usage_json.as_ref(),
                model: context.model,
                number: context.number,
            };
            if answer.text.is_none() && matches!(answer.end, AnswerEnd::Cut | AnswerEnd::Hang) {
                return Ok(break_off(client, shared, answer));
            }
            if context.format == WireFormat::Messages {
                shared.remember(context.model, &context.format.whole(&turn)["content"]);
            }
            if context.streams {
                stream(client, shared, context, &turn)
            } else {
                whole(client, shared, context, &turn)
            }
        }
    }
}

fn refuse(client: &mut ClientStream<'_>, context: &ReplyContext<'_>, fault: &Fault) -> io::Result<Delivery> {
    let mut headers = vec![("request-id", "req_0001".to_owned())];
    if let Some(seconds) = fault.retry_after_s {
        headers.push(("retry-after", seconds.to_string()));
    }
    let body = context.format.fault(fault);
    send(client, context.request, fault.status, headers, &body).map(Delivery::Complete)
}

fn stream(
    client: &mut ClientStream<'_>,
    shared: &ServerState,
    context: &ReplyContext<'_>,
    turn: &AnswerTurn<'_>,
) -> io::Result<Delivery> {
    http::write_stream_head(client)?;
    let mut events = context.format.events(turn);
    if turn.answer.end == AnswerEnd::Unfinished {
        events.truncate(events.len().saturating_sub(3));
    }
    for event in events {
        let bytes = event.bytes();
        match turn.answer.end {
            AnswerEnd::Cut if event.is_break_point => {
                http::write_half_chunk(client, &bytes)?;
                return Ok(break_off(client, shared, turn.answer));
            }
            AnswerEnd::Hang if event.is_break_point => return Ok(break_off(client, shared, turn.answer)),
            AnswerEnd::Cut
            | AnswerEnd::Hang
            | AnswerEnd::Whole
            | AnswerEnd::Length
            | AnswerEnd::Unfinished => http::write_chunk(client, &bytes)?,
        }
    }
    http::write_stream_end(client)?;
    Ok(Delivery::Complete(keep_alive(context.request)))
}

fn whole(
    client: &mut ClientStream<'_>,
    shared: &ServerState,
    context: &ReplyContext<'_>,
    turn: &AnswerTurn<'_>,
) -> io::Result<Delivery> {
    let body = context.format.whole(turn);
    if matches!(turn.answer.end, AnswerEnd::Whole | AnswerEnd::Length | AnswerEnd::Unfinished) {
        return send(client, context.request, 200, Vec::new(), &body).map(Delivery::Complete);
    }
    let bytes = body.to_string().into_bytes();
    let headers = vec![("content-type", "application/json".to_owned())];
    http::write_head(client, &HttpResponse { status: 200, headers, body: &bytes })?;
    client.write_all(&bytes[..bytes.len() / 2])?;
    Ok(break_off(client, shared, turn.answer))
}

/// Ends an answer early: at once, or when the client disconnects.
fn break_off(client: &mut ClientStream<'_>, shared: &ServerState, answer: &ModelAnswer) -> Delivery {
    if answer.end == AnswerEnd::Hang && client_left(client, shared, IDLE_MAX) {
        return Delivery::ClientLeft;
    }
    if answer.end == AnswerEnd::Cut && answer.text.is_some() {
        shared.pause(BEFORE_CUT);
    }
    Delivery::Dropped
}

/// Waits, and returns whether the client disconnected in the meantime.
fn client_left(client: &mut ClientStream<'_>, shared: &ServerState, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    let mut byte = [0];
    while Instant::now() < deadline && !shared.stopping.load(Ordering::SeqCst) {
        match client.0.get_ref().stream.peek(&mut byte) {
            Ok(0) => return true,
            // The next request has arrived already; it is answered later.
            Ok(_) => {
                shared.pause(POLL_INTERVAL);
            }
            Err(error) if is_time_out(&error) => {}
            Err(_) => return true,
        }
    }
    false
}

fn send(
    client: &mut ClientStream<'_>,
    request: &HttpRequest,
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: &Value,
) -> io::Result<KeepAlive> {
    let bytes = body.to_string().into_bytes();
    let mut all = vec![("content-type", "application/json".to_owned())];
    all.extend(headers);
    http::write_head(client, &HttpResponse { status, headers: all, body: &bytes })?;
    if request.method != "HEAD" {
        client.write_all(&bytes)?;
    }
    Ok(keep_alive(request))
}

/// Returns what the client requests for the connection.
fn keep_alive(request: &HttpRequest) -> KeepAlive {
    let close = request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if close { KeepAlive::Close } else { KeepAlive::KeepOpen }
}

/// Answers a request that is not for a model.
fn answer_side_request(request: &HttpRequest) -> (RequestPurpose, u16, Value) {
    let path = request.path().trim_end_matches('/');
    if path.ends_with("/count_tokens") || path.ends_with(":countTokens") {
        return (RequestPurpose::Side, 200, json!({ "input_tokens": 100, "totalTokens": 100 }));
    }
    match request.method.as_str() {
        "HEAD" => (RequestPurpose::Side, 200, json!({})),
        // A client that wants a web socket continues without one.
        "GET" if path.ends_with("/responses") => {
            let error = json!({ "error": { "message": "no web socket here" } });
            (RequestPurpose::Side, 426, error)
        }
        "GET" if path.ends_with("/models") => (RequestPurpose::Side, 200, models()),
        "GET" if path.is_empty() => (RequestPurpose::Side, 200, json!({})),
        "GET" => match path.rsplit_once("/models/") {
            Some((_, model)) => (RequestPurpose::Side, 200, one_model(model)),
            None => not_found(),
        },
        _ => not_found(),
    }
}

fn not_found() -> (RequestPurpose, u16, Value) {
    let error = json!({ "type": "not_found_error", "message": "nothing is here", "code": 404 });
    (RequestPurpose::Unknown, 404, json!({ "type": "error", "error": error }))
}

/// Returns a list of models for all vendors: each reads its own members.
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
