//! Streams as the app server of Codex writes them: complete, cut and malformed.

use std::path::Path;

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Transport, VariableText};
use domain::permission::Level;
use domain::permission::Permission;
use domain::run::{AgentEnd, Failure, ModelError, StdStream as Pipe, Usage};
use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::contract::{
    AgentAnswer, AgentReport, Backend, Conclusion, EnvValue, Exit, OutputReader, PermissionDecision,
    PermissionRequest, PrepareError,
};
use crate::program::LocatedProgram;
use crate::test_fixtures::{self, json_lines};
use domain::shell_script::script;

/// The conversation of all these streams.
const THREAD: &str = "t-1";

fn reader(session: Option<&str>, structured: bool) -> CodexStream {
    reader_with("mine", session, structured)
}

/// A run whose agent has one server of this name.
fn reader_with(server: &str, session: Option<&str>, structured: bool) -> CodexStream {
    let mut servers = Map::new();
    servers.insert(server.to_owned(), json!({"command": "m"}));
    CodexStream::new(CodexStreamOptions {
        thread: json!({"cwd": "/p", "config": {}}),
        turn: json!({"input": []}),
        session: session.map(ToOwned::to_owned),
        fork: false,
        servers,
        user_servers: vec!["users".to_owned()],
        structured,
    })
}

/// The messages before the turn.
fn beginning() -> Vec<Value> {
    let config = json!({"mcp_servers": {"theirs": {"command": "x", "env": {"KEY": "hush"}}}});
    vec![
        json!({"id": 1, "result": {"userAgent": "volery/0.166.0"}}),
        json!({"id": 6, "result": {"account": {"type": "chatgpt", "email": "hush"}, "requiresOpenaiAuth": true}}),
        json!({"id": 2, "result": {"config": config}}),
        json!({"id": 3, "result": {"thread": {"id": THREAD}, "model": "gpt-5.5"}}),
        json!({"id": 4, "result": {"turn": {"id": "u-1"}}}),
    ]
}

fn note(method: &str, mut params: Value) -> Value {
    params["threadId"] = json!(THREAD);
    json!({"method": method, "params": params})
}

fn message_events(text: &str) -> Vec<Value> {
    let halves = text.split_at(text.len() / 2);
    vec![
        note("item/agentMessage/delta", json!({"delta": halves.0})),
        note("item/agentMessage/delta", json!({"delta": halves.1})),
        note("item/completed", json!({"item": {"type": "agentMessage", "id": "m", "text": text}})),
    ]
}

fn ended(status: &str, error: &Value) -> Value {
    note("turn/completed", json!({"turn": {"id": "u-1", "status": status, "error": error}}))
}

fn used(turn: &str, total: (u64, u64), last: (u64, u64)) -> Value {
    let count = |(input, output)| json!({"inputTokens": input, "cachedInputTokens": input / 2, "outputTokens": output});
    let usage = json!({"total": count(total), "last": count(last)});
    note("thread/tokenUsage/updated", json!({"turnId": turn, "tokenUsage": usage}))
}

fn read(mut reader: CodexStream, messages: &[Value], exit: Exit) -> (Vec<AgentReport>, Conclusion) {
    let mut whole = beginning();
    whole.extend_from_slice(messages);
    let reports = reader.feed(Pipe::Stdout, &json_lines(&whole));
    (reports, reader.conclude(exit))
}

fn written(reports: &[AgentReport]) -> Vec<Value> {
    let bytes = reports.iter().filter_map(|report| match report {
        AgentReport::Write(bytes) => Some(serde_json::from_slice(bytes).unwrap()),
        _ => None,
    });
    bytes.collect()
}

#[test]
fn the_conversation_begins_with_the_agents_servers_alone_and_the_last_message_is_the_answer() {
    let mut messages = message_events("Let me see.");
    messages.extend(message_events("All done."));
    messages.push(used("u-1", (100, 10), (100, 10)));
    messages.push(ended("completed", &Value::Null));
    let (reports, conclusion) = read(reader(None, false), &messages, Exit::Code(0));
    let sent = written(&reports);
    assert_eq!((&sent[0]["method"], &sent[1]["method"]), (&json!("thread/start"), &json!("turn/start")));
    let servers = json!({"mine": {"command": "m"}, "theirs": {"enabled": false}});
    assert_eq!(sent[0]["params"]["config"]["mcp_servers"], servers);
    assert_eq!(sent[1]["params"]["threadId"], THREAD);
    let rest: Vec<AgentReport> =
        reports.into_iter().filter(|report| !matches!(report, AgentReport::Write(_))).collect();
    let usage = Usage { input_tokens: 100, output_tokens: 10, cache_read_tokens: 50, ..Usage::default() };
    let expected = [
        AgentReport::Session(THREAD.to_owned()),
        AgentReport::Model("gpt-5.5".to_owned()),
        AgentReport::Text("Let me see.\n".to_owned()),
        AgentReport::Text("All done.\n".to_owned()),
        AgentReport::Used(usage),
        AgentReport::CloseInput,
    ];
    assert_eq!(rest, expected);
    assert_eq!(
        (conclusion.end, conclusion.answer),
        (AgentEnd::Done, AgentAnswer::Text("All done.".to_owned()))
    );
    assert_eq!(conclusion.session.as_deref(), Some(THREAD));
}

