//! Writes a stream into its spool.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use domain::run::StdStream;

use super::segment::{self, head_path, stream_name, tail_path};
use crate::durable::{create_private, fresh_path};
use crate::run_dir::RunDir;
use crate::store_error::{StoreError, failed};

/// The minimum limit of a spool; smaller ones are raised to it.
pub const SPOOL_BYTES_MIN: u64 = 4096;

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpoolWrite {
    Stored,
    /// With this write the spool began to drop bytes between its beginning and its end. Reported once per spool.
    TruncationBegan {
        retained_bytes: u64,
    },
}

/// The writer of one stream of a run.
#[derive(Debug)]
pub struct SpoolWriter {
    dir: RunDir,
    /// The name of its first file.
    spool: String,
    half: u64,
    quarter: u64,
    file: File,
    /// Which tail is being written; `None` for the head.
    tail: Option<usize>,
    used: u64,
    total: u64,
    truncated: bool,
    poison: Option<String>,
}

impl SpoolWriter {
    /// Creates an empty spool that stores at most `bytes_max`.
    pub fn create(dir: &RunDir, stream: StdStream, bytes_max: u64) -> Result<Self, StoreError> {
        Self::create_with_name(dir, stream_name(stream).to_owned(), bytes_max)
    }

    /// Creates an empty spool for an acceptance command of the run, in addition to those of its agent.
    pub fn create_for_acceptance(
        dir: &RunDir,
        stream: StdStream,
        number: usize,
        bytes_max: u64,
    ) -> Result<Self, StoreError> {
        Self::create_with_name(dir, format!("{}.acceptance{number}", stream_name(stream)), bytes_max)
    }

    fn create_with_name(dir: &RunDir, spool: String, bytes_max: u64) -> Result<Self, StoreError> {
        // Removed and not truncated, because a result may be a hard link to an earlier spool.
        for path in [head_path(dir, &spool), tail_path(dir, &spool, 0), tail_path(dir, &spool, 1)] {
            remove_if_exists(&path).map_err(failed("remove", &path))?;
        }
        let path = head_path(dir, &spool);
        let file = create_private(&path).map_err(failed("create", &path))?;
        Ok(Self::new(dir, spool, bytes_max, file))
    }

    /// Renames the spool of an earlier attempt, so that the next one begins empty; the names contain the attempt's
    /// number.
    pub fn archive_attempt(dir: &RunDir, stream: StdStream, attempt: usize) -> Result<(), StoreError> {
        let spool = stream_name(stream);
        for path in [head_path(dir, spool), tail_path(dir, spool, 0), tail_path(dir, spool, 1)] {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".attempt{attempt}"));
            match fs::rename(&path, path.with_file_name(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("rename", &path)(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Continues the spool of an earlier epoch, or creates one.
    pub fn open_append(dir: &RunDir, stream: StdStream, bytes_max: u64) -> Result<Self, StoreError> {
        let spool = stream_name(stream);
        let segments = segment::open_all(dir, spool)?;
        let Some(last) = segments.last() else { return Self::create(dir, stream, bytes_max) };
        let path = match last.tail {
            Some(tail) => tail_path(dir, spool, tail),
            None => head_path(dir, spool),
        };
        let file = OpenOptions::new().append(true).open(&path).map_err(failed("open", &path))?;
        let contiguous = segments.windows(2).all(|pair| pair[0].end() == pair[1].start);
        Ok(Self {
            tail: last.tail,
            used: last.length,
            total: last.end(),
            truncated: segments[0].start > 0 || !contiguous,
            ..Self::new(dir, spool.to_owned(), bytes_max, file)
        })
    }

    /// Writes a part of the stream. After a failure nothing more is written.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<SpoolWrite, StoreError> {
        if let Some(first) = &self.poison {
            return Err(StoreError::Poisoned { path: self.path(), first: first.clone() });
        }
        let mut wrote = SpoolWrite::Stored;
        while !bytes.is_empty() {
            let written = self.write_some(bytes, &mut wrote).inspect_err(|error| {
                self.poison = Some(format!("could not {error}"));
            })?;
            bytes = &bytes[written..];
        }
        Ok(wrote)
    }

    /// Returns how many bytes were written to the stream, including dropped ones.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    fn new(dir: &RunDir, spool: String, bytes_max: u64, file: File) -> Self {
        let bytes_max = bytes_max.max(SPOOL_BYTES_MIN);
        Self {
            dir: dir.clone(),
            spool,
            half: bytes_max / 2,
            quarter: bytes_max / 4,
            file,
            tail: None,
            used: 0,
            total: 0,
            truncated: false,
            poison: None,
        }
    }

    fn write_some(&mut self, bytes: &[u8], wrote: &mut SpoolWrite) -> Result<usize, StoreError> {
        let capacity = if self.tail.is_none() { self.half } else { self.quarter };
        if self.used >= capacity {
            if self.begin_tail()? {
                *wrote = SpoolWrite::TruncationBegan { retained_bytes: self.half + 2 * self.quarter };
            }
            return Ok(0);
        }
        let length = usize::try_from(capacity - self.used).unwrap_or(usize::MAX).min(bytes.len());
        let written =
            self.dir.disk().write(&self.file, &bytes[..length]).map_err(failed("write", &self.path()))?;
        if written == 0 {
            return Err(failed("write", &self.path())(io::ErrorKind::WriteZero.into()));
        }
        self.used += written as u64;
        self.total += written as u64;
        Ok(written)
    }

    /// Begins the next tail and returns whether this dropped bytes for the first time.
    fn begin_tail(&mut self) -> Result<bool, StoreError> {
        let tail = self.tail.map_or(0, |current| 1 - current);
        let path = tail_path(&self.dir, &self.spool, tail);
        let replaces = path.exists();
        let temporary = fresh_path(self.dir.path(), &self.spool);
        let file = create_private(&temporary).map_err(failed("create", &temporary))?;
        let header = segment::header(self.total);
        let header_written = self.dir.disk().write_all(&file, header.as_bytes());
        if let Err(error) = header_written.and_then(|()| fs::rename(&temporary, &path)) {
            // A remaining file is removed with the run.
            let _ = fs::remove_file(&temporary);
            return Err(failed("write", &path)(error));
        }
        self.file = file;
        self.tail = Some(tail);
        self.used = 0;
        let first = replaces && !self.truncated;
        self.truncated |= replaces;
        Ok(first)
    }

    fn path(&self) -> std::path::PathBuf {
        match self.tail {
            Some(tail) => tail_path(&self.dir, &self.spool, tail),
            None => head_path(&self.dir, &self.spool),
        }
    }
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
