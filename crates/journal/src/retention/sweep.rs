//! Visits the days, oldest first, and applies the policy, within limits.

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

use super::policy::{self, RetentionAction, RetentionPolicy};
use super::{run_files, trash};
use crate::home::Home;
use crate::sessions;

/// How often the automatic sweep runs.
const INTERVAL: SignedDuration = SignedDuration::from_hours(1);
/// How soon it runs again if it could not finish.
const INTERVAL_UNFINISHED: SignedDuration = SignedDuration::from_mins(1);
/// How many problems are reported.
const PROBLEMS_MAX: usize = 20;
/// In a day's directory: the last run up to which all output has been dropped, or `all`.
const STAMP: &str = ".outputs-dropped";
const STAMP_UNFINISHED: &str = ".outputs-dropped.new";

/// The request for a sweep.
#[derive(Debug, Clone)]
pub struct SweepRequest<'a> {
    pub home: &'a Path,
    pub policy: &'a RetentionPolicy,
    pub now: Timestamp,
    pub limits: SweepLimits,
}

/// Limits of one sweep. The next sweep continues where it stopped.
#[derive(Debug, Clone, Copy)]
pub struct SweepLimits {
    pub runs_max: u64,
    pub time_max: Duration,
}

/// The result of a sweep or a dry run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    pub deleted: u64,
    pub outputs_dropped: u64,
    pub bytes_freed: u64,
    /// The runs that were deleted.
    pub run_ids: Vec<RunId>,
    /// Whether a limit was reached before everything was done.
    pub unfinished: bool,
    /// The first failures. Everything else was done.
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
    /// For a sweep within another request.
    pub const AUTOMATIC: Self = Self { runs_max: 200, time_max: Duration::from_millis(200) };
    /// For a sweep that the user requested.
    pub const NONE: Self = Self { runs_max: u64::MAX, time_max: Duration::MAX };
}

/// Drops and deletes what is due.
///
/// `forget` receives the runs that are being deleted before they are removed from the trash, and returns whether it
/// forgot them. If not, they stay in the trash until the next sweep.
pub fn sweep(
    request: &SweepRequest<'_>,
    forget: &mut dyn FnMut(&[RunId]) -> bool,
) -> Result<SweepReport, RetentionError> {
    let mut sweeper = Sweeper::new(request, SweepMode::Apply);
    sweeper.sweep_days()?;
    trash::empty(&mut sweeper, forget)?;
    Ok(sweeper.report)
}

/// Returns what a sweep would do, without changing anything.
pub fn dry_run(request: &SweepRequest<'_>) -> Result<SweepReport, RetentionError> {
    let mut sweeper = Sweeper::new(request, SweepMode::DryRun);
    sweeper.sweep_days()?;
    trash::count(&mut sweeper)?;
    Ok(sweeper.report)
}

/// Sweeps if nobody has for an hour. Costs one `stat` if it is not due.
pub fn sweep_if_due(
    request: &SweepRequest<'_>,
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
    // A stamp from the future was written before the clock was set back.
    Timestamp::try_from(swept_at).map_or(true, |at| now.duration_since(at).abs() >= INTERVAL)
}

/// Claims the sweep, unless another process is sweeping or has just done so.
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
    // Stamped before the work, so that a sweep that kills its process is not repeated by every later process.
    stamp(&file, now)?;
    Ok(Some(file))
}

fn stamp(file: &File, at: Timestamp) -> io::Result<()> {
    file.set_times(FileTimes::new().set_modified(at.into()))
}

/// A sweep in progress.
pub(super) struct Sweeper<'a> {
    pub(super) request: &'a SweepRequest<'a>,
    pub(super) report: SweepReport,
    mode: SweepMode,
    started: Instant,
    processed: u64,
    /// The runs of sessions in use, once they were read.
    session_runs: Option<HashSet<RunId>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SweepMode {
    Apply,
    DryRun,
}

/// The state of a run after a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    /// Its output is removed.
    OutputDropped,
    /// The whole run is removed.
    Gone,
    /// Something remains to be done later.
    Pending,
}

impl<'a> Sweeper<'a> {
    fn new(request: &'a SweepRequest<'a>, mode: SweepMode) -> Self {
        Self {
            request,
            report: SweepReport::default(),
            mode,
            started: Instant::now(),
            processed: 0,
            session_runs: None,
        }
    }

    pub(super) fn fail(&self, path: &Path, source: io::Error) -> RetentionError {
        RetentionError { path: path.to_owned(), source }
    }

