//! Kimi Code: what it is started with, and what its lines mean.

use domain::permission::{Level, Permission};
use domain::run::{AgentEnd, Failure, RunSpec, Stream as Pipe};
use domain::setup::PromptMode;
use serde_json::json;

use super::reader::Stream;
use super::{Kimi, agent, began_with, tools};
use crate::contract::{Answer, Backend, Drive, PrepareError, ProcessDrive, Reader, Report};
use crate::program::Found;
use crate::user::User;
use crate::{recorded, sample};

fn reader() -> Stream {
    Stream::new(false, "d1".to_owned())
}

fn prepare(spec: &RunSpec) -> Result<ProcessDrive, PrepareError> {
    let found = Found { argv: vec!["node".to_owned(), "/kimi.mjs".to_owned()], version: None };
    let place = sample::place(Some(&found));
    Kimi.prepare(spec, &place).map(|drive| match drive {
        Drive::Process(drive) => drive,
        Drive::Loop(_) => panic!("a program is a process"),
    })
}

#[test]
fn what_was_said_before_it_was_terminated_is_kept() {
    assert_eq!(recorded::replay("kimi", "say").answer, Answer::Text("Hello from the script.".to_owned()));
    let terminated = recorded::replay("kimi", "terminated");
    assert_eq!(terminated.end, AgentEnd::Failed(Failure::Exit { code: 143 }));
    assert_eq!(terminated.answer, Answer::Text("Hello from \n".to_owned()));
}

#[test]
fn tools_are_told_with_what_came_of_them() {
    let mut reader = reader();
    let call = json!({"role": "assistant", "tool_calls": [
        {"id": "c", "function": {"name": "Bash", "arguments": "{\"command\":\"ls\"}"}}]});
    let lines = format!("{call}\n{}\n", json!({"role": "tool", "tool_call_id": "c", "content": "a"}));
    let reports = reader.feed(Pipe::Stdout, lines.as_bytes());
    let called =
        Report::ToolCalled { id: "c".to_owned(), name: "Bash".to_owned(), input: json!({"command": "ls"}) };
    let returned = Report::ToolReturned { id: "c".to_owned(), ok: true, output: "a".to_owned() };
    assert_eq!(reports, [called, returned]);
}

#[test]
fn what_the_agent_wants_becomes_arguments_and_an_agent_file() {
    let mut spec = sample::spec("kimi");
    spec.model = Some("k2".to_owned());
    spec.setup.extra_directories = vec!["/q".to_owned()];
    let drive = prepare(&spec).unwrap();
    let expected = [
        "node",
        "/kimi.mjs",
        "--output-format=stream-json",
        "--agent-file=/w/agent.md",
        "--model=k2",
        "--add-dir=/q",
        "--prompt=do it",
    ];
    assert_eq!(drive.argv, expected);
    let written = agent(&spec);
    assert!(written.contains("\n${base_prompt}\n\nYou are careful.\n"), "{written}");
    spec.setup.prompt_mode = PromptMode::Replace;
    assert!(!agent(&spec).contains("base_prompt"));
}

#[test]
fn a_long_prompt_stands_in_the_agent_file_as_it_is() {
    let mut spec = sample::spec("kimi");
    spec.prompt = format!("Keep ${{base_prompt}} and $5. {}", "x".repeat(200 << 10));
    let drive = prepare(&spec).unwrap();
    assert!(drive.argv.iter().all(|word| word.len() < 1_000), "{:?}", drive.argv);
    let file = String::from_utf8(drive.files[0].content.clone()).unwrap();
    assert_eq!(file.matches("${base_prompt}").count(), 1, "that of the prompt would be replaced");
    let said = file.replace("${base_prompt}", "").replace("${role_additional}", "");
    assert!(said.contains("# TASK\n\nKeep ${base_prompt} and $5. xxx"), "{}", &said[..400]);
}

