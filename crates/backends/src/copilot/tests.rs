//! Streams as Copilot writes them: complete, cut and malformed, and translated permissions.

use std::path::Path;

use domain::permission::Permission;
use domain::run::{AgentEnd, Failure, ModelError, StdStream as Pipe, Usage};
use serde_json::{Value, json};

use super::reader::{CopilotStream, CopilotStreamOptions};
use super::*;
use crate::contract::{AgentAnswer, AgentReport, Backend, Exit, OutputReader, PrepareError};
use crate::program::LocatedProgram;
use crate::test_fixtures::{self, json_lines, read_events};

fn reader_in(work: &Path, used_before: Option<Usage>, structured: bool) -> CopilotStream {
    CopilotStream::new(CopilotStreamOptions {
        structured,
        session: "s-1".to_owned(),
        used_before,
        own_servers: vec!["own".to_owned()],
        usage_file: work.join("usage.json"),
    })
}

fn reader() -> CopilotStream {
    reader_in(Path::new("/nowhere"), None, false)
}

fn event(kind: &str, data: &Value) -> Value {
    json!({"type": kind, "data": data})
}

fn message_event(text: &str) -> Value {
    event("assistant.message", &json!({"model": "m", "content": text, "toolRequests": []}))
}

fn result(exit_code: i32) -> Value {
    json!({"type": "result", "sessionId": "s-1", "exitCode": exit_code, "usage": {}})
}

#[test]
fn the_last_message_is_the_answer() {
    let works = json!({"model": "m", "content": "Let me.", "toolRequests": [{"name": "view"}]});
    let events = [event("assistant.message", &works), message_event("Done."), result(0)];
    let (reports, conclusion) = read_events(reader(), &events, Exit::Code(0));
    let model = || AgentReport::Model("m".to_owned());
    let say = |text: &str| AgentReport::Text(format!("{text}\n"));
    assert_eq!(
        reports,
        [AgentReport::Session("s-1".to_owned()), model(), say("Let me."), model(), say("Done.")]
    );
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, AgentAnswer::Text("Done.".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("s-1"));
}

#[test]
fn usage_comes_from_its_file_and_is_left_out_where_it_is_that_of_a_session() {
    let work = tempfile::tempdir().unwrap();
    let model_usage = json!({"usage": {"inputTokens": 100, "outputTokens": 10, "cacheReadTokens": 40}});
    let metrics = json!({"modelMetrics": {"a": model_usage, "b": model_usage}});
    std::fs::write(work.path().join("usage.json"), metrics.to_string()).unwrap();
    let events = [message_event("x"), result(0)];
    let (_, conclusion) =
        read_events(reader_in(work.path(), Some(Usage::default()), false), &events, Exit::Code(0));
    let usage = Usage { input_tokens: 100, output_tokens: 10, cache_read_tokens: 40, ..Usage::default() };
    let by = |model: &str| AgentReport::UsedBy { model: model.to_owned(), usage };
    assert_eq!(conclusion.reports, [by("a"), by("b")]);
    let before = Usage { input_tokens: 150, output_tokens: 5, cache_read_tokens: 50, ..Usage::default() };
    let before = Some(before);
    let (_, conclusion) = read_events(reader_in(work.path(), before, false), &events, Exit::Code(0));
    let usage = Usage { input_tokens: 50, output_tokens: 15, cache_read_tokens: 30, ..Usage::default() };
    assert_eq!(conclusion.reports, [AgentReport::Used(usage)]);
    let (_, conclusion) = read_events(reader_in(work.path(), None, false), &events, Exit::Code(0));
    assert!(matches!(&conclusion.reports[..], [AgentReport::Warned(_)]), "{conclusion:?}");
}

