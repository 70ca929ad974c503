//! Streams as Gemini CLI writes them: complete, cut and malformed, and the launch of a run.

use std::path::Path;

use domain::permission::Level;
use domain::permission::Permission;
use domain::run::{AgentEnd, Failure, LimitName, ModelError, StdStream as Pipe, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::reader::GeminiStream;
use super::*;
use crate::contract::{
    AgentAnswer, AgentReport, Backend, Conclusion, Exit, LaunchPlan, OutputReader, PrepareError,
};
use crate::program::LocatedProgram;
use crate::test_fixtures::{self, json_lines};
use crate::user_environment::ProjectFolders;

fn read(events: &[Value], exit: Exit) -> (Vec<AgentReport>, Conclusion) {
    test_fixtures::read_events(GeminiStream::default(), events, exit)
}

fn message_event(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": text, "delta": true})
}

fn stats(input: u64, output: u64, total: u64) -> Value {
    // The second model only selects the first.
    let lite =
        json!({"input_tokens": input / 10, "output_tokens": 0, "total_tokens": input / 10, "cached": 0});
    let flash =
        json!({"input_tokens": input, "output_tokens": output, "total_tokens": total, "cached": input / 2});
    json!({"input_tokens": input + input / 10, "output_tokens": output, "total_tokens": total + input / 10,
        "cached": input / 2, "models": {"gemini-2.5-flash-lite": lite, "gemini-2.5-flash": flash}})
}

fn failed(kind: &str, message: &str) -> Value {
    json!({"type": "result", "status": "error", "error": {"type": kind, "message": message}, "stats": stats(0, 0, 0)})
}

fn used_by(model: &str, usage: Usage) -> AgentReport {
    AgentReport::UsedBy { model: model.to_owned(), usage }
}

fn success() -> Value {
    json!({"type": "result", "status": "success", "stats": stats(200, 20, 230)})
}

fn call(id: &str, tool: &str) -> Value {
    json!({"type": "tool_use", "tool_name": tool, "tool_id": id, "parameters": {"a": 1}})
}

#[test]
fn the_answer_is_the_text_after_the_last_tool() {
    let init = json!({"type": "init", "session_id": "s-1", "model": "auto"});
    let back = json!({"type": "tool_result", "tool_id": "t1", "status": "success", "output": "x"});
    let events = [
        init,
        message_event("I "),
        message_event("look."),
        call("t1", "read_file"),
        back,
        message_event("Do"),
        message_event("ne."),
        success(),
    ];
    let (reports, conclusion) = read(&events, Exit::Code(0));
    let text_report = |text: &str| AgentReport::Text(text.to_owned());
    let (id, name) = ("t1".to_owned(), "read_file".to_owned());
    let expected = [
        AgentReport::Session("s-1".to_owned()),
        AgentReport::Model("auto".to_owned()),
        text_report("I "),
        text_report("look."),
        AgentReport::ToolCalled { id: id.clone(), name, input: json!({"a": 1}) },
        AgentReport::ToolReturned { id, ok: true, output: "x".to_owned() },
        text_report("\n"),
        text_report("Do"),
        text_report("ne."),
        AgentReport::Model("gemini-2.5-flash".to_owned()),
        used_by("gemini-2.5-flash-lite", Usage { input_tokens: 20, ..Usage::default() }),
        used_by(
            "gemini-2.5-flash",
            Usage { input_tokens: 200, output_tokens: 30, cache_read_tokens: 100, ..Usage::default() },
        ),
    ];
    assert_eq!(reports, expected);
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, AgentAnswer::Text("Done.".to_owned())));
    let text_before_a_tool = [message_event("All is done."), call("t1", "update_topic"), success()];
    let (_, conclusion) = read(&text_before_a_tool, Exit::Code(0));
    assert_eq!(conclusion.answer, AgentAnswer::Text("All is done.".to_owned()));
}

#[test]
fn a_requested_schema_requires_a_value() {
    let end = |text: &str| {
        let mut stream = GeminiStream::new(true);
        stream.feed(Pipe::Stdout, &json_lines(&[message_event(text), success()]));
        let conclusion = stream.conclude(Exit::Code(0));
        (conclusion.end, conclusion.structured)
    };
    assert_eq!(end("{\"count\": 3}"), (AgentEnd::Done, Some(json!({"count": 3}))));
    assert!(matches!(end("three"), (AgentEnd::Failed(Failure::Schema { .. }), None)));
}

