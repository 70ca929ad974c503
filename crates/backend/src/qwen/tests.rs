//! Streams as Qwen Code writes them, whole, cut and wrong, and what becomes of an agent's wishes.

use domain::mcp_server::{McpServer, Transport};
use domain::permission::Level;
use domain::run::{AgentEnd, Failure, LimitName, ModelError, Stream as Pipe};
use serde_json::{Value, json};

use super::reader::{Counted, Stream};
use super::*;
use crate::contract::{Answer, Ask, Decision, Exit, Reader, Report};
use crate::sample::{self, lines, read};

fn reader(structured: bool, resumed: bool) -> Stream {
    let used_before = if resumed { None } else { Some(Usage::default()) };
    Stream::new(Counted::after(used_before), structured)
}

fn said(text: &str) -> Value {
    json!({"type": "assistant", "parent_tool_use_id": null, "message": {
        "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 100, "output_tokens": 10}}})
}

fn used(input_tokens: u64, output_tokens: u64) -> Report {
    Report::Used(Usage { input_tokens, output_tokens, ..Usage::default() })
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
    let events = [init, said("hello"), result(&json!({}))];
    let (reports, conclusion) = read(reader(false, false), &events, Exit::Code(0));
    let expected = [
        Report::Session("s-1".to_owned()),
        Report::Model("m".to_owned()),
        used(100, 10),
        Report::Said("hello\n".to_owned()),
        // What it spent beside the conversation.
        used(100, 10),
        Report::CloseInput,
    ];
    assert_eq!(reports, expected);
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, Answer::Text("done".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("s-1"));
}

#[test]
fn a_resumed_run_counts_its_own_turns_and_says_so() {
    let (reports, _) = read(reader(false, true), &[said("hello"), result(&json!({}))], Exit::Code(0));
    assert_eq!(reports[0], used(100, 10));
    let told = matches!(&reports[2], Report::Warned(message) if message.contains("whole session"));
    assert!(told, "{reports:?}");
    assert_eq!(reports[3..], [Report::CloseInput]);
    let used_before = Some(Usage { input_tokens: 60, output_tokens: 10, ..Usage::default() });
    let known = Stream::new(Counted::after(used_before), false);
    let (reports, _) = read(known, &[said("hello"), result(&json!({}))], Exit::Code(0));
    assert_eq!(reports[2..], [used(40, 0), Report::CloseInput]);
}

#[test]
fn each_way_to_fail_has_its_name_whatever_the_exit_code_says() {
    let model = |error, message: &str| {
        let events = [said(&format!("so far{message}")), said(message), refused(message)];
        let (reports, conclusion) = read(reader(false, false), &events, Exit::Code(0));
        let message = message.to_owned();
        assert_eq!(conclusion.end, AgentEnd::Failed(Failure::Model { error, message }));
        assert_eq!(conclusion.answer, Answer::Text("so far\n".to_owned()));
        assert_eq!(reports.iter().filter(|report| matches!(report, Report::Said(_))).count(), 1);
    };
    model(ModelError::BadRequest, "[API Error: 400 bad]");
    model(ModelError::Denied, "[API Error: 401 nokey]");
    model(ModelError::RateLimit, "[API Error: 429 quota]");
    model(ModelError::Overloaded, "[API Error: 503 later]");
    model(ModelError::TooLong, "[API Error: 400 This model's maximum context length is 8 tokens]");
    model(ModelError::Unreachable, "[API Error: Connection error. (cause: connect ECONNREFUSED)]");
    model(ModelError::Other, "[API Error: Model stream ended without a finish reason]");
    let end = |event: Value| read(reader(false, false), &[event], Exit::Code(0)).1.end;
    let message = "Operation cancelled.".to_owned();
    assert_eq!(end(refused(&message)), AgentEnd::Failed(Failure::Agent { message }));
    assert_eq!(end(result(&json!({"subtype": "error_max_turns"}))), AgentEnd::OverBudget(LimitName::Turns));
    let contradiction = end(result(&json!({"is_error": true})));
    assert!(matches!(contradiction, AgentEnd::Failed(_)), "{contradiction:?}");
}

#[test]
fn without_a_result_nothing_succeeded_and_what_was_said_is_kept() {
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
        let (_, conclusion) = read(reader(false, false), &[said("so far")], exit);
        assert_eq!(conclusion.end, end);
        assert_eq!(conclusion.answer, Answer::Text("so far\n".to_owned()));
    }
}

#[test]
fn what_stands_on_the_error_stream_tells_why_it_did_not_begin() {
    let end = |stderr: &str, code| {
        let mut stream = reader(false, true);
        stream.feed(Pipe::Stderr, stderr.as_bytes());
        stream.conclude(Exit::Code(code)).end
    };
    let reason = "No saved session found with title \"x\".".to_owned();
    let told = format!("Ripgrep not available\n{reason}\n");
    assert_eq!(end(&told, 1), AgentEnd::Failed(Failure::Session { reason }));
    let message = "no key".to_owned();
    let denied = Failure::Model { error: ModelError::Denied, message: message.clone() };
    assert_eq!(end(&message, 41), AgentEnd::Failed(denied));
}

#[test]
fn a_shape_that_was_asked_for_must_come() {
    let with = result(&json!({"result": "{\"count\":3}"}));
    let (_, conclusion) = read(reader(true, false), &[with], Exit::Code(0));
    assert_eq!((conclusion.end, conclusion.structured), (AgentEnd::Done, Some(json!({"count": 3}))));
    let (_, conclusion) = read(reader(true, false), &[result(&json!({}))], Exit::Code(0));
    assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Schema { .. })), "{conclusion:?}");
}