#[test]
fn each_way_to_fail_has_its_name_whatever_the_exit_code() {
    let fail = |call: Option<Value>, error: Value| {
        let mut events = vec![message_event("so far")];
        events.extend(call.map(|call| event("model.call_failure", &call)));
        events.extend([event("session.error", &error), result(0)]);
        let (_, conclusion) = read_events(reader(), &events, Exit::Code(0));
        assert_eq!(conclusion.answer, AgentAnswer::Text("so far\n".to_owned()));
        match conclusion.end {
            AgentEnd::Failed(Failure::Model { error, .. }) => error,
            other => panic!("{other:?}"),
        }
    };
    let error = |kind: &str, status: u64| json!({"errorType": kind, "message": "m", "statusCode": status});
    assert_eq!(fail(None, error("query", 400)), ModelError::BadRequest);
    assert_eq!(fail(None, error("authentication", 401)), ModelError::Denied);
    assert_eq!(fail(None, error("rate_limit", 429)), ModelError::RateLimit);
    assert_eq!(fail(None, error("query", 500)), ModelError::Overloaded);
    let bare = json!({"errorType": "query", "message": "too long"});
    assert_eq!(fail(Some(json!({"statusCode": 413})), bare.clone()), ModelError::TooLong);
    assert_eq!(fail(Some(json!({"failureKind": "transport"})), bare.clone()), ModelError::Unreachable);
    assert_eq!(fail(None, bare), ModelError::Other);
    let other = event("session.error", &json!({"errorType": "session", "message": "no"}));
    let (_, conclusion) = read_events(reader(), &[other, result(1)], Exit::Code(1));
    assert_eq!(conclusion.end, AgentEnd::Failed(Failure::Agent { message: "no".to_owned() }));
    let (_, conclusion) = read_events(reader(), &[message_event("x"), result(3)], Exit::Code(3));
    assert_eq!(conclusion.end, AgentEnd::Failed(Failure::Exit { code: 3 }));
}

#[test]
fn a_run_that_was_stopped_did_not_succeed_although_it_says_zero() {
    for stop in [event("abort", &json!({})), event("assistant.idle", &json!({"aborted": true}))] {
        let piece = event("assistant.message_delta", &json!({"deltaContent": "half of"}));
        let (_, conclusion) = read_events(reader(), &[piece, stop, result(0)], Exit::Code(0));
        assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Agent { .. })), "{conclusion:?}");
        assert_eq!(conclusion.answer, AgentAnswer::Text("half of".to_owned()));
    }
}

#[test]
fn a_stream_without_result_fails() {
    let ended = |stderr: &str, exit| {
        let mut stream = reader();
        stream.feed(Pipe::Stdout, &json_lines(&[message_event("so far")]));
        stream.feed(Pipe::Stderr, stderr.as_bytes());
        stream.conclude(exit).end
    };
    assert!(matches!(ended("", Exit::Code(0)), AgentEnd::Failed(Failure::Output { .. })));
    assert_eq!(ended("", Exit::Code(2)), AgentEnd::Failed(Failure::Exit { code: 2 }));
    assert_eq!(ended("", Exit::Signal(9)), AgentEnd::Failed(Failure::Signal { signal: 9 }));
    let unknown = ended("Error: No session, task, or name matched 'x'.", Exit::Code(1));
    assert!(matches!(unknown, AgentEnd::Failed(Failure::Session { .. })), "{unknown:?}");
    let nobody = ended("Error: No authentication information found.", Exit::Code(1));
    assert!(
        matches!(nobody, AgentEnd::Failed(Failure::Model { error: ModelError::Denied, .. })),
        "{nobody:?}"
    );
}