#[test]
fn each_way_to_fail_has_its_name() {
    let model = |error, message: &str, code| {
        let (_, conclusion) = read(&[message_event("so far"), failed("unknown", message)], Exit::Code(code));
        let message = message.to_owned();
        assert_eq!(conclusion.end, AgentEnd::Failed(Failure::Model { error, message }), "{code}");
        assert_eq!(conclusion.answer, AgentAnswer::Text("so far".to_owned()));
    };
    model(ModelError::BadRequest, "[API Error: bad]", 144);
    model(ModelError::Denied, "[API Error: key]", 145);
    model(ModelError::RateLimit, "[API Error: quota]", 173);
    model(ModelError::Overloaded, "[API Error: later]", 247);
    model(ModelError::Other, "[API Error: what]", 1);
    model(ModelError::Unreachable, "[API Error: exception fetch failed sending request]", 1);
    model(ModelError::Unknown, "[API Error: models/gemini-9 is not found for API version v1beta]", 1);
    model(ModelError::TooLong, "[API Error: The input token count (9) exceeds the maximum (8)]", 144);
    let end = |events: &[Value], code| read(events, Exit::Code(code)).1.end;
    let turns = AgentEnd::OverBudget(LimitName::Turns);
    assert_eq!(end(&[failed("FatalTurnLimitedError", "Reached max")], 53), turns);
    let exceeded = json!({"type": "error", "severity": "error", "message": "Maximum session turns exceeded"});
    assert_eq!(end(&[exceeded, success()], 0), turns);
    let cancelled = failed("FatalCancellationError", "Operation cancelled.");
    let message = "Operation cancelled.".to_owned();
    assert_eq!(end(&[cancelled], 130), AgentEnd::Failed(Failure::Agent { message }));
}

#[test]
fn an_answer_that_was_blocked_is_a_refusal_though_its_result_has_no_error() {
    let message = "The model response was blocked due to safety settings.".to_owned();
    let error = json!({"type": "error", "severity": "error", "message": message});
    let blocked = json!({"type": "result", "status": "error", "stats": stats(0, 0, 0)});
    let (reports, conclusion) = read(&[error, blocked], Exit::Code(0));
    assert_eq!(reports, [AgentReport::Warned(message.clone())]);
    let failure = Failure::Model { error: ModelError::Refusal, message };
    assert_eq!(conclusion.end, AgentEnd::Failed(failure));
}

#[test]
fn a_stream_without_result_fails_and_keeps_the_partial_answer() {
    for (exit, failure) in [
        (Exit::Code(0), Failure::Output { reason: "the stream ended without its terminal event".to_owned() }),
        (Exit::Code(55), Failure::Exit { code: 55 }),
        (Exit::Signal(9), Failure::Signal { signal: 9 }),
    ] {
        let (_, conclusion) = read(&[message_event("so far")], exit);
        assert_eq!(conclusion.end, AgentEnd::Failed(failure));
        assert_eq!(conclusion.answer, AgentAnswer::Text("so far".to_owned()));
    }
}

#[test]
fn the_error_stream_shows_why_a_run_did_not_start() {
    let end = |stderr: &str, code| {
        let mut reader = GeminiStream::default();
        reader.feed(Pipe::Stderr, stderr.as_bytes());
        reader.conclude(Exit::Code(code)).end
    };
    let reason = "Error resuming session: Invalid session identifier \"x\".".to_owned();
    let stderr = format!("Warning: colours\n{reason}\n");
    assert_eq!(end(&stderr, 42), AgentEnd::Failed(Failure::Session { reason }));
    let message = "Invalid auth method selected.".to_owned();
    let denied = Failure::Model { error: ModelError::Denied, message: message.clone() };
    assert_eq!(end(&message, 41), AgentEnd::Failed(denied));
}

