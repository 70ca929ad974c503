//! Where an answer must be a value: it is found in what the agent says, checked whoever calls it checked, asked for once
//! more with what was wrong, and refused with its text kept.

use std::fs;

use serde_json::{Value, json};

use crate::test_env::{TestEnv, tagged};

const BIRDS: &str = "output_schema: {type: object, properties: {birds: {type: integer}}, required: [birds]}";

/// Defines an agent that says the first text at first, the second when it is asked again, and keeps its prompts.
fn two_answers(env: &TestEnv, first: &str, second: &str, frontmatter: &str) {
    for (file, text) in [("first", first), ("second", second)] {
        fs::write(env.path(file), text).unwrap();
    }
    let script = format!(
        "if [ -e '{0}/asked-1' ]; then cat > '{0}/asked-2'; cat '{0}/second'; \
         else cat > '{0}/asked-1'; cat '{0}/first'; fi",
        env.path("").display()
    );
    env.backend("two", &["sh", "-c", &script]);
    env.agent("worker", &format!("backend: two\n{frontmatter}"));
}

fn recorded_prompt(env: &TestEnv, time: u32) -> String {
    fs::read_to_string(env.path(&format!("asked-{time}"))).unwrap_or_default()
}

fn says(env: &TestEnv, text: &str, frontmatter: &str) -> Value {
    let steps = format!("- say: {}", json!(text));
    env.rehearsal("worker", &steps, frontmatter);
    env.json(["run", "worker", "Count the birds."])
}

