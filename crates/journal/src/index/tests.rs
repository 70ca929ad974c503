//! The public API of the index: inserts, queries, damage, and concurrent writers.

use std::collections::BTreeMap;
use std::path::Path;

use domain::Timestamp;
use domain::id::RunId;
use domain::run::OutcomeKind;
use proptest::prelude::*;

use super::*;

/// The properties of a run that a test varies.
#[derive(Debug, Clone)]
struct Sketch {
    number: u16,
    project: u8,
    agent: u8,
    outcome: usize,
    duration_ms: u64,
    cost: Option<u64>,
    ended: i64,
}

const PROJECTS: [&str; 3] = ["/srv/one", "/srv/two", "/srv/it's \"three\""];
const AGENTS: [&str; 3] = ["reviewer", "writer", "tester"];

fn id(number: u64) -> RunId {
    let mut random = [0; 10];
    // Scrambled, so that suffixes differ like those of random ids.
    random[2..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    RunId::from_parts(time(i64::try_from(number).unwrap()), random)
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

fn run(sketch: &Sketch) -> EndedRun {
    let id = id(u64::from(sketch.number));
    let outcome = OutcomeKind::ALL[sketch.outcome];
    let went_well = matches!(outcome, OutcomeKind::Succeeded | OutcomeKind::Cancelled);
    EndedRun {
        id,
        agent: AGENTS[usize::from(sketch.agent)].parse().unwrap(),
        backend: if sketch.number.is_multiple_of(2) { "command" } else { "claude" }.parse().unwrap(),
        project: PROJECTS[usize::from(sketch.project)].to_owned(),
        caller: "main".to_owned(),
        token: sketch.number.is_multiple_of(2).then(|| format!("t{}", sketch.number % 4)),
        session: sketch.number.is_multiple_of(3).then(|| format!("s{}", sketch.number % 9).parse().unwrap()),
        parent: (sketch.number % 5 == 1).then(|| self::id(u64::from(sketch.number) - 1)),
        root: self::id(u64::from(sketch.number / 5 * 5)),
        outcome,
        created_at: id.created_at(),
        ended_at: time(sketch.ended),
        duration_ms: sketch.duration_ms,
        cost_microusd: sketch.cost,
        input_tokens: 10,
        output_tokens: sketch.duration_ms % 7,
        prompt_head: format!("do thing {}", sketch.number),
        error: (!went_well).then(|| format!("went wrong in {}", sketch.number)),
        denials_count: 0,
    }
}

fn sketches() -> impl Strategy<Value = Sketch> {
    let ids = (0_u16..60, 0_u8..3, 0_u8..3, 0_usize..8);
    let amounts = (0_u64..4, proptest::option::of(0_u64..5), 0_i64..6);
    (ids, amounts).prop_map(|((number, project, agent, outcome), (duration_ms, cost, ended))| Sketch {
        number,
        project,
        agent,
        outcome,
        duration_ms,
        cost,
        ended,
    })
}

/// A hundred different runs, newest first.
pub(super) fn hundred() -> Vec<EndedRun> {
    let numbers = (0..100_u16).rev();
    let sketch = |number: u16| Sketch {
        number,
        project: (number % 3) as u8,
        agent: (number / 3 % 3) as u8,
        outcome: usize::from(number / 9 % 8),
        duration_ms: u64::from(number),
        cost: number.is_multiple_of(2).then_some(u64::from(number)),
        ended: i64::from(number) + 5,
    };
    numbers.map(|number| run(&sketch(number))).collect()
}

pub(super) fn open(home: &Path) -> Index {
    Index::open(home).unwrap().index
}

pub(super) fn done(written: WriteOutcome) -> u64 {
    match written {
        WriteOutcome::Done { rows } => rows,
        WriteOutcome::Failed(error) => panic!("not written: {error}"),
    }
}

pub(super) fn filled(home: &Path) -> (Index, Vec<EndedRun>) {
    let mut index = open(home);
    let runs = hundred();
    assert_eq!(done(index.insert(&runs)), 100);
    (index, runs)
}

pub(super) fn everything(limit: usize) -> ListQuery<'static> {
    ListQuery { limit, ..ListQuery::default() }
}

/// Computes the expected sums directly from the runs.
fn summed(runs: &[EndedRun]) -> HealthTotals {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&EndedRun>> = BTreeMap::new();
    for run in runs {
        groups.entry((&run.project, run.agent.as_str(), run.backend.as_str())).or_default().push(run);
    }
    HealthTotals { rows: groups.into_values().map(|group| sum(&group)).collect(), left_out: 0 }
}

fn sum(group: &[&EndedRun]) -> HealthRow {
    let mut outcomes = OutcomeCounts::default();
    for run in group {
        outcomes.add(run.outcome, 1);
    }
    let last_failed = group.iter().filter(|run| run.error.is_some()).max_by_key(|run| (run.ended_at, run.id));
    HealthRow {
        project: group[0].project.clone(),
        agent: group[0].agent.clone(),
        backend: group[0].backend.clone(),
        runs: group.len() as u64,
        outcomes,
        duration_sum_ms: group.iter().map(|run| run.duration_ms).sum(),
        duration_max_ms: group.iter().map(|run| run.duration_ms).max().unwrap(),
        cost_runs: group.iter().filter(|run| run.cost_microusd.is_some()).count() as u64,
        cost_sum_microusd: group.iter().filter_map(|run| run.cost_microusd).sum(),
        input_tokens_sum: group.iter().map(|run| run.input_tokens).sum(),
        output_tokens_sum: group.iter().map(|run| run.output_tokens).sum(),
        last_ended_at: group.iter().map(|run| run.ended_at).max().unwrap(),
        last_error: last_failed.map(|run| LastError {
            run: run.id,
            at: run.ended_at,
            text: run.error.clone().expect("only runs with an error were looked at"),
        }),
    }
}

#[test]
fn inserted_runs_are_listed_newest_first_and_only_once() {
    let home = tempfile::tempdir().unwrap();
    let (mut index, runs) = filled(home.path());
    assert_eq!(done(index.insert(&runs)), 0);
    assert_eq!(index.count().unwrap(), 100);
    assert_eq!(index.list(&everything(1000)).unwrap(), runs);
    assert_eq!(index.list(&everything(3)).unwrap(), runs[..3]);
    assert_eq!(open(home.path()).list(&everything(1000)).unwrap(), runs, "another connection sees the same");
}

#[test]
fn a_list_holds_the_runs_that_match_every_filter() {
    let home = tempfile::tempdir().unwrap();
    let (index, runs) = filled(home.path());
    let kinds = [OutcomeKind::Failed, OutcomeKind::TimedOut, OutcomeKind::Failed];
    let root = runs[37].root;
    let parent = runs.iter().find_map(|run| run.parent).unwrap();
    let mut checked = 0;
    // Every combination of conditions.
    for bits in 0_u32..512 {
        let includes = |bit: u32| bits & (1 << bit) != 0;
        let query = ListQuery {
            project: includes(0).then_some(PROJECTS[2]),
            agent: includes(1).then_some("writer"),
            session: includes(2).then_some("s3"),
            outcomes: if includes(3) { &kinds } else { &[] },
            root: includes(4).then_some(root),
            parent: includes(5).then_some(parent),
            newer_than_ms: includes(6).then(|| runs[80].created_at.as_millisecond()),
            before: includes(7).then_some(runs[5].id),
            token: includes(8).then_some("t2"),
            limit: 7,
        };
        let fits = |run: &&EndedRun| {
            query.project.is_none_or(|project| run.project == project)
                && query.agent.is_none_or(|agent| run.agent.as_str() == agent)
                && query
                    .session
                    .is_none_or(|s| run.session.as_ref().is_some_and(|session| session.as_str() == s))
                && (query.outcomes.is_empty() || query.outcomes.contains(&run.outcome))
                && query.root.is_none_or(|root| run.root == root)
                && query.parent.is_none_or(|parent| run.parent == Some(parent))
                && query.token.is_none_or(|token| run.token.as_deref() == Some(token))
                && query.newer_than_ms.is_none_or(|ms| run.created_at.as_millisecond() >= ms)
                && query.before.is_none_or(|before| run.id < before)
        };
        let expected: Vec<EndedRun> = runs.iter().filter(fits).take(7).cloned().collect();
        assert_eq!(index.list(&query).unwrap(), expected, "{query:?}");
        checked += usize::from(!expected.is_empty());
    }
    assert!(checked > 40, "only {checked} questions have an answer");
}

#[test]
fn pages_follow_each_other_without_gap() {
    let home = tempfile::tempdir().unwrap();
    let (index, runs) = filled(home.path());
    let mut seen = Vec::new();
    loop {
        let before = seen.last().map(|run: &EndedRun| run.id);
        let page = index.list(&ListQuery { before, project: Some(PROJECTS[0]), ..everything(4) }).unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    let expected: Vec<EndedRun> = runs.into_iter().filter(|run| run.project == PROJECTS[0]).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_run_is_found_by_any_ending_of_its_id() {
    let home = tempfile::tempdir().unwrap();
    let (index, runs) = filled(home.path());
    for run in &runs {
        let hex = run.id.hex();
        for digits in [8, 13, 31, 32] {
            assert_eq!(
                index.find_by_id_suffix(&hex[32 - digits..]).unwrap(),
                [run.id],
                "{hex} by {digits} digits"
            );
        }
    }
    let ending = &runs[0].id.hex()[31..];
    let mut expected: Vec<RunId> =
        runs.iter().map(|run| run.id).filter(|id| id.hex().ends_with(ending)).collect();
    expected.truncate(8);
    let found = index.find_by_id_suffix(ending).unwrap();
    assert_eq!(found.len(), expected.len());
    assert!(
        found.is_sorted_by(|one, other| one > other) && found.iter().all(|id| id.hex().ends_with(ending))
    );
    for nothing in ["", "xyz", "%", "ABCD", "0123456789abcdef0123456789abcdef0"] {
        assert_eq!(index.find_by_id_suffix(nothing).unwrap(), [], "{nothing:?}");
    }
}

#[test]
fn health_covers_a_project_or_all() {
    let home = tempfile::tempdir().unwrap();
    let (index, runs) = filled(home.path());
    assert_eq!(index.health(None).unwrap(), summed(&runs));
    let project_runs: Vec<EndedRun> = runs.into_iter().filter(|run| run.project == PROJECTS[1]).collect();
    assert_eq!(index.health(Some(PROJECTS[1])).unwrap(), summed(&project_runs));
    assert_eq!(index.health(Some("/nowhere")).unwrap(), summed(&[]));
}

#[test]
fn health_of_very_many_agents_covers_the_latest_and_counts_the_rest() {
    let home = tempfile::tempdir().unwrap();
    let mut index = open(home.path());
    let mut runs: Vec<EndedRun> = Vec::new();
    for (number, mut run) in (0..1005).zip(hundred().into_iter().cycle()) {
        run.id = id(number);
        run.project = format!("/srv/{number}");
        run.ended_at = time(i64::try_from(number).unwrap());
        runs.push(run);
    }
    index.begin_rebuild().unwrap();
    done(index.insert(&runs));
    done(index.mark_complete());
    let health = index.health(None).unwrap();
    assert_eq!(health, HealthTotals { left_out: 5, ..summed(&runs[5..]) });
    assert_eq!(index.count().unwrap(), 1005);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn sums_equal_a_recomputation_after_any_inserts_and_removals(
        steps in proptest::collection::vec((any::<bool>(), proptest::collection::vec(sketches(), 1..12)), 1..12),
    ) {
        let home = tempfile::tempdir().unwrap();
        let mut index = open(home.path());
        let mut model: BTreeMap<RunId, EndedRun> = BTreeMap::new();
        for (adds, sketches) in steps {
            let runs: Vec<EndedRun> = sketches.iter().map(run).collect();
            if adds {
                done(index.insert(&runs));
                for run in runs {
                    model.entry(run.id).or_insert(run);
                }
            } else {
                let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
                done(index.remove(&ids));
                ids.iter().for_each(|id| { model.remove(id); });
            }
            let left: Vec<EndedRun> = model.values().cloned().collect();
            prop_assert_eq!(index.health(None).unwrap(), summed(&left));
            prop_assert_eq!(index.count().unwrap(), left.len() as u64);
        }
    }
}

#[test]
fn clearing_leaves_an_empty_index_that_asks_for_a_rebuild() {
    let home = tempfile::tempdir().unwrap();
    let (mut index, runs) = filled(home.path());
    let other = open(home.path());
    done(index.mark_complete());
    assert_eq!(Index::open(home.path()).unwrap().state, IndexState::Existing);
    assert_eq!(done(index.clear()), 100);
    assert_eq!((index.count().unwrap(), index.health(None).unwrap()), (0, summed(&[])));
    assert_eq!(other.list(&everything(5)).unwrap(), [], "connections that were open see it too");
    assert_eq!(Index::open(home.path()).unwrap().state, IndexState::Incomplete);
    assert_eq!(done(index.insert(&runs)), 100);
    assert_eq!(other.health(None).unwrap(), summed(&runs));
}

#[test]
fn a_new_index_is_complete_only_when_somebody_says_so() {
    let home = tempfile::tempdir().unwrap();
    let opened = Index::open(home.path()).unwrap();
    assert_eq!(opened.state, IndexState::Fresh);
    drop(opened);
    let mut opened = Index::open(home.path()).unwrap();
    assert_eq!(opened.state, IndexState::Incomplete, "whoever was to rebuild it may have died");
    done(opened.index.mark_complete());
    let state = Index::open(home.path()).unwrap().state;
    assert_eq!(state, IndexState::Existing);
    assert!(!state.needs_rebuild());
}

#[test]
fn files_of_older_versions_go_and_the_file_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let old = ["index-v0.db", "index-v0.db-wal"].map(|name| home.path().join(name));
    old.iter().for_each(|path| std::fs::write(path, "old").unwrap());
    let (index, _) = filled(home.path());
    assert!(old.iter().all(|path| !path.exists()));
    for name in ["index-v3.db", "index-v3.db-wal"] {
        let mode = std::fs::metadata(home.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    drop(index);
}

#[test]
fn a_damaged_file_is_moved_aside_and_replaced() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("index-v3.db");
    let noise = b"this is not a database, whatever its name says".repeat(200);
    for (damage, content) in [("empty", &b""[..]), ("noise", &noise), ("cut", &[])] {
        if damage == "cut" {
            drop(filled(home.path()));
            let connection = rusqlite::Connection::open(&path).unwrap();
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
            drop(connection);
            let whole = std::fs::read(&path).unwrap();
            std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        } else {
            std::fs::write(&path, content).unwrap();
        }
        let opened = Index::open(home.path()).unwrap();
        let IndexState::Replaced { moved_to } = &opened.state else { panic!("{damage}: {:?}", opened.state) };
        assert!(moved_to.exists(), "{damage}");
        assert_eq!(opened.index.count().unwrap(), 0, "{damage}");
        drop(opened);
        assert_eq!(Index::open(home.path()).unwrap().state, IndexState::Incomplete, "{damage}");
    }
    for _ in 0..5 {
        std::fs::write(&path, &noise).unwrap();
        assert!(matches!(Index::open(home.path()).unwrap().state, IndexState::Replaced { .. }));
    }
    let names = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let corrupt_files = names.filter(|name| name.to_string_lossy().contains("corrupt")).count();
    assert_eq!(corrupt_files, 3);
}

#[test]
fn damage_found_later_is_reported_and_can_be_recovered_from() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("index-v3.db");
    drop(filled(home.path()));
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'run_by_id'";
    let page: u32 = connection.query_row(root, [], |row| row.get(0)).unwrap();
    drop(connection);
    assert_eq!(Index::recover(home.path()).unwrap().state, IndexState::Incomplete, "nothing is wrong yet");
    let mut bytes = std::fs::read(&path).unwrap();
    let end = page as usize * 4096;
    bytes[end - 4096..end].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    let answers = open(home.path()).list(&everything(50));
    assert!(matches!(answers, Err(IndexError::Corrupt { .. })), "{answers:?}");
    let opened = Index::recover(home.path()).unwrap();
    assert!(matches!(opened.state, IndexState::Replaced { .. }), "{:?}", opened.state);
    assert_eq!(opened.index.list(&everything(50)).unwrap(), []);
}

#[test]
fn a_log_of_a_deleted_file_is_not_replayed_into_the_next() {
    let home = tempfile::tempdir().unwrap();
    drop(filled(home.path()));
    assert!(home.path().join("index-v3.db-wal").exists(), "the test needs a log");
    std::fs::remove_file(home.path().join("index-v3.db")).unwrap();
    let opened = Index::open(home.path()).unwrap();
    assert_eq!(opened.state, IndexState::Fresh);
    assert_eq!(opened.index.count().unwrap(), 0);
}

#[test]
fn a_connection_to_a_replaced_file_reports_it() {
    let home = tempfile::tempdir().unwrap();
    let (mut index, runs) = filled(home.path());
    std::fs::remove_file(home.path().join("index-v3.db")).unwrap();
    assert!(matches!(index.list(&everything(1)), Err(IndexError::Replaced { .. })));
    let mut other = open(home.path());
    assert!(matches!(index.insert(&runs), WriteOutcome::Failed(IndexError::Replaced { .. })));
    drop(index);
    assert_eq!(done(other.insert(&runs[..1])), 1);
    drop(other);
    assert_eq!(open(home.path()).count().unwrap(), 1, "the old connection has not taken the new log with it");
}

#[test]
fn writers_from_many_connections_never_see_each_other_as_an_error() {
    let home = tempfile::tempdir().unwrap();
    let runs = hundred();
    std::thread::scope(|scope| {
        for writer in 0..10 {
            let (home, runs) = (home.path(), &runs);
            scope.spawn(move || {
                for run in runs.iter().skip(writer % 4) {
                    // As a command does: open, write, query, close.
                    let mut index = open(home);
                    done(index.insert(std::slice::from_ref(run)));
                    assert!(!index.list(&everything(1)).unwrap().is_empty());
                    index.health(None).unwrap();
                }
            });
        }
    });
    let index = open(home.path());
    assert_eq!(index.list(&everything(1000)).unwrap(), runs);
    assert_eq!(index.health(None).unwrap(), summed(&runs));
}

const CHILD: &str = "VOLERY_TEST_INDEX_CHILD";

/// Not a test by itself: the next test starts it in several processes.
#[test]
#[expect(clippy::disallowed_methods, reason = "the only way to tell a test binary what to do in a child")]
fn as_another_process() {
    let Ok(home) = std::env::var(CHILD) else { return };
    for run in hundred() {
        let mut index = open(Path::new(&home));
        done(index.insert(std::slice::from_ref(&run)));
        assert_eq!(index.list(&ListQuery { before: None, ..everything(1) }).unwrap().len(), 1);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "locks between processes differ from those between threads")]
fn writers_from_many_processes_never_see_each_other_as_an_error() {
    let home = tempfile::tempdir().unwrap();
    let start = |_| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "index::tests::as_another_process", "--test-threads=1"])
            .env(CHILD, home.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let others: Vec<std::process::Child> = (0..6).map(start).collect();
    for other in others {
        let output = other.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let index = open(home.path());
    assert_eq!(index.list(&everything(1000)).unwrap(), hundred());
    assert_eq!(index.health(None).unwrap(), summed(&hundred()));
}

#[test]
fn many_who_find_the_same_damage_replace_it_once() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("index-v3.db"), b"noise".repeat(999)).unwrap();
    let states: Vec<IndexState> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| Index::open(home.path()).unwrap().state)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let replaced = states.iter().filter(|state| matches!(state, IndexState::Replaced { .. })).count();
    assert_eq!(replaced, 1, "{states:?}");
}