#[test]
fn a_denied_tool_is_a_warning() {
    let back = |kind: &str, message: &str| {
        let error = json!({"type": kind, "message": message});
        let result =
            json!({"type": "tool_result", "tool_id": "t", "status": "error", "output": "no", "error": error});
        read(&[call("t", "replace"), result], Exit::Code(0)).0.into_iter().skip(2).collect::<Vec<_>>()
    };
    let denied = |reason: &str| vec![test_fixtures::denied_report("t", "replace", reason)];
    let hidden = back("tool_not_registered", "Tool \"replace\" not found.");
    assert_eq!(hidden, denied("it is not offered to this agent"));
    assert_eq!(back("policy_violation", "by a rule"), denied("by a rule"));
    let asks = "Tool execution for \"Edit\" requires user confirmation";
    assert_eq!(back("unhandled_exception", asks), denied(asks));
    assert_eq!(back("file_not_found", "File not found"), []);
}

fn prepare(change: impl FnOnce(&mut RunSpec)) -> Result<ProcessLaunch, PrepareError> {
    let mut spec = test_fixtures::spec("gemini");
    change(&mut spec);
    let found = LocatedProgram {
        argv: vec!["node".to_owned(), "/g.js".to_owned()],
        version: Some("0.61.0".to_owned()),
    };
    let context = test_fixtures::launch_context(Some(&found));
    match VENDOR.prepare(&spec, &context)? {
        LaunchPlan::Process(launch) => Ok(launch),
        LaunchPlan::Loop(_) | LaunchPlan::AgentLoop(_) => panic!("a process was expected"),
    }
}

fn set(launch: &ProcessLaunch, name: &str) -> Option<EnvValue> {
    launch.env_overrides.iter().find(|(known, _)| known == name).map(|(_, setting)| setting.clone())
}

#[test]
fn the_setup_becomes_options() {
    let plain = prepare(|_| {}).unwrap();
    let expected = [
        "node",
        "/g.js",
        "--output-format=stream-json",
        "--approval-mode=default",
        "--admin-policy=/w/policy.toml",
        "--policy=/w/policy.toml",
        "--allowed-mcp-server-names=volery-allows-none",
    ];
    assert_eq!(plain.argv, expected);
    assert_eq!(set(&plain, "GEMINI_CLI_NO_RELAUNCH"), Some(EnvValue::Plain("true".to_owned())));
    assert_eq!(plain.feed, StdinFeed::Whole(b"You are careful.\n\ndo it".to_vec()));
    let full = prepare(|spec| {
        spec.model = Some("pro".to_owned());
        spec.session = Some("s-9".parse().unwrap());
        spec.setup.prompt_mode = PromptMode::Replace;
        spec.setup.permission.level = Some(Level::Yolo);
        spec.setup.extra_directories = vec!["/srv".to_owned()];
    })
    .unwrap();
    let options = ["--approval-mode=yolo", "--model=pro", "--resume=s-9", "--include-directories=/srv"];
    for option in options {
        assert!(full.argv.contains(&option.to_owned()), "{option} in {:?}", full.argv);
    }
    assert_eq!(set(&full, "GEMINI_SYSTEM_MD"), Some(EnvValue::Plain("/w/system.md".to_owned())));
    assert_eq!(full.feed, StdinFeed::Whole(b"do it".to_vec()));
}

#[test]
fn settings_of_a_project_need_trust_unless_they_are_known_to_be_harmless() {
    let project = tempfile::tempdir().unwrap();
    std::fs::create_dir(project.path().join(".gemini")).unwrap();
    let found_settings = |settings: Value| {
        std::fs::write(project.path().join(".gemini/settings.json"), settings.to_string()).unwrap();
        let found = VENDOR.project_executables(&ProjectFolders::new(|| vec![project.path()]));
        assert!(found.iter().all(|program| !program.can_be_disabled), "{found:?}");
        let descriptions =
            found.iter().map(|program| program.description.split(": ").next().unwrap_or_default().to_owned());
        descriptions.collect::<Vec<_>>()
    };
    let ordinary = json!({
        "context": {"fileName": ["AGENTS.md", "GEMINI.md"], "fileFiltering": {"respectGitIgnore": false}},
        "general": {"vimMode": true, "preferredEditor": "vim"},
        "mcpServers": {"birds": {"command": "birds"}},
        "model": {"name": "gemini-2.5-pro"},
        "tools": {"exclude": ["run_shell_command"]},
        "ui": {"theme": "dark"}
    });
    assert_eq!(found_settings(ordinary), Vec::<String>::new());
    let hostile = json!({
        "adminPolicyPaths": ["/p/evil"],
        "context": {"fileName": "AGENTS.md", "includeDirectories": ["/"]},
        "hooks": {"BeforeAgent": []},
        "ide": {"enabled": true},
        "modelConfigs": {"customOverrides": [1]},
        "tools": {"allowed": ["run_shell_command"], "sandbox": false},
        "telemetry": {"enabled": true}
    });
    let expected = [
        "gemini, adminPolicyPaths",
        "gemini, context.includeDirectories",
        "gemini, hooks",
        "gemini, ide",
        "gemini, modelConfigs",
        "gemini, tools.allowed",
        "gemini, tools.sandbox",
        "gemini, telemetry.enabled",
    ];
    assert_eq!(found_settings(hostile), expected);
}

