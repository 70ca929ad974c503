//! Streams as Qwen Code writes them: complete, cut and malformed, and the launch of a run.

use std::path::Path;

use domain::mcp_server::{McpServer, Transport};
use domain::permission::Level;
use domain::permission::Permission;
use domain::run::{AgentEnd, Failure, LimitName, ModelError, StdStream as Pipe};
use serde_json::{Value, json};

use super::reader::{QwenDialect, QwenStream};
use super::run_settings::{SYSTEM_SETTINGS_FILE, SYSTEM_SETTINGS_VARIABLE};
use super::*;
use crate::contract::{
    AgentAnswer, AgentReport, Backend, Exit, OutputReader, PermissionDecision, PermissionRequest,
    PrepareError, ProjectExecutables,
};
use crate::test_fixtures::{self, json_lines, read_events};
use crate::user_environment::ProjectFolders;

fn reader(structured: bool, resumed: bool) -> QwenStream {
    let used_before = if resumed { None } else { Some(Usage::default()) };
    QwenStream::new(QwenDialect::new(used_before), structured)
}

fn message_event(text: &str) -> Value {
    json!({"type": "assistant", "parent_tool_use_id": null, "message": {
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 100, "output_tokens": 10}}})
}

fn used(input_tokens: u64, output_tokens: u64) -> AgentReport {
    AgentReport::Used(Usage { input_tokens, output_tokens, ..Usage::default() })
}

fn result(more: &Value) -> Value {
    let mut event = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done",
        "session_id": "s-1", "usage": {"input_tokens": 200, "output_tokens": 20}, "permission_denials": []});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

fn refused(message: &str) -> Value {
    result(&json!({"subtype": "error_during_execution", "is_error": true, "result": null,
        "error": {"message": message}}))
}

#[test]
fn the_result_is_the_answer_and_carries_usage_and_session() {
    let init = json!({"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"});
    let events = [init, message_event("hello"), result(&json!({}))];
    let (reports, conclusion) = read_events(reader(false, false), &events, Exit::Code(0));
    let expected = [
        AgentReport::Session("s-1".to_owned()),
        AgentReport::Model("m".to_owned()),
        used(100, 10),
        AgentReport::Text("hello\n".to_owned()),
        // Usage outside of the conversation.
        used(100, 10),
        AgentReport::CloseInput,
    ];
    assert_eq!(reports, expected);
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, AgentAnswer::Text("done".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("s-1"));
}

#[test]
fn a_resumed_run_counts_its_own_turns_and_says_so() {
    let (reports, _) =
        read_events(reader(false, true), &[message_event("hello"), result(&json!({}))], Exit::Code(0));
    assert_eq!(reports[0], used(100, 10));
    let is_reported =
        matches!(&reports[2], AgentReport::Warned(message) if message.contains("whole session"));
    assert!(is_reported, "{reports:?}");
    assert_eq!(reports[3..], [AgentReport::CloseInput]);
    let used_before = Some(Usage { input_tokens: 60, output_tokens: 10, ..Usage::default() });
    let known = QwenStream::new(QwenDialect::new(used_before), false);
    let (reports, _) = read_events(known, &[message_event("hello"), result(&json!({}))], Exit::Code(0));
    assert_eq!(reports[2..], [used(40, 0), AgentReport::CloseInput]);
}

