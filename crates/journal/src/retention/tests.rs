//! Retention: decisions on values, and effects on realistic run directories.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::Timestamp;
use domain::id::RunId;
use domain::run::{Ending, Envelope, Event, Outcome};
use jiff::SignedDuration;
use rustix::fs::FlockOperation;

use super::*;
use crate::event_line;
use crate::sessions::{Session, VendorSession};

const DAY: SignedDuration = SignedDuration::from_hours(24);
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const OUTPUT: [&str; 4] = ["stdout", "stdout.tail", "stderr", "worker.log"];
const RECORD: [&str; 5] = ["events.jsonl", "lock", "outcome.json", "result.txt", "spec.json"];

fn now() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

struct Env {
    directory: tempfile::TempDir,
    policy: RetentionPolicy,
    now: Timestamp,
    limits: SweepLimits,
}

impl Env {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["runs", "open", "trash"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self { directory, policy: RetentionPolicy::default(), now: now(), limits: SweepLimits::NONE }
    }

    fn home(&self) -> &Path {
        self.directory.path()
    }

    fn request(&self) -> SweepRequest<'_> {
        SweepRequest { home: self.home(), policy: &self.policy, now: self.now, limits: self.limits }
    }

    fn sweep(&self) -> SweepReport {
        let report = sweep(&self.request(), &mut |_| true).unwrap();
        assert_eq!(report.problems, []);
        report
    }

    fn dir(&self, id: RunId) -> PathBuf {
        self.home().join("runs").join(id.day()).join(id.to_string())
    }

    /// A run that was created this long ago and has not ended.
    fn unended(&self, age: SignedDuration, number: u8) -> RunId {
        let id = RunId::from_parts(self.now - age, [number; 10]);
        let dir = self.dir(id);
        fs::create_dir_all(dir.join("inbox")).unwrap();
        for name in OUTPUT.iter().chain(&RECORD).filter(|name| **name != "outcome.json") {
            fs::write(dir.join(name), "0123456789").unwrap();
        }
        fs::write(dir.join("inbox/cancel"), "0123456789").unwrap();
        id
    }

    /// A run that was created this long ago and ended an hour later.
    fn ended(&self, age: SignedDuration, number: u8) -> RunId {
        let id = self.unended(age, number);
        let line =
            format!("{{\"seq\":9,\"epoch\":1,\"at\":\"{}\",\"type\":\"ended\"}}\n", self.now - age + HOUR);
        fs::write(self.dir(id).join("outcome.json"), line).unwrap();
        id
    }

    fn names(&self, id: RunId) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.dir(id)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn has_output(&self, id: RunId) -> bool {
        self.names(id).iter().any(|name| name == "stdout")
    }

    fn trash(&self) -> usize {
        fs::read_dir(self.home().join("trash")).unwrap().count()
    }
}

#[test]
fn the_end_decides_and_an_unfinished_run_stays() {
    let policy = RetentionPolicy { output_ms: 1000, record_ms: 5000 };
    let at = |ms: i64| Some(now() - SignedDuration::from_millis(ms));
    let decided = |ended_at| decide(&policy, now(), ended_at);
    assert_eq!(decided(None), RetentionAction::Keep);
    assert_eq!([-99_999_999, 0, 999].map(|ms| decided(at(ms))), [RetentionAction::Keep; 3]);
    assert_eq!([1000, 4999].map(|ms| decided(at(ms))), [RetentionAction::DropOutput; 2]);
    assert_eq!([5000, i64::from(u32::MAX)].map(|ms| decided(at(ms))), [RetentionAction::Delete; 2]);
    let forever = RetentionPolicy { output_ms: u64::MAX, record_ms: u64::MAX };
    assert_eq!(decide(&forever, now(), Some(Timestamp::UNIX_EPOCH)), RetentionAction::Keep);
}

