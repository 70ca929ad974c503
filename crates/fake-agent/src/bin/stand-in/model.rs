//! Asks the model: OpenAI's chat protocol, as a stream, over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::place;

/// What the model said and wants.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) used: Used,
}

pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

#[derive(Default, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// Why there is no turn.
pub(crate) enum Trouble {
    Refused {
        status: u16,
        message: String,
    },
    /// The connection ended too early, or there was none.
    Lost,
}

/// Asks for the next turn; every piece of text is told when it comes.
pub(crate) fn ask(
    model: &str,
    messages: &[Value],
    tools: &[Value],
    piece: &mut dyn FnMut(&str),
) -> Result<Turn, Trouble> {
    let body = json!({"model": model, "stream": true, "messages": messages, "tools": tools}).to_string();
    let address = place::model();
    let mut stream = TcpStream::connect(&address).map_err(|_| Trouble::Lost)?;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).map_err(|_| Trouble::Lost)?;
    stream.write_all(body.as_bytes()).map_err(|_| Trouble::Lost)?;
    let mut answer = BufReader::new(stream);
    let (status, length) = read_head(&mut answer)?;
    if status != 200 {
        return Err(refused(status, &mut answer, length));
    }
    read_turn(&mut Chunks { from: answer, left: 0 }, piece)
}

/// Reads the head of the reply: its status, and its length if it is no stream.
fn read_head(answer: &mut impl BufRead) -> Result<(u16, u64), Trouble> {
    let mut line = String::new();
    answer.read_line(&mut line).map_err(|_| Trouble::Lost)?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or(Trouble::Lost)?;
    let mut length = 0;
    loop {
        line.clear();
        answer.read_line(&mut line).map_err(|_| Trouble::Lost)?;
        match line.trim().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap_or(0);
            }
            Some(_) => {}
            None => return Ok((status, length)),
        }
    }
}

fn refused(status: u16, answer: &mut impl Read, length: u64) -> Trouble {
    let mut body = Vec::new();
    let _ = answer.take(length).read_to_end(&mut body);
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = told["error"]["message"].as_str().unwrap_or("refused").to_owned();
    Trouble::Refused { status, message }
}

fn read_turn(stream: &mut impl BufRead, piece: &mut dyn FnMut(&str)) -> Result<Turn, Trouble> {
    let mut turn = Turn::default();
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).map_err(|_| Trouble::Lost)? == 0 {
            return Err(Trouble::Lost);
        }
        let Some(data) = line.trim().strip_prefix("data:").map(str::trim) else { continue };
        if data == "[DONE]" {
            return Ok(turn);
        }
        let event: Value = serde_json::from_str(data).map_err(|_| Trouble::Lost)?;
        let delta = &event["choices"][0]["delta"];
        if let Some(text) = delta["content"].as_str().filter(|text| !text.is_empty()) {
            turn.text.push_str(text);
            piece(text);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap_or("{}");
            turn.calls.push(Call {
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

/// The body of a reply that comes in chunks.
struct Chunks<R> {
    from: R,
    left: usize,
}

impl<R: BufRead> Chunks<R> {
    fn begin_chunk(&mut self) -> std::io::Result<()> {
        while self.left == 0 {
            let mut size = String::new();
            if self.from.read_line(&mut size)? == 0 {
                return Ok(());
            }
            // The end of the chunk before is an empty line.
            if size.trim().is_empty() {
                continue;
            }
            self.left = usize::from_str_radix(size.trim(), 16).map_err(std::io::Error::other)?;
            if self.left == 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let ready = self.fill_buf()?;
        let count = ready.len().min(into.len());
        into[..count].copy_from_slice(&ready[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Chunks<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.begin_chunk()?;
        if self.left == 0 {
            return Ok(&[]);
        }
        let ready = self.from.fill_buf()?;
        Ok(&ready[..ready.len().min(self.left)])
    }

    fn consume(&mut self, count: usize) {
        self.left -= count;
        self.from.consume(count);
    }
}
