//! Streams as goose writes them: complete, cut and malformed, and translated permissions.

use domain::permission::Permission;
use domain::run::{AgentEnd, Failure, LimitName, ModelError, StdStream as Pipe, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::reader::{GooseStream, GooseStreamOptions};
use super::*;
use crate::contract::{AgentAnswer, AgentReport, Backend, Exit, OutputReader, PrepareError};
use crate::line_splitter::LINE_BYTES_MAX;
use crate::program::LocatedProgram;
use crate::test_fixtures::{self, read_events};

fn reader(structured: bool, resumed: bool) -> GooseStream {
    let excluded_servers = vec!["lonely".to_owned()];
    let used_before = (!resumed).then(Usage::default);
    GooseStream::new(GooseStreamOptions {
        structured,
        used_before,
        session: "s-1".to_owned(),
        excluded_servers,
    })
}

fn message(id: Option<&str>, role: &str, part: &Value) -> Value {
    json!({"type": "message", "message": {"id": id, "role": role, "content": [part]}})
}

fn piece(id: Option<&str>, text: &str) -> Value {
    message(id, "assistant", &json!({"type": "text", "text": text}))
}

fn complete() -> Value {
    json!({"type": "complete", "total_tokens": 110, "input_tokens": 100, "output_tokens": 10})
}

fn call(id: &str, name: &str, arguments: &Value) -> Value {
    let call = json!({"status": "success", "value": {"name": name, "arguments": arguments}});
    message(Some("m"), "assistant", &json!({"type": "toolRequest", "id": id, "toolCall": call}))
}

fn back(id: &str, error: bool) -> Value {
    let value = json!({"content": [{"type": "text", "text": "told"}], "isError": error});
    let result = json!({"status": "success", "value": value});
    message(Some("u"), "user", &json!({"type": "toolResponse", "id": id, "toolResult": result}))
}

fn end(events: &[Value]) -> AgentEnd {
    read_events(reader(false, false), events, Exit::Code(0)).1.end
}

#[test]
fn pieces_of_a_message_are_reported_as_one_and_the_last_is_the_answer() {
    let events = [
        piece(Some("m1"), "Let"),
        piece(Some("m1"), " me."),
        call("t1", "own__chirp", &json!({"n": 1})),
        back("t1", false),
        piece(Some("m2"), "All "),
        piece(Some("m2"), "done."),
        complete(),
    ];
    let (reports, conclusion) = read_events(reader(false, false), &events, Exit::Code(0));
    let say = |text: &str| AgentReport::Text(format!("{text}\n"));
    let (id, name) = ("t1".to_owned(), "mcp__own__chirp".to_owned());
    let expected = [
        say("Let me."),
        AgentReport::ToolCalled { id: id.clone(), name, input: json!({"n": 1}) },
        AgentReport::ToolReturned { id, ok: true, output: "told".to_owned() },
        say("All done."),
        AgentReport::Used(Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() }),
    ];
    assert_eq!(reports[0], AgentReport::Session("s-1".to_owned()));
    assert!(
        matches!(&reports[1], AgentReport::Warned(text) if text.contains("lonely is left out")),
        "{reports:?}"
    );
    assert_eq!(reports[2..], expected);
    assert_eq!(
        (conclusion.end, conclusion.answer),
        (AgentEnd::Done, AgentAnswer::Text("All done.".to_owned()))
    );
}

