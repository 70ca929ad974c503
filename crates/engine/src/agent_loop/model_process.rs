//! The process that calls the model of a loop: one for the whole run, so that its connection is used again. It alone has
//! the key.

use backends::api::model_client::{self, ClientRequest, ModelClientEvent, ModelClientReader};
use domain::size::tail;
use process::{AgentProcess, StartedAgent};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::signal::LoopSignal;

/// How many lines may wait for the process to read them: a request and its cancellation.
const LINES_MAX: usize = 16;
/// How much is read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// How much of the error stream is kept, to explain an unexpected end.
const ERRORS_BYTES_MAX: usize = 4 << 10;

/// The running process.
pub(crate) struct ModelProcess {
    agent: AgentProcess,
    /// `None` once its input is closed.
    input: Option<mpsc::Sender<Vec<u8>>>,
    reader: ModelClientReader,
    errors: String,
}

impl ModelProcess {
    /// Starts to read and feed a process that was started with a model client's launch plan.
    pub(crate) fn attach(
        started: StartedAgent,
        first_line: Vec<u8>,
        signals_tx: &mpsc::Sender<LoopSignal>,
    ) -> std::io::Result<Self> {
        let StartedAgent { agent, stdin, stdout, stderr } = started;
        let stdout = pipe::Receiver::from_owned_fd(stdout)?;
        let stderr = pipe::Receiver::from_owned_fd(stderr)?;
        let (input, lines) = mpsc::channel(LINES_MAX);
        if let Some(stdin) = stdin {
            let stdin = pipe::Sender::from_owned_fd(stdin)?;
            tokio::task::spawn_local(write_lines(stdin, first_line, lines));
        }
        let (output_tx, errors_tx) = (signals_tx.clone(), signals_tx.clone());
        tokio::task::spawn_local(async move {
            forward(stdout, &output_tx, LoopSignal::ModelOutput).await;
            // If the driver is gone, nobody needs this signal.
            let _ = output_tx.send(LoopSignal::ModelClosed).await;
        });
        tokio::task::spawn_local(async move { forward(stderr, &errors_tx, LoopSignal::ModelErrors).await });
        Ok(Self { agent, input: Some(input), reader: ModelClientReader::default(), errors: String::new() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.agent.pid().as_raw_nonzero().get().cast_unsigned()
    }

    /// Sends a request. Returns `false` if the process does not read its input.
    pub(crate) fn request(&self, request: ClientRequest) -> bool {
        self.send(model_client::encode_request(request))
    }

    pub(crate) fn cancel(&self, id: u64) {
        self.send(model_client::encode_cancel(id));
    }

    fn send(&self, line: Vec<u8>) -> bool {
        self.input.as_ref().is_some_and(|input| input.try_send(line).is_ok())
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<ModelClientEvent> {
        self.reader.feed(bytes)
    }

    pub(crate) fn add_errors(&mut self, bytes: &[u8]) {
        self.errors.push_str(&String::from_utf8_lossy(bytes));
        self.errors = tail(&self.errors, ERRORS_BYTES_MAX).to_owned();
    }

    /// Returns what the process wrote to its error stream.
    pub(crate) fn errors(&self) -> &str {
        self.errors.trim()
    }

    /// Closes its input, by which it ends.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    pub(crate) fn agent_mut(&mut self) -> &mut AgentProcess {
        &mut self.agent
    }
}

async fn forward(
    pipe: pipe::Receiver,
    signals_tx: &mpsc::Sender<LoopSignal>,
    signal: impl Fn(Vec<u8>) -> LoopSignal,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        if pipe.readable().await.is_err() {
            return;
        }
        match pipe.try_read(&mut chunk) {
            Ok(0) => return,
            Ok(read) => {
                if signals_tx.send(signal(chunk[..read].to_vec())).await.is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

async fn write_lines(mut pipe: pipe::Sender, first: Vec<u8>, mut lines: mpsc::Receiver<Vec<u8>>) {
    // EPIPE means that the process ended; the end of its output says so too.
    let mut is_open = pipe.write_all(&first).await.is_ok();
    while is_open && let Some(line) = lines.recv().await {
        is_open = pipe.write_all(&line).await.is_ok();
    }
}