#[test]
fn a_value_is_found_in_what_any_agent_says() {
    let env = TestEnv::new();
    let run = says(&env, "There are\n```json\n{\"birds\": 3}\n```\n", BIRDS);
    assert_eq!((&run["status"], &run["structured"]), (&json!("succeeded"), &json!({"birds": 3})), "{run}");
    assert!(run["result"].as_str().unwrap().starts_with("There are"), "what it said stays: {run}");
    assert_eq!((&run["attempts"], run.get("repaired")), (&json!(1), None), "{run}");
    let mended = says(&env, "{birds: 4,}", BIRDS);
    assert_eq!(
        (&mended["structured"], &mended["repaired"]),
        (&json!({"birds": 4}), &json!(true)),
        "{mended}"
    );
    let shown = env.volery(["show", mended["run_id"].as_str().unwrap()]).ok().stdout;
    insta::assert_snapshot!(env.masked(&shown), @r"
    run         [run id]
    short id    [run-id]
    agent       worker (backend rehearsal)
    status      succeeded
    asked by    you
    prompt      Count the birds.
    questions   denied at once: the command has no terminal
    created     [time] ([span] ago)
    started     [time] ([span] ago)
    ended       [time] ([span] ago)
    time        [span]
    tokens      not known
    cost        not known
    directory   [stage]/project
    value       valid, its spelling was mended
    success     unverified (no accept commands)
    session     [run id]

    result (12 B)
      {birds: 4,}
    ");
}

#[test]
fn a_program_without_schema_support_gets_the_schema_in_its_prompt() {
    let env = TestEnv::new();
    two_answers(&env, "{\"birds\": 3}", "", BIRDS);
    let run = env.json(["run", "worker", "Count the birds."]);
    assert_eq!((&run["structured"], &run["attempts"]), (&json!({"birds": 3}), &json!(1)), "{run}");
    let prompt = recorded_prompt(&env, 1);
    assert!(prompt.starts_with("Count the birds.\n") && prompt.contains("\"birds\""), "{prompt}");
    assert_eq!(run["warnings"], Value::Null, "{run}");
}

#[test]
fn a_wrong_answer_is_retried_once_with_its_errors() {
    let env = TestEnv::new();
    two_answers(&env, "{\"birds\": \"three\"}", "{\"birds\": 3}", BIRDS);
    let run = env.json(["run", "worker", "Count the birds."]);
    assert_eq!((&run["status"], &run["structured"]), (&json!("succeeded"), &json!({"birds": 3})), "{run}");
    assert_eq!((&run["attempts"], &run["result"]), (&json!(2), &json!("{\"birds\": 3}")), "{run}");
    let prompt = recorded_prompt(&env, 2);
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
        env.events(id).into_iter().filter(|event| event["type"] == "attempt_began").collect();
    let kinds: Vec<_> = began.iter().map(|event| (&event["asked"], &event["conversation"])).collect();
    assert_eq!(kinds, [(&json!("prompt"), &json!("new")), (&json!("correct"), &json!("replayed"))]);
    insta::assert_snapshot!(env.masked_texts(&began[1]["because"]), @r#"two: the answer does not have the shape that was asked for: /birds: it is not of type "integer""#);
    assert_eq!(
        fs::read_to_string(env.run_dir(id).join("stdout.attempt1")).unwrap(),
        "{\"birds\": \"three\"}"
    );
}

#[test]
fn a_command_with_a_session_argument_is_retried_in_the_same_session() {
    let env = TestEnv::new();
    let script = "if [ -e asked ]; then cat > asked-2; printf '{\"birds\": 3, \"session\": \"%s\"}' \"$1\"; \
                  else touch asked; echo none; fi";
    env.backend("two", &["sh", "-c", script, "sh", "{session_id}"]);
    env.agent("worker", &format!("backend: two\n{BIRDS}"));
    let run = env.json(["run", "worker", "Count the birds.", "--session", "mine"]);
    assert_eq!(run["structured"], json!({"birds": 3, "session": "mine"}), "{run}");
    let prompt = fs::read_to_string(env.project().join("asked-2")).unwrap();
    assert!(prompt.starts_with("Your last answer cannot be used"), "it knows the rest: {prompt}");
}

#[test]
fn what_is_wrong_twice_fails_with_its_errors_and_its_text() {
    let env = TestEnv::new();
    two_answers(&env, "{\"birds\": \"three\"}", "I said three.", BIRDS);
    let output = env.volery(["run", "worker", "Count the birds.", "--json"]).exits(1);
    let run = output.json();
    assert_eq!((&run["status"], &run["outcome"]["kind"]), (&json!("failed"), &json!("schema")), "{run}");
    insta::assert_snapshot!(env.masked_texts(&run["outcome"]["errors"]), @"the answer is in words and holds no JSON value");
    assert_eq!((&run["result"], &run["attempts"]), (&json!("I said three."), &json!(2)), "{run}");
    assert_eq!(run.get("structured"), None);
    insta::assert_snapshot!(env.masked(&output.stderr), @"
    warning: continued by replay: two was told what was said before (1 exchange)
    [run-id] failed: the answer does not have the shape that was asked for: the answer is in words and holds no JSON value, after [span]
    ");
    assert_eq!(tagged(env.tag(run["run_id"].as_str().unwrap())), Vec::<u32>::new());
    fs::remove_file(env.path("asked-1")).unwrap();
    let mut client = env.serve().initialize("it");
    let ask = json!({"agent": "worker", "prompt": "Count the birds.", "directory": env.project()});
    let id = client.send("tools/call", json!({"name": "run_agent", "arguments": ask}));
    let answer = client.answer(id, crate::test_env::PATIENCE)["result"].clone();
    assert_eq!(answer["isError"], json!(true), "{answer}");
    let report = &answer["structuredContent"];
    assert_eq!((&report["result"], &report["attempts"]), (&json!("I said three."), &json!(2)), "{report}");
    assert_eq!(report["errors"], run["outcome"]["errors"], "{report}");
}

#[test]
fn an_attempt_to_correct_an_answer_does_not_lose_it() {
    let env = TestEnv::new();
    two_answers(&env, "three of them", "", &format!("{BIRDS}\ntimeout: 100s"));
    let script = "if [ -e asked ]; then exit 7; else touch asked; echo three of them; fi";
    env.configure(&format!("[backends.fails]\ncommand = {}\n", json!(["sh", "-c", script])));
    env.agent("worker", &format!("backend: fails\n{BIRDS}"));
    let run = env.json(["run", "worker", "Count the birds."]);
    assert_eq!(
        (&run["outcome"]["kind"], &run["result"]),
        (&json!("exit"), &json!("three of them\n")),
        "{run}"
    );
}

#[test]
fn time_counts_over_the_correction_too() {
    let env = TestEnv::new();
    let script = "if [ -e asked ]; then sleep 60; else touch asked; echo three of them; fi";
    env.backend("slow", &["sh", "-c", script]);
    env.agent("worker", &format!("backend: slow\ntimeout: 3s\ngrace: 500ms\n{BIRDS}"));
    let run = env.json(["run", "worker", "Count the birds."]);
    assert_eq!((&run["status"], &run["result"]), (&json!("partial"), &json!("three of them\n")), "{run}");
    assert!(run["duration_ms"].as_u64().unwrap() < 20_000, "{run}");
    assert_eq!(run.get("structured"), None);
}

#[test]
fn json_without_a_schema_is_one_object_or_list() {
    let env = TestEnv::new();
    let run = says(&env, "[1, 2]", "output_format: json");
    assert_eq!((&run["status"], &run["structured"]), (&json!("succeeded"), &json!([1, 2])), "{run}");
    let run = says(&env, "\"words\"", "output_format: json");
    insta::assert_snapshot!(env.masked_texts(&run["outcome"]["errors"]), @"the value: it is neither an object nor a list");
    two_answers(&env, "{}", "", "output_format: json");
    let run = env.json(["run", "worker", "Count the birds."]);
    assert_eq!((&run["status"], &run["structured"]), (&json!("succeeded"), &json!({})), "{run}");
    let prompt = recorded_prompt(&env, 1);
    assert!(prompt.starts_with("Count the birds.\n\nAnswer with one JSON object or array"), "{prompt}");
}

#[test]
fn a_caller_may_ask_for_a_shape_of_its_own() {
    let env = TestEnv::new();
    env.rehearsal("worker", "- say: '[\"heron\", \"crane\"]'", BIRDS);
    let schema = env.path("schema.json");
    fs::write(&schema, r#"{"type": "array", "items": {"type": "string"}}"#).unwrap();
    let schema = schema.to_str().unwrap();
    let run = env.json(["run", "worker", "Name the birds.", "--schema", schema]);
    assert_eq!(run["structured"], json!(["heron", "crane"]), "{run}");
    let mut client = env.serve().initialize("it");
    let mut ask = json!({"agent": "worker", "prompt": "Name the birds.", "directory": env.project(),
        "output_schema": {"type": "array"}, "idempotency_key": "one"});
    let report = client.call("run_agent", ask.clone());
    assert_eq!(report["structured"], json!({"value": ["heron", "crane"]}), "{report}");
    ask["output_schema"] = json!({"type": "object"});
    let refused = client.refused("run_agent", ask);
    insta::assert_snapshot!(env.masked(&refused), @"
    the idempotency key one was used for another request, which made the run [run-id]
    hint: use a new key for a new request
    ");
}

#[test]
fn a_schema_that_cannot_be_used_is_named_before_anything_runs() {
    let env = TestEnv::new();
    env.rehearsal("far", "- say: x", "output_schema: {$ref: 'https://example.com/birds.json'}");
    env.rehearsal("wrong", "- say: x", "output_schema: {type: bird}");
    let found = env.volery(["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&found), @"
    .volery/agents/far.md:4:1: error: output_schema: the schema refers to https://example.com/birds.json, and nothing is fetched: a schema must stand by itself
      hint: output_schema is JSON Schema, draft 2020-12, and refers to nothing outside of itself
    .volery/agents/wrong.md:4:1: error: output_schema: the schema is wrong at /type: it is not valid under any of the schemas listed in the 'anyOf' keyword
      hint: output_schema is JSON Schema, draft 2020-12, and refers to nothing outside of itself
    ");
    let refused = ["far", "wrong"].map(|agent| env.volery(["run", agent, "x"]).exits(2).stderr);
    insta::assert_snapshot!(env.masked(&refused.concat()), @"
    error: agent far: output_schema: the schema refers to https://example.com/birds.json, and nothing is fetched: a schema must stand by itself
    hint: output_schema is JSON Schema, draft 2020-12, and refers to nothing outside of itself
    error: agent wrong: output_schema: the schema is wrong at /type: it is not valid under any of the schemas listed in the 'anyOf' keyword
    hint: output_schema is JSON Schema, draft 2020-12, and refers to nothing outside of itself
    ");
    assert_eq!(env.runs(), Vec::<String>::new());
}

#[test]
fn a_schema_that_takes_for_ever_ends_the_run_with_its_text() {
    let env = TestEnv::new();
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
    let file = env.path("schema.json");
    fs::write(&file, schema.to_string()).unwrap();
    env.rehearsal("worker", &format!("- say: '{value}'"), "");
    let run = env.json(["run", "worker", "x", "--schema", file.to_str().unwrap()]);
    assert_eq!((&run["status"], &run["outcome"]["kind"]), (&json!("failed"), &json!("output")), "{run}");
    insta::assert_snapshot!(env.masked_texts(&run["explanation"]), @"failed: the agent's output could not be used: to check its shape took longer than 5 s");
    assert_eq!(run["result"].as_str().unwrap().trim(), value.to_string());
}
