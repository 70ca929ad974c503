//! Measures the index with a million runs. Each query runs in its own process, and the time includes opening the
//! index.
//!
//! `cargo run --release -p journal --example index_million [ROWS] [DIRECTORY]`; a named directory is left in place
//! and reused.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use domain::Timestamp;
use domain::id::RunId;
use domain::run::OutcomeKind;
use journal::index::{EndedRun, Index, IndexState, ListQuery, WriteOutcome};

const ROWS: u64 = 1_000_000;
const PROJECTS: u64 = 200;
const AGENTS: u64 = 25;
const FIRST_MS: i64 = 1_790_000_000_000;
const QUESTIONS: [&str; 16] = [
    "open only",
    "list newest",
    "list page in the middle",
    "list project",
    "list agent in all projects",
    "list project and agent",
    "list project, failed",
    "list all, rarest outcome",
    "list session",
    "list tree",
    "list project and agent, last hour",
    "find by 4 digits",
    "health of a project",
    "health of all",
    "count",
    "insert one",
];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [ask, question, directory] = arguments.as_slice()
        && ask == "ask"
    {
        return answer_and_print(question, Path::new(directory));
    }
    let rows = arguments.first().map_or(Ok(ROWS), |text| text.parse()).context("read the number of rows")?;
    let scratch = tempfile::tempdir()?;
    let directory = arguments.get(1).map_or_else(|| scratch.path().to_owned(), PathBuf::from);
    let mut out = std::io::stdout().lock();
    build(&directory, rows, &mut out)?;
    writeln!(
        out,
        "| question | answers | warm, median of 11 | warm, worst | file not in memory |\n|---|---|---|---|---|"
    )?;
    for question in QUESTIONS {
        forget_pages(&directory)?;
        let (cold, answers) = ask_in_child_process(question, &directory)?;
        let mut warm = Vec::new();
        for _ in 0..11 {
            warm.push(ask_in_child_process(question, &directory)?.0);
        }
        warm.sort_unstable();
        let (median, worst) = (warm[5], warm[10]);
        writeln!(out, "| {question} | {answers} | {} | {} | {} |", ms(median), ms(worst), ms(cold))?;
    }
    Ok(())
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

fn build(directory: &Path, rows: u64, out: &mut impl Write) -> anyhow::Result<()> {
    let opened = Index::open(directory)?;
    let mut index = opened.index;
    if opened.state == IndexState::Existing {
        return Ok(());
    }
    let started = Instant::now();
    index.begin_rebuild()?;
    for begin in (0..rows).step_by(2000) {
        let runs: Vec<EndedRun> = (begin..rows.min(begin + 2000)).map(run).collect();
        expect_written(index.insert(&runs))?;
    }
    expect_written(index.mark_complete())?;
    let took = started.elapsed();
    let bytes = std::fs::metadata(directory.join("index-v3.db"))?.len();
    ensure!(index.count()? == rows, "the index holds {} runs", index.count()?);
    writeln!(out, "{rows} runs inserted in {:.1} s; the file has {} MiB\n", took.as_secs_f64(), bytes >> 20)?;
    Ok(())
}

fn expect_written(outcome: WriteOutcome) -> anyhow::Result<()> {
    match outcome {
        WriteOutcome::Done { .. } => Ok(()),
        WriteOutcome::Failed(error) => Err(error.into()),
    }
}

fn scramble(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}

fn id(number: u64) -> RunId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&scramble(number).to_be_bytes());
    // A run every 600 ms: a million in a week.
    let at_ms = FIRST_MS + i64::try_from(number).unwrap_or(0) * 600;
    RunId::from_parts(Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH), random)
}

fn project(number: u64) -> String {
    format!("/home/somebody/projects/team-{}/service-{}", number % 7, number % PROJECTS)
}

