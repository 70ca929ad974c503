//! Streams as Claude Code writes them, whole, cut and wrong.

use std::path::Path;

use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, Stream as Pipe, Usage};
use serde_json::{Value, json};

use super::reader::{Stream, Told};
use super::*;
use crate::contract::{Answer, Decision, Exit, Reader, Report};
use crate::program::Found;
use crate::sample::{self, lines, read};

fn reader(structured: bool, resumed: bool) -> Stream {
    Stream::new(if resumed { Told::after(None) } else { Told::anew() }, structured)
}

fn said(text: &str) -> Value {
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
    read(reader(false, false), &[said("so far"), result(more)], Exit::Code(1)).1.end
}

#[test]
fn the_result_is_the_answer_and_carries_usage_and_session() {
    let (reports, conclusion) =
        read(reader(false, false), &[said("hello"), result(&json!({}))], Exit::Code(0));
    let cost = Some(Cost { microusd: 600, basis: CostBasis::Reported });
    let usage =
        Usage { input_tokens: 120, output_tokens: 10, cache_read_tokens: 20, cost, ..Usage::default() };
    let expected = [Report::Said("hello\n".to_owned()), Report::Used(usage), Report::CloseInput];
    assert_eq!(reports, expected);
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, Answer::Text("done".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("s-1"));
}

#[test]
fn the_cost_of_a_whole_session_is_not_told_as_that_of_a_run() {
    let (reports, _) = read(reader(false, true), &[result(&json!({}))], Exit::Code(0));
    let usage = Usage { input_tokens: 120, output_tokens: 10, cache_read_tokens: 20, ..Usage::default() };
    assert_eq!(reports, [Report::Used(usage), Report::CloseInput]);
    let before = Usage { cost: Some(Cost { microusd: 400, basis: CostBasis::Reported }), ..Usage::default() };
    let known = Stream::new(Told::after(Some(before)), false);
    let (reports, _) = read(known, &[result(&json!({}))], Exit::Code(0));
    let cost = Some(Cost { microusd: 200, basis: CostBasis::Reported });
    assert_eq!(reports, [Report::Used(Usage { cost, ..usage }), Report::CloseInput]);
}

#[test]
fn what_agents_used_that_work_was_handed_to_is_the_runs_too() {
    let of_models = |input: u64, output: u64| {
        json!({"a": {"costBasis": "list", "inputTokens": input, "cacheReadInputTokens": 20, "outputTokens": output},
               "b": {"costBasis": "list", "inputTokens": 100, "outputTokens": 10}})
    };
    let whole = result(&json!({"modelUsage": of_models(200, 20), "total_cost_usd": 0.0018}));
    let (reports, _) = read(reader(false, false), std::slice::from_ref(&whole), Exit::Code(0));
    let cost = |microusd| Some(Cost { microusd, basis: CostBasis::Reported });
    let used = Usage { input_tokens: 320, output_tokens: 30, cache_read_tokens: 20, ..Usage::default() };
    assert_eq!(reports[0], Report::Used(Usage { cost: cost(1_800), ..used }));
    // The session goes on, and its figures with it.
    let before = Usage { cost: cost(1_800), ..used };
    let more = result(&json!({"modelUsage": of_models(700, 70), "total_cost_usd": 0.005}));
    let (reports, _) = read(Stream::new(Told::after(Some(before)), false), &[more], Exit::Code(0));
    let own = Usage { input_tokens: 500, output_tokens: 50, cost: cost(3_200), ..Usage::default() };
    assert_eq!(reports[0], Report::Used(own));
    // Without what was before, only what it calls the run's own.
    let (reports, _) = read(reader(false, true), &[whole], Exit::Code(0));
    let told = Usage { input_tokens: 120, output_tokens: 10, cache_read_tokens: 20, ..Usage::default() };
    assert_eq!(reports[0], Report::Used(told));
}

