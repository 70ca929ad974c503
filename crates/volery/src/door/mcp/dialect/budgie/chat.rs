//! What `--verbose` writes: the whole of a chat, for people, beside the session's own directory.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use domain::run::Stream;

use super::super::super::call::Call;
use crate::app::{ReadOutput, RunView};

/// The most of each stream.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Writes `chat-ID.txt` into the folder of the run's session; says so on the error stream if it cannot.
pub(super) async fn write(call: &Call<'_>, sessions: &Path, run: &RunView, prompt: &str) {
    let mut text = format!("# {} asked {}:\n\n{prompt}\n", run.caller, run.agent);
    for (stream, name) in [(Stream::Stdout, "standard output"), (Stream::Stderr, "standard error")] {
        let ask = ReadOutput { run: run.run_id.to_string(), stream, offset: 0, max: OUTPUT_BYTES_MAX };
        let page = call.door.app.read_output(ask).await;
        let page = page.map_or_else(|error| error.to_string(), |page| page.text);
        text.push_str(&format!("\n# {name}:\n\n{page}\n"));
    }
    text.push_str(&format!("\n# {}\n", run.explanation));
    // The id is ours: whatever a caller calls its session is in no path.
    let folder = sessions.join(run.session.as_deref().unwrap_or(&run.short_id));
    let path = folder.join(format!("chat-{}.txt", run.short_id));
    let written = DirBuilder::new().recursive(true).mode(0o700).create(&folder).and_then(|()| {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&path)?.write_all(text.as_bytes())
    });
    if let Err(error) = written {
        // Nobody reads what cannot be written.
        let _ = writeln!(std::io::stderr().lock(), "could not write {}: {error}", path.display());
    }
}
