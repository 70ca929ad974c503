//! What a door and a run say to each other, over the leash or the run's socket: one JSON document per line.

use std::io;

use domain::run::OnDisconnect;
use rustix::io::Errno;
use rustix::net::SendFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::app::{AppError, Progress, Request, RunView};

/// The longest line; a request holds at most a prompt and a context.
const LINE_BYTES_MAX: usize = 8 << 20;

/// What a door says to a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum Word {
    /// The record is durable: start.
    Go,
    /// The record could not be made durable: forget it.
    Abort,
    /// The door goes away in good order.
    Left { policy: OnDisconnect },
    /// There is something in the inbox.
    Look,
    /// Tell this peer what happens.
    Watch,
    /// A request of the run's own agent.
    Ask { request: Box<Request> },
}

/// What a run says to a door.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub enum Tell {
    Progress {
        progress: Progress,
    },
    /// The outcome is on disk.
    Ended {
        /// The run as a door shows it, for the door that started it: that door then need not read the log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        view: Option<Box<RunView>>,
    },
    Answer {
        value: serde_json::Value,
    },
    Refused {
        error: AppError,
    },
}

/// Returns a message as one line.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages are plain values");
    line.push(b'\n');
    line
}

/// Collects bytes into messages. Lines that mean nothing are passed over: the peer may be of another version.
#[derive(Debug, Default)]
pub struct Inbound {
    bytes: Vec<u8>,
}

impl Inbound {
    /// Takes bytes in and returns the whole messages among them.
    pub fn feed<T: DeserializeOwned>(&mut self, bytes: &[u8]) -> io::Result<Vec<T>> {
        self.bytes.extend_from_slice(bytes);
        let mut messages = Vec::new();
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let rest = self.bytes.split_off(end + 1);
            let line = std::mem::replace(&mut self.bytes, rest);
            messages.extend(serde_json::from_slice(&line).ok());
        }
        if self.bytes.len() > LINE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
        }
        Ok(messages)
    }
}

/// The reading side of a connection.
pub struct Hearing {
    stream: OwnedReadHalf,
    inbound: Inbound,
    ready: std::collections::VecDeque<serde_json::Value>,
}

impl Hearing {
    /// Returns the next message, or `None` when the peer is gone.
    pub async fn hear<T: DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            while let Some(value) = self.ready.pop_front() {
                if let Ok(message) = serde_json::from_value(value) {
                    return Some(message);
                }
            }
            self.stream.readable().await.ok()?;
            let mut chunk = [0; 16 << 10];
            match self.stream.try_read(&mut chunk) {
                Ok(0) => return None,
                Ok(read) => self.ready.extend(self.inbound.feed::<serde_json::Value>(&chunk[..read]).ok()?),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}

/// The writing side of a connection.
pub struct Saying {
    stream: OwnedWriteHalf,
    /// The last line was cut off: the next one begins with the end of line that is missing.
    dangling: bool,
}

impl Saying {
    /// Says something and waits until the peer's buffer has it.
    pub async fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.say_line(&line(message)).await
    }

    /// Says a message that is a line already.
    pub async fn say_line(&mut self, line: &[u8]) -> io::Result<()> {
        if std::mem::replace(&mut self.dangling, false) {
            self.stream.write_all(b"\n").await?;
        }
        self.stream.write_all(line).await
    }

    /// Says something if the peer has room for it. Losing a sign of life is no loss.
    pub fn say_now(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut bytes = line(message);
        if self.dangling {
            bytes.insert(0, b'\n');
        }
        // Not by the runtime, which calls a new stream not ready until it has heard otherwise.
        let stream: &UnixStream = self.stream.as_ref();
        match rustix::net::send(stream, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(written) => {
                self.dangling = written < bytes.len();
                Ok(())
            }
            Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Splits a connection into its two sides.
pub fn split(stream: UnixStream, inbound: Inbound) -> (Hearing, Saying) {
    let (reading, writing) = stream.into_split();
    (
        Hearing { stream: reading, inbound, ready: std::collections::VecDeque::new() },
        Saying { stream: writing, dangling: false },
    )
}