#[test]
fn tool_calls_denials_and_servers_are_reported() {
    let servers = json!({"servers": [{"name": "own", "status": "failed", "error": "gone"},
        {"name": "other", "status": "connected"}, {"name": "off", "status": "disabled"}]});
    let call = json!({"toolCallId": "t1", "toolName": "own-x", "mcpServerName": "own", "mcpToolName": "x",
        "arguments": {"n": 1}});
    let back = json!({"toolCallId": "t1", "success": false, "error": {"message": "no", "code": "denied"}});
    let events = [
        event("session.mcp_servers_loaded", &servers),
        event("tool.execution_start", &call),
        event("tool.execution_complete", &back),
    ];
    let (reports, _) = read_events(reader(), &events, Exit::Code(0));
    let warned = |text: &str| AgentReport::Warned(text.to_owned());
    let (id, name) = ("t1".to_owned(), "mcp__own__x".to_owned());
    let expected = [
        warned("the MCP server own is not there: failed gone"),
        warned(
            "the MCP server other of copilot's own settings was started; the agent does not see its tools",
        ),
        AgentReport::ToolCalled { id: id.clone(), name, input: json!({"n": 1}) },
        AgentReport::ToolReturned { id, ok: false, output: "no".to_owned() },
        test_fixtures::denied_report("t1", "mcp__own__x", "no"),
    ];
    assert_eq!(reports[1..], expected);
}

#[test]
fn a_requested_schema_requires_a_value() {
    let structured = || reader_in(Path::new("/nowhere"), None, true);
    let (_, conclusion) =
        read_events(structured(), &[message_event("{\"count\": 3}"), result(0)], Exit::Code(0));
    assert_eq!((conclusion.end, conclusion.structured), (AgentEnd::Done, Some(json!({"count": 3}))));
    let (_, conclusion) = read_events(structured(), &[message_event("three"), result(0)], Exit::Code(0));
    assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Schema { .. })), "{conclusion:?}");
}

fn prepare(change: impl FnOnce(&mut domain::run::RunSpec)) -> Result<ProcessLaunch, PrepareError> {
    test_fixtures::process_launch(
        &VENDOR,
        &LocatedProgram {
            version: Some("1.0.102".to_owned()),
            ..test_fixtures::located_program(&["/bin/copilot"])
        },
        change,
    )
}

fn permission(text: &str) -> Permission {
    serde_json::from_str(text).unwrap()
}

fn assert_has_args(argv: &[String], expected: &[&str]) {
    for option in expected {
        assert!(argv.iter().any(|argument| argument == option), "{option} in {argv:?}");
    }
}

#[test]
fn prompt_and_system_prompt_stay_out_of_the_arguments() {
    let launch = prepare(|_| {}).unwrap();
    assert_eq!(launch.feed, StdinFeed::Whole(b"do it".to_vec()));
    let id = test_fixtures::spec("copilot").id;
    // No file of the user or the project can have this name.
    let agent = format!("--agent=volery-{id}");
    assert_has_args(&launch.argv, &[&agent, "--add-dir=/w/agent", &format!("--session-id={id}")]);
    assert_eq!(launch.files[1].name, format!("agent/.github/agents/volery-{id}.agent.md"));
    let agent = String::from_utf8(launch.files[1].content.clone()).unwrap();
    assert!(agent.ends_with("---\nYou are careful.\n"), "{agent}");
    let groups = r#"tools: ["execute","read","edit","search","agent","web","todo"]"#;
    assert!(agent.contains(groups), "{agent}");
}

