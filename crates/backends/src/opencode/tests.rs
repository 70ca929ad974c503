//! Streams as opencode writes them: complete, cut and malformed, and translated permissions.

use domain::permission::Permission;
use domain::permission::Unenforceable;
use domain::run::{AgentEnd, Cost, CostBasis, Failure, ModelError, StdStream as Pipe, Usage};
use serde_json::{Value, json};

use super::reader::OpencodeStream;
use super::*;
use crate::contract::{AgentAnswer, AgentReport, Backend, Conclusion, Exit, OutputReader, PrepareError};
use crate::line_splitter::LINE_BYTES_MAX;
use crate::program::LocatedProgram;
use crate::test_fixtures::{self, json_lines};
use crate::user_environment::ProjectFolders;

fn event(kind: &str, part: &Value) -> Value {
    json!({"type": kind, "sessionID": "ses_1", "part": part})
}

fn message_event(text: &str) -> Value {
    event("text", &json!({"text": text}))
}

fn finish(reason: &str) -> Value {
    let tokens = json!({"input": 100, "output": 10, "reasoning": 5, "cache": {"read": 20, "write": 0}});
    event("step_finish", &json!({"reason": reason, "tokens": tokens, "cost": 0.00012}))
}

fn start() -> Value {
    event("step_start", &json!({}))
}

fn read(events: &[Value], exit: Exit) -> (Vec<AgentReport>, Conclusion) {
    test_fixtures::read_events(OpencodeStream::new(false), events, exit)
}

fn end(events: &[Value], exit: Exit) -> AgentEnd {
    read(events, exit).1.end
}

#[test]
fn the_text_of_the_last_step_is_the_answer_and_steps_are_summed() {
    let events = [
        start(),
        message_event("Let me."),
        finish("tool-calls"),
        start(),
        message_event("Done."),
        finish("stop"),
    ];
    let (reports, conclusion) = read(&events, Exit::Code(0));
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, AgentAnswer::Text("Done.".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("ses_1"));
    assert_eq!(reports[0], AgentReport::Session("ses_1".to_owned()));
    let cost = Some(Cost { microusd: 120, basis: CostBasis::Reported });
    let tokens = Usage { input_tokens: 120, output_tokens: 15, cache_read_tokens: 20, ..Usage::default() };
    let usage = AgentReport::Used(Usage { cost, ..tokens });
    assert_eq!(reports.iter().filter(|report| **report == usage).count(), 2);
}

#[test]
fn a_run_that_a_refusal_ended_did_not_succeed_although_it_exits_with_zero() {
    let events = [start(), message_event("Let me."), finish("tool-calls")];
    let (_, conclusion) = read(&events, Exit::Code(0));
    assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Agent { .. })), "{conclusion:?}");
    assert_eq!(conclusion.answer, AgentAnswer::Text("Let me.\n".to_owned()));
    assert!(matches!(end(&[start(), finish("length")], Exit::Code(0)), AgentEnd::Failed(_)));
}

#[test]
fn a_step_without_end_is_cut() {
    let flood = message_event(&"x".repeat(LINE_BYTES_MAX / 2));
    let (reports, conclusion) =
        read(&[start(), flood.clone(), flood.clone(), flood, finish("stop")], Exit::Code(0));
    assert_eq!(conclusion.answer, AgentAnswer::Text("x".repeat(LINE_BYTES_MAX)));
    assert!(reports.contains(&AgentReport::Warned("the answer was too long and was cut".to_owned())));
}

#[test]
fn each_error_has_its_name() {
    let model = |error: Value| {
        let event = json!({"type": "error", "sessionID": "ses_1", "error": error});
        match end(&[start(), event], Exit::Code(1)) {
            AgentEnd::Failed(Failure::Model { error, .. }) => error,
            other => panic!("{other:?}"),
        }
    };
    let api = |status: u64| json!({"name": "APIError", "data": {"message": "m", "statusCode": status}});
    assert_eq!(model(api(400)), ModelError::BadRequest);
    assert_eq!(model(api(401)), ModelError::Denied);
    assert_eq!(model(api(429)), ModelError::RateLimit);
    assert_eq!(model(api(503)), ModelError::Overloaded);
    assert_eq!(model(json!({"name": "APIError", "data": {"message": "cut"}})), ModelError::Other);
    assert_eq!(model(json!({"name": "ProviderAuthError", "data": {}})), ModelError::Denied);
    assert_eq!(model(json!({"name": "ContextOverflowError", "data": {}})), ModelError::TooLong);
    let unknown = json!({"type": "error", "error": {"name": "UnknownError", "data": {"message": "no"}}});
    assert_eq!(end(&[unknown], Exit::Code(1)), AgentEnd::Failed(Failure::Agent { message: "no".to_owned() }));
}

