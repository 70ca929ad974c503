//! The extraction of values from texts, the errors if there is none, and that no text and no schema takes forever.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn birds() -> AnswerFormat {
    schema(&json!({
        "type": "object",
        "properties": {"birds": {"type": "integer", "minimum": 0}, "kind": {"enum": ["heron", "crane"]}},
        "required": ["birds"],
    }))
}

fn schema(schema: &Value) -> AnswerFormat {
    AnswerFormat::Schema(Schema::compile(schema).unwrap())
}

fn found(text: &str, shape: &AnswerFormat) -> (Value, bool) {
    let ExtractedValue { value, repaired } =
        extract_value(text, shape).unwrap_or_else(|invalid| panic!("{text}: {invalid:?}"));
    (value, repaired)
}

fn errors(text: &str, shape: &AnswerFormat) -> Vec<String> {
    extract_value(text, shape).unwrap_err().errors
}

#[test]
fn a_value_is_found_wherever_it_is() {
    let texts = [
        r#"{"birds": 3}"#,
        "\u{feff} {\"birds\": 3}\n",
        "```json\n{\"birds\": 3}\n```",
        "Here you are:\n\n~~~\n{\"birds\": 3}\n~~~\nAnything else?",
        "```json\n{\"birds\": 3}",
        "<think>Perhaps {\"birds\": 7}?</think>{\"birds\": 3}",
        "So {\"birds\": 7} was wrong.\n</think>\nIt is {\"birds\": 3}.",
        "There are {\"birds\": 3}, I think {really}.",
        "First I had ```{\"birds\": 2}```, and then ```{\"birds\": 3}```.",
        "```\n{\"birds\": 9}\n```\nNo:\n```json\n{\"birds\": 3}\n```\n",
        "In f(x) { … the rest is \"open: {\"birds\": 3}",
        "As a schema says {\"type\": \"object\"}; mine is [1, 2] or {\"birds\": 3}",
    ];
    for text in texts {
        assert_eq!(found(text, &birds()), (json!({"birds": 3}), false), "{text}");
    }
}

#[test]
fn a_text_within_the_value_is_not_taken_apart() {
    let value = json!({"birds": 1, "note": "</think> ```json\n{\"birds\": 2}\n``` \\ \" ]}"});
    assert_eq!(found(&value.to_string(), &birds()).0, value);
    let value = json!({"birds": 1, "note": "```json\n{\"birds\": 2}\n``` \\ \" ]}"});
    assert_eq!(found(&format!("So: {value}"), &birds()).0, value);
}

#[test]
fn almost_valid_json_is_repaired_and_marked_so() {
    let texts = [
        "{birds: 3}",
        "{'birds': 3,}",
        "```json\n{\"birds\": 3, // herons\n}\n```",
        "Here: {\"birds\": 3",
        "```json\n{\"birds\": 3, \"kind\": \"heron\n```",
    ];
    for text in texts {
        let (value, repaired) = found(text, &birds());
        assert_eq!((&value["birds"], repaired), (&json!(3), true), "{text}");
    }
    let whole = r#"{"birds": 3, "kind": "crane"}"#;
    let (_, repaired) = found(&format!("{{birds: 4}}\n```\n{whole}\n```"), &birds());
    assert!(!repaired, "JSON beats what is mended");
}

#[test]
fn errors_of_a_value_are_reported_with_their_pointer() {
    let messages = errors(r#"{"birds": -1, "kind": "owl"}"#, &birds());
    assert_eq!(
        messages,
        ["/birds: it is less than the minimum of 0", "/kind: it is not one of \"heron\" or \"crane\""]
    );
    assert_eq!(errors("[]", &birds()), ["the value: it is not of type \"object\""]);
    assert_eq!(errors("  ", &birds()), ["the answer is empty"]);
    assert_eq!(errors("three of them", &birds()), ["the answer is in words and holds no JSON value"]);
    let many = Value::Object((0..50).map(|number| (number.to_string(), json!("x".repeat(9_000)))).collect());
    let numbers = schema(&json!({"additionalProperties": {"type": "integer"}}));
    let messages = errors(&many.to_string(), &numbers);
    assert_eq!(messages.len(), 8);
    assert!(messages.iter().all(|line| line.len() < 700), "{messages:?}");
}

#[test]
fn without_a_schema_it_must_be_an_object_or_a_list() {
    assert_eq!(found("[1, 2]", &AnswerFormat::Json), (json!([1, 2]), false));
    assert_eq!(found("It is {a: 1}.", &AnswerFormat::Json), (json!({"a": 1}), true));
    assert_eq!(errors("42", &AnswerFormat::Json), ["the value: it is neither an object nor a list"]);
    assert_eq!(errors("forty-two", &AnswerFormat::Json), ["the answer is in words and holds no JSON value"]);
    assert_eq!(found("42", &schema(&json!({"type": "integer"}))), (json!(42), false));
}

#[test]
fn a_value_that_no_record_could_hold_is_not_taken() {
    let long = json!({"text": "x".repeat(600 << 10)}).to_string();
    assert!(errors(&long, &AnswerFormat::Json)[0].contains("524288 are taken"));
    let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
    assert_eq!(errors(&deep, &AnswerFormat::Json), ["the value is nested deeper than 48 levels"]);
    assert!(errors(&"x".repeat(5 << 20), &AnswerFormat::Json)[0].contains("are looked into"));
}

#[test]
fn an_invalid_schema_is_refused_with_its_pointer() {
    let refused = |schema: Value| Schema::compile(&schema).unwrap_err().to_string();
    let wrong = refused(json!({"type": "object", "properties": {"a": {"type": "integr"}}}));
    assert!(wrong.starts_with("the schema is wrong at /properties/a/type: "), "{wrong}");
    for reference in ["https://example.com/birds.json", "file:///etc/birds.json", "birds.json"] {
        let messages = refused(json!({"properties": {"a": {"$ref": reference}}}));
        assert!(messages.contains("birds.json, and nothing is fetched"), "{messages}");
    }
    let unknown = refused(json!({"$schema": "https://example.com/own-draft"}));
    assert!(unknown.contains("https://example.com/own-draft"), "{unknown}");
    assert!(refused(json!({"$ref": "#/$defs/missing"})).contains("missing"));
    assert!(refused(json!({"pattern": "(a"})).starts_with("the schema is wrong"), "a pattern");
    assert!(refused(json!({"pattern": "(?=look)ahead"})).starts_with("the schema is wrong"), "not linear");
    assert!(refused(json!({"pattern": "(a{1000}){1000}"})).starts_with("the schema is wrong"), "too big");
    let many: Vec<Value> = (0..101).map(|number| json!({"pattern": format!("a{number}")})).collect();
    assert_eq!(refused(json!({"anyOf": many})), "the schema has more than 100 patterns");
    let deep = (0..60).fold(json!({}), |inner, _| json!({"not": inner}));
    assert_eq!(refused(deep), "the schema is nested deeper than 48 levels");
    assert!(refused(json!({"description": "x".repeat(70_000)})).contains("65536 are allowed"));
}

#[test]
fn a_schema_may_refer_to_its_own_parts() {
    let tree = schema(&json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.com/tree",
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "name": {"$ref": "#/$defs/name"}, "right": {"$ref": "tree"}},
        "$defs": {"name": {"type": "string"}},
    }));
    assert!(!found(r#"{"left": {"name": "a"}, "right": {}}"#, &tree).1);
    assert_eq!(errors(r#"{"left": {"name": 1}}"#, &tree), ["/left/name: it is not of type \"string\""]);
    let older =
        schema(&json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}]}));
    assert_eq!(errors("[1]", &older).len(), 1);
}

