//! Appends to a log. There is one writer at a time, shown by the run's lock; each has its own epoch.
//!
//! After a write or an fsync that failed, nothing is known about the disk any more, so nothing further is
//! written: the run ends, and whoever looks at it next takes over with a new epoch.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use domain::Timestamp;
use domain::run::{Ending, Envelope, Event, RunSpec, State};
use domain::secret::Redactor;
use domain::size;
use rustix::fs::OFlags;

use crate::durable::{create_private, fresh_path};
use crate::line::{self, LINE_BYTES_MAX};
use crate::log::LogReader;
use crate::run_dir::{RunDir, holds_values};
use crate::run_lock::RunLock;
use crate::store_error::{StoreError, failed};
use crate::texts;

/// What is kept free behind the last line for the end of the run, so that a full disk cannot take it.
pub(crate) const RESERVE_BYTES: u64 = 32 << 10;
/// How much further is reserved at a time, so that not every line costs a call.
pub(crate) const AHEAD_BYTES: u64 = 32 << 10;
/// How deep a recorded value may be nested; readers of JSON stop at 128.
const DEPTH_MAX: usize = 64;
/// To how many bytes the texts of an ending that does not fit are cut, in turn.
const ENDING_CUTS: [usize; 3] = [64 << 10, 16 << 10, 1 << 10];

/// How far the disk has promised to take what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reserve {
    Until(u64),
    /// The filesystem promises nothing.
    Impossible,
}

/// Whether a line may use what is kept for the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Ordinary,
    Last,
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
    state: State,
    redactor: Redactor,
    damaged: u64,
    cut_bytes: u64,
    /// The first failure, after which nothing is written.
    poison: Option<String>,
}

impl LogWriter {
    /// Takes over the log: cuts off what a dead writer left unfinished, and begins a new epoch.
    ///
    /// The lock is asked for as a proof that nobody else writes.
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
        let place = reader.next_place();
        let mut end = reader.settled_bytes();
        if state.ending().is_some() {
            // The end of an ended run stays as it is, even if only `outcome.json` has it.
            end = length;
        } else if end < length {
            file.set_len(end).map_err(failed("cut the torn end of", &path))?;
        }
        Ok(Self {
            dir: dir.clone(),
            file,
            epoch: place.epoch,
            next_seq: place.seq,
            end,
            reserve: Reserve::Until(0),
            state,
            redactor: Redactor::default(),
            damaged: reader.damaged(),
            cut_bytes: length.saturating_sub(end),
            poison: None,
        })
    }

    /// Masks these secrets in every text that is written from here on.
    pub fn redact_with(&mut self, redactor: Redactor) {
        self.redactor = redactor;
    }

    /// Returns where the run stands, by everything in the log.
    pub fn state(&self) -> &State {
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
    /// A disk that is full refuses it, and still has room for the end of the run.
    pub fn append(&mut self, at: Timestamp, event: Event) -> Result<Envelope, StoreError> {
        self.append_in(Room::Ordinary, at, event)
    }

    fn append_in(&mut self, room: Room, at: Timestamp, mut event: Event) -> Result<Envelope, StoreError> {
        self.check_open()?;
        if let Event::CallRequested { input, .. } | Event::ToolCalled { input, .. } = &event
            && texts::depth(input, DEPTH_MAX) > DEPTH_MAX
        {
            return Err(StoreError::TooDeep { max: DEPTH_MAX });
        }
        texts::change(&mut event, &mut |text| *text = self.redactor.redact(text));
        let envelope = Envelope { seq: self.next_seq, epoch: self.epoch, at, event };
        let path = self.dir.events_path();
        let line = line::encode(&envelope).map_err(|source| StoreError::Malformed { path, source })?;
        if line.len() > LINE_BYTES_MAX {
            return Err(StoreError::TooLarge { bytes: line.len(), max: LINE_BYTES_MAX });
        }
        self.make_room(line.len() as u64, room)?;
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

    /// Ends the run, durably. Nothing can be appended afterwards.
    ///
    /// An ending that does not fit into a line, or into what is left of the disk, is cut rather than refused: every
    /// run ends.
    pub fn finish(&mut self, at: Timestamp, ending: Ending) -> Result<Envelope, StoreError> {
        let envelope = self.end(at, ending)?;
        self.hide_values();
        Ok(envelope)
    }

    /// Ends a run whose spec the caller knows, so that it is read again only if something in it is to be hidden.
    pub fn finish_of(
        &mut self,
        spec: &RunSpec,
        at: Timestamp,
        ending: Ending,
    ) -> Result<Envelope, StoreError> {
        let envelope = self.end(at, ending)?;
        if holds_values(spec) {
            self.hide_values();
        }
        Ok(envelope)
    }

    /// Only after the end: another worker may have needed them. Whoever puts the run into the index tries it again.
    fn hide_values(&self) {
        let _ = self.dir.read_spec().and_then(|spec| self.dir.hide_values(&spec));
    }

    fn end(&mut self, at: Timestamp, ending: Ending) -> Result<Envelope, StoreError> {
        let mut ending = Box::new(ending);
        // The same value stands in the answer as text.
        ending.structured.take_if(|value| texts::depth(value, DEPTH_MAX) > DEPTH_MAX);
        let mut cuts = ENDING_CUTS.iter();
        let envelope = loop {
            let ended = Event::Ended { ending: ending.clone() };
            match (self.append_in(Room::Last, at, ended), cuts.next()) {
                (Err(error), Some(cut)) if self.poison.is_none() && error.is_size() => {
                    ending = cut_ending(ending, *cut);
                }
                (appended, _) => break appended?,
            }
        };
        self.sync()?;
        // What is reserved and was not needed; a failure costs only space.
        let _ = self.file.set_len(self.end);
        // The log has the ending; the copy is only quicker to read.
        let _ = self.write_outcome(&envelope);
        Ok(envelope)
    }

    fn write_outcome(&self, envelope: &Envelope) -> io::Result<()> {
        let line = line::encode(envelope)?;
        let temporary = fresh_path(self.dir.path(), "outcome");
        let file = create_private(&temporary)?;
        let written = self.dir.disk().write_all(&file, &line);
        let moved = written.and_then(|()| fs::rename(&temporary, self.dir.outcome_path()));
        if moved.is_err() {
            // The whole directory is removed in the end.
            let _ = fs::remove_file(&temporary);
        }
        moved
    }

    /// Sees to it that a line fits, and that the last one will fit behind it.
    fn make_room(&mut self, line_bytes: u64, room: Room) -> Result<(), StoreError> {
        let Reserve::Until(until) = self.reserve else { return Ok(()) };
        let (kept, ahead) = match room {
            Room::Ordinary => (RESERVE_BYTES, AHEAD_BYTES),
            Room::Last => (0, 0),
        };
        if self.end + line_bytes + kept <= until {
            return Ok(());
        }
        let wanted = line_bytes + kept + ahead;
        let reserved = self.dir.disk().reserve(&self.file, self.end, wanted);
        self.reserve = match reserved.map_err(failed("reserve space in", &self.dir.events_path()))? {
            true => Reserve::Until(self.end + wanted),
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
    texts::change(&mut event, &mut |text| *text = size::head(text, max).to_owned());
    match event {
        Event::Ended { ending } => ending,
        _ => unreachable!("changing texts keeps the kind of an event"),
    }
}
