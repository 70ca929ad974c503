//! Streams as Claude Code writes them: complete, cut and malformed.

use std::path::Path;

use domain::permission::Level;
use domain::permission::Permission;
use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, StdStream as Pipe, Usage};
use domain::setup::Setup;
use serde_json::{Value, json};

use super::reader::{ClaudeDialect, ClaudeStream};
use super::*;
use crate::contract::{
    AgentAnswer, AgentReport, Backend, Exit, LaunchPlan, OutputReader, PermissionDecision, PrepareError,
};
use crate::program::LocatedProgram;
use crate::test_fixtures::{self, json_lines, read_events};
use crate::vendor::Vendor;

fn reader(structured: bool, resumed: bool) -> ClaudeStream {
    ClaudeStream::new(
        if resumed { ClaudeDialect::for_resumed_session(None) } else { ClaudeDialect::for_new_session() },
        structured,
    )
}

fn message_event(text: &str) -> Value {
    json!({"type": "assistant", "parent_tool_use_id": null,
        "message": {"content": [{"type": "text", "text": text}]}})
}

fn result(more: &Value) -> Value {
    let mut event = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done",
        "session_id": "s-1", "total_cost_usd": 0.0006, "permission_denials": [],
        "usage": {"input_tokens": 100, "cache_read_input_tokens": 20, "output_tokens": 10},
        "modelUsage": {"m": {"costBasis": "list"}}});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

fn end(more: &Value) -> AgentEnd {
    read_events(reader(false, false), &[message_event("so far"), result(more)], Exit::Code(1)).1.end
}

#[test]
fn the_result_is_the_answer_and_carries_usage_and_session() {
    let (reports, conclusion) =
        read_events(reader(false, false), &[message_event("hello"), result(&json!({}))], Exit::Code(0));
    let cost = Some(Cost { microusd: 600, basis: CostBasis::Reported });
    let usage =
        Usage { input_tokens: 120, output_tokens: 10, cache_read_tokens: 20, cost, ..Usage::default() };
    let expected =
        [AgentReport::Text("hello\n".to_owned()), AgentReport::Used(usage), AgentReport::CloseInput];
    assert_eq!(reports, expected);
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, AgentAnswer::Text("done".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("s-1"));
}

#[test]
fn the_cost_of_a_session_is_not_reported_as_that_of_a_run() {
    let (reports, _) = read_events(reader(false, true), &[result(&json!({}))], Exit::Code(0));
    let usage = Usage { input_tokens: 120, output_tokens: 10, cache_read_tokens: 20, ..Usage::default() };
    assert_eq!(reports, [AgentReport::Used(usage), AgentReport::CloseInput]);
    let before = Usage { cost: Some(Cost { microusd: 400, basis: CostBasis::Reported }), ..Usage::default() };
    let known = ClaudeStream::new(ClaudeDialect::for_resumed_session(Some(before)), false);
    let (reports, _) = read_events(known, &[result(&json!({}))], Exit::Code(0));
    let cost = Some(Cost { microusd: 200, basis: CostBasis::Reported });
    assert_eq!(reports, [AgentReport::Used(Usage { cost, ..usage }), AgentReport::CloseInput]);
}