#[test]
fn a_writer_that_stays_blocked_returns_a_failure() {
    let home = tempfile::tempdir().unwrap();
    let (mut index, runs) = filled(home.path());
    index.connection.busy_timeout(std::time::Duration::ZERO).unwrap();
    let blocker = rusqlite::Connection::open(home.path().join("index-v3.db")).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    index.patience = std::time::Duration::from_millis(50);
    let written = index.remove(&ids);
    assert!(!written.is_done(), "{written:?}");
    assert_eq!(index.list(&everything(1000)).unwrap(), runs, "reading goes on");
    blocker.execute_batch("ROLLBACK").unwrap();
    assert_eq!(done(index.remove(&ids)), 100);
}

#[test]
fn an_entry_is_one_line_of_each_text_and_bounded() {
    use domain::run::{Ending, Failure, Outcome};
    let spec = spec("Fix the\n\n  bug \u{7}in\tthe parser. ".to_owned() + &"é".repeat(300));
    let mut ending = Ending::from_outcome(Outcome::Failed { failure: Failure::Exit { code: 7 } });
    ending.stderr_tail = "warming up\npanic: no\tsuch file\n\n".to_owned();
    let run = EndedRun::new(&spec, &ending, time(9));
    assert!(run.prompt_head.starts_with("Fix the bug in the parser. éé"), "{}", run.prompt_head);
    assert_eq!(run.prompt_head.chars().count(), 200);
    assert_eq!(run.error.as_deref(), Some("failed: the agent exited with code 7: panic: no such file"));
    let message = "it broke".to_owned();
    let reported = Ending {
        outcome: Outcome::Failed { failure: Failure::Agent { message } },
        stderr_tail: "it broke\n".to_owned(),
        ..ending.clone()
    };
    let error = EndedRun::new(&spec, &reported, time(9)).error;
    assert_eq!(error.as_deref(), Some("failed: the agent reports: it broke"), "said once");
    ending.stderr_tail = "x".repeat(9000);
    assert_eq!(EndedRun::new(&spec, &ending, time(9)).error.map(|error| error.len()), Some(500));
    ending.outcome = Outcome::Cancelled { by: "main".to_owned() };
    assert_eq!(EndedRun::new(&spec, &ending, time(9)).error, None);
    ending.duration_ms = u64::MAX;
    let greatest = EndedRun::new(&spec, &ending, time(9));
    let home = tempfile::tempdir().unwrap();
    let mut index = open(home.path());
    done(index.insert(std::slice::from_ref(&greatest)));
    assert_eq!(index.list(&everything(1)).unwrap(), [greatest]);
}

