//! A model client on a thread of its own, with pipes instead of standard input and output.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use domain::conversation::{
    AssistantTurn, Message, ModelAnswer, ModelRequest, StopReason, ToolChoice, ToolSpec,
};
use serde_json::{Value, json};

use super::super::client_process;
use super::super::model_client::{
    self, AtEndOfInput, ClientRequest, ModelClientEvent, ModelClientReader, RequestFailure,
};
use super::super::service_config::{ServiceConfig, known_service};
use super::KEY;

pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Output that several threads may write, and a test reads.
#[derive(Clone, Default)]
pub(super) struct SharedOutput(Arc<Mutex<Vec<u8>>>);

impl SharedOutput {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct ChannelInput {
    receiver: Receiver<Vec<u8>>,
    rest: Vec<u8>,
}

impl Read for ChannelInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.recv() {
                Ok(bytes) => self.rest = bytes,
                Err(_) => return Ok(0),
            }
        }
        let bytes = self.rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.rest[..bytes]);
        self.rest.drain(..bytes);
        Ok(bytes)
    }
}

struct ChannelOutput(Sender<Vec<u8>>);

impl Write for ChannelOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.contains(KEY), "the output contains the key: {text}");
        self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A running model client.
pub(super) struct TestClient {
    input: Option<Sender<Vec<u8>>>,
    output: Receiver<Vec<u8>>,
    reader: ModelClientReader,
    ready: Vec<ModelClientEvent>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl TestClient {
    /// Starts the client of Anthropic's protocol, at another address.
    pub(super) fn start(address: &str) -> Self {
        Self::start_with(&known_service("anthropic").unwrap().service, address, Some(KEY))
    }

    pub(super) fn start_with(service: &ServiceConfig, address: &str, key: Option<&str>) -> Self {
        let launch =
            model_client::launch(service, None, std::path::Path::new("/bin/volery"), AtEndOfInput::Abandon);
        assert_eq!(launch.argv, ["/bin/volery", "__api"]);
        let (input, receiver) = channel();
        let (sender, output) = channel();
        input.send(launch.input).unwrap();
        let (service, address) = (service.clone(), address.to_owned());
        let key = key.map(ToOwned::to_owned);
        let thread = std::thread::spawn(move || {
            let value = |name: &str| match name {
                _ if service.keys.iter().any(|key| key == name) => key.clone(),
                _ if service.address_variable.as_deref() == Some(name) => Some(address.clone()),
                _ => None,
            };
            let mut input = ChannelInput { receiver, rest: Vec::new() };
            client_process::serve(&mut input, Box::new(ChannelOutput(sender)), &value)
        });
        let reader = ModelClientReader::default();
        Self { input: Some(input), output, reader, ready: Vec::new(), thread: Some(thread) }
    }

    pub(super) fn write(&self, bytes: Vec<u8>) {
        self.input.as_ref().unwrap().send(bytes).unwrap();
    }

    pub(super) fn send(&self, id: u64, request: ModelRequest) {
        self.send_within(id, request, 60_000, 30_000);
    }

    pub(super) fn send_within(&self, id: u64, request: ModelRequest, timeout_ms: u64, idle_ms: u64) {
        self.write(model_client::encode_request(ClientRequest { id, request, timeout_ms, idle_ms }));
    }

    pub(super) fn next_event(&mut self) -> ModelClientEvent {
        while self.ready.is_empty() {
            let bytes = self.output.recv_timeout(PATIENCE).expect("the client writes an event");
            self.ready = self.reader.feed(&bytes);
        }
        self.ready.remove(0)
    }

    /// Returns the events of one request up to its last, when no other request runs.
    pub(super) fn finish(&mut self) -> (Vec<ModelClientEvent>, Result<ModelAnswer, RequestFailure>) {
        let mut events = Vec::new();
        loop {
            match self.next_event() {
                ModelClientEvent::Answered { answer, .. } => return (events, Ok(*answer)),
                ModelClientEvent::Failed(failure) => return (events, Err(failure)),
                event => events.push(event),
            }
        }
    }

    /// Sends a request and returns its answer.
    pub(super) fn answer(&mut self, request: ModelRequest) -> ModelAnswer {
        self.send(0, request);
        self.finish().1.expect("the model answers")
    }

    /// Sends a request and returns its failure.
    pub(super) fn failure(&mut self, request: ModelRequest) -> RequestFailure {
        self.send(0, request);
        self.finish().1.expect_err("the request fails")
    }

    /// Ends the input and waits for the client's end.
    pub(super) fn end(mut self) {
        drop(self.input.take());
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

pub(super) fn user(text: &str) -> Message {
    Message::User { text: text.to_owned() }
}

pub(super) fn tool(name: &str) -> ToolSpec {
    let input_schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    ToolSpec { name: name.to_owned(), description: format!("Runs {name}."), input_schema }
}

/// Returns a request with tools.
pub(super) fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: "big-1".to_owned(),
        system: "You are careful.".to_owned(),
        messages,
        tools: vec![tool("write"), tool("read")],
        tool_choice: ToolChoice::Allowed,
        max_output_tokens: Some(4_096),
        temperature: None,
        output_schema: None,
    }
}

pub(super) fn text_answer(text: &str) -> ModelAnswer {
    ModelAnswer {
        turn: AssistantTurn {
            wire: "messages".to_owned(),
            model: "big-1".to_owned(),
            native: Vec::new(),
            text: text.to_owned(),
            calls: Vec::new(),
        },
        stop: StopReason::EndTurn,
        usage: None,
        answered_by: None,
    }
}

/// Returns results of all calls of an answer.
pub(super) fn results(answer: &ModelAnswer, text: &str) -> Message {
    let result = |call: &domain::conversation::ToolCall| domain::conversation::ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        text: text.to_owned(),
        is_error: false,
    };
    Message::ToolResults { results: answer.turn.calls.iter().map(result).collect() }
}

/// Removes the marks of the cache.
pub(super) fn without_marks(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(name, _)| *name != "cache_control");
            members.map(|(name, value)| (name.clone(), without_marks(value))).collect()
        }
        Value::Array(values) => values.iter().map(without_marks).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