#[test]
fn an_agents_server_is_never_merged_with_one_of_the_same_name() {
    let begin = |name: &str| {
        let mut reader = reader_with(name, None, false);
        let config = json!({"mcp_servers": {name: {"command": "x", "env": {"KEY": "hush"}}}});
        let reports =
            reader.feed(Pipe::Stdout, &json_lines(&[json!({"id": 2, "result": {"config": config}})]));
        (reports, reader.conclude(Exit::Code(0)).end)
    };
    let (reports, end) = begin("mine");
    assert_eq!(reports, [AgentReport::CloseInput]);
    assert!(
        matches!(&end, AgentEnd::Failed(Failure::Agent { message }) if message.contains("mine")),
        "{end:?}"
    );
    let (reports, _) = begin("volery");
    assert_eq!(written(&reports)[0]["params"]["config"]["mcp_servers"]["volery"], json!({"command": "m"}));
}

#[test]
fn the_users_settings_are_read_and_not_recorded() {
    let whole = json_lines(&beginning());
    for size in [1, 7, 64, whole.len()] {
        let mut reader = reader(None, false);
        let recorded: Vec<u8> =
            whole.chunks(size).flat_map(|piece| reader.redact(Pipe::Stdout, piece).into_owned()).collect();
        let recorded = String::from_utf8(recorded).unwrap();
        assert!(!recorded.contains("hush"), "{recorded}");
        assert_eq!(recorded.lines().count(), beginning().len() - 2, "{recorded}");
        assert_eq!(&*reader.redact(Pipe::Stdout, b"half a li"), b"half a li");
    }
}

#[test]
fn a_codex_without_a_login_ends_before_its_turn() {
    let account = |account: Value, required: bool| json!({"id": 6, "result": {"account": account, "requiresOpenaiAuth": required}});
    let config = |config: Value| json!({"id": 2, "result": {"config": config}});
    let read = |messages: &[Value]| {
        let mut reader = reader(None, false);
        let reports = reader.feed(Pipe::Stdout, &json_lines(messages));
        (reports, reader.conclude(Exit::Code(0)).end)
    };
    let logged_out = |end: &AgentEnd| matches!(end, AgentEnd::Failed(Failure::Model { error: ModelError::Denied, message }) if message.contains("not logged in"));
    let (reports, end) = read(&[account(Value::Null, true), config(json!({}))]);
    assert!(reports == [AgentReport::CloseInput] && logged_out(&end), "{reports:?} {end:?}");
    // The responses in the other order: the conversation has already started, and gets no turn.
    let thread = json!({"id": 3, "result": {"thread": {"id": THREAD}, "model": "gpt-5.5"}});
    let (reports, end) = read(&[config(json!({})), account(Value::Null, true), thread]);
    assert!(matches!(reports[..], [AgentReport::Write(_), AgentReport::CloseInput]), "{reports:?}");
    assert!(logged_out(&end), "{end:?}");
    // It is unknown whether the user's own service needs a login.
    let proxy = config(json!({"openai_base_url": "http://127.0.0.1:9"}));
    let (reports, end) = read(&[account(Value::Null, true), proxy]);
    assert!(
        matches!(reports[..], [AgentReport::Warned(_), AgentReport::Write(_)]) && !logged_out(&end),
        "{reports:?}"
    );
    for known in [account(Value::Null, false), account(json!({"type": "apiKey"}), true)] {
        let (reports, end) = read(&[known, config(json!({}))]);
        assert!(matches!(reports[..], [AgentReport::Write(_)]) && !logged_out(&end), "{reports:?}");
    }
}

#[test]
fn a_continued_conversation_is_the_right_one_and_its_old_tokens_do_not_count() {
    let messages = [
        used("u-0", (500, 50), (100, 10)),
        used("u-1", (600, 60), (100, 10)),
        used("u-1", (750, 75), (150, 15)),
        ended("completed", &Value::Null),
    ];
    let (reports, _) = read(reader(Some(THREAD), false), &messages, Exit::Code(0));
    let sent = written(&reports);
    assert_eq!(
        (&sent[0]["method"], &sent[0]["params"]["threadId"]),
        (&json!("thread/resume"), &json!(THREAD))
    );
    let sum = |reports: &[AgentReport]| {
        reports.iter().fold((0, 0), |sum, report| match report {
            AgentReport::Used(usage) => (sum.0 + usage.input_tokens, sum.1 + usage.output_tokens),
            _ => sum,
        })
    };
    assert_eq!(sum(&reports), (250, 25));
    // Without the total so far, it follows from the first request.
    let (reports, _) = read(reader(Some(THREAD), false), &messages[1..], Exit::Code(0));
    assert_eq!(sum(&reports), (250, 25));

    let (reports, conclusion) = read(reader(Some("t-0"), false), &messages, Exit::Code(0));
    assert_eq!(written(&reports).len(), 1, "no turn is begun in another conversation");
    let reason = "codex continued t-1 instead".to_owned();
    assert_eq!(conclusion.end, AgentEnd::Failed(Failure::Session { reason }));
}

