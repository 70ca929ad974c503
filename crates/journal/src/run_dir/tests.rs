//! A run's directory appears complete and locked, and disappears without a trace.

use std::fs;
use std::os::unix::fs::MetadataExt;

use domain::run::SPEC_VERSION;

use super::RunDir;
use crate::durable::{Disk, Faults};
use crate::fixtures::{TestHome, at, run_id, spec};
use crate::home::Home;
use crate::run_lock::RunLock;
use crate::store_error::StoreError;

fn names(path: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_new_run_is_complete_private_and_locked() {
    let test = TestHome::new();
    let run = test.run();
    assert!(run.dir.path().ends_with(format!("runs/2026-11-14/{}", run_id(1))));
    assert_eq!(names(run.dir.path()), ["events.jsonl", "inbox", "lock", "spec.json"]);
    for name in names(run.dir.path()) {
        let mode = fs::metadata(run.dir.path().join(&name)).unwrap().mode() & 0o777;
        assert_eq!(mode, if name == "inbox" { 0o700 } else { 0o600 }, "{name}");
    }
    assert_eq!(run.dir.read_spec().unwrap(), spec(1));
    assert_eq!(test.home.open_runs().unwrap(), [run_id(1)]);
    assert!(run.dir.is_locked().unwrap());
    assert!(run.dir.try_lock().unwrap().is_none());
    run.make_durable().unwrap();
    drop(run.lock);
    assert!(!run.dir.is_locked().unwrap());
    assert!(run.dir.try_lock().unwrap().is_some());
}

#[test]
fn the_lock_lives_as_long_as_any_copy_of_it() {
    let test = TestHome::new();
    let run = test.run();
    let copy = rustix::io::fcntl_dupfd_cloexec(&run.lock, 0).unwrap();
    drop(run.lock);
    assert!(run.dir.try_lock().unwrap().is_none());
    let inherited = RunLock::from_fd(copy);
    assert!(run.dir.is_locked().unwrap());
    drop(inherited);
    assert!(run.dir.try_lock().unwrap().is_some());
}

#[test]
fn the_lock_is_not_inherited_by_programs() {
    let test = TestHome::new();
    let run = test.run();
    let flags = rustix::io::fcntl_getfd(&run.lock).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
}

#[test]
fn a_run_that_could_not_be_created_leaves_nothing() {
    let test = TestHome::new();
    let home = test.broken(Faults { bytes_before_full: Some(10), ..Faults::default() });
    let error = home.create_run(&spec(1)).unwrap_err();
    assert_eq!(error.unwritable(), Some(crate::Unwritable::Full), "{error:?}");
    assert!(error.to_string().starts_with("write "), "{error}");
    assert_eq!(home.open_runs().unwrap(), []);
    assert_eq!(names(&home.runs_dir().join("2026-11-14")), Vec::<String>::new());
}

#[test]
fn the_same_id_twice_is_refused_and_the_first_run_stays() {
    let test = TestHome::new();
    let run = test.run();
    let error = test.home.create_run(&spec(1)).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
    assert_eq!(run.dir.read_spec().unwrap(), spec(1));
    assert_eq!(test.home.open_runs().unwrap(), [run_id(1)]);
}

#[test]
fn each_failing_sync_makes_the_run_not_durable() {
    let test = TestHome::new();
    for allowed in 0..5 {
        let home = test.broken(Faults { syncs_before_failure: Some(allowed), ..Faults::default() });
        let run = home.create_run(&spec(u8::try_from(allowed).unwrap())).unwrap();
        assert!(run.make_durable().is_err(), "{allowed}");
        assert_eq!(home.disk().syncs(), allowed + 1, "a failed sync is not repeated");
    }
}

#[test]
fn one_sync_makes_a_run_durable_where_the_filesystem_has_one_log() {
    let test = TestHome::new();
    let disk = Disk::broken(Faults::default()).with_one_log();
    let home = Home::open_on(test.home.path(), disk).unwrap();
    let run = home.create_run(&spec(1)).unwrap();
    run.make_durable().unwrap();
    assert_eq!(home.disk().syncs(), 1);
    let failing = Disk::broken(Faults { syncs_before_failure: Some(0), ..Faults::default() }).with_one_log();
    let home = Home::open_on(test.home.path(), failing).unwrap();
    assert!(home.create_run(&spec(2)).unwrap().make_durable().is_err());
}

#[test]
fn a_discarded_run_leaves_no_trace() {
    let test = TestHome::new();
    let run = test.run();
    let dir = run.dir.clone();
    run.dir.discard(run.lock).unwrap();
    assert!(!dir.exists());
    assert_eq!(test.home.open_runs().unwrap(), []);
    assert_eq!(names(&test.home.trash_dir()), Vec::<String>::new());
    assert!(matches!(dir.read_spec().unwrap_err(), StoreError::NoSuchRun { .. }));
    assert!(matches!(dir.try_lock().unwrap_err(), StoreError::NoSuchRun { .. }));
}

#[test]
fn a_spec_of_a_newer_version_is_refused_clearly() {
    let test = TestHome::new();
    let run = test.run();
    fs::write(run.dir.spec_path(), format!("{{\"version\":{},\"shape\":\"other\"}}", SPEC_VERSION + 1))
        .unwrap();
    let error = run.dir.read_spec().unwrap_err();
    assert!(matches!(error, StoreError::TooNew { .. }), "{error:?}");
    assert!(error.to_string().contains("newer volery"), "{error}");
    fs::write(run.dir.spec_path(), "{").unwrap();
    assert!(matches!(run.dir.read_spec().unwrap_err(), StoreError::Malformed { .. }));
}

#[test]
fn a_run_is_known_by_its_path() {
    let test = TestHome::new();
    let run = test.run();
    let again = RunDir::from_path(run.dir.path()).unwrap();
    assert_eq!(again.id(), run_id(1));
    assert_eq!(again.home().path(), test.home.path());
    assert_eq!(again.read_spec().unwrap(), spec(1));
    for path in ["/", "", "/a/b/c/d", test.home.path().to_str().unwrap()] {
        assert!(matches!(RunDir::from_path(path.as_ref()), Err(StoreError::NotARun { .. })), "{path}");
    }
}

#[test]
fn a_marker_without_a_run_is_cleared_when_old() {
    let test = TestHome::new();
    let marker = test.home.markers_dir().join(run_id(3).to_string());
    fs::write(&marker, "").unwrap();
    assert!(!test.home.clear_stale_marker(run_id(3), at(30)).unwrap(), "it may be on its way");
    assert!(marker.exists());
    assert!(test.home.clear_stale_marker(run_id(3), at(61)).unwrap());
    assert!(!marker.exists());
    let run = test.run();
    assert!(!test.home.clear_stale_marker(run.dir.id(), at(1000)).unwrap());
    test.home.remove_marker(run.dir.id()).unwrap();
    test.home.remove_marker(run.dir.id()).unwrap();
    assert_eq!(test.home.open_runs().unwrap(), []);
    assert!(run.dir.exists());
}

#[test]
fn literal_values_for_servers_are_hidden_after_the_end_and_not_before() {
    use domain::run::{Ending, Outcome};

    use crate::log::LogWriter;

    let test = TestHome::new();
    let mut run_spec = spec(1);
    let server = r#"{"name": "s", "transport": {"stdio": {"command": "x", "env": {"A": "k-secret"}}}}"#;
    run_spec.setup.mcp_servers = vec![serde_json::from_str(server).unwrap()];
    let run = test.home.create_run(&run_spec).unwrap();
    let text = || fs::read_to_string(run.dir.spec_path()).unwrap();
    let mut log = LogWriter::open(&run.dir, &run.lock).unwrap();
    assert!(text().contains("k-secret"), "another worker may need it");
    log.finish(at(5), Ending::from_outcome(Outcome::Succeeded)).unwrap();
    assert!(!text().contains("k-secret") && text().contains("[redacted]"), "{}", text());
    assert_eq!(run.dir.read_spec().unwrap().setup.mcp_servers.len(), 1);
    let temporary =
        names(run.dir.path()).into_iter().filter(|name| name.contains("spec")).collect::<Vec<_>>();
    assert_eq!(temporary, ["spec.json"]);
    // If the worker was killed before it could hide the values, the process that sees the end does.
    fs::write(run.dir.spec_path(), serde_json::to_vec(&run_spec).unwrap()).unwrap();
    run.dir.redact_values(&run_spec).unwrap();
    assert!(!text().contains("k-secret"));
}
