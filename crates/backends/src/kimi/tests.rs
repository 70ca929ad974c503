//! The launch of Kimi Code, and its JSON lines.

use domain::permission::{Level, Permission};
use domain::run::{AgentEnd, Failure, RunSpec, StdStream as Pipe};
use domain::setup::PromptMode;
use serde_json::json;

use super::reader::KimiStream;
use super::{VENDOR, agent_definition, permission, session_digest};
use crate::contract::{
    AgentAnswer, AgentReport, Backend, LaunchPlan, OutputReader, PrepareError, ProcessLaunch,
};
use crate::program::LocatedProgram;
use crate::user_environment::UserEnvironment;
use crate::{recorded_streams, test_fixtures};

fn reader() -> KimiStream {
    KimiStream::new(false, "d1".to_owned())
}

fn prepare(spec: &RunSpec) -> Result<ProcessLaunch, PrepareError> {
    let found = LocatedProgram { argv: vec!["node".to_owned(), "/kimi.mjs".to_owned()], version: None };
    let context = test_fixtures::launch_context(Some(&found));
    VENDOR.prepare(spec, &context).map(|launch| match launch {
        LaunchPlan::Process(launch) => launch,
        LaunchPlan::Loop(_) | LaunchPlan::AgentLoop(_) => panic!("a program is a process"),
    })
}

#[test]
fn the_text_before_a_termination_is_the_partial_answer() {
    assert_eq!(
        recorded_streams::replay("kimi", "say").answer,
        AgentAnswer::Text("Hello from the script.".to_owned())
    );
    let terminated = recorded_streams::replay("kimi", "terminated");
    assert_eq!(terminated.end, AgentEnd::Failed(Failure::Exit { code: 143 }));
    assert_eq!(terminated.answer, AgentAnswer::Text("Hello from \n".to_owned()));
}

#[test]
fn tool_calls_are_reported_with_their_results() {
    let mut reader = reader();
    let call = json!({"role": "assistant", "tool_calls": [
        {"id": "c", "function": {"name": "Bash", "arguments": "{\"command\":\"ls\"}"}}]});
    let lines = format!("{call}\n{}\n", json!({"role": "tool", "tool_call_id": "c", "content": "a"}));
    let reports = reader.feed(Pipe::Stdout, lines.as_bytes());
    let called = AgentReport::ToolCalled {
        id: "c".to_owned(),
        name: "Bash".to_owned(),
        input: json!({"command": "ls"}),
    };
    let returned = AgentReport::ToolReturned { id: "c".to_owned(), ok: true, output: "a".to_owned() };
    assert_eq!(reports, [called, returned]);
}

#[test]
fn the_setup_becomes_arguments_and_an_agent_file() {
    let mut spec = test_fixtures::spec("kimi");
    spec.model = Some("k2".to_owned());
    spec.setup.extra_directories = vec!["/q".to_owned()];
    let launch = prepare(&spec).unwrap();
    let expected = [
        "node",
        "/kimi.mjs",
        "--output-format=stream-json",
        "--agent-file=/w/agent.md",
        "--model=k2",
        "--add-dir=/q",
        "--prompt=do it",
    ];
    assert_eq!(launch.argv, expected);
    let written = agent_definition(&spec);
    assert!(written.contains("\n${base_prompt}\n\nYou are careful.\n"), "{written}");
    spec.setup.prompt_mode = PromptMode::Replace;
    assert!(!agent_definition(&spec).contains("base_prompt"));
}

#[test]
fn a_long_prompt_is_in_the_agent_file_unchanged() {
    let mut spec = test_fixtures::spec("kimi");
    spec.prompt = format!("Keep ${{base_prompt}} and $5. {}", "x".repeat(200 << 10));
    let launch = prepare(&spec).unwrap();
    assert!(launch.argv.iter().all(|argument| argument.len() < 1_000), "{:?}", launch.argv);
    let file = String::from_utf8(launch.files[0].content.clone()).unwrap();
    assert_eq!(file.matches("${base_prompt}").count(), 1, "that of the prompt would be replaced");
    let text = file.replace("${base_prompt}", "").replace("${role_additional}", "");
    assert!(text.contains("# TASK\n\nKeep ${base_prompt} and $5. xxx"), "{}", &text[..400]);
}