/// It sells no models of its own there.
#[test]
fn neither_price_nor_model_is_claude_codes_at_another_service() {
    let begin =
        |model: &str| json!({"type": "system", "subtype": "init", "session_id": "s-1", "model": model});
    let read_at = |model: &str| {
        let stream = Stream::new(Told::anew().at_another_service(), false);
        read(stream, &[begin(model), result(&json!({}))], Exit::Code(0)).0
    };
    let named = |reports: &[Report]| reports.iter().any(|report| matches!(report, Report::Model(_)));
    assert!(named(&read_at("glm-4.6")) && !named(&read_at("claude-opus-5-5")));
    let used = Usage { input_tokens: 120, output_tokens: 10, cache_read_tokens: 20, ..Usage::default() };
    assert!(read_at("glm-4.6").contains(&Report::Used(used)));
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
fn without_a_result_nothing_succeeded_and_what_was_said_is_kept() {
    for (exit, failure) in [
        (Exit::Code(0), Failure::Output { reason: "the stream ended without its terminal event".to_owned() }),
        (Exit::Code(143), Failure::Exit { code: 143 }),
        (Exit::Signal(9), Failure::Signal { signal: 9 }),
    ] {
        let (_, conclusion) = read(reader(false, false), &[said("so far")], exit);
        assert_eq!(conclusion.end, AgentEnd::Failed(failure));
        assert_eq!(conclusion.answer, Answer::Text("so far\n".to_owned()));
    }
    let mut silent = reader(false, true);
    silent.feed(Pipe::Stderr, b"No conversation found with session ID: x\n");
    assert!(matches!(silent.conclude(Exit::Code(1)).end, AgentEnd::Failed(Failure::Session { .. })));
}

#[test]
fn what_a_run_used_that_was_cut_short_is_told_by_its_messages() {
    let piece = |event: Value| json!({"type": "stream_event", "parent_tool_use_id": null, "event": event});
    let start = |input: u64| {
        let usage = json!({"input_tokens": input, "cache_read_input_tokens": 5, "output_tokens": 1});
        piece(json!({"type": "message_start", "message": {"usage": usage}}))
    };
    let delta = |output: u64| piece(json!({"type": "message_delta", "usage": {"output_tokens": output}}));
    let events = [start(100), delta(10), start(200)];
    let (_, cut) = read(reader(false, false), &events, Exit::Signal(9));
    let used = Usage { input_tokens: 310, output_tokens: 11, cache_read_tokens: 10, ..Usage::default() };
    assert_eq!(cut.reports, [Report::Used(used)]);
    let (_, whole) = read(reader(false, false), &[start(100), result(&json!({}))], Exit::Code(0));
    assert_eq!(whole.reports, [], "the result tells it");
}

#[test]
fn why_an_answer_is_late_is_told_once() {
    let again = |attempt: u64| json!({"type": "system", "subtype": "api_retry", "attempt": attempt, "error_status": 429, "error": "rate_limit"});
    let (reports, _) = read(reader(false, false), &[again(1), again(2)], Exit::Signal(9));
    let message = "claude asks its model again: 429 rate_limit".to_owned();
    assert_eq!(reports, [Report::Retries { error: ModelError::RateLimit, message }]);
    let silent = json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": null, "error": "unknown"});
    let (reports, _) = read(reader(false, false), &[silent], Exit::Signal(9));
    let message = "claude asks its model again: no answer from its service (unknown)".to_owned();
    assert_eq!(reports, [Report::Retries { error: ModelError::Unreachable, message }]);
}

#[test]
fn a_shape_that_was_asked_for_must_come() {
    let value = json!({"count": 3});
    let with = result(&json!({"structured_output": value}));
    let (_, conclusion) = read(reader(true, false), &[with], Exit::Code(0));
    assert_eq!((conclusion.end, conclusion.structured), (AgentEnd::Done, Some(value)));
    let (_, conclusion) = read(reader(true, false), &[result(&json!({}))], Exit::Code(0));
    assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Schema { .. })), "{conclusion:?}");
}

#[test]
fn a_question_about_a_tool_is_asked_and_answered_in_its_own_protocol() {
    let input = json!({"command": "ls"});
    let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": input});
    let event = json!({"type": "control_request", "request_id": "r1", "request": request});
    let mut stream = reader(false, false);
    let reports = stream.feed(Pipe::Stdout, &lines(&[event]));
    let ask = crate::contract::Ask { id: "r1".to_owned(), tool: "Bash".to_owned(), input: input.clone() };
    assert_eq!(reports, [Report::Asks(ask)]);
    let written = |reports: Vec<Report>| match &reports[..] {
        [Report::Write(bytes)] => serde_json::from_slice::<Value>(bytes).unwrap()["response"].clone(),
        other => panic!("{other:?}"),
    };
    let allowed = written(stream.decide("r1", &Decision::Allow(input.clone())));
    let response = json!({"behavior": "allow", "updatedInput": input});
    assert_eq!(allowed, json!({"subtype": "success", "request_id": "r1", "response": response}));
    let denied = written(stream.decide("r1", &Decision::Deny("no".to_owned())));
    assert_eq!(denied["response"], json!({"behavior": "deny", "message": "no"}));
    let other =
        json!({"type": "control_request", "request_id": "r2", "request": {"subtype": "hook_callback"}});
    assert_eq!(written(stream.feed(Pipe::Stdout, &lines(&[other])))["subtype"], json!("error"));
}

