//! A key belongs to one run, however many requests claim it at once.

use std::fs;
use std::sync::Barrier;

use domain::run::Idempotency;

use super::{Claim, KeyScope, claim, find_owner, release};
use crate::durable::Faults;
use crate::fixtures::{TestHome, run_id, spec};
use crate::store_error::StoreError;

fn scope(project: &str, agent: &str, key: &str) -> KeyScope {
    let (agent, key) = (agent.parse().unwrap(), key.parse().unwrap());
    KeyScope { project: project.to_owned(), agent, key, token: None }
}

#[test]
fn a_key_belongs_to_its_first_run() {
    let test = TestHome::new();
    let home = &test.home;
    let key = scope("/p", "reviewer", "k1");
    assert_eq!(claim(home, &key, run_id(1), "f1").unwrap(), Claim::New);
    let known = Claim::Owned { run: run_id(1), fingerprint: "f1".to_owned() };
    assert_eq!(claim(home, &key, run_id(2), "f2").unwrap(), known);
    for other in [scope("/q", "reviewer", "k1"), scope("/p", "writer", "k1"), scope("/p", "reviewer", "k2")] {
        assert_eq!(claim(home, &other, run_id(3), "f3").unwrap(), Claim::New);
    }
    // The same characters, divided differently.
    assert_eq!(claim(home, &scope("/pr", "eviewer", "k1"), run_id(4), "f4").unwrap(), Claim::New);
}

#[test]
fn one_of_many_concurrent_claims_wins_and_all_learn_it() {
    let test = TestHome::new();
    let key = scope("/p", "reviewer", "k");
    let barrier = Barrier::new(16);
    let claims: Vec<(u8, Claim)> = std::thread::scope(|threads| {
        let threads: Vec<_> = (0..16)
            .map(|number| {
                let (home, key, barrier) = (&test.home, &key, &barrier);
                threads.spawn(move || {
                    barrier.wait();
                    (number, claim(home, key, run_id(number), &number.to_string()).unwrap())
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winners: Vec<u8> = claims.iter().filter(|(_, claim)| *claim == Claim::New).map(|(n, _)| *n).collect();
    assert_eq!(winners.len(), 1);
    let known = Claim::Owned { run: run_id(winners[0]), fingerprint: winners[0].to_string() };
    assert_eq!(claims.iter().filter(|(_, claim)| *claim == known).count(), 15);
    assert_eq!(fs::read_dir(test.home.keys_dir()).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn a_released_key_is_free_and_only_its_run_releases_it() {
    let test = TestHome::new();
    let home = &test.home;
    let key = scope("/p", "reviewer", "k");
    release(home, &key, run_id(1)).unwrap();
    claim(home, &key, run_id(1), "f").unwrap();
    release(home, &key, run_id(2)).unwrap();
    assert!(matches!(claim(home, &key, run_id(2), "f").unwrap(), Claim::Owned { .. }));
    release(home, &key, run_id(1)).unwrap();
    assert_eq!(claim(home, &key, run_id(2), "f").unwrap(), Claim::New);
}

#[test]
fn a_claim_that_is_not_durable_is_an_error() {
    let test = TestHome::new();
    let key = scope("/p", "reviewer", "k");
    let home = test.broken(Faults { syncs_before_failure: Some(0), ..Faults::default() });
    assert!(claim(&home, &key, run_id(1), "f").is_err());
    assert_eq!(home.disk().syncs(), 1);
    assert_eq!(fs::read_dir(home.keys_dir()).unwrap().count(), 0);
    assert_eq!(claim(&test.home, &key, run_id(2), "f").unwrap(), Claim::New);
}

#[test]
fn a_damaged_key_is_named() {
    let test = TestHome::new();
    let key = scope("/p", "reviewer", "k");
    claim(&test.home, &key, run_id(1), "f").unwrap();
    let path = fs::read_dir(test.home.keys_dir()).unwrap().next().unwrap().unwrap().path();
    fs::write(&path, "{").unwrap();
    match claim(&test.home, &key, run_id(2), "f") {
        Err(StoreError::Malformed { path: malformed, .. }) => assert_eq!(malformed, path),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_knows_its_key() {
    let mut run_spec = spec(1);
    assert_eq!(KeyScope::from_spec(&run_spec), None);
    run_spec.idempotency = Some(Idempotency { key: "k".parse().unwrap(), fingerprint: "f".to_owned() });
    assert_eq!(KeyScope::from_spec(&run_spec), Some(scope("/p", "reviewer", "k")));
}

#[test]
fn a_key_of_one_token_is_not_that_of_another() {
    let test = TestHome::new();
    let (one, other) = (run_id(1), run_id(2));
    let with = |token: Option<&str>| KeyScope { token: token.map(str::to_owned), ..scope("/p", "a", "k") };
    assert_eq!(claim(&test.home, &with(None), one, "f").unwrap(), Claim::New);
    assert_eq!(claim(&test.home, &with(Some("ci")), other, "f").unwrap(), Claim::New);
    assert_eq!(find_owner(&test.home, &with(Some("ci"))).unwrap(), Some((other, "f".to_owned())));
    assert_eq!(find_owner(&test.home, &with(Some("ann"))).unwrap(), None);
}