#[test]
fn a_session_continues_only_with_the_tools_and_prompt_that_it_started_with() {
    let mut spec = test_fixtures::spec("kimi");
    let conclusion = recorded_streams::replay("kimi", "say");
    let id = "session_00000000-0000-4000-8000-000000000001";
    let session = conclusion.session.unwrap();
    assert_eq!(session, format!("{id}-{}", session_digest(&spec)));
    spec.session = Some(session.parse().unwrap());
    let launch = prepare(&spec).unwrap();
    assert!(launch.argv.contains(&format!("--session={id}")), "{:?}", launch.argv);
    assert!(
        launch.files.is_empty() && !launch.argv.iter().any(|argument| argument.starts_with("--agent-file"))
    );
    let stale = |spec: &RunSpec| {
        let context = test_fixtures::launch_context(None);
        VENDOR.stale_session(spec, &context)
    };
    assert_eq!(stale(&spec), None);
    let mut narrowed = spec.clone();
    narrowed.setup.permission.level = Some(Level::ReadOnly);
    assert!(stale(&narrowed).unwrap().contains("other tools"), "it would keep the tools that it had");
    assert!(prepare(&narrowed).is_err());
    spec.prompt = "x".repeat(200 << 10);
    assert!(stale(&spec).unwrap().contains("length"));
}

#[test]
fn a_permission_is_a_list_of_tools() {
    let tools_at = |level| permission::allowed_tools(&Permission { level, ..Permission::default() }, None);
    assert!(
        !tools_at(Some(Level::ReadOnly))
            .iter()
            .any(|tool| ["Write", "Edit", "Bash", "FetchURL", "Agent"].contains(tool))
    );
    assert!(
        tools_at(None).contains(&"Write") && !tools_at(None).contains(&"Bash"),
        "nobody could be asked about commands"
    );
    assert!(tools_at(Some(Level::Yolo)).contains(&"Bash"));
    let rules = Permission {
        level: Some(Level::Yolo),
        deny: vec!["Bash(rm:*)".parse().unwrap()],
        ..Permission::default()
    };
    assert!(
        !permission::allowed_tools(&rules, None).contains(&"Bash"),
        "some of it is denied, so all of it is"
    );
    assert_eq!(
        permission::allowed_tools(&Permission::default(), Some(&["Grep".to_owned()])),
        ["Glob", "Grep"]
    );
    let safe = Permission { level: Some(Level::SafeEdit), ..Permission::default() };
    assert_eq!(VENDOR.unenforceable(&safe, &json!(null)).len(), 1);
    assert_eq!(VENDOR.unenforceable(&rules, &json!(null)), Vec::<String>::new());
    let allow = vec!["Bash(git log:*)".parse().unwrap(), "Read(src/**)".parse().unwrap()];
    let patterned = Permission { allow, ..Permission::default() };
    assert_eq!(VENDOR.unenforceable(&patterned, &json!(null)), Vec::<String>::new());
    assert_eq!(VENDOR.inexpressible_grants(&patterned, &json!(null)), ["the rule allow Bash(git log:*)"]);
    assert!(!permission::allowed_tools(&patterned, None).contains(&"Bash"));
}