#[test]
fn a_conversation_that_cannot_begin_says_why() {
    let end = |session: Option<&str>, message: &str| {
        let mut reader = reader(session, false);
        let error = json!({"error": {"code": -32600, "message": message}, "id": 3});
        let reports = reader.feed(Pipe::Stdout, &json_lines(&[beginning()[2].clone(), error]));
        assert_eq!(reports.last(), Some(&AgentReport::CloseInput));
        reader.conclude(Exit::Code(0)).end
    };
    let reason = "no rollout found for thread id x".to_owned();
    assert_eq!(end(Some("x"), &reason), AgentEnd::Failed(Failure::Session { reason }));
    let message = "failed to load configuration: no".to_owned();
    assert_eq!(end(Some("x"), &message), AgentEnd::Failed(Failure::Agent { message: message.clone() }));
    assert_eq!(end(None, &message), AgentEnd::Failed(Failure::Agent { message }));
}

#[test]
fn each_way_to_fail_has_its_name() {
    let check = |info: Value, text: &str, expected: Option<ModelError>| {
        let error = json!({"message": text, "codexErrorInfo": info});
        let messages = [message_events("so far"), vec![ended("failed", &error)]].concat();
        let (_, conclusion) = read(reader(None, false), &messages, Exit::Code(0));
        let message = text.to_owned();
        let failure = match expected {
            Some(error) => Failure::Model { error, message },
            None => Failure::Agent { message },
        };
        assert_eq!(conclusion.end, AgentEnd::Failed(failure));
        assert_eq!(conclusion.answer, AgentAnswer::Text("so far\n".to_owned()));
    };
    let status = |kind: &str, status: Value| json!({ kind: {"httpStatusCode": status} });
    check(status("httpConnectionFailed", json!(401)), "x", Some(ModelError::Denied));
    check(status("httpConnectionFailed", json!(404)), "x", Some(ModelError::Unknown));
    check(status("httpConnectionFailed", Value::Null), "x", Some(ModelError::Unreachable));
    check(status("responseTooManyFailedAttempts", json!(429)), "x", Some(ModelError::RateLimit));
    check(json!("usageLimitExceeded"), "x", Some(ModelError::RateLimit));
    check(json!("contextWindowExceeded"), "x", Some(ModelError::TooLong));
    check(json!("internalServerError"), "x", Some(ModelError::Overloaded));
    check(json!("modelNotFound"), "x", Some(ModelError::Unknown));
    check(json!("cyberPolicy"), "x", Some(ModelError::Refusal));
    let answer = r#"{"error":{"message":"no","type":"invalid_request_error"}}"#;
    check(json!("other"), answer, Some(ModelError::BadRequest));
    check(json!("other"), "stream disconnected before completion", Some(ModelError::Unreachable));
    check(json!("other"), "Missing environment variable: `X`", Some(ModelError::Denied));
    check(json!("sandboxError"), "no sandbox", None);
}

#[test]
fn a_turn_without_end_fails_and_keeps_the_partial_answer() {
    for (exit, failure) in [
        (Exit::Code(0), Failure::Output { reason: "the stream ended without its terminal event".to_owned() }),
        (Exit::Code(101), Failure::Exit { code: 101 }),
        (Exit::Signal(9), Failure::Signal { signal: 9 }),
    ] {
        let (_, conclusion) = read(reader(None, false), &message_events("so far")[..1], exit);
        assert_eq!(conclusion.end, AgentEnd::Failed(failure));
        assert_eq!(conclusion.answer, AgentAnswer::Text("so ".to_owned()));
    }
    let mut silent = reader(None, false);
    silent.feed(Pipe::Stderr, b"Error: invalid type: string\n");
    let message = "invalid type: string".to_owned();
    assert_eq!(silent.conclude(Exit::Code(1)).end, AgentEnd::Failed(Failure::Agent { message }));
    let other = json!({"method": "turn/completed", "params":
        {"threadId": "of-a-sub-agent", "turn": {"status": "completed"}}});
    let (_, conclusion) = read(reader(None, false), &[other], Exit::Code(0));
    assert!(matches!(conclusion.end, AgentEnd::Failed(_)), "{conclusion:?}");
}

#[test]
fn an_interrupt_ends_the_turn_and_not_as_a_success() {
    let mut early = reader(None, false);
    assert_eq!(early.ask_to_stop(), [AgentReport::CloseInput]);
    let mut running = reader(None, false);
    running.feed(Pipe::Stdout, &json_lines(&beginning()));
    let sent = written(&running.ask_to_stop());
    assert_eq!(sent[0]["method"], "turn/interrupt");
    assert_eq!(sent[0]["params"], json!({"threadId": THREAD, "turnId": "u-1"}));
    running.feed(Pipe::Stdout, &json_lines(&[ended("interrupted", &Value::Null)]));
    let message = "the turn was interrupted".to_owned();
    assert_eq!(running.conclude(Exit::Code(0)).end, AgentEnd::Failed(Failure::Agent { message }));
}