#[test]
fn a_question_about_a_tool_is_asked_and_answered_in_its_own_protocol() {
    let input = json!({"command": "ls"});
    let request = json!({"subtype": "can_use_tool", "tool_name": "run_shell_command", "input": input});
    let event = json!({"type": "control_request", "request_id": "r1", "request": request});
    let mut stream = reader(false, false);
    let ask = Ask { id: "r1".to_owned(), tool: "run_shell_command".to_owned(), input: input.clone() };
    assert_eq!(stream.feed(Pipe::Stdout, &lines(&[event])), [Report::Asks(ask)]);
    let written = |reports: Vec<Report>| match &reports[..] {
        [Report::Write(bytes)] => serde_json::from_slice::<Value>(bytes).unwrap()["response"].clone(),
        other => panic!("{other:?}"),
    };
    let allowed = written(stream.decide("r1", &Decision::Allow(input.clone())));
    let response = json!({"behavior": "allow", "updatedInput": input});
    assert_eq!(allowed, json!({"subtype": "success", "request_id": "r1", "response": response}));
    let denied = written(stream.decide("r1", &Decision::Deny("no".to_owned())));
    assert_eq!(denied["response"], json!({"behavior": "deny", "message": "no"}));
    let other = json!({"type": "control_request", "request_id": "r2", "request": {"subtype": "mcp_message"}});
    assert_eq!(written(stream.feed(Pipe::Stdout, &lines(&[other])))["subtype"], json!("error"));
}

