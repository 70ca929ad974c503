//! Records what agents of other vendors really write, for the tests of the readers: `cargo run -p model-server
//! --example record [AGENT [CASE]]` writes `crates/backend/tests/streams/AGENT/CASE.jsonl` and `cases.json` beside.
//!
//! What differs from one time to the next (ids, times, ports, folders) is replaced, so that a change is a change.

mod cases;
mod scrub;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model_server::{Closed, Folders, Offline, Order, Played, recipe};
use serde_json::{Value, json};

use cases::Case;

const PATIENCE: Duration = Duration::from_secs(240);
const STDERR_MAX: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (agent, only) = (arguments.next(), arguments.next());
    for (name, cases) in cases::all() {
        if agent.as_ref().is_some_and(|agent| agent != name) {
            continue;
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/streams").join(name);
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

/// Plays a case, writes its stream down, and returns what else is to be known about it.
fn record(name: &str, case: &Case, folder: &Path) -> Result<Value, Box<dyn std::error::Error>> {
    let root = tempfile::Builder::new().prefix("record-").tempdir()?;
    let folders = Folders::make(root.path())?;
    for (file, content) in &case.files {
        let path = folders.work.join(file);
        std::fs::create_dir_all(path.parent().ok_or("a file is in a folder")?)?;
        std::fs::write(path, content)?;
    }
    let offline = Offline::start(&model_server_program()?, case.script.clone())?;
    if offline.closed() != Closed::Namespace {
        return Err("recordings are made where there is no network".into());
    }
    let url = offline.server().url();
    let mut scrub = scrub::Scrub::new(&folders, &url);
    let mut played = None;
    for (number, step) in case.steps.iter().enumerate() {
        let session = played.as_ref().map(|played: &Played| session_of(&played.stdout)).unwrap_or_default();
        let arguments: Vec<String> =
            step.arguments.iter().map(|argument| argument.replace("SESSION", &session)).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let order = Order { url: &url, folders: &folders, prompt: step.prompt, arguments: &arguments };
        let mut recipe = recipe(name, &order)?;
        recipe.env.retain(|(known, _)| case.env.iter().all(|(name, _)| name != known));
        recipe.env.extend(case.env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        recipe.terminate_after = case.terminate_after;
        let one = model_server::play(&offline, &folders, &recipe, PATIENCE)?;
        say(&format!("{name} {} {}: exit {}, late {}", case.name, number + 1, one.exit, one.late));
        played = Some(one);
    }
    let played = played.ok_or("a case has a step")?;
    let stream: String = played.stdout.lines().map(|line| scrub.line(line) + "\n").collect();
    std::fs::write(folder.join(format!("{}.jsonl", case.name)), stream)?;
    let stderr = shorten(&scrub.text(&played.stderr));
    let last = case.steps.last().ok_or("a case has a step")?;
    let mut recorded = json!({ "exit": played.exit, "late": played.late, "arguments": last.arguments });
    if !case.env.is_empty() {
        let env = case.env.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        recorded["env"] = Value::Object(env.collect());
    }
    recorded["requests"] = offline.server().asks().len().into();
    recorded["stderr"] = stderr.into();
    Ok(recorded)
}

/// Keeps the beginning and the end of a long text.
fn shorten(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= STDERR_MAX {
        return text.to_owned();
    }
    let (first, last) = (&letters[..STDERR_MAX / 2], &letters[letters.len() - STDERR_MAX / 2..]);
    format!("{}\n[…]\n{}", first.iter().collect::<String>(), last.iter().collect::<String>())
}

/// Finds the id of the session in what an agent wrote.
fn session_of(stdout: &str) -> String {
    let names = ["session_id", "thread_id", "sessionId", "sessionID"];
    let lines = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found = lines.filter_map(|line| {
        names.iter().find_map(|name| line.get(*name).and_then(Value::as_str).map(str::to_owned))
    });
    found.next_back().unwrap_or_default()
}

fn model_server_program() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(Path::parent).ok_or("examples are in a folder of their own")?;
    Ok(folder.join("model-server"))
}

fn say(text: &str) {
    // Without standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}