#[test]
fn what_the_error_stream_says_counts_more_than_the_exit_code() {
    let end_with_stderr = |stderr: &str, exit| {
        let mut stream = OpencodeStream::new(false);
        stream.feed(Pipe::Stdout, &json_lines(&[start(), message_event("x"), finish("stop")]));
        stream.feed(Pipe::Stderr, stderr.as_bytes());
        stream.conclude(exit).end
    };
    let lost = end_with_stderr("\x1b[91m\x1b[1mError: \x1b[0mSession not found\n", Exit::Code(1));
    assert_eq!(lost, AgentEnd::Failed(Failure::Session { reason: "Error: Session not found".to_owned() }));
    let other = end_with_stderr("agent \"x\" not found. Falling back to default agent\n", Exit::Code(0));
    assert!(matches!(other, AgentEnd::Failed(Failure::Agent { .. })), "{other:?}");
    assert_eq!(end_with_stderr("", Exit::Code(3)), AgentEnd::Failed(Failure::Exit { code: 3 }));
    assert_eq!(end_with_stderr("", Exit::Signal(15)), AgentEnd::Failed(Failure::Signal { signal: 15 }));
    assert_eq!(end_with_stderr("", Exit::Code(0)), AgentEnd::Done);
}

#[test]
fn tool_calls_and_denials_are_reported() {
    let state = json!({"status": "error", "input": {"command": "ls"},
        "error": "The user has specified a rule which prevents you from using this specific tool call."});
    let events = [event("tool_use", &json!({"tool": "bash", "callID": "t1", "state": state}))];
    let (reports, _) = read(&events, Exit::Code(0));
    assert!(matches!(&reports[1], AgentReport::ToolCalled { name, .. } if name == "bash"), "{reports:?}");
    assert!(matches!(&reports[2], AgentReport::ToolReturned { ok: false, .. }), "{reports:?}");
    assert_eq!(reports[3], test_fixtures::denied_report("t1", "bash", "by the rules of this run"));
}

fn prepare(change: impl FnOnce(&mut domain::run::RunSpec)) -> Result<ProcessLaunch, PrepareError> {
    test_fixtures::process_launch(
        &VENDOR,
        &LocatedProgram {
            version: Some("1.18.33".to_owned()),
            ..test_fixtures::located_program(&["/bin/opencode"])
        },
        change,
    )
}

