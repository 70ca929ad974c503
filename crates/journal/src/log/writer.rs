//! Appends to a log. The run's lock guarantees a single writer at a time; each writer has its own epoch.
//!
//! After a failed write or fsync the state of the disk is unknown, so nothing further is written: the run ends, and
//! the next process that inspects the run takes over with a new epoch.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use domain::Timestamp;
use domain::run::{Ending, Envelope, Event, RunSpec, RunState};
use domain::secret::Redactor;
use domain::size;
use rustix::fs::OFlags;

use crate::durable::{create_private, fresh_path};
use crate::event_line::{self, LINE_BYTES_MAX};
use crate::event_texts;
use crate::log::LogReader;
use crate::run_dir::{RunDir, has_literal_values};
use crate::run_lock::RunLock;
use crate::store_error::{StoreError, failed};

/// The space reserved behind the last line for the end of the run, so that a full disk cannot prevent it.
pub(crate) const RESERVE_BYTES: u64 = 32 << 10;
/// How much more is reserved at a time, so that not every line costs a system call.
pub(crate) const AHEAD_BYTES: u64 = 32 << 10;
/// How deep a recorded value may be nested; readers of JSON stop at 128.
const DEPTH_MAX: usize = 64;
/// The lengths in bytes to which the texts of a too long ending are cut, in turn.
const ENDING_CUTS: [usize; 3] = [64 << 10, 16 << 10, 1 << 10];

/// How far the filesystem has reserved space for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reserve {
    Until(u64),
    /// The filesystem cannot reserve space.
    Impossible,
}

/// Whether a line may use the space that is reserved for the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpaceUse {
    KeepReserve,
    UseReserve,
}

/// The writer of a run's events.
#[derive(Debug)]
pub struct LogWriter {
    dir: RunDir,
    file: File,
    epoch: u32,
    next_seq: u64,
    /// The end of the last whole line.
    end: u64,
    reserve: Reserve,
    state: RunState,
    redactor: Redactor,
    damaged: u64,
    cut_bytes: u64,
    /// The first failure, after which nothing more is written.
    poison: Option<String>,
}

impl LogWriter {
    /// Takes over the log: cuts off the unfinished line of a dead writer and begins a new epoch.
    ///
    /// The lock proves that nobody else writes.
    pub fn open(dir: &RunDir, _lock: &RunLock) -> Result<Self, StoreError> {
        let path = dir.events_path();
        let mut reader = LogReader::open(dir)?;
        let state = reader.fold()?;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(failed("open", &path))?;
        let length = file.metadata().map_err(failed("look at", &path))?.len();
        let position = reader.next_position();
        let mut end = reader.settled_bytes();
        if state.ending().is_some() {
            // The log of an ended run stays as it is, even if only `outcome.json` has the ending.
            end = length;
        } else if end < length {
            file.set_len(end).map_err(failed("cut the torn end of", &path))?;
        }
        Ok(Self {
            dir: dir.clone(),
            file,
            epoch: position.epoch,
            next_seq: position.seq,
            end,
            reserve: Reserve::Until(0),
            state,
            redactor: Redactor::default(),
            damaged: reader.damaged(),
            cut_bytes: length.saturating_sub(end),
            poison: None,
        })
    }

    /// Masks these secrets in every text that is written from now on.
    pub fn redact_with(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// Returns the state of the run according to the whole log.
    pub fn state(&self) -> &RunState {
        &self.state
    }

    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns how many damaged lines were found when the log was opened.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Returns how many bytes of an unfinished line were cut off when the log was opened.
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    pub fn is_poisoned(&self) -> bool {
        self.poison.is_some()
    }

    /// Appends an event. It is not durable before `sync`.
    ///
    /// A full disk refuses it and still has space for the end of the run.
    pub fn append(&mut self, at: Timestamp, event: Event) -> Result<Envelope, StoreError> {
        self.append_using(SpaceUse::KeepReserve, at, event)
    }

    fn append_using(
        &mut self,
        space_use: SpaceUse,
        at: Timestamp,
        mut event: Event,
    ) -> Result<Envelope, StoreError> {
        self.check_open()?;
        if let Event::CallRequested { input, .. } | Event::ToolCalled { input, .. } = &event
            && event_texts::nesting_depth(input, DEPTH_MAX) > DEPTH_MAX
        {
            return Err(StoreError::TooDeep { max: DEPTH_MAX });
        }
        event_texts::rewrite(&mut event, &mut |text| *text = self.redactor.redact(text));
        let envelope = Envelope { seq: self.next_seq, epoch: self.epoch, at, event };
        let path = self.dir.events_path();
        let line = event_line::encode(&envelope).map_err(|source| StoreError::Malformed { path, source })?;
        if line.len() > LINE_BYTES_MAX {
            return Err(StoreError::TooLarge { bytes: line.len(), max: LINE_BYTES_MAX });
        }
        self.ensure_space(line.len() as u64, space_use)?;
        self.write_line(&line)?;
        self.next_seq = self.next_seq.saturating_add(1);
        self.state.apply(&envelope);
        Ok(envelope)
    }

    /// Makes everything appended so far durable.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.check_poison()?;
        let synced = self.dir.disk().sync_content(&self.file);
        synced.map_err(|error| self.poisoned("make durable", error))
    }