#[test]
fn tools_denials_and_what_it_did_not_take_are_told() {
    let call = json!({"type": "assistant", "message": {"content":
        [{"type": "tool_use", "id": "t1", "name": "read_file", "input": {}}]}});
    let back = json!({"type": "user", "message": {"content":
        [{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": "no"}]}});
    let status = json!({"applied": false, "reason": "thinking may be disabled"});
    let hello = json!({"type": "control_response", "response":
        {"subtype": "success", "response": {"effort_status": status}}});
    let failed = json!({"type": "control_response", "response": {"subtype": "error", "error": "what?"}});
    let denial = result(&json!({"permission_denials": [{"tool_name": "edit"}]}));
    let (reports, _) = read(reader(false, false), &[hello, failed, call, back, denial], Exit::Code(0));
    let warned = |text: &str| Report::Warned(text.to_owned());
    assert_eq!(reports[0], warned("the effort was not applied: thinking may be disabled"));
    assert_eq!(reports[1], warned("qwen did not take what it was told: what?"));
    let (id, name) = ("t1".to_owned(), "read_file".to_owned());
    assert_eq!(reports[2], Report::ToolCalled { id: id.clone(), name, input: json!({}) });
    assert_eq!(reports[3], Report::ToolReturned { id, ok: false, output: "no".to_owned() });
    assert_eq!(reports[5], sample::denied("", "edit", "by the options or settings of qwen"));
}

fn prepared(change: impl FnOnce(&mut RunSpec)) -> Result<ProcessDrive, PrepareError> {
    sample::drive(&Qwen, &sample::found(&["node", "/cli.js"]), change)
}

fn has(drive: &ProcessDrive, words: &[&str]) {
    for word in words {
        assert!(drive.argv.contains(&(*word).to_owned()), "{word} in {:?}", drive.argv);
    }
}

#[test]
fn what_the_agent_wants_becomes_options() {
    let plain = prepared(|_| {}).unwrap();
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
    let full = prepared(|spec| {
        spec.model = Some("coder".to_owned());
        spec.session = Some("s-9".parse().unwrap());
        spec.setup.context = Context::None;
        spec.setup.max_turns = Some(3);
        spec.setup.prompt_mode = PromptMode::Replace;
        spec.setup.extra_directories = vec!["/srv".to_owned()];
    })
    .unwrap();
    has(&full, &["--model=coder", "--resume=s-9", "--bare", "--max-session-turns=3", "--add-dir=/srv"]);
    let system = ("QWEN_SYSTEM_MD".to_owned(), Setting::Plain("/w/system.md".to_owned()));
    assert!(full.set.contains(&system), "{:?}", full.set);
}

#[test]
fn the_first_words_name_who_decides_and_then_the_prompt() {
    let fed = |change: fn(&mut RunSpec)| match prepared(change).unwrap().feed {
        Feed::Open(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    let first = fed(|spec| spec.setup.effort = Some("high".to_owned()));
    let words: Vec<Value> = first.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(words[0]["request"]["subtype"], "initialize");
    assert_eq!(words[0]["request"]["effort"], "high");
    assert_eq!(words[1]["message"]["content"], "do it");
    let command = fed(|spec| spec.prompt = "/quit".to_owned());
    assert!(command.contains("\"\\n/quit\""), "{command}");
    assert!(prepared(|spec| spec.setup.effort = Some("extreme".to_owned())).is_err());
}

#[test]
fn what_it_would_let_pass_without_asking_is_refused_by_option() {
    let drive = prepared(|spec| {
        spec.setup.permission.level = Some(Level::ReadOnly);
        spec.setup.permission.allow = vec!["Edit(docs/**)".parse().unwrap()];
        spec.setup.permission.deny = vec!["Bash(cat:*)".parse().unwrap(), "mcp__x".parse().unwrap()];
    })
    .unwrap();
    has(&drive, &["--exclude-tools=run_shell_command", "--exclude-tools=run_shell_command(cat:*)"]);
    has(&drive, &["--exclude-tools=mcp__x"]);
    assert!(!drive.argv.contains(&"--exclude-tools=edit".to_owned()), "{:?}", drive.argv);
    let reader = prepared(|spec| spec.setup.tools = Some(vec!["Read".to_owned()])).unwrap();
    has(&reader, &["--exclude-tools=edit", "--exclude-tools=glob", "--exclude-tools=agent"]);
    assert!(!reader.argv.contains(&"--exclude-tools=read_file".to_owned()), "{:?}", reader.argv);
    let writer = prepared(|spec| spec.setup.tools = Some(vec!["write_file".to_owned()])).unwrap();
    has(&writer, &["--exclude-tools=edit", "--exclude-tools=notebook_edit"]);
    assert!(!writer.argv.contains(&"--exclude-tools=write_file".to_owned()), "{:?}", writer.argv);
}

#[test]
fn a_question_is_denied_before_the_program_gives_it_up_itself() {
    let drive = prepared(|_| {}).unwrap();
    let Feed::Open(opening) = &drive.feed else { panic!("{:?}", drive.feed) };
    let hello: Value = serde_json::from_slice(opening.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let patience = hello["request"]["timeout"]["canUseTool"].as_u64().unwrap();
    let most = Qwen.capabilities(&Value::Null).answer_ms_max.unwrap();
    assert!(most < patience && most + 60_000 > patience, "{most} {patience}");
}

/// With the program's own option for a schema nobody is asked, and it edits anywhere.
#[test]
fn a_run_with_a_schema_is_asked_about_as_any_other() {
    let drive = prepared(|spec| spec.setup.output_schema = Some(json!({"type": "object"}))).unwrap();
    has(&drive, &["--input-format=stream-json", "--approval-mode=default"]);
    assert!(!drive.argv.iter().any(|word| word.contains("schema")), "{:?}", drive.argv);
    let Feed::Open(opening) = &drive.feed else { panic!("{:?}", drive.feed) };
    let words: Value = serde_json::from_slice(opening.split(|byte| *byte == b'\n').nth(1).unwrap()).unwrap();
    let prompt = words["message"]["content"].to_string();
    assert!(prompt.contains("do it") && prompt.contains("{\\\"type\\\":\\\"object\\\"}"), "{prompt}");
}

#[test]
fn an_agent_has_its_own_servers_and_ours_if_it_may_delegate() {
    let drive = prepared(|spec| {
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
    has(&drive, &["--allowed-mcp-server-names=files", "--allowed-mcp-server-names=volery"]);
    has(&drive, &["--allowed-tools=mcp__volery"]);
    let file: Value = serde_json::from_slice(&drive.files[0].content).unwrap();
    let files = &file["mcpServers"]["files"];
    assert_eq!((&files["includeTools"], &files["timeout"]), (&json!(["read"]), &json!(5_000)));
    assert_eq!(file["mcpServers"]["volery"]["command"], "/bin/volery");
}

#[test]
fn what_cannot_be_had_is_refused_or_named() {
    for sly in ["--yolo", "--approval-mode=yolo", "--allowed-tools=edit", "x"] {
        let refused = prepared(|spec| spec.setup.extra_args = vec![sly.to_owned()]);
        let reason = refused.err().map(|refused| refused.reason).unwrap_or_default();
        assert!(reason.contains("may not be given by an agent"), "{sly}: {reason}");
    }
    let long = prepared(|spec| spec.system_prompt = "x".repeat(130_000)).err().unwrap();
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
    let named = Qwen.unenforceable(&permission, &Value::Null);
    assert_eq!(named, ["the rule deny Edit(a,b)", "the rule ask Read(.env)"]);
}

#[test]
fn with_a_level_nothing_plans_runs_or_makes_work_trees_unasked() {
    let excluded = |level, allow: &[&str]| {
        let allow = allow.iter().map(|rule| rule.parse().unwrap()).collect();
        rules::excluded(&Permission { level, allow, ..Permission::default() }, None)
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

/// Returns the machine's settings that a run in a directory is given.
fn machine_settings(directory: &Path, programs: ProjectPrograms) -> Result<Option<Value>, PrepareError> {
    let mut spec = sample::spec("qwen");
    spec.directory = directory.display().to_string();
    spec.project = spec.directory.clone();
    let found = sample::found(&["qwen"]);
    let place = Place { project_programs: programs, ..sample::place(Some(&found)) };
    let mut drive = sample::drive_in(&Qwen, &place, &spec)?;
    let user = User { home: directory.parent(), value: &|_| None };
    Qwen.adapt(&spec, &mut drive, &place, &user)?;
    let file = drive.files.iter().find(|file| file.name == MACHINE_FILE);
    let is_named = drive.set.iter().any(|(name, _)| name == MACHINE_SETTINGS);
    assert_eq!(file.is_some(), is_named);
    Ok(file.map(|file| serde_json::from_slice(&file.content).unwrap()))
}

#[test]
fn variables_of_a_project_are_left_out_except_for_keys_and_models() {
    let place = tempfile::tempdir().unwrap();
    let project = place.path().canonicalize().unwrap().join("home/work");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join(".env"), "OPENAI_API_KEY=k\n").unwrap();
    assert_eq!(machine_settings(&project, ProjectPrograms::On), Ok(None));
    std::fs::write(project.join(".env"), "OPENAI_API_KEY=k\nHTTPS_PROXY=http://x\n").unwrap();
    let excluded = json!({"excludedEnvVars": ["DEBUG", "DEBUG_MODE", "HTTPS_PROXY"]});
    let settings = machine_settings(&project, ProjectPrograms::On).unwrap();
    assert_eq!(settings, Some(json!({"advanced": excluded})));
    let settings = machine_settings(&project, ProjectPrograms::Off).unwrap();
    assert_eq!(settings, Some(json!({"disableAllHooks": true, "advanced": excluded})));
    let above = place.path().join(".qwen");
    std::fs::create_dir(&above).unwrap();
    std::fs::write(above.join(".env"), "QWEN_CODE_IDE_SERVER_STDIO_COMMAND=touch\n").unwrap();
    let refused = machine_settings(&project, ProjectPrograms::On).unwrap_err();
    assert!(refused.reason.contains("QWEN_CODE_IDE_SERVER_STDIO_COMMAND"), "{refused:?}");
}

#[test]
fn where_there_are_fallbacks_a_service_is_soon_given_up() {
    let mut spec = sample::spec("qwen");
    spec.alternatives =
        vec![domain::run::Alternative { backend: spec.backend.clone(), model: None, settings: None }];
    let found = sample::found(&["qwen"]);
    let place = sample::place(Some(&found));
    let mut drive = sample::drive_in(&Qwen, &place, &spec).unwrap();
    Qwen.adapt(&spec, &mut drive, &place, &User { home: None, value: &|_| None }).unwrap();
    let file = drive.files.iter().find(|file| file.name == MACHINE_FILE).unwrap();
    let settings: Value = serde_json::from_slice(&file.content).unwrap();
    assert_eq!(settings["model"]["generationConfig"]["maxRetries"], json!(2));
}

#[test]
fn settings_of_a_project_need_trust_unless_they_are_known_to_be_harmless() {
    let project = tempfile::tempdir().unwrap();
    std::fs::create_dir(project.path().join(".qwen")).unwrap();
    let named = |settings: Value| {
        std::fs::write(project.path().join(".qwen/settings.json"), settings.to_string()).unwrap();
        let found = Qwen.project_programs(&[project.path()]);
        let words = found.into_iter().map(|program| {
            (program.says.split(": ").next().unwrap_or_default().to_owned(), program.can_be_off)
        });
        words.collect::<Vec<_>>()
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
    assert_eq!(named(ordinary), []);
    let sly = json!({
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
    assert_eq!(named(sly), expected.map(|(words, off)| (words.to_owned(), off)));
}
