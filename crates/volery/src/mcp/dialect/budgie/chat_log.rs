//! `--verbose`: writes the whole chat of a run as text into the session's directory.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use domain::run::StdStream;

use super::super::super::tool_call::ToolCall;
use engine::{ReadOutput, RunView};

/// The size limit of each stream.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Writes `chat-ID.txt` into the folder of the run's session; prints an error to stderr if that fails.
pub(super) async fn write(call: &ToolCall<'_>, sessions: &Path, run: &RunView, prompt: &str) {
    let mut text = format!("# {} asked {}:\n\n{prompt}\n", run.caller, run.agent);
    for (stream, name) in [(StdStream::Stdout, "standard output"), (StdStream::Stderr, "standard error")] {
        let request = ReadOutput { run: run.run_id.to_string(), stream, offset: 0, max: OUTPUT_BYTES_MAX };
        let page = call.handler.engine.ask(request).await;
        let page = page.map_or_else(|error| error.to_string(), |page| page.text);
        text.push_str(&format!("\n# {name}:\n\n{page}\n"));
    }
    text.push_str(&format!("\n# {}\n", run.explanation));
    // Uses Volery's own id, so that a caller's session id is never part of a path.
    let folder = sessions.join(run.session.as_deref().unwrap_or(&run.short_id));
    let path = folder.join(format!("chat-{}.txt", run.short_id));
    let written = DirBuilder::new().recursive(true).mode(0o700).create(&folder).and_then(|()| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&path)?.write_all(text.as_bytes())
    });
    if let Err(error) = written {
        // If standard error is closed, nobody reads it.
        let _ = writeln!(std::io::stderr().lock(), "could not write {}: {error}", path.display());
    }
}