#[test]
fn usage_of_sub_agents_counts_for_the_run() {
    let model_usage = |input: u64, output: u64| {
        json!({"a": {"costBasis": "list", "inputTokens": input, "cacheReadInputTokens": 20, "outputTokens": output},
               "b": {"costBasis": "list", "inputTokens": 100, "outputTokens": 10}})
    };
    let whole = result(&json!({"modelUsage": model_usage(200, 20), "total_cost_usd": 0.0018}));
    let (reports, _) = read_events(reader(false, false), std::slice::from_ref(&whole), Exit::Code(0));
    let cost = |microusd| Some(Cost { microusd, basis: CostBasis::Reported });
    let used = Usage { input_tokens: 320, output_tokens: 30, cache_read_tokens: 20, ..Usage::default() };
    assert_eq!(reports[0], AgentReport::Used(Usage { cost: cost(1_800), ..used }));
    // The session continues, and so do its totals.
    let before = Usage { cost: cost(1_800), ..used };
    let more = result(&json!({"modelUsage": model_usage(700, 70), "total_cost_usd": 0.005}));
    let (reports, _) = read_events(
        ClaudeStream::new(ClaudeDialect::for_resumed_session(Some(before)), false),
        &[more],
        Exit::Code(0),
    );
    let own = Usage { input_tokens: 500, output_tokens: 50, cost: cost(3_200), ..Usage::default() };
    assert_eq!(reports[0], AgentReport::Used(own));
    // Without the earlier usage, only the usage that it reports for the run counts.
    let (reports, _) = read_events(reader(false, true), &[whole], Exit::Code(0));
    let reported = Usage { input_tokens: 120, output_tokens: 10, cache_read_tokens: 20, ..Usage::default() };
    assert_eq!(reports[0], AgentReport::Used(reported));
}

/// Another service has neither the models nor the prices of Claude Code.
#[test]
fn neither_price_nor_model_is_claude_codes_at_another_service() {
    let begin =
        |model: &str| json!({"type": "system", "subtype": "init", "session_id": "s-1", "model": model});
    let read_at = |model: &str| {
        let stream = ClaudeStream::new(ClaudeDialect::for_new_session().with_other_service(), false);
        read_events(stream, &[begin(model), result(&json!({}))], Exit::Code(0)).0
    };
    let reports_model =
        |reports: &[AgentReport]| reports.iter().any(|report| matches!(report, AgentReport::Model(_)));
    assert!(reports_model(&read_at("glm-4.6")) && !reports_model(&read_at("claude-opus-5-5")));
    let used = Usage { input_tokens: 120, output_tokens: 10, cache_read_tokens: 20, ..Usage::default() };
    assert!(read_at("glm-4.6").contains(&AgentReport::Used(used)));
}

#[test]
fn each_way_to_fail_has_its_name_whatever_subtype_and_exit_code_say() {
    let model = |error, more: &Value| {
        let message = "done".to_owned();
        assert_eq!(end(more), AgentEnd::Failed(Failure::Model { error, message }), "{more}");
    };
    let status =
        |status: u64| json!({"is_error": true, "terminal_reason": "api_error", "api_error_status": status});
    model(ModelError::Denied, &status(401));
    model(ModelError::RateLimit, &status(429));
    model(ModelError::Overloaded, &status(529));
    model(ModelError::BadRequest, &status(400));
    model(ModelError::TooLong, &json!({"is_error": true, "terminal_reason": "prompt_too_long"}));
    model(ModelError::Unreachable, &json!({"is_error": true, "api_error": "connection_failed"}));
    model(ModelError::Refusal, &json!({"is_error": true, "stop_reason": "refusal"}));
    assert_eq!(end(&json!({"subtype": "error_max_turns"})), AgentEnd::OverBudget(LimitName::Turns));
    assert_eq!(end(&json!({"subtype": "error_max_budget_usd"})), AgentEnd::OverBudget(LimitName::Cost));
    let aborted =
        json!({"subtype": "error_during_execution", "is_error": true, "result": null, "errors": ["aborted"]});
    assert_eq!(end(&aborted), AgentEnd::Failed(Failure::Agent { message: "aborted".to_owned() }));
    let unknown = "No conversation found with session ID: x";
    let lost =
        json!({"subtype": "error_during_execution", "is_error": true, "result": null, "errors": [unknown]});
    assert_eq!(end(&lost), AgentEnd::Failed(Failure::Session { reason: unknown.to_owned() }));
}

