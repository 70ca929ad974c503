//! What the agent writes: read concurrently from both streams in bounded pieces, masked, spooled, understood.

use backend::contract::{Answer, Conclusion, Decision, Exit, Reader, Report};
use domain::run::{Event, RunSpec, Stream};
use domain::secret::{Redactor, StreamRedactor};
use journal::spool::Wrote;
use journal::{RunDir, SpoolWriter, StoreError};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::desk::Seen;

/// How much is read at once. With the channel's bound this is all that is ever held of a stream.
const CHUNK_BYTES: usize = 64 << 10;

/// The two spools of a run and the reader of its backend.
pub(super) struct Output {
    stdout: SpoolWriter,
    stderr: SpoolWriter,
    stdout_masked: StreamRedactor,
    stderr_masked: StreamRedactor,
    reader: Box<dyn Reader>,
    /// Something other than white space was written to standard output.
    pub(super) usable: bool,
}

impl Output {
    pub(super) fn create(
        dir: &RunDir,
        spec: &RunSpec,
        redactor: &Redactor,
        reader: Box<dyn Reader>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            stdout: SpoolWriter::create(dir, Stream::Stdout, spec.limits.output_bytes)?,
            stderr: SpoolWriter::create(dir, Stream::Stderr, spec.limits.output_bytes)?,
            stdout_masked: StreamRedactor::new(redactor),
            stderr_masked: StreamRedactor::new(redactor),
            reader,
            usable: false,
        })
    }

    /// For an acceptance command, of which the number and the reader are given.
    pub(super) fn create_for_acceptance(
        dir: &RunDir,
        spec: &RunSpec,
        redactor: &Redactor,
        (number, reader): (usize, Box<dyn Reader>),
    ) -> Result<Self, StoreError> {
        let spool =
            |stream| SpoolWriter::create_for_acceptance(dir, stream, number, spec.limits.output_bytes);
        Ok(Self {
            stdout: spool(Stream::Stdout)?,
            stderr: spool(Stream::Stderr)?,
            stdout_masked: StreamRedactor::new(redactor),
            stderr_masked: StreamRedactor::new(redactor),
            reader,
            usable: false,
        })
    }

    /// Returns a piece of output without its secrets; the rest of what may be one is held back.
    pub(super) fn mask(&mut self, stream: Stream, bytes: &[u8]) -> Vec<u8> {
        match stream {
            Stream::Stdout => self.stdout_masked.feed(bytes),
            Stream::Stderr => self.stderr_masked.feed(bytes),
        }
    }

    /// Writes what was held back when a stream ends.
    pub(super) fn close(&mut self, stream: Stream) -> Result<Heard, StoreError> {
        let rest = match stream {
            Stream::Stdout => self.stdout_masked.finish(),
            Stream::Stderr => self.stderr_masked.finish(),
        };
        self.write(stream, &rest)
    }

    /// Takes a masked piece of output in.
    pub(super) fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<Heard, StoreError> {
        if bytes.is_empty() {
            return Ok(Heard::default());
        }
        let spool = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let wrote = spool.write(&self.reader.kept(stream, bytes))?;
        if stream == Stream::Stdout {
            self.usable = self.usable || bytes.iter().any(|byte| !byte.is_ascii_whitespace());
        }
        let reports = self.reader.feed(stream, bytes);
        let truncated = match wrote {
            Wrote::TruncationBegan { kept_bytes } => Some(Event::OutputTruncated { stream, kept_bytes }),
            _ => None,
        };
        Ok(Heard { reports, truncated })
    }

    /// Tells whether people may be shown what the process writes.
    pub(super) fn is_plain(&self) -> bool {
        self.reader.is_plain()
    }

    /// Tells the reader what was decided, and returns what the agent is to be told.
    pub(super) fn decide(&mut self, ask: &str, decision: &Decision) -> Vec<Report> {
        self.reader.decide(ask, decision)
    }

    /// Returns what to tell an agent that shall stop by itself; nothing if it understands no word.
    pub(super) fn ask_to_stop(&mut self) -> Vec<Report> {
        self.reader.ask_to_stop()
    }

    pub(super) fn conclude(&mut self, exit: Exit) -> Conclusion {
        self.reader.conclude(exit)
    }
}

/// What a piece of output meant.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) reports: Vec<Report>,
    pub(super) truncated: Option<Event>,
}

/// Tells whether an answer is worth calling the run partial.
pub(super) fn is_usable(answer: &Answer, stdout_usable: bool) -> bool {
    match answer {
        Answer::Stdout => stdout_usable,
        Answer::Text(text) => !text.trim().is_empty(),
        Answer::Nothing => false,
    }
}

/// Reads a stream to its end and hands the pieces to the desk, which takes them at its own pace.
pub(super) async fn pump((attempt, stream): (usize, Stream), pipe: pipe::Receiver, desk: mpsc::Sender<Seen>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        if pipe.readable().await.is_err() {
            break;
        }
        match pipe.try_read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => {
                if desk.send(Seen::Output(attempt, stream, chunk[..read].to_vec())).await.is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    // A desk that is gone no longer needs to know.
    let _ = desk.send(Seen::OutputClosed(attempt, stream)).await;
}

/// Writes to the agent's input: this first, then what comes, and then the end. An agent that does not read is its own
/// affair.
pub(super) async fn feed(mut pipe: pipe::Sender, first: Vec<u8>, mut more: mpsc::Receiver<Vec<u8>>) {
    use tokio::io::AsyncWriteExt;
    // EPIPE means that the agent ended or closed its input.
    let mut open = pipe.write_all(&first).await.is_ok();
    while open && let Some(bytes) = more.recv().await {
        open = pipe.write_all(&bytes).await.is_ok();
    }
}
