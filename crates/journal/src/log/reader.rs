//! Reads a log that may be growing, torn at its end, damaged in the middle, or contain lines of a fenced writer.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};

use domain::Timestamp;
use domain::run::{Ending, Envelope, Event, RunState};
use serde::{Deserialize, Serialize};

use crate::event_line::{self, LINE_BYTES_MAX, LineError, LogPosition};
use crate::run_dir::{RunDir, read_bounded};
use crate::store_error::{StoreError, failed};

/// How much of the end of a log is searched for its last line.
const TAIL_BYTES: u64 = 2 * LINE_BYTES_MAX as u64;

/// A batch of events from a log.
#[derive(Debug, Clone, PartialEq)]
pub struct EventBatch {
    pub events: Vec<Envelope>,
    /// The sequence number from which to continue.
    pub next_seq: u64,
    /// How many complete lines so far are damaged.
    pub damaged: u64,
    /// How many valid lines so far hold events of a newer version.
    pub unknown: u64,
    /// How many valid lines so far come from a replaced writer or follow the end.
    pub fenced: u64,
    /// The log ends in the middle of a line.
    pub torn: bool,
}

/// Reads the events from a sequence number on.
pub fn read_events(dir: &RunDir, from_seq: u64, max: usize) -> Result<EventBatch, StoreError> {
    let mut reader = LogReader::open(dir)?;
    let mut events = Vec::new();
    while events.len() < max {
        match reader.next_event()? {
            Some(envelope) if envelope.seq >= from_seq => events.push(envelope),
            Some(_) => {}
            None => break,
        }
    }
    Ok(reader.batch(events, from_seq))
}

/// Folds the whole log and returns the state with the number of damaged lines.
///
/// The ending counts even if only `outcome.json` still has it.
pub fn read_state(dir: &RunDir) -> Result<(RunState, u64), StoreError> {
    let mut reader = LogReader::open(dir)?;
    let state = reader.fold()?;
    Ok((state, reader.damaged()))
}

impl RunDir {
    /// Returns how the run ended, if it did: from `outcome.json`, else from the end of the log.
    pub fn ending(&self) -> Result<Option<Ending>, StoreError> {
        if let Some(envelope) = read_outcome(self) {
            return Ok(into_ending(envelope));
        }
        if !self.tail_has_end()? {
            return Ok(None);
        }
        // Only the whole log shows whether a fenced writer wrote that line.
        let (state, _) = read_state(self)?;
        Ok(state.ending().cloned())
    }

    /// Returns when the run ended, if it did: from `outcome.json`, else, between the two writes, from the log.
    pub fn ended_at(&self) -> Option<Timestamp> {
        if let Some(envelope) = read_outcome(self) {
            return Some(envelope.at);
        }
        let (state, _) = read_state(self).ok()?;
        state.ending().and(state.last_event_at)
    }

    fn tail_has_end(&self) -> Result<bool, StoreError> {
        let path = self.events_path();
        match File::open(&path) {
            Ok(file) => tail_has_end(&file).map_err(failed("read", &path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("open", &path)(error)),
        }
    }
}

fn tail_has_end(mut file: &File) -> io::Result<bool> {
    let mut tail = Vec::new();
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    io::Read::read_to_end(&mut io::Read::take(file, TAIL_BYTES), &mut tail)?;
    let ended = |line: &[u8]| event_line::decode(line).is_ok_and(|envelope| is_end(&envelope.event));
    Ok(tail.split_inclusive(|byte| *byte == b'\n').rev().any(ended))
}

/// Returns when a run ended, if it did, from its open log.
pub(crate) fn ended_at(dir: &RunDir, mut log: File) -> Result<Option<Timestamp>, StoreError> {
    let path = dir.events_path();
    if !tail_has_end(&log).map_err(failed("read", &path))? {
        return Ok(None);
    }
    log.seek(SeekFrom::Start(0)).map_err(failed("read", &path))?;
    let state = LogReader::new(dir, Some(log)).fold()?;
    Ok(state.ending().and(state.last_event_at))
}

/// A position between two lines of a log. Another reader can continue there without reading the lines before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCursor {
    /// In bytes.
    offset: u64,
    epoch: u32,
    next_seq: u64,
    /// The number of damaged lines before the position.
    damaged: u64,
    ended: bool,
}

