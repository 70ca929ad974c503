//! Runs are found by id or by a suffix of it.

use std::fs;

use domain::id::{RunId, RunRef};

use super::FindError;
use crate::fixtures::{TestHome, at, spec_with_id};

fn id(day: i64, random: [u8; 10]) -> RunId {
    RunId::from_parts(at(day * 86_400), random)
}

fn create(test: &TestHome, id: RunId) -> RunId {
    test.home.create_run(&spec_with_id(id)).unwrap();
    id
}

#[test]
fn all_runs_come_newest_first() {
    let test = TestHome::new();
    let old = create(&test, id(0, [1; 10]));
    let new = create(&test, id(2, [1; 10]));
    let middle = create(&test, id(1, [1; 10]));
    let twin = create(&test, id(1, [9; 10]));
    fs::create_dir(test.home.runs_dir().join("not-a-day")).unwrap();
    fs::create_dir(test.home.runs_dir().join("2026-11-14/.new-x")).unwrap();
    let all: Vec<RunId> = test.home.all_runs().unwrap().map(|run| run.unwrap().id()).collect();
    assert_eq!(all, [new, twin, middle, old]);
}

#[test]
fn an_ending_names_one_run_none_or_several() {
    let test = TestHome::new();
    let one = create(&test, id(0, [0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd]));
    let two = create(&test, id(1, [0, 0, 0, 0, 0, 0, 0, 0x11, 0xab, 0xcd]));
    let reference = |text: &str| text.parse::<RunRef>().unwrap();
    assert_eq!(test.home.find(&reference("11abcd")).unwrap().id(), two);
    assert_eq!(test.home.find(&reference("00ABCD")).unwrap().id(), one);
    assert_eq!(test.home.find(&RunRef::Whole(one)).unwrap().id(), one);
    match test.home.find(&reference("abcd")) {
        Err(FindError::Ambiguous { runs, .. }) => assert_eq!(runs, [two, one]),
        other => panic!("{other:?}"),
    }
    assert!(matches!(test.home.find(&reference("ffff")), Err(FindError::NotFound { .. })));
    assert!(matches!(test.home.find(&RunRef::Whole(id(5, [5; 10]))), Err(FindError::NotFound { .. })));
}
