//! Each agent repeats the answer of the script; its request and the kinds of its output lines match the recording.

use std::path::Path;

use fake_llm::{AgentDirs, RequestPurpose, ScriptedReply};
use serde_json::Value;
use testkit::{CliRequest, cli_launch, run_cli};

use crate::isolation::{PATIENCE, offline, skip};

const ANSWER: &str = "Hello from the script.";

/// Runs an agent, and compares the kinds of its output lines with the recording.
#[track_caller]
fn check_repeats_script(name: &str) {
    let offline = offline(vec![ScriptedReply::say(ANSWER)]);
    let root = tempfile::tempdir().expect("a folder can be made");
    let folders = AgentDirs::create(root.path()).expect("folders can be made");
    let url = offline.server().url();
    let order = CliRequest { url: &url, folders: &folders, prompt: "Say hello.", arguments: &[] };
    let launch = match cli_launch(name, &order) {
        Ok(launch) => launch,
        Err(error) => return skip(&format!("{name} says"), &error.to_string()),
    };
    let output = run_cli(&offline, &folders, &launch, PATIENCE).expect("the agent can be started");
    assert_eq!((output.exit, output.timed_out), (0, false), "{output:?}");
    let asks = offline.server().model_requests();
    assert_eq!(asks.len(), 1);
    let prompted = asks[0].messages.iter().any(|message| message.text.contains("Say hello."));
    assert!(prompted, "the prompt did not reach the model");
    assert!(!asks[0].system.is_empty(), "the agent sent no instructions");
    assert!(!asks[0].tools.is_empty(), "the agent offered no tools");
    let seen = offline.server().requests();
    let unexpected =
        seen.iter().filter(|seen| !matches!(seen.purpose, RequestPurpose::Work(_) | RequestPurpose::Side));
    let unexpected: Vec<&str> = unexpected.map(|seen| seen.path.as_str()).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backends/tests/streams").join(name);
    let recorded = std::fs::read_to_string(recorded.join("say.jsonl")).expect("there is a recording");
    assert_eq!(kinds(&output.stdout), kinds(&recorded), "{}", output.stdout);
    assert_eq!(texts(&output.stdout), texts(&recorded), "{}", output.stdout);
}

/// Returns the kind of each line, without those that the agent marks as ephemeral.
fn kinds(stream: &str) -> Vec<String> {
    let values = stream.lines().map(|line| serde_json::from_str(line).expect("every line is JSON"));
    let kind = |value: Value| {
        let member = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        [member("type"), member("subtype"), member("status")].join("/")
    };
    values.filter(|value: &Value| value["ephemeral"] != true).map(kind).collect()
}

/// Counts how often the text of the script occurs.
fn texts(stream: &str) -> usize {
    stream.matches("Hello from ").count()
}

#[test]
fn claude_says() {
    check_repeats_script("claude");
}

#[test]
fn codex_says() {
    check_repeats_script("codex");
}

#[test]
fn gemini_says() {
    check_repeats_script("gemini");
}

#[test]
fn qwen_says() {
    check_repeats_script("qwen");
}

#[test]
fn copilot_says() {
    check_repeats_script("copilot");
}

#[test]
fn opencode_says() {
    check_repeats_script("opencode");
}

#[test]
fn goose_says() {
    check_repeats_script("goose");
}

#[test]
fn kimi_says() {
    check_repeats_script("kimi");
}
