//! Reads and writes lines on two threads.
//!
//! Threads, because the descriptors belong to the client: they may be pipes, sockets, files or a terminal, and making them
//! non-blocking would affect other processes that share them. A thread that is blocked in a read does not delay the exit.

use std::io::{ErrorKind, Read, Write};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::id_scan::IdScan;
use super::jsonrpc_line::{self, Incoming, LINE_BYTES_MAX};

/// Messages that are read ahead; more stay in the pipe.
const READ_AHEAD: usize = 16;
const CHUNK_BYTES: usize = 64 << 10;
/// A line buffer that grew beyond this size shrinks after the line.
const RETAINED_BUFFER_BYTES: usize = 256 << 10;
const STACK_BYTES: usize = 256 << 10;

/// A line to write, and the channel that reports when it was written.
#[derive(Debug)]
struct Outgoing {
    line: Vec<u8>,
    written: oneshot::Sender<()>,
}

/// The queue to standard output.
///
/// Unbounded, because a message must be queued in order immediately. Senders wait until it was written, which limits the
/// queue to the number of requests in flight.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    queue: mpsc::UnboundedSender<Outgoing>,
    closed: CancellationToken,
}

/// The client has closed its end of the output.
#[derive(Debug, thiserror::Error)]
#[error("the client has closed its end of the output")]
pub(super) struct OutputClosed;

impl Outbox {
    /// Queues a line. The receiver resolves when it was written, and fails if it never will be.
    pub(super) fn push(&self, line: Vec<u8>) -> oneshot::Receiver<()> {
        let (written, receiver) = oneshot::channel();
        // If the writer is gone, its half of the channel is dropped too, which the receiver reports.
        let _ = self.queue.send(Outgoing { line, written });
        receiver
    }

    /// Waits until all earlier lines were written, or cannot be.
    pub(super) async fn flush(&self) {
        // An empty line is not written.
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
    // Parsing recurses; this is plenty for the 128 levels that serde_json allows.
    let thread = std::thread::Builder::new().name("mcp-reader".into()).stack_size(4 * STACK_BYTES);
    thread.spawn(move || read_lines(input, &sender))?;
    Ok(receiver)
}

/// Writes until the queue or the output closes. An error means that the client is gone, so it is not reported.
fn write_lines(mut output: impl Write, mut queue: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some(Outgoing { mut line, written }) = queue.blocking_recv() {
        if !line.is_empty() {
            line.push(b'\n');
            // One write per message, so that lines of two writers on one pipe do not mix.
            if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                return;
            }
        }
        // Nobody may be waiting for it.
        let _ = written.send(());
    }
}

/// Reads to the end of the input, or until the receiver is dropped.
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
        // Fails if the server is already stopping.
        let _ = sender.blocking_send(incoming);
    }
}

/// Splits bytes into lines, with at most one line of the maximum length in memory.
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
            return jsonrpc_line::refuse_oversized(scan.finish());
        }
        let incoming = jsonrpc_line::read(&self.line);
        self.line.clear();
        self.line.shrink_to(RETAINED_BUFFER_BYTES);
        incoming
    }
}