#[test]
fn tools_denials_and_missing_servers_are_told() {
    let init = json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m",
        "mcp_servers": [{"name": "a", "status": "connected"}, {"name": "b", "status": "failed"}]});
    let call = json!({"type": "assistant", "message": {"content":
        [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}]}});
    let back = json!({"type": "user", "message": {"content":
        [{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [{"type": "text", "text": "no"}]}]}});
    let denial = result(&json!({"permission_denials": [{"tool_name": "Bash"}]}));
    let (reports, _) = read(reader(false, false), &[init, call, back, denial], Exit::Code(0));
    assert_eq!(reports[..2], [Report::Session("s".to_owned()), Report::Model("m".to_owned())]);
    assert_eq!(reports[2], Report::Warned("the MCP server b is not there: failed".to_owned()));
    let (id, name) = ("t1".to_owned(), "Read".to_owned());
    assert_eq!(reports[3], Report::ToolCalled { id: id.clone(), name, input: json!({}) });
    assert_eq!(reports[4], Report::ToolReturned { id, ok: false, output: "no".to_owned() });
    assert_eq!(reports[6], sample::denied("", "Bash", "by the settings of claude"));
}

fn argv(change: impl FnOnce(&mut domain::run::RunSpec)) -> Result<Vec<String>, PrepareError> {
    let claude = Claude { name: "claude", service: None, prices: PriceList::Of("anthropic") };
    prepared(&claude, crate::contract::ProjectPrograms::On, change).map(|drive| drive.argv)
}

fn prepared(
    claude: &Claude,
    project_programs: crate::contract::ProjectPrograms,
    change: impl FnOnce(&mut domain::run::RunSpec),
) -> Result<ProcessDrive, PrepareError> {
    let mut spec = sample::spec("claude");
    change(&mut spec);
    let found = Found { argv: vec!["/bin/claude".to_owned()], version: Some("2.1.325".to_owned()) };
    let place = Place {
        work: Path::new("/w"),
        own_program: Path::new("/bin/volery"),
        found: Some(&found),
        session_used: None,
        project_programs,
    };
    match claude.prepare(&spec, &place)? {
        Drive::Process(drive) => Ok(drive),
        Drive::Loop(_) => panic!("a process was expected"),
    }
}

#[test]
fn what_the_agent_wants_becomes_options() {
    let plain = argv(|_| {}).unwrap();
    assert_eq!(plain[..2], ["/bin/claude", "-p"]);
    assert!(plain.contains(&"--strict-mcp-config".to_owned()), "{plain:?}");
    assert!(!plain.iter().any(|word| word.starts_with("--setting-sources")), "{plain:?}");
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
    for word in [
        "--model=opus",
        "--resume=s-9",
        "--setting-sources=",
        "--max-turns=3",
        "--disallowedTools=WebFetch,Bash",
    ] {
        assert!(full.contains(&word.to_owned()), "{word} in {full:?}");
    }
}

#[test]
fn the_costs_of_several_results_are_told_once() {
    let results = [0.0018, 0.0024].map(|cost| result(&json!({"total_cost_usd": cost})));
    let (reports, _) = read(reader(false, false), &results, Exit::Code(0));
    let costs = reports.iter().filter_map(|report| match report {
        Report::Used(usage) => Some(usage.cost?.microusd),
        _ => None,
    });
    assert_eq!(costs.collect::<Vec<_>>(), [1_800, 600]);
}