#[test]
fn a_stream_without_result_fails_and_keeps_the_partial_answer() {
    for (exit, failure) in [
        (Exit::Code(0), Failure::Output { reason: "the stream ended without its terminal event".to_owned() }),
        (Exit::Code(143), Failure::Exit { code: 143 }),
        (Exit::Signal(9), Failure::Signal { signal: 9 }),
    ] {
        let (_, conclusion) = read_events(reader(false, false), &[message_event("so far")], exit);
        assert_eq!(conclusion.end, AgentEnd::Failed(failure));
        assert_eq!(conclusion.answer, AgentAnswer::Text("so far\n".to_owned()));
    }
    let mut silent = reader(false, true);
    silent.feed(Pipe::Stderr, b"No conversation found with session ID: x\n");
    assert!(matches!(silent.conclude(Exit::Code(1)).end, AgentEnd::Failed(Failure::Session { .. })));
}

#[test]
fn usage_of_an_interrupted_run_comes_from_its_messages() {
    let piece = |event: Value| json!({"type": "stream_event", "parent_tool_use_id": null, "event": event});
    let start = |input: u64| {
        let usage = json!({"input_tokens": input, "cache_read_input_tokens": 5, "output_tokens": 1});
        piece(json!({"type": "message_start", "message": {"usage": usage}}))
    };
    let delta = |output: u64| piece(json!({"type": "message_delta", "usage": {"output_tokens": output}}));
    let events = [start(100), delta(10), start(200)];
    let (_, cut) = read_events(reader(false, false), &events, Exit::Signal(9));
    let used = Usage { input_tokens: 310, output_tokens: 11, cache_read_tokens: 10, ..Usage::default() };
    assert_eq!(cut.reports, [AgentReport::Used(used)]);
    let (_, whole) = read_events(reader(false, false), &[start(100), result(&json!({}))], Exit::Code(0));
    assert_eq!(whole.reports, [], "the result tells it");
}

#[test]
fn the_reason_for_a_late_answer_is_reported_once() {
    let again = |attempt: u64| json!({"type": "system", "subtype": "api_retry", "attempt": attempt, "error_status": 429, "error": "rate_limit"});
    let (reports, _) = read_events(reader(false, false), &[again(1), again(2)], Exit::Signal(9));
    let message = "claude asks its model again: 429 rate_limit".to_owned();
    assert_eq!(reports, [AgentReport::Retrying { error: ModelError::RateLimit, message }]);
    let silent = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": null, "error": "unknown"});
    let (reports, _) = read_events(reader(false, false), &[silent], Exit::Signal(9));
    let message = "claude asks its model again: no answer from its service (unknown)".to_owned();
    assert_eq!(reports, [AgentReport::Retrying { error: ModelError::Unreachable, message }]);
}

#[test]
fn a_requested_schema_requires_a_value() {
    let value = json!({"count": 3});
    let with = result(&json!({"structured_output": value}));
    let (_, conclusion) = read_events(reader(true, false), &[with], Exit::Code(0));
    assert_eq!((conclusion.end, conclusion.structured), (AgentEnd::Done, Some(value)));
    let (_, conclusion) = read_events(reader(true, false), &[result(&json!({}))], Exit::Code(0));
    assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Schema { .. })), "{conclusion:?}");
}

#[test]
fn permission_requests_are_reported_and_answered_in_the_programs_protocol() {
    let input = json!({"command": "ls"});
    let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": input});
    let event = json!({"type": "control_request", "request_id": "r1", "request": request});
    let mut stream = reader(false, false);
    let reports = stream.feed(Pipe::Stdout, &json_lines(&[event]));
    let ask = crate::contract::PermissionRequest {
        id: "r1".to_owned(),
        tool: "Bash".to_owned(),
        input: input.clone(),
    };
    assert_eq!(reports, [AgentReport::PermissionRequested(ask)]);
    let written = |reports: Vec<AgentReport>| match &reports[..] {
        [AgentReport::Write(bytes)] => serde_json::from_slice::<Value>(bytes).unwrap()["response"].clone(),
        other => panic!("{other:?}"),
    };
    let allowed = written(stream.decide("r1", &PermissionDecision::Allow(input.clone())));
    let response = json!({"behavior": "allow", "updatedInput": input});
    assert_eq!(allowed, json!({"subtype": "success", "request_id": "r1", "response": response}));
    let denied = written(stream.decide("r1", &PermissionDecision::Deny("no".to_owned())));
    assert_eq!(denied["response"], json!({"behavior": "deny", "message": "no"}));
    let other =
        json!({"type": "control_request", "request_id": "r2", "request": {"subtype": "hook_callback"}});
    assert_eq!(written(stream.feed(Pipe::Stdout, &json_lines(&[other])))["subtype"], json!("error"));
}

