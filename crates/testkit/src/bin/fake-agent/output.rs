//! Unbuffered output: each step's output is written before the next step, and nothing is written at exit.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandardStream {
    Stdout,
    Stderr,
}

pub(crate) fn write_line(stream: StandardStream, text: &str) {
    write_bytes(stream, format!("{text}\n").as_bytes());
}

/// Writes all bytes. Ignores a closed pipe.
pub(crate) fn write_bytes(stream: StandardStream, mut remaining: &[u8]) {
    while !remaining.is_empty() {
        // Writes directly to the descriptors, bypassing the buffers of the standard library.
        let written = rustix::io::retry_on_intr(|| match stream {
            StandardStream::Stdout => rustix::io::write(std::io::stdout(), remaining),
            StandardStream::Stderr => rustix::io::write(std::io::stderr(), remaining),
        });
        match written {
            Ok(count) => remaining = remaining.get(count..).unwrap_or_default(),
            Err(_) => return,
        }
    }
}