#[test]
fn a_requested_schema_requires_a_value() {
    let end = |text: &str| {
        let messages = [message_events(text), vec![ended("completed", &Value::Null)]].concat();
        let (_, conclusion) = read(reader(None, true), &messages, Exit::Code(0));
        (conclusion.end, conclusion.structured)
    };
    assert_eq!(end("{\"count\":3}"), (AgentEnd::Done, Some(json!({"count": 3}))));
    assert!(matches!(end("three"), (AgentEnd::Failed(Failure::Schema { .. }), None)));
}

#[test]
fn a_command_approval_shows_its_script_and_is_answered_by_id() {
    let mut reader = reader(None, false);
    // One of Volery's requests has the same id: a message with a method is not a response.
    let request = json!({"id": 3, "method": "item/commandExecution/requestApproval", "params":
        {"itemId": "c", "command": "/bin/bash -lc 'curl x'", "cwd": "/p", "reason": "please"}});
    let reports = reader.feed(Pipe::Stdout, &json_lines(&[request]));
    let input = json!({"command": "curl x", "directory": "/p", "reason": "please"});
    let ask = PermissionRequest { id: "3#0".to_owned(), tool: "shell".to_owned(), input: input.clone() };
    assert_eq!(reports, [AgentReport::PermissionRequested(ask)]);
    let sent = written(&reader.decide("3#0", &PermissionDecision::Allow(input)));
    assert_eq!(sent, [json!({"id": 3, "result": {"decision": "accept"}})]);
    assert_eq!(reader.decide("3#0", &PermissionDecision::Deny(String::new())), []);
}

#[test]
fn a_patch_is_accepted_when_every_file_is_allowed() {
    let changes = json!([
        {"path": "/p/a", "kind": {"type": "add"}, "diff": "x"},
        {"path": "/p/b", "kind": {"type": "update", "move_path": "/q/c"}, "diff": "y"},
    ]);
    let item = json!({"type": "fileChange", "id": "f", "changes": changes, "status": "inProgress"});
    let begun = note("item/started", json!({"item": item}));
    let request = json!({"id": 0, "method": "item/fileChange/requestApproval", "params": {"itemId": "f"}});
    let reader_with_request = || {
        let mut reader = reader(None, false);
        let reports = reader.feed(Pipe::Stdout, &json_lines(&[begun.clone(), request.clone()]));
        let paths: Vec<String> = reports
            .iter()
            .filter_map(|report| match report {
                AgentReport::PermissionRequested(ask) => {
                    ask.input["file_path"].as_str().map(ToOwned::to_owned)
                }
                _ => None,
            })
            .collect();
        assert_eq!(paths, ["/p/a", "/p/b", "/q/c"]);
        reader
    };
    let allow = PermissionDecision::Allow(Value::Null);
    let mut reader = reader_with_request();
    assert_eq!(reader.decide("0#0", &allow), []);
    assert_eq!(reader.decide("0#1", &allow), []);
    assert_eq!(written(&reader.decide("0#2", &allow))[0]["result"], json!({"decision": "accept"}));
    let mut reader = reader_with_request();
    assert_eq!(reader.decide("0#0", &allow), []);
    let denied = reader.decide("0#1", &PermissionDecision::Deny("no".to_owned()));
    assert_eq!(written(&denied)[0]["result"], json!({"decision": "decline"}));
    assert_eq!(reader.decide("0#2", &allow), []);
    // A patch without an item is not accepted.
    let mut unseen = super::tests::reader(None, false);
    let reports = unseen.feed(Pipe::Stdout, &json_lines(std::slice::from_ref(&request)));
    assert_eq!(written(&reports)[0]["result"], json!({"decision": "decline"}));
}

#[test]
fn an_mcp_tool_needs_approval_and_a_servers_elicitation_is_declined() {
    let call = json!({"type": "mcpToolCall", "id": "c", "server": "mine", "tool": "echo.it",
        "arguments": {"text": "x"}, "status": "inProgress"});
    let question = |meta: Value| {
        json!({"id": 7, "method": "mcpServer/elicitation/request", "params": {"serverName": "mine",
            "message": "Allow the mine MCP server to run tool \"echo.it\"?", "_meta": meta}})
    };
    let approval = question(json!({"codex_approval_kind": "mcp_tool_call", "tool_params": {"text": "x"}}));
    let mut reader = reader(None, false);
    let reports =
        reader.feed(Pipe::Stdout, &json_lines(&[note("item/started", json!({"item": call})), approval]));
    let ask = PermissionRequest {
        id: "7#0".to_owned(),
        tool: "mcp__mine__echo.it".to_owned(),
        input: json!({"text": "x"}),
    };
    assert_eq!(reports[1], AgentReport::PermissionRequested(ask));
    let denied = reader.decide("7#0", &PermissionDecision::Deny("no".to_owned()));
    assert_eq!(written(&denied)[0]["result"], json!({"action": "decline"}));
    let reports = reader.feed(Pipe::Stdout, &json_lines(&[question(Value::Null)]));
    assert_eq!(written(&reports)[0]["result"], json!({"action": "decline"}));
}