fn spec(prompt: String) -> domain::run::RunSpec {
    serde_json::from_value(serde_json::json!({
        "version": 1, "id": id(1), "created_at": "2026-11-15T10:00:00.123456Z", "agent": "reviewer", "source": "a.md",
        "backend": { "name": "command", "kind": "command", "options": {} }, "prompt": prompt, "system_prompt": "",
        "directory": "/srv/one", "project": "/srv/one", "caller": { "door": "shell", "name": "main" },
        "root": id(1), "depth": 0, "limits": domain::budget::Limits::default(), "env": [],
        "delegates": "anyone", "on_disconnect": "continue", "on_interrupt": "end", "containment": "auto", "tag": 7
    }))
    .unwrap()
}

#[test]
fn every_question_is_answered_from_an_index() {
    let home = tempfile::tempdir().unwrap();
    let (index, runs) = filled(home.path());
    let plan = |sql: &str| -> String {
        let mut statement = index.connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = statement.raw_query();
        let mut plan = String::new();
        while let Some(row) = rows.next().unwrap() {
            plan.push_str(&row.get::<_, String>(3).unwrap());
            plan.push('\n');
        }
        plan
    };
    let kinds = [OutcomeKind::Failed];
    let base = everything(10);
    let questions = [
        (base.clone(), "run_by_id (id>? AND id<?)"),
        (ListQuery { outcomes: &kinds, ..base.clone() }, "run_by_outcome (outcome=? AND id>? AND id<?)"),
        (
            ListQuery { project: Some("p"), ..base.clone() },
            "run_by_project (project=? AND outcome=? AND id>? AND id<?)",
        ),
        (
            ListQuery { agent: Some("a"), ..base.clone() },
            "run_by_agent (agent=? AND outcome=? AND id>? AND id<?)",
        ),
        (
            ListQuery { project: Some("p"), agent: Some("a"), ..base.clone() },
            "run_by_project_agent (project=? AND agent=? AND outcome=? AND id>? AND id<?)",
        ),
    ];
    for (query, index_name) in questions {
        for scan in list::index_scans(&query) {
            assert_eq!(plan(&scan.sql), format!("SEARCH run USING COVERING INDEX {index_name}\n"));
        }
    }
    let few = [
        (ListQuery { session: Some("s"), ..base.clone() }, "run_by_session (session=? AND id>? AND id<?)"),
        (ListQuery { root: Some(runs[0].id), ..base.clone() }, "run_by_root (root=? AND id>? AND id<?)"),
        (ListQuery { token: Some("t"), ..base.clone() }, "run_by_token (token=? AND id>? AND id<?)"),
        (ListQuery { parent: Some(runs[0].id), ..base }, "run_by_parent (parent=? AND id>? AND id<?)"),
    ];
    for (query, index_name) in few {
        let query = ListQuery { project: Some("p"), outcomes: &kinds, ..query };
        let scans = list::index_scans(&query);
        assert_eq!(scans.len(), 1);
        assert_eq!(plan(&scans[0].sql), format!("SEARCH run USING INDEX {index_name}\n"));
    }
    assert_eq!(
        plan(find_by_suffix::SQL),
        "SEARCH run USING COVERING INDEX run_by_ending (ending>? AND ending<?)\n"
    );
    let [latest, _] = health::statements(None);
    assert_eq!(plan(&latest), "SCAN rollup USING INDEX rollup_by_end\n", "in order, up to the limit");
    let [latest, count] = health::statements(Some("p"));
    let project_search = "SEARCH rollup USING PRIMARY KEY (project=?)\n";
    assert_eq!(plan(&latest), format!("{project_search}USE TEMP B-TREE FOR ORDER BY\n"));
    assert_eq!(plan(&count), project_search);
}