#[test]
fn a_recursive_schema_terminates() {
    for circle in [json!({"$ref": "#"}), json!({"allOf": [{"$ref": "#"}]}), json!({"not": {"$ref": "#"}})] {
        if let Ok(schema) = Schema::compile(&circle) {
            let _ = schema.errors(&json!({"a": [1]}));
        }
    }
}

#[test]
fn hostile_texts_take_no_longer_than_others() {
    let long = |piece: &str| piece.repeat((1 << 20) / piece.len());
    let pieces = [
        "{",
        "[",
        "\"",
        "{\"",
        "[\"",
        "}",
        "`",
        "```\n",
        "~~~\n",
        "{\"a\":",
        "[1,",
        "\\",
        "<think>",
        "</think>",
        "'",
        "(",
        "{'",
        "/*",
        "//\n",
        "{[",
        "{a",
        "\"\\",
        "[{",
        "]{",
        "{}",
        "a:",
        "{\"a\":\"",
        "\u{feff}",
        "+\"a\"",
        "(\"",
    ];
    for piece in pieces {
        let text = long(piece);
        let short = domain::size::head(&text, 200 << 10).to_owned();
        for text in
            [text.clone(), format!("{{\"birds\": {text}"), format!("[{short}"), format!("{{\"a\": {short}")]
        {
            let (done, ended) = std::sync::mpsc::channel();
            // A debug build on a machine that pauses now and then: an endless search would take longer.
            std::thread::spawn(move || done.send(extract_value(&text, &birds()).is_ok()));
            ended.recv_timeout(std::time::Duration::from_secs(60)).unwrap_or_else(|_| panic!("{piece}"));
        }
    }
}

#[test]
fn a_pattern_that_other_engines_never_finish_is_quick() {
    let shape = schema(&json!({"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}));
    assert_eq!(errors(&json!("a".repeat(100_000)).to_string(), &shape).len(), 1);
}

fn any_json() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~é\n\"\\\\{}\\[\\]`]{0,20}".prop_map(Value::from),
    ];
    plain.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[a-z\"{`]{0,6}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_is_found_as_it_is(value in any_json(), before in "[a-zA-Z .,:\n]{0,40}", pretty in any::<bool>()) {
        prop_assume!(value.is_object() || value.is_array());
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let texts = [text.clone(), format!("{before}{text}"), format!("{before}\n```json\n{text}\n```\n{before}")];
        for text in texts {
            let found = extract_value(&text, &AnswerFormat::Json).unwrap();
            prop_assert_eq!((&found.value, found.repaired), (&value, false), "{}", text);
        }
    }

    #[test]
    fn no_text_makes_it_fail_otherwise(text in "([{}\\[\\]\",:`'/*()\\\\n ]|[a-z]{1,3}|```|</think>|é){0,60}") {
        for shape in [AnswerFormat::Json, birds()] {
            match extract_value(&text, &shape) {
                Ok(found) => prop_assert_eq!(validate(found.value.clone(), &shape), Ok(found.value)),
                Err(invalid) => prop_assert!(!invalid.errors.is_empty()),
            }
        }
    }

    #[test]
    fn a_value_that_was_cut_off_is_mended_or_refused(value in any_json(), keep in 0.0_f64..1.0) {
        let text = value.to_string();
        let prefix = domain::size::head(&text, (text.len() as f64 * keep) as usize);
        if let Ok(found) = extract_value(prefix, &AnswerFormat::Json) {
            prop_assert!(found.value.is_object() || found.value.is_array());
        }
    }
}
