//! The public API of the log: appended events are read back, whatever happened to the disk in between.

use std::fs::{self, OpenOptions};
use std::io::Write;

use domain::run::{Ending, Envelope, Event, Failure, LostProcess, Outcome, Phase, ResultText, RunState};
use domain::secret::{Redactor, Secret};
use proptest::prelude::*;
use serde_json::json;

use super::{LogReader, LogWriter, read_events, read_state};
use crate::durable::Faults;
use crate::event_line::{self, LINE_BYTES_MAX};
use crate::fixtures::{TestHome, any_ending, any_event_but_ended, at, spec, text_event};
use crate::run_dir::NewRun;
use crate::store_error::StoreError;

const ALL: usize = usize::MAX;

fn writer(run: &NewRun) -> LogWriter {
    LogWriter::open(&run.dir, &run.lock).unwrap()
}

fn interrupted() -> Ending {
    Ending::from_outcome(Outcome::Interrupted { lost: LostProcess::Worker })
}

fn append_raw(run: &NewRun, bytes: &[u8]) {
    OpenOptions::new().append(true).open(run.dir.events_path()).unwrap().write_all(bytes).unwrap();
}

#[test]
fn events_are_read_from_any_number_in_pages() {
    let test = TestHome::new();
    let run = test.run();
    let mut log = writer(&run);
    let written: Vec<Envelope> =
        (0..5).map(|second| log.append(at(second), text_event(&second.to_string())).unwrap()).collect();
    let page = read_events(&run.dir, 1, 2).unwrap();
    assert_eq!(page.events, written[1..3]);
    assert_eq!(page.next_seq, 3);
    let rest = read_events(&run.dir, page.next_seq, ALL).unwrap();
    assert_eq!(rest.events, written[3..]);
    assert_eq!((rest.next_seq, rest.damaged, rest.torn), (5, 0, false));
    assert_eq!(read_events(&run.dir, 5, ALL).unwrap().events, []);
    assert_eq!(read_events(&run.dir, 0, 0).unwrap().events, []);
}

#[test]
fn another_reader_continues_at_the_cursor_of_the_first() {
    let test = TestHome::new();
    let run = test.run();
    let mut log = writer(&run);
    let first = log.append(at(0), text_event("a")).unwrap();
    append_raw(&run, b"rubbish\n");
    let second = log.append(at(1), text_event("b")).unwrap();
    let mut reader = LogReader::open(&run.dir).unwrap();
    assert_eq!(reader.next_event().unwrap(), Some(first));
    let mut next = LogReader::open_at(&run.dir, reader.cursor()).unwrap();
    assert_eq!(next.next_event().unwrap(), Some(second));
    assert_eq!((next.next_event().unwrap(), next.damaged()), (None, 1));
    // A reader reads an incomplete line again after it is complete, and still counts the damage before the cursor.
    append_raw(&run, b"{\"seq\":2");
    let mut third = LogReader::open_at(&run.dir, next.cursor()).unwrap();
    assert_eq!((third.next_event().unwrap(), third.damaged()), (None, 1));
    let written = writer(&run).append(at(2), text_event("c")).unwrap();
    let mut last = LogReader::open_at(&run.dir, third.cursor()).unwrap();
    assert_eq!((last.next_event().unwrap(), last.damaged()), (Some(written), 1));
}

#[test]
fn each_writer_has_the_next_epoch() {
    let test = TestHome::new();
    let run = test.run();
    let first = writer(&run).append(at(0), text_event("a")).unwrap();
    assert_eq!((first.seq, first.epoch), (0, 1));
    let second = writer(&run).append(at(1), text_event("b")).unwrap();
    assert_eq!((second.seq, second.epoch), (1, 2));
}

