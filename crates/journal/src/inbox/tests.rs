//! The first message wins, and invalid files in the inbox do no harm.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Barrier;

use domain::id::QuestionId;
use domain::run::{AnswerOrigin, CancelRequest};
use proptest::prelude::*;

use super::{InboxAnswer, InboxMessage, PostOutcome, post_answer, post_cancel, read_answer, read_cancel};
use crate::durable::Faults;
use crate::fixtures::{TestHome, at, run_id, spec};
use crate::run_dir::RunDir;
use crate::store_error::StoreError;

fn order(by: &str) -> CancelRequest {
    CancelRequest { by: by.to_owned(), reason: "enough".to_owned(), now: false }
}

fn urgent(by: &str) -> CancelRequest {
    CancelRequest { now: true, ..order(by) }
}

fn answer(by: &str) -> InboxAnswer {
    InboxAnswer {
        allow: true,
        text: "yes".to_owned(),
        by: by.to_owned(),
        origin: Some(AnswerOrigin::Command),
        at: at(0),
        granted_rules: Vec::new(),
    }
}

fn question() -> QuestionId {
    "q-1".parse().unwrap()
}

fn strays(dir: &RunDir) -> usize {
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with('.')).count()
}

#[test]
fn the_first_order_wins_and_an_urgent_one_still_counts() {
    let test = TestHome::new();
    let dir = test.run().dir;
    assert_eq!(read_cancel(&dir), InboxMessage::Nothing);
    assert_eq!(post_cancel(&dir, &order("ann")).unwrap(), PostOutcome::First);
    assert_eq!(post_cancel(&dir, &order("bob")).unwrap(), PostOutcome::AlreadyThere);
    assert_eq!(read_cancel(&dir), InboxMessage::Valid(order("ann")));
    assert_eq!(post_cancel(&dir, &urgent("eve")).unwrap(), PostOutcome::First);
    assert_eq!(post_cancel(&dir, &urgent("dan")).unwrap(), PostOutcome::AlreadyThere);
    assert_eq!(read_cancel(&dir), InboxMessage::Valid(urgent("eve")));
    assert_eq!(strays(&dir), 0);
}

#[test]
fn an_urgent_first_order_needs_no_second() {
    let test = TestHome::new();
    let dir = test.run().dir;
    assert_eq!(post_cancel(&dir, &urgent("ann")).unwrap(), PostOutcome::First);
    assert_eq!(post_cancel(&dir, &urgent("bob")).unwrap(), PostOutcome::AlreadyThere);
    assert_eq!(read_cancel(&dir), InboxMessage::Valid(urgent("ann")));
}

#[test]
fn the_first_answer_wins_of_many_at_once() {
    let test = TestHome::new();
    let dir = test.run().dir;
    assert_eq!(read_answer(&dir, &question()), InboxMessage::Nothing);
    let barrier = Barrier::new(8);
    let winners: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (dir, barrier) = (&dir, &barrier);
                scope.spawn(move || {
                    let by = format!("person {number}");
                    barrier.wait();
                    let posted = post_answer(dir, &question(), &answer(&by)).unwrap();
                    (posted == PostOutcome::First).then_some(by)
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(winners.len(), 1);
    assert_eq!(read_answer(&dir, &question()), InboxMessage::Valid(answer(&winners[0])));
    assert_eq!(strays(&dir), 0);
}

#[test]
fn rubbish_is_ignored_with_a_reason_and_replaced_by_a_message() {
    let test = TestHome::new();
    let dir = test.run().dir;
    let path = dir.inbox_dir().join("cancel");
    let elsewhere = dir.path().join("elsewhere");
    fs::write(&elsewhere, serde_json::to_vec(&order("eve")).unwrap()).unwrap();
    let plant: [&dyn Fn(); 4] = [
        &|| fs::write(&path, "{\"by\":").unwrap(),
        &|| fs::write(&path, vec![b' '; 1 << 20]).unwrap(),
        &|| symlink(&elsewhere, &path).unwrap(),
        &|| rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap(),
    ];
    for (number, plant) in plant.iter().enumerate() {
        let _ = fs::remove_file(&path);
        plant();
        match read_cancel(&dir) {
            InboxMessage::Ignored { reason } => assert!(reason.contains("cancel is ignored"), "{reason}"),
            other => panic!("{number}: {other:?}"),
        }
        assert_eq!(post_cancel(&dir, &order("ann")).unwrap(), PostOutcome::First, "{number}");
        assert_eq!(read_cancel(&dir), InboxMessage::Valid(order("ann")));
    }
    fs::create_dir(dir.inbox_dir().join("cancel-now")).unwrap();
    assert_eq!(read_cancel(&dir), InboxMessage::Valid(order("ann")));
    assert!(matches!(post_cancel(&dir, &urgent("bob")), Err(StoreError::Io { .. })));
    assert_eq!(strays(&dir), 0);
}

#[test]
fn a_message_that_cannot_be_made_durable_is_not_posted() {
    let test = TestHome::new();
    let home = test.broken(Faults { syncs_before_failure: Some(0), ..Faults::default() });
    let dir = home.create_run(&spec(1)).unwrap().dir;
    assert!(post_cancel(&dir, &order("ann")).is_err());
    assert_eq!(read_cancel(&dir), InboxMessage::Nothing);
    assert_eq!(strays(&dir), 0);
}

#[test]
fn messages_are_bounded_and_need_a_run() {
    let test = TestHome::new();
    let dir = test.run().dir;
    let long = InboxAnswer { text: "x".repeat(1 << 20), ..answer("ann") };
    assert!(matches!(post_answer(&dir, &question(), &long), Err(StoreError::TooLarge { .. })));
    let nowhere = test.home.run_dir(run_id(9));
    assert!(matches!(post_cancel(&nowhere, &order("ann")), Err(StoreError::NoSuchRun { .. })));
    assert_eq!(read_cancel(&nowhere), InboxMessage::Nothing);
}

#[test]
fn any_bytes_are_read_without_panic() {
    let test = TestHome::new();
    let dir = test.run().dir;
    proptest!(|(bytes: Vec<u8>)| {
        for name in ["cancel", "cancel-now", "answer-q-1"] {
            fs::write(dir.inbox_dir().join(name), &bytes).unwrap();
        }
        let ignored = matches!(read_cancel(&dir), InboxMessage::Ignored { .. });
        prop_assert!(ignored);
        let ignored = matches!(read_answer(&dir, &question()), InboxMessage::Ignored { .. });
        prop_assert!(ignored);
    });
}