#[test]
fn unknown_requests_are_answered_and_block_nothing() {
    for (method, key) in
        [("item/tool/requestUserInput", "answers"), ("item/permissions/requestApproval", "permissions")]
    {
        let request = json!({"id": 9, "method": method, "params": {}});
        let reports = reader(None, false).feed(Pipe::Stdout, &json_lines(&[request]));
        assert_eq!(written(&reports)[0]["result"][key], json!({}), "{method}");
        assert!(matches!(reports[0], AgentReport::Denied { .. }), "{reports:?}");
    }
    let other = json!({"id": 9, "method": "item/tool/call", "params": {}});
    let reports = reader(None, false).feed(Pipe::Stdout, &json_lines(&[other]));
    assert_eq!(written(&reports)[0]["error"]["code"], -32601);
}

#[test]
fn foreign_servers_and_failed_servers_are_reported_once() {
    let status = |name: &str, status: &str| {
        note("mcpServer/startupStatus/updated", json!({"name": name, "status": status, "error": "gone"}))
    };
    let messages = [
        status("mine", "starting"),
        status("theirs", "starting"),
        status("mine", "failed"),
        status("mine", "failed"),
    ];
    let (reports, _) = read(reader(None, false), &messages, Exit::Code(0));
    let warned: Vec<&AgentReport> =
        reports.iter().filter(|report| matches!(report, AgentReport::Warned(_))).collect();
    let stranger = "the MCP server theirs is not the agent's own, and codex started it".to_owned();
    let gone = "the MCP server mine is not there: gone".to_owned();
    assert_eq!(warned, [&AgentReport::Warned(stranger), &AgentReport::Warned(gone)]);
}

fn prepare(change: impl FnOnce(&mut domain::run::RunSpec)) -> Result<ProcessLaunch, PrepareError> {
    test_fixtures::process_launch(
        &VENDOR,
        &LocatedProgram {
            version: Some("0.166.0".to_owned()),
            ..test_fixtures::located_program(&["/bin/codex"])
        },
        change,
    )
}

/// Returns the parameters that a run sends to start its conversation and its turn.
fn sent(change: impl FnOnce(&mut domain::run::RunSpec)) -> (Value, Value) {
    let mut launch = prepare(change).unwrap();
    let config = json!({"id": 2, "result": {"config": {}}});
    let thread = written(&launch.reader.feed(Pipe::Stdout, &json_lines(&[config])));
    let turn = written(&launch.reader.feed(Pipe::Stdout, &json_lines(&[beginning()[3].clone()])));
    (thread[0]["params"].clone(), turn[0]["params"].clone())
}

#[test]
fn the_setup_becomes_request_parameters() {
    let (thread, turn) = sent(|spec| {
        spec.model = Some("gpt-5.5".to_owned());
        spec.setup.effort = Some("high".to_owned());
        spec.setup.context = Context::None;
        spec.setup.extra_directories = vec!["/q".to_owned()];
        spec.setup.output_schema = Some(json!({"type": "object"}));
    });
    assert_eq!((&thread["cwd"], &thread["model"]), (&json!("/p"), &json!("gpt-5.5")));
    assert_eq!(thread["developerInstructions"], "You are careful.");
    assert_eq!(thread["config"]["project_doc_max_bytes"], 0);
    assert_eq!(turn["input"], json!([{"type": "text", "text": "do it"}]));
    assert_eq!((&turn["effort"], &turn["outputSchema"]), (&json!("high"), &json!({"type": "object"})));
    assert_eq!(turn["sandboxPolicy"]["writableRoots"], json!(["/q"]));
    let (thread, _) = sent(|spec| spec.setup.prompt_mode = PromptMode::Replace);
    assert_eq!(thread["baseInstructions"], "You are careful.");
    assert_eq!(thread["config"].get("project_doc_max_bytes"), None);
    let argv = prepare(|spec| spec.prompt = "secret prompt".to_owned()).unwrap().argv;
    assert!(!argv.iter().any(|argument| argument.contains("prompt")), "{argv:?}");
    for argument in
        ["-c", "--config=notify=[\"x\"]", "--config=model_verbosity.x=1", "--config=features.x=true"]
    {
        let refused = prepare(|spec| spec.setup.extra_args = vec![argument.to_owned()]);
        assert!(
            refused.is_err_and(|error| error.reason.contains("may not be given by an agent")),
            "{argument} was taken"
        );
    }
    let quiet = "--config=model_verbosity=\"low\"";
    let argv = prepare(|spec| spec.setup.extra_args = vec![quiet.to_owned()]).unwrap().argv;
    assert!(argv.iter().any(|argument| argument == quiet), "{argv:?}");
}