#[test]
fn a_torn_end_is_cut_and_damage_before_it_stays() {
    let test = TestHome::new();
    let run = test.run();
    let mut log = writer(&run);
    log.append(at(0), text_event("a")).unwrap();
    append_raw(&run, b"{\"rubbish\":1}\n");
    log.append(at(1), text_event("b")).unwrap();
    append_raw(&run, b"more rubbish\n{\"seq\":2,\"epo");
    let read = read_events(&run.dir, 0, ALL).unwrap();
    assert_eq!((read.events.len(), read.damaged, read.torn), (2, 2, true));

    let mut next = writer(&run);
    assert_eq!(next.cut_bytes(), 26);
    next.append(at(2), text_event("c")).unwrap();
    let read = read_events(&run.dir, 0, ALL).unwrap();
    assert_eq!((read.events.len(), read.damaged, read.torn), (3, 1, false));
    let text = fs::read_to_string(run.dir.events_path()).unwrap();
    assert!(text.contains("{\"rubbish\":1}\n") && !text.contains("more rubbish"));
}

#[test]
fn a_line_of_a_newer_version_is_neither_cut_nor_reused() {
    let test = TestHome::new();
    let run = test.run();
    let body = r#"{"seq":0,"epoch":4,"at":"2026-11-14T23:06:40Z","type":"teleported""#;
    append_raw(&run, format!("{body},\"sum\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes())).as_bytes());
    let event = writer(&run).append(at(0), text_event("a")).unwrap();
    assert_eq!((event.seq, event.epoch), (1, 5));
    let read = read_events(&run.dir, 0, ALL).unwrap();
    assert_eq!((read.events.len(), read.unknown, read.damaged), (1, 1, 0));
}

#[test]
fn a_stale_writer_is_fenced() {
    let test = TestHome::new();
    let run = test.run();
    let mut stale = writer(&run);
    stale.append(at(0), text_event("a")).unwrap();
    let mut fresh = writer(&run);
    fresh.append(at(1), text_event("b")).unwrap();
    stale.append(at(2), Event::Ended { ending: Box::new(interrupted()) }).unwrap();
    let read = read_events(&run.dir, 0, ALL).unwrap();
    assert_eq!((read.events.len(), read.fenced), (2, 1));
    assert_eq!(run.dir.ending().unwrap(), None);
    assert_eq!(read_state(&run.dir).unwrap().0.ending(), None);
}

#[test]
fn a_finished_run_has_one_ending_for_ever() {
    let test = TestHome::new();
    let run = test.run();
    let mut log = writer(&run);
    assert_eq!(run.dir.ending().unwrap(), None);
    let ended = log.finish(at(0), interrupted()).unwrap();
    assert_eq!(run.dir.ending().unwrap(), Some(interrupted()));
    assert!(matches!(log.append(at(1), text_event("x")), Err(StoreError::Ended { .. })));
    assert!(matches!(writer(&run).finish(at(2), interrupted()), Err(StoreError::Ended { .. })));
    assert_eq!(fs::read(run.dir.outcome_path()).unwrap(), event_line::encode(&ended).unwrap());
    assert_eq!(run.dir.ended_at(), Some(ended.at));
    fs::remove_file(run.dir.outcome_path()).unwrap();
    assert_eq!(run.dir.ended_at(), Some(ended.at));
    assert_eq!(run.dir.ending().unwrap(), Some(interrupted()), "the log is the truth");
}

#[test]
fn a_damaged_last_line_is_rescued_by_the_copy() {
    let test = TestHome::new();
    let run = test.run();
    let mut log = writer(&run);
    log.append(at(0), text_event("a")).unwrap();
    let ended = log.finish(at(1), interrupted()).unwrap();
    let mut bytes = fs::read(run.dir.events_path()).unwrap();
    let near_end = bytes.len() - 40;
    bytes[near_end] ^= 4;
    fs::write(run.dir.events_path(), &bytes).unwrap();
    let (state, damaged) = read_state(&run.dir).unwrap();
    assert_eq!((state.phase, damaged), (Phase::Ended(Box::new(interrupted())), 1));
    assert_eq!(read_events(&run.dir, 1, ALL).unwrap().events, [ended]);
    assert!(matches!(writer(&run).append(at(2), text_event("x")), Err(StoreError::Ended { .. })));
    assert_eq!(fs::read(run.dir.events_path()).unwrap(), bytes, "an ended log is not cut");
    fs::write(run.dir.outcome_path(), b"\0\0\0").unwrap();
    assert_eq!(run.dir.ending().unwrap(), None);
}

#[test]
fn a_follower_sees_each_event_once_and_the_end() {
    let test = TestHome::new();
    let run = test.run();
    let mut follower = LogReader::open(&run.dir).unwrap();
    let mut log = writer(&run);
    assert_eq!(follower.next_event().unwrap(), None);
    let a = log.append(at(0), text_event("a")).unwrap();
    assert_eq!(follower.next_event().unwrap(), Some(a));
    let line =
        event_line::encode(&Envelope { seq: 1, epoch: 1, at: at(1), event: text_event("torn") }).unwrap();
    append_raw(&run, &line[..line.len() / 2]);
    assert_eq!(follower.read(9).unwrap().events, []);
    let b = writer(&run).append(at(1), text_event("another one in its place")).unwrap();
    assert_eq!(follower.next_event().unwrap(), Some(b));
    let ended = writer(&run).finish(at(2), interrupted()).unwrap();
    assert!(!follower.has_ended());
    assert_eq!(follower.read(9).unwrap().events, [ended]);
    assert!(follower.has_ended());
    assert_eq!(follower.next_event().unwrap(), None);
}

#[test]
fn a_failed_sync_poisons_and_is_never_retried() {
    let test = TestHome::new();
    let home = test.broken(Faults { syncs_before_failure: Some(1), ..Faults::default() });
    let run = home.create_run(&spec(1)).unwrap();
    let mut log = writer(&run);
    log.append(at(0), text_event("a")).unwrap();
    log.sync().unwrap();
    log.append(at(1), text_event("b")).unwrap();
    assert!(matches!(log.sync(), Err(StoreError::Io { attempt: "make durable", .. })));
    let length = fs::metadata(run.dir.events_path()).unwrap().len();
    assert!(matches!(log.sync(), Err(StoreError::Poisoned { .. })));
    assert!(matches!(log.append(at(2), text_event("c")), Err(StoreError::Poisoned { .. })));
    assert!(matches!(log.finish(at(2), interrupted()), Err(StoreError::Poisoned { .. })));
    assert!(log.is_poisoned());
    assert_eq!(home.disk().syncs(), 2);
    assert_eq!(fs::metadata(run.dir.events_path()).unwrap().len(), length);
}

#[test]
fn a_failed_sync_of_the_ending_leaves_no_copy_of_it() {
    let test = TestHome::new();
    let home = test.broken(Faults { syncs_before_failure: Some(0), ..Faults::default() });
    let run = home.create_run(&spec(1)).unwrap();
    assert!(writer(&run).finish(at(0), interrupted()).is_err());
    assert!(!run.dir.outcome_path().exists());
}

#[test]
fn a_full_disk_cuts_the_partial_line_back() {
    let test = TestHome::new();
    let spec_bytes = serde_json::to_vec(&spec(1)).unwrap().len() as u64 + 1;
    let home = test.broken(Faults { bytes_before_full: Some(spec_bytes + 120), ..Faults::default() });
    let run = home.create_run(&spec(1)).unwrap();
    let mut log = writer(&run);
    log.append(at(0), text_event("a")).unwrap();
    let length = fs::metadata(run.dir.events_path()).unwrap().len();
    let error = log.append(at(1), text_event("b")).unwrap_err();
    assert_eq!(error.unwritable(), Some(crate::Unwritable::Full), "{error:?}");
    assert_eq!(fs::metadata(run.dir.events_path()).unwrap().len(), length);
    let error = log.append(at(2), text_event("c")).unwrap_err();
    assert!(matches!(error, StoreError::Poisoned { .. }), "{error:?}");
    assert_eq!(fs::metadata(run.dir.events_path()).unwrap().len(), length);
    // Once there is space, the next writer continues.
    let again = test.home.run_dir(run.dir.id());
    assert_eq!(LogWriter::open(&again, &run.lock).unwrap().append(at(3), text_event("d")).unwrap().seq, 1);
}

#[test]
fn an_event_that_is_too_large_or_too_deep_is_refused_without_poison() {
    let test = TestHome::new();
    let run = test.run();
    let mut log = writer(&run);
    let error = log.append(at(0), text_event(&"x".repeat(LINE_BYTES_MAX))).unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error:?}");
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let fit = (0..64).fold(json!(1), |inner, _| json!({ "a": inner }));
    let call = |input| Event::CallRequested {
        call: 1,
        kind: domain::run::CallKind::Tool,
        class: domain::run::CallClass::Pure,
        name: "t".to_owned(),
        input,
        turn: None,
        verdict: None,
    };
    assert!(matches!(log.append(at(0), call(deep)), Err(StoreError::TooDeep { .. })));
    let written = log.append(at(0), call(fit)).unwrap();
    assert_eq!(read_events(&run.dir, 0, ALL).unwrap().events, [written]);
}

#[test]
fn an_ending_too_large_for_a_line_is_cut_and_stored() {
    let test = TestHome::new();
    let run = test.run();
    let message = "\u{1}".repeat(2 << 20);
    let mut ending = Ending::from_outcome(Outcome::Failed { failure: Failure::Agent { message } });
    ending.stderr_tail = "\u{1}".repeat(1 << 20);
    writer(&run).finish(at(0), ending).unwrap();
    let stored = run.dir.ending().unwrap().unwrap();
    assert_eq!(stored.stderr_tail.len(), 64 << 10);
}

#[test]
fn secrets_never_reach_the_disk_and_lines_stay_readable() {
    let test = TestHome::new();
    let run = test.run();
    let mut log = writer(&run);
    let secrets = ["hunter2-hunter2", "pass\"word\n1", "succeeded", "\"type\":\""];
    log.redact_with(Redactor::new(secrets.iter().map(|text| Secret::new(*text)).collect()));
    log.append(at(0), text_event("it is hunter2-hunter2, or {\"key\":\"pass\\\"word\\n1\"}")).unwrap();
    log.append(at(0), text_event("pass\"word\n1 succeeded")).unwrap();
    log.append(
        at(0),
        Event::CallRequested {
            call: 1,
            kind: domain::run::CallKind::Tool,
            class: domain::run::CallClass::Pure,
            name: "curl".to_owned(),
            input: json!({"headers": ["token hunter2-hunter2"], "hunter2-hunter2": 1}),
            turn: None,
            verdict: None,
        },
    )
    .unwrap();
    let mut ending = Ending::from_outcome(Outcome::Succeeded);
    ending.result = ResultText::Inline("hunter2-hunter2".to_owned());
    log.finish(at(1), ending).unwrap();
    for path in [run.dir.events_path(), run.dir.outcome_path()] {
        let text = fs::read_to_string(path).unwrap();
        for secret in ["hunter2", "pass\\\"word", "pass\\\\\\\"word"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    let read = read_events(&run.dir, 0, ALL).unwrap();
    assert_eq!((read.events.len(), read.damaged, read.unknown), (4, 0, 0));
    assert_eq!(read.events[0].event, text_event("it is [redacted], or {\"key\":\"[redacted]\"}"));
    let ending = run.dir.ending().unwrap().unwrap();
    assert_eq!(ending.outcome, Outcome::Succeeded);
    assert_eq!(ending.result, ResultText::Inline("[redacted]".to_owned()));
}

#[test]
fn a_log_that_is_missing_is_empty_and_a_missing_run_is_an_error() {
    let test = TestHome::new();
    let run = test.run();
    fs::remove_file(run.dir.events_path()).unwrap();
    assert_eq!(read_state(&run.dir).unwrap(), (RunState::default(), 0));
    writer(&run).finish(at(0), interrupted()).unwrap();
    assert_eq!(run.dir.ending().unwrap(), Some(interrupted()));
    let nowhere = test.home.run_dir(crate::fixtures::run_id(9));
    assert!(matches!(read_state(&nowhere), Err(StoreError::NoSuchRun { .. })));
}

/// Generates a whole log: some epochs of some events, and perhaps the end.
fn any_log() -> impl Strategy<Value = (Vec<Vec<Event>>, Option<Ending>)> {
    let epochs = prop::collection::vec(prop::collection::vec(any_event_but_ended(), 1..4), 1..3);
    (epochs, proptest::option::of(any_ending()))
}

fn write_log(run: &NewRun, epochs: Vec<Vec<Event>>, ending: Option<Ending>) -> (Vec<Envelope>, Vec<u8>) {
    fs::write(run.dir.events_path(), b"").unwrap();
    let mut written = Vec::new();
    for events in epochs {
        let mut log = writer(run);
        written.extend(events.into_iter().map(|event| log.append(at(0), event).unwrap()));
    }
    if let Some(ending) = ending {
        written.push(writer(run).finish(at(1), ending).unwrap());
        fs::remove_file(run.dir.outcome_path()).unwrap();
    }
    (written, fs::read(run.dir.events_path()).unwrap())
}

fn is_subsequence(part: &[Envelope], whole: &[Envelope]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|event| whole.any(|other| other == event))
}

#[test]
fn every_prefix_of_a_log_is_a_prefix_of_its_events() {
    let test = TestHome::new();
    let run = test.run();
    proptest!(ProptestConfig::with_cases(32), |((epochs, ending) in any_log())| {
        let (written, bytes) = write_log(&run, epochs, ending);
        let read = read_events(&run.dir, 0, ALL).unwrap();
        prop_assert_eq!(&read.events, &written);
        prop_assert_eq!((read.damaged, read.unknown, read.fenced, read.torn), (0, 0, 0, false));
        for cut in (0..=bytes.len()).rev() {
            OpenOptions::new().write(true).open(run.dir.events_path()).unwrap().set_len(cut as u64).unwrap();
            let read = read_events(&run.dir, 0, ALL).unwrap();
            let lines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(&read.events, &written[..lines]);
            prop_assert_eq!((read.damaged, read.torn), (0, cut > 0 && bytes[cut - 1] != b'\n'));
            let state = RunState::fold(&written[..lines]);
            prop_assert_eq!(run.dir.ending().unwrap(), state.ending().cloned());
            prop_assert_eq!(read_state(&run.dir).unwrap().0, state);
        }
    });
}

#[test]
fn any_flipped_bit_loses_events_but_never_invents_one() {
    let test = TestHome::new();
    let run = test.run();
    let flips = prop::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 1..4);
    proptest!(|((epochs, ending) in any_log(), flips in flips)| {
        let (written, mut bytes) = write_log(&run, epochs, ending);
        for (offset, bit) in &flips {
            let offset = offset.index(bytes.len());
            bytes[offset] ^= 1 << bit;
        }
        fs::write(run.dir.events_path(), &bytes).unwrap();
        let read = read_events(&run.dir, 0, ALL).unwrap();
        prop_assert!(is_subsequence(&read.events, &written));
        prop_assert_eq!(read.unknown, 0);
        run.dir.ending().unwrap();
        let mut next = writer(&run);
        if next.state().ending().is_none() {
            let added = next.append(at(9), text_event("on")).unwrap();
            let read = read_events(&run.dir, 0, ALL).unwrap();
            prop_assert_eq!(read.events.last(), Some(&added));
            prop_assert!(!read.torn);
        }
    });
}

#[test]
fn any_bytes_make_a_log_without_panic() {
    let test = TestHome::new();
    let run = test.run();
    proptest!(|(bytes: Vec<u8>)| {
        for path in [run.dir.events_path(), run.dir.outcome_path(), run.dir.spec_path()] {
            fs::write(path, &bytes).unwrap();
        }
        prop_assert_eq!(read_events(&run.dir, 0, ALL).unwrap().events, []);
        prop_assert_eq!(run.dir.ending().unwrap(), None);
        prop_assert!(run.dir.read_spec().is_err());
        writer(&run).append(at(0), text_event("a")).unwrap();
        prop_assert_eq!(read_events(&run.dir, 0, ALL).unwrap().events.len(), 1);
    });
}