#[test]
fn each_way_to_fail_has_its_name_whatever_the_exit_code_says() {
    let model = |error, message: &str| {
        let events = [message_event(&format!("so far{message}")), message_event(message), refused(message)];
        let (reports, conclusion) = read_events(reader(false, false), &events, Exit::Code(0));
        let message = message.to_owned();
        assert_eq!(conclusion.end, AgentEnd::Failed(Failure::Model { error, message }));
        assert_eq!(conclusion.answer, AgentAnswer::Text("so far\n".to_owned()));
        assert_eq!(reports.iter().filter(|report| matches!(report, AgentReport::Text(_))).count(), 1);
    };
    model(ModelError::BadRequest, "[API Error: 400 bad]");
    model(ModelError::Denied, "[API Error: 401 nokey]");
    model(ModelError::RateLimit, "[API Error: 429 quota]");
    model(ModelError::Overloaded, "[API Error: 503 later]");
    model(ModelError::TooLong, "[API Error: 400 This model's maximum context length is 8 tokens]");
    model(ModelError::Unreachable, "[API Error: Connection error. (cause: connect ECONNREFUSED)]");
    model(ModelError::Other, "[API Error: Model stream ended without a finish reason]");
    let end = |event: Value| read_events(reader(false, false), &[event], Exit::Code(0)).1.end;
    let message = "Operation cancelled.".to_owned();
    assert_eq!(end(refused(&message)), AgentEnd::Failed(Failure::Agent { message }));
    assert_eq!(end(result(&json!({"subtype": "error_max_turns"}))), AgentEnd::OverBudget(LimitName::Turns));
    let contradiction = end(result(&json!({"is_error": true})));
    assert!(matches!(contradiction, AgentEnd::Failed(_)), "{contradiction:?}");
}

#[test]
fn a_stream_without_result_fails_and_keeps_the_partial_answer() {
    let failed = |failure| AgentEnd::Failed(failure);
    for (exit, end) in [
        (
            Exit::Code(0),
            failed(Failure::Output { reason: "the stream ended without its terminal event".to_owned() }),
        ),
        (Exit::Code(130), failed(Failure::Exit { code: 130 })),
        (Exit::Signal(9), failed(Failure::Signal { signal: 9 })),
        (Exit::Code(53), AgentEnd::OverBudget(LimitName::Turns)),
    ] {
        let (_, conclusion) = read_events(reader(false, false), &[message_event("so far")], exit);
        assert_eq!(conclusion.end, end);
        assert_eq!(conclusion.answer, AgentAnswer::Text("so far\n".to_owned()));
    }
}

#[test]
fn the_error_stream_shows_why_a_run_did_not_start() {
    let end = |stderr: &str, code| {
        let mut stream = reader(false, true);
        stream.feed(Pipe::Stderr, stderr.as_bytes());
        stream.conclude(Exit::Code(code)).end
    };
    let reason = "No saved session found with title \"x\".".to_owned();
    let stderr = format!("Ripgrep not available\n{reason}\n");
    assert_eq!(end(&stderr, 1), AgentEnd::Failed(Failure::Session { reason }));
    let message = "no key".to_owned();
    let denied = Failure::Model { error: ModelError::Denied, message: message.clone() };
    assert_eq!(end(&message, 41), AgentEnd::Failed(denied));
}

#[test]
fn a_requested_schema_requires_a_value() {
    let with = result(&json!({"result": "{\"count\":3}"}));
    let (_, conclusion) = read_events(reader(true, false), &[with], Exit::Code(0));
    assert_eq!((conclusion.end, conclusion.structured), (AgentEnd::Done, Some(json!({"count": 3}))));
    let (_, conclusion) = read_events(reader(true, false), &[result(&json!({}))], Exit::Code(0));
    assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Schema { .. })), "{conclusion:?}");
}

#[test]
fn permission_requests_are_reported_and_answered_in_the_programs_protocol() {
    let input = json!({"command": "ls"});
    let request = json!({"subtype": "can_use_tool", "tool_name": "run_shell_command", "input": input});
    let event = json!({"type": "control_request", "request_id": "r1", "request": request});
    let mut stream = reader(false, false);
    let ask =
        PermissionRequest { id: "r1".to_owned(), tool: "run_shell_command".to_owned(), input: input.clone() };
    assert_eq!(stream.feed(Pipe::Stdout, &json_lines(&[event])), [AgentReport::PermissionRequested(ask)]);
    let written = |reports: Vec<AgentReport>| match &reports[..] {
        [AgentReport::Write(bytes)] => serde_json::from_slice::<Value>(bytes).unwrap()["response"].clone(),
        other => panic!("{other:?}"),
    };
    let allowed = written(stream.decide("r1", &PermissionDecision::Allow(input.clone())));
    let response = json!({"behavior": "allow", "updatedInput": input});
    assert_eq!(allowed, json!({"subtype": "success", "request_id": "r1", "response": response}));
    let denied = written(stream.decide("r1", &PermissionDecision::Deny("no".to_owned())));
    assert_eq!(denied["response"], json!({"behavior": "deny", "message": "no"}));
    let other = json!({"type": "control_request", "request_id": "r2", "request": {"subtype": "mcp_message"}});
    assert_eq!(written(stream.feed(Pipe::Stdout, &json_lines(&[other])))["subtype"], json!("error"));
}