#[test]
fn output_goes_after_a_day_and_the_record_after_a_week() {
    let env = Env::new();
    let fresh = env.ended(HOUR * 24, 1);
    let stale = env.ended(HOUR * 26, 2);
    let old = env.ended(DAY * 7 + HOUR * 2, 3);
    let running = env.unended(DAY * 30, 4);
    let outcome_bytes = fs::metadata(env.dir(old).join("outcome.json")).unwrap().len();
    let report = env.sweep();
    let mut whole: Vec<&str> = OUTPUT.into_iter().chain(RECORD).chain(["inbox"]).collect();
    whole.sort_unstable();
    assert_eq!(env.names(fresh), whole);
    assert_eq!(
        env.names(stale),
        ["events.jsonl", "inbox", "lock", "outcome.json", "result.txt", "spec.json"]
    );
    assert_eq!(env.names(old), [""; 0]);
    let without_outcome: Vec<&str> = whole.into_iter().filter(|name| *name != "outcome.json").collect();
    assert_eq!(env.names(running), without_outcome);
    assert_eq!((report.deleted, report.outputs_dropped, report.run_ids), (1, 1, vec![old]));
    assert_eq!(report.bytes_freed, 40 + 90 + outcome_bytes);
    assert!(!report.unfinished);
    assert_eq!(env.trash(), 0);
    assert!(!env.home().join("runs").join(old.day()).exists(), "the empty day goes");
    assert_eq!(env.sweep(), SweepReport::default(), "nothing is left to do");
}

#[test]
fn a_dry_run_says_the_same_and_changes_nothing() {
    let env = Env::new();
    let ids =
        [env.ended(HOUR * 26, 2), env.ended(DAY * 8, 3), env.ended(DAY * 9, 4), env.unended(DAY * 9, 5)];
    fs::create_dir(env.home().join("trash/leftover")).unwrap();
    fs::write(env.home().join("trash/leftover/file"), "12345").unwrap();
    let before = ids.map(|id| env.names(id));
    let mut planned = dry_run(&env.request()).unwrap();
    assert_eq!(ids.map(|id| env.names(id)), before);
    let mut done = env.sweep();
    planned.run_ids.sort_unstable();
    done.run_ids.sort_unstable();
    assert_eq!(planned, done);
    assert_eq!(done.deleted, 2);
}

#[test]
fn a_run_whose_lock_is_held_is_left_alone() {
    let env = Env::new();
    let (stale, old) = (env.ended(HOUR * 30, 1), env.ended(DAY * 9, 2));
    let locks = [stale, old].map(|id| {
        let file = fs::File::open(env.dir(id).join("lock")).unwrap();
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    });
    assert_eq!(env.sweep(), SweepReport::default());
    assert!(env.has_output(stale) && env.has_output(old));
    drop(locks);
    // Another test may be starting a process, which briefly has copies of the locks.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while env.has_output(stale) || env.dir(old).exists() {
        env.sweep();
        assert!(std::time::Instant::now() < deadline);
    }
}

#[test]
fn a_damaged_outcome_counts_from_when_it_was_written() {
    let env = Env::new();
    let id = env.ended(DAY * 9, 1);
    let path = env.dir(id).join("outcome.json");
    fs::write(&path, "\0\0\0").unwrap();
    let written = |age: SignedDuration| {
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified((env.now - age).into()).unwrap();
    };
    written(HOUR);
    assert_eq!(env.sweep(), SweepReport::default());
    written(HOUR * 25);
    assert_eq!(env.sweep().outputs_dropped, 1);
    written(DAY * 7);
    assert_eq!(env.sweep().run_ids, [id]);
}

#[test]
fn an_end_that_only_the_log_has_counts() {
    let env = Env::new();
    let ids = [(HOUR * 30, 1), (DAY * 9, 2), (DAY * 9, 3)].map(|(age, number)| env.unended(age, number));
    for (id, epoch) in ids.into_iter().zip([1, 1, 0]) {
        let claimed = Event::Claimed { keeper_pid: 1, worker_pid: 2, version: String::new() };
        let ended = Event::Ended { ending: Box::new(Ending::from_outcome(Outcome::Succeeded)) };
        let at = id.created_at() + HOUR;
        let line = |seq, epoch, event| event_line::encode(&Envelope { seq, epoch, at, event }).unwrap();
        // The last one ends in the line of a writer that was replaced.
        let log = [line(0, 1, claimed), line(1, epoch, ended)].concat();
        fs::write(env.dir(id).join("events.jsonl"), log).unwrap();
    }
    let report = env.sweep();
    assert_eq!((report.outputs_dropped, report.run_ids), (1, vec![ids[1]]));
    assert!(env.has_output(ids[2]), "it has not ended");
}

