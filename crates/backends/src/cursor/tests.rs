//! Streams as Cursor is documented to write them: complete, cut and malformed.

use domain::permission::Level;
use domain::run::{AgentEnd, Failure, ModelError, StdStream as Pipe};
use serde_json::{Value, json};

use super::reader::CursorStream;
use super::*;
use crate::contract::{AgentAnswer, AgentReport, Backend, Conclusion, Exit, OutputReader, PrepareError};
use crate::test_fixtures::{self, json_lines};
use crate::user_environment::ProjectFolders;

fn read(events: &[Value], exit: Exit) -> (Vec<AgentReport>, Conclusion) {
    test_fixtures::read_events(CursorStream::new(false), events, exit)
}

fn message_event(text: &str) -> Value {
    json!({"type": "assistant", "session_id": "c-1", "message": {"content": [{"type": "text", "text": text}]}})
}

fn result(is_error: bool) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": is_error, "result": "Done.", "session_id": "c-1"})
}

#[test]
fn the_result_is_the_answer_and_ends_a_program_that_stays() {
    let init = json!({"type": "system", "subtype": "init", "session_id": "c-1", "model": "m"});
    let (reports, conclusion) = read(&[init, message_event("Let me."), result(false)], Exit::Signal(9));
    let expected = [
        AgentReport::Session("c-1".to_owned()),
        AgentReport::Model("m".to_owned()),
        AgentReport::Text("Let me.\n".to_owned()),
        AgentReport::Finished,
    ];
    assert_eq!(reports, expected);
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, AgentAnswer::Text("Done.".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("c-1"));
}

#[test]
fn a_failure_is_a_message_and_a_code_and_keeps_the_partial_answer() {
    let ended = |stderr: &str, exit| {
        let mut stream = CursorStream::new(false);
        stream.feed(Pipe::Stdout, &json_lines(&[message_event("so far")]));
        stream.feed(Pipe::Stderr, stderr.as_bytes());
        let conclusion = stream.conclude(exit);
        assert_eq!(conclusion.answer, AgentAnswer::Text("so far\n".to_owned()));
        conclusion.end
    };
    let failed = |failure| AgentEnd::Failed(failure);
    let message = "no such model".to_owned();
    assert_eq!(ended("\x1b[31mno such model\x1b[0m\n", Exit::Code(1)), failed(Failure::Agent { message }));
    let lost = ended("Error: Chat c-9 not found", Exit::Code(1));
    assert!(matches!(lost, AgentEnd::Failed(Failure::Session { .. })), "{lost:?}");
    let denied = ended("Error: Authentication required. Please run 'agent login' first", Exit::Code(1));
    let model = |end: &AgentEnd| match end {
        AgentEnd::Failed(Failure::Model { error, .. }) => Some(*error),
        _ => None,
    };
    assert_eq!(model(&denied), Some(ModelError::Denied));
    assert_eq!(
        model(&ended("ConnectError: [unavailable] Error", Exit::Code(1))),
        Some(ModelError::Overloaded)
    );
    assert_eq!(ended("", Exit::Code(1)), failed(Failure::Exit { code: 1 }));
    assert_eq!(ended("", Exit::Signal(15)), failed(Failure::Signal { signal: 15 }));
    assert!(matches!(ended("", Exit::Code(0)), AgentEnd::Failed(Failure::Output { .. })));
    let (_, conclusion) = read(&[result(true)], Exit::Code(0));
    assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Agent { .. })), "{conclusion:?}");
}

#[test]
fn tool_calls_and_refusals_are_reported() {
    let tool = |subtype: &str, call: &Value| json!({"type": "tool_call", "subtype": subtype, "call_id": "t1", "tool_call": {"shellToolCall": call}});
    let input = json!({"command": "ls"});
    let events = [
        tool("started", &json!({"args": input})),
        tool("completed", &json!({"args": input, "result": {"rejected": {}}})),
    ];
    let (reports, _) = read(&events, Exit::Code(0));
    let (id, name) = ("t1".to_owned(), "shell".to_owned());
    assert_eq!(reports[0], AgentReport::ToolCalled { id: id.clone(), name, input });
    assert!(matches!(&reports[1], AgentReport::ToolReturned { ok: false, .. }), "{reports:?}");
    assert_eq!(reports[2], test_fixtures::denied_report("t1", "shell", "by the settings of cursor"));
}

fn prepare(change: impl FnOnce(&mut domain::run::RunSpec)) -> Result<ProcessLaunch, PrepareError> {
    test_fixtures::process_launch(&VENDOR, &test_fixtures::located_program(&["/bin/cursor-agent"]), change)
}

