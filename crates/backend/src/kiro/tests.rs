//! What Kiro is documented to write, and to leave out.

use std::collections::BTreeMap;
use std::path::Path;

use domain::mcp_server::{McpServer, Transport};
use domain::run::{AgentEnd, Failure, ModelError, Stream as Pipe};
use domain::setup::ResponseFile;
use proptest::prelude::*;

use super::reader::{Expected, Transcript};
use super::*;
use crate::contract::{Answer, Conclusion, Exit, Reader, Report};
use crate::program::Found;
use crate::sample;

const CREDITS: &str = "\x1b[0m\n \u{25b8} Credits: 0.39 \u{2022} Time: 15s\n";

fn read(stdout: &str, stderr: &str, exit: Exit) -> Conclusion {
    let mut reader = Transcript::default();
    reader.feed(Pipe::Stdout, stdout.as_bytes());
    reader.feed(Pipe::Stderr, stderr.as_bytes());
    reader.conclude(exit)
}

#[test]
fn an_answer_with_its_credits_is_a_success_without_the_colours() {
    let conclusion = read("\x1b[38;5;141m> \x1b[0mHello\r\nthere.\x1b[0m\n", CREDITS, Exit::Code(0));
    assert_eq!(
        (conclusion.end, conclusion.answer),
        (AgentEnd::Done, Answer::Text("Hello\nthere.".to_owned()))
    );
}

#[test]
fn an_exit_with_zero_is_no_success_without_credits_or_without_an_answer() {
    for (stdout, stderr) in [("> Hello", ""), ("", ""), ("", CREDITS)] {
        let conclusion = read(stdout, stderr, Exit::Code(0));
        assert!(matches!(conclusion.end, AgentEnd::Failed(Failure::Output { .. })), "{conclusion:?}");
    }
    let rejected = read("", "error: Authentication failed, invalid API key\n", Exit::Code(0));
    assert!(
        matches!(rejected.end, AgentEnd::Failed(Failure::Model { error: ModelError::Denied, .. })),
        "{rejected:?}"
    );
}

#[test]
fn credits_count_on_either_stream_and_so_does_a_file_that_was_written() {
    let told = read(&format!("> Hello\n{CREDITS}"), "", Exit::Code(0));
    assert_eq!((told.end, told.answer), (AgentEnd::Done, Answer::Text("Hello".to_owned())));
    for words in
        ["It wrote \u{25b8} Credits: 0.39 there.", "A film.\nCredits: 3 actors", "\u{25b8} Credits: all"]
    {
        let quoted = read(&format!("> {words}\n"), "", Exit::Code(0));
        assert!(matches!(quoted.end, AgentEnd::Failed(Failure::Output { .. })), "{quoted:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("response.txt");
    let with_file = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let expected = Expected {
            response_file: Some(file.clone()),
            session: Some("s".to_owned()),
            ..Expected::default()
        };
        let mut reader = Transcript::new(expected);
        reader.feed(Pipe::Stdout, b"> I wrote it.\n");
        reader.conclude(Exit::Code(0))
    };
    let written = with_file("Three herons.\n");
    assert_eq!((written.end, written.answer), (AgentEnd::Done, Answer::Text("Three herons.".to_owned())));
    assert_eq!(written.session.as_deref(), Some("s"));
    let empty = with_file(" \n");
    assert!(matches!(empty.end, AgentEnd::Failed(Failure::Output { .. })), "{empty:?}");
}

#[test]
fn codes_have_their_meaning_and_text_is_kept() {
    let told = |code, stderr| read("> half", stderr, Exit::Code(code));
    let agent = |message: &str| AgentEnd::Failed(Failure::Agent { message: message.to_owned() });
    assert_eq!(told(4, "").end, agent("kiro does not know the agent"));
    assert_eq!(told(3, "").end, agent("an MCP server did not start"));
    assert_eq!(told(1, "it broke\n").end, agent("it broke"));
    assert_eq!(told(1, "").end, AgentEnd::Failed(Failure::Exit { code: 1 }));
    assert_eq!(told(1, "").answer, Answer::Text("half".to_owned()));
    let killed = read("> half", CREDITS, Exit::Signal(9));
    assert_eq!(killed.end, AgentEnd::Failed(Failure::Signal { signal: 9 }));
}

#[test]
fn a_login_that_is_waited_for_ends_the_run() {
    let mut reader = Transcript::default();
    assert_eq!(
        reader.feed(Pipe::Stderr, b"Open this URL: https://example.invalid/device\n"),
        [Report::Finished]
    );
    assert_eq!(reader.feed(Pipe::Stderr, b"Open this URL again\n"), []);
    let conclusion = reader.conclude(Exit::Signal(9));
    assert!(
        matches!(conclusion.end, AgentEnd::Failed(Failure::Model { error: ModelError::Denied, .. })),
        "{conclusion:?}"
    );
}

#[test]
fn an_answer_in_its_file_counts_first() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("response.txt");
    let conclude = || {
        let mut reader =
            Transcript::new(Expected { response_file: Some(file.clone()), ..Expected::default() });
        reader.feed(Pipe::Stdout, b"> I wrote it.");
        reader.feed(Pipe::Stderr, CREDITS.as_bytes());
        reader.conclude(Exit::Code(0)).answer
    };
    assert_eq!(conclude(), Answer::Text("I wrote it.".to_owned()));
    std::fs::write(&file, " The answer.\n").unwrap();
    assert_eq!(conclude(), Answer::Text("The answer.".to_owned()));
}

