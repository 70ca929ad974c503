//! Custom commands: what is started, and how their output is interpreted.

use domain::run::{AgentEnd, Failure, StdStream};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Options, reader, replace};
use crate::contract::{AgentAnswer, AgentReport, Conclusion, Exit};

fn options(value: Value) -> Options {
    serde_json::from_value(value).unwrap()
}

fn jsonl() -> Options {
    options(json!({
        "command": ["x"],
        "output": {"jsonl": {
            "result": "/result",
            "text": "/delta",
            "terminal": [{"pointer": "/type", "value": "result"}],
            "error": [{"pointer": "/is_error", "value": true}],
            "session": "/session",
        }},
    }))
}

fn conclude(options: &Options, output: &[u8], exit: Exit) -> Conclusion {
    let mut reader = reader::for_output(options);
    for chunk in output.chunks(3) {
        reader.feed(StdStream::Stdout, chunk);
    }
    reader.conclude(exit)
}

#[test]
fn placeholders_are_replaced_once_and_never_inside_a_replaced_text() {
    let values = [("{prompt}", "say {model}"), ("{model}", "m1")];
    assert_eq!(replace("a {prompt} {model} {other} {", &values), "a say {model} m1 {other} {");
}

#[test]
fn the_exit_code_decides_for_text() {
    let text = options(json!({"command": ["x"], "success_codes": [0, 3]}));
    assert_eq!(conclude(&text, b"hi", Exit::Code(3)), Conclusion::new(AgentEnd::Done, AgentAnswer::Stdout));
    let failed = AgentEnd::Failed(Failure::Exit { code: 7 });
    assert_eq!(conclude(&text, b"hi", Exit::Code(7)), Conclusion::new(failed, AgentAnswer::Stdout));
}

#[test]
fn a_json_answer_is_found_by_its_pointer() {
    let json_output = options(json!({"command": ["x"], "output": {"json": {"result": "/a/0"}}}));
    let found = conclude(&json_output, br#"{"a":["yes"]}"#, Exit::Code(0));
    assert_eq!(found, Conclusion::new(AgentEnd::Done, AgentAnswer::Text("yes".to_owned())));
    let missing = conclude(&json_output, b"{}", Exit::Code(0));
    assert!(matches!(missing.end, AgentEnd::Failed(Failure::Output { .. })));
    let broken = conclude(&json_output, b"{", Exit::Code(0));
    assert!(matches!(broken.end, AgentEnd::Failed(Failure::Output { .. })));
    assert_eq!(broken.answer, AgentAnswer::Stdout, "what was written is kept");
}

#[test]
fn a_stream_without_its_terminal_event_is_never_a_success() {
    let output = b"{\"delta\":\"par\"}\nnoise\n{\"delta\":\"tial\"}\n{\"type\":\"resu";
    let cut = conclude(&jsonl(), output, Exit::Code(0));
    let reason = "the stream ended without its terminal event".to_owned();
    assert_eq!(cut.end, AgentEnd::Failed(Failure::Output { reason }));
    assert_eq!(cut.answer, AgentAnswer::Text("partial".to_owned()));
}

#[test]
fn a_terminal_event_that_says_error_is_a_failure_whatever_the_exit_code() {
    let output = b"{\"type\":\"result\",\"is_error\":true,\"result\":\"no quota\"}\n";
    let failed = conclude(&jsonl(), output, Exit::Code(0));
    assert_eq!(failed.end, AgentEnd::Failed(Failure::Agent { message: "no quota".to_owned() }));
}

#[test]
fn a_line_without_end_is_passed_over_in_bounded_memory() {
    let mut reader = reader::for_output(&jsonl());
    let chunk = vec![b'x'; 1 << 20];
    let mut warnings = 0;
    for _ in 0..10 {
        warnings += reader.feed(StdStream::Stdout, &chunk).len();
    }
    assert_eq!(warnings, 1);
    reader.feed(StdStream::Stdout, b"\n{\"type\":\"result\",\"result\":\"ok\"}\n");
    assert_eq!(reader.conclude(Exit::Code(0)).answer, AgentAnswer::Text("ok".to_owned()));
}

proptest! {
    #[test]
    fn readers_survive_any_bytes_in_any_chunks(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..20),
        which in 0_usize..3,
    ) {
        let kinds = [json!("text"), json!({"json": {"result": "/result"}}), json!(jsonl().output)];
        let mut options = jsonl();
        options.output = serde_json::from_value(kinds[which].clone()).unwrap();
        let mut reader = reader::for_output(&options);
        for chunk in &chunks {
            reader.feed(StdStream::Stdout, chunk);
        }
        let conclusion = reader.conclude(Exit::Code(0));
        // Random bytes hold no terminal event and no document with a result.
        prop_assert!(which == 0 || conclusion.end != AgentEnd::Done);
    }

    #[test]
    fn every_truncation_of_a_stream_is_a_failure(cut in 0_usize..60) {
        let whole = b"{\"delta\":\"a\"}\n{\"type\":\"result\",\"result\":\"done\"}";
        let conclusion = conclude(&jsonl(), &whole[..cut.min(whole.len())], Exit::Code(0));
        prop_assert_eq!(conclusion.end == AgentEnd::Done, cut >= whole.len());
    }
}

#[test]
fn streamed_text_is_reported_as_it_comes() {
    let mut reader = reader::for_output(&jsonl());
    let reports = reader.feed(StdStream::Stdout, b"{\"delta\":\"a\"}\n{\"delta\":\"b\"}\n{");
    assert_eq!(reports, vec![AgentReport::Text("a".to_owned()), AgentReport::Text("b".to_owned())]);
}

#[test]
fn a_session_that_the_agent_names_is_returned() {
    let output = b"{\"type\":\"result\",\"result\":\"ok\",\"session\":\"s-1\"}\n";
    assert_eq!(conclude(&jsonl(), output, Exit::Code(0)).session.as_deref(), Some("s-1"));
}