#[test]
fn a_level_is_a_sandbox_and_rules_that_restrict_see_every_command() {
    let check = |level: Option<Level>, deny: &[&str], sandbox: &str, asking: &str| {
        let (thread, turn) = sent(|spec| {
            spec.setup.permission.level = level;
            spec.setup.permission.deny = deny.iter().map(|rule| rule.parse().unwrap()).collect();
        });
        assert_eq!(turn["sandboxPolicy"]["type"], sandbox);
        assert_eq!(thread["approvalPolicy"], asking);
        // Any other sandbox would mark the directory as trusted in the user's configuration.
        assert_eq!(thread["sandbox"], "read-only");
        thread
    };
    check(None, &[], "workspaceWrite", "on-request");
    let (_, turn) = sent(|_| {});
    assert_eq!(turn["sandboxPolicy"]["excludeSlashTmp"], true);
    let narrow = check(Some(Level::ReadOnly), &[], "readOnly", "on-request");
    assert_eq!(narrow["config"]["web_search"], "disabled");
    assert_eq!(narrow["config"]["features.multi_agent"], false);
    check(Some(Level::SafeEdit), &["mcp__x"], "workspaceWrite", "on-request");
    check(Some(Level::SafeEdit), &["Bash(rm:*)"], "workspaceWrite", "untrusted");
    let free = check(Some(Level::Yolo), &[], "dangerFullAccess", "never");
    assert_eq!(free["config"].get("web_search"), None);
    check(Some(Level::Yolo), &["Edit(x/**)"], "dangerFullAccess", "untrusted");
    let closed = check(Some(Level::Yolo), &["WebSearch"], "dangerFullAccess", "on-request");
    assert_eq!(closed["config"]["web_search"], "disabled");
}

#[test]
fn rules_that_codex_cannot_enforce_are_reported() {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let permission = Permission {
        level: Some(Level::ReadOnly),
        allow: rules(&["Read(src/**)", "Bash(ls:*)"]),
        ask: rules(&["Bash(git push:*)", "WebSearch"]),
        deny: rules(&["Read(.env)", "Bash(rm:*)", "mcp__x__y", "WebSearch", "Sing"]),
    };
    let expected = [
        "the rule ask WebSearch: codex cannot ask before it does that",
        "the rule deny Read(.env): codex reads with commands and does not ask",
        "the rule deny Sing: codex has no such tool",
    ];
    assert_eq!(VENDOR.unenforceable(&permission, &Value::Null), expected);
}

fn server(name: &str, env: &[(&str, &str)]) -> McpServer {
    let text = |text: &str| VariableText::from(text.to_owned());
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), text(value))).collect();
    let transport = Transport::Stdio { command: "/bin/s".to_owned(), args: vec![text("-v")], env };
    McpServer { name: name.to_owned(), transport, tools: None, timeout_ms: Some(1_500) }
}

#[test]
fn servers_get_their_secrets_by_name_and_commands_do_not_see_them() {
    let change = |spec: &mut domain::run::RunSpec| {
        spec.setup.mcp_servers = vec![server("s", &[("TOKEN", "${MY_SECRET}"), ("MODE", "fast")])];
        spec.delegates = Delegates::Anyone;
    };
    let (thread, _) = sent(change);
    let servers = &thread["config"]["mcp_servers"];
    let expected = json!({"command": "/bin/s", "args": ["-v"], "env": {"MODE": "fast"}, "env_vars": ["TOKEN"],
        "required": true, "startup_timeout_sec": 60, "tool_timeout_sec": 2,
        "default_tools_approval_mode": "prompt"});
    assert_eq!(servers["s"], expected);
    assert_eq!(servers["volery"]["default_tools_approval_mode"], "approve");
    let hidden = |thread: &Value, name: &str| {
        let names = thread["config"]["shell_environment_policy"]["exclude"].as_array().unwrap();
        names.iter().any(|hidden| hidden == name)
    };
    assert!(hidden(&thread, "TOKEN") && hidden(&thread, "OPENAI_API_KEY"), "{thread}");
    let (with_env, _) = sent(|spec| spec.env = vec!["OPENAI_API_KEY".to_owned()]);
    assert!(!hidden(&with_env, "OPENAI_API_KEY"), "{with_env}");
    let set = prepare(change).unwrap().env_overrides;
    assert_eq!(set, [("TOKEN".to_owned(), EnvValue::FromVariable("MY_SECRET".to_owned()))]);
}