#[test]
fn a_session_goes_on_only_with_the_tools_and_words_that_it_began_with() {
    let mut spec = sample::spec("kimi");
    let named = recorded::replay("kimi", "say");
    let id = "session_00000000-0000-4000-8000-000000000001";
    let session = named.session.unwrap();
    assert_eq!(session, format!("{id}-{}", began_with(&spec)));
    spec.session = Some(session.parse().unwrap());
    let drive = prepare(&spec).unwrap();
    assert!(drive.argv.contains(&format!("--session={id}")), "{:?}", drive.argv);
    assert!(drive.files.is_empty() && !drive.argv.iter().any(|word| word.starts_with("--agent-file")));
    let stale = |spec: &RunSpec| {
        let place = sample::place(None);
        Kimi.stale_session(spec, &place)
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
    let of = |level| tools::allowed(&Permission { level, ..Permission::default() }, None);
    assert!(
        !of(Some(Level::ReadOnly))
            .iter()
            .any(|tool| ["Write", "Edit", "Bash", "FetchURL", "Agent"].contains(tool))
    );
    assert!(
        of(None).contains(&"Write") && !of(None).contains(&"Bash"),
        "nobody could be asked about commands"
    );
    assert!(of(Some(Level::Yolo)).contains(&"Bash"));
    let rules = Permission {
        level: Some(Level::Yolo),
        deny: vec!["Bash(rm:*)".parse().unwrap()],
        ..Permission::default()
    };
    assert!(!tools::allowed(&rules, None).contains(&"Bash"), "some of it is denied, so all of it is");
    assert_eq!(tools::allowed(&Permission::default(), Some(&["Grep".to_owned()])), ["Glob", "Grep"]);
    let safe = Permission { level: Some(Level::SafeEdit), ..Permission::default() };
    assert_eq!(Kimi.unenforceable(&safe, &json!(null)).len(), 1);
    assert_eq!(Kimi.unenforceable(&rules, &json!(null)), Vec::<String>::new());
    let allow = vec!["Bash(git log:*)".parse().unwrap(), "Read(src/**)".parse().unwrap()];
    let patterned = Permission { allow, ..Permission::default() };
    assert_eq!(Kimi.unenforceable(&patterned, &json!(null)), Vec::<String>::new());
    assert_eq!(Kimi.ungranted(&patterned, &json!(null)), ["the rule allow Bash(git log:*)"]);
    assert!(!tools::allowed(&patterned, None).contains(&"Bash"));
}

/// An agent that another hands work to has all tools.
#[test]
fn who_is_held_back_hands_no_work_to_others() {
    assert!(tools::allowed(&serde_json::from_str(r#"{"level": "yolo"}"#).unwrap(), None).contains(&"Agent"));
    for rules in [r#"{"level": "yolo", "deny": ["Bash"]}"#, r#"{"level": "yolo", "ask": ["Bash(rm:*)"]}"#] {
        assert!(!tools::allowed(&serde_json::from_str(rules).unwrap(), None).contains(&"Agent"), "{rules}");
    }
    let reader: Permission = serde_json::from_str(r#"{"level": "read-only", "allow": ["Task"]}"#).unwrap();
    assert!(!tools::allowed(&reader, None).contains(&"Agent"));
    assert_eq!(Kimi.ungranted(&reader, &json!(null)), ["the rule allow Task"]);
}

#[test]
fn a_tool_that_the_agent_may_not_have_is_told_as_denied() {
    let line =
        |output: &str| format!("{}\n", json!({"role": "tool", "tool_call_id": "c", "content": output}));
    let mut stream = Stream::new(false, String::new());
    let refused = stream.feed(Pipe::Stdout, line("Tool \"Bash\" not found").as_bytes());
    let output = "Tool \"Bash\" not found".to_owned();
    let expected = [
        sample::denied("c", "Bash", "the agent has no such tool"),
        Report::ToolReturned { id: "c".to_owned(), ok: false, output },
    ];
    assert_eq!(refused, expected);
    let said = "grep says: Tool \"x\" not found".to_owned();
    let allowed = stream.feed(Pipe::Stdout, line(&said).as_bytes());
    assert_eq!(allowed, [Report::ToolReturned { id: "c".to_owned(), ok: true, output: said }]);
}

#[test]
fn an_agent_that_replaces_the_prompt_keeps_the_instructions_of_its_directory() {
    let mut spec = sample::spec("kimi");
    spec.system_prompt = "Be brief.".to_owned();
    spec.setup.prompt_mode = PromptMode::Replace;
    assert!(agent(&spec).ends_with("---\nBe brief.\n\n${agents_md}\n"), "{}", agent(&spec));
}

#[test]
fn servers_stand_in_the_home_of_the_run_and_their_tools_in_the_list() {
    let mut spec = sample::spec("kimi");
    let server = json!({"name": "birds",
        "transport": {"stdio": {"command": "aviary", "env": {"KEY": "${BIRD_KEY}"}}}});
    spec.setup.mcp_servers = vec![serde_json::from_value(server).unwrap()];
    let tools = |spec: &RunSpec| tools::of_server(&spec.setup.permission, &spec.setup.mcp_servers[0]);
    assert!(agent(&spec).contains("\"mcp__birds__*\""), "{}", agent(&spec));
    let mut level = spec.clone();
    level.setup.permission.level = Some(Level::ReadOnly);
    assert_eq!(tools(&level), Vec::<String>::new());
    level.setup.permission.allow = vec!["mcp__birds__count".parse().unwrap()];
    assert_eq!(tools(&level), ["mcp__birds__count"]);
    let mut drive = prepare(&spec).unwrap();
    let home = tempfile::tempdir().unwrap();
    let user = User { home: Some(home.path()), value: &|_| None };
    Kimi.adapt(&spec, &mut drive, &sample::place(None), &user).unwrap();
    let file = drive.files.iter().find(|file| file.name == "secret-kimi-home/mcp.json").unwrap();
    assert_eq!(file.variables, ["BIRD_KEY"]);
    let content: serde_json::Value = serde_json::from_slice(&file.content).unwrap();
    assert_eq!(content["mcpServers"]["birds"]["command"], "aviary");
    let deny = vec!["mcp__birds__eat".parse().unwrap()];
    let denied = Permission { deny, ..Permission::default() };
    assert_eq!(Kimi.unenforceable(&denied, &json!(null)), ["the rule deny mcp__birds__eat"]);
}
