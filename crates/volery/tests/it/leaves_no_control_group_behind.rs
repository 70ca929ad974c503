//! The process that ends a run whose worker was lost also removes its control group.

use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::test_env::{PATIENCE, TestEnv, kill, wait_for};

#[test]
fn the_group_of_a_killed_worker_goes_with_the_run() {
    let env = TestEnv::new();
    env.fake("hanger", &["hang"], "limits: { memory: 256MiB }");
    let id = env.start("hanger", "hang");
    let of_type = |kind: &str| env.events(&id).into_iter().find(|event| event["type"] == kind);
    wait_for(PATIENCE, "the agent to start", || of_type("agent_started"));
    let claimed = of_type("claimed").unwrap();
    kill(u32::try_from(claimed["worker_pid"].as_u64().unwrap()).unwrap(), Signal::KILL);
    env.outcome_by_itself(&id, PATIENCE);
    let left = folders_named(Path::new("/sys/fs/cgroup"), &format!("volery-{:016x}", env.tag(&id)));
    assert_eq!(left, Vec::<PathBuf>::new());
}

fn folders_named(folder: &Path, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders
        .flat_map(|entry| match entry.file_name() == name {
            true => vec![entry.path()],
            false => folders_named(&entry.path(), name),
        })
        .collect()
}
