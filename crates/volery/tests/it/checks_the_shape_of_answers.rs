//! Where an answer must be a value: it is found in what the agent says, checked whoever calls it checked, asked for once
//! more with what was wrong, and refused with its text kept.

use std::fs;

use serde_json::{Value, json};

use crate::stage::{Stage, tagged};

const BIRDS: &str = "output_schema: {type: object, properties: {birds: {type: integer}}, required: [birds]}";

/// Defines an agent that says the first text at first, the second when it is asked again, and keeps its prompts.
fn two_answers(stage: &Stage, first: &str, second: &str, frontmatter: &str) {
    for (file, text) in [("first", first), ("second", second)] {
        fs::write(stage.path(file), text).unwrap();
    }
    let script = format!(
        "if [ -e '{0}/asked-1' ]; then cat > '{0}/asked-2'; cat '{0}/second'; \
         else cat > '{0}/asked-1'; cat '{0}/first'; fi",
        stage.path("").display()
    );
    stage.backend("two", &["sh", "-c", &script]);
    stage.agent("worker", &format!("backend: two\n{frontmatter}"));
}

fn asked(stage: &Stage, time: u32) -> String {
    fs::read_to_string(stage.path(&format!("asked-{time}"))).unwrap_or_default()
}

fn says(stage: &Stage, text: &str, frontmatter: &str) -> Value {
    let steps = format!("- say: {}", json!(text));
    stage.rehearsal("worker", &steps, frontmatter);
    stage.json(["run", "worker", "Count the birds."])
}

#[test]
fn a_value_is_found_in_what_any_agent_says() {
    let stage = Stage::new();
    let run = says(&stage, "There are\n```json\n{\"birds\": 3}\n```\n", BIRDS);
    assert_eq!((&run["status"], &run["structured"]), (&json!("succeeded"), &json!({"birds": 3})), "{run}");
    assert!(run["result"].as_str().unwrap().starts_with("There are"), "what it said stays: {run}");
    assert_eq!((&run["attempts"], run.get("repaired")), (&json!(1), None), "{run}");
    let mended = says(&stage, "{birds: 4,}", BIRDS);
    assert_eq!(
        (&mended["structured"], &mended["repaired"]),
        (&json!({"birds": 4}), &json!(true)),
        "{mended}"
    );
    let shown = stage.volery(["show", mended["run_id"].as_str().unwrap()]).ok().stdout;
    assert!(shown.contains("valid, its spelling was mended"), "{shown}");
}

#[test]
fn a_program_that_knows_no_schema_is_told_it_in_its_prompt() {
    let stage = Stage::new();
    two_answers(&stage, "{\"birds\": 3}", "", BIRDS);
    let run = stage.json(["run", "worker", "Count the birds."]);
    assert_eq!((&run["structured"], &run["attempts"]), (&json!({"birds": 3}), &json!(1)), "{run}");
    let prompt = asked(&stage, 1);
    assert!(prompt.starts_with("Count the birds.\n") && prompt.contains("\"birds\""), "{prompt}");
    assert_eq!(run["warnings"], Value::Null, "{run}");
}

#[test]
fn a_wrong_answer_is_asked_for_once_more_with_what_was_wrong() {
    let stage = Stage::new();
    two_answers(&stage, "{\"birds\": \"three\"}", "{\"birds\": 3}", BIRDS);
    let run = stage.json(["run", "worker", "Count the birds."]);
    assert_eq!((&run["status"], &run["structured"]), (&json!("succeeded"), &json!({"birds": 3})), "{run}");
    assert_eq!((&run["attempts"], &run["result"]), (&json!(2), &json!("{\"birds\": 3}")), "{run}");
    let prompt = asked(&stage, 2);
    let parts = [
        "Count the birds.",
        "{\"birds\": \"three\"}",
        "- /birds: it is not of type \"integer\"",
        "\"required\"",
    ];
    for part in parts {
        assert!(prompt.contains(part), "{part} is missing: {prompt}");
    }
    let id = run["run_id"].as_str().unwrap();
    let began: Vec<Value> =
        stage.events(id).into_iter().filter(|event| event["type"] == "attempt_began").collect();
    let kinds: Vec<_> = began.iter().map(|event| (&event["asked"], &event["conversation"])).collect();
    assert_eq!(kinds, [(&json!("prompt"), &json!("new")), (&json!("correct"), &json!("replayed"))]);
    assert!(began[1]["because"].as_str().unwrap().contains("/birds: it is not"), "{began:?}");
    assert_eq!(
        fs::read_to_string(stage.run_dir(id).join("stdout.attempt1")).unwrap(),
        "{\"birds\": \"three\"}"
    );
}

