//! The write-ahead log of the index stays short for every pattern of writes, and shortening it never blocks.

use std::path::Path;
use std::time::{Duration, Instant};

use super::open::LOG_BYTES_MAX;
use super::tests::{done, everything, filled, hundred, open};
use super::*;

/// The most that one write may add before the length is checked.
const ONE_WRITE: u64 = 256 << 10;

fn log_bytes(home: &Path) -> u64 {
    std::fs::metadata(home.join("index-v3.db-wal")).map_or(0, |log| log.len())
}

/// Rewrites the same rows, so that the log grows and the index does not.
fn write_over_and_over(index: &mut Index, runs: &[EndedRun]) {
    let ids: Vec<_> = runs.iter().map(|run| run.id).collect();
    done(index.remove(&ids));
    done(index.insert(runs));
}

#[test]
fn stays_short_when_every_write_opens_and_closes_the_index() {
    let home = tempfile::tempdir().unwrap();
    let (_, runs) = filled(home.path());
    let mut most = 0;
    for _ in 0..60 {
        write_over_and_over(&mut open(home.path()), &runs[..10]);
        most = most.max(log_bytes(home.path()));
    }
    assert!(most > LOG_BYTES_MAX / 2, "the test writes too little: {most}");
    assert!(most <= LOG_BYTES_MAX + ONE_WRITE, "{most}");
    assert_eq!(open(home.path()).list(&everything(1000)).unwrap(), hundred());
}

#[test]
fn stays_short_while_others_keep_the_index_open() {
    let home = tempfile::tempdir().unwrap();
    let (mut index, runs) = filled(home.path());
    let others: Vec<Index> = (0..3).map(|_| open(home.path())).collect();
    for _ in 0..60 {
        write_over_and_over(&mut index, &runs[..10]);
        assert!(others.iter().all(|index| index.count().unwrap() == 100));
        assert!(log_bytes(home.path()) <= LOG_BYTES_MAX + ONE_WRITE, "{}", log_bytes(home.path()));
    }
}

#[test]
fn a_long_log_that_was_left_behind_is_emptied_by_the_first_to_open_the_index() {
    let home = tempfile::tempdir().unwrap();
    let (mut index, runs) = filled(home.path());
    index.leave_log_alone();
    while log_bytes(home.path()) < 8 << 20 {
        write_over_and_over(&mut index, &runs);
    }
    drop(index);
    assert!(log_bytes(home.path()) >= 8 << 20, "closing leaves the log");
    let index = open(home.path());
    assert_eq!(log_bytes(home.path()), 0);
    assert_eq!(index.list(&everything(1000)).unwrap(), runs);
}

#[test]
fn a_reader_that_stays_does_not_hold_up_anyone_and_the_log_is_emptied_after_it() {
    let home = tempfile::tempdir().unwrap();
    let (mut index, runs) = filled(home.path());
    let reader = open(home.path());
    reader.connection.execute_batch("BEGIN; SELECT count(*) FROM run").unwrap();
    let began = Instant::now();
    while log_bytes(home.path()) < 4 * LOG_BYTES_MAX {
        write_over_and_over(&mut index, &runs);
        assert_eq!(open(home.path()).count().unwrap(), 100);
    }
    // Waiting for the reader would take SQLite's time-out of five seconds each time.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    reader.connection.execute_batch("COMMIT").unwrap();
    write_over_and_over(&mut index, &runs);
    assert!(log_bytes(home.path()) <= LOG_BYTES_MAX, "{}", log_bytes(home.path()));
    assert_eq!(reader.list(&everything(1000)).unwrap(), runs);
}

#[test]
fn an_index_that_stays_open_notices_changes_by_others() {
    let home = tempfile::tempdir().unwrap();
    let (mut index, runs) = filled(home.path());
    done(index.mark_complete());
    let opened = open(home.path()).reopen().unwrap();
    assert_eq!(opened.state, IndexState::Existing);
    done(index.clear());
    let opened = opened.index.reopen().unwrap();
    assert_eq!(opened.state, IndexState::Incomplete, "another process has begun a rebuild");
    std::fs::remove_file(home.path().join("index-v3.db")).unwrap();
    assert!(opened.index.reopen().is_none(), "the file is gone");
    let mut index = open(home.path());
    done(index.insert(&runs));
    assert_eq!(index.reopen().unwrap().index.list(&everything(1000)).unwrap(), runs);
}