    pub(super) fn record_problem(&mut self, path: PathBuf, error: &io::Error) {
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(Problem { path, reason: error.to_string() });
        }
    }

    /// Returns whether a share of the time, counted in halves, is used up.
    pub(super) fn is_out_of_time(&mut self, halves: u32) -> bool {
        let spent = self.started.elapsed() >= (self.request.limits.time_max / 2).saturating_mul(halves);
        self.report.unfinished |= spent;
        spent
    }

    fn is_limit_reached(&mut self) -> bool {
        let enough = self.processed >= self.request.limits.runs_max;
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
        let runs =
            run_files::open_directory(home.as_fd(), "runs").map_err(|source| self.fail(&path, source))?;
        let Some(runs) = runs else { return Ok(()) };
        let names = run_files::names(runs.as_fd()).map_err(|source| self.fail(&path, source))?;
        let mut days: Vec<(Date, String)> =
            names.into_iter().filter_map(|name| Some((name.parse().ok()?, name))).collect();
        days.sort_unstable();
        for (day, name) in days {
            let most = policy::strictest_action_for_day(self.request.policy, self.request.now, day);
            if most == RetentionAction::Keep || self.is_limit_reached() {
                break;
            }
            if let Err(error) = self.sweep_day(home.as_fd(), runs.as_fd(), (day, &name), most) {
                self.record_problem(path.join(&name), &error);
            }
        }
        Ok(())
    }

    fn sweep_day(
        &mut self,
        home: BorrowedFd<'_>,
        runs: BorrowedFd<'_>,
        (day, name): (Date, &str),
        most: RetentionAction,
    ) -> io::Result<()> {
        let Some(directory) = run_files::open_directory(runs, name)? else { return Ok(()) };
        let dropped = DropProgress::read(directory.as_fd());
        if most == RetentionAction::DropOutput && dropped == DropProgress::All {
            return Ok(());
        }
        let entries = run_files::names(directory.as_fd())?;
        let others =
            entries.iter().filter(|name| !name.starts_with(STAMP) && name.parse::<RunId>().is_err()).count();
        let mut ids: Vec<RunId> = entries.iter().filter_map(|name| name.parse().ok()).collect();
        ids.sort_unstable();
        let skipped = |id: &RunId| most == RetentionAction::DropOutput && dropped.covers(*id);
        let (mut through, mut unbroken, mut gone) = (dropped, true, 0);
        for id in ids.iter().filter(|id| !skipped(id)) {
            if self.is_limit_reached() {
                unbroken = false;
                break;
            }
            let visit = self.visit(home, directory.as_fd(), *id).unwrap_or_else(|error| {
                self.record_problem(self.request.home.join("runs").join(name).join(id.to_string()), &error);
                Visit::Pending
            });
            match visit {
                Visit::OutputDropped if unbroken => through = DropProgress::Through(*id),
                Visit::OutputDropped => {}
                Visit::Gone => gone += 1,
                Visit::Pending => unbroken = false,
            }
        }
        let is_over = policy::is_over(day, self.request.now);
        if self.mode == SweepMode::DryRun {
            return Ok(());
        }
        if gone == ids.len() && others == 0 && is_over {
            return remove_day(runs, directory.as_fd(), name);
        }
        if unbroken && is_over {
            through = DropProgress::All;
        }
        if through == dropped { Ok(()) } else { through.write(directory.as_fd()) }
    }

    fn visit(&mut self, home: BorrowedFd<'_>, day: BorrowedFd<'_>, id: RunId) -> io::Result<Visit> {
        let name = id.to_string();
        let Some(directory) = run_files::open_directory(day, &name)? else { return Ok(Visit::Pending) };
        let directory = directory.as_fd();
        let ended_at = run_files::ended_at(directory, &Home::unchecked(self.request.home).run_dir(id))?;
        match policy::decide(self.request.policy, self.request.now, ended_at) {
            RetentionAction::Keep => Ok(Visit::Pending),
            RetentionAction::DropOutput => self.drop_output(directory),
            RetentionAction::Delete if self.is_used_by_session(id) => self.drop_output(directory),
            RetentionAction::Delete => self.delete(home, day, directory, id),
        }
    }

    /// Returns whether a session in use refers to the run: a later run may have to replay its conversation.
    fn is_used_by_session(&mut self, id: RunId) -> bool {
        let SweepRequest { home, policy, now, .. } = self.request;
        let session_runs =
            self.session_runs.get_or_insert_with(|| sessions::runs_in_use(home, *now, policy.record_ms));
        session_runs.contains(&id)
    }

    fn drop_output(&mut self, run: BorrowedFd<'_>) -> io::Result<Visit> {
        let outputs = run_files::outputs(run)?;
        if outputs.is_empty() {
            return Ok(Visit::OutputDropped);
        }
        let run_files::LockAttempt::Acquired { .. } = run_files::lock(run)? else {
            return Ok(Visit::Pending);
        };
        for output in &outputs {
            if self.mode == SweepMode::Apply {
                run_files::remove_output(run, output)?;
            }
            self.report.bytes_freed += output.bytes;
        }
        self.processed += 1;
        self.report.outputs_dropped += 1;
        Ok(Visit::OutputDropped)
    }

    fn delete(
        &mut self,
        home: BorrowedFd<'_>,
        day: BorrowedFd<'_>,
        run: BorrowedFd<'_>,
        id: RunId,
    ) -> io::Result<Visit> {
        let lock @ run_files::LockAttempt::Acquired { .. } = run_files::lock(run)? else {
            return Ok(Visit::Pending);
        };
        self.processed += 1;
        match self.mode {
            SweepMode::Apply => {
                trash::move_to_trash(home, day, id)?;
                drop(lock);
            }
            SweepMode::DryRun => self.count_deleted(Some(id), run_files::bytes_below(run)?),
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

/// How much of a day's output has been dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DropProgress {
    Nothing,
    Through(RunId),
    All,
}

impl DropProgress {
    fn read(day: BorrowedFd<'_>) -> Self {
        let text = run_files::read_small(day, STAMP).unwrap_or_default();
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
        run_files::unlink(day, STAMP_UNFINISHED, AtFlags::empty())?;
        let written = run_files::write_small(day, STAMP_UNFINISHED, &text)
            .and_then(|()| Ok(rustix::fs::renameat(day, STAMP_UNFINISHED, day, STAMP)?));
        match written.map_err(|error| (error.kind(), error)) {
            // Another sweep has removed the day, or is writing the same stamp.
            Ok(()) | Err((ErrorKind::NotFound | ErrorKind::AlreadyExists, _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }
}

fn remove_day(runs: BorrowedFd<'_>, day: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    run_files::unlink(day, STAMP, AtFlags::empty())?;
    run_files::unlink(day, STAMP_UNFINISHED, AtFlags::empty())?;
    match run_files::unlink(runs, name, AtFlags::REMOVEDIR) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        other => other,
    }
}