/// Returns the settings of a run in a directory, if it has its own.
fn run_settings(directory: &Path) -> Result<Option<Value>, PrepareError> {
    let mut spec = test_fixtures::spec("gemini");
    spec.directory = directory.display().to_string();
    spec.project = spec.directory.clone();
    let found = test_fixtures::located_program(&["gemini"]);
    let context = test_fixtures::launch_context(Some(&found));
    let mut launch = test_fixtures::process_launch_in(&VENDOR, &context, &spec)?;
    let user = UserEnvironment { home: directory.parent(), variable: &|_| None };
    VENDOR.apply_user_environment(&spec, &mut launch, &context, &user)?;
    let file = launch.files.iter().find(|file| file.name.ends_with("settings.json"));
    Ok(file.map(|file| serde_json::from_slice(&file.content).unwrap()))
}

#[test]
fn variables_of_a_project_are_left_out_except_for_keys_and_models() {
    let temp = tempfile::tempdir().unwrap();
    let home = temp.path().canonicalize().unwrap().join("home");
    let project = home.join("work");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(home.join(".env"), "HTTPS_PROXY=http://users-own\n").unwrap();
    std::fs::write(project.join(".env"), "GEMINI_API_KEY=k\n").unwrap();
    assert_eq!(run_settings(&project), Ok(None));
    std::fs::write(project.join(".env"), "GEMINI_API_KEY=k\nHTTPS_PROXY: http://x\n").unwrap();
    let settings = run_settings(&project).unwrap().unwrap();
    let excluded = settings["advanced"]["excludedEnvVars"].as_array().unwrap();
    assert_eq!((excluded.first(), excluded.last()), (Some(&json!("DEBUG")), Some(&json!("HTTPS_PROXY"))));
    assert_eq!(settings["advanced"]["ignoreLocalEnv"], Value::Null);
    let its_own = home.join("old.gemini");
    std::fs::create_dir_all(&its_own).unwrap();
    std::fs::write(its_own.join(".env"), "HTTPS_PROXY=http://x\n").unwrap();
    let settings = run_settings(&its_own).unwrap().unwrap();
    assert_eq!(settings["advanced"], json!({"ignoreLocalEnv": true}));
    let above = temp.path().join(".gemini");
    std::fs::create_dir(&above).unwrap();
    std::fs::write(above.join(".env"), "GEMINI_CLI_IDE_SERVER_STDIO_COMMAND=touch\n").unwrap();
    let refused = run_settings(&project).unwrap_err();
    assert!(refused.reason.contains("GEMINI_CLI_IDE_SERVER_STDIO_COMMAND"), "{refused:?}");
}