#[test]
fn a_day_that_is_done_is_not_looked_at_again() {
    let mut env = Env::new();
    let ids = [env.ended(HOUR * 40, 1), env.ended(HOUR * 41, 2)];
    assert_eq!(ids[0].day(), ids[1].day());
    let day = env.home().join("runs").join(ids[0].day());
    fs::write(day.join(".outputs-dropped.new"), "of a crash").unwrap();
    assert_eq!(env.sweep().outputs_dropped, 2);
    assert_eq!(
        fs::read_to_string(day.join(".outputs-dropped")).unwrap(),
        "all",
        "not even its names are read again"
    );
    fs::write(day.join(".outputs-dropped.new"), "of a crash").unwrap();
    // The program never does this: it shows that nobody reads the directory.
    fs::write(env.dir(ids[0]).join("stdout"), "again").unwrap();
    assert_eq!(env.sweep(), SweepReport::default());
    assert!(env.has_output(ids[0]));
    env.now += DAY * 7;
    assert_eq!(env.sweep().deleted, 2, "the record still goes in its time");
    assert!(!day.exists());
}

#[test]
fn a_day_with_a_run_that_still_works_is_looked_at_until_that_ended() {
    let env = Env::new();
    let running = env.unended(HOUR * 41, 1);
    let stale = env.ended(HOUR * 40, 2);
    assert_eq!(running.day(), stale.day());
    assert_eq!(env.sweep().outputs_dropped, 1);
    let line = format!("{{\"at\":\"{}\"}}", env.now - HOUR * 25);
    fs::write(env.dir(running).join("outcome.json"), line).unwrap();
    assert_eq!(env.sweep().outputs_dropped, 1);
    assert!(!env.has_output(running));
}

#[test]
fn a_limited_sweep_gets_on_with_each_turn() {
    let mut env = Env::new();
    let stale: Vec<RunId> = (0..10).map(|number| env.ended(HOUR * 40, number)).collect();
    let old: Vec<RunId> = (0..10).map(|number| env.ended(DAY * 9, number)).collect();
    env.limits = SweepLimits { runs_max: 4, time_max: Duration::MAX };
    let turns: Vec<(u64, u64, bool)> = (0..6)
        .map(|_| env.sweep())
        .map(|report| (report.deleted, report.outputs_dropped, report.unfinished))
        .collect();
    let expected = [(4, 0, true), (4, 0, true), (2, 2, true), (0, 4, true), (0, 4, false), (0, 0, false)];
    assert_eq!(turns, expected);
    assert!(old.iter().all(|id| !env.dir(*id).exists()) && stale.iter().all(|id| !env.has_output(*id)));
}

#[test]
fn a_sweep_without_time_does_nothing_and_says_so() {
    let mut env = Env::new();
    let old = env.ended(DAY * 9, 1);
    env.limits = SweepLimits { runs_max: 10, time_max: Duration::ZERO };
    assert_eq!(env.sweep(), SweepReport { unfinished: true, ..SweepReport::default() });
    assert!(env.has_output(old));
}

#[test]
fn links_are_never_followed() {
    let env = Env::new();
    let outside = tempfile::tempdir().unwrap();
    let treasure = outside.path().join("stdout");
    fs::write(&treasure, "mine").unwrap();
    fs::write(outside.path().join("outcome.json"), "{\"at\":\"2020-01-01T00:00:00Z\"}").unwrap();
    // A day, a run, an output file and a leftover, each of them a link to a foreign directory.
    symlink(outside.path(), env.home().join("runs/2026-01-01")).unwrap();
    let run = RunId::from_parts(env.now - DAY * 20, [1; 10]);
    fs::create_dir_all(env.dir(run).parent().unwrap()).unwrap();
    symlink(outside.path(), env.dir(run)).unwrap();
    let stale = env.ended(HOUR * 30, 2);
    fs::remove_file(env.dir(stale).join("stdout")).unwrap();
    symlink(&treasure, env.dir(stale).join("stdout")).unwrap();
    let old = env.ended(DAY * 9, 3);
    symlink(outside.path(), env.dir(old).join("work")).unwrap();
    symlink(outside.path(), env.home().join("trash/link")).unwrap();
    env.sweep();
    assert_eq!(fs::read_to_string(&treasure).unwrap(), "mine");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 2);
    assert!(!env.dir(old).exists() && !env.has_output(stale));
    assert_eq!(env.trash(), 0);
    let mut linked_home = Env::new();
    linked_home.limits = SweepLimits::NONE;
    fs::remove_dir(linked_home.home().join("runs")).unwrap();
    symlink(env.home().join("runs"), linked_home.home().join("runs")).unwrap();
    assert_eq!(linked_home.sweep(), SweepReport::default());
}