/// An agent that another agent calls has all tools.
#[test]
fn a_restricted_agent_calls_no_other_agents() {
    assert!(
        permission::allowed_tools(&serde_json::from_str(r#"{"level": "yolo"}"#).unwrap(), None)
            .contains(&"Agent")
    );
    for rules in [r#"{"level": "yolo", "deny": ["Bash"]}"#, r#"{"level": "yolo", "ask": ["Bash(rm:*)"]}"#] {
        assert!(
            !permission::allowed_tools(&serde_json::from_str(rules).unwrap(), None).contains(&"Agent"),
            "{rules}"
        );
    }
    let reader: Permission = serde_json::from_str(r#"{"level": "read-only", "allow": ["Task"]}"#).unwrap();
    assert!(!permission::allowed_tools(&reader, None).contains(&"Agent"));
    assert_eq!(VENDOR.inexpressible_grants(&reader, &json!(null)), ["the rule allow Task"]);
}

#[test]
fn a_call_of_a_disabled_tool_is_reported_as_denied() {
    let line =
        |output: &str| format!("{}\n", json!({"role": "tool", "tool_call_id": "c", "content": output}));
    let mut stream = KimiStream::new(false, String::new());
    let refused = stream.feed(Pipe::Stdout, line("Tool \"Bash\" not found").as_bytes());
    let output = "Tool \"Bash\" not found".to_owned();
    let expected = [
        test_fixtures::denied_report("c", "Bash", "the agent has no such tool"),
        AgentReport::ToolReturned { id: "c".to_owned(), ok: false, output },
    ];
    assert_eq!(refused, expected);
    let output = "grep says: Tool \"x\" not found".to_owned();
    let allowed = stream.feed(Pipe::Stdout, line(&output).as_bytes());
    assert_eq!(allowed, [AgentReport::ToolReturned { id: "c".to_owned(), ok: true, output }]);
}

#[test]
fn an_agent_that_replaces_the_prompt_keeps_the_instructions_of_its_directory() {
    let mut spec = test_fixtures::spec("kimi");
    spec.system_prompt = "Be brief.".to_owned();
    spec.setup.prompt_mode = PromptMode::Replace;
    assert!(
        agent_definition(&spec).ends_with("---\nBe brief.\n\n${agents_md}\n"),
        "{}",
        agent_definition(&spec)
    );
}

#[test]
fn servers_are_in_the_config_home_and_their_tools_in_the_list() {
    let mut spec = test_fixtures::spec("kimi");
    let server = json!({"name": "birds",
        "transport": {"stdio": {"command": "aviary", "env": {"KEY": "${BIRD_KEY}"}}}});
    spec.setup.mcp_servers = vec![serde_json::from_value(server).unwrap()];
    let permission =
        |spec: &RunSpec| permission::allowed_server_tools(&spec.setup.permission, &spec.setup.mcp_servers[0]);
    assert!(agent_definition(&spec).contains("\"mcp__birds__*\""), "{}", agent_definition(&spec));
    let mut level = spec.clone();
    level.setup.permission.level = Some(Level::ReadOnly);
    assert_eq!(permission(&level), Vec::<String>::new());
    level.setup.permission.allow = vec!["mcp__birds__count".parse().unwrap()];
    assert_eq!(permission(&level), ["mcp__birds__count"]);
    let mut launch = prepare(&spec).unwrap();
    let home = tempfile::tempdir().unwrap();
    let user = UserEnvironment { home: Some(home.path()), variable: &|_| None };
    VENDOR.apply_user_environment(&spec, &mut launch, &test_fixtures::launch_context(None), &user).unwrap();
    let file = launch.files.iter().find(|file| file.name == "secret-kimi-home/mcp.json").unwrap();
    assert_eq!(file.variables, ["BIRD_KEY"]);
    let content: serde_json::Value = serde_json::from_slice(&file.content).unwrap();
    assert_eq!(content["mcpServers"]["birds"]["command"], "aviary");
    let deny = vec!["mcp__birds__eat".parse().unwrap()];
    let denied = Permission { deny, ..Permission::default() };
    assert_eq!(VENDOR.unenforceable(&denied, &json!(null)), ["the rule deny mcp__birds__eat"]);
}