#[test]
fn keys_that_its_users_settings_name_are_handed_to_codex_and_not_to_commands() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("project");
    let write = |folder: &Path, text: &str| {
        std::fs::create_dir_all(folder.join(".codex")).unwrap();
        std::fs::write(folder.join(".codex/config.toml"), text).unwrap();
    };
    let adapted = |env: &[&str]| {
        let mut spec = test_fixtures::spec("codex");
        spec.directory = project.display().to_string();
        spec.project = spec.directory.clone();
        spec.env = env.iter().map(|name| (*name).to_owned()).collect();
        let found = LocatedProgram {
            version: Some("0.166.0".to_owned()),
            ..test_fixtures::located_program(&["/bin/codex"])
        };
        let context = test_fixtures::launch_context(Some(&found));
        let mut launch = test_fixtures::process_launch_in(&VENDOR, &context, &spec).unwrap();
        let user = UserEnvironment { home: Some(home.path()), variable: &|_| None };
        VENDOR.apply_user_environment(&spec, &mut launch, &context, &user).unwrap();
        let config = json!({"id": 2, "result": {"config": {}}});
        let thread = written(&launch.reader.feed(Pipe::Stdout, &json_lines(&[config])));
        let hidden = thread[0]["params"]["config"]["shell_environment_policy"]["exclude"].clone();
        (launch.optional_env.split_off(VARIABLES.len()), hidden)
    };
    write(&project, "[model_providers.x]\nenv_key = 'THEIRS'\n");
    assert_eq!(adapted(&[]), (Vec::new(), json!(KEY_VARIABLES)));
    write(
        home.path(),
        "[model_providers.a]\nenv_key = 'MY_KEY'\n[model_providers.b]\nenv_key = 'OPENAI_API_KEY'\n\
         env_http_headers = { X-Tenant = 'TENANT', X-Odd = 'A=B' }\n[model_providers.c]\nenv_key = 7\n",
    );
    let both = || vec!["MY_KEY".to_owned(), "TENANT".to_owned()];
    assert_eq!(adapted(&[]), (both(), json!([KEY_VARIABLES, &["MY_KEY", "TENANT"]].concat())));
    assert_eq!(adapted(&["TENANT"]), (both(), json!([KEY_VARIABLES, &["MY_KEY"]].concat())), "it was named");
}

#[test]
fn a_server_of_which_nothing_may_be_used_cannot_fail_a_run() {
    let required = |allow: &[&str]| {
        let (thread, _) = sent(|spec| {
            spec.setup.mcp_servers = vec![server("s", &[])];
            spec.setup.permission.level = Some(Level::ReadOnly);
            spec.setup.permission.allow = allow.iter().map(|rule| rule.parse().unwrap()).collect();
        });
        thread["config"]["mcp_servers"]["s"]["required"].clone()
    };
    assert_eq!((required(&[]), required(&["mcp__t"])), (json!(false), json!(false)));
    assert_eq!((required(&["mcp__s"]), required(&["mcp__s__look"])), (json!(true), json!(true)));
}

#[test]
fn settings_of_servers_that_codex_cannot_take_are_refused_with_the_reason() {
    let reason = |servers: Vec<McpServer>| {
        prepare(|spec| spec.setup.mcp_servers = servers).err().expect("a refusal").reason
    };
    assert!(reason(vec![server("s", &[("A", "x${B}")])]).contains("only a part"));
    assert!(reason(vec![server("s", &[("PATH", "${B}")])]).contains("codex's own"));
    let twice = vec![server("s", &[("A", "${B}")]), server("t", &[("A", "${C}")])];
    assert!(reason(twice).contains("another value"));
}

#[test]
fn headers_of_a_server_are_taken_from_the_environment() {
    let text = |text: &str| VariableText::from(text.to_owned());
    let headers = [("Authorization", "Bearer ${T}"), ("X-Key", "${K}"), ("X-Plain", "p")];
    let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), text(value))).collect();
    let transport = Transport::Http { url: text("http://h"), headers };
    let server = McpServer { name: "w".to_owned(), transport, tools: None, timeout_ms: None };
    let (thread, _) = sent(|spec| spec.setup.mcp_servers = vec![server.clone()]);
    let entry = &thread["config"]["mcp_servers"]["w"];
    assert_eq!((&entry["url"], &entry["bearer_token_env_var"]), (&json!("http://h"), &json!("T")));
    assert_eq!(entry["env_http_headers"], json!({"X-Key": "K"}));
    assert_eq!(entry["http_headers"], json!({"X-Plain": "p"}));
    assert_eq!(prepare(|spec| spec.setup.mcp_servers = vec![server]).unwrap().env, ["T", "K"]);
}