#[test]
fn tool_calls_denials_and_missing_servers_are_reported() {
    let init = json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m",
        "mcp_servers": [{"name": "a", "status": "connected"}, {"name": "b", "status": "failed"}]});
    let call = json!({"type": "assistant", "message": {"content":
        [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]}});
    let back = json!({"type": "user", "message": {"content":
        [{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [{"type": "text", "text": "no"}]}]}});
    let denial = result(&json!({"permission_denials": [{"tool_name": "Bash"}]}));
    let (reports, _) = read_events(reader(false, false), &[init, call, back, denial], Exit::Code(0));
    assert_eq!(reports[..2], [AgentReport::Session("s".to_owned()), AgentReport::Model("m".to_owned())]);
    assert_eq!(reports[2], AgentReport::Warned("the MCP server b is not there: failed".to_owned()));
    let (id, name) = ("t1".to_owned(), "Read".to_owned());
    assert_eq!(reports[3], AgentReport::ToolCalled { id: id.clone(), name, input: json!({}) });
    assert_eq!(reports[4], AgentReport::ToolReturned { id, ok: false, output: "no".to_owned() });
    assert_eq!(reports[6], test_fixtures::denied_report("", "Bash", "by the settings of claude"));
}

#[test]
fn a_denial_by_claude_before_one_by_volery_is_reported() {
    let write =
        json!({"tool_name": "Write", "tool_use_id": "t1", "tool_input": {"file_path": "secret/a.txt"}});
    let bash =
        |id: &str| json!({"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": "touch z"}});
    let by_claude =
        |id: &str, tool: &str| test_fixtures::denied_report(id, tool, "by the settings of claude");
    for call_id in [json!("t2"), Value::Null] {
        let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "touch z"},
            "tool_use_id": call_id});
        let mut stream = reader(false, false);
        let event = json!({"type": "control_request", "request_id": "r1", "request": request});
        stream.feed(Pipe::Stdout, &json_lines(&[event]));
        stream.decide("r1", &PermissionDecision::Deny("no".to_owned()));
        let end = result(&json!({"permission_denials": [write, bash("t2"), bash("t3")]}));
        let reports = stream.feed(Pipe::Stdout, &json_lines(&[end]));
        let denied = reports.into_iter().filter(|report| matches!(report, AgentReport::Denied { .. }));
        let expected = [by_claude("t1", "Write"), by_claude("t3", "Bash")];
        assert_eq!(denied.collect::<Vec<_>>(), expected, "{call_id}");
    }
}

fn argv(change: impl FnOnce(&mut domain::run::RunSpec)) -> Result<Vec<String>, PrepareError> {
    let claude = &VENDOR;
    prepare(claude, crate::contract::ProjectExecutables::On, change).map(|launch| launch.argv)
}

fn prepare(
    claude: &Vendor,
    project_executables: crate::contract::ProjectExecutables,
    change: impl FnOnce(&mut domain::run::RunSpec),
) -> Result<ProcessLaunch, PrepareError> {
    let mut spec = test_fixtures::spec("claude");
    change(&mut spec);
    let found = LocatedProgram { argv: vec!["/bin/claude".to_owned()], version: Some("2.1.325".to_owned()) };
    let context = LaunchContext {
        work_dir: Path::new("/w"),
        current_exe: Path::new("/bin/volery"),
        program: Some(&found),
        prior_session_usage: None,
        project_executables,
    };
    match claude.prepare(&spec, &context)? {
        LaunchPlan::Process(launch) => Ok(launch),
        LaunchPlan::Loop(_) | LaunchPlan::AgentLoop(_) => panic!("a process was expected"),
    }
}

