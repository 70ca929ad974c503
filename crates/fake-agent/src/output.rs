//! Writing without buffers, so that what was said is out before the next step, and nothing is said at the end.

/// A stream of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Writes a line.
pub(crate) fn line(stream: Stream, text: &str) {
    bytes(stream, format!("{text}\n").as_bytes());
}

/// Writes everything. A reader that is gone is nobody's loss here.
pub(crate) fn bytes(stream: Stream, mut left: &[u8]) {
    while !left.is_empty() {
        // Through the descriptors, past the buffers of the library.
        let written = rustix::io::retry_on_intr(|| match stream {
            Stream::Stdout => rustix::io::write(std::io::stdout(), left),
            Stream::Stderr => rustix::io::write(std::io::stderr(), left),
        });
        match written {
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            Err(_) => return,
        }
    }
}