#[test]
fn an_error_is_a_message_without_an_id_and_the_same_text_of_a_model_is_none() {
    let text = "Ran into this error: Rate limit exceeded: slow down.";
    let model = |text: &str| match end(&[piece(None, text), complete()]) {
        AgentEnd::Failed(Failure::Model { error, .. }) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(model(text), ModelError::RateLimit);
    assert_eq!(model("Ran into this error: Request failed: Bad request (400): x."), ModelError::BadRequest);
    assert_eq!(model("Ran into this error: Authentication error: x."), ModelError::Denied);
    assert_eq!(model("Ran into this error: Server error: x."), ModelError::Overloaded);
    assert_eq!(
        model("Ran into this error: Request failed: Stream decode error: x."),
        ModelError::Unreachable
    );
    assert_eq!(model("Ran into this error: something."), ModelError::Other);
    assert_eq!(end(&[piece(Some("m1"), text), complete()]), AgentEnd::Done);
    let unreachable = "Network error: Could not connect to x.\n\nPlease resend your message to try again.";
    assert_eq!(model(unreachable), ModelError::Unreachable);
    let answer = "Network error: this is what the log says.";
    assert_eq!(end(&[piece(None, answer), complete()]), AgentEnd::Done);
    let compacting = "Ran into this error trying to compact: Failed to compact: context limit exceeded";
    assert_eq!(model(compacting), ModelError::TooLong);
    let too_long = "Unable to continue: Context limit still exceeded after compaction. Try using a shorter";
    assert_eq!(model(too_long), ModelError::TooLong);
}

#[test]
fn missing_credits_are_a_quota_error_and_an_empty_answer_is_none() {
    let notice = |kind: &str| {
        let part =
            json!({"type": "systemNotification", "notificationType": kind, "msg": "Please add credits."});
        message(None, "assistant", &part)
    };
    let complete = json!({"type": "complete", "total_tokens": null});
    let error = |events: &[Value]| match end(events) {
        AgentEnd::Failed(Failure::Model { error, message }) => (error, message),
        other => panic!("{other:?}"),
    };
    let credits = "Credits exhausted: Please add credits.".to_owned();
    assert_eq!(error(&[notice("creditsExhausted"), complete.clone()]), (ModelError::RateLimit, credits));
    let silence = "goose ended without a word of its model".to_owned();
    assert_eq!(error(&[notice("inlineMessage"), complete]), (ModelError::Other, silence));
}

#[test]
fn the_text_before_an_error_is_the_partial_answer() {
    let events = [piece(Some("m1"), "Half of"), piece(None, "Ran into this error: x."), complete()];
    let (_, conclusion) = read_events(reader(false, false), &events, Exit::Code(0));
    assert_eq!(conclusion.answer, AgentAnswer::Text("Half of\n".to_owned()));
    let (_, cut) = read_events(reader(false, false), &[piece(Some("m1"), "Half of")], Exit::Signal(15));
    assert_eq!(cut.end, AgentEnd::Failed(Failure::Signal { signal: 15 }));
    assert_eq!(cut.answer, AgentAnswer::Text("Half of".to_owned()));
}

#[test]
fn a_call_of_a_disabled_tool_is_reported_as_denied() {
    let error = "-32002: Tool 'shell' not found. Available tools: [tree]";
    let result = json!({"status": "error", "error": error});
    let back = message(Some("u"), "user", &json!({"type": "toolResponse", "id": "t1", "toolResult": result}));
    let events = [call("t1", "shell", &json!({})), back];
    let (reports, _) = read_events(reader(false, false), &events, Exit::Code(0));
    assert_eq!(
        reports.last(),
        Some(&test_fixtures::denied_report("t1", "shell", "the agent has no such tool"))
    );
}

#[test]
fn a_message_without_end_is_cut() {
    let flood = piece(Some("m"), &"x".repeat(LINE_BYTES_MAX / 2));
    let (reports, conclusion) =
        read_events(reader(false, false), &[flood.clone(), flood.clone(), flood, complete()], Exit::Code(0));
    assert_eq!(conclusion.answer, AgentAnswer::Text("x".repeat(LINE_BYTES_MAX)));
    assert!(reports.contains(&AgentReport::Warned("the answer was too long and was cut".to_owned())));
}

#[test]
fn the_end_of_all_turns_is_a_budget() {
    let text = "I've reached the maximum number of actions I can do without user input. Continue?";
    let events = [piece(Some("m1"), "So far."), piece(None, text), complete()];
    assert_eq!(end(&events), AgentEnd::OverBudget(LimitName::Turns));
    assert_eq!(end(&[piece(Some("m1"), text), complete()]), AgentEnd::Done);
}

#[test]
fn a_stream_without_terminal_event_fails() {
    let events = [piece(Some("m1"), "hello")];
    assert!(matches!(end(&events), AgentEnd::Failed(Failure::Output { .. })));
    let (_, conclusion) = read_events(reader(false, false), &events, Exit::Code(1));
    assert_eq!(conclusion.end, AgentEnd::Failed(Failure::Exit { code: 1 }));
    let mut lost = reader(false, true);
    lost.feed(Pipe::Stderr, b"Error: No session found with name 'x'\n");
    assert!(matches!(lost.conclude(Exit::Code(1)).end, AgentEnd::Failed(Failure::Session { .. })));
}

#[test]
fn the_tokens_of_a_session_are_not_reported_as_those_of_a_run() {
    let (reports, _) = read_events(reader(false, true), &[piece(Some("m"), "x"), complete()], Exit::Code(0));
    assert!(
        matches!(reports.last(), Some(AgentReport::Warned(text)) if text.contains("whole session")),
        "{reports:?}"
    );
    assert!(!reports.iter().any(|report| matches!(report, AgentReport::Used(_))));
}

#[test]
fn a_requested_value_is_the_output_that_goose_accepted() {
    let value = json!({"count": 3});
    let output_call = call("t1", "recipe__final_output", &value);
    let events = [output_call.clone(), back("t1", false), complete()];
    let (_, conclusion) = read_events(reader(true, false), &events, Exit::Code(0));
    assert_eq!((conclusion.end, conclusion.structured), (AgentEnd::Done, Some(value)));
    for events in
        [vec![output_call, back("t1", true), complete()], vec![piece(Some("m"), "three"), complete()]]
    {
        let (_, conclusion) = read_events(reader(true, false), &events, Exit::Code(0));
        assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Schema { .. })), "{conclusion:?}");
    }
}