#[test]
fn a_run_is_reported_before_its_last_trace_goes() {
    let env = Env::new();
    let old = env.ended(DAY * 9, 1);
    fs::write(env.home().join("open").join(old.to_string()), "").unwrap();
    let mut forgotten = Vec::new();
    let report = sweep(&env.request(), &mut |ids| {
        assert!(env.home().join("trash").join(ids[0].to_string()).exists());
        forgotten.extend_from_slice(ids);
        false
    });
    assert_eq!(report.unwrap(), SweepReport { unfinished: true, ..SweepReport::default() });
    assert_eq!(forgotten, [old]);
    assert!(!env.dir(old).exists() && !env.home().join("open").join(old.to_string()).exists());
    assert_eq!(env.trash(), 1, "who could not forget is asked again");
    assert_eq!(env.sweep().run_ids, [old]);
    assert_eq!(env.trash(), 0);
}

#[test]
fn leftovers_of_a_crash_in_the_trash_are_removed() {
    let env = Env::new();
    let id = RunId::from_parts(env.now, [7; 10]);
    for name in [id.to_string(), "whatever".to_owned()] {
        fs::create_dir_all(env.home().join("trash").join(&name).join("deep/deeper")).unwrap();
        fs::write(env.home().join("trash").join(&name).join("deep/file"), "123").unwrap();
    }
    fs::write(env.home().join("trash/file"), "123").unwrap();
    let report = env.sweep();
    assert_eq!((report.deleted, report.run_ids), (1, vec![id]));
    assert_eq!(report.bytes_freed, 6);
    assert_eq!(env.trash(), 0);
}

#[test]
fn todays_directory_stays_even_when_nothing_else_does() {
    let mut env = Env::new();
    env.policy = RetentionPolicy { output_ms: 0, record_ms: 0 };
    let id = env.ended(HOUR * 2, 1);
    assert_eq!(env.sweep().run_ids, [id]);
    assert!(env.home().join("runs").join(id.day()).exists(), "a run may be coming to it");
}

#[test]
fn foreign_files_are_left_alone() {
    let env = Env::new();
    let old = env.ended(DAY * 9, 1);
    let day = env.home().join("runs").join(old.day());
    fs::create_dir(day.join(".new-something")).unwrap();
    fs::create_dir(env.home().join("runs/notes")).unwrap();
    fs::write(env.home().join("runs/2026-01-02"), "a file").unwrap();
    assert_eq!(env.sweep().deleted, 1);
    assert!(day.join(".new-something").exists() && env.home().join("runs/notes").exists());
    assert!(env.home().join("runs/2026-01-02").exists());
}

#[test]
fn an_empty_or_missing_home_is_nothing_to_sweep() {
    let directory = tempfile::tempdir().unwrap();
    for home in [directory.path().to_owned(), directory.path().join("missing")] {
        let request = SweepRequest {
            home: &home,
            policy: &RetentionPolicy::default(),
            now: now(),
            limits: SweepLimits::NONE,
        };
        assert_eq!(sweep(&request, &mut |_| true).unwrap(), SweepReport::default());
        assert_eq!(dry_run(&request).unwrap(), SweepReport::default());
    }
}

#[test]
fn the_automatic_sweep_works_once_an_hour() {
    let mut env = Env::new();
    let swept = |env: &Env| sweep_if_due(&env.request(), &mut |_| true).unwrap().map(|report| report.deleted);
    env.ended(DAY * 9, 1);
    assert_eq!(swept(&env), Some(1));
    env.ended(DAY * 9, 2);
    assert_eq!(swept(&env), None);
    env.now += SignedDuration::from_mins(59);
    assert_eq!(swept(&env), None);
    env.now += SignedDuration::from_mins(1);
    assert_eq!(swept(&env), Some(1));
    env.now -= DAY;
    assert_eq!(swept(&env), Some(0), "a clock that was set back does not stop it");
}

