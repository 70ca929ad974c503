//! Of concurrent requests, each number is taken once and none beyond the limit.

use std::collections::BTreeSet;

use crate::home::Home;

#[test]
fn numbers_are_taken_once_and_only_up_to_the_bound() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::open(directory.path()).unwrap();
    let root = home.run_dir(domain::id::RunId::from_parts(domain::Timestamp::UNIX_EPOCH, [3; 10]));
    std::fs::create_dir_all(root.path()).unwrap();
    let taken: Vec<Option<u32>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..40).map(|_| scope.spawn(|| super::claim_descendant_number(&root, 30).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let numbers: BTreeSet<u32> = taken.iter().flatten().copied().collect();
    assert_eq!((numbers.len(), taken.iter().flatten().count()), (30, 30));
    assert_eq!(super::claim_descendant_number(&root, 30).unwrap(), None);
}