fn prepare(change: impl FnOnce(&mut domain::run::RunSpec)) -> Result<ProcessLaunch, PrepareError> {
    test_fixtures::process_launch(
        &VENDOR,
        &LocatedProgram {
            version: Some("0.20.1".to_owned()),
            ..test_fixtures::located_program(&["/bin/goose"])
        },
        change,
    )
}

fn recipe_json(launch: &ProcessLaunch) -> Value {
    serde_json::from_slice(&launch.files[0].content).unwrap()
}

fn permission(text: &str) -> Permission {
    serde_json::from_str(text).unwrap()
}

fn session_argument(launch: &ProcessLaunch) -> String {
    launch.argv.iter().find_map(|argument| argument.strip_prefix("--name=")).unwrap().to_owned()
}

#[test]
fn texts_with_braces_are_no_templates() {
    let text = "say {{ secret }} and {% raw %} \"{{\" \\{";
    let launch = prepare(|spec| spec.prompt = text.to_owned()).unwrap();
    let written = String::from_utf8(launch.files[0].content.clone()).unwrap();
    assert!(!written.contains("{{") && !written.contains("{%"), "{written}");
    assert_eq!(recipe_json(&launch)["prompt"], text);
    assert_eq!(launch.feed, StdinFeed::Nothing);
}