fn config(launch: &ProcessLaunch) -> Value {
    let found = launch.env_overrides.iter().find(|(name, _)| name == "OPENCODE_CONFIG_CONTENT");
    match found {
        Some((_, EnvValue::Plain(text))) => serde_json::from_str(text).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn permission(text: &str) -> Permission {
    serde_json::from_str(text).unwrap()
}

fn translated_json(text: &str) -> String {
    permission::translate(&permission(text), "", &[]).to_json()
}

const SAFE_DECISIONS: &str = r#""read":"allow","list":"allow","grep":"allow","glob":"allow""#;
const NOTES: &str = r#""todowrite":"allow","todoread":"allow","skill":"allow","lsp":"allow""#;
const INSIDE: &str = r#""external_directory":"deny","doom_loop":"deny""#;

#[test]
fn levels_become_decisions_and_never_ask() {
    assert_eq!(
        translated_json(r#"{"level": "read-only"}"#),
        format!("{{\"*\":\"deny\",{SAFE_DECISIONS},{NOTES},{INSIDE}}}")
    );
    let safe = format!("{{\"*\":\"deny\",{SAFE_DECISIONS},\"edit\":\"allow\",{NOTES},{INSIDE}}}");
    assert_eq!(translated_json(r#"{"level": "safe-edit"}"#), safe);
    assert_eq!(translated_json("{}"), safe);
    let yolo = translated_json(r#"{"level": "yolo"}"#);
    assert!(yolo.contains(r#""bash":"allow""#) && yolo.contains(r#""external_directory":"allow""#), "{yolo}");
    assert!(!translated_json(r#"{"ask": ["Bash", "Edit(x)"]}"#).contains("ask"));
}

#[test]
fn an_allowed_tool_of_a_kind_stays_if_the_others_are_denied() {
    let text = translated_json(
        r#"{"level": "read-only", "allow": ["read", "skill"], "deny": ["grep", "todowrite"]}"#,
    );
    for (key, action) in
        [("read", "allow"), ("skill", "allow"), ("lsp", "allow"), ("grep", "deny"), ("todoread", "deny")]
    {
        assert!(text.contains(&format!("\"{key}\":\"{action}\"")), "{key}: {text}");
    }
}

#[test]
fn a_denial_comes_after_what_it_overrules() {
    let rules = r#"{"allow": ["Bash(git:*)", "mcp__own"], "deny": ["Bash(git push:*)", "mcp__own__x"]}"#;
    let text = translated_json(rules);
    let bash = r#""bash":{"git":"allow","git *":"allow","git push":"deny","git push *":"deny"}"#;
    assert!(text.contains(bash), "{text}");
    assert!(text.ends_with(r#""own_x":"deny"}"#), "{text}");
    assert_eq!(translated_json(r#"{"level": "yolo", "deny": ["*"]}"#), r#"{"*":"deny"}"#);
    let edits = translated_json(r#"{"deny": ["Edit(.env)"]}"#);
    assert!(edits.contains(r#""edit":{"*":"allow",".env":"deny","*/.env":"deny"}"#), "{edits}");
}

#[test]
fn rules_that_its_patterns_cannot_express_are_reported() {
    let gaps = |text: &str| VENDOR.unenforceable(&permission(text), &Value::Null);
    assert_eq!(gaps(r#"{"allow": ["Edit(docs/**)", "Bash(ls)"], "deny": ["Read(.env)"]}"#), [""; 0]);
    let rules = r#"{"allow": ["Edit(docs/*)", "external_directory(~/x/**)"], "deny": ["WebFetch(x)"]}"#;
    assert_eq!(gaps(rules), ["the rule deny WebFetch(x)"]);
    let ungranted = VENDOR.inexpressible_grants(&permission(rules), &Value::Null);
    assert_eq!(ungranted, ["the rule allow Edit(docs/*)"]);
}

#[test]
fn external_directories_are_allowed_by_pattern() {
    let json = translated_json(
        r#"{"allow": ["external_directory(~/x/**)"], "deny": ["external_directory(~/x/y/**)"]}"#,
    );
    let expected = r#""external_directory":{"*":"deny","~/x/**":"allow","~/x/y/**":"deny"}"#;
    assert!(json.contains(expected), "{json}");
}

#[test]
fn the_system_prompt_is_appended_or_replaces_the_programs_own() {
    let appended = prepare(|_| {}).unwrap();
    assert_eq!(appended.feed, StdinFeed::Whole(b"do it".to_vec()));
    let value = config(&appended);
    assert_eq!(value["instructions"], json!(["/w/system.md"]));
    assert_eq!(value["share"], "disabled");
    let replaced = prepare(|spec| {
        spec.setup.prompt_mode = PromptMode::Replace;
        spec.setup.context = Context::None;
    })
    .unwrap();
    let value = config(&replaced);
    let agent = format!("volery-{}", test_fixtures::spec("opencode").id);
    assert_eq!(value["agent"][&agent]["prompt"], "{file:/w/system.md}");
    assert_eq!(value["permission"], value["agent"][&agent]["permission"]);
    assert!(replaced.env_overrides.iter().any(|(name, _)| name == "OPENCODE_DISABLE_PROJECT_CONFIG"));
}

#[test]
fn secrets_of_servers_are_in_files_and_not_in_the_environment() {
    let server =
        json!({"name": "own", "transport": {"stdio": {"command": "/s", "env": {"KEY": "${TOKEN}"}}}});
    let launch =
        prepare(|spec| spec.setup.mcp_servers = vec![serde_json::from_value(server).unwrap()]).unwrap();
    let mcp = &config(&launch)["mcp"]["own"];
    assert_eq!(mcp["environment"]["KEY"], "{file:/w/secret-value-1}");
    assert_eq!(mcp["command"], json!(["/s"]));
    assert_eq!(
        (launch.files[1].name.as_str(), &launch.files[1].variables[..]),
        ("secret-value-1", &["TOKEN".to_owned()][..])
    );
}

#[test]
fn arguments_that_would_grant_something_are_refused() {
    assert!(prepare(|spec| spec.setup.extra_args = vec!["--thinking".to_owned()]).is_ok());
    for hostile in ["--auto", "--attach=http://x", "--share"] {
        let refused = prepare(|spec| spec.setup.extra_args = vec![hostile.to_owned()]).err().unwrap();
        assert!(refused.reason.contains("may not be given by an agent"), "{refused}");
    }
}

#[test]
fn servers_of_the_user_and_the_project_are_disabled() {
    let others = ["a\"b".to_owned(), "c".to_owned()];
    let empty = config_with_disabled_servers("{\"x\":1,\"mcp\":{},\"y\":2}", &others);
    let value: Value = serde_json::from_str(&empty).unwrap();
    assert_eq!(value["mcp"], json!({"a\"b": {"enabled": false}, "c": {"enabled": false}}));
    let own = config_with_disabled_servers("{\"mcp\":{\"own\":{\"type\":\"local\"}}}", &others[1..]);
    let value: Value = serde_json::from_str(&own).unwrap();
    assert_eq!(value["mcp"], json!({"c": {"enabled": false}, "own": {"type": "local"}}));
    assert_eq!(config_with_disabled_servers("{\"mcp\":{}}", &[]), "{\"mcp\":{}}");
}

#[test]
fn a_server_of_the_agents_own_may_be_used_unless_a_level_or_a_rule_says_otherwise() {
    let server = domain::mcp_server::McpServer {
        name: "aviary".to_owned(),
        transport: domain::mcp_server::Transport::Http {
            url: "http://x".into(),
            headers: Default::default(),
        },
        tools: None,
        timeout_ms: None,
    };
    let json =
        |text: &str| permission::translate(&permission(text), "", std::slice::from_ref(&server)).to_json();
    assert!(json("{}").contains("\"aviary_*\":\"allow\""), "{}", json("{}"));
    assert!(!json(r#"{"level": "read-only"}"#).contains("\"aviary_*\":\"allow\""));
    assert!(json(r#"{"deny": ["mcp__aviary"]}"#).contains("\"aviary_*\":\"deny\""));
}

#[test]
fn git_folders_cannot_be_allowed_against_the_denial() {
    let rules = permission(r#"{"allow": ["Edit(.git/info/**)"]}"#);
    let decisions = permission::translate(&rules, "", &[]);
    assert_eq!(decisions.inexpressible_grants, ["the rule allow Edit(.git/info/**)"]);
}

#[test]
fn callable_agents_are_allowed_by_pattern() {
    let decisions = permission::translate(&permission(r#"{"allow": ["task(bird-*)"]}"#), "", &[]);
    assert_eq!(decisions.unenforceable, Vec::<String>::new());
    assert!(decisions.to_json().contains(r#""task":{"bird-*":"allow"}"#), "{}", decisions.to_json());
    let rules =
        r#"{"allow": ["task(bird-*)", "skill"], "ask": ["task(bird-of-prey)"], "deny": ["skill(own-*)"]}"#;
    let decisions = permission::translate(&permission(rules), "", &[]);
    assert_eq!(decisions.unenforceable, Vec::<String>::new());
    let json = decisions.to_json();
    assert!(json.contains(r#""task":{"bird-*":"allow","bird-of-prey":"deny"}"#), "{json}");
    assert!(json.contains(r#""skill":{"*":"allow","own-*":"deny"}"#), "{json}");
}

#[test]
fn what_a_project_would_execute_is_found_and_cannot_be_turned_off() {
    let project = tempfile::tempdir().unwrap();
    let plugins = project.path().join(".opencode/plugin");
    std::fs::create_dir_all(&plugins).unwrap();
    std::fs::write(plugins.join("bird.js"), "").unwrap();
    let settings = r#"{"plugin": ["bird"], "model": "x/y", "mcp": {"a": {}}}"#;
    std::fs::write(project.path().join("opencode.json"), settings).unwrap();
    let found = VENDOR.project_executables(&ProjectFolders::new(|| vec![project.path()]));
    let descriptions: Vec<(&str, bool)> =
        found.iter().map(|program| (program.description.as_str(), program.can_be_disabled)).collect();
    assert_eq!(
        descriptions,
        [("opencode, plugin: [\"bird\"]", false), ("opencode, plug-in: bird.js", false)]
    );
}

#[test]
fn edits_through_links_that_lead_out_of_the_work_tree_are_denied() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let project = root.join("project");
    std::fs::create_dir_all(project.join("deep/er")).unwrap();
    std::fs::create_dir(root.join("out")).unwrap();
    for (target, name) in [
        (root.join("out"), "deep/er/link"),
        (root.join("out/absent"), "dangling"),
        (project.join("deep"), "inside"),
        (project.join("deep/er"), "alias"),
        (project.join("file"), "deep/er/plain"),
    ] {
        std::fs::write(project.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(target, project.join(name)).unwrap();
    }
    let user = UserEnvironment { home: Some(&root), variable: &|_| None };
    let found = test_fixtures::located_program(&["/bin/opencode"]);
    let mut spec = test_fixtures::spec("opencode");
    (spec.directory, spec.project) = (project.display().to_string(), project.display().to_string());
    let edits = |spec: &domain::run::RunSpec| {
        let context = test_fixtures::launch_context(Some(&found));
        let mut launch = test_fixtures::process_launch_in(&VENDOR, &context, spec).unwrap();
        VENDOR.apply_user_environment(spec, &mut launch, &context, &user).unwrap();
        let listed = config(&launch);
        assert_eq!(listed["permission"]["edit"], "allow", "a list does not look through the tree");
        assert_eq!(VENDOR.scan_workspace(spec, &mut launch, &user).unwrap(), [""; 0]);
        let value = config(&launch);
        assert_eq!(value["mcp"], listed["mcp"]);
        assert_eq!(value["agent"][format!("volery-{}", spec.id)]["permission"], value["permission"]);
        value["permission"]["edit"].clone()
    };
    let bare = project.strip_prefix("/").unwrap().display().to_string();
    let mut expected = serde_json::Map::from_iter([("*".to_owned(), json!("allow"))]);
    expected.extend([".git", "*/.git", ".git/*", "*/.git/*"].map(|name| (name.to_owned(), json!("deny"))));
    for link in ["deep/er/link", "dangling", "inside", "alias"] {
        for name in [link.to_owned(), format!("{bare}/{link}")] {
            expected.extend([(format!("{name}/*"), json!("deny")), (name, json!("deny"))]);
        }
    }
    assert_eq!(edits(&spec), Value::Object(expected));
    spec.setup.permission = permission(r#"{"level": "yolo"}"#);
    assert_eq!(edits(&spec), json!("allow"));
}

/// Returns a run in a folder of its own that contains `count` links to the outside.
fn run_with_links(temp: &Path, count: usize) -> RunSpec {
    let project = temp.canonicalize().unwrap().join("project");
    std::fs::create_dir(&project).unwrap();
    (0..count)
        .for_each(|number| std::os::unix::fs::symlink("/", project.join(format!("link-{number}"))).unwrap());
    let mut spec = test_fixtures::spec("opencode");
    (spec.directory, spec.project) = (project.display().to_string(), project.display().to_string());
    spec.setup.permission = permission(r#"{"level": "safe-edit"}"#);
    spec
}

#[test]
fn git_folders_are_denied_and_not_scanned() {
    let temp = tempfile::tempdir().unwrap();
    let spec = run_with_links(temp.path(), 0);
    let project = Path::new(&spec.directory);
    std::fs::create_dir_all(project.join("deep/.git/annex/aa")).unwrap();
    std::fs::create_dir_all(project.join("deep/.git/objects")).unwrap();
    std::fs::write(project.join("deep/.git/annex/aa/bird"), "").unwrap();
    std::fs::write(project.join("deep/.git/config"), "").unwrap();
    for (target, name) in [
        ("/", "deep/.git/objects/out"),
        ("deep/.git/annex/aa/bird", "annexed"),
        ("deep/.git/config", "config"),
        ("deep/.git/objects", "objects"),
        ("deep", "by-name"),
    ] {
        std::os::unix::fs::symlink(target, project.join(name)).unwrap();
    }
    // The scan sees the folder `deep`, its content, and the four links of the project.
    let limits = escaping_symlinks::ScanLimits { entries: 6, ..escaping_symlinks::SCAN_LIMITS };
    let denied = escaping_symlinks::find_denied_edits(&spec, limits).unwrap().patterns;
    let bare = project.strip_prefix("/").unwrap().display();
    let names = |link: &str| [format!("{link}/*"), link.to_owned()];
    let all = [".git", "*/.git", ".git/*", "*/.git/*"].map(ToOwned::to_owned).into_iter();
    let links = ["config", "objects"].into_iter();
    let all =
        all.chain(links.flat_map(|link| names(link).into_iter().chain(names(&format!("{bare}/{link}")))));
    assert_eq!(denied, all.collect::<Vec<_>>());
}

#[test]
fn too_many_links_and_too_many_files_are_refused_with_what_can_be_done() {
    let temp = tempfile::tempdir().unwrap();
    let mut spec = run_with_links(temp.path(), 20);
    let few = escaping_symlinks::ScanLimits { entries: 20, bytes: 56 << 10 };
    assert_eq!(escaping_symlinks::find_denied_edits(&spec, few).unwrap().patterns.len(), 4 + 20 * 4);
    let cases = [
        (escaping_symlinks::ScanLimits { entries: 19, ..few }, "has more than 19 files and folders"),
        (escaping_symlinks::ScanLimits { bytes: 1_000, ..few }, "20 symbolic links lead out of"),
    ];
    for (limits, reason) in cases {
        spec.setup.unenforceable = Unenforceable::Refuse;
        let refused = escaping_symlinks::find_denied_edits(&spec, limits).unwrap_err();
        for part in [reason, "permission: read-only", "isolation: worktree", "unenforceable: warn"] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        spec.setup.unenforceable = Unenforceable::Warn;
        let denied = escaping_symlinks::find_denied_edits(&spec, limits).unwrap();
        assert!(denied.gap.unwrap().contains(reason));
        assert!(denied.patterns.len() < 4 + 20 * 4, "{reason}");
    }
    spec.setup.permission = Permission::default();
    spec.setup.unenforceable = Unenforceable::Refuse;
    assert!(
        escaping_symlinks::find_denied_edits(&spec, cases[0].0).is_ok(),
        "who demands nothing is not refused"
    );
}

#[test]
fn as_many_links_as_are_denied_fit_into_a_variable() {
    // The limit of Linux for a variable with its value.
    const VARIABLE_BYTES_MAX: usize = 128 << 10;
    let temp = tempfile::tempdir().unwrap();
    let mut spec = run_with_links(temp.path(), 2_000);
    spec.setup.unenforceable = Unenforceable::Warn;
    let found = test_fixtures::located_program(&["/bin/opencode"]);
    let mut launch =
        test_fixtures::process_launch_in(&VENDOR, &test_fixtures::launch_context(Some(&found)), &spec)
            .unwrap();
    let user = UserEnvironment { home: None, variable: &|_| None };
    let warnings = VENDOR.scan_workspace(&spec, &mut launch, &user).unwrap();
    assert!(warnings[0].starts_with("permission: 2000 symbolic links lead out of"), "{warnings:?}");
    let denied = config(&launch)["permission"]["edit"].as_object().unwrap().len();
    assert!(denied > 4 * 300, "{denied}");
    let Some((name, EnvValue::Plain(value))) = launch.env_overrides.first() else {
        panic!("{:?}", launch.env_overrides)
    };
    assert!(name.len() + value.len() < VARIABLE_BYTES_MAX - (8 << 10), "{}", value.len());
}

/// Turns a folder into a repository.
fn make_repository(folder: &Path) {
    for part in ["objects", "refs"] {
        std::fs::create_dir_all(folder.join(part)).unwrap();
    }
    std::fs::write(folder.join("HEAD"), "ref: refs/heads/main\n").unwrap();
}

#[test]
fn outside_of_a_work_tree_settings_above_the_project_are_checked_too() {
    let temp = tempfile::tempdir().unwrap();
    let above = temp.path().canonicalize().unwrap();
    let project = above.join("home/bird");
    std::fs::create_dir_all(&project).unwrap();
    let mut spec = test_fixtures::spec("opencode");
    spec.directory = project.display().to_string();
    spec.project = spec.directory.clone();
    let home = above.join("home");
    std::fs::write(home.join("git"), "").unwrap();
    let path = |name: &str| (name == "PATH").then(|| home.clone().into_os_string());
    let user = UserEnvironment { home: Some(&home), variable: &path };
    let servers = r#"{"mcp": {"strange": {}}}"#;
    std::fs::write(above.join("opencode.json"), servers).unwrap();
    std::fs::write(home.join("opencode.json"), r#"{"plugin": ["users-own"]}"#).unwrap();
    assert_eq!(check_above(&spec, &user), Ok(()));
    assert!(configured_server_names(&spec, &user).contains(&"strange".to_owned()));
    std::fs::write(above.join("opencode.json"), r#"{"plugin": ["bird"]}"#).unwrap();
    assert!(check_above(&spec, &user).unwrap_err().contains("bird"));
    make_repository(&project.join(".git"));
    assert_eq!(check_above(&spec, &user), Ok(()));
}

#[test]
fn without_a_certain_work_tree_root_all_folders_above_are_checked() {
    let temp = tempfile::tempdir().unwrap();
    let above = temp.path().canonicalize().unwrap();
    let project = above.join("bird");
    let inner = project.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(above.join("git"), "").unwrap();
    std::fs::write(above.join("opencode.json"), r#"{"plugin": ["strange"]}"#).unwrap();
    make_repository(&project.join(".git"));
    let path = |name: &str| (name == "PATH").then(|| above.clone().into_os_string());
    let refused = |value: &dyn Fn(&str) -> Option<std::ffi::OsString>| {
        let mut spec = test_fixtures::spec("opencode");
        (spec.directory, spec.project) = (inner.display().to_string(), project.display().to_string());
        check_above(&spec, &UserEnvironment { home: None, variable: value }).is_err()
    };
    assert!(!refused(&path));
    assert!(refused(&|_| None), "without git nobody tells");
    let config = project.join(".git/config");
    for (settings, expected) in [
        ("[core]\n\tbare = false\n", false),
        ("[core]\n\tworktree = /elsewhere\n", true),
        ("[Include]\n\tpath = more\n", true),
    ] {
        std::fs::write(&config, settings).unwrap();
        assert_eq!(refused(&path), expected, "{settings}");
    }
    std::fs::remove_file(&config).unwrap();
    std::fs::write(inner.join(".git"), "gitdir: ../nowhere\n").unwrap();
    assert!(refused(&path), "git gives up at what leads nowhere");
    let module = project.join(".git/modules/inner");
    make_repository(&module);
    std::fs::write(module.join("config"), "[core]\n\tworktree = ../../../inner\n").unwrap();
    std::fs::write(inner.join(".git"), "gitdir: ../.git/modules/inner\n").unwrap();
    assert!(!refused(&path), "a submodule is its own work tree");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&module, Some(12_345), None).unwrap();
        assert!(refused(&path), "git refuses what belongs to somebody else");
    }
}

#[test]
fn uncounted_usage_of_other_agents_is_reported() {
    let uses = |tool: &str| {
        json!({"type": "tool_use", "sessionID": "ses_1", "part": {"callID": "c", "tool": tool,
            "state": {"status": "completed", "input": {}, "output": "done"}}})
    };
    let warnings = |tools: &[&str]| {
        let events: Vec<Value> = tools.iter().map(|tool| uses(tool)).collect();
        let (reports, _) = read(&events, Exit::Code(0));
        reports
            .iter()
            .filter(|report| matches!(report, AgentReport::Warned(text) if text.contains("not counted")))
            .count()
    };
    assert_eq!((warnings(&["read"]), warnings(&["task"]), warnings(&["task", "read", "task"])), (0, 1, 1));
}

#[test]
fn a_call_of_a_disabled_tool_is_reported_as_denied_by_its_name() {
    let unavailable = "Model tried to call unavailable tool 'bash'. Available tools: read.";
    let state = json!({"status": "completed", "input": {"tool": "bash", "error": unavailable}, "output": unavailable});
    let used = event("tool_use", &json!({"tool": "invalid", "callID": "c1", "state": state}));
    let (reports, _) = read(&[start(), used], Exit::Code(0));
    let denied = AgentReport::Denied {
        call: "c1".to_owned(),
        tool: "bash".to_owned(),
        reason: "by the rules of this run".to_owned(),
    };
    assert!(reports.contains(&denied), "{reports:?}");
    let returned = |report: &AgentReport| matches!(report, AgentReport::ToolReturned { ok: false, .. });
    assert!(reports.iter().any(returned), "{reports:?}");
}

#[test]
fn the_level_of_an_agent_with_its_users_settings_decides_about_edits_and_commands() {
    let users = [
        UserRule { key: "webfetch".to_owned(), pattern: "*".to_owned(), action: "deny" },
        UserRule { key: "bash".to_owned(), pattern: "git *".to_owned(), action: "allow" },
    ];
    let translated = |rules: &str| {
        let permission: Permission = serde_json::from_str(rules).unwrap();
        permission::translate_with_users(&permission, "", &[], &users).to_json()
    };
    let rest = r#""task":"deny","external_directory":"deny","question":"deny"}"#;
    let safe_edit = format!(r#"{{"*":"allow","webfetch":"deny","edit":"allow","bash":"allow",{rest}"#);
    assert_eq!(translated(r#"{"level": "safe-edit"}"#), safe_edit);
    let read_only = format!(r#"{{"*":"allow","webfetch":"deny","edit":"deny","bash":"deny",{rest}"#);
    assert_eq!(translated(r#"{"level": "read-only"}"#), read_only, "also what the user's rules allow");
    assert_eq!(translated(r#"{"level": "yolo"}"#), r#"{"*":"allow"}"#);
    assert!(translated(r#"{"level": "safe-edit", "deny": ["Bash"]}"#).ends_with(r#""bash":"deny"}"#));
}

/// A line that opencode 1.18.33 wrote to its error stream.
fn lost(small: bool) -> String {
    format!(
        "timestamp=2026-11-18T06:19:24.295Z level=ERROR run=1a0b1221 message=\"stream error\" providerID=opencode \
         modelID=big-pickle session.id=ses_1 small={small} agent=build mode=primary error.error=\"AI_APICallError: \
         Cannot connect to API: Unable to connect. Is the computer able to access the url?\"\n"
    )
}

#[test]
fn a_service_that_cannot_be_reached_ends_the_run() {
    for (has_login, allowed) in [(true, 6), (false, 2)] {
        let mut reader = OpencodeStream::new(false);
        if !has_login {
            reader.expect_no_login();
        }
        for _ in 1..allowed {
            assert_eq!(reader.feed(Pipe::Stderr, lost(false).as_bytes()), []);
            // The run does not wait for a title.
            assert_eq!(reader.feed(Pipe::Stderr, lost(true).as_bytes()), []);
        }
        let line = lost(false);
        let (first, second) = line.as_bytes().split_at(30);
        assert_eq!(reader.feed(Pipe::Stderr, first), []);
        assert_eq!(reader.feed(Pipe::Stderr, second), [AgentReport::Finished]);
        let message = format!("{allowed} requests to opencode/big-pickle in a row found no connection");
        let failure = Failure::Model { error: ModelError::Unreachable, message };
        assert_eq!(reader.conclude(Exit::Signal(15)).end, AgentEnd::Failed(failure));
    }
}

#[test]
fn an_answer_between_lost_requests_begins_the_count_again() {
    let mut reader = OpencodeStream::new(false);
    reader.expect_no_login();
    for _ in 0..3 {
        assert_eq!(reader.feed(Pipe::Stderr, lost(false).as_bytes()), []);
        reader.feed(Pipe::Stdout, &json_lines(&[start(), message_event("Hello."), finish("stop")]));
    }
    assert_eq!(reader.conclude(Exit::Code(0)).end, AgentEnd::Done);
}

#[test]
fn lines_of_the_log_are_not_taken_for_complaints() {
    let mut reader = OpencodeStream::new(false);
    let log = "timestamp=2026-11-18T06:19:21.494Z level=ERROR message=\"Session not found\"\n";
    reader.feed(Pipe::Stderr, log.as_bytes());
    reader.feed(Pipe::Stdout, &json_lines(&[start(), message_event("Hello."), finish("stop")]));
    assert_eq!(reader.conclude(Exit::Code(0)).end, AgentEnd::Done);
    let mut reader = OpencodeStream::new(false);
    reader.feed(Pipe::Stderr, format!("{log}Error: Session not found").as_bytes());
    let reason = "Error: Session not found".to_owned();
    assert_eq!(reader.conclude(Exit::Code(1)).end, AgentEnd::Failed(Failure::Session { reason }));
}
