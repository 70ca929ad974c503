//! Which runs are shown of a project, in the order in which they began: a file of ids, held by a lock by whoever adds to it
//! or shows it. It says what to look at and decides nothing: a run that is not there any more is passed over.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use domain::id::RunId;
use rustix::fs::{FlockOperation, OFlags, flock};
use sha2::{Digest, Sha256};

use crate::home::Home;
use crate::store_error::{StoreError, failed};

/// How many ids are kept when the file is written anew.
pub const KEPT: usize = 200;
/// At how many it is.
const LINES_MAX: usize = 2 * KEPT;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The roster of one project, held.
#[derive(Debug)]
pub struct Roster {
    file: File,
    path: PathBuf,
}

/// Takes hold of a project's roster; waits until nobody else has it.
pub fn hold(home: &Home, project: &str) -> Result<Roster, StoreError> {
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
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(Roster { file, path }),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed("lock", &path)(error.into())),
        }
    }
}

impl Roster {
    /// Returns the newest runs, the newest first.
    pub fn runs(&mut self) -> Result<Vec<RunId>, StoreError> {
        let mut runs: Vec<RunId> = self.read()?;
        runs.reverse();
        runs.truncate(KEPT);
        Ok(runs)
    }

    /// Adds a run.
    pub fn add(&mut self, run: RunId) -> Result<(), StoreError> {
        let known = self.read()?;
        let kept = known.iter().skip(known.len().saturating_sub(KEPT));
        let text = match known.len() < LINES_MAX {
            // A line that a crash has cut must not swallow this one.
            true => format!("\n{run}\n"),
            false => {
                self.file.set_len(0).map_err(failed("cut", &self.path))?;
                kept.chain([&run]).map(|run| format!("{run}\n")).collect()
            }
        };
        self.file.write_all(text.as_bytes()).map_err(failed("write", &self.path))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{TestHome, at};

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
}
