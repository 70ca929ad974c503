//! The stream that Grok is documented to write, whole, cut and wrong.

use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, Stream as Pipe, Usage};
use serde_json::{Value, json};

use super::reader::Stream;
use super::*;
use crate::contract::{Answer, Conclusion, Exit, Reader, Report};
use crate::lines::LINE_BYTES_MAX;
use crate::program::Found;
use crate::sample::{self};

fn read(events: &[Value], exit: Exit) -> (Vec<Report>, Conclusion) {
    sample::read(Stream::new(false), events, exit)
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
        assert_eq!(reports, [Report::Said("Do".to_owned()), Report::Said("ne.".to_owned())]);
        assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, Answer::Text("Done.".to_owned())));
        assert_eq!(conclusion.session.as_deref(), Some("g-1"));
    }
    let (_, killed) = read(&[text("Done."), stopped("end_turn")], Exit::Signal(9));
    assert_eq!(killed.end, AgentEnd::Failed(Failure::Signal { signal: 9 }));
}

#[test]
fn tools_are_told_and_the_answer_is_what_comes_after_them() {
    let called = json!({"type": "tool_call", "toolCallId": "c1", "toolName": "run_terminal_cmd", "rawInput": {"command": "ls"}});
    let ended = |status: &str, output: &str| json!({"type": "tool_call_update", "toolCallId": "c1", "status": status, "rawOutput": output});
    let events =
        [text("Let me."), called.clone(), ended("completed", "x"), text("Done."), stopped("end_turn")];
    let (reports, conclusion) = read(&events, Exit::Code(0));
    let (id, name) = ("c1".to_owned(), "run_terminal_cmd".to_owned());
    assert_eq!(
        reports[2],
        Report::ToolCalled { id: id.clone(), name: name.clone(), input: json!({"command": "ls"}) }
    );
    assert_eq!(reports[3], Report::ToolReturned { id, ok: true, output: "\"x\"".to_owned() });
    assert_eq!(conclusion.answer, Answer::Text("Done.".to_owned()));
    let (reports, _) = read(&[called, ended("failed", "Permission denied: run_terminal_cmd")], Exit::Code(0));
    let denied = sample::denied("c1", "run_terminal_cmd", "by the rules or the sandbox of grok");
    assert_eq!(reports.last(), Some(&denied));
}

#[test]
fn a_message_without_end_is_cut() {
    let flood = text(&"x".repeat(LINE_BYTES_MAX / 2));
    let (reports, conclusion) =
        read(&[flood.clone(), flood.clone(), flood, stopped("end_turn")], Exit::Code(0));
    assert_eq!(conclusion.answer, Answer::Text("x".repeat(LINE_BYTES_MAX)));
    assert!(reports.contains(&Report::Warned("the answer was too long and was cut".to_owned())));
}

#[test]
fn what_was_used_is_told_with_its_price_in_ticks() {
    let mut end = stopped("end_turn");
    end["usage"] = json!({"input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 30});
    end["modelUsage"] = json!({"grok-build": {}});
    end["total_cost_usd_ticks"] = json!(126_890_500);
    let (reports, _) = read(&[end], Exit::Code(0));
    let cost = Some(Cost { microusd: 12_689, basis: CostBasis::Reported });
    let used =
        Usage { input_tokens: 120, output_tokens: 30, cache_read_tokens: 100, cost, ..Usage::default() };
    assert_eq!(reports, [Report::Model("grok-build".to_owned()), Report::Used(used)]);
}

#[test]
fn another_end_is_no_success_and_its_text_is_kept() {
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
    assert_eq!(cancelled.answer, Answer::Text("so far".to_owned()));
}

#[test]
fn without_an_end_the_error_stream_tells() {
    let ended = |stdout: &str, stderr: &str, exit| {
        let mut reader = Stream::new(false);
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
    let mut spec = sample::spec("grok");
    change(&mut spec);
    let found = Found { argv: vec!["/bin/grok".to_owned()], version: None };
    let place = sample::place(Some(&found));
    let Drive::Process(drive) = Grok.prepare(&spec, &place).unwrap() else {
        panic!("a process was expected")
    };
    assert!(drive.files[0].content.ends_with(b"[User Prompt]\ndo it"));
    drive.argv.join(" ")
}

#[test]
fn the_prompt_goes_by_a_file_and_the_level_by_sandbox_and_rules() {
    let told = argv(|spec| {
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
    assert_eq!(told, expected);
    let rules = r#"{"level": "read-only", "deny": ["WebSearch", "Bash(rm:*)"]}"#;
    let told = argv(|spec| spec.setup.permission = serde_json::from_str(rules).unwrap());
    let expected = "--sandbox read-only --deny Bash --deny Edit --deny Write --deny Bash(rm:*) \
                    --disallowed-tools search_tool,use_tool,web_search";
    assert!(told.contains(expected), "{told}");
    assert!(
        argv(|spec| spec.setup.permission = serde_json::from_str(r#"{"level": "yolo"}"#).unwrap())
            .contains("--sandbox off --disallowed-tools")
    );
}

#[test]
fn with_its_users_settings_the_sandbox_alone_is_the_level() {
    let told = argv(|spec| {
        spec.setup.permission = serde_json::from_str(r#"{"level": "read-only"}"#).unwrap();
        spec.setup.inherit = Inherited::ALL.into();
    });
    let expected = "/bin/grok --permission-mode bypassPermissions --sandbox read-only --cwd /p";
    assert!(told.starts_with(expected), "{told}");
    let told = argv(|spec| spec.setup.inherit = [Inherited::Environment].into());
    assert!(told.contains("--disallowed-tools search_tool,use_tool"), "{told}");
}

#[test]
fn what_it_cannot_limit_is_named() {
    let gaps = |text: &str| Grok.unenforceable(&serde_json::from_str(text).unwrap(), &Value::Null);
    assert_eq!(gaps(r#"{"level": "read-only", "deny": ["Bash(x:*)", "Edit", "mcp__a"]}"#), [""; 0]);
    assert_eq!(gaps(r#"{"level": "safe-edit", "ask": ["Bash"], "deny": ["Edit(src/**)"]}"#), [""; 0]);
    let rules = r#"{"level": "yolo", "allow": ["Bash"], "deny": ["Edit(src/**)", "Strange"]}"#;
    assert_eq!(gaps(rules), ["the rule allow Bash", "the rule deny Edit(src/**)", "the rule deny Strange"]);
}