#[test]
fn what_is_lost_of_an_answer_is_told_and_the_rest_counts() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("response.txt");
    let conclude = |output: &[u8]| {
        let mut reader =
            Transcript::new(Expected { response_file: Some(file.clone()), ..Expected::default() });
        output.chunks(1 << 16).for_each(|bytes| assert_eq!(reader.feed(Pipe::Stdout, bytes), []));
        reader.feed(Pipe::Stderr, CREDITS.as_bytes());
        let conclusion = reader.conclude(Exit::Code(0));
        assert_eq!(conclusion.end, AgentEnd::Done);
        let Answer::Text(text) = conclusion.answer else { panic!("no text") };
        (text, conclusion.reports)
    };
    let warned = |words: &str| vec![Report::Warned(words.to_owned())];
    let long = format!("x{}", "\u{e9}".repeat(5 << 20));
    let replaced = warned("the output is not valid UTF-8, and what is wrong was replaced");
    assert_eq!(conclude(b"> Three h\xe9rons."), ("Three h\u{fffd}rons.".to_owned(), replaced));
    let left_out = warned("the output was too long and its beginning was left out");
    assert_eq!(conclude(format!("{long}\n> Three.").as_bytes()), ("Three.".to_owned(), left_out.clone()));
    let (text, reports) = conclude(format!("> {long}").as_bytes());
    assert!(text.len() <= 4 << 20 && text.chars().all(|letter| letter == '\u{e9}'), "{}", text.len());
    assert_eq!(reports, left_out);

    std::fs::write(&file, b"Three h\xe9rons.\n").unwrap();
    let replaced = warned("the response file is not valid UTF-8, and what is wrong was replaced");
    assert_eq!(conclude(b"> I wrote it."), ("Three h\u{fffd}rons.".to_owned(), replaced));
    std::fs::write(&file, &long).unwrap();
    let left_out = warned("the response file was too long and its end was left out");
    assert_eq!(conclude(b"> I wrote it."), (domain::size::head(&long, 4 << 20).to_owned(), left_out));
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let unread = warned("the response file could not be read: it is no regular file");
    assert_eq!(conclude(b"> I wrote it."), ("I wrote it.".to_owned(), unread));
}

fn drive(change: impl FnOnce(&mut domain::run::RunSpec)) -> ProcessDrive {
    let mut spec = sample::spec("kiro");
    change(&mut spec);
    let found = Found { argv: vec!["/bin/kiro-cli".to_owned()], version: None };
    let place = sample::place(Some(&found));
    match Kiro.prepare(&spec, &place).unwrap() {
        Drive::Process(drive) => drive,
        Drive::Loop(_) => panic!("a process was expected"),
    }
}

