//! The bytes: one thread that reads lines and one that writes them.
//!
//! Threads, because the descriptors belong to the client: they may be pipes, sockets, files or a terminal, and to
//! make them non-blocking would change them for whoever shares them. A thread that is stuck in a read does not hold
//! up the end of the process.

use std::io::{ErrorKind, Read, Write};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::id_scan::IdScan;
use super::line::{self, Incoming, LINE_BYTES_MAX};

/// Messages that were read and not yet taken; more are left in the pipe.
const READ_AHEAD: usize = 16;
const CHUNK_BYTES: usize = 64 << 10;
/// A line buffer that grew beyond this is given back after the line.
const KEPT_BYTES: usize = 256 << 10;
const STACK_BYTES: usize = 256 << 10;

/// A line to be written, and who wants to know when it was.
#[derive(Debug)]
struct Outgoing {
    line: Vec<u8>,
    written: oneshot::Sender<()>,
}

/// The way to standard output.
///
/// The queue has no bound of its own, since a message must take its place in order at once; whoever sends waits
/// until it was written, which bounds it by the number of requests in flight.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    queue: mpsc::UnboundedSender<Outgoing>,
    closed: CancellationToken,
}

/// Nobody reads what is written any more.
#[derive(Debug, thiserror::Error)]
#[error("the client has closed its end of the output")]
pub(super) struct OutputClosed;

impl Outbox {
    /// Puts a line into the queue. The receiver tells when it was written, or fails when it never will be.
    pub(super) fn push(&self, line: Vec<u8>) -> oneshot::Receiver<()> {
        let (written, receiver) = oneshot::channel();
        // When the writer is gone, so is the other half of the channel, which the receiver reports.
        let _ = self.queue.send(Outgoing { line, written });
        receiver
    }

    /// Waits until everything that was pushed before has been written, or cannot be.
    pub(super) async fn flush(&self) {
        // An empty line stands for no line at all.
        let _ = self.push(Vec::new()).await;
    }

    /// Waits until the client has closed its end.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// Starts the thread that writes.
pub(super) fn start_writer(output: impl Write + Send + 'static) -> std::io::Result<Outbox> {
    let (queue, receiver) = mpsc::unbounded_channel();
    let closed = CancellationToken::new();
    let outbox = Outbox { queue, closed: closed.clone() };
    let thread = std::thread::Builder::new().name("mcp-writer".into()).stack_size(STACK_BYTES);
    thread.spawn(move || {
        write_lines(output, receiver);
        closed.cancel();
    })?;
    Ok(outbox)
}

/// Starts the thread that reads. The channel closes at the end of the input.
pub(super) fn start_reader(input: impl Read + Send + 'static) -> std::io::Result<mpsc::Receiver<Incoming>> {
    let (sender, receiver) = mpsc::channel(READ_AHEAD);
    // Parsing recurses; serde_json stops at 128 levels, for which this is plenty.
    let thread = std::thread::Builder::new().name("mcp-reader".into()).stack_size(4 * STACK_BYTES);
    thread.spawn(move || read_lines(input, &sender))?;
    Ok(receiver)
}

/// Writes until the queue closes or the client does. Any error means that nobody reads: there is no one to tell.
fn write_lines(mut output: impl Write, mut queue: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some(Outgoing { mut line, written }) = queue.blocking_recv() {
        if !line.is_empty() {
            line.push(b'\n');
            // One write per message, so that lines of two writers on one pipe do not mix.
            if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                return;
            }
        }
        // Nobody needs to wait for it.
        let _ = written.send(());
    }
}

/// Reads to the end of the input, or until nobody takes the messages.
fn read_lines(mut input: impl Read, sender: &mpsc::Sender<Incoming>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut reader = LineReader::default();
    loop {
        let count = match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for incoming in reader.feed(&chunk[..count]) {
            if sender.blocking_send(incoming).is_err() {
                return;
            }
        }
    }
    if let Some(incoming) = reader.end_line() {
        // Nobody takes it: the door is already leaving.
        let _ = sender.blocking_send(incoming);
    }
}

/// Cuts bytes into lines without ever holding more than one line of the longest length.
#[derive(Debug, Default)]
struct LineReader {
    line: Vec<u8>,
    /// Set while a line that is too long is drained.
    oversized: Option<IdScan>,
}

impl LineReader {
    fn feed(&mut self, mut bytes: &[u8]) -> Vec<Incoming> {
        let mut found = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..end]);
            found.extend(self.end_line());
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
        found
    }

    fn extend(&mut self, bytes: &[u8]) {
        if let Some(scan) = &mut self.oversized {
            scan.feed(bytes);
        } else if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            let mut scan = IdScan::default();
            scan.feed(&self.line);
            scan.feed(bytes);
            self.line = Vec::new();
            self.oversized = Some(scan);
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self) -> Option<Incoming> {
        if let Some(scan) = self.oversized.take() {
            return line::refuse_oversized(scan.finish());
        }
        let incoming = line::read(&self.line);
        self.line.clear();
        self.line.shrink_to(KEPT_BYTES);
        incoming
    }
}
