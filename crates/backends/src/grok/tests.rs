//! The stream that Grok is documented to write: complete, cut and malformed.

use domain::inherit::Inherited;
use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, StdStream as Pipe, Usage};
use serde_json::{Value, json};

use super::reader::GrokStream;
use super::*;
use crate::contract::{AgentAnswer, AgentReport, Backend, Conclusion, Exit, LaunchPlan, OutputReader};
use crate::line_splitter::LINE_BYTES_MAX;
use crate::program::LocatedProgram;
use crate::test_fixtures::{self};

fn read(events: &[Value], exit: Exit) -> (Vec<AgentReport>, Conclusion) {
    test_fixtures::read_events(GrokStream::new(false), events, exit)
}

fn text(data: &str) -> Value {
    json!({"type": "text", "data": data})
}

fn stopped(reason: &str) -> Value {
    json!({"type": "end", "stopReason": reason, "sessionId": "g-1", "requestId": "r"})
}

#[test]
fn the_text_of_a_turn_that_ended_is_the_answer() {
    for reason in ["end_turn", "EndTurn"] {
        let (reports, conclusion) = read(&[text("Do"), text("ne."), stopped(reason)], Exit::Code(0));
        assert_eq!(reports, [AgentReport::Text("Do".to_owned()), AgentReport::Text("ne.".to_owned())]);
        assert_eq!(
            (conclusion.end, conclusion.answer),
            (AgentEnd::Done, AgentAnswer::Text("Done.".to_owned()))
        );
        assert_eq!(conclusion.session.as_deref(), Some("g-1"));
    }
    let (_, killed) = read(&[text("Done."), stopped("end_turn")], Exit::Signal(9));
    assert_eq!(killed.end, AgentEnd::Failed(Failure::Signal { signal: 9 }));
}

#[test]
fn tool_calls_are_reported_and_the_answer_is_the_text_after_them() {
    let called = json!({"type": "tool_call", "toolCallId": "c1", "toolName": "run_terminal_cmd", "rawInput": {"command": "ls"}});
    let ended = |status: &str, output: &str| json!({"type": "tool_call_update", "toolCallId": "c1", "status": status, "rawOutput": output});
    let events =
        [text("Let me."), called.clone(), ended("completed", "x"), text("Done."), stopped("end_turn")];
    let (reports, conclusion) = read(&events, Exit::Code(0));
    let (id, name) = ("c1".to_owned(), "run_terminal_cmd".to_owned());
    assert_eq!(
        reports[2],
        AgentReport::ToolCalled { id: id.clone(), name: name.clone(), input: json!({"command": "ls"}) }
    );
    assert_eq!(reports[3], AgentReport::ToolReturned { id, ok: true, output: "\"x\"".to_owned() });
    assert_eq!(conclusion.answer, AgentAnswer::Text("Done.".to_owned()));
    let (reports, _) = read(&[called, ended("failed", "Permission denied: run_terminal_cmd")], Exit::Code(0));
    let denied =
        test_fixtures::denied_report("c1", "run_terminal_cmd", "by the rules or the sandbox of grok");
    assert_eq!(reports.last(), Some(&denied));
}

#[test]
fn a_message_without_end_is_cut() {
    let flood = text(&"x".repeat(LINE_BYTES_MAX / 2));
    let (reports, conclusion) =
        read(&[flood.clone(), flood.clone(), flood, stopped("end_turn")], Exit::Code(0));
    assert_eq!(conclusion.answer, AgentAnswer::Text("x".repeat(LINE_BYTES_MAX)));
    assert!(reports.contains(&AgentReport::Warned("the answer was too long and was cut".to_owned())));
}