#[test]
fn with_a_level_only_tools_that_are_known_are_offered() {
    let offered = |change: fn(&mut domain::run::RunSpec)| {
        let argv = argv(change).unwrap();
        argv.iter().find_map(|word| word.strip_prefix("--tools=").map(ToOwned::to_owned))
    };
    assert_eq!(offered(|_| {}), None);
    assert_eq!(offered(|spec| spec.setup.permission.level = Some(Level::Yolo)), None);
    for level in [Level::ReadOnly, Level::SafeEdit] {
        let mut permission = Permission { level: Some(level), ..Permission::default() };
        permission.allow = vec!["CronList".parse().unwrap(), "Bash(git log:*)".parse().unwrap()];
        let tools = super::offered(&Setup { permission, ..Setup::default() }).unwrap();
        assert!(["Read", "Write", "Bash", "CronList"].iter().all(|tool| tools.contains(&(*tool).to_owned())));
        let others = ["CronCreate", "EnterWorktree", "SendMessage", "ScheduleWakeup", "Workflow"];
        assert!(others.iter().all(|tool| !tools.contains(&(*tool).to_owned())), "{tools:?}");
    }
}

#[test]
fn a_prompt_is_words_and_names_no_file_past_a_rule() {
    let told = |prompt: &str, deny: &[&str]| {
        let deny = deny.iter().map(|rule| rule.parse().unwrap()).collect();
        as_words(prompt, &Permission { deny, ..Permission::default() })
    };
    assert_eq!(told("/clear", &[]), "\\/clear");
    assert_eq!(told("see @a.md", &[]), "see @a.md");
    assert_eq!(told("see @a.md", &["Bash"]), "see @a.md");
    assert_eq!(told("see @a.md", &["Read"]), "see \\@a.md");
    assert_eq!(told("/see @a.md", &["Read(a.md)"]), "\n/see \\@a.md");
}

/// Returns the settings that a run is given, and the name of their file.
fn settings_of(claude: &Claude, change: impl FnOnce(&mut domain::run::RunSpec)) -> Option<(String, Value)> {
    let drive = prepared(claude, crate::contract::ProjectPrograms::On, change).unwrap();
    let file = drive.files.iter().find(|file| file.name.ends_with("settings.json"))?;
    assert!(drive.argv.contains(&format!("--settings=/w/{}", file.name)), "{:?}", drive.argv);
    Some((file.name.clone(), serde_json::from_slice(&file.content).unwrap()))
}

