//! Goes through the days, oldest first, and does what the policy says, within limits.

use std::collections::HashSet;
use std::fs::{File, FileTimes, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use domain::Timestamp;
use domain::id::RunId;
use jiff::SignedDuration;
use jiff::civil::Date;
use rustix::fs::{AtFlags, FlockOperation};

use super::policy::{self, Action, Policy};
use super::{run, trash};
use crate::sessions;

/// How often the automatic sweep works.
const INTERVAL: SignedDuration = SignedDuration::from_hours(1);
/// How soon it works again when it could not do everything.
const INTERVAL_UNFINISHED: SignedDuration = SignedDuration::from_mins(1);
/// How many problems are told.
const PROBLEMS_MAX: usize = 20;
/// In a day's directory: up to which run all output has been dropped, or `all`.
const STAMP: &str = ".outputs-dropped";
const STAMP_UNFINISHED: &str = ".outputs-dropped.new";

/// What is to be swept.
#[derive(Debug, Clone)]
pub struct Sweep<'a> {
    pub home: &'a Path,
    pub policy: &'a Policy,
    pub now: Timestamp,
    pub limits: SweepLimits,
}

/// How much one sweep may do. What is left is left for the next.
#[derive(Debug, Clone, Copy)]
pub struct SweepLimits {
    pub runs_max: u64,
    pub time_max: Duration,
}

/// What a sweep did, or would do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    pub deleted: u64,
    pub outputs_dropped: u64,
    pub bytes_freed: u64,
    /// The runs that were deleted.
    pub run_ids: Vec<RunId>,
    /// Whether a limit was reached before everything was done.
    pub unfinished: bool,
    /// The first things that could not be done. The others were.
    pub problems: Vec<Problem>,
}

/// Something that could not be removed.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    pub path: PathBuf,
    pub reason: String,
}

/// Why nothing could be swept.
#[derive(Debug, thiserror::Error)]
#[error("sweep {path}")]
pub struct RetentionError {
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

impl SweepLimits {
    /// For a sweep that somebody else's request pays for.
    pub const AUTOMATIC: Self = Self { runs_max: 200, time_max: Duration::from_millis(200) };
    /// For a sweep that somebody asked for.
    pub const NONE: Self = Self { runs_max: u64::MAX, time_max: Duration::MAX };
}

/// Drops and deletes what is due.
///
/// `forget` gets the runs that are being deleted, before their last trace goes, and tells whether they were
/// forgotten; those that were not stay in the trash until the next sweep.
pub fn sweep(
    request: &Sweep<'_>,
    forget: &mut dyn FnMut(&[RunId]) -> bool,
) -> Result<SweepReport, RetentionError> {
    let mut broom = Broom::new(request, Mode::Apply);
    broom.sweep_days()?;
    trash::empty(&mut broom, forget)?;
    Ok(broom.report)
}

/// Tells what a sweep would do, and changes nothing.
pub fn dry_run(request: &Sweep<'_>) -> Result<SweepReport, RetentionError> {
    let mut broom = Broom::new(request, Mode::DryRun);
    broom.sweep_days()?;
    trash::count(&mut broom)?;
    Ok(broom.report)
}

/// Sweeps if nobody has for an hour. Costs a look at one file when it is not due.
pub fn sweep_if_due(
    request: &Sweep<'_>,
    forget: &mut dyn FnMut(&[RunId]) -> bool,
) -> Result<Option<SweepReport>, RetentionError> {
    let path = request.home.join("sweep.stamp");
    let fail = |source| RetentionError { path: path.clone(), source };
    let swept_at = std::fs::metadata(&path).and_then(|meta| meta.modified());
    if swept_at.is_ok_and(|at| !is_due(request.now, at)) {
        return Ok(None);
    }
    let Some(claim) = claim(&path, request.now).map_err(fail)? else { return Ok(None) };
    let report = sweep(request, forget)?;
    if report.unfinished {
        stamp(&claim, request.now - INTERVAL + INTERVAL_UNFINISHED).map_err(fail)?;
    }
    Ok(Some(report))
}

fn is_due(now: Timestamp, swept_at: SystemTime) -> bool {
    // A stamp from the future was made before the clock was set.
    Timestamp::try_from(swept_at).map_or(true, |at| now.duration_since(at).abs() >= INTERVAL)
}

/// Takes the sweep upon us, unless somebody else does it or has just done it.
fn claim(path: &Path, now: Timestamp) -> io::Result<Option<File>> {
    let known = path.exists();
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        other => other?,
    }
    if known && !is_due(now, file.metadata()?.modified()?) {
        return Ok(None);
    }
    // Before the work, so that a sweep that kills its process is not repeated by each that follows.
    stamp(&file, now)?;
    Ok(Some(file))
}