/// A position in a log from which a follower continues as the log grows.
#[derive(Debug)]
pub struct LogReader {
    dir: RunDir,
    file: Option<BufReader<File>>,
    line: Vec<u8>,
    /// The end of the last complete line. A new writer may still cut off what follows.
    settled: u64,
    position: u64,
    epoch: u32,
    next_seq: u64,
    ended: bool,
    /// The ending from `outcome.json`, while the log is searched for it a second time.
    rescued: Option<Envelope>,
    damaged_settled: u64,
    damaged_tail: u64,
    unknown: u64,
    fenced: u64,
    torn: bool,
}

enum LineRead {
    Line,
    TooLong,
    Partial,
    End,
}

impl LogReader {
    /// Starts at the beginning of the log. A log that does not exist yet is empty.
    pub fn open(dir: &RunDir) -> Result<Self, StoreError> {
        let path = dir.events_path();
        match File::open(&path) {
            Ok(file) => Ok(Self::new(dir, Some(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && dir.exists() => Ok(Self::new(dir, None)),
            Err(error) => Err(dir.or_no_such_run(failed("open", &path)(error))),
        }
    }

    /// Continues at a position that an earlier reader of this log returned.
    pub fn open_at(dir: &RunDir, cursor: LogCursor) -> Result<Self, StoreError> {
        let LogCursor { offset, epoch, next_seq, damaged, ended } = cursor;
        Ok(Self { settled: offset, epoch, next_seq, ended, damaged_settled: damaged, ..Self::open(dir)? })
    }

    /// Returns the position after the last event that was read.
    pub fn cursor(&self) -> LogCursor {
        LogCursor {
            offset: self.settled,
            epoch: self.epoch,
            next_seq: self.next_seq,
            damaged: self.damaged_settled,
            ended: self.ended,
        }
    }

    fn new(dir: &RunDir, file: Option<File>) -> Self {
        Self {
            dir: dir.clone(),
            file: file.map(|file| BufReader::with_capacity(64 << 10, file)),
            line: Vec::new(),
            settled: 0,
            position: 0,
            epoch: 0,
            next_seq: 0,
            ended: false,
            rescued: None,
            damaged_settled: 0,
            damaged_tail: 0,
            unknown: 0,
            fenced: 0,
            torn: false,
        }
    }

    /// Returns the next event, or `None` when there is none yet.
    pub fn next_event(&mut self) -> Result<Option<Envelope>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        self.rewind()?;
        loop {
            match self.next_line().map_err(failed("read", &self.dir.events_path()))? {
                LineRead::Line => match event_line::decode(&self.line) {
                    Ok(envelope) => {
                        self.settle();
                        if self.admit(LogPosition { seq: envelope.seq, epoch: envelope.epoch }) {
                            self.ended = is_end(&envelope.event);
                            return Ok(Some(envelope));
                        }
                        self.fenced += 1;
                    }
                    Err(LineError::Unknown { position, .. }) => {
                        self.settle();
                        self.unknown += 1;
                        position.map(|position| self.admit(position));
                    }
                    Err(LineError::NoSum | LineError::WrongSum) => self.damaged_tail += 1,
                },
                LineRead::TooLong => self.damaged_tail += 1,
                LineRead::Partial | LineRead::End if self.rescue()? => {}
                LineRead::Partial | LineRead::End => return Ok(self.take_rescued()),
            }
        }
    }

    /// Returns up to `max` further events.
    pub fn read(&mut self, max: usize) -> Result<EventBatch, StoreError> {
        let mut events = Vec::new();
        while events.len() < max {
            match self.next_event()? {
                Some(envelope) => events.push(envelope),
                None => break,
            }
        }
        Ok(self.batch(events, 0))
    }

    /// Returns whether the last event of the run was read.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn fold(&mut self) -> Result<RunState, StoreError> {
        let mut state = RunState::default();
        while let Some(envelope) = self.next_event()? {
            state.apply(&envelope);
        }
        Ok(state)
    }

    /// Returns how many lines so far are damaged.
    pub fn damaged(&self) -> u64 {
        self.damaged_settled.saturating_add(self.damaged_tail)
    }

    /// Returns the number of bytes up to the end of the last valid line.
    pub fn settled_bytes(&self) -> u64 {
        self.settled
    }

    /// Returns the position at which a new writer starts.
    pub(super) fn next_position(&self) -> LogPosition {
        LogPosition { seq: self.next_seq, epoch: self.epoch.saturating_add(1) }
    }

    fn batch(&self, events: Vec<Envelope>, from_seq: u64) -> EventBatch {
        EventBatch {
            events,
            next_seq: self.next_seq.max(from_seq),
            damaged: self.damaged(),
            unknown: self.unknown,
            fenced: self.fenced,
            torn: self.torn,
        }
    }

    /// Goes back to the end of the last complete line: what followed it was incomplete and may have been replaced.
    fn rewind(&mut self) -> Result<(), StoreError> {
        if self.file.is_none() {
            let path = self.dir.events_path();
            self.file = File::open(&path).ok().map(|file| BufReader::with_capacity(64 << 10, file));
        }
        self.damaged_tail = 0;
        self.torn = false;
        if self.position != self.settled {
            self.position = self.settled;
            if let Some(file) = &mut self.file {
                file.seek(SeekFrom::Start(self.settled)).map_err(failed("read", &self.dir.events_path()))?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) {
        self.settled = self.position;
        self.damaged_settled += self.damaged_tail;
        self.damaged_tail = 0;
    }

    /// Accepts a line's position if it continues the log, by the same rule by which `State` ignores stale lines.
    fn admit(&mut self, position: LogPosition) -> bool {
        if position.epoch < self.epoch || position.seq < self.next_seq {
            return false;
        }
        self.epoch = position.epoch;
        self.next_seq = position.seq.saturating_add(1);
        true
    }

    /// At the end of the log, reads the ending from `outcome.json`. If it exists, the log is read a second time,
    /// because the log was complete before that file was written.
    fn rescue(&mut self) -> Result<bool, StoreError> {
        if self.rescued.is_some() {
            return Ok(false);
        }
        self.rescued = read_outcome(&self.dir);
        if self.rescued.is_none() {
            return Ok(false);
        }
        self.rewind()?;
        Ok(true)
    }

    fn take_rescued(&mut self) -> Option<Envelope> {
        let envelope = self.rescued.take()?;
        let admitted = self.admit(LogPosition { seq: envelope.seq, epoch: envelope.epoch });
        self.ended = admitted;
        admitted.then_some(envelope)
    }

    fn next_line(&mut self) -> io::Result<LineRead> {
        self.line.clear();
        let Some(file) = &mut self.file else { return Ok(LineRead::End) };
        let mut length = 0_usize;
        loop {
            let buffer = match file.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                self.torn = length > 0;
                return Ok(if length > 0 { LineRead::Partial } else { LineRead::End });
            }
            let newline = buffer.iter().position(|byte| *byte == b'\n');
            let taken = newline.map_or(buffer.len(), |at| at + 1);
            length = length.saturating_add(taken);
            if length <= LINE_BYTES_MAX {
                self.line.extend_from_slice(&buffer[..taken]);
            }
            file.consume(taken);
            self.position += taken as u64;
            if newline.is_some() {
                return Ok(if length <= LINE_BYTES_MAX { LineRead::Line } else { LineRead::TooLong });
            }
        }
    }
}

/// Returns the valid ended line in `outcome.json`, if there is one.
fn read_outcome(dir: &RunDir) -> Option<Envelope> {
    let bytes = read_bounded(&dir.outcome_path(), LINE_BYTES_MAX as u64).ok()?;
    event_line::decode(&bytes).ok().filter(|envelope| is_end(&envelope.event))
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Ended { .. })
}

fn into_ending(envelope: Envelope) -> Option<Ending> {
    match envelope.event {
        Event::Ended { ending } => Some(*ending),
        _ => None,
    }
}
