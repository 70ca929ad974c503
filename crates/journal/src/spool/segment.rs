//! The segments of a spool on disk.
//!
//! A tail begins with a line that holds its offset, and is renamed into place with it. A file that a reader has open
//! is never overwritten, so the reader sees old bytes or new ones but never a mixture.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use domain::run::StdStream;

use crate::run_dir::RunDir;
use crate::store_error::{StoreError, failed};

const HEADER_TEXT: &str = "volery tail from byte ";
const HEADER_DIGITS: usize = 20;
/// The length of the line before a tail's bytes.
pub(super) const HEADER_BYTES: u64 = (HEADER_TEXT.len() + HEADER_DIGITS + 1) as u64;

/// One open segment of a spool.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) file: File,
    /// `None` for the head, else which of the two tails it is.
    pub(super) tail: Option<usize>,
    pub(super) start: u64,
    pub(super) length: u64,
}

impl Segment {
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }

    /// Reads at a stream offset within this segment.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let within = offset - self.start;
        let length = usize::try_from(self.length - within).unwrap_or(usize::MAX).min(buffer.len());
        self.file.read_at(&mut buffer[..length], within + self.header_bytes())
    }

    fn header_bytes(&self) -> u64 {
        if self.tail.is_some() { HEADER_BYTES } else { 0 }
    }
}

/// Returns the header line of a tail.
pub(super) fn header(start: u64) -> String {
    format!("{HEADER_TEXT}{start:0width$}\n", width = HEADER_DIGITS)
}

pub(super) fn head_path(dir: &RunDir, spool: &str) -> PathBuf {
    dir.path().join(spool)
}

pub(super) fn tail_path(dir: &RunDir, spool: &str, tail: usize) -> PathBuf {
    dir.path().join(format!("{spool}.tail{tail}"))
}

pub(super) fn stream_name(stream: StdStream) -> &'static str {
    match stream {
        StdStream::Stdout => "stdout",
        StdStream::Stderr => "stderr",
    }
}

/// Opens the existing segments, in stream order and without overlap.
pub(super) fn open_all(dir: &RunDir, spool: &str) -> Result<Vec<Segment>, StoreError> {
    let mut segments = Vec::new();
    for tail in [0, 1] {
        let path = tail_path(dir, spool, tail);
        let Some(file) = open_if_exists(&path).map_err(failed("open", &path))? else { continue };
        // A tail without its header was torn by a power loss, and its offset is unknown.
        if let Some(start) = read_header(&file) {
            segments.push(Segment { file, tail: Some(tail), start, length: 0 });
        }
    }
    let path = head_path(dir, spool);
    if let Some(file) = open_if_exists(&path).map_err(failed("open", &path))? {
        segments.push(Segment { file, tail: None, start: 0, length: 0 });
    }
    // The newest is measured first: by then the older ones are complete. Otherwise there would seem to be a gap.
    segments.sort_by_key(|segment| std::cmp::Reverse((segment.start, segment.tail)));
    for segment in &mut segments {
        let size = segment.file.metadata().map_err(failed("look at", &path))?.len();
        segment.length = size.saturating_sub(segment.header_bytes());
    }
    segments.reverse();
    let mut end = 0;
    segments.retain(|segment| {
        let follows = segment.start >= end;
        if follows {
            end = segment.end();
        }
        follows
    });
    Ok(segments)
}

fn open_if_exists(path: &std::path::Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_header(file: &File) -> Option<u64> {
    let mut bytes = [0; HEADER_BYTES as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    text.strip_prefix(HEADER_TEXT)?.strip_suffix('\n')?.parse().ok()
}