fn stamp(file: &File, at: Timestamp) -> io::Result<()> {
    file.set_times(FileTimes::new().set_modified(at.into()))
}

/// A sweep under way.
pub(super) struct Broom<'a> {
    pub(super) request: &'a Sweep<'a>,
    pub(super) report: SweepReport,
    mode: Mode,
    started: Instant,
    acted: u64,
    /// The runs of sessions in use, once they were looked for.
    needed: Option<HashSet<RunId>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Apply,
    DryRun,
}

/// How a visit left a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    /// Its output is gone.
    Dropped,
    /// All of it is gone.
    Gone,
    /// Something is left to do, later.
    Pending,
}

impl<'a> Broom<'a> {
    fn new(request: &'a Sweep<'a>, mode: Mode) -> Self {
        Self {
            request,
            report: SweepReport::default(),
            mode,
            started: Instant::now(),
            acted: 0,
            needed: None,
        }
    }

    pub(super) fn fail(&self, path: &Path, source: io::Error) -> RetentionError {
        RetentionError { path: path.to_owned(), source }
    }

    pub(super) fn note(&mut self, path: PathBuf, error: &io::Error) {
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(Problem { path, reason: error.to_string() });
        }
    }

    /// Tells whether a share of the time, in halves, is spent.
    pub(super) fn is_out_of_time(&mut self, halves: u32) -> bool {
        let spent = self.started.elapsed() >= (self.request.limits.time_max / 2).saturating_mul(halves);
        self.report.unfinished |= spent;
        spent
    }

    fn is_spent(&mut self) -> bool {
        let enough = self.acted >= self.request.limits.runs_max;
        self.report.unfinished |= enough;
        // The other half is for emptying the trash.
        enough || self.is_out_of_time(1)
    }

    fn sweep_days(&mut self) -> Result<(), RetentionError> {
        let path = self.request.home.join("runs");
        let home = match File::open(self.request.home) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            home => home.map_err(|source| self.fail(&path, source))?,
        };
        let runs = run::open_directory(home.as_fd(), "runs").map_err(|source| self.fail(&path, source))?;
        let Some(runs) = runs else { return Ok(()) };
        let names = run::names(runs.as_fd()).map_err(|source| self.fail(&path, source))?;
        let mut days: Vec<(Date, String)> =
            names.into_iter().filter_map(|name| Some((name.parse().ok()?, name))).collect();
        days.sort_unstable();
        for (day, name) in days {
            let most = policy::most_for_day(self.request.policy, self.request.now, day);
            if most == Action::Keep || self.is_spent() {
                break;
            }
            if let Err(error) = self.sweep_day(home.as_fd(), runs.as_fd(), (day, &name), most) {
                self.note(path.join(&name), &error);
            }
        }
        Ok(())
    }

    fn sweep_day(
        &mut self,
        home: BorrowedFd<'_>,
        runs: BorrowedFd<'_>,
        (day, name): (Date, &str),
        most: Action,
    ) -> io::Result<()> {
        let Some(directory) = run::open_directory(runs, name)? else { return Ok(()) };
        let dropped = Dropped::read(directory.as_fd());
        if most == Action::DropOutput && dropped == Dropped::All {
            return Ok(());
        }
        let entries = run::names(directory.as_fd())?;
        let others =
            entries.iter().filter(|name| !name.starts_with(STAMP) && name.parse::<RunId>().is_err()).count();
        let mut ids: Vec<RunId> = entries.iter().filter_map(|name| name.parse().ok()).collect();
        ids.sort_unstable();
        let skipped = |id: &RunId| most == Action::DropOutput && dropped.covers(*id);
        let (mut through, mut unbroken, mut gone) = (dropped, true, 0);
        for id in ids.iter().filter(|id| !skipped(id)) {
            if self.is_spent() {
                unbroken = false;
                break;
            }
            let visit = self.visit(home, directory.as_fd(), *id).unwrap_or_else(|error| {
                self.note(self.request.home.join("runs").join(name).join(id.to_string()), &error);
                Visit::Pending
            });
            match visit {
                Visit::Dropped if unbroken => through = Dropped::Through(*id),
                Visit::Dropped => {}
                Visit::Gone => gone += 1,
                Visit::Pending => unbroken = false,
            }
        }
        let is_over = policy::is_over(day, self.request.now);
        if self.mode == Mode::DryRun {
            return Ok(());
        }
        if gone == ids.len() && others == 0 && is_over {
            return remove_day(runs, directory.as_fd(), name);
        }
        if unbroken && is_over {
            through = Dropped::All;
        }
        if through == dropped { Ok(()) } else { through.write(directory.as_fd()) }
    }

    fn visit(&mut self, home: BorrowedFd<'_>, day: BorrowedFd<'_>, id: RunId) -> io::Result<Visit> {
        let name = id.to_string();
        let Some(directory) = run::open_directory(day, &name)? else { return Ok(Visit::Pending) };
        let directory = directory.as_fd();
        let ended_at = run::ended_at(directory)?;
        match policy::decide(self.request.policy, self.request.now, ended_at) {
            Action::Keep => Ok(Visit::Pending),
            Action::DropOutput => self.drop_output(directory),
            Action::Delete if self.is_needed(id) => self.drop_output(directory),
            Action::Delete => self.delete(home, day, directory, id),
        }
    }

    /// Tells whether a session that is in use has the run: what it said may have to be told again.
    fn is_needed(&mut self, id: RunId) -> bool {
        let Sweep { home, policy, now, .. } = self.request;
        let needed = self.needed.get_or_insert_with(|| sessions::runs_in_use(home, *now, policy.record_ms));
        needed.contains(&id)
    }

    fn drop_output(&mut self, run: BorrowedFd<'_>) -> io::Result<Visit> {
        let outputs = run::outputs(run)?;
        if outputs.is_empty() {
            return Ok(Visit::Dropped);
        }
        let run::Lock::Ours { .. } = run::lock(run)? else { return Ok(Visit::Pending) };
        for output in &outputs {
            if self.mode == Mode::Apply {
                run::remove_output(run, output)?;
            }
            self.report.bytes_freed += output.bytes;
        }
        self.acted += 1;
        self.report.outputs_dropped += 1;
        Ok(Visit::Dropped)
    }

    fn delete(
        &mut self,
        home: BorrowedFd<'_>,
        day: BorrowedFd<'_>,
        run: BorrowedFd<'_>,
        id: RunId,
    ) -> io::Result<Visit> {
        let lock @ run::Lock::Ours { .. } = run::lock(run)? else { return Ok(Visit::Pending) };
        self.acted += 1;
        match self.mode {
            Mode::Apply => {
                trash::throw_away(home, day, id)?;
                drop(lock);
            }
            Mode::DryRun => self.count_deleted(Some(id), run::bytes_below(run)?),
        }
        Ok(Visit::Gone)
    }

    pub(super) fn count_deleted(&mut self, id: Option<RunId>, bytes: u64) {
        self.report.bytes_freed += bytes;
        if let Some(id) = id {
            self.report.deleted += 1;
            self.report.run_ids.push(id);
        }
    }
}

