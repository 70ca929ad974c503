//! Each agent says what the script says; what it sent, and the shape of what it wrote, are as recorded.

use std::path::Path;

use model_server::{Folders, Order, Purpose, Reply, play, recipe};
use serde_json::Value;

use crate::place::{PATIENCE, offline, skip};

const SAID: &str = "Hello from the script.";

/// Lets an agent say something, and compares the kinds of what it writes with the recording.
#[track_caller]
fn says(name: &str) {
    let offline = offline(vec![Reply::say(SAID)]);
    let root = tempfile::tempdir().expect("a folder can be made");
    let folders = Folders::make(root.path()).expect("folders can be made");
    let url = offline.server().url();
    let order = Order { url: &url, folders: &folders, prompt: "Say hello.", arguments: &[] };
    let recipe = match recipe(name, &order) {
        Ok(recipe) => recipe,
        Err(error) => return skip(&format!("{name} says"), &error.to_string()),
    };
    let played = play(&offline, &folders, &recipe, PATIENCE).expect("the agent can be started");
    assert_eq!((played.exit, played.late), (0, false), "{played:?}");
    let asks = offline.server().asks();
    assert_eq!(asks.len(), 1);
    let prompted = asks[0].messages.iter().any(|message| message.text.contains("Say hello."));
    assert!(prompted, "the prompt did not reach the model");
    assert!(!asks[0].system.is_empty(), "the agent sent no instructions");
    assert!(!asks[0].tools.is_empty(), "the agent offered no tools");
    let seen = offline.server().seen();
    let strange = seen.iter().filter(|seen| !matches!(seen.purpose, Purpose::Work(_) | Purpose::Side));
    let strange: Vec<&str> = strange.map(|seen| seen.path.as_str()).collect();
    assert!(strange.is_empty(), "{strange:?}");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend/tests/streams").join(name);
    let recorded = std::fs::read_to_string(recorded.join("say.jsonl")).expect("there is a recording");
    assert_eq!(kinds(&played.stdout), kinds(&recorded), "{}", played.stdout);
    assert_eq!(texts(&played.stdout), texts(&recorded), "{}", played.stdout);
}

/// Returns what kind each line is of; what an agent itself calls fleeting is left out.
fn kinds(stream: &str) -> Vec<String> {
    let values = stream.lines().map(|line| serde_json::from_str(line).expect("every line is JSON"));
    let kind = |value: Value| {
        let word = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        [word("type"), word("subtype"), word("status")].join("/")
    };
    values.filter(|value: &Value| value["ephemeral"] != true).map(kind).collect()
}

/// Counts how often the words of the script occur.
fn texts(stream: &str) -> usize {
    stream.matches("Hello from ").count()
}

#[test]
fn claude_says() {
    says("claude");
}

#[test]
fn codex_says() {
    says("codex");
}

#[test]
fn gemini_says() {
    says("gemini");
}

#[test]
fn qwen_says() {
    says("qwen");
}

#[test]
fn copilot_says() {
    says("copilot");
}

#[test]
fn opencode_says() {
    says("opencode");
}

#[test]
fn goose_says() {
    says("goose");
}

#[test]
fn kimi_says() {
    says("kimi");
}