#[test]
fn the_setup_becomes_options() {
    let plain = argv(|_| {}).unwrap();
    assert_eq!(plain[..2], ["/bin/claude", "-p"]);
    assert!(plain.contains(&"--strict-mcp-config".to_owned()), "{plain:?}");
    assert!(!plain.iter().any(|argument| argument.starts_with("--setting-sources")), "{plain:?}");
    let full = argv(|spec| {
        spec.model = Some("opus".to_owned());
        spec.session = Some("s-9".parse().unwrap());
        spec.setup.context = Context::None;
        spec.setup.max_turns = Some(3);
        spec.setup.permission.level = Some(Level::ReadOnly);
        spec.setup.permission.allow = vec!["Edit(docs/**)".parse().unwrap()];
        spec.setup.permission.deny = vec!["WebFetch".parse().unwrap()];
    })
    .unwrap();
    for argument in
        ["--model=opus", "--resume=s-9", "--setting-sources=", "--max-turns=3", "--disallowedTools=WebFetch"]
    {
        assert!(full.contains(&argument.to_owned()), "{argument} in {full:?}");
    }
}

#[test]
fn the_costs_of_several_results_are_reported_once() {
    let results = [0.0018, 0.0024].map(|cost| result(&json!({"total_cost_usd": cost})));
    let (reports, _) = read_events(reader(false, false), &results, Exit::Code(0));
    let costs = reports.iter().filter_map(|report| match report {
        AgentReport::Used(usage) => Some(usage.cost?.microusd),
        _ => None,
    });
    assert_eq!(costs.collect::<Vec<_>>(), [1_800, 600]);
}

#[test]
fn with_a_level_only_tools_that_are_known_are_offered() {
    let offered = |change: fn(&mut domain::run::RunSpec)| {
        let argv = argv(change).unwrap();
        argv.iter().find_map(|argument| argument.strip_prefix("--tools=").map(ToOwned::to_owned))
    };
    assert_eq!(offered(|_| {}), None);
    assert_eq!(offered(|spec| spec.setup.permission.level = Some(Level::Yolo)), None);
    for level in [Level::ReadOnly, Level::SafeEdit] {
        let mut permission = Permission { level: Some(level), ..Permission::default() };
        permission.allow = vec!["CronList".parse().unwrap(), "Bash(git log:*)".parse().unwrap()];
        let tools = permission::offered_tools(&Setup { permission, ..Setup::default() }).unwrap();
        assert!(["Read", "Write", "Bash", "CronList"].iter().all(|tool| tools.contains(&(*tool).to_owned())));
        let others = ["CronCreate", "EnterWorktree", "SendMessage", "ScheduleWakeup", "Workflow"];
        assert!(others.iter().all(|tool| !tools.contains(&(*tool).to_owned())), "{tools:?}");
    }
}

#[test]
fn a_prompt_is_literal_and_includes_no_file_against_a_rule() {
    let escaped = |prompt: &str, deny: &[&str]| {
        let deny = deny.iter().map(|rule| rule.parse().unwrap()).collect();
        literal_prompt(prompt, &Permission { deny, ..Permission::default() })
    };
    assert_eq!(escaped("/clear", &[]), "\\/clear");
    assert_eq!(escaped("see @a.md", &[]), "see @a.md");
    assert_eq!(escaped("see @a.md", &["Bash"]), "see @a.md");
    assert_eq!(escaped("see @a.md", &["Read"]), "see \\@a.md");
    assert_eq!(escaped("/see @a.md", &["Read(a.md)"]), "\n/see \\@a.md");
}

/// Returns the settings of a run, and the name of their file.
fn run_settings(claude: &Vendor, change: impl FnOnce(&mut domain::run::RunSpec)) -> Option<(String, Value)> {
    let launch = prepare(claude, crate::contract::ProjectExecutables::On, change).unwrap();
    let file = launch.files.iter().find(|file| file.name.ends_with("settings.json"))?;
    assert!(launch.argv.contains(&format!("--settings=/w/{}", file.name)), "{:?}", launch.argv);
    Some((file.name.clone(), serde_json::from_slice(&file.content).unwrap()))
}

