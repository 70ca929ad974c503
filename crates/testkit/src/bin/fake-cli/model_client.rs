//! A client for the model: OpenAI's chat protocol, streamed, over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::environment;

/// The text and the tool calls of one turn of the model.
#[derive(Default)]
pub(crate) struct ModelTurn {
    pub(crate) text: String,
    pub(crate) calls: Vec<ModelToolCall>,
    pub(crate) used: TokenUsage,
}

pub(crate) struct ModelToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

#[derive(Default, Clone, Copy)]
pub(crate) struct TokenUsage {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// Why there is no turn.
pub(crate) enum ModelFailure {
    Refused {
        status: u16,
        message: String,
    },
    /// The connection failed or ended too early.
    Lost,
}

/// Requests the next turn and passes every chunk of text to `on_text` as it arrives.
pub(crate) fn request_turn(
    model: &str,
    messages: &[Value],
    tools: &[Value],
    on_text: &mut dyn FnMut(&str),
) -> Result<ModelTurn, ModelFailure> {
    let body = json!({"model": model, "stream": true, "messages": messages, "tools": tools}).to_string();
    let address = environment::model_address();
    let mut stream = TcpStream::connect(&address).map_err(|_| ModelFailure::Lost)?;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).map_err(|_| ModelFailure::Lost)?;
    stream.write_all(body.as_bytes()).map_err(|_| ModelFailure::Lost)?;
    let mut answer = BufReader::new(stream);
    let (status, length) = read_head(&mut answer)?;
    if status != 200 {
        return Err(read_refusal(status, &mut answer, length));
    }
    read_turn(&mut ChunkedBody { from: answer, remaining: 0 }, on_text)
}

/// Reads the head of the response: its status, and its length if it is not a stream.
fn read_head(answer: &mut impl BufRead) -> Result<(u16, u64), ModelFailure> {
    let mut line = String::new();
    answer.read_line(&mut line).map_err(|_| ModelFailure::Lost)?;
    let status = line.split(' ').nth(1).and_then(|text| text.parse().ok()).ok_or(ModelFailure::Lost)?;
    let mut length = 0;
    loop {
        line.clear();
        answer.read_line(&mut line).map_err(|_| ModelFailure::Lost)?;
        match line.trim().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap_or(0);
            }
            Some(_) => {}
            None => return Ok((status, length)),
        }
    }
}

fn read_refusal(status: u16, answer: &mut impl Read, length: u64) -> ModelFailure {
    let mut body = Vec::new();
    let _ = answer.take(length).read_to_end(&mut body);
    let error_body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = error_body["error"]["message"].as_str().unwrap_or("refused").to_owned();
    ModelFailure::Refused { status, message }
}

fn read_turn(stream: &mut impl BufRead, on_text: &mut dyn FnMut(&str)) -> Result<ModelTurn, ModelFailure> {
    let mut turn = ModelTurn::default();
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).map_err(|_| ModelFailure::Lost)? == 0 {
            return Err(ModelFailure::Lost);
        }
        let Some(data) = line.trim().strip_prefix("data:").map(str::trim) else { continue };
        if data == "[DONE]" {
            return Ok(turn);
        }
        let event: Value = serde_json::from_str(data).map_err(|_| ModelFailure::Lost)?;
        let delta = &event["choices"][0]["delta"];
        if let Some(text) = delta["content"].as_str().filter(|text| !text.is_empty()) {
            turn.text.push_str(text);
            on_text(text);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap_or("{}");
            turn.calls.push(ModelToolCall {
                id: call["id"].as_str().unwrap_or_default().to_owned(),
                name: call["function"]["name"].as_str().unwrap_or_default().to_owned(),
                arguments: serde_json::from_str(arguments).unwrap_or_default(),
            });
        }
        if let Some(usage) = event.get("usage").filter(|usage| usage.is_object()) {
            turn.used.input += usage["prompt_tokens"].as_u64().unwrap_or(0);
            turn.used.output += usage["completion_tokens"].as_u64().unwrap_or(0);
        }
    }
}

/// The body of a chunked response.
struct ChunkedBody<R> {
    from: R,
    remaining: usize,
}

impl<R: BufRead> ChunkedBody<R> {
    fn begin_chunk(&mut self) -> std::io::Result<()> {
        while self.remaining == 0 {
            let mut size = String::new();
            if self.from.read_line(&mut size)? == 0 {
                return Ok(());
            }
            // The previous chunk ends with an empty line.
            if size.trim().is_empty() {
                continue;
            }
            self.remaining = usize::from_str_radix(size.trim(), 16).map_err(std::io::Error::other)?;
            if self.remaining == 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for ChunkedBody<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let ready = self.fill_buf()?;
        let count = ready.len().min(into.len());
        into[..count].copy_from_slice(&ready[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for ChunkedBody<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.begin_chunk()?;
        if self.remaining == 0 {
            return Ok(&[]);
        }
        let ready = self.from.fill_buf()?;
        Ok(&ready[..ready.len().min(self.remaining)])
    }

    fn consume(&mut self, count: usize) {
        self.remaining -= count;
        self.from.consume(count);
    }
}