#[test]
fn what_a_permission_speaks_of_is_asked_for_whatever_other_settings_allow() {
    let claude = Claude { name: "claude", service: None, prices: PriceList::Of("anthropic") };
    let asked = |change: fn(&mut domain::run::RunSpec)| {
        settings_of(&claude, change).map(|(_, settings)| settings["permissions"]["ask"].to_string())
    };
    assert_eq!(asked(|_| {}), None);
    assert_eq!(asked(|spec| spec.setup.permission.level = Some(Level::Yolo)), None);
    let safe = asked(|spec| spec.setup.permission.level = Some(Level::SafeEdit)).unwrap();
    let all = r#"["Edit","NotebookEdit","Write","Bash","Monitor","PowerShell","WebFetch","WebSearch"]"#;
    assert_eq!(safe, all);
    let rule = asked(|spec| spec.setup.permission.deny = vec!["Bash(git push:*)".parse().unwrap()]).unwrap();
    assert_eq!(rule, r#"["Bash","Monitor","PowerShell"]"#);
    let read = asked(|spec| spec.setup.permission.ask = vec!["Read(secrets/**)".parse().unwrap()]).unwrap();
    assert_eq!(read, r#"["Read"]"#);
}

#[test]
fn settings_that_somebody_names_are_kept_below_those_of_the_run() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("theirs.json");
    std::fs::write(&path, r#"{"model": "opus", "permissions": {"ask": ["Read"], "allow": ["Bash"]}}"#)
        .unwrap();
    let mut spec = sample::spec("claude");
    spec.setup.vendor_settings = Some(path.display().to_string());
    spec.setup.permission.deny = vec!["WebFetch".parse().unwrap()];
    let claude = Claude { name: "claude", service: None, prices: PriceList::Of("anthropic") };
    let mut drive =
        prepared(&claude, crate::contract::ProjectPrograms::On, |run| *run = spec.clone()).unwrap();
    let found = sample::place(None);
    let user = User { home: None, value: &|_| None };
    claude.adapt(&spec, &mut drive, &found, &user).unwrap();
    let file = drive.files.iter().find(|file| file.name == "secret-settings.json").unwrap();
    let mixed: Value = serde_json::from_slice(&file.content).unwrap();
    let expected = json!({"model": "opus", "permissions": {"ask": ["Read", "WebFetch"], "allow": ["Bash"]}});
    assert_eq!(mixed, expected);
    spec.setup.vendor_settings = Some("/nonexistent/settings.json".to_owned());
    assert!(claude.adapt(&spec, &mut drive, &found, &user).is_err());
}

fn service(address: &'static str, key_variable: &'static str) -> Endpoint {
    Endpoint { address, key: "SERVICE_KEY", key_variable }
}

#[test]
fn a_service_is_given_its_key_by_the_variable_that_it_wants() {
    let service = Some(service("https://service.example", "ANTHROPIC_API_KEY"));
    let kimi = Claude { name: "claude-kimi", service, prices: PriceList::ByModel };
    let drive = prepared(&kimi, crate::contract::ProjectPrograms::On, |_| {}).unwrap();
    let set = |name: &str| drive.set.iter().filter(|(known, _)| known == name).collect::<Vec<_>>();
    let key = ("ANTHROPIC_API_KEY".to_owned(), Setting::From("SERVICE_KEY".to_owned()));
    assert_eq!(set("ANTHROPIC_API_KEY"), [&key]);
    assert_eq!(set("ANTHROPIC_AUTH_TOKEN"), [&("ANTHROPIC_AUTH_TOKEN".to_owned(), Setting::Unset)]);
    let (_, settings) = settings_of(&kimi, |_| {}).unwrap();
    assert_eq!(settings["env"]["ANTHROPIC_API_KEY"], json!("${SERVICE_KEY}"), "{settings}");
    assert_eq!(settings["env"]["ANTHROPIC_AUTH_TOKEN"], json!(""), "{settings}");
}

#[test]
fn another_service_gets_its_own_key_and_no_other() {
    let service = Some(service("https://service.example", "ANTHROPIC_AUTH_TOKEN"));
    let glm = Claude { name: "glm", service, prices: PriceList::Of("zai") };
    let drive = prepared(&glm, crate::contract::ProjectPrograms::On, |_| {}).unwrap();
    assert_eq!(drive.known_env, OF_NO_SERVICE);
    let from = Setting::From("SERVICE_KEY".to_owned());
    assert!(drive.set.contains(&("ANTHROPIC_AUTH_TOKEN".to_owned(), from)), "{:?}", drive.set);
    let (name, settings) = settings_of(&glm, |_| {}).unwrap();
    assert_eq!(name, "secret-settings.json");
    assert_eq!(settings["env"]["ANTHROPIC_AUTH_TOKEN"], json!("${SERVICE_KEY}"));
    assert_eq!(settings["env"]["ANTHROPIC_BASE_URL"], json!("https://service.example"));
    for other in ["ANTHROPIC_API_KEY", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_OAUTH_TOKEN"] {
        assert_eq!(settings["env"][other], json!(""), "{other}");
    }
    assert_eq!(settings["apiKeyHelper"], json!(""));
}

#[test]
fn the_settings_of_a_project_that_is_not_trusted_are_left_out_and_its_instructions_stay() {
    let claude = Claude { name: "claude", service: None, prices: PriceList::Of("anthropic") };
    let drive = prepared(&claude, crate::contract::ProjectPrograms::Off, |_| {}).unwrap();
    for word in ["--setting-sources=user", "--add-dir=/p"] {
        assert!(drive.argv.contains(&word.to_owned()), "{word} in {:?}", drive.argv);
    }
    let named = (NAMED_INSTRUCTIONS.to_owned(), Setting::Plain("1".to_owned()));
    assert!(drive.set.contains(&named), "{:?}", drive.set);
}

#[test]
fn arguments_that_would_grant_something_are_refused() {
    assert!(argv(|spec| spec.setup.extra_args = vec!["--debug".to_owned()]).is_ok());
    for sly in ["--dangerously-skip-permissions", "--permission-mode=bypassPermissions", "x"] {
        let refused = argv(|spec| spec.setup.extra_args = vec![sly.to_owned()]).unwrap_err();
        assert!(refused.reason.contains("may not be given by an agent"), "{refused}");
    }
    let all = ["--dangerously-skip-permissions", "--debug", "--fallback-model", "haiku", "--foo"];
    let refused =
        argv(|spec| spec.setup.extra_args = all.map(ToOwned::to_owned).to_vec()).unwrap_err().reason;
    let told = "the arguments \"--dangerously-skip-permissions\", \"haiku\" (write \"--fallback-model=haiku\" if it is the \
                value), \"--foo\" may not be given by an agent; these may: --";
    assert!(refused.starts_with(told), "{refused}");
}

#[test]
fn what_was_said_of_an_unfinished_message_is_kept_and_a_made_up_one_is_not() {
    let piece = |text: &str| {
        json!({"type": "stream_event", "parent_tool_use_id": null,
            "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}})
    };
    let begin =
        json!({"type": "stream_event", "parent_tool_use_id": null, "event": {"type": "message_start"}});
    let made_up = json!({"type": "assistant", "parent_tool_use_id": null,
        "message": {"model": "<synthetic>", "content": [{"type": "text", "text": "API Error"}]}});
    let events = [begin.clone(), piece("whole"), said("whole"), begin, piece("ha"), piece("lf"), made_up];
    let (_, conclusion) = read(reader(false, false), &events, Exit::Code(143));
    assert_eq!(conclusion.answer, Answer::Text("whole\nhalf".to_owned()));
}

#[test]
fn a_tool_that_the_agent_does_not_have_is_told_as_denied() {
    let line = |ok: bool| {
        let block = json!({"type": "tool_result", "tool_use_id": "t", "is_error": !ok,
            "content": "<tool_use_error>Error: No such tool available: Bash</tool_use_error>"});
        format!("{}\n", json!({"type": "user", "message": {"content": [block]}}))
    };
    let warned = |ok| {
        let reports = reader(false, false).feed(Pipe::Stdout, line(ok).as_bytes());
        reports.iter().any(|report| *report == sample::denied("t", "Bash", "the agent has no such tool"))
    };
    assert_eq!((warned(false), warned(true)), (true, false));
}

#[test]
fn where_there_are_fallbacks_a_service_is_soon_given_up() {
    let claude = Claude { name: "claude", service: None, prices: PriceList::Of("anthropic") };
    let mut spec = sample::spec("claude");
    spec.alternatives =
        vec![domain::run::Alternative { backend: spec.backend.clone(), model: None, settings: None }];
    let found = sample::found(&["claude"]);
    let place = sample::place(Some(&found));
    let retries = |users: Option<&str>| {
        let mut drive = sample::drive_in(&claude, &place, &spec).unwrap();
        let value = |_: &str| users.map(Into::into);
        claude.adapt(&spec, &mut drive, &place, &User { home: None, value: &value }).unwrap();
        drive.set.iter().any(|(name, _)| name == "CLAUDE_CODE_MAX_RETRIES")
    };
    assert_eq!((retries(None), retries(Some("0"))), (true, false));
}

#[test]
fn an_agent_that_inherits_goes_by_the_mode_of_its_level_and_by_its_users_rules() {
    let all = |level: Level| {
        prepared(
            &Claude { name: "claude", service: None, prices: PriceList::Of("anthropic") },
            crate::contract::ProjectPrograms::On,
            |spec| {
                spec.setup.permission.level = Some(level);
                spec.setup.inherit = domain::inherit::Inherited::ALL.into();
            },
        )
        .unwrap()
    };
    for (level, mode) in
        [(Level::ReadOnly, "plan"), (Level::SafeEdit, "acceptEdits"), (Level::Yolo, "default")]
    {
        let drive = all(level);
        assert!(drive.argv.contains(&format!("--permission-mode={mode}")), "{:?}", drive.argv);
        for absent in ["--strict-mcp-config", "--tools=", "--disallowedTools="] {
            assert!(!drive.argv.iter().any(|word| word.starts_with(absent)), "{absent} in {:?}", drive.argv);
        }
        let settings = drive.files.iter().find(|file| file.name == "settings.json").unwrap();
        let settings: Value = serde_json::from_slice(&settings.content).unwrap();
        assert_eq!(settings, json!({"disabledMcpjsonServers": []}), "nothing is asked about");
    }
}

#[test]
fn keys_of_another_service_never_reach_this_one() {
    let claude = Claude {
        name: "glm",
        service: Some(service("https://s", "ANTHROPIC_AUTH_TOKEN")),
        prices: PriceList::ByModel,
    };
    let drive = prepared(&claude, crate::contract::ProjectPrograms::On, |_| {}).unwrap();
    for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK"] {
        assert!(drive.set.contains(&(name.to_owned(), Setting::Unset)), "{name}");
    }
}