#[test]
fn restricted_tools_need_confirmation_whatever_other_settings_allow() {
    let claude = &VENDOR;
    let confirmed = |change: fn(&mut domain::run::RunSpec)| {
        run_settings(claude, change).map(|(_, settings)| settings["permissions"]["ask"].to_string())
    };
    assert_eq!(confirmed(|_| {}), None);
    assert_eq!(confirmed(|spec| spec.setup.permission.level = Some(Level::Yolo)), None);
    let safe = confirmed(|spec| spec.setup.permission.level = Some(Level::SafeEdit)).unwrap();
    let all = r#"["Edit","NotebookEdit","Write","Bash","Monitor","PowerShell","WebFetch","WebSearch"]"#;
    assert_eq!(safe, all);
    let rule =
        confirmed(|spec| spec.setup.permission.deny = vec!["Bash(git push:*)".parse().unwrap()]).unwrap();
    assert_eq!(rule, r#"["Bash","Monitor","PowerShell"]"#);
    let read =
        confirmed(|spec| spec.setup.permission.ask = vec!["Read(secrets/**)".parse().unwrap()]).unwrap();
    assert_eq!(read, r#"["Read"]"#);
}

#[test]
fn named_settings_are_merged_below_those_of_the_run() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("theirs.json");
    std::fs::write(&path, r#"{"model": "opus", "permissions": {"ask": ["Read"], "allow": ["Bash"]}}"#)
        .unwrap();
    let mut spec = test_fixtures::spec("claude");
    spec.setup.vendor_settings = Some(path.display().to_string());
    spec.setup.permission.deny = vec!["WebFetch".parse().unwrap()];
    let claude = &VENDOR;
    let mut launch =
        prepare(claude, crate::contract::ProjectExecutables::On, |run| *run = spec.clone()).unwrap();
    let found = test_fixtures::launch_context(None);
    let user = UserEnvironment { home: None, variable: &|_| None };
    claude.apply_user_environment(&spec, &mut launch, &found, &user).unwrap();
    let file = launch.files.iter().find(|file| file.name == "secret-settings.json").unwrap();
    let mixed: Value = serde_json::from_slice(&file.content).unwrap();
    let expected = json!({"model": "opus", "permissions": {"ask": ["Read", "WebFetch"], "allow": ["Bash"]}});
    assert_eq!(mixed, expected);
    spec.setup.vendor_settings = Some("/nonexistent/settings.json".to_owned());
    assert!(claude.apply_user_environment(&spec, &mut launch, &found, &user).is_err());
}

#[test]
fn a_service_gets_its_key_in_its_own_variable() {
    let launch = prepare(&CLAUDE_KIMI, crate::contract::ProjectExecutables::On, |_| {}).unwrap();
    let set = |name: &str| launch.env_overrides.iter().filter(|(known, _)| known == name).collect::<Vec<_>>();
    let key = ("ANTHROPIC_API_KEY".to_owned(), EnvValue::FromVariable("KIMI_API_KEY".to_owned()));
    assert_eq!(set("ANTHROPIC_API_KEY"), [&key]);
    assert_eq!(set("ANTHROPIC_AUTH_TOKEN"), [&("ANTHROPIC_AUTH_TOKEN".to_owned(), EnvValue::Unset)]);
    let (_, settings) = run_settings(&CLAUDE_KIMI, |_| {}).unwrap();
    assert_eq!(settings["env"]["ANTHROPIC_API_KEY"], json!("${KIMI_API_KEY}"), "{settings}");
    assert_eq!(settings["env"]["ANTHROPIC_AUTH_TOKEN"], json!(""), "{settings}");
}

#[test]
fn another_service_gets_its_own_key_and_no_other() {
    let launch = prepare(&GLM, crate::contract::ProjectExecutables::On, |_| {}).unwrap();
    assert_eq!(launch.optional_env, COMMON_VARIABLES);
    let from = EnvValue::FromVariable("ZAI_API_KEY".to_owned());
    assert!(
        launch.env_overrides.contains(&("ANTHROPIC_AUTH_TOKEN".to_owned(), from)),
        "{:?}",
        launch.env_overrides
    );
    let (name, settings) = run_settings(&GLM, |_| {}).unwrap();
    assert_eq!(name, "secret-settings.json");
    assert_eq!(settings["env"]["ANTHROPIC_AUTH_TOKEN"], json!("${ZAI_API_KEY}"));
    assert_eq!(settings["env"]["ANTHROPIC_BASE_URL"], json!("https://api.z.ai/api/anthropic"));
    for other in ["ANTHROPIC_API_KEY", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_OAUTH_TOKEN"] {
        assert_eq!(settings["env"][other], json!(""), "{other}");
    }
    assert_eq!(settings["apiKeyHelper"], json!(""));
}

#[test]
fn the_settings_of_a_project_that_is_not_trusted_are_left_out_and_its_instructions_stay() {
    let claude = &VENDOR;
    let launch = prepare(claude, crate::contract::ProjectExecutables::Off, |_| {}).unwrap();
    for argument in ["--setting-sources=user", "--add-dir=/p"] {
        assert!(launch.argv.contains(&argument.to_owned()), "{argument} in {:?}", launch.argv);
    }
    let instructions = (INSTRUCTIONS_VARIABLE.to_owned(), EnvValue::Plain("1".to_owned()));
    assert!(launch.env_overrides.contains(&instructions), "{:?}", launch.env_overrides);
}

#[test]
fn arguments_that_would_grant_something_are_refused() {
    assert!(argv(|spec| spec.setup.extra_args = vec!["--debug".to_owned()]).is_ok());
    for argument in ["--dangerously-skip-permissions", "--permission-mode=bypassPermissions", "x"] {
        let refused = argv(|spec| spec.setup.extra_args = vec![argument.to_owned()]).unwrap_err();
        assert!(refused.reason.contains("may not be given by an agent"), "{refused}");
    }
    let all = ["--dangerously-skip-permissions", "--debug", "--fallback-model", "haiku", "--foo"];
    let refused =
        argv(|spec| spec.setup.extra_args = all.map(ToOwned::to_owned).to_vec()).unwrap_err().reason;
    let expected = "the arguments \"--dangerously-skip-permissions\", \"haiku\" (write \"--fallback-model=haiku\" if it is the \
                value), \"--foo\" may not be given by an agent; these may: --";
    assert!(refused.starts_with(expected), "{refused}");
}

#[test]
fn an_unfinished_message_is_part_of_the_answer_and_a_synthetic_one_is_not() {
    let piece = |text: &str| {
        json!({"type": "stream_event", "parent_tool_use_id": null,
            "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}})
    };
    let begin =
        json!({"type": "stream_event", "parent_tool_use_id": null, "event": {"type": "message_start"}});
    let made_up = json!({"type": "assistant", "parent_tool_use_id": null,
        "message": {"model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]}});
    let events =
        [begin.clone(), piece("whole"), message_event("whole"), begin, piece("ha"), piece("lf"), made_up];
    let (_, conclusion) = read_events(reader(false, false), &events, Exit::Code(143));
    assert_eq!(conclusion.answer, AgentAnswer::Text("whole\nhalf".to_owned()));
}

#[test]
fn a_call_of_a_missing_tool_is_reported_as_denied() {
    let line = |ok: bool| {
        let block = json!({"type": "tool_result", "tool_use_id": "t", "is_error": !ok,
            "content": "<tool_use_error>Error: No such tool available: Bash</tool_use_error>"});
        format!("{}\n", json!({"type": "user", "message": {"content": [block]}}))
    };
    let warned = |ok| {
        let reports = reader(false, false).feed(Pipe::Stdout, line(ok).as_bytes());
        reports
            .iter()
            .any(|report| *report == test_fixtures::denied_report("t", "Bash", "the agent has no such tool"))
    };
    assert_eq!((warned(false), warned(true)), (true, false));
}

#[test]
fn with_fallbacks_retries_are_limited() {
    let claude = &VENDOR;
    let mut spec = test_fixtures::spec("claude");
    spec.fallbacks =
        vec![domain::run::ResolvedFallback { backend: spec.backend.clone(), model: None, settings: None }];
    let found = test_fixtures::located_program(&["claude"]);
    let context = test_fixtures::launch_context(Some(&found));
    let retries = |users: Option<&str>| {
        let mut launch = test_fixtures::process_launch_in(claude, &context, &spec).unwrap();
        let value = |_: &str| users.map(Into::into);
        claude
            .apply_user_environment(
                &spec,
                &mut launch,
                &context,
                &UserEnvironment { home: None, variable: &value },
            )
            .unwrap();
        launch.env_overrides.iter().any(|(name, _)| name == "CLAUDE_CODE_MAX_RETRIES")
    };
    assert_eq!((retries(None), retries(Some("0"))), (true, false));
}

#[test]
fn an_inheriting_agent_uses_the_mode_of_its_level_and_the_users_rules() {
    let all = |level: Level| {
        prepare(&VENDOR, crate::contract::ProjectExecutables::On, |spec| {
            spec.setup.permission.level = Some(level);
            spec.setup.inherit = domain::inherit::Inherited::ALL.into();
        })
        .unwrap()
    };
    for (level, mode) in
        [(Level::ReadOnly, "plan"), (Level::SafeEdit, "acceptEdits"), (Level::Yolo, "default")]
    {
        let launch = all(level);
        assert!(launch.argv.contains(&format!("--permission-mode={mode}")), "{:?}", launch.argv);
        for absent in ["--strict-mcp-config", "--tools=", "--disallowedTools="] {
            assert!(
                !launch.argv.iter().any(|argument| argument.starts_with(absent)),
                "{absent} in {:?}",
                launch.argv
            );
        }
        let settings = launch.files.iter().find(|file| file.name == "settings.json").unwrap();
        let settings: Value = serde_json::from_slice(&settings.content).unwrap();
        assert_eq!(settings, json!({"disabledMcpjsonServers": []}), "nothing is asked about");
    }
}

#[test]
fn keys_of_another_service_never_reach_this_one() {
    let launch = prepare(&GLM, crate::contract::ProjectExecutables::On, |_| {}).unwrap();
    for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK"] {
        assert!(launch.env_overrides.contains(&(name.to_owned(), EnvValue::Unset)), "{name}");
    }
}

#[test]
fn the_users_own_settings_are_not_withheld_in_the_home_directory() {
    let temp = tempfile::tempdir().unwrap();
    let home = temp.path().join("home");
    let project = home.join("project");
    for folder in [&home, &project] {
        std::fs::create_dir_all(folder.join(".claude")).unwrap();
        std::fs::write(folder.join(".claude/settings.json"), "{}").unwrap();
    }
    let user = UserEnvironment { home: Some(&home), variable: &|_| None };
    let mut spec = test_fixtures::spec("claude");
    let withheld = |spec: &RunSpec| super::user_settings::withheld_settings(spec, &user).join("\n");
    spec.directory = project.display().to_string();
    spec.project.clone_from(&spec.directory);
    assert!(withheld(&spec).contains("home/project/.claude/settings.json"), "{}", withheld(&spec));
    spec.directory = home.display().to_string();
    spec.project.clone_from(&spec.directory);
    assert_eq!(withheld(&spec), "");
    // A home behind a symbolic link is the same home.
    std::os::unix::fs::symlink(&home, temp.path().join("link")).unwrap();
    let user = UserEnvironment { home: Some(&temp.path().join("link")), variable: &|_| None };
    assert_eq!(super::user_settings::withheld_settings(&spec, &user), [""; 0]);
}
