//! The list of runs that a project shows, in the order in which they began: a file of ids, locked while a process
//! adds to it or shows it. It is only a hint: readers skip runs that no longer exist, and nobody waits long for the
//! lock.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use domain::id::RunId;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::home::Home;
use crate::store_error::{StoreError, failed};

/// How many ids are retained in addition to those of unfinished runs.
pub const RECENT_RUNS_MAX: usize = 200;
/// The number of lines at which the file is rewritten.
const LINES_MAX: usize = 2 * RECENT_RUNS_MAX;
const FILE_BYTES_MAX: u64 = 1 << 20;
const PAUSE: Duration = Duration::from_millis(2);

/// The roster of one project.
#[derive(Debug)]
pub struct ProjectRuns {
    home: Home,
    file: File,
    path: PathBuf,
    held: bool,
}

/// Opens a project's roster and locks it, unless another process holds the lock for longer than `patience`.
///
/// The lock of a dead process is released, so only a stopped holder causes the full wait.
pub fn open(home: &Home, project: &str, patience: Duration) -> Result<ProjectRuns, StoreError> {
    let name = domain::hex::hex(&Sha256::digest(project.as_bytes()));
    let path = home.rosters_dir().join(name);
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path)
        .map_err(failed("open", &path))?;
    let deadline = Instant::now() + patience;
    let held = loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break true,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => break false,
            Err(error) => return Err(failed("lock", &path)(error.into())),
        }
    };
    Ok(ProjectRuns { home: home.clone(), file, path, held })
}

impl ProjectRuns {
    /// Returns whether this process holds the lock.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Returns the newest runs and the unfinished older ones, newest first.
    pub fn runs(&mut self) -> Result<Vec<RunId>, StoreError> {
        let mut runs = self.retained_runs()?;
        runs.reverse();
        Ok(runs)
    }

    /// Adds a run. Without the lock the entry is lost if another process rewrites the file at that moment.
    pub fn add(&mut self, run: RunId) -> Result<(), StoreError> {
        let text = match self.held && self.read()?.len() >= LINES_MAX {
            // Starts on a new line, because a crash may have left an incomplete one.
            false => format!("\n{run}\n"),
            true => {
                let retained = self.retained_runs()?;
                self.file.set_len(0).map_err(failed("cut", &self.path))?;
                retained.iter().chain([&run]).map(|run| format!("{run}\n")).collect()
            }
        };
        self.file.write_all(text.as_bytes()).map_err(failed("write", &self.path))
    }

    fn retained_runs(&mut self) -> Result<Vec<RunId>, StoreError> {
        let mut older = self.read()?;
        let newest = older.split_off(older.len().saturating_sub(RECENT_RUNS_MAX));
        older.retain(|run| is_unfinished(&self.home, *run));
        older.extend(newest);
        Ok(older)
    }

    fn read(&mut self) -> Result<Vec<RunId>, StoreError> {
        self.file.seek(SeekFrom::Start(0)).map_err(failed("read", &self.path))?;
        let mut bytes = Vec::new();
        (&self.file).take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed("read", &self.path))?;
        let mut runs: Vec<RunId> =
            String::from_utf8_lossy(&bytes).lines().filter_map(|line| line.parse().ok()).collect();
        runs.dedup();
        Ok(runs)
    }
}

/// Returns whether a run has not ended. The marker of an ended run is removed when the index records it.
fn is_unfinished(home: &Home, run: RunId) -> bool {
    let dir = home.run_dir(run);
    dir.marker_path().exists() && dir.ending().is_ok_and(|ending| ending.is_none())
}

#[cfg(test)]
mod tests {
    use domain::run::{Ending, Outcome};

    use super::*;
    use crate::LogWriter;
    use crate::fixtures::{TestHome, at, spec_with_id};

    const DEADLINE: Duration = Duration::from_secs(30);

    fn open_locked(home: &Home, project: &str) -> Result<ProjectRuns, StoreError> {
        let roster = open(home, project, DEADLINE)?;
        assert!(roster.is_held());
        Ok(roster)
    }

    fn id(number: usize) -> RunId {
        let random = [number.to_be_bytes().as_slice(), &[0, 0]].concat();
        RunId::from_parts(at(0), random.try_into().unwrap())
    }

    #[test]
    fn the_newest_come_first_and_the_file_stays_short() {
        let test = TestHome::new();
        for number in 0..1_000 {
            open_locked(&test.home, "/p").unwrap().add(id(number)).unwrap();
        }
        let mut roster = open_locked(&test.home, "/p").unwrap();
        let runs = roster.runs().unwrap();
        assert_eq!(runs, (800..1_000).rev().map(id).collect::<Vec<_>>());
        assert!(roster.file.metadata().unwrap().len() < 40 * LINES_MAX as u64);
        assert_eq!(open_locked(&test.home, "/other").unwrap().runs().unwrap(), []);
    }

    #[test]
    fn cut_and_foreign_lines_are_skipped() {
        let test = TestHome::new();
        let mut roster = open_locked(&test.home, "/p").unwrap();
        roster.add(id(1)).unwrap();
        roster.file.write_all(b"no id\n\xff\xfe\n0198").unwrap();
        roster.add(id(2)).unwrap();
        assert_eq!(roster.runs().unwrap(), [id(2), id(1)]);
    }

    #[test]
    fn concurrent_writers_lose_nothing() {
        let test = TestHome::new();
        let add = |from: usize| {
            let home = test.home.clone();
            std::thread::spawn(move || {
                (from..from + 50)
                    .for_each(|number| open_locked(&home, "/p").unwrap().add(id(number)).unwrap());
            })
        };
        let both = [add(0), add(50)];
        both.into_iter().for_each(|thread| thread.join().unwrap());
        let mut runs = open_locked(&test.home, "/p").unwrap().runs().unwrap();
        runs.sort();
        assert_eq!(runs, (0..100).map(id).collect::<Vec<_>>());
    }

    #[test]
    fn an_unfinished_run_stays_listed_however_many_follow() {
        let test = TestHome::new();
        let running = test.home.create_run(&spec_with_id(id(0))).unwrap();
        let ended = test.home.create_run(&spec_with_id(id(1))).unwrap();
        let mut log = LogWriter::open(&ended.dir, &ended.lock).unwrap();
        log.finish(at(1), Ending::from_outcome(Outcome::Succeeded)).unwrap();
        for number in 0..1_000 {
            open_locked(&test.home, "/p").unwrap().add(id(number)).unwrap();
        }
        let newest: Vec<_> = (800..1_000).rev().map(id).collect();
        let all: Vec<_> = newest.iter().copied().chain([id(0)]).collect();
        assert_eq!(open_locked(&test.home, "/p").unwrap().runs().unwrap(), all);
        let mut log = LogWriter::open(&running.dir, &running.lock).unwrap();
        log.finish(at(2), Ending::from_outcome(Outcome::Succeeded)).unwrap();
        assert_eq!(open_locked(&test.home, "/p").unwrap().runs().unwrap(), newest);
    }

    #[test]
    fn a_lock_that_is_never_released_does_not_block_reading_and_adding() {
        let test = TestHome::new();
        let mut holder = open_locked(&test.home, "/p").unwrap();
        holder.add(id(1)).unwrap();
        let mut other = open(&test.home, "/p", Duration::from_millis(20)).unwrap();
        assert!(!other.is_held());
        other.add(id(2)).unwrap();
        assert_eq!(other.runs().unwrap(), [id(2), id(1)]);
        drop(holder);
        assert_eq!(open_locked(&test.home, "/p").unwrap().runs().unwrap(), [id(2), id(1)]);
    }
}