#[test]
fn usage_is_reported_with_its_cost_in_ticks() {
    let mut end = stopped("end_turn");
    end["usage"] = json!({"input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 30});
    end["modelUsage"] = json!({"grok-build": {}});
    end["total_cost_usd_ticks"] = json!(126_890_500);
    let (reports, _) = read(&[end], Exit::Code(0));
    let cost = Some(Cost { microusd: 12_689, basis: CostBasis::Reported });
    let used =
        Usage { input_tokens: 120, output_tokens: 30, cache_read_tokens: 100, cost, ..Usage::default() };
    assert_eq!(reports, [AgentReport::Model("grok-build".to_owned()), AgentReport::Used(used)]);
}

#[test]
fn another_end_fails_and_keeps_the_partial_answer() {
    let end = |event: Value, code| read(&[text("so far"), event], Exit::Code(code)).1.end;
    assert_eq!(end(stopped("end_turn"), 1), AgentEnd::Failed(Failure::Exit { code: 1 }));
    assert_eq!(end(stopped("max_turn_requests"), 0), AgentEnd::OverBudget(LimitName::Turns));
    assert!(matches!(end(stopped("max_tokens"), 0), AgentEnd::Failed(Failure::Output { .. })));
    assert!(matches!(end(json!({"type": "end"}), 0), AgentEnd::Failed(Failure::Output { .. })));
    let refused = end(stopped("refusal"), 0);
    assert!(
        matches!(refused, AgentEnd::Failed(Failure::Model { error: ModelError::Refusal, .. })),
        "{refused:?}"
    );
    let error = |message: &str| end(json!({"type": "error", "message": message}), 1);
    assert_eq!(error("it broke"), AgentEnd::Failed(Failure::Agent { message: "it broke".to_owned() }));
    assert!(matches!(error("Session not found: x"), AgentEnd::Failed(Failure::Session { .. })));
    let limited = error("API error (status 429): slow down");
    assert!(
        matches!(limited, AgentEnd::Failed(Failure::Model { error: ModelError::RateLimit, .. })),
        "{limited:?}"
    );
    let (_, cancelled) = read(&[text("so far"), stopped("cancelled")], Exit::Code(0));
    assert_eq!(cancelled.answer, AgentAnswer::Text("so far".to_owned()));
}

#[test]
fn without_an_end_the_error_stream_shows_the_reason() {
    let ended = |stdout: &str, stderr: &str, exit| {
        let mut reader = GrokStream::new(false);
        reader.feed(Pipe::Stdout, stdout.as_bytes());
        reader.feed(Pipe::Stderr, stderr.as_bytes());
        reader.conclude(exit).end
    };
    let message = "it broke".to_owned();
    assert_eq!(ended("", "it broke\n", Exit::Code(1)), AgentEnd::Failed(Failure::Agent { message }));
    assert!(matches!(ended("hello", "", Exit::Code(0)), AgentEnd::Failed(Failure::Output { .. })));
    assert_eq!(ended("", "", Exit::Code(143)), AgentEnd::Failed(Failure::Exit { code: 143 }));
}

fn argv(change: impl FnOnce(&mut domain::run::RunSpec)) -> String {
    let mut spec = test_fixtures::spec("grok");
    change(&mut spec);
    let found = LocatedProgram { argv: vec!["/bin/grok".to_owned()], version: None };
    let context = test_fixtures::launch_context(Some(&found));
    let LaunchPlan::Process(launch) = VENDOR.prepare(&spec, &context).unwrap() else {
        panic!("a process was expected")
    };
    assert!(launch.files[0].content.ends_with(b"[User Prompt]\ndo it"));
    launch.argv.join(" ")
}

#[test]
fn the_prompt_is_in_a_file_and_sandbox_and_rules_enforce_the_level() {
    let arguments = argv(|spec| {
        spec.model = Some("grok-4".to_owned());
        spec.session = Some("g-1".parse().unwrap());
        spec.fork = true;
        spec.setup.effort = Some("high".to_owned());
        spec.setup.max_turns = Some(7);
    });
    let expected = "/bin/grok --permission-mode bypassPermissions --sandbox workspace \
                    --disallowed-tools search_tool,use_tool --max-turns 7 --model=grok-4 \
                    --reasoning-effort=high --resume=g-1 --cwd /p --output-format streaming-json \
                    --prompt-file /w/prompt.md --fork-session --verbatim";
    assert_eq!(arguments, expected);
    let rules = r#"{"level": "read-only", "deny": ["WebSearch", "Bash(rm:*)"]}"#;
    let arguments = argv(|spec| spec.setup.permission = serde_json::from_str(rules).unwrap());
    let expected = "--sandbox read-only --deny Bash --deny Edit --deny Write --deny Bash(rm:*) \
                    --disallowed-tools search_tool,use_tool,web_search";
    assert!(arguments.contains(expected), "{arguments}");
    assert!(
        argv(|spec| spec.setup.permission = serde_json::from_str(r#"{"level": "yolo"}"#).unwrap())
            .contains("--sandbox off --disallowed-tools")
    );
}

#[test]
fn with_the_users_settings_only_the_sandbox_enforces_the_level() {
    let arguments = argv(|spec| {
        spec.setup.permission = serde_json::from_str(r#"{"level": "read-only"}"#).unwrap();
        spec.setup.inherit = Inherited::ALL.into();
    });
    let expected = "/bin/grok --permission-mode bypassPermissions --sandbox read-only --cwd /p";
    assert!(arguments.starts_with(expected), "{arguments}");
    let arguments = argv(|spec| spec.setup.inherit = [Inherited::Environment].into());
    assert!(arguments.contains("--disallowed-tools search_tool,use_tool"), "{arguments}");
}

#[test]
fn what_it_cannot_limit_is_reported() {
    let gaps = |text: &str| VENDOR.unenforceable(&serde_json::from_str(text).unwrap(), &Value::Null);
    assert_eq!(gaps(r#"{"level": "read-only", "deny": ["Bash(x:*)", "Edit", "mcp__a"]}"#), [""; 0]);
    assert_eq!(gaps(r#"{"level": "safe-edit", "ask": ["Bash"], "deny": ["Edit(src/**)"]}"#), [""; 0]);
    let rules = r#"{"level": "yolo", "allow": ["Bash"], "deny": ["Edit(src/**)", "Strange"]}"#;
    assert_eq!(gaps(rules), ["the rule allow Bash", "the rule deny Edit(src/**)", "the rule deny Strange"]);
}