#[test]
fn the_prompt_is_an_argument_unless_it_is_too_long() {
    let short = drive(|_| {});
    let words = [
        "/bin/kiro-cli",
        "chat",
        "--no-interactive",
        "--wrap",
        "never",
        "--agent",
        "volery",
        "--trust-tools=fs_read,fs_write",
        "In directory /p, do it",
    ];
    assert_eq!(short.argv, words);
    assert_eq!(short.feed, Feed::Nothing);
    let long = drive(|spec| spec.prompt = "x".repeat(ARGUMENT_BYTES_MAX));
    assert!(matches!(&long.feed, Feed::Whole(bytes) if bytes.len() > ARGUMENT_BYTES_MAX));
    assert!(long.argv.iter().all(|word| word.len() < 1_000));
}

#[test]
fn an_agent_of_others_gets_a_file_and_a_directory_of_its_own() {
    let written = |change: fn(&mut domain::run::RunSpec)| {
        let file = drive(change).files.remove(0);
        let text = String::from_utf8(file.content).unwrap();
        (file.name, serde_json::from_str::<Value>(&text).unwrap())
    };
    let (name, agent) = written(|spec| spec.delegates = Delegates::Anyone);
    assert_eq!(name, "session/.kiro/agents/volery.json");
    assert_eq!((&agent["prompt"], &agent["includeMcpJson"]), (&"You are careful.".into(), &false.into()));
    assert_eq!(agent["resources"][0], "file:///p/AGENTS.md");
    assert_eq!(agent["mcpServers"]["volery"]["args"][0], "serve");
    let (_, alone) = written(|spec| spec.setup.context = domain::setup::Context::None);
    assert_eq!(
        (alone["resources"].as_array().unwrap().len(), alone["mcpServers"].to_string()),
        (0, "{}".into())
    );
    let trusting = drive(|spec| spec.delegates = Delegates::Anyone).argv;
    assert!(trusting.contains(&"--trust-tools=fs_read,fs_write,@volery".to_owned()), "{trusting:?}");
}

#[test]
fn an_agent_of_its_own_goes_by_its_name() {
    let own = drive(|spec| spec.source = "/p/.kiro/agents/coder.json".to_owned());
    assert_eq!(own.argv[5..7], ["--agent", "coder"]);
    assert_eq!(own.argv.last().unwrap(), "do it");
}

#[test]
fn the_protocol_of_the_response_file_stands_around_the_prompt() {
    let drive = drive(|spec| {
        spec.system_prompt = String::new();
        let template = "Write to {{RESPONSE_FILE}} from {{WORKING_DIRECTORY}}.".to_owned();
        spec.setup.response_file = Some(ResponseFile { template, summary_template: None });
    });
    assert_eq!(drive.argv.last().unwrap(), "In directory /p, do it\n\nWrite to /w/response.txt from /p.");
}

