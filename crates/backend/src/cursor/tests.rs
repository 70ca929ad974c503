//! Streams as Cursor is documented to write them, whole, cut and wrong.

use domain::run::{AgentEnd, Failure, ModelError, Stream as Pipe};
use serde_json::{Value, json};

use super::reader::Stream;
use super::*;
use crate::contract::{Answer, Conclusion, Exit, Reader, Report};
use crate::sample::{self, lines};

fn read(events: &[Value], exit: Exit) -> (Vec<Report>, Conclusion) {
    sample::read(Stream::new(false), events, exit)
}

fn said(text: &str) -> Value {
    json!({"type": "assistant", "session_id": "c-1", "message": {"content": [{"type": "text", "text": text}]}})
}

fn result(is_error: bool) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": is_error, "result": "Done.", "session_id": "c-1"})
}

#[test]
fn the_result_is_the_answer_and_ends_a_program_that_stays() {
    let init = json!({"type": "system", "subtype": "init", "session_id": "c-1", "model": "m"});
    let (reports, conclusion) = read(&[init, said("Let me."), result(false)], Exit::Signal(9));
    let expected = [
        Report::Session("c-1".to_owned()),
        Report::Model("m".to_owned()),
        Report::Said("Let me.\n".to_owned()),
        Report::Finished,
    ];
    assert_eq!(reports, expected);
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, Answer::Text("Done.".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("c-1"));
}

#[test]
fn a_failure_is_a_message_and_a_code_and_what_was_said_is_kept() {
    let ended = |stderr: &str, exit| {
        let mut stream = Stream::new(false);
        stream.feed(Pipe::Stdout, &lines(&[said("so far")]));
        stream.feed(Pipe::Stderr, stderr.as_bytes());
        let conclusion = stream.conclude(exit);
        assert_eq!(conclusion.answer, Answer::Text("so far\n".to_owned()));
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
fn tools_and_refusals_are_told() {
    let tool = |subtype: &str, call: &Value| json!({"type": "tool_call", "subtype": subtype, "call_id": "t1", "tool_call": {"shellToolCall": call}});
    let input = json!({"command": "ls"});
    let events = [
        tool("started", &json!({"args": input})),
        tool("completed", &json!({"args": input, "result": {"rejected": {}}})),
    ];
    let (reports, _) = read(&events, Exit::Code(0));
    let (id, name) = ("t1".to_owned(), "shell".to_owned());
    assert_eq!(reports[0], Report::ToolCalled { id: id.clone(), name, input });
    assert!(matches!(&reports[1], Report::ToolReturned { ok: false, .. }), "{reports:?}");
    assert_eq!(reports[2], sample::denied("t1", "shell", "by the settings of cursor"));
}

fn drive(change: impl FnOnce(&mut domain::run::RunSpec)) -> Result<ProcessDrive, PrepareError> {
    sample::drive(&Cursor, &sample::found(&["/bin/cursor-agent"]), change)
}

#[test]
fn what_the_agent_wants_becomes_options() {
    let argv = drive(|spec| {
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
    let yolo = drive(|spec| spec.setup.permission.level = Some(Level::Yolo)).unwrap().argv;
    assert!(yolo.contains(&"--force".to_owned()), "{yolo:?}");
    assert!(!drive(|_| {}).unwrap().argv.contains(&"--force".to_owned()));
}

#[test]
fn a_prompt_that_does_not_fit_into_an_argument_is_piped_in() {
    let long = drive(|spec| spec.prompt = "x".repeat(200_000)).unwrap();
    assert!(matches!(&long.feed, Feed::Whole(bytes) if bytes.len() > 200_000));
    assert!(long.argv.iter().all(|word| word.len() < 1_000));
    assert_eq!(drive(|_| {}).unwrap().feed, Feed::Nothing);
}

#[test]
fn pieces_are_told_once_and_kept_where_nothing_whole_comes() {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let piece = |said: &str| json!({"type": "assistant", "message": text(said), "timestamp_ms": 7});
    let flushed =
        json!({"type": "assistant", "message": text("Hello"), "timestamp_ms": 7, "model_call_id": "m"});
    let (reports, conclusion) =
        read(&[piece("Hel"), piece("lo"), flushed, piece("and th")], Exit::Signal(15));
    let said: Vec<&str> = reports
        .iter()
        .filter_map(|report| if let Report::Said(text) = report { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(said, ["Hel", "lo", "\n", "and th"]);
    assert_eq!(conclusion.answer, Answer::Text("Hello\nand th".to_owned()));
}

#[test]
fn rules_are_refused() {
    let permission = serde_json::from_str(r#"{"level": "safe-edit", "deny": ["Bash"]}"#).unwrap();
    assert_eq!(Cursor.unenforceable(&permission, &Value::Null), ["the rule deny Bash"]);
}

#[test]
fn what_a_project_allows_or_executes_is_found_and_stops_a_run_that_is_held_back() {
    let project = tempfile::tempdir().unwrap();
    let folder = project.path().join(".cursor");
    std::fs::create_dir(&folder).unwrap();
    let allow = |text: &str| std::fs::write(folder.join("cli.json"), text).unwrap();
    let user = User { home: None, value: &|_| None };
    let found = sample::found(&["/bin/cursor-agent"]);
    let refused = |level: Option<Level>| {
        let mut spec = sample::spec("cursor");
        spec.directory = project.path().display().to_string();
        spec.project = spec.directory.clone();
        spec.setup.permission.level = level;
        let place = sample::place(Some(&found));
        let mut drive = sample::drive_in(&Cursor, &place, &spec).unwrap();
        Cursor.adapt(&spec, &mut drive, &place, &user).err().map(|error| error.reason)
    };
    allow(r#"{"permissions": {"allow": [], "deny": ["Shell(rm)"]}}"#);
    assert_eq!(refused(Some(Level::ReadOnly)), None);
    assert_eq!(Cursor.project_programs(&[project.path()]), []);
    allow(r#"{"permissions": {"allow": ["Shell(**)"]}}"#);
    std::fs::write(folder.join("hooks.json"), r#"{"version": 1, "hooks": {"stop": [{"command": "x"}]}}"#)
        .unwrap();
    for level in [Level::ReadOnly, Level::SafeEdit] {
        assert!(refused(Some(level)).is_some_and(|reason| reason.contains("cli.json")), "{level:?}");
    }
    assert_eq!((refused(Some(Level::Yolo)), refused(None)), (None, None));
    let programs = Cursor.project_programs(&[project.path()]);
    let said: Vec<(&str, bool)> =
        programs.iter().map(|program| (program.says.as_str(), program.can_be_off)).collect();
    let expected = [
        ("cursor, permissions.allow: [\"Shell(**)\"]", false),
        ("cursor, hooks: {\"stop\":[{\"command\":\"x\"}]}", false),
    ];
    assert_eq!(said, expected);
    allow("{ not json");
    assert!(refused(Some(Level::ReadOnly)).is_some());
}