#[test]
fn tool_calls_denials_and_rejected_options_are_reported() {
    let call = json!({"type": "assistant", "message": {"content":
        [{"type": "tool_use", "id": "t1", "name": "read_file", "input": {}}]}});
    let back = json!({"type": "user", "message": {"content":
        [{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": "no"}]}});
    let status = json!({"applied": false, "reason": "thinking may be disabled"});
    let hello = json!({"type": "control_response", "response":
        {"subtype": "success", "response": {"effort_status": status}}});
    let failed = json!({"type": "control_response", "response": {"subtype": "error", "error": "what?"}});
    let denial = result(&json!({"permission_denials": [{"tool_name": "edit"}]}));
    let (reports, _) = read_events(reader(false, false), &[hello, failed, call, back, denial], Exit::Code(0));
    let warned = |text: &str| AgentReport::Warned(text.to_owned());
    assert_eq!(reports[0], warned("the effort was not applied: thinking may be disabled"));
    assert_eq!(reports[1], warned("qwen did not take what it was told: what?"));
    let (id, name) = ("t1".to_owned(), "read_file".to_owned());
    assert_eq!(reports[2], AgentReport::ToolCalled { id: id.clone(), name, input: json!({}) });
    assert_eq!(reports[3], AgentReport::ToolReturned { id, ok: false, output: "no".to_owned() });
    assert_eq!(reports[5], test_fixtures::denied_report("", "edit", "by the options or settings of qwen"));
}

fn prepare(change: impl FnOnce(&mut RunSpec)) -> Result<ProcessLaunch, PrepareError> {
    test_fixtures::process_launch(&VENDOR, &test_fixtures::located_program(&["node", "/cli.js"]), change)
}

fn assert_has_args(launch: &ProcessLaunch, expected: &[&str]) {
    for argument in expected {
        assert!(launch.argv.contains(&(*argument).to_owned()), "{argument} in {:?}", launch.argv);
    }
}

#[test]
fn the_setup_becomes_options() {
    let plain = prepare(|_| {}).unwrap();
    let expected = [
        "node",
        "/cli.js",
        "--output-format=stream-json",
        "--mcp-config=/w/mcp.json",
        "--exclude-tools=ask_user_question",
        "--input-format=stream-json",
        "--approval-mode=default",
        "--append-system-prompt=You are careful.",
        "--allowed-mcp-server-names=volery-allows-none",
    ];
    assert_eq!(plain.argv, expected);
    let full = prepare(|spec| {
        spec.model = Some("coder".to_owned());
        spec.session = Some("s-9".parse().unwrap());
        spec.setup.context = Context::None;
        spec.setup.max_turns = Some(3);
        spec.setup.prompt_mode = PromptMode::Replace;
        spec.setup.extra_directories = vec!["/srv".to_owned()];
    })
    .unwrap();
    assert_has_args(
        &full,
        &["--model=coder", "--resume=s-9", "--bare", "--max-session-turns=3", "--add-dir=/srv"],
    );
    let system = ("QWEN_SYSTEM_MD".to_owned(), EnvValue::Plain("/w/system.md".to_owned()));
    assert!(full.env_overrides.contains(&system), "{:?}", full.env_overrides);
}

#[test]
fn the_opening_messages_name_who_decides_and_then_the_prompt() {
    let fed = |change: fn(&mut RunSpec)| match prepare(change).unwrap().feed {
        StdinFeed::Open(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    let first = fed(|spec| spec.setup.effort = Some("high".to_owned()));
    let messages: Vec<Value> = first.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages[0]["request"]["subtype"], "initialize");
    assert_eq!(messages[0]["request"]["effort"], "high");
    assert_eq!(messages[1]["message"]["content"], "do it");
    let command = fed(|spec| spec.prompt = "/quit".to_owned());
    assert!(command.contains("\"\\n/quit\""), "{command}");
    assert!(prepare(|spec| spec.setup.effort = Some("extreme".to_owned())).is_err());
}

#[test]
fn what_it_would_let_pass_without_asking_is_refused_by_option() {
    let launch = prepare(|spec| {
        spec.setup.permission.level = Some(Level::ReadOnly);
        spec.setup.permission.allow = vec!["Edit(docs/**)".parse().unwrap()];
        spec.setup.permission.deny = vec!["Bash(cat:*)".parse().unwrap(), "mcp__x".parse().unwrap()];
    })
    .unwrap();
    assert_has_args(
        &launch,
        &["--exclude-tools=run_shell_command", "--exclude-tools=run_shell_command(cat:*)"],
    );
    assert_has_args(&launch, &["--exclude-tools=mcp__x"]);
    assert!(!launch.argv.contains(&"--exclude-tools=edit".to_owned()), "{:?}", launch.argv);
    let reader = prepare(|spec| spec.setup.tools = Some(vec!["Read".to_owned()])).unwrap();
    assert_has_args(&reader, &["--exclude-tools=edit", "--exclude-tools=glob", "--exclude-tools=agent"]);
    assert!(!reader.argv.contains(&"--exclude-tools=read_file".to_owned()), "{:?}", reader.argv);
    let writer = prepare(|spec| spec.setup.tools = Some(vec!["write_file".to_owned()])).unwrap();
    assert_has_args(&writer, &["--exclude-tools=edit", "--exclude-tools=notebook_edit"]);
    assert!(!writer.argv.contains(&"--exclude-tools=write_file".to_owned()), "{:?}", writer.argv);
}

#[test]
fn a_question_is_denied_before_the_program_gives_it_up_itself() {
    let launch = prepare(|_| {}).unwrap();
    let StdinFeed::Open(opening) = &launch.feed else { panic!("{:?}", launch.feed) };
    let hello: Value = serde_json::from_slice(opening.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let patience = hello["request"]["timeout"]["canUseTool"].as_u64().unwrap();
    let most = VENDOR.capabilities(&Value::Null).answer_ms_max.unwrap();
    assert!(most < patience && most + 60_000 > patience, "{most} {patience}");
}

/// With its own option for a schema, the program asks nobody and edits anywhere.
#[test]
fn a_run_with_a_schema_needs_confirmation_as_any_other() {
    let launch = prepare(|spec| spec.setup.output_schema = Some(json!({"type": "object"}))).unwrap();
    assert_has_args(&launch, &["--input-format=stream-json", "--approval-mode=default"]);
    assert!(!launch.argv.iter().any(|argument| argument.contains("schema")), "{:?}", launch.argv);
    let StdinFeed::Open(opening) = &launch.feed else { panic!("{:?}", launch.feed) };
    let message: Value =
        serde_json::from_slice(opening.split(|byte| *byte == b'\n').nth(1).unwrap()).unwrap();
    let prompt = message["message"]["content"].to_string();
    assert!(prompt.contains("do it") && prompt.contains("{\\\"type\\\":\\\"object\\\"}"), "{prompt}");
}

#[test]
fn an_agent_has_its_own_servers_and_ours_if_it_may_delegate() {
    let launch = prepare(|spec| {
        spec.delegates = Delegates::Anyone;
        let transport = Transport::Stdio {
            command: "files".to_owned(),
            args: Vec::new(),
            env: std::collections::BTreeMap::new(),
        };
        let tools = Some(vec!["read".to_owned()]);
        let server = McpServer { name: "files".to_owned(), transport, tools, timeout_ms: Some(5_000) };
        spec.setup.mcp_servers = vec![server];
    })
    .unwrap();
    assert_has_args(&launch, &["--allowed-mcp-server-names=files", "--allowed-mcp-server-names=volery"]);
    assert_has_args(&launch, &["--allowed-tools=mcp__volery"]);
    let file: Value = serde_json::from_slice(&launch.files[0].content).unwrap();
    let files = &file["mcpServers"]["files"];
    assert_eq!((&files["includeTools"], &files["timeout"]), (&json!(["read"]), &json!(5_000)));
    assert_eq!(file["mcpServers"]["volery"]["command"], "/bin/volery");
}

#[test]
fn unsupported_settings_are_refused_or_reported() {
    for hostile in ["--yolo", "--approval-mode=yolo", "--allowed-tools=edit", "x"] {
        let refused = prepare(|spec| spec.setup.extra_args = vec![hostile.to_owned()]);
        let reason = refused.err().map(|refused| refused.reason).unwrap_or_default();
        assert!(reason.contains("may not be given by an agent"), "{hostile}: {reason}");
    }
    let long = prepare(|spec| spec.system_prompt = "x".repeat(130_000)).err().unwrap();
    assert_eq!(
        long.reason,
        "the system prompt has 130000 bytes, and 122880 can be added to the program's own"
    );
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let permission = Permission {
        ask: rules(&["Read(.env)", "Bash(git push:*)"]),
        deny: rules(&["Edit(a,b)", "Read(.env)"]),
        ..Permission::default()
    };
    let reported = VENDOR.unenforceable(&permission, &Value::Null);
    assert_eq!(reported, ["the rule deny Edit(a,b)", "the rule ask Read(.env)"]);
}

#[test]
fn with_a_level_nothing_schedules_runs_or_creates_work_trees_silently() {
    let excluded = |level, allow: &[&str]| {
        let allow = allow.iter().map(|rule| rule.parse().unwrap()).collect();
        permission::excluded_tools(&Permission { level, allow, ..Permission::default() }, None)
    };
    for level in [Level::ReadOnly, Level::SafeEdit] {
        let tools = excluded(Some(level), &["cron_create"]);
        assert!(tools.contains(&"enter_worktree".to_owned()), "{tools:?}");
        assert!(!tools.contains(&"cron_create".to_owned()), "{tools:?}");
    }
    assert!(!excluded(Some(Level::Yolo), &[]).contains(&"enter_worktree".to_owned()));
    let edits = |allow: &[&str]| !excluded(Some(Level::ReadOnly), allow).contains(&"edit".to_owned());
    assert_eq!(
        (edits(&[]), edits(&["Bash(touch:*)"])),
        (false, true),
        "a command that writes would be refused"
    );
}

/// Returns the system settings of a run in a directory.
fn system_settings(directory: &Path, programs: ProjectExecutables) -> Result<Option<Value>, PrepareError> {
    let mut spec = test_fixtures::spec("qwen");
    spec.directory = directory.display().to_string();
    spec.project = spec.directory.clone();
    let found = test_fixtures::located_program(&["qwen"]);
    let context =
        LaunchContext { project_executables: programs, ..test_fixtures::launch_context(Some(&found)) };
    let mut launch = test_fixtures::process_launch_in(&VENDOR, &context, &spec)?;
    let user = UserEnvironment { home: directory.parent(), variable: &|_| None };
    VENDOR.apply_user_environment(&spec, &mut launch, &context, &user)?;
    let file = launch.files.iter().find(|file| file.name == SYSTEM_SETTINGS_FILE);
    let has_variable = launch.env_overrides.iter().any(|(name, _)| name == SYSTEM_SETTINGS_VARIABLE);
    assert_eq!(file.is_some(), has_variable);
    Ok(file.map(|file| serde_json::from_slice(&file.content).unwrap()))
}

#[test]
fn variables_of_a_project_are_left_out_except_for_keys_and_models() {
    let temp = tempfile::tempdir().unwrap();
    let project = temp.path().canonicalize().unwrap().join("home/work");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join(".env"), "OPENAI_API_KEY=k\n").unwrap();
    assert_eq!(system_settings(&project, ProjectExecutables::On), Ok(None));
    std::fs::write(project.join(".env"), "OPENAI_API_KEY=k\nHTTPS_PROXY=http://x\n").unwrap();
    let excluded = json!({"excludedEnvVars": ["DEBUG", "DEBUG_MODE", "HTTPS_PROXY"]});
    let settings = system_settings(&project, ProjectExecutables::On).unwrap();
    assert_eq!(settings, Some(json!({"advanced": excluded})));
    let settings = system_settings(&project, ProjectExecutables::Off).unwrap();
    assert_eq!(settings, Some(json!({"disableAllHooks": true, "advanced": excluded})));
    let above = temp.path().join(".qwen");
    std::fs::create_dir(&above).unwrap();
    std::fs::write(above.join(".env"), "QWEN_CODE_IDE_SERVER_STDIO_COMMAND=touch\n").unwrap();
    let refused = system_settings(&project, ProjectExecutables::On).unwrap_err();
    assert!(refused.reason.contains("QWEN_CODE_IDE_SERVER_STDIO_COMMAND"), "{refused:?}");
}

#[test]
fn with_fallbacks_retries_are_limited() {
    let mut spec = test_fixtures::spec("qwen");
    spec.fallbacks =
        vec![domain::run::ResolvedFallback { backend: spec.backend.clone(), model: None, settings: None }];
    let found = test_fixtures::located_program(&["qwen"]);
    let context = test_fixtures::launch_context(Some(&found));
    let mut launch = test_fixtures::process_launch_in(&VENDOR, &context, &spec).unwrap();
    VENDOR
        .apply_user_environment(
            &spec,
            &mut launch,
            &context,
            &UserEnvironment { home: None, variable: &|_| None },
        )
        .unwrap();
    let file = launch.files.iter().find(|file| file.name == SYSTEM_SETTINGS_FILE).unwrap();
    let settings: Value = serde_json::from_slice(&file.content).unwrap();
    assert_eq!(settings["model"]["generationConfig"]["maxRetries"], json!(2));
}

#[test]
fn settings_of_a_project_need_trust_unless_they_are_known_to_be_harmless() {
    let project = tempfile::tempdir().unwrap();
    std::fs::create_dir(project.path().join(".qwen")).unwrap();
    let found_settings = |settings: Value| {
        std::fs::write(project.path().join(".qwen/settings.json"), settings.to_string()).unwrap();
        let found = VENDOR.project_executables(&ProjectFolders::new(|| vec![project.path()]));
        let descriptions = found.into_iter().map(|program| {
            (program.description.split(": ").next().unwrap_or_default().to_owned(), program.can_be_disabled)
        });
        descriptions.collect::<Vec<_>>()
    };
    let ordinary = json!({
        "$version": 4,
        "context": {"fileName": ["AGENTS.md"]},
        "general": {"vimMode": true},
        "mcpServers": {"birds": {"command": "birds"}},
        "model": {"name": "qwen3-coder-plus"},
        "permissions": {"deny": ["Bash"]},
        "ui": {"theme": "dark"}
    });
    assert_eq!(found_settings(ordinary), []);
    let hostile = json!({
        "env": {"A": "1"},
        "hooks": {"SessionStart": []},
        "ide": {"enabled": true},
        "model": {"baseUrl": "http://x", "generationConfig": {}, "name": "m", "openAILoggingDir": "/tmp"},
        "permissions": {"allow": ["Bash"]},
        "proxy": "http://x",
        "security": {"auth": {"baseUrl": "http://x"}},
        "ui": {"statusLine": {"command": "touch"}}
    });
    let expected = [
        ("qwen, env", false),
        ("qwen, hooks", true),
        ("qwen, ide", false),
        ("qwen, model.baseUrl", false),
        ("qwen, model.openAILoggingDir", false),
        ("qwen, permissions.allow", false),
        ("qwen, proxy", false),
        ("qwen, security", false),
        ("qwen, ui.statusLine", false),
    ];
    assert_eq!(found_settings(hostile), expected.map(|(descriptions, off)| (descriptions.to_owned(), off)));
}
