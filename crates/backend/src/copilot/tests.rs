//! Streams as Copilot writes them, whole, cut and wrong, and permissions in its words.

use std::path::Path;

use domain::run::{AgentEnd, Failure, ModelError, Stream as Pipe, Usage};
use serde_json::{Value, json};

use super::reader::{Expected, Stream};
use super::*;
use crate::contract::{Answer, Exit, Reader, Report};
use crate::program::Found;
use crate::sample::{self, lines, read};

fn reader_in(work: &Path, used_before: Option<Usage>, structured: bool) -> Stream {
    Stream::new(Expected {
        structured,
        session: "s-1".to_owned(),
        used_before,
        own_servers: vec!["own".to_owned()],
        usage_file: work.join("usage.json"),
    })
}

fn reader() -> Stream {
    reader_in(Path::new("/nowhere"), None, false)
}

fn event(kind: &str, data: &Value) -> Value {
    json!({"type": kind, "data": data})
}

fn said(text: &str) -> Value {
    event("assistant.message", &json!({"model": "m", "content": text, "toolRequests": []}))
}

fn result(exit_code: i32) -> Value {
    json!({"type": "result", "sessionId": "s-1", "exitCode": exit_code, "usage": {}})
}

#[test]
fn the_last_message_is_the_answer() {
    let works = json!({"model": "m", "content": "Let me.", "toolRequests": [{"name": "view"}]});
    let events = [event("assistant.message", &works), said("Done."), result(0)];
    let (reports, conclusion) = read(reader(), &events, Exit::Code(0));
    let model = || Report::Model("m".to_owned());
    let say = |text: &str| Report::Said(format!("{text}\n"));
    assert_eq!(reports, [Report::Session("s-1".to_owned()), model(), say("Let me."), model(), say("Done.")]);
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, Answer::Text("Done.".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("s-1"));
}

#[test]
fn usage_comes_from_its_file_and_is_left_out_where_it_is_that_of_a_session() {
    let work = tempfile::tempdir().unwrap();
    let of_model = json!({"usage": {"inputTokens": 100, "outputTokens": 10, "cacheReadTokens": 40}});
    let told = json!({"modelMetrics": {"a": of_model, "b": of_model}});
    std::fs::write(work.path().join("usage.json"), told.to_string()).unwrap();
    let events = [said("x"), result(0)];
    let (_, conclusion) = read(reader_in(work.path(), Some(Usage::default()), false), &events, Exit::Code(0));
    let usage = Usage { input_tokens: 100, output_tokens: 10, cache_read_tokens: 40, ..Usage::default() };
    let by = |model: &str| Report::UsedBy { model: model.to_owned(), usage };
    assert_eq!(conclusion.reports, [by("a"), by("b")]);
    let before = Usage { input_tokens: 150, output_tokens: 5, cache_read_tokens: 50, ..Usage::default() };
    let before = Some(before);
    let (_, conclusion) = read(reader_in(work.path(), before, false), &events, Exit::Code(0));
    let usage = Usage { input_tokens: 50, output_tokens: 15, cache_read_tokens: 30, ..Usage::default() };
    assert_eq!(conclusion.reports, [Report::Used(usage)]);
    let (_, conclusion) = read(reader_in(work.path(), None, false), &events, Exit::Code(0));
    assert!(matches!(&conclusion.reports[..], [Report::Warned(_)]), "{conclusion:?}");
}

#[test]
fn each_way_to_fail_has_its_name_whatever_the_exit_code() {
    let fail = |call: Option<Value>, error: Value| {
        let mut events = vec![said("so far")];
        events.extend(call.map(|call| event("model.call_failure", &call)));
        events.extend([event("session.error", &error), result(0)]);
        let (_, conclusion) = read(reader(), &events, Exit::Code(0));
        assert_eq!(conclusion.answer, Answer::Text("so far\n".to_owned()));
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
    let (_, conclusion) = read(reader(), &[other, result(1)], Exit::Code(1));
    assert_eq!(conclusion.end, AgentEnd::Failed(Failure::Agent { message: "no".to_owned() }));
    let (_, conclusion) = read(reader(), &[said("x"), result(3)], Exit::Code(3));
    assert_eq!(conclusion.end, AgentEnd::Failed(Failure::Exit { code: 3 }));
}

#[test]
fn a_run_that_was_stopped_did_not_succeed_although_it_says_zero() {
    for stop in [event("abort", &json!({})), event("assistant.idle", &json!({"aborted": true}))] {
        let piece = event("assistant.message_delta", &json!({"deltaContent": "half of"}));
        let (_, conclusion) = read(reader(), &[piece, stop, result(0)], Exit::Code(0));
        assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Agent { .. })), "{conclusion:?}");
        assert_eq!(conclusion.answer, Answer::Text("half of".to_owned()));
    }
}

#[test]
fn without_a_result_nothing_succeeded() {
    let ended = |stderr: &str, exit| {
        let mut stream = reader();
        stream.feed(Pipe::Stdout, &lines(&[said("so far")]));
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
fn tools_denials_and_servers_are_told() {
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
    let (reports, _) = read(reader(), &events, Exit::Code(0));
    let warned = |text: &str| Report::Warned(text.to_owned());
    let (id, name) = ("t1".to_owned(), "mcp__own__x".to_owned());
    let expected = [
        warned("the MCP server own is not there: failed gone"),
        warned(
            "the MCP server other of copilot's own settings was started; the agent does not see its tools",
        ),
        Report::ToolCalled { id: id.clone(), name, input: json!({"n": 1}) },
        Report::ToolReturned { id, ok: false, output: "no".to_owned() },
        sample::denied("t1", "mcp__own__x", "no"),
    ];
    assert_eq!(reports[1..], expected);
}

#[test]
fn a_shape_that_was_asked_for_must_come() {
    let structured = || reader_in(Path::new("/nowhere"), None, true);
    let (_, conclusion) = read(structured(), &[said("{\"count\": 3}"), result(0)], Exit::Code(0));
    assert_eq!((conclusion.end, conclusion.structured), (AgentEnd::Done, Some(json!({"count": 3}))));
    let (_, conclusion) = read(structured(), &[said("three"), result(0)], Exit::Code(0));
    assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Schema { .. })), "{conclusion:?}");
}