#[test]
fn a_session_that_began_with_other_tools_is_refused() {
    let first = session_argument(&prepare(|_| {}).unwrap());
    let again = prepare(|spec| spec.session = Some(first.parse().unwrap())).unwrap();
    assert_eq!(session_argument(&again), first);
    assert!(again.argv.contains(&"--resume".to_owned()));
    let narrower = prepare(|spec| {
        spec.session = Some(first.parse().unwrap());
        spec.setup.permission = permission(r#"{"level": "read-only"}"#);
    });
    assert!(narrower.err().unwrap().reason.contains("began with other tools"));
}

#[test]
fn levels_become_lists_of_tools() {
    let tools = |text: &str| permission::built_in_tools(&permission(text), None);
    assert_eq!(tools(r#"{"level": "read-only"}"#), ["analyze", "tree"]);
    assert_eq!(tools("{}"), ["analyze", "edit", "tree", "write"]);
    assert_eq!(tools(r#"{"level": "yolo"}"#), ["analyze", "edit", "shell", "tree", "write"]);
    assert_eq!(tools(r#"{"level": "yolo", "deny": ["Bash(rm:*)"]}"#), ["analyze", "edit", "tree", "write"]);
    assert_eq!(tools(r#"{"level": "read-only", "allow": ["Bash"]}"#), ["analyze", "shell", "tree"]);
    assert_eq!(tools(r#"{"allow": ["Bash(git:*)"]}"#), ["analyze", "edit", "tree", "write"]);
    assert_eq!(permission::built_in_tools(&permission("{}"), Some(&["Write".to_owned()])), ["edit", "write"]);
}

#[test]
fn what_it_cannot_limit_is_reported() {
    let gaps = |text: &str| VENDOR.unenforceable(&permission(text), &Value::Null);
    assert_eq!(gaps(r#"{"level": "read-only", "deny": ["Edit", "Bash(x:*)"]}"#), [""; 0]);
    assert_eq!(gaps(r#"{"level": "yolo"}"#), [""; 0]);
    let outside = "the level safe-edit (it changes files outside its directory too)";
    assert_eq!(gaps(r#"{"level": "safe-edit"}"#), [outside]);
    let rules = r#"{"level": "yolo", "allow": ["Bash(git:*)"], "deny": ["Edit(.env)", "mcp__a__b"]}"#;
    assert_eq!(
        gaps(rules),
        ["the rule allow Bash(git:*)", "the rule deny Edit(.env)", "the rule deny mcp__a__b"]
    );
}

#[test]
fn servers_are_excluded_or_limited_and_their_secrets_are_only_referenced() {
    let server = json!({"name": "own", "tools": ["a", "b"],
        "transport": {"stdio": {"command": "/s", "env": {"KEY": "${TOKEN}", "PLAIN": "1"}}}});
    let with = |text: &str| {
        let server = serde_json::from_value(server.clone()).unwrap();
        let permission = permission(text);
        prepare(|spec| {
            spec.setup.mcp_servers = vec![server];
            spec.setup.permission = permission;
        })
        .unwrap()
    };
    let extensions = |text: &str| recipe_json(&with(text))["extensions"].as_array().unwrap().len();
    assert_eq!(extensions("{}"), 2, "who gave it to the agent meant it");
    assert_eq!(extensions(r#"{"level": "read-only"}"#), 1);
    assert_eq!(extensions(r#"{"deny": ["mcp__own"]}"#), 1);
    let allowed = with(r#"{"allow": ["mcp__own"]}"#);
    let entry = recipe_json(&allowed)["extensions"][1].clone();
    assert_eq!(entry["available_tools"], json!(["a", "b"]));
    assert_eq!((&entry["env_keys"], &entry["envs"]), (&json!(["KEY"]), &json!({"PLAIN": "1"})));
    assert!(allowed.env_overrides.contains(&("KEY".to_owned(), EnvValue::FromVariable("TOKEN".to_owned()))));
    let single = with(r#"{"allow": ["mcp__own__b", "mcp__own__c"]}"#);
    assert_eq!(recipe_json(&single)["extensions"][1]["available_tools"], json!(["b"]));
    let mixed = json!({"name": "own", "transport": {"stdio": {"command": "/s", "args": ["--key=${TOKEN}"]}}});
    let refused = prepare(|spec| {
        spec.setup.mcp_servers = vec![serde_json::from_value(mixed).unwrap()];
        spec.setup.permission = permission(r#"{"level": "yolo"}"#);
    });
    assert!(refused.err().unwrap().reason.contains("holds a variable"));
}

#[test]
fn arguments_that_would_grant_something_are_refused() {
    assert!(prepare(|spec| spec.setup.extra_args = vec!["--debug".to_owned()]).is_ok());
    for hostile in
        ["--with-extension=x", "--with-builtin=developer", "--container=x", "--provider=claude-code", "-s"]
    {
        let refused = prepare(|spec| spec.setup.extra_args = vec![hostile.to_owned()]).err().unwrap();
        assert!(refused.reason.contains("may not be given by an agent"), "{refused}");
    }
}

proptest! {
    #[test]
    fn a_recipe_stays_the_same_value_without_braces(text in ".{0,60}") {
        let value = json!({"a": {"b": [text, {"c{": "{{"}]}});
        let written = escape_braces(&value.to_string());
        prop_assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value);
    }
}