#[test]
fn the_script_is_found_within_the_quotes_of_its_shell() {
    assert_eq!(script("/bin/bash -lc 'touch a.txt'").as_deref(), Some("touch a.txt"));
    assert_eq!(script("/bin/bash -lc ls").as_deref(), Some("ls"));
    assert_eq!(script(r#"bash -c "echo 'a' \"b\" \\ \$x""#).as_deref(), Some(r#"echo 'a' "b" \ $x"#));
    assert_eq!(script(r"/bin/sh -c 'it'\''s'").as_deref(), Some("it's"));
    assert_eq!(script("python3 -c 'x y'").as_deref(), Some("python3 -c 'x y'"));
    assert_eq!(script("/bin/bash -lc 'rm x"), None);
}

/// Recorded output of the real program, by the name of the case.
const RECORDED: [(&str, &[u8]); 13] = [
    ("say", include_bytes!("../../tests/streams/codex-app-server/say.jsonl")),
    ("resume", include_bytes!("../../tests/streams/codex-app-server/resume.jsonl")),
    ("tool", include_bytes!("../../tests/streams/codex-app-server/tool.jsonl")),
    ("patch", include_bytes!("../../tests/streams/codex-app-server/patch.jsonl")),
    ("denied", include_bytes!("../../tests/streams/codex-app-server/denied.jsonl")),
    ("mcp", include_bytes!("../../tests/streams/codex-app-server/mcp.jsonl")),
    ("error-400", include_bytes!("../../tests/streams/codex-app-server/error-400.jsonl")),
    ("error-401", include_bytes!("../../tests/streams/codex-app-server/error-401.jsonl")),
    ("error-429", include_bytes!("../../tests/streams/codex-app-server/error-429.jsonl")),
    ("error-500", include_bytes!("../../tests/streams/codex-app-server/error-500.jsonl")),
    ("cut", include_bytes!("../../tests/streams/codex-app-server/cut.jsonl")),
    ("interrupted", include_bytes!("../../tests/streams/codex-app-server/interrupted.jsonl")),
    ("unknown-session", include_bytes!("../../tests/streams/codex-app-server/unknown-session.jsonl")),
];

/// The conversation of a recorded stream.
const RECORDED_THREAD: &str = "00000000-0000-4000-8000-000000000001";

/// Reads a recorded stream, and decides about every approval request.
fn replay(name: &str, bytes: &[u8]) -> (Vec<AgentReport>, Conclusion) {
    let resumed = matches!(name, "resume" | "unknown-session").then_some(RECORDED_THREAD);
    let mut reader = reader(resumed, false);
    let mut reports = reader.feed(Pipe::Stdout, bytes);
    for report in reports.clone() {
        if let AgentReport::PermissionRequested(ask) = report {
            reports.extend(reader.decide(&ask.id, &PermissionDecision::Deny("no".to_owned())));
        }
    }
    (reports, reader.conclude(Exit::Code(0)))
}

#[test]
fn recorded_streams_are_parsed() {
    let answer = |text: &str| AgentAnswer::Text(text.to_owned());
    for (name, bytes) in RECORDED {
        let (reports, conclusion) = replay(name, bytes);
        let is_model_error = |expected: ModelError| matches!(&conclusion.end, AgentEnd::Failed(Failure::Model { error, .. }) if *error == expected);
        let tools: Vec<&str> = reports
            .iter()
            .filter_map(|report| match report {
                AgentReport::PermissionRequested(ask) => Some(ask.tool.as_str()),
                _ => None,
            })
            .collect();
        let as_expected = match name {
            "say" => {
                conclusion.end == AgentEnd::Done && conclusion.answer == answer("Hello from the script.")
            }
            "resume" => conclusion.end == AgentEnd::Done && conclusion.answer == answer("Hello again."),
            "denied" => conclusion.end == AgentEnd::Done && tools == ["shell", "apply_patch"],
            "mcp" => conclusion.end == AgentEnd::Done && tools == ["mcp__mine__echo.it"],
            "tool" | "patch" => {
                let returned =
                    |report: &AgentReport| matches!(report, AgentReport::ToolReturned { ok: true, .. });
                conclusion.end == AgentEnd::Done && reports.iter().any(returned)
            }
            "error-400" => is_model_error(ModelError::BadRequest),
            "error-401" => is_model_error(ModelError::Denied),
            "error-429" => is_model_error(ModelError::RateLimit),
            "error-500" => is_model_error(ModelError::Overloaded),
            "cut" => is_model_error(ModelError::Unreachable) && conclusion.answer == answer("Hello from "),
            "interrupted" => {
                matches!(conclusion.end, AgentEnd::Failed(Failure::Agent { .. }))
                    && conclusion.answer == answer("Hello from ")
            }
            "unknown-session" => matches!(conclusion.end, AgentEnd::Failed(Failure::Session { .. })),
            other => panic!("what does {other} mean?"),
        };
        assert!(as_expected, "{name}: {conclusion:?} {reports:?}");
    }
}

proptest! {
    #[test]
    fn no_prefix_of_a_stream_succeeds(cut in 0_usize..2000) {
        let whole = json_lines(&[beginning(), message_events("hello"), vec![ended("completed", &Value::Null)]].concat());
        let terminal = whole.len() - 1;
        let mut stream = reader(None, false);
        stream.feed(Pipe::Stdout, &whole[..cut.min(terminal - 1)]);
        prop_assert!(matches!(stream.conclude(Exit::Code(0)).end, AgentEnd::Failed(_)));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), key in "[a-zA-Z/]{0,20}") {
        let mut stream = reader(None, true);
        stream.redact(Pipe::Stdout, &bytes);
        stream.feed(Pipe::Stdout, &bytes);
        let odd = format!("\n{{\"method\":\"{key}\",\"params\":7}}\n{{\"id\":3,\"result\":[]}}\n7\n[]\n");
        stream.feed(Pipe::Stdout, odd.as_bytes());
        stream.decide(&key, &PermissionDecision::Deny(key.clone()));
        stream.conclude(Exit::Code(0));
    }

    #[test]
    fn a_command_line_is_read_as_it_was_quoted(text in "[ -~]{1,40}") {
        let quoted = format!("/bin/bash -lc '{}'", text.replace('\'', r"'\''"));
        prop_assert_eq!(script(&quoted), Some(text));
    }
}