fn drive(change: impl FnOnce(&mut domain::run::RunSpec)) -> Result<ProcessDrive, PrepareError> {
    sample::drive(
        &Copilot,
        &Found { version: Some("1.0.102".to_owned()), ..sample::found(&["/bin/copilot"]) },
        change,
    )
}

fn permission(text: &str) -> Permission {
    serde_json::from_str(text).unwrap()
}

fn has(argv: &[String], words: &[&str]) {
    for word in words {
        assert!(argv.iter().any(|argument| argument == word), "{word} in {argv:?}");
    }
}

#[test]
fn prompt_and_system_prompt_stay_out_of_the_arguments() {
    let drive = drive(|_| {}).unwrap();
    assert_eq!(drive.feed, Feed::Whole(b"do it".to_vec()));
    let id = sample::spec("copilot").id;
    // A name that no file of the user's or the project's can have.
    let named = format!("--agent=volery-{id}");
    has(&drive.argv, &[&named, "--add-dir=/w/agent", &format!("--session-id={id}")]);
    assert_eq!(drive.files[1].name, format!("agent/.github/agents/volery-{id}.agent.md"));
    let agent = String::from_utf8(drive.files[1].content.clone()).unwrap();
    assert!(agent.ends_with("---\nYou are careful.\n"), "{agent}");
    let groups = r#"tools: ["execute","read","edit","search","agent","web","todo"]"#;
    assert!(agent.contains(groups), "{agent}");
}

#[test]
fn what_the_agent_wants_becomes_options() {
    let drive = drive(|spec| {
        spec.model = Some("gpt".to_owned());
        spec.session = Some("s-9".parse().unwrap());
        spec.setup.context = Context::None;
        spec.setup.effort = Some("high".to_owned());
        spec.setup.tools = Some(vec!["view".to_owned()]);
        spec.delegates = Delegates::Anyone;
    })
    .unwrap();
    let words = ["--model=gpt", "--resume=s-9", "--no-custom-instructions", "--reasoning-effort=high"];
    has(&drive.argv, &words);
    has(&drive.argv, &["--allow-tool=volery"]);
    let agent = String::from_utf8(drive.files[1].content.clone()).unwrap();
    assert!(agent.contains(r#"tools: ["view","volery/*"]"#), "{agent}");
}

#[test]
fn what_is_gits_own_cannot_be_allowed_beside_what_denies_it() {
    let rules = permission(r#"{"level": "safe-edit", "allow": ["Edit(.git/info/**)"]}"#);
    assert_eq!(permission::translate(&rules, "/p").ungranted, ["the rule allow Edit(.git/info/**)"]);
}

#[test]
fn levels_and_rules_are_said_in_its_words() {
    let args = |text: &str| permission::translate(&permission(text), "/p").args;
    let of_git = ["--deny-tool=write(/p/.git/**)", "--deny-tool=write(/p/**/.git/**)"];
    let nothing_beyond =
        ["--allow-tool=write", "--disallow-temp-dir", of_git[0], of_git[1], "--deny-tool=shell"];
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
    let hidden = permission::translate(&permission(r#"{"deny": ["Task", "WebFetch"]}"#), "/p").hidden;
    assert_eq!(hidden, ["agent", "web"]);
}

#[test]
fn what_it_cannot_tell_apart_is_named() {
    let gaps = |text: &str| Copilot.unenforceable(&permission(text), &Value::Null);
    assert_eq!(
        gaps(r#"{"level": "safe-edit", "allow": ["Bash(cargo:*)", "Read"], "deny": ["Bash"]}"#),
        [""; 0]
    );
    let rules =
        r#"{"allow": ["Bash(cargo test:*)", "Bash(ls)"], "deny": ["Read(.env)"], "ask": ["WebFetch(x)"]}"#;
    assert_eq!(gaps(rules), ["the rule ask WebFetch(x)", "the rule deny Read(.env)"]);
    let ungranted = Copilot.ungranted(&permission(rules), &Value::Null);
    assert_eq!(ungranted, ["the rule allow Bash(cargo test:*)", "the rule allow Bash(ls)"]);
    // What could not be said opens nothing: commands that only read would pass unasked.
    let args = |text: &str| permission::translate(&permission(text), "/p").args;
    assert!(args(r#"{"allow": ["Bash(ls)"]}"#).contains(&"--deny-tool=shell".to_owned()));
    assert!(!args(r#"{"allow": ["Bash(ls)", "Bash(ls:*)"]}"#).contains(&"--deny-tool=shell".to_owned()));
}

#[test]
fn arguments_that_would_grant_something_are_refused() {
    assert!(drive(|spec| spec.setup.extra_args = vec!["--max-ai-credits=30".to_owned()]).is_ok());
    for sly in ["--allow-all", "--yolo", "--plugin-dir=/x", "x"] {
        let refused = drive(|spec| spec.setup.extra_args = vec![sly.to_owned()]).err().unwrap();
        assert!(refused.reason.contains("may not be given by an agent"), "{refused}");
    }
}