#[test]
fn the_setup_becomes_options() {
    let argv = prepare(|spec| {
        spec.model = Some("auto".to_owned());
        spec.session = Some("c-1".parse().unwrap());
        spec.setup.permission.level = Some(Level::ReadOnly);
    })
    .unwrap()
    .argv
    .join(" ");
    let fixed = "/bin/cursor-agent -p --output-format stream-json --stream-partial-output --trust --mode plan \
                 --workspace /p";
    assert!(argv.starts_with(&format!("{fixed} --model=auto --resume=c-1 [System")), "{argv}");
    let yolo = prepare(|spec| spec.setup.permission.level = Some(Level::Yolo)).unwrap().argv;
    assert!(yolo.contains(&"--force".to_owned()), "{yolo:?}");
    assert!(!prepare(|_| {}).unwrap().argv.contains(&"--force".to_owned()));
}

#[test]
fn a_prompt_that_does_not_fit_into_an_argument_is_piped_in() {
    let long = prepare(|spec| spec.prompt = "x".repeat(200_000)).unwrap();
    assert!(matches!(&long.feed, StdinFeed::Whole(bytes) if bytes.len() > 200_000));
    assert!(long.argv.iter().all(|argument| argument.len() < 1_000));
    assert_eq!(prepare(|_| {}).unwrap().feed, StdinFeed::Nothing);
}

#[test]
fn pieces_are_reported_once_and_are_the_partial_answer() {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let piece = |content: &str| json!({"type": "assistant", "message": text(content), "timestamp_ms": 7});
    let flushed =
        json!({"type": "assistant", "message": text("Hello"), "timestamp_ms": 7, "model_call_id": "m"});
    let (reports, conclusion) =
        read(&[piece("Hel"), piece("lo"), flushed, piece("and th")], Exit::Signal(15));
    let texts: Vec<&str> = reports
        .iter()
        .filter_map(|report| if let AgentReport::Text(text) = report { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(texts, ["Hel", "lo", "\n", "and th"]);
    assert_eq!(conclusion.answer, AgentAnswer::Text("Hello\nand th".to_owned()));
}

#[test]
fn rules_are_refused() {
    let permission = serde_json::from_str(r#"{"level": "safe-edit", "deny": ["Bash"]}"#).unwrap();
    assert_eq!(VENDOR.unenforceable(&permission, &Value::Null), ["the rule deny Bash"]);
}

#[test]
fn what_a_project_allows_or_executes_is_found_and_refuses_a_restricted_run() {
    let project = tempfile::tempdir().unwrap();
    let folder = project.path().join(".cursor");
    std::fs::create_dir(&folder).unwrap();
    let allow = |text: &str| std::fs::write(folder.join("cli.json"), text).unwrap();
    let user = UserEnvironment { home: None, variable: &|_| None };
    let found = test_fixtures::located_program(&["/bin/cursor-agent"]);
    let refused = |level: Option<Level>| {
        let mut spec = test_fixtures::spec("cursor");
        spec.directory = project.path().display().to_string();
        spec.project = spec.directory.clone();
        spec.setup.permission.level = level;
        let context = test_fixtures::launch_context(Some(&found));
        let mut launch = test_fixtures::process_launch_in(&VENDOR, &context, &spec).unwrap();
        VENDOR.apply_user_environment(&spec, &mut launch, &context, &user).err().map(|error| error.reason)
    };
    allow(r#"{"permissions": {"allow": [], "deny": ["Shell(rm)"]}}"#);
    assert_eq!(refused(Some(Level::ReadOnly)), None);
    assert_eq!(VENDOR.project_executables(&ProjectFolders::new(|| vec![project.path()])), []);
    allow(r#"{"permissions": {"allow": ["Shell(**)"]}}"#);
    std::fs::write(folder.join("hooks.json"), r#"{"version": 1, "hooks": {"stop": [{"command": "x"}]}}"#)
        .unwrap();
    for level in [Level::ReadOnly, Level::SafeEdit] {
        assert!(refused(Some(level)).is_some_and(|reason| reason.contains("cli.json")), "{level:?}");
    }
    assert_eq!((refused(Some(Level::Yolo)), refused(None)), (None, None));
    let programs = VENDOR.project_executables(&ProjectFolders::new(|| vec![project.path()]));
    let descriptions: Vec<(&str, bool)> =
        programs.iter().map(|program| (program.description.as_str(), program.can_be_disabled)).collect();
    let expected = [
        ("cursor, permissions.allow: [\"Shell(**)\"]", false),
        ("cursor, hooks: {\"stop\":[{\"command\":\"x\"}]}", false),
    ];
    assert_eq!(descriptions, expected);
    allow("{ not json");
    assert!(refused(Some(Level::ReadOnly)).is_some());
}