#[test]
fn an_agent_that_may_not_write_is_not_told_to() {
    for (permission, writes) in [
        ("{}", true),
        (r#"{"level": "yolo"}"#, true),
        (r#"{"level": "read-only", "allow": ["fs_write"]}"#, true),
        (r#"{"level": "read-only"}"#, false),
        (r#"{"deny": ["Edit"]}"#, false),
    ] {
        let drive = drive(|spec| {
            let template = "Write to {{RESPONSE_FILE}}.".to_owned();
            spec.setup.response_file = Some(ResponseFile { template, summary_template: None });
            spec.setup.permission = serde_json::from_str(permission).unwrap();
            let options = &spec.backend.options;
            assert_eq!(Kiro.answers_into_file(&spec.setup, options), writes, "{permission}");
        });
        assert_eq!(drive.argv.last().unwrap().contains("Write to"), writes, "{permission}");
        assert_eq!(drive.files.iter().any(|file| file.name == "response.txt"), writes, "{permission}");
    }
}

#[test]
fn an_attempt_that_asks_once_more_resumes_in_a_directory_of_its_own() {
    let protocol = |spec: &mut domain::run::RunSpec| {
        let summary_template = Some("Sum up, or write {{RESPONSE_FILE}}.".to_owned());
        spec.setup.response_file = Some(ResponseFile { template: "Write.".to_owned(), summary_template });
    };
    let again = drive(|spec| {
        protocol(spec);
        spec.session = Some("x".parse().unwrap());
        spec.prompt = "Sum up, or write {{RESPONSE_FILE}}.".to_owned();
    });
    assert!(again.argv.contains(&"--resume".to_owned()));
    assert_eq!(again.argv.last().unwrap(), "Sum up, or write /w/response.txt.");
    assert_eq!(again.files[1..], [WorkFile::plain("response.txt", "")]);
    let folder = |source: &str, with_protocol: bool| {
        let mut spec = sample::spec("kiro");
        spec.source = source.to_owned();
        if with_protocol {
            protocol(&mut spec);
        }
        let place = sample::place(None);
        Kiro.works_in(&spec, &place)
    };
    assert_eq!(folder("/home/me/.kiro/agents/coder.json", true), Some("/w/session".into()));
    assert_eq!(folder("/home/me/.kiro/agents/coder.json", false), None);
    assert_eq!(folder("/p/.kiro/agents/coder.json", true), Some("/w/session".into()));
    assert_eq!(folder("/p/.kiro/agents/coder.json", false), None);
    // There it finds its agent by the project's folder.
    let own = drive(|spec| {
        protocol(spec);
        spec.source = "/p/.kiro/agents/coder.json".to_owned();
    });
    assert_eq!(own.argv[5..7], ["--agent", "coder"]);
    assert!(own.files.contains(&WorkFile::link("session/.kiro", "/p/.kiro".into())), "{:?}", own.files);
}

#[test]
fn silence_can_be_asked_again_and_a_trailer_is_no_answer() {
    for stdout in
        ["", "> ", "\x1b[38;5;141m> \x1b[0m\n", "\x1b[0m\n \u{25b8} Credits: 0.39 \u{2022} Time: 15s\n"]
    {
        let mut reader = Transcript::new(Expected { asked_again: true, ..Expected::default() });
        reader.feed(Pipe::Stdout, stdout.as_bytes());
        reader.feed(Pipe::Stderr, CREDITS.as_bytes());
        let conclusion = reader.conclude(Exit::Code(0));
        assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Unanswered, Answer::Nothing));
    }
    for credits in ["Credits: NASA", "Credits: 3 actors", "\u{25b8} Credits: all"] {
        let text = format!("A film.\n{credits}");
        assert_eq!(read(&format!("> {text}\n"), CREDITS, Exit::Code(0)).answer, Answer::Text(text));
    }
    let with_trailer = read(&format!("> Hello{CREDITS}"), CREDITS, Exit::Code(0));
    assert_eq!(with_trailer.answer, Answer::Text("Hello".to_owned()));
}

#[test]
fn what_is_told_of_tools_is_no_answer() {
    let tool = "\x1b[38;5;13mUsing tool: execute_bash\x1b[0m\n \u{25cf} Completed\n";
    let later = "I will run: ls (using tool: shell)\nPurpose: to look\n\n> a.txt\n - Completed in 0.1s\n";
    let message = |text: &str| format!("\x1b[38;5;141m> \x1b[0m{text}\x1b[0m\n");
    for (transcript, answer) in [
        (tool.to_owned(), ""),
        (format!("{tool}\x1b[0m\n"), ""),
        (format!("{tool}{}", message("")), ""),
        (format!("{}{tool}{}", message("Let me look."), message("Three herons.")), "Three herons."),
        (format!("{}{tool}", message("Two lines:\nthis is one.")), "Two lines:\nthis is one."),
        (format!("{}{later}{}", message("Let me look."), message("One.")), "One."),
        // Quotations are part of what is said, and of what tools write.
        (message("He said:\n> three\nherons."), "He said:\n> three\nherons."),
        ("> He said:\n> three\n\u{1f6e0}\u{fe0f}  Using tool: x (trusted)\n".to_owned(), "He said:\n> three"),
        (format!("{}{later}", message("Let me look.")), "Let me look."),
        (
            "> Using tool: it is easy.\nUsing tool: what?".to_owned(),
            "Using tool: it is easy.\nUsing tool: what?",
        ),
        ("Nothing is marked.".to_owned(), "Nothing is marked."),
    ] {
        let mut reader = Transcript::new(Expected { asked_again: true, ..Expected::default() });
        reader.feed(Pipe::Stdout, transcript.as_bytes());
        reader.feed(Pipe::Stderr, CREDITS.as_bytes());
        let conclusion = reader.conclude(Exit::Code(0));
        let expected = match answer {
            "" => (AgentEnd::Unanswered, Answer::Nothing),
            answer => (AgentEnd::Done, Answer::Text(answer.to_owned())),
        };
        assert_eq!((conclusion.end, conclusion.answer), expected, "{transcript:?}");
    }
}

#[test]
fn levels_and_rules_become_trusted_tools() {
    let safe = Some(Level::SafeEdit);
    let tools = |text: &str| trusted(&serde_json::from_str(text).unwrap(), safe).map(|tools| tools.join(","));
    assert_eq!(tools(r#"{"level": "read-only"}"#).as_deref(), Some("fs_read"));
    assert_eq!(tools("{}").as_deref(), Some("fs_read,fs_write"));
    assert_eq!(tools(r#"{"level": "yolo"}"#), None);
    assert_eq!(tools(r#"{"level": "yolo", "deny": ["Bash"]}"#).as_deref(), Some("fs_read,fs_write"));
    assert_eq!(tools(r#"{"level": "yolo", "deny": ["*"]}"#).as_deref(), Some(""));
    let rules = r#"{"level": "read-only", "allow": ["Bash", "mcp__a", "@b/c"], "deny": ["mcp__a__x"]}"#;
    assert_eq!(tools(rules).as_deref(), Some("fs_read,execute_bash,@b/c"));
}

#[test]
fn a_file_of_its_own_trusts_what_it_allows_and_nothing_else() {
    let trusts = |allow: &[&str], level: Option<Level>| {
        let drive = drive(|spec| {
            spec.source = "/p/.kiro/agents/coder.json".to_owned();
            spec.setup.permission.allow = allow.iter().map(|rule| rule.parse().unwrap()).collect();
            spec.setup.permission.level = level;
        });
        drive.argv.into_iter().find(|word| word.starts_with("--trust")).unwrap()
    };
    assert_eq!(trusts(&["fs_read"], None), "--trust-tools=fs_read");
    assert_eq!(trusts(&[], None), "--trust-tools=");
    assert_eq!(trusts(&["@builtin"], None), "--trust-tools=", "not every tool of every server");
    assert_eq!(trusts(&["execute_bash", "@git/log"], None), "--trust-tools=execute_bash,@git/log");
    assert_eq!(trusts(&["fs_read"], Some(Level::SafeEdit)), "--trust-tools=fs_read,fs_write");
}

#[test]
fn a_file_of_its_own_that_includes_other_servers_is_copied_without_them() {
    let drive = drive(|spec| {
        spec.source = "/p/.kiro/agents/coder.json".to_owned();
        let file = serde_json::json!({"name": "coder", "includeMcpJson": true, "tools": ["*"], "prompt": "file://./p.md"});
        spec.setup.vendor_file = file.as_object().cloned();
    });
    assert_eq!(drive.argv[5..7], ["--agent", "volery-coder"]);
    assert_eq!(drive.argv.last().unwrap(), "do it");
    let copy: Value = serde_json::from_slice(&drive.files[0].content).unwrap();
    assert_eq!((&copy["includeMcpJson"], &copy["mcpServers"]), (&Value::Bool(false), &serde_json::json!({})));
    assert_eq!(copy["prompt"], "file:///p/.kiro/agents/p.md");
    assert_eq!(copy["tools"], serde_json::json!(["*"]));
}

#[test]
fn a_copy_keeps_what_a_server_shall_not_offer() {
    let drive = drive(|spec| {
        spec.source = "/p/.kiro/agents/coder.json".to_owned();
        let servers = serde_json::json!({"git": {"command": "git-mcp", "disabledTools": ["push"], "autoApprove": ["log"]}});
        let file = serde_json::json!({"name": "coder", "includeMcpJson": true, "mcpServers": servers});
        spec.setup.vendor_file = file.as_object().cloned();
        let transport =
            Transport::Stdio { command: "git-mcp".to_owned(), args: Vec::new(), env: BTreeMap::new() };
        let server = McpServer { name: "git".to_owned(), transport, tools: None, timeout_ms: None };
        spec.setup.mcp_servers = vec![server];
    });
    let copy: Value = serde_json::from_slice(&drive.files[0].content).unwrap();
    let server = &copy["mcpServers"]["git"];
    assert_eq!(
        (&server["disabledTools"], &server["autoApprove"]),
        (&serde_json::json!(["push"]), &Value::Null)
    );
}

#[test]
fn what_it_cannot_limit_is_named() {
    let gaps = |text: &str| Kiro.unenforceable(&serde_json::from_str(text).unwrap(), &Value::Null);
    assert_eq!(gaps(r#"{"level": "read-only", "deny": ["Edit", "Bash(x:*)"]}"#), [""; 0]);
    assert_eq!(
        gaps(r#"{"level": "safe-edit"}"#),
        ["the level safe-edit (it changes files outside its directory too)"]
    );
    assert_eq!(
        gaps(r#"{"level": "yolo", "allow": ["Bash(git:*)"], "deny": ["Edit"]}"#),
        ["the rule allow Bash(git:*)", "the rule deny Edit"]
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_succeed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut reader = Transcript::new(Expected { structured: true, ..Expected::default() });
        reader.feed(Pipe::Stdout, &bytes);
        reader.feed(Pipe::Stderr, &bytes);
        prop_assert!(matches!(reader.conclude(Exit::Code(0)).end, AgentEnd::Failed(_)));
    }
}

fn launched(spec: &mut domain::run::RunSpec, launch: &Launch) {
    spec.source = "/home/ann/.kiro/agents/test.json".to_owned();
    spec.setup.vendor_agent = Some("Test Agent".to_owned());
    spec.backend.options = serde_json::to_value(launch).unwrap();
}

fn place_of(work: &Path) -> Place<'_> {
    Place {
        work,
        own_program: Path::new("/bin/volery"),
        found: None,
        session_used: None,
        project_programs: crate::contract::ProjectPrograms::On,
    }
}

#[test]
fn a_session_has_a_directory_where_there_is_a_folder_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let launch = Launch { sessions: Some(folder.path().display().to_string()), ..Launch::default() };
    let options = serde_json::to_value(&launch).unwrap();
    let can = |options: &Value| {
        let can = Kiro.capabilities(options);
        (can.session, can.names_sessions)
    };
    assert_eq!((can(&options), can(&Value::Null)), ((true, true), (false, false)));
    let mut spec = sample::spec("kiro");
    launched(&mut spec, &launch);
    let place = place_of(Path::new("/w"));
    assert_eq!(Kiro.works_in(&spec, &place), Some(folder.path().join(spec.id.to_string())));
    let argv = drive(|spec| launched(spec, &launch)).argv;
    assert!(argv.windows(2).any(|words| words == ["--agent", "Test Agent"]), "{argv:?}");
    assert_eq!(argv.last().unwrap(), "In directory /p, do it", "it works elsewhere");
    spec.session = Some("kept".parse().unwrap());
    assert_eq!(Kiro.works_in(&spec, &place), Some(folder.path().join("kept")));
    assert!(Kiro.stale_session(&spec, &place).unwrap().contains("is gone"));
    std::fs::create_dir(folder.path().join("kept")).unwrap();
    assert_eq!(Kiro.stale_session(&spec, &place), None);
    let resumed = drive(|spec| {
        launched(spec, &launch);
        spec.session = Some("kept".parse().unwrap());
    });
    assert!(resumed.argv.contains(&"--resume".to_owned()));
}

#[test]
fn a_conversation_has_a_name_only_where_a_model_answered() {
    for (stderr, session) in [(CREDITS, Some("s1".to_owned())), ("", None)] {
        let mut reader = Transcript::new(Expected { session: Some("s1".to_owned()), ..Expected::default() });
        reader.feed(Pipe::Stdout, b"> Hello");
        reader.feed(Pipe::Stderr, stderr.as_bytes());
        assert_eq!(reader.conclude(Exit::Code(0)).session, session);
    }
}
