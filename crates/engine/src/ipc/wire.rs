//! The messages between a door and a run, over the run's channel or socket: one JSON document per line.

use std::io;

use domain::run::OnDisconnect;
use rustix::io::Errno;
use rustix::net::SendFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::api::{EngineError, Progress, RunView};

/// The longest line; a request holds at most a prompt and a context.
const LINE_BYTES_MAX: usize = 8 << 20;

/// A message from a door to a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub(crate) enum DoorMessage {
    /// The record is durable: start.
    Go,
    /// The record could not be made durable: forget it.
    Abort,
    /// The door closes in good order.
    #[serde(rename = "left")]
    Disconnecting { policy: OnDisconnect },
    /// There is something in the inbox.
    #[serde(rename = "look")]
    CheckInbox,
    /// Send this peer the progress and the end of the run.
    Watch,
    /// A request of the run's own agent (`relayed_requests`).
    Ask { request: serde_json::Value },
}

/// A message from a run to a door.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub(crate) enum RunMessage {
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
        error: EngineError,
    },
}

/// Encodes a message as one line.
pub(crate) fn encode_line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages are plain values");
    line.push(b'\n');
    line
}

/// Collects bytes into messages. Skips lines that it cannot parse: the peer may be of another version.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// Adds bytes and returns the messages that are complete.
    pub(crate) fn feed<T: DeserializeOwned>(&mut self, bytes: &[u8]) -> io::Result<Vec<T>> {
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
pub(crate) struct MessageReceiver {
    stream: OwnedReadHalf,
    buffer: LineBuffer,
    pending: std::collections::VecDeque<serde_json::Value>,
}

impl MessageReceiver {
    /// Returns the next message, or `None` when the peer is gone.
    pub(crate) async fn recv<T: DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            while let Some(value) = self.pending.pop_front() {
                if let Ok(message) = serde_json::from_value(value) {
                    return Some(message);
                }
            }
            self.stream.readable().await.ok()?;
            let mut chunk = [0; 16 << 10];
            match self.stream.try_read(&mut chunk) {
                Ok(0) => return None,
                Ok(read) => self.pending.extend(self.buffer.feed::<serde_json::Value>(&chunk[..read]).ok()?),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}

/// The writing side of a connection.
pub(crate) struct MessageSender {
    stream: OwnedWriteHalf,
    /// The last line was cut off: the next one begins with the end of line that is missing.
    line_incomplete: bool,
}

impl MessageSender {
    /// Sends a message and waits until the peer's buffer has it.
    pub(crate) async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.send_line(&encode_line(message)).await
    }

    /// Sends a message that is already encoded as a line.
    pub(crate) async fn send_line(&mut self, line: &[u8]) -> io::Result<()> {
        if std::mem::replace(&mut self.line_incomplete, false) {
            self.stream.write_all(b"\n").await?;
        }
        self.stream.write_all(line).await
    }

    /// Sends a message if the peer's buffer has room. Progress messages may be lost: a later one replaces them.
    pub(crate) fn try_send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut bytes = encode_line(message);
        if self.line_incomplete {
            bytes.insert(0, b'\n');
        }
        // Not through tokio: it reports a new stream as not ready until its reactor has polled it.
        let stream: &UnixStream = self.stream.as_ref();
        match rustix::net::send(stream, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(written) => {
                self.line_incomplete = written < bytes.len();
                Ok(())
            }
            Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Splits a connection into its two sides.
pub(crate) fn split(stream: UnixStream, buffer: LineBuffer) -> (MessageReceiver, MessageSender) {
    let (read_half, write_half) = stream.into_split();
    (
        MessageReceiver { stream: read_half, buffer, pending: std::collections::VecDeque::new() },
        MessageSender { stream: write_half, line_incomplete: false },
    )
}