#[test]
fn with_fallbacks_retries_are_limited() {
    let home = tempfile::tempdir().unwrap();
    let attempts = |settings: &str| {
        let mut spec = test_fixtures::spec("gemini");
        spec.fallbacks = vec![domain::run::ResolvedFallback {
            backend: spec.backend.clone(),
            model: None,
            settings: None,
        }];
        std::fs::create_dir_all(home.path().join(".gemini")).unwrap();
        std::fs::write(home.path().join(".gemini/settings.json"), settings).unwrap();
        let found = test_fixtures::located_program(&["gemini"]);
        let context = test_fixtures::launch_context(Some(&found));
        let mut launch = test_fixtures::process_launch_in(&VENDOR, &context, &spec).unwrap();
        let user = UserEnvironment { home: Some(home.path()), variable: &|_| None };
        VENDOR.apply_user_environment(&spec, &mut launch, &context, &user).unwrap();
        let file = launch.files.iter().find(|file| file.name.ends_with("settings.json")).unwrap();
        let settings: Value = serde_json::from_slice(&file.content).unwrap();
        settings["general"]["maxAttempts"].clone()
    };
    assert_eq!((attempts("{}"), attempts(r#"{"general": {"maxAttempts": 1}}"#)), (json!(3), json!(1)));
}

#[test]
fn a_system_policy_is_found() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(permission::system_policy(&folder.path().join("absent")), None);
    std::fs::write(folder.path().join("notes.md"), "").unwrap();
    assert_eq!(permission::system_policy(folder.path()), None);
    let file = folder.path().join("a.toml");
    std::fs::write(&file, "").unwrap();
    assert_eq!(permission::system_policy(folder.path()), Some(file));
}

#[test]
fn no_prompt_is_a_command_or_includes_a_file() {
    let launch = prepare(|spec| {
        spec.system_prompt = String::new();
        spec.prompt = "/quit @.env".to_owned();
    });
    assert_eq!(launch.unwrap().feed, StdinFeed::Whole(b"\n/quit \\@.env".to_vec()));
}

#[test]
fn arguments_that_would_grant_something_are_refused() {
    assert!(prepare(|spec| spec.setup.extra_args = vec!["--debug".to_owned()]).is_ok());
    for hostile in ["--yolo", "--policy=/tmp/mine", "--approval-mode=yolo", "x"] {
        let refused = prepare(|spec| spec.setup.extra_args = vec![hostile.to_owned()]);
        let reason = refused.err().map(|refused| refused.reason).unwrap_or_default();
        assert!(reason.contains("may not be given by an agent"), "{hostile}: {reason}");
    }
}

fn policy(change: impl FnOnce(&mut RunSpec)) -> String {
    let launch = prepare(change).unwrap();
    let file = launch.files.into_iter().find(|file| file.name == POLICY_FILE).unwrap();
    String::from_utf8(file.content).unwrap()
}

/// Returns the decision, the tools and the pattern of each rule, in the order of rank.
fn rules(policy: &str) -> Vec<(u16, String)> {
    let field = |rule: &str, name: &str| {
        let value = rule.lines().find_map(|line| line.strip_prefix(&format!("{name} = ")));
        value.unwrap_or_default().to_owned()
    };
    let rules = policy.split("[[rule]]").skip(1).map(|rule| {
        let decision = field(rule, "decision").trim_matches('"').to_owned();
        let [tools, server, pattern] = ["toolName", "mcpName", "argsPattern"].map(|name| field(rule, name));
        let fields = [decision, tools, server, pattern];
        (field(rule, "priority").parse().unwrap(), fields.join(" ").trim_end().to_owned())
    });
    let mut rules: Vec<(u16, String)> = rules.collect();
    rules.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    rules
}

#[test]
fn a_level_allows_its_tools_and_denies_the_rest() {
    let tools = |level| {
        let policy = policy(|spec| spec.setup.permission.level = level);
        assert_eq!(rules(&policy).last().unwrap(), &(960, "deny [\"*\"]".to_owned()));
        policy
    };
    let reader = tools(Some(Level::ReadOnly));
    assert!(reader.contains("\"read_file\"") && !reader.contains("\"write_file\""), "{reader}");
    for level in [None, Some(Level::SafeEdit)] {
        let editor = tools(level);
        assert!(editor.contains("\"write_file\"") && !editor.contains("run_shell_command"), "{editor}");
    }
    let free = tools(Some(Level::Yolo));
    assert_eq!(rules(&free)[0], (980, "allow [\"*\"]".to_owned()));
}

#[test]
fn rules_become_policy_rules_and_denials_come_first() {
    let policy = policy(|spec| {
        spec.setup.permission.level = Some(Level::ReadOnly);
        let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        spec.setup.permission.allow = rules(&["Edit(src/**)", "Bash(git log:*)", "mcp__files__read"]);
        spec.setup.permission.ask = rules(&["WebFetch"]);
        spec.setup.permission.deny = rules(&["Bash(rm *)"]);
    });
    let rules = rules(&policy);
    let texts: Vec<&str> = rules.iter().map(|(_, texts)| texts.as_str()).collect();
    assert_eq!(texts[0], r#"deny ["run_shell_command"]  "\\x00\"command\":\"rm [^\\x00]*\"\\x00""#);
    assert!(texts[1].starts_with(r#"deny ["write_file", "replace"]"#), "{}", texts[1]);
    assert_eq!(texts[2], r#"deny ["web_fetch"]"#);
    let edit =
        r#"allow ["write_file", "replace"]  "\\x00\"file_path\":\"(?:\\/p/|\\./|)src\\/[^\\x00]*\"\\x00""#;
    assert!(texts[3].starts_with("deny") && texts[3].contains(".[gG][iI][tT]"), "{}", texts[3]);
    assert_eq!(texts[4], edit);
    assert_eq!(texts[5], r#"allow ["run_shell_command"]  "\\x00\"command\":\"git log(?:[\\s\"]|\\\\)""#);
    assert_eq!(texts[6], r#"allow ["read"] "files""#);
}

#[test]
fn a_list_of_tools_narrows_what_level_and_rules_allow() {
    let policy = policy(|spec| {
        spec.setup.tools = Some(vec!["Read".to_owned(), "Bash".to_owned()]);
        spec.setup.permission.level = Some(Level::Yolo);
        spec.setup.permission.allow = vec!["WebFetch".parse().unwrap()];
    });
    assert!(policy.contains("\"read_file\"") && policy.contains("\"run_shell_command\""), "{policy}");
    assert!(!policy.contains("web_fetch") && !policy.contains("write_file"), "{policy}");
}

#[test]
fn edits_in_git_folders_are_denied_at_the_level_that_edits() {
    let denies =
        |level: Level| policy(|spec| spec.setup.permission.level = Some(level)).contains(".[gG][iI][tT]");
    assert_eq!([Level::ReadOnly, Level::SafeEdit, Level::Yolo].map(denies), [false, true, false]);
}

#[test]
fn only_a_rule_that_names_a_git_folder_allows_edits_there() {
    for level in [None, Some(Level::ReadOnly), Some(Level::SafeEdit)] {
        let ranked = |rule: &str| {
            let policy = policy(|spec| {
                spec.setup.permission.level = level;
                spec.setup.permission.allow = vec![rule.parse().unwrap()];
            });
            let rules = rules(&policy);
            let place = |of: &dyn Fn(&str) -> bool| rules.iter().position(|(_, text)| of(text));
            let allowed = place(&|text| text.starts_with(r#"allow ["write_file", "replace"]"#)).unwrap();
            let denied = place(&|text| text.starts_with("deny") && text.contains(".[gG][iI][tT]"));
            (allowed, denied)
        };
        for rule in ["Edit(**)", "Edit(src/**)"] {
            let (allowed, denied) = ranked(rule);
            assert!(denied.is_some_and(|denied| denied < allowed), "{rule} at {level:?}");
        }
        for rule in ["Edit(.git/**)", "Edit"] {
            let (allowed, denied) = ranked(rule);
            assert!(denied.is_none_or(|denied| allowed < denied), "{rule} at {level:?}");
        }
    }
}

#[test]
fn a_tool_by_its_own_name_brings_no_other_that_does_the_same() {
    let policy = policy(|spec| {
        spec.setup.tools = Some(vec!["read_file".to_owned(), "write_file".to_owned()]);
        spec.setup.permission.level = Some(Level::SafeEdit);
    });
    assert!(policy.contains("\"read_file\"") && policy.contains("\"write_file\""), "{policy}");
    assert!(!policy.contains("read_many_files") && !policy.contains("replace"), "{policy}");
}

#[test]
fn restrictions_keep_the_shortcut_past_all_checks_away() {
    let launch = prepare(|spec| {
        spec.setup.permission.level = Some(Level::Yolo);
        spec.setup.permission.deny = vec!["Bash(rm:*)".parse().unwrap()];
    });
    assert!(launch.unwrap().argv.contains(&"--approval-mode=default".to_owned()));
}

#[test]
fn rules_that_the_engine_cannot_express_are_reported() {
    let texts = ["Read(.env)", "Bash(rm:*)", "Edit(a/**)", "WebFetch(domain:x)", "Bash(a \"b\")", "Read"];
    let deny = texts.map(|rule| rule.parse().unwrap()).to_vec();
    let permission = Permission { deny, ..Permission::default() };
    let reported = VENDOR.unenforceable(&permission, &Value::Null);
    let expected =
        ["the rule deny Read(.env)", "the rule deny WebFetch(domain:x)", "the rule deny Bash(a \"b\")"];
    assert_eq!(reported, expected);
    // A grant that cannot be expressed only restricts the agent.
    let allow = texts.map(|rule| rule.parse().unwrap()).to_vec();
    let permission = Permission { allow, ..Permission::default() };
    assert_eq!(VENDOR.unenforceable(&permission, &Value::Null), [""; 0]);
    let reported = VENDOR.inexpressible_grants(&permission, &Value::Null);
    assert_eq!(reported, expected.map(|rule| rule.replace("deny", "allow")));
}

proptest! {
    #[test]
    fn no_rule_breaks_the_file_or_repeats_a_group(pattern in "[a-z*?(){}+\\[\\]/ .|^$-]{1,30}") {
        if let Ok(rule) = format!("Edit({pattern})").parse() {
            let policy = policy(|spec| spec.setup.permission.deny = vec![rule]);
            for line in policy.lines().filter_map(|line| line.strip_prefix("argsPattern = ")) {
                let expression: String = serde_json::from_str(line).unwrap();
                for repeated in [")*", ")+", ")?", "){"] {
                    prop_assert!(!expression.contains(repeated), "{expression}");
                }
            }
        }
    }
}

#[test]
fn the_agents_own_servers_may_be_used_within_its_list_of_tools() {
    let policy = |tools: Option<&[&str]>, level: Option<Level>| {
        let launch = prepare(|spec| {
            let url = domain::mcp_server::VariableText::from("http://x");
            let transport = domain::mcp_server::Transport::Http { url, headers: Default::default() };
            let server = domain::mcp_server::McpServer {
                name: "aviary".to_owned(),
                transport,
                tools: None,
                timeout_ms: None,
            };
            spec.setup.mcp_servers = vec![server];
            spec.setup.tools = tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect());
            spec.setup.permission.level = level;
        });
        String::from_utf8(launch.unwrap().files[0].content.clone()).unwrap()
    };
    let whole = "toolName = [\"*\"]\nmcpName = \"aviary\"\ndecision = \"allow\"";
    assert!(policy(None, None).contains(whole));
    assert!(policy(Some(&["read_file", "mcp_*"]), None).contains(whole));
    let one = policy(Some(&["mcp_aviary_count"]), None);
    assert!(one.contains("toolName = [\"count\"]\nmcpName = \"aviary\""), "{one}");
    assert!(!policy(Some(&["read_file"]), None).contains("aviary"));
    assert!(!policy(None, Some(Level::ReadOnly)).contains("aviary"));
}

#[test]
fn the_reason_for_a_late_answer_is_reported_if_it_never_comes() {
    let late = |stderr: &str| {
        let mut stream = GeminiStream::new(false);
        stream.feed(Pipe::Stderr, stderr.as_bytes());
        stream.conclude(Exit::Signal(15)).reports
    };
    let retries = |error, why: &str| {
        vec![AgentReport::Retrying { error, message: format!("gemini asks its model again: {why}") }]
    };
    let lost = "Error: exception TypeError: fetch failed sending request";
    let reports = late(&format!(
        "Ripgrep is not available.\nAttempt 1 failed. Retrying with backoff... {lost}\n    at frame\n"
    ));
    assert_eq!(reports, retries(ModelError::Unreachable, lost));
    let reports = late("Attempt 2 failed with status 503. Retrying with backoff... ApiError: full\n");
    assert_eq!(reports, retries(ModelError::Overloaded, "ApiError: full"));
    assert_eq!(late("Ripgrep is not available.\n"), []);
}