/// How far the output of a day's runs has been dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dropped {
    Nothing,
    Through(RunId),
    All,
}

impl Dropped {
    fn read(day: BorrowedFd<'_>) -> Self {
        let text = run::read_small(day, STAMP).unwrap_or_default();
        match text.trim() {
            "all" => Self::All,
            text => text.parse().map_or(Self::Nothing, Self::Through),
        }
    }

    fn covers(self, id: RunId) -> bool {
        match self {
            Self::Nothing => false,
            Self::Through(through) => id <= through,
            Self::All => true,
        }
    }

    fn write(self, day: BorrowedFd<'_>) -> io::Result<()> {
        let text = match self {
            Self::Nothing => String::new(),
            Self::Through(id) => id.to_string(),
            Self::All => "all".to_owned(),
        };
        run::unlink(day, STAMP_UNFINISHED, AtFlags::empty())?;
        let written = run::write_small(day, STAMP_UNFINISHED, &text)
            .and_then(|()| Ok(rustix::fs::renameat(day, STAMP_UNFINISHED, day, STAMP)?));
        match written.map_err(|error| (error.kind(), error)) {
            // Another sweep has removed the day, or is writing the same.
            Ok(()) | Err((ErrorKind::NotFound | ErrorKind::AlreadyExists, _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }
}

fn remove_day(runs: BorrowedFd<'_>, day: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    run::unlink(day, STAMP, AtFlags::empty())?;
    run::unlink(day, STAMP_UNFINISHED, AtFlags::empty())?;
    match run::unlink(runs, name, AtFlags::REMOVEDIR) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        other => other,
    }
}