#[test]
fn the_setup_becomes_options() {
    let launch = prepare(|spec| {
        spec.model = Some("gpt".to_owned());
        spec.session = Some("s-9".parse().unwrap());
        spec.setup.context = Context::None;
        spec.setup.effort = Some("high".to_owned());
        spec.setup.tools = Some(vec!["view".to_owned()]);
        spec.delegates = Delegates::Anyone;
    })
    .unwrap();
    let expected = ["--model=gpt", "--resume=s-9", "--no-custom-instructions", "--reasoning-effort=high"];
    assert_has_args(&launch.argv, &expected);
    assert_has_args(&launch.argv, &["--allow-tool=volery"]);
    let agent = String::from_utf8(launch.files[1].content.clone()).unwrap();
    assert!(agent.contains(r#"tools: ["view","volery/*"]"#), "{agent}");
}

#[test]
fn git_folders_cannot_be_allowed_against_the_denial() {
    let rules = permission(r#"{"level": "safe-edit", "allow": ["Edit(.git/info/**)"]}"#);
    assert_eq!(
        permission::translate(&rules, "/p").inexpressible_grants,
        ["the rule allow Edit(.git/info/**)"]
    );
}

#[test]
fn levels_and_rules_become_options() {
    let args = |text: &str| permission::translate(&permission(text), "/p").args;
    let git_denials = ["--deny-tool=write(/p/.git/**)", "--deny-tool=write(/p/**/.git/**)"];
    let nothing_beyond =
        ["--allow-tool=write", "--disallow-temp-dir", git_denials[0], git_denials[1], "--deny-tool=shell"];
    assert_eq!(args("{}"), nothing_beyond);
    assert_eq!(args(r#"{"level": "safe-edit"}"#), nothing_beyond);
    assert_eq!(
        args(r#"{"level": "read-only"}"#),
        ["--disallow-temp-dir", "--deny-tool=shell", "--deny-tool=write"]
    );
    assert_eq!(
        args(r#"{"level": "yolo", "deny": ["Bash(rm -rf:*)", "mcp__a__b"]}"#),
        ["--allow-all", "--deny-tool=shell(rm -rf:*)", "--deny-tool=a(b)"]
    );
    let rules = r#"{"level": "read-only", "allow": ["Bash(git log:*)", "Edit(docs/**)", "mcp__a"], "ask": ["Edit(docs/x)"]}"#;
    assert_eq!(
        args(rules),
        [
            "--disallow-temp-dir",
            "--allow-tool=shell(git log:*)",
            "--allow-tool=write(/p/docs/**)",
            "--allow-tool=a",
            "--deny-tool=write(/p/docs/x)",
        ]
    );
    let hidden =
        permission::translate(&permission(r#"{"deny": ["Task", "WebFetch"]}"#), "/p").hidden_tool_groups;
    assert_eq!(hidden, ["agent", "web"]);
}

#[test]
fn rules_that_it_cannot_distinguish_are_reported() {
    let gaps = |text: &str| VENDOR.unenforceable(&permission(text), &Value::Null);
    assert_eq!(
        gaps(r#"{"level": "safe-edit", "allow": ["Bash(cargo:*)", "Read"], "deny": ["Bash"]}"#),
        [""; 0]
    );
    let rules =
        r#"{"allow": ["Bash(cargo test:*)", "Bash(ls)"], "deny": ["Read(.env)"], "ask": ["WebFetch(x)"]}"#;
    assert_eq!(gaps(rules), ["the rule ask WebFetch(x)", "the rule deny Read(.env)"]);
    let ungranted = VENDOR.inexpressible_grants(&permission(rules), &Value::Null);
    assert_eq!(ungranted, ["the rule allow Bash(cargo test:*)", "the rule allow Bash(ls)"]);
    // An inexpressible rule does not enable the shell: commands that only read would be allowed silently.
    let args = |text: &str| permission::translate(&permission(text), "/p").args;
    assert!(args(r#"{"allow": ["Bash(ls)"]}"#).contains(&"--deny-tool=shell".to_owned()));
    assert!(!args(r#"{"allow": ["Bash(ls)", "Bash(ls:*)"]}"#).contains(&"--deny-tool=shell".to_owned()));
}

#[test]
fn arguments_that_would_grant_something_are_refused() {
    assert!(prepare(|spec| spec.setup.extra_args = vec!["--max-ai-credits=30".to_owned()]).is_ok());
    for hostile in ["--allow-all", "--yolo", "--plugin-dir=/x", "x"] {
        let refused = prepare(|spec| spec.setup.extra_args = vec![hostile.to_owned()]).err().unwrap();
        assert!(refused.reason.contains("may not be given by an agent"), "{refused}");
    }
}