#[test]
fn a_command_that_is_given_its_session_is_asked_again_in_the_same_one() {
    let stage = Stage::new();
    let script = "if [ -e asked ]; then cat > asked-2; printf '{\"birds\": 3, \"session\": \"%s\"}' \"$1\"; \
                  else touch asked; echo none; fi";
    stage.backend("two", &["sh", "-c", script, "sh", "{session_id}"]);
    stage.agent("worker", &format!("backend: two\n{BIRDS}"));
    let run = stage.json(["run", "worker", "Count the birds.", "--session", "mine"]);
    assert_eq!(run["structured"], json!({"birds": 3, "session": "mine"}), "{run}");
    let prompt = fs::read_to_string(stage.project().join("asked-2")).unwrap();
    assert!(prompt.starts_with("Your last answer cannot be used"), "it knows the rest: {prompt}");
}

#[test]
fn what_is_wrong_twice_fails_with_its_errors_and_its_text() {
    let stage = Stage::new();
    two_answers(&stage, "{\"birds\": \"three\"}", "I said three.", BIRDS);
    let said = stage.volery(["run", "worker", "Count the birds.", "--json"]).exits(1);
    let run = said.json();
    assert_eq!((&run["status"], &run["outcome"]["kind"]), (&json!("failed"), &json!("schema")), "{run}");
    assert_eq!(run["outcome"]["errors"], json!(["the answer is in words and holds no JSON value"]));
    assert_eq!((&run["result"], &run["attempts"]), (&json!("I said three."), &json!(2)), "{run}");
    assert_eq!(run.get("structured"), None);
    assert!(said.stderr.contains("does not have the shape that was asked for"), "{}", said.stderr);
    assert_eq!(tagged(stage.tag(run["run_id"].as_str().unwrap())), Vec::<u32>::new());
    fs::remove_file(stage.path("asked-1")).unwrap();
    let mut client = stage.serve().initialize("it");
    let ask = json!({"agent": "worker", "prompt": "Count the birds.", "directory": stage.project()});
    let id = client.send("tools/call", json!({"name": "run_agent", "arguments": ask}));
    let answer = client.answer(id, crate::stage::PATIENCE)["result"].clone();
    assert_eq!(answer["isError"], json!(true), "{answer}");
    let report = &answer["structuredContent"];
    assert_eq!((&report["result"], &report["attempts"]), (&json!("I said three."), &json!(2)), "{report}");
    assert_eq!(report["errors"], json!(["the answer is in words and holds no JSON value"]), "{report}");
}

#[test]
fn an_attempt_to_correct_an_answer_does_not_lose_it() {
    let stage = Stage::new();
    two_answers(&stage, "three of them", "", &format!("{BIRDS}\ntimeout: 100s"));
    let script = "if [ -e asked ]; then exit 7; else touch asked; echo three of them; fi";
    stage.configure(&format!("[backends.fails]\ncommand = {}\n", json!(["sh", "-c", script])));
    stage.agent("worker", &format!("backend: fails\n{BIRDS}"));
    let run = stage.json(["run", "worker", "Count the birds."]);
    assert_eq!(
        (&run["outcome"]["kind"], &run["result"]),
        (&json!("exit"), &json!("three of them\n")),
        "{run}"
    );
}

#[test]
fn time_counts_over_the_correction_too() {
    let stage = Stage::new();
    let script = "if [ -e asked ]; then sleep 60; else touch asked; echo three of them; fi";
    stage.backend("slow", &["sh", "-c", script]);
    stage.agent("worker", &format!("backend: slow\ntimeout: 3s\ngrace: 500ms\n{BIRDS}"));
    let run = stage.json(["run", "worker", "Count the birds."]);
    assert_eq!((&run["status"], &run["result"]), (&json!("partial"), &json!("three of them\n")), "{run}");
    assert!(run["duration_ms"].as_u64().unwrap() < 20_000, "{run}");
    assert_eq!(run.get("structured"), None);
}

