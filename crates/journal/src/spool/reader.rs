//! Reads a spool by stream offsets, while it is written or afterwards.

use std::io::{self, Write};

use domain::run::StdStream;

use super::segment::{self, Segment, head_path, stream_name};
use crate::run_dir::RunDir;
use crate::store_error::{StoreError, failed};

const COPY_BYTES: usize = 64 << 10;

/// A reader of one stream of a run. A missing spool is empty.
#[derive(Debug, Clone)]
pub struct SpoolReader {
    dir: RunDir,
    stream: StdStream,
}

/// A contiguous part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolPage {
    /// How many requested bytes before these were dropped.
    pub omitted: u64,
    /// The line that replaces the omitted bytes, preceded by a line break if needed.
    pub marker: Option<String>,
    /// The offset of the first byte.
    pub start: u64,
    pub bytes: Vec<u8>,
    /// The offset from which to continue; the current end of the stream if there is nothing more.
    pub next_offset: u64,
}

impl SpoolPage {
    /// Returns the bytes, after the marker if some were omitted.
    pub fn render(&self) -> Vec<u8> {
        let mut rendered = self.marker.clone().unwrap_or_default().into_bytes();
        rendered.extend_from_slice(&self.bytes);
        rendered
    }
}

impl SpoolReader {
    pub fn new(dir: &RunDir, stream: StdStream) -> Self {
        Self { dir: dir.clone(), stream }
    }

    /// Returns how many bytes were written to the stream, including dropped ones.
    pub fn total_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.segments()?.last().map_or(0, Segment::end))
    }

    /// Returns how many bytes of the stream are stored.
    pub fn retained_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.segments()?.iter().map(|segment| segment.length).sum())
    }

    /// Reads up to `max` bytes from an offset on, or from the next stored one.
    pub fn read(&self, offset: u64, max: usize) -> Result<SpoolPage, StoreError> {
        self.read_in(&self.segments()?, offset, max)
    }

    /// Returns the last `max` bytes, with a marker where some are omitted.
    pub fn tail(&self, max: usize) -> Result<Vec<u8>, StoreError> {
        let mut rendered = Vec::new();
        let from = self.total_bytes()?.saturating_sub(max as u64);
        self.copy_from(from, &mut rendered)?;
        Ok(rendered)
    }

    /// Copies all stored bytes, with a marker where some are omitted, and returns how many bytes were written.
    pub fn copy_to(&self, out: &mut dyn Write) -> Result<u64, StoreError> {
        self.copy_from(0, out)
    }

    /// Returns whether the whole stream is in the head file.
    pub(crate) fn is_one_file(&self) -> Result<bool, StoreError> {
        Ok(matches!(self.segments()?.as_slice(), [Segment { tail: None, .. }]))
    }

    pub(crate) fn head_path(&self) -> std::path::PathBuf {
        head_path(&self.dir, stream_name(self.stream))
    }

    fn segments(&self) -> Result<Vec<Segment>, StoreError> {
        segment::open_all(&self.dir, stream_name(self.stream))
    }

    /// Copies the content at the time of the call, without following a stream that still grows.
    fn copy_from(&self, mut offset: u64, out: &mut dyn Write) -> Result<u64, StoreError> {
        let segments = self.segments()?;
        let mut copied = 0;
        loop {
            let page = self.read_in(&segments, offset, COPY_BYTES)?;
            if page.bytes.is_empty() && page.marker.is_none() {
                return Ok(copied);
            }
            let rendered = page.render();
            out.write_all(&rendered).map_err(failed("copy", &self.head_path()))?;
            copied += rendered.len() as u64;
            offset = page.next_offset;
        }
    }

    fn read_in(&self, segments: &[Segment], offset: u64, max: usize) -> Result<SpoolPage, StoreError> {
        let end = segments.last().map_or(0, Segment::end);
        let requested = offset.min(end);
        let Some(first) = segments.iter().position(|segment| requested < segment.end()) else {
            return Ok(SpoolPage {
                omitted: 0,
                marker: None,
                start: end,
                bytes: Vec::new(),
                next_offset: end,
            });
        };
        let start = requested.max(segments[first].start);
        let omitted = start - requested;
        let marker = (omitted > 0).then(|| {
            let open_line = requested > 0 && byte_before(segments, requested) != Some(b'\n');
            format!("{}[volery: {omitted} bytes omitted]\n", if open_line { "\n" } else { "" })
        });
        let bytes = read_across(&segments[first..], start, max).map_err(failed("read", &self.head_path()))?;
        let next_offset = start + bytes.len() as u64;
        Ok(SpoolPage { omitted, marker, start, bytes, next_offset })
    }
}

/// Reads across adjacent segments, up to a gap.
fn read_across(segments: &[Segment], start: u64, max: usize) -> io::Result<Vec<u8>> {
    let mut offset = start;
    let available: u64 = segments.iter().map(|segment| segment.length).sum();
    let mut bytes = vec![0; max.min(usize::try_from(available).unwrap_or(usize::MAX))];
    let mut filled = 0;
    for segment in segments {
        while (segment.start..segment.end()).contains(&offset) && filled < bytes.len() {
            match segment.read_at(offset, &mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => {
                    filled += read;
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Returns the byte before an offset, if it is stored.
fn byte_before(segments: &[Segment], offset: u64) -> Option<u8> {
    let before = offset.checked_sub(1)?;
    let segment = segments.iter().find(|segment| (segment.start..segment.end()).contains(&before))?;
    let mut byte = [0];
    (segment.read_at(before, &mut byte).ok()? == 1).then_some(byte[0])
}
