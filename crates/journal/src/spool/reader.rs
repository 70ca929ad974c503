//! Reads a spool by offsets of the stream, while it is written or afterwards.

use std::io::{self, Write};

use domain::run::Stream;

use super::segment::{self, Segment, head_path, stream_name};
use crate::run_dir::RunDir;
use crate::store_error::{StoreError, failed};

const COPY_BYTES: usize = 64 << 10;

/// A reader of one stream of a run. A spool that is not there is empty.
#[derive(Debug, Clone)]
pub struct SpoolReader {
    dir: RunDir,
    stream: Stream,
}

/// Some bytes of a stream that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolPage {
    /// How many bytes before these were asked for and are not kept.
    pub omitted: u64,
    /// The line that stands for the omitted bytes, with a line break before it where one is needed.
    pub marker: Option<String>,
    /// The offset of the first byte.
    pub start: u64,
    pub bytes: Vec<u8>,
    /// Where to go on; the end of the stream so far when there is nothing more.
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
    pub fn new(dir: &RunDir, stream: Stream) -> Self {
        Self { dir: dir.clone(), stream }
    }

    /// Returns how many bytes the stream has had, kept or not.
    pub fn total_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.segments()?.last().map_or(0, Segment::end))
    }

    /// Returns how many bytes of the stream are kept.
    pub fn kept_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.segments()?.iter().map(|segment| segment.length).sum())
    }

    /// Reads up to `max` bytes from an offset on, or from the next one that is kept.
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

    /// Copies everything that is kept, with a marker where bytes are omitted, and returns how much that was.
    pub fn copy_to(&self, out: &mut dyn Write) -> Result<u64, StoreError> {
        self.copy_from(0, out)
    }

    /// Tells whether the stream is in the one file of its head.
    pub(crate) fn is_one_file(&self) -> Result<bool, StoreError> {
        Ok(matches!(self.segments()?.as_slice(), [Segment { tail: None, .. }]))
    }

    pub(crate) fn head_path(&self) -> std::path::PathBuf {
        head_path(&self.dir, stream_name(self.stream))
    }

    fn segments(&self) -> Result<Vec<Segment>, StoreError> {
        segment::open_all(&self.dir, stream_name(self.stream))
    }

    /// Copies what was there when it began: a stream that is still growing is not chased.
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
        let asked = offset.min(end);
        let Some(first) = segments.iter().position(|segment| asked < segment.end()) else {
            return Ok(SpoolPage {
                omitted: 0,
                marker: None,
                start: end,
                bytes: Vec::new(),
                next_offset: end,
            });
        };
        let start = asked.max(segments[first].start);
        let omitted = start - asked;
        let marker = (omitted > 0).then(|| {
            let open_line = asked > 0 && byte_before(segments, asked) != Some(b'\n');
            format!("{}[volery: {omitted} bytes omitted]\n", if open_line { "\n" } else { "" })
        });
        let bytes = read_across(&segments[first..], start, max).map_err(failed("read", &self.head_path()))?;
        let next_offset = start + bytes.len() as u64;
        Ok(SpoolPage { omitted, marker, start, bytes, next_offset })
    }
}

/// Reads from one piece into the next, up to a gap.
fn read_across(segments: &[Segment], start: u64, max: usize) -> io::Result<Vec<u8>> {
    let mut offset = start;
    let kept: u64 = segments.iter().map(|segment| segment.length).sum();
    let mut bytes = vec![0; max.min(usize::try_from(kept).unwrap_or(usize::MAX))];
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

/// Returns the byte before an offset, if it is kept.
fn byte_before(segments: &[Segment], offset: u64) -> Option<u8> {
    let before = offset.checked_sub(1)?;
    let segment = segments.iter().find(|segment| (segment.start..segment.end()).contains(&before))?;
    let mut byte = [0];
    (segment.read_at(before, &mut byte).ok()? == 1).then_some(byte[0])
}