#[test]
fn json_without_a_schema_is_one_object_or_list() {
    let stage = Stage::new();
    let run = says(&stage, "[1, 2]", "output_format: json");
    assert_eq!((&run["status"], &run["structured"]), (&json!("succeeded"), &json!([1, 2])), "{run}");
    let run = says(&stage, "\"words\"", "output_format: json");
    assert_eq!(run["outcome"]["errors"], json!(["the value: it is neither an object nor a list"]), "{run}");
    two_answers(&stage, "{}", "", "output_format: json");
    let run = stage.json(["run", "worker", "Count the birds."]);
    assert_eq!((&run["status"], &run["structured"]), (&json!("succeeded"), &json!({})), "{run}");
    let prompt = asked(&stage, 1);
    assert!(prompt.starts_with("Count the birds.\n\nAnswer with one JSON object or array"), "{prompt}");
}

#[test]
fn a_caller_may_ask_for_a_shape_of_its_own() {
    let stage = Stage::new();
    stage.rehearsal("worker", "- say: '[\"heron\", \"crane\"]'", BIRDS);
    let schema = stage.path("schema.json");
    fs::write(&schema, r#"{"type": "array", "items": {"type": "string"}}"#).unwrap();
    let schema = schema.to_str().unwrap();
    let run = stage.json(["run", "worker", "Name the birds.", "--schema", schema]);
    assert_eq!(run["structured"], json!(["heron", "crane"]), "{run}");
    let mut client = stage.serve().initialize("it");
    let mut ask = json!({"agent": "worker", "prompt": "Name the birds.", "directory": stage.project(),
        "output_schema": {"type": "array"}, "idempotency_key": "one"});
    let report = client.call("run_agent", ask.clone());
    assert_eq!(report["structured"], json!({"value": ["heron", "crane"]}), "{report}");
    ask["output_schema"] = json!({"type": "object"});
    assert!(client.refused("run_agent", ask).contains("another request"));
}

#[test]
fn a_schema_that_cannot_be_used_is_named_before_anything_runs() {
    let stage = Stage::new();
    stage.rehearsal("far", "- say: x", "output_schema: {$ref: 'https://example.com/birds.json'}");
    stage.rehearsal("wrong", "- say: x", "output_schema: {type: bird}");
    let found = stage.volery(["agents", "check"]).exits(1).stdout;
    for (agent, reason) in [("far", "refers to https://example.com/birds.json"), ("wrong", "wrong at /type")]
    {
        assert!(found.contains(reason), "{found}");
        let refused = stage.volery(["run", agent, "x"]).exits(2).stderr;
        assert!(
            refused.contains(&format!("agent {agent}: output_schema: ")) && refused.contains(reason),
            "{refused}"
        );
    }
    assert_eq!(stage.runs(), Vec::<String>::new());
}

#[test]
fn a_schema_that_takes_for_ever_ends_the_run_with_its_text() {
    let stage = Stage::new();
    // Each level asks the next one twice, and at the end none is satisfied.
    let level = |number: u32| {
        let next = format!("#/$defs/l{}", number + 1);
        let fork = json!({"properties": {"a": {"$ref": next}}, "required": ["a"]});
        (format!("l{number}"), json!({"oneOf": [fork, {"allOf": [fork]}, {"anyOf": [fork, fork]}]}))
    };
    let mut levels: serde_json::Map<String, Value> = (0..40).map(level).collect();
    levels.insert("l40".to_owned(), json!({"type": "integer"}));
    let schema = json!({"$ref": "#/$defs/l0", "$defs": levels});
    let value = (0..40).fold(json!("no"), |inner, _| json!({ "a": inner }));
    let file = stage.path("schema.json");
    fs::write(&file, schema.to_string()).unwrap();
    stage.rehearsal("worker", &format!("- say: '{value}'"), "");
    let run = stage.json(["run", "worker", "x", "--schema", file.to_str().unwrap()]);
    assert_eq!((&run["status"], &run["outcome"]["kind"]), (&json!("failed"), &json!("output")), "{run}");
    assert!(run["explanation"].as_str().unwrap().contains("took longer than 5 s"), "{run}");
    assert_eq!(run["result"].as_str().unwrap().trim(), value.to_string());
}