fn run(number: u64) -> EndedRun {
    let random = scramble(number ^ 0xabcd);
    let outcome = match random % 1000 {
        0 => OutcomeKind::OverBudget,
        1..=50 => OutcomeKind::Failed,
        51..=70 => OutcomeKind::TimedOut,
        71..=90 => OutcomeKind::Cancelled,
        _ => OutcomeKind::Succeeded,
    };
    let id = id(number);
    let duration_ms = random % 600_000;
    let error =
        (outcome == OutcomeKind::Failed).then(|| "failed: the agent exited with code 1: no such file".into());
    EndedRun {
        id,
        agent: format!("agent-{}", random / 1000 % AGENTS).parse().expect("a valid name"),
        backend: "claude".parse().expect("a valid name"),
        project: project(random / 100_000),
        caller: "main".into(),
        token: None,
        session: number
            .is_multiple_of(4)
            .then(|| format!("session-{}", number / 40).parse().expect("a valid name")),
        parent: (!number.is_multiple_of(10)).then(|| self::id(number / 10 * 10)),
        root: self::id(number / 10 * 10),
        outcome,
        created_at: id.created_at(),
        ended_at: Timestamp::from_millisecond(
            id.created_at().as_millisecond() + i64::try_from(duration_ms).unwrap_or(0),
        )
        .expect("a time of this century"),
        duration_ms,
        cost_microusd: number.is_multiple_of(2).then_some(random % 90_000),
        input_tokens: random % 50_000,
        output_tokens: random % 3_000,
        prompt_head: "Review the change to the parser of definitions and say what is wrong with it. "
            .repeat(2),
        error,
        denials_count: 0,
    }
}

/// Runs one query in a fresh process and returns the time from before opening the index to the answer.
#[expect(clippy::disallowed_methods, reason = "a fresh process is what is measured")]
fn ask_in_child_process(question: &str, directory: &Path) -> anyhow::Result<(Duration, String)> {
    let mut other = std::process::Command::new(std::env::current_exe()?);
    let output = other.args(["ask", question]).arg(directory).output()?;
    ensure!(output.status.success(), "{question}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let (nanos, answers) = text.trim().split_once(' ').context("two words")?;
    Ok((Duration::from_nanos(nanos.parse()?), answers.to_owned()))
}

fn answer_and_print(question: &str, directory: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    let answers = ask(question, directory)?;
    writeln!(std::io::stdout(), "{} {answers}", started.elapsed().as_nanos())?;
    Ok(())
}

fn ask(question: &str, directory: &Path) -> anyhow::Result<usize> {
    let mut index = Index::open(directory)?.index;
    let project = project(2);
    let all = ListQuery { limit: 50, ..ListQuery::default() };
    let in_project = ListQuery { project: Some(&project), ..all.clone() };
    let query = match question {
        "open only" => return Ok(0),
        "list newest" => all,
        "list page in the middle" => ListQuery { before: Some(id(ROWS / 2)), ..in_project },
        "list project" => in_project,
        "list agent in all projects" => ListQuery { agent: Some("agent-3"), ..all },
        "list project and agent" => ListQuery { agent: Some("agent-3"), ..in_project },
        "list project, failed" => ListQuery { outcomes: &[OutcomeKind::Failed], ..in_project },
        "list all, rarest outcome" => ListQuery { outcomes: &[OutcomeKind::OverBudget], ..all },
        "list session" => ListQuery { session: Some("session-77"), ..all },
        "list tree" => ListQuery { root: Some(id(7770)), ..all },
        "list project and agent, last hour" => {
            let newest = FIRST_MS + i64::try_from(ROWS)? * 600;
            ListQuery { agent: Some("agent-3"), newer_than_ms: Some(newest - 3_600_000), ..in_project }
        }
        "find by 4 digits" => return Ok(index.find_by_id_suffix(&id(12345).hex()[28..])?.len()),
        "health of a project" => return Ok(index.health(Some(&project))?.rows.len()),
        "health of all" => return Ok(index.health(None)?.rows.len()),
        "count" => return Ok(usize::try_from(index.count()?)?),
        "insert one" => {
            let number = 10 * ROWS + u64::from(std::process::id());
            expect_written(index.insert(&[run(number)]))?;
            return Ok(1);
        }
        other => anyhow::bail!("no such question: {other}"),
    };
    Ok(index.list(&query)?.len())
}

/// Drops the file's pages from the page cache, as after a reboot.
fn forget_pages(directory: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let file = File::open(entry?.path())?;
        file.sync_all()?;
        #[cfg(target_os = "linux")]
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}
