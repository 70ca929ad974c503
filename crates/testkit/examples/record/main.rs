//! Records the real output of vendors' agents for the tests of the stream readers: `cargo run -p testkit
//! --example record [AGENT [CASE]]` writes `crates/backends/tests/streams/AGENT/CASE.jsonl` and the `cases.json` in
//! the same folder.
//!
//! Values that differ between recordings (ids, times, ports, folders) are replaced, so that a diff shows only real
//! changes.

mod cases;
mod scrub;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fake_llm::AgentDirs;
use serde_json::{Value, json};
use testkit::{CliOutput, CliRequest, NetworkIsolation, OfflineSandbox, cli_launch};

use cases::RecordingCase;

const PATIENCE: Duration = Duration::from_secs(240);
const STDERR_MAX: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (agent, only) = (arguments.next(), arguments.next());
    for (name, cases) in cases::all() {
        if agent.as_ref().is_some_and(|agent| agent != name) {
            continue;
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backends/tests/streams").join(name);
        std::fs::create_dir_all(&folder)?;
        let index = folder.join("cases.json");
        let known = std::fs::read_to_string(&index).unwrap_or_else(|_| "{}".to_owned());
        let mut known: serde_json::Map<String, Value> = serde_json::from_str(&known)?;
        for case in cases {
            if only.as_ref().is_some_and(|only| only != case.name) {
                continue;
            }
            let recorded = record(name, &case, &folder)?;
            known.insert(case.name.to_owned(), recorded);
        }
        known.sort_keys();
        std::fs::write(&index, format!("{:#}\n", Value::Object(known)))?;
    }
    Ok(())
}

/// Runs a case, writes its stream to a file, and returns its metadata.
fn record(name: &str, case: &RecordingCase, folder: &Path) -> Result<Value, Box<dyn std::error::Error>> {
    let root = tempfile::Builder::new().prefix("record-").tempdir()?;
    let folders = AgentDirs::create(root.path())?;
    for (file, content) in &case.files {
        let path = folders.work.join(file);
        std::fs::create_dir_all(path.parent().ok_or("a file is in a folder")?)?;
        std::fs::write(path, content)?;
    }
    let offline = OfflineSandbox::start(&fake_llm_program()?, case.script.clone())?;
    if offline.isolation() != NetworkIsolation::Namespace {
        return Err("recordings are made where there is no network".into());
    }
    let url = offline.server().url();
    let mut scrub = scrub::Scrub::new(&folders, &url);
    let mut output = None;
    for (number, step) in case.steps.iter().enumerate() {
        let session =
            output.as_ref().map(|output: &CliOutput| find_session_id(&output.stdout)).unwrap_or_default();
        let arguments: Vec<String> =
            step.arguments.iter().map(|argument| argument.replace("SESSION", &session)).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let order = CliRequest { url: &url, folders: &folders, prompt: step.prompt, arguments: &arguments };
        let mut launch = cli_launch(name, &order)?;
        launch.env.retain(|(known, _)| case.env.iter().all(|(name, _)| name != known));
        launch.env.extend(case.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        launch.terminate_after = case.terminate_after;
        let step_output = testkit::run_cli(&offline, &folders, &launch, PATIENCE)?;
        print_progress(&format!(
            "{name} {} {}: exit {}, late {}",
            case.name,
            number + 1,
            step_output.exit,
            step_output.timed_out
        ));
        output = Some(step_output);
    }
    let output = output.ok_or("a case has a step")?;
    let stream: String = output.stdout.lines().map(|line| scrub.line(line) + "\n").collect();
    std::fs::write(folder.join(format!("{}.jsonl", case.name)), stream)?;
    let stderr = shorten(&scrub.text(&output.stderr));
    let last = case.steps.last().ok_or("a case has a step")?;
    let mut recorded = json!({ "exit": output.exit, "late": output.timed_out, "arguments": last.arguments });
    if !case.env.is_empty() {
        let env = case.env.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        recorded["env"] = Value::Object(env.collect());
    }
    recorded["requests"] = offline.server().model_requests().len().into();
    recorded["stderr"] = stderr.into();
    Ok(recorded)
}

/// Returns the beginning and the end of a long text.
fn shorten(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= STDERR_MAX {
        return text.to_owned();
    }
    let (first, last) = (&letters[..STDERR_MAX / 2], &letters[letters.len() - STDERR_MAX / 2..]);
    format!("{}\n[…]\n{}", first.iter().collect::<String>(), last.iter().collect::<String>())
}

/// Finds the session id in an agent's output.
fn find_session_id(stdout: &str) -> String {
    let names = ["session_id", "thread_id", "sessionId", "sessionID"];
    let lines = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found = lines.filter_map(|line| {
        names.iter().find_map(|name| line.get(*name).and_then(Value::as_str).map(str::to_owned))
    });
    found.next_back().unwrap_or_default()
}

fn fake_llm_program() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(Path::parent).ok_or("examples are in a folder of their own")?;
    Ok(folder.join("fake-llm"))
}

fn print_progress(text: &str) {
    // Without standard error the message is lost.
    let _ = writeln!(std::io::stderr(), "{text}");
}
