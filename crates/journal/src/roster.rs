//! Which runs are shown of a project, in the order in which they began: a file of ids, held by a lock by whoever adds to it
//! or shows it. It says what to look at and decides nothing: a run that is not there any more is passed over, and nobody
//! waits for long for whoever holds it.

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

/// How many ids are kept beside those of runs that go on.
pub const KEPT: usize = 200;
/// At how many the file is written anew.
const LINES_MAX: usize = 2 * KEPT;
const FILE_BYTES_MAX: u64 = 1 << 20;
const PAUSE: Duration = Duration::from_millis(2);

/// The roster of one project.
#[derive(Debug)]
pub struct Roster {
    home: Home,
    file: File,
    path: PathBuf,
    held: bool,
}

/// Opens a project's roster, and holds it unless somebody else does for longer than this.
///
/// A death frees it, so only a holder that is stopped is waited for in vain.
pub fn open(home: &Home, project: &str, patience: Duration) -> Result<Roster, StoreError> {
    let digest = Sha256::digest(project.as_bytes());
    let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
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
    Ok(Roster { home: home.clone(), file, path, held })
}

impl Roster {
    /// Tells whether nobody else adds to it or shows it meanwhile.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Returns the newest runs, and of the older ones those that go on; the newest first.
    pub fn runs(&mut self) -> Result<Vec<RunId>, StoreError> {
        let mut runs = self.kept()?;
        runs.reverse();
        Ok(runs)
    }

    /// Adds a run. Without a hold that can be lost, if somebody writes the file anew at that moment.
    pub fn add(&mut self, run: RunId) -> Result<(), StoreError> {
        let text = match self.held && self.read()?.len() >= LINES_MAX {
            // A line that a crash has cut must not swallow this one.
            false => format!("\n{run}\n"),
            true => {
                let kept = self.kept()?;
                self.file.set_len(0).map_err(failed("cut", &self.path))?;
                kept.iter().chain([&run]).map(|run| format!("{run}\n")).collect()
            }
        };
        self.file.write_all(text.as_bytes()).map_err(failed("write", &self.path))
    }

    fn kept(&mut self) -> Result<Vec<RunId>, StoreError> {
        let mut older = self.read()?;
        let newest = older.split_off(older.len().saturating_sub(KEPT));
        older.retain(|run| goes_on(&self.home, *run));
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

/// Tells whether a run has not ended. The marker of one that has goes when the index hears of it.
fn goes_on(home: &Home, run: RunId) -> bool {
    let dir = home.run_dir(run);
    dir.marker_path().exists() && dir.ending().is_ok_and(|ending| ending.is_none())
}

#[cfg(test)]
mod tests {
    use domain::run::{Ending, Outcome};

    use super::*;
    use crate::LogWriter;
    use crate::sample::{TestHome, at, spec_of};

    const SOON: Duration = Duration::from_secs(30);

    fn hold(home: &Home, project: &str) -> Result<Roster, StoreError> {
        let roster = open(home, project, SOON)?;
        assert!(roster.is_held());
        Ok(roster)
    }

    fn id(number: usize) -> RunId {
        let random = [number.to_be_bytes().as_slice(), &[0, 0]].concat();
        RunId::from_parts(at(0), random.try_into().unwrap())
    }

    #[test]
    fn the_newest_come_first_and_the_file_stays_short() {
        let place = TestHome::new();
        for number in 0..1_000 {
            hold(&place.home, "/p").unwrap().add(id(number)).unwrap();
        }
        let mut roster = hold(&place.home, "/p").unwrap();
        let runs = roster.runs().unwrap();
        assert_eq!(runs, (800..1_000).rev().map(id).collect::<Vec<_>>());
        assert!(roster.file.metadata().unwrap().len() < 40 * LINES_MAX as u64);
        assert_eq!(hold(&place.home, "/other").unwrap().runs().unwrap(), []);
    }

    #[test]
    fn what_a_crash_has_cut_or_somebody_wrote_is_passed_over() {
        let place = TestHome::new();
        let mut roster = hold(&place.home, "/p").unwrap();
        roster.add(id(1)).unwrap();
        roster.file.write_all(b"no id\n\xff\xfe\n0198").unwrap();
        roster.add(id(2)).unwrap();
        assert_eq!(roster.runs().unwrap(), [id(2), id(1)]);
    }

    #[test]
    fn two_at_once_lose_nothing() {
        let place = TestHome::new();
        let add = |from: usize| {
            let home = place.home.clone();
            std::thread::spawn(move || {
                (from..from + 50).for_each(|number| hold(&home, "/p").unwrap().add(id(number)).unwrap());
            })
        };
        let both = [add(0), add(50)];
        both.into_iter().for_each(|thread| thread.join().unwrap());
        let mut runs = hold(&place.home, "/p").unwrap().runs().unwrap();
        runs.sort();
        assert_eq!(runs, (0..100).map(id).collect::<Vec<_>>());
    }

    #[test]
    fn a_run_that_goes_on_stays_however_many_came_after_it() {
        let place = TestHome::new();
        let going = place.home.create_run(&spec_of(id(0))).unwrap();
        let ended = place.home.create_run(&spec_of(id(1))).unwrap();
        let mut log = LogWriter::open(&ended.dir, &ended.lock).unwrap();
        log.finish(at(1), Ending::bare(Outcome::Succeeded)).unwrap();
        for number in 0..1_000 {
            hold(&place.home, "/p").unwrap().add(id(number)).unwrap();
        }
        let newest: Vec<_> = (800..1_000).rev().map(id).collect();
        let all: Vec<_> = newest.iter().copied().chain([id(0)]).collect();
        assert_eq!(hold(&place.home, "/p").unwrap().runs().unwrap(), all);
        let mut log = LogWriter::open(&going.dir, &going.lock).unwrap();
        log.finish(at(2), Ending::bare(Outcome::Succeeded)).unwrap();
        assert_eq!(hold(&place.home, "/p").unwrap().runs().unwrap(), newest);
    }

    #[test]
    fn whoever_holds_it_for_ever_keeps_nobody_from_reading_and_adding() {
        let place = TestHome::new();
        let mut holder = hold(&place.home, "/p").unwrap();
        holder.add(id(1)).unwrap();
        let mut other = open(&place.home, "/p", Duration::from_millis(20)).unwrap();
        assert!(!other.is_held());
        other.add(id(2)).unwrap();
        assert_eq!(other.runs().unwrap(), [id(2), id(1)]);
        drop(holder);
        assert_eq!(hold(&place.home, "/p").unwrap().runs().unwrap(), [id(2), id(1)]);
    }
}
