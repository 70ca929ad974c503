//! The agent's output: read concurrently from both streams in bounded chunks, masked, spooled and parsed.

use backends::contract::{AgentAnswer, AgentReport, Conclusion, Exit, OutputReader, PermissionDecision};
use domain::run::{Event, RunSpec, StdStream};
use domain::secret::{Redactor, StreamRedactor};
use journal::spool::SpoolWrite;
use journal::{RunDir, SpoolWriter, StoreError};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::supervisor::WorkerEvent;

/// How much is read at once. With the channel's bound this limits the memory for a stream.
const CHUNK_BYTES: usize = 64 << 10;

/// The two spools of a run and the reader of its backend.
pub(super) struct AgentOutput {
    stdout: SpoolWriter,
    stderr: SpoolWriter,
    stdout_redactor: StreamRedactor,
    stderr_redactor: StreamRedactor,
    reader: Box<dyn OutputReader>,
    /// The agent wrote something other than white space to standard output.
    pub(super) has_output: bool,
}

impl AgentOutput {
    pub(super) fn create(
        dir: &RunDir,
        spec: &RunSpec,
        redactor: &Redactor,
        reader: Box<dyn OutputReader>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            stdout: SpoolWriter::create(dir, StdStream::Stdout, spec.limits.output_bytes)?,
            stderr: SpoolWriter::create(dir, StdStream::Stderr, spec.limits.output_bytes)?,
            stdout_redactor: StreamRedactor::new(redactor),
            stderr_redactor: StreamRedactor::new(redactor),
            reader,
            has_output: false,
        })
    }

    /// Creates the output of an acceptance command with this number and reader.
    pub(super) fn create_for_acceptance(
        dir: &RunDir,
        spec: &RunSpec,
        redactor: &Redactor,
        (number, reader): (usize, Box<dyn OutputReader>),
    ) -> Result<Self, StoreError> {
        let spool =
            |stream| SpoolWriter::create_for_acceptance(dir, stream, number, spec.limits.output_bytes);
        Ok(Self {
            stdout: spool(StdStream::Stdout)?,
            stderr: spool(StdStream::Stderr)?,
            stdout_redactor: StreamRedactor::new(redactor),
            stderr_redactor: StreamRedactor::new(redactor),
            reader,
            has_output: false,
        })
    }

    /// Masks the secrets in a chunk of output. Holds back its end if that may be the beginning of a secret.
    pub(super) fn mask(&mut self, stream: StdStream, bytes: &[u8]) -> Vec<u8> {
        match stream {
            StdStream::Stdout => self.stdout_redactor.feed(bytes),
            StdStream::Stderr => self.stderr_redactor.feed(bytes),
        }
    }

    /// Writes the held back bytes when a stream ends.
    pub(super) fn close(&mut self, stream: StdStream) -> Result<ParsedOutput, StoreError> {
        let rest = match stream {
            StdStream::Stdout => self.stdout_redactor.finish(),
            StdStream::Stderr => self.stderr_redactor.finish(),
        };
        self.write(stream, &rest)
    }

    /// Spools and parses a masked chunk of output.
    pub(super) fn write(&mut self, stream: StdStream, bytes: &[u8]) -> Result<ParsedOutput, StoreError> {
        if bytes.is_empty() {
            return Ok(ParsedOutput::default());
        }
        let spool = match stream {
            StdStream::Stdout => &mut self.stdout,
            StdStream::Stderr => &mut self.stderr,
        };
        let write_result = spool.write(&self.reader.redact(stream, bytes))?;
        if stream == StdStream::Stdout {
            self.has_output = self.has_output || bytes.iter().any(|byte| !byte.is_ascii_whitespace());
        }
        let reports = self.reader.feed(stream, bytes);
        let truncated = match write_result {
            SpoolWrite::TruncationBegan { retained_bytes } => {
                Some(Event::OutputTruncated { stream, retained_bytes })
            }
            _ => None,
        };
        Ok(ParsedOutput { reports, truncated })
    }

    /// Returns whether the output of the process is meant for people.
    pub(super) fn is_plain(&self) -> bool {
        self.reader.is_plain_text()
    }

    /// Passes a decision to the reader, and returns what to send to the agent.
    pub(super) fn decide(&mut self, ask: &str, decision: &PermissionDecision) -> Vec<AgentReport> {
        self.reader.decide(ask, decision)
    }

    /// Returns the message that asks the agent to stop; empty if its protocol has none.
    pub(super) fn ask_to_stop(&mut self) -> Vec<AgentReport> {
        self.reader.ask_to_stop()
    }

    pub(super) fn conclude(&mut self, exit: Exit) -> Conclusion {
        self.reader.conclude(exit)
    }
}

/// The reports that a chunk of output contained.
#[derive(Debug, Default)]
pub(super) struct ParsedOutput {
    pub(super) reports: Vec<AgentReport>,
    pub(super) truncated: Option<Event>,
}

/// Returns whether there is an answer, so that a run that failed counts as partial.
pub(super) fn has_usable_answer(answer: &AgentAnswer, stdout_has_output: bool) -> bool {
    match answer {
        AgentAnswer::Stdout => stdout_has_output,
        AgentAnswer::Text(text) => !text.trim().is_empty(),
        AgentAnswer::Nothing => false,
    }
}

/// Reads a stream to its end and sends the chunks to the supervisor. The bounded channel slows the reader down.
pub(super) async fn forward_output(
    (attempt, stream): (usize, StdStream),
    pipe: pipe::Receiver,
    events_tx: mpsc::Sender<WorkerEvent>,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        if pipe.readable().await.is_err() {
            break;
        }
        match pipe.try_read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => {
                if events_tx.send(WorkerEvent::Output(attempt, stream, chunk[..read].to_vec())).await.is_err()
                {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    // If the supervisor is gone, nobody needs this event.
    let _ = events_tx.send(WorkerEvent::OutputClosed(attempt, stream)).await;
}

/// Writes to the agent's input: first these bytes, then further messages, and then closes it. Ignores an agent that
/// does not read.
pub(super) async fn write_input(mut pipe: pipe::Sender, first: Vec<u8>, mut more: mpsc::Receiver<Vec<u8>>) {
    use tokio::io::AsyncWriteExt;
    // EPIPE means that the agent ended or closed its input.
    let mut open = pipe.write_all(&first).await.is_ok();
    while open && let Some(bytes) = more.recv().await {
        open = pipe.write_all(&bytes).await.is_ok();
    }
}