    /// Ends the run, durably, and writes the files that follow from the ending.
    pub fn finish(&mut self, at: Timestamp, ending: Ending) -> Result<Envelope, StoreError> {
        let envelope = self.append_ending(at, ending)?;
        self.write_copies(&envelope);
        self.hide_values();
        Ok(envelope)
    }

    /// Writes the files that follow from an ending, after [`Self::append_ending`]. The spec is read again only if it
    /// holds values to hide.
    pub fn finish_files(&self, spec: &RunSpec, ended: &Envelope) {
        self.write_copies(ended);
        if has_literal_values(spec) {
            self.hide_values();
        }
    }

    /// Frees unused reserved space, and copies the ending to a file that is faster to read. The log has the ending,
    /// so failures do not matter.
    fn write_copies(&self, ended: &Envelope) {
        let _ = self.file.set_len(self.end);
        let _ = self.write_outcome(ended);
    }

    /// Only after the end, because another worker may have needed the values. A failure is repaired by the process
    /// that adds the run to the index.
    fn hide_values(&self) {
        let _ = self.dir.read_spec().and_then(|spec| self.dir.redact_values(&spec));
    }

    /// Ends the run, durably. Nothing can be appended afterwards.
    ///
    /// An ending that does not fit into a line, or into the space left on the disk, is cut rather than refused,
    /// because every run must end.
    pub fn append_ending(&mut self, at: Timestamp, ending: Ending) -> Result<Envelope, StoreError> {
        let mut ending = Box::new(ending);
        // The answer has the same value as text.
        ending.structured.take_if(|value| event_texts::nesting_depth(value, DEPTH_MAX) > DEPTH_MAX);
        let mut cuts = ENDING_CUTS.iter();
        let envelope = loop {
            let ended = Event::Ended { ending: ending.clone() };
            match (self.append_using(SpaceUse::UseReserve, at, ended), cuts.next()) {
                (Err(error), Some(cut)) if self.poison.is_none() && error.is_size_limit() => {
                    ending = cut_ending(ending, *cut);
                }
                (appended, _) => break appended?,
            }
        };
        self.sync()?;
        Ok(envelope)
    }

    fn write_outcome(&self, envelope: &Envelope) -> io::Result<()> {
        let line = event_line::encode(envelope)?;
        let temporary = fresh_path(self.dir.path(), "outcome");
        let file = create_private(&temporary)?;
        let written = self.dir.disk().write_all(&file, &line);
        let moved = written.and_then(|()| fs::rename(&temporary, self.dir.outcome_path()));
        if moved.is_err() {
            // The whole directory is removed eventually.
            let _ = fs::remove_file(&temporary);
        }
        moved
    }

    /// Ensures that a line fits and that the last line will still fit after it.
    fn ensure_space(&mut self, line_bytes: u64, space_use: SpaceUse) -> Result<(), StoreError> {
        let Reserve::Until(until) = self.reserve else { return Ok(()) };
        let (reserve_bytes, ahead) = match space_use {
            SpaceUse::KeepReserve => (RESERVE_BYTES, AHEAD_BYTES),
            SpaceUse::UseReserve => (0, 0),
        };
        if self.end + line_bytes + reserve_bytes <= until {
            return Ok(());
        }
        let requested_bytes = line_bytes + reserve_bytes + ahead;
        let reserved = self.dir.disk().reserve(&self.file, self.end, requested_bytes);
        self.reserve = match reserved.map_err(failed("reserve space in", &self.dir.events_path()))? {
            true => Reserve::Until(self.end + requested_bytes),
            false => Reserve::Impossible,
        };
        Ok(())
    }

    fn write_line(&mut self, line: &[u8]) -> Result<(), StoreError> {
        let written = match self.dir.disk().write(&self.file, line) {
            Ok(taken) if taken == line.len() => {
                self.end += taken as u64;
                return Ok(());
            }
            Ok(_) => io::ErrorKind::StorageFull.into(),
            Err(error) => error,
        };
        // If this fails too, the next writer cuts the rest of the line.
        let _ = self.file.set_len(self.end);
        Err(self.poisoned("write", written))
    }

    fn poisoned(&mut self, attempt: &'static str, error: io::Error) -> StoreError {
        self.poison = Some(format!("could not {attempt} it: {error}"));
        failed(attempt, &self.dir.events_path())(error)
    }

    fn check_open(&self) -> Result<(), StoreError> {
        self.check_poison()?;
        match self.state.ending() {
            Some(_) => Err(StoreError::Ended { path: self.dir.events_path() }),
            None => Ok(()),
        }
    }

    fn check_poison(&self) -> Result<(), StoreError> {
        match &self.poison {
            Some(first) => Err(StoreError::Poisoned { path: self.dir.events_path(), first: first.clone() }),
            None => Ok(()),
        }
    }
}

fn cut_ending(mut ending: Box<Ending>, max: usize) -> Box<Ending> {
    ending.structured = None;
    let mut event = Event::Ended { ending };
    event_texts::rewrite(&mut event, &mut |text| *text = size::head(text, max).to_owned());
    match event {
        Event::Ended { ending } => ending,
        _ => unreachable!("changing texts keeps the kind of an event"),
    }
}