#[test]
fn the_automatic_sweep_that_could_not_do_everything_comes_again_soon() {
    let mut env = Env::new();
    for number in 0..3 {
        env.ended(DAY * 9, number);
    }
    env.limits = SweepLimits { runs_max: 2, ..SweepLimits::AUTOMATIC };
    env.limits.time_max = Duration::MAX;
    let swept = |env: &Env| sweep_if_due(&env.request(), &mut |_| true).unwrap().map(|report| report.deleted);
    assert_eq!(swept(&env), Some(2));
    assert_eq!(swept(&env), None);
    env.now += SignedDuration::from_mins(1);
    assert_eq!(swept(&env), Some(1));
    env.now += SignedDuration::from_mins(1);
    assert_eq!(swept(&env), None);
}

#[test]
fn only_one_of_many_processes_sweeps() {
    let env = Env::new();
    for number in 0..20 {
        env.ended(DAY * 9, number);
    }
    let reports: Vec<Option<SweepReport>> = std::thread::scope(|scope| {
        let sweep_once = || sweep_if_due(&env.request(), &mut |_| true).unwrap();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(sweep_once)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let deleted: Vec<u64> = reports.into_iter().flatten().map(|report| report.deleted).collect();
    assert_eq!(deleted, [20]);
}

#[test]
fn sweeps_at_the_same_time_do_not_hinder_each_other() {
    let env = Env::new();
    for number in 0..40 {
        env.ended(DAY * 9, number);
    }
    let reports: Vec<SweepReport> = std::thread::scope(|scope| {
        let sweeps: Vec<_> = (0..4).map(|_| scope.spawn(|| env.sweep())).collect();
        sweeps.into_iter().map(|sweep| sweep.join().unwrap()).collect()
    });
    assert!(reports.iter().map(|report| report.deleted).sum::<u64>() >= 40);
    env.sweep();
    assert_eq!((env.trash(), fs::read_dir(env.home().join("runs")).unwrap().count()), (0, 0));
}

#[test]
fn the_work_folder_goes_with_the_output_and_a_link_is_not_followed() {
    let env = Env::new();
    let stale = env.ended(HOUR * 26, 1);
    fs::create_dir(env.dir(stale).join("work")).unwrap();
    fs::write(env.dir(stale).join("work/prompt.md"), "0123456789").unwrap();
    let linked = env.ended(HOUR * 26, 2);
    let elsewhere = env.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("precious"), "").unwrap();
    std::os::unix::fs::symlink(&elsewhere, env.dir(linked).join("work")).unwrap();
    let report = env.sweep();
    assert!(!env.names(stale).contains(&"work".to_owned()));
    assert_eq!((report.outputs_dropped, report.bytes_freed), (2, 40 + 40 + 10));
    assert!(elsewhere.join("precious").exists());
}

#[test]
fn runs_of_a_session_in_use_stay_without_their_output() {
    let env = Env::new();
    let (needed, other) = (env.ended(DAY * 9, 1), env.ended(DAY * 9, 2));
    let write = |used_at: Timestamp| {
        let session = Session {
            session: "s-1".parse().unwrap(),
            agent: "coder".parse().unwrap(),
            backend: "claude".parse().unwrap(),
            directory: "/p".to_owned(),
            vendor_session: VendorSession::NotStored,
            runs: vec![needed],
            usage: None,
            used_at,
        };
        fs::create_dir_all(env.home().join("sessions")).unwrap();
        fs::write(env.home().join("sessions/x"), serde_json::to_vec(&session).unwrap()).unwrap();
    };
    write(env.now - DAY);
    let report = env.sweep();
    assert_eq!((report.deleted, report.run_ids), (1, vec![other]));
    assert!(!env.has_output(needed) && env.dir(needed).join("spec.json").exists());
    write(env.now - DAY * 8);
    assert_eq!(env.sweep().run_ids, vec![needed], "nobody has used the session for a week");
}

#[test]
fn a_work_folder_goes_with_the_folders_in_it_and_follows_no_link() {
    let env = Env::new();
    let id = env.ended(DAY * 2, 1);
    let outside = env.home().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "x").unwrap();
    let session = env.dir(id).join("work/session/deeper");
    fs::create_dir_all(&session).unwrap();
    fs::write(session.join("file"), "x").unwrap();
    symlink(&outside, env.dir(id).join("work/link")).unwrap();
    assert_eq!(env.sweep().outputs_dropped, 1);
    assert!(!env.dir(id).join("work").exists() && outside.join("kept").exists());
}
