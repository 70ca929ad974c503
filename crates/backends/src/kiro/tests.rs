//! The documented output of Kiro, and the launch of a run.

use std::collections::BTreeMap;
use std::path::Path;

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Transport};
use domain::run::{AgentEnd, Failure, ModelError, StdStream as Pipe};
use domain::setup::ResponseFile;
use proptest::prelude::*;
use serde_json::Value;

use super::reader::{KiroStream, KiroStreamOptions};
use super::*;
use crate::contract::{AgentAnswer, AgentReport, Backend, Conclusion, Exit, LaunchPlan, OutputReader};
use crate::program::LocatedProgram;
use crate::test_fixtures;

const CREDITS: &str = "\x1b[0m\n \u{25b8} Credits: 0.39 \u{2022} Time: 15s\n";

fn read(stdout: &str, stderr: &str, exit: Exit) -> Conclusion {
    let mut reader = KiroStream::default();
    reader.feed(Pipe::Stdout, stdout.as_bytes());
    reader.feed(Pipe::Stderr, stderr.as_bytes());
    reader.conclude(exit)
}

#[test]
fn an_answer_with_its_credits_is_a_success_without_the_colours() {
    let conclusion = read("\x1b[38;5;141m> \x1b[0mHello\r\nthere.\x1b[0m\n", CREDITS, Exit::Code(0));
    assert_eq!(
        (conclusion.end, conclusion.answer),
        (AgentEnd::Done, AgentAnswer::Text("Hello\nthere.".to_owned()))
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
    let conclusion = read(&format!("> Hello\n{CREDITS}"), "", Exit::Code(0));
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, AgentAnswer::Text("Hello".to_owned())));
    for text in
        ["It wrote \u{25b8} Credits: 0.39 there.", "A film.\nCredits: 3 actors", "\u{25b8} Credits: all"]
    {
        let quoted = read(&format!("> {text}\n"), "", Exit::Code(0));
        assert!(matches!(quoted.end, AgentEnd::Failed(Failure::Output { .. })), "{quoted:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("response.txt");
    let with_file = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let expected = KiroStreamOptions {
            response_file: Some(file.clone()),
            session: Some("s".to_owned()),
            ..KiroStreamOptions::default()
        };
        let mut reader = KiroStream::new(expected);
        reader.feed(Pipe::Stdout, b"> I wrote it.\n");
        reader.conclude(Exit::Code(0))
    };
    let written = with_file("Three herons.\n");
    assert_eq!(
        (written.end, written.answer),
        (AgentEnd::Done, AgentAnswer::Text("Three herons.".to_owned()))
    );
    assert_eq!(written.session.as_deref(), Some("s"));
    let empty = with_file(" \n");
    assert!(matches!(empty.end, AgentEnd::Failed(Failure::Output { .. })), "{empty:?}");
}

#[test]
fn exit_codes_have_a_meaning_and_the_partial_answer_is_returned() {
    let exit_with = |code, stderr| read("> half", stderr, Exit::Code(code));
    let agent = |message: &str| AgentEnd::Failed(Failure::Agent { message: message.to_owned() });
    assert_eq!(exit_with(4, "").end, agent("kiro does not know the agent"));
    assert_eq!(exit_with(3, "").end, agent("an MCP server did not start"));
    assert_eq!(exit_with(1, "it broke\n").end, agent("it broke"));
    assert_eq!(exit_with(1, "").end, AgentEnd::Failed(Failure::Exit { code: 1 }));
    assert_eq!(exit_with(1, "").answer, AgentAnswer::Text("half".to_owned()));
    let killed = read("> half", CREDITS, Exit::Signal(9));
    assert_eq!(killed.end, AgentEnd::Failed(Failure::Signal { signal: 9 }));
}

#[test]
fn a_login_that_is_waited_for_ends_the_run() {
    let mut reader = KiroStream::default();
    assert_eq!(
        reader.feed(Pipe::Stderr, b"Open this URL: https://example.invalid/device\n"),
        [AgentReport::Finished]
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
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("response.txt");
    let conclude = || {
        let mut reader = KiroStream::new(KiroStreamOptions {
            response_file: Some(file.clone()),
            ..KiroStreamOptions::default()
        });
        reader.feed(Pipe::Stdout, b"> I wrote it.");
        reader.feed(Pipe::Stderr, CREDITS.as_bytes());
        reader.conclude(Exit::Code(0)).answer
    };
    assert_eq!(conclude(), AgentAnswer::Text("I wrote it.".to_owned()));
    std::fs::write(&file, " The answer.\n").unwrap();
    assert_eq!(conclude(), AgentAnswer::Text("The answer.".to_owned()));
}

#[test]
fn lost_parts_of_an_answer_are_reported_and_the_rest_counts() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("response.txt");
    let conclude = |output: &[u8]| {
        let mut reader = KiroStream::new(KiroStreamOptions {
            response_file: Some(file.clone()),
            ..KiroStreamOptions::default()
        });
        output.chunks(1 << 16).for_each(|bytes| assert_eq!(reader.feed(Pipe::Stdout, bytes), []));
        reader.feed(Pipe::Stderr, CREDITS.as_bytes());
        let conclusion = reader.conclude(Exit::Code(0));
        assert_eq!(conclusion.end, AgentEnd::Done);
        let AgentAnswer::Text(text) = conclusion.answer else { panic!("no text") };
        (text, conclusion.reports)
    };
    let warned = |text: &str| vec![AgentReport::Warned(text.to_owned())];
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

fn prepare(change: impl FnOnce(&mut domain::run::RunSpec)) -> ProcessLaunch {
    let mut spec = test_fixtures::spec("kiro");
    change(&mut spec);
    let found = LocatedProgram { argv: vec!["/bin/kiro-cli".to_owned()], version: None };
    let context = test_fixtures::launch_context(Some(&found));
    match VENDOR.prepare(&spec, &context).unwrap() {
        LaunchPlan::Process(plan) => plan,
        LaunchPlan::Loop(_) | LaunchPlan::AgentLoop(_) => panic!("a process was expected"),
    }
}

#[test]
fn the_prompt_is_an_argument_unless_it_is_too_long() {
    let short = prepare(|_| {});
    let expected = [
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
    assert_eq!(short.argv, expected);
    assert_eq!(short.feed, StdinFeed::Nothing);
    let long = prepare(|spec| spec.prompt = "x".repeat(ARGUMENT_BYTES_MAX));
    assert!(matches!(&long.feed, StdinFeed::Whole(bytes) if bytes.len() > ARGUMENT_BYTES_MAX));
    assert!(long.argv.iter().all(|argument| argument.len() < 1_000));
}

#[test]
fn an_agent_of_others_gets_a_file_and_a_directory_of_its_own() {
    let written = |change: fn(&mut domain::run::RunSpec)| {
        let file = prepare(change).files.remove(0);
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
    let trusting = prepare(|spec| spec.delegates = Delegates::Anyone).argv;
    assert!(trusting.contains(&"--trust-tools=fs_read,fs_write,@volery".to_owned()), "{trusting:?}");
}

#[test]
fn an_agent_of_kiro_is_started_by_its_name() {
    let own = prepare(|spec| spec.source = "/p/.kiro/agents/coder.json".to_owned());
    assert_eq!(own.argv[5..7], ["--agent", "coder"]);
    assert_eq!(own.argv.last().unwrap(), "do it");
}

#[test]
fn the_instructions_for_the_response_file_surround_the_prompt() {
    let plan = prepare(|spec| {
        spec.system_prompt = String::new();
        let template = "Write to {{RESPONSE_FILE}} from {{WORKING_DIRECTORY}}.".to_owned();
        spec.setup.response_file = Some(ResponseFile { template, summary_template: None });
    });
    assert_eq!(plan.argv.last().unwrap(), "In directory /p, do it\n\nWrite to /w/response.txt from /p.");
}

#[test]
fn an_agent_that_may_not_write_gets_no_response_file() {
    for (permission, writes) in [
        ("{}", true),
        (r#"{"level": "yolo"}"#, true),
        (r#"{"level": "read-only", "allow": ["fs_write"]}"#, true),
        (r#"{"level": "read-only"}"#, false),
        (r#"{"deny": ["Edit"]}"#, false),
    ] {
        let plan = prepare(|spec| {
            let template = "Write to {{RESPONSE_FILE}}.".to_owned();
            spec.setup.response_file = Some(ResponseFile { template, summary_template: None });
            spec.setup.permission = serde_json::from_str(permission).unwrap();
            assert_eq!(answers_into_file(&spec.setup), writes, "{permission}");
        });
        assert_eq!(plan.argv.last().unwrap().contains("Write to"), writes, "{permission}");
        assert_eq!(plan.files.iter().any(|file| file.name == "response.txt"), writes, "{permission}");
    }
}

#[test]
fn an_attempt_that_asks_again_resumes_in_a_directory_of_its_own() {
    let protocol = |spec: &mut domain::run::RunSpec| {
        let summary_template = Some("Sum up, or write {{RESPONSE_FILE}}.".to_owned());
        spec.setup.response_file = Some(ResponseFile { template: "Write.".to_owned(), summary_template });
    };
    let again = prepare(|spec| {
        protocol(spec);
        spec.session = Some("x".parse().unwrap());
        spec.prompt = "Sum up, or write {{RESPONSE_FILE}}.".to_owned();
    });
    assert!(again.argv.contains(&"--resume".to_owned()));
    assert_eq!(again.argv.last().unwrap(), "Sum up, or write /w/response.txt.");
    assert_eq!(again.files[1..], [WorkFile::plain("response.txt", "")]);
    let folder = |source: &str, with_protocol: bool| {
        let mut spec = test_fixtures::spec("kiro");
        spec.source = source.to_owned();
        if with_protocol {
            protocol(&mut spec);
        }
        working_directory(&spec, &test_fixtures::launch_context(None), &LaunchOverrides::default())
    };
    assert_eq!(folder("/home/me/.kiro/agents/coder.json", true), Some("/w/session".into()));
    assert_eq!(folder("/home/me/.kiro/agents/coder.json", false), None);
    assert_eq!(folder("/p/.kiro/agents/coder.json", true), Some("/w/session".into()));
    assert_eq!(folder("/p/.kiro/agents/coder.json", false), None);
    // It finds its agent there through the project's folder.
    let own = prepare(|spec| {
        protocol(spec);
        spec.source = "/p/.kiro/agents/coder.json".to_owned();
    });
    assert_eq!(own.argv[5..7], ["--agent", "coder"]);
    assert!(own.files.contains(&WorkFile::link("session/.kiro", "/p/.kiro".into())), "{:?}", own.files);
}

#[test]
fn an_empty_answer_can_be_requested_again_and_a_trailer_is_no_answer() {
    for stdout in
        ["", "> ", "\x1b[38;5;141m> \x1b[0m\n", "\x1b[0m\n \u{25b8} Credits: 0.39 \u{2022} Time: 15s\n"]
    {
        let mut reader =
            KiroStream::new(KiroStreamOptions { can_ask_again: true, ..KiroStreamOptions::default() });
        reader.feed(Pipe::Stdout, stdout.as_bytes());
        reader.feed(Pipe::Stderr, CREDITS.as_bytes());
        let conclusion = reader.conclude(Exit::Code(0));
        assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Unanswered, AgentAnswer::Nothing));
    }
    for credits in ["Credits: NASA", "Credits: 3 actors", "\u{25b8} Credits: all"] {
        let text = format!("A film.\n{credits}");
        assert_eq!(read(&format!("> {text}\n"), CREDITS, Exit::Code(0)).answer, AgentAnswer::Text(text));
    }
    let with_trailer = read(&format!("> Hello{CREDITS}"), CREDITS, Exit::Code(0));
    assert_eq!(with_trailer.answer, AgentAnswer::Text("Hello".to_owned()));
}

#[test]
fn lines_about_tools_are_not_part_of_the_answer() {
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
        // Quotations can be part of a message, and of the output of tools.
        (message("He said:\n> three\nherons."), "He said:\n> three\nherons."),
        ("> He said:\n> three\n\u{1f6e0}\u{fe0f}  Using tool: x (trusted)\n".to_owned(), "He said:\n> three"),
        (format!("{}{later}", message("Let me look.")), "Let me look."),
        (
            "> Using tool: it is easy.\nUsing tool: what?".to_owned(),
            "Using tool: it is easy.\nUsing tool: what?",
        ),
        ("Nothing is marked.".to_owned(), "Nothing is marked."),
    ] {
        let mut reader =
            KiroStream::new(KiroStreamOptions { can_ask_again: true, ..KiroStreamOptions::default() });
        reader.feed(Pipe::Stdout, transcript.as_bytes());
        reader.feed(Pipe::Stderr, CREDITS.as_bytes());
        let conclusion = reader.conclude(Exit::Code(0));
        let expected = match answer {
            "" => (AgentEnd::Unanswered, AgentAnswer::Nothing),
            answer => (AgentEnd::Done, AgentAnswer::Text(answer.to_owned())),
        };
        assert_eq!((conclusion.end, conclusion.answer), expected, "{transcript:?}");
    }
}

#[test]
fn levels_and_rules_become_trusted_tools() {
    let safe = Some(Level::SafeEdit);
    let tools = |text: &str| {
        permission::trusted_tools(&serde_json::from_str(text).unwrap(), safe).map(|tools| tools.join(","))
    };
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
        let plan = prepare(|spec| {
            spec.source = "/p/.kiro/agents/coder.json".to_owned();
            spec.setup.permission.allow = allow.iter().map(|rule| rule.parse().unwrap()).collect();
            spec.setup.permission.level = level;
        });
        plan.argv.into_iter().find(|argument| argument.starts_with("--trust")).unwrap()
    };
    assert_eq!(trusts(&["fs_read"], None), "--trust-tools=fs_read");
    assert_eq!(trusts(&[], None), "--trust-tools=");
    assert_eq!(trusts(&["@builtin"], None), "--trust-tools=", "not every tool of every server");
    assert_eq!(trusts(&["execute_bash", "@git/log"], None), "--trust-tools=execute_bash,@git/log");
    assert_eq!(trusts(&["fs_read"], Some(Level::SafeEdit)), "--trust-tools=fs_read,fs_write");
}

#[test]
fn a_file_of_its_own_that_includes_other_servers_is_copied_without_them() {
    let plan = prepare(|spec| {
        spec.source = "/p/.kiro/agents/coder.json".to_owned();
        let file = serde_json::json!({"name": "coder", "includeMcpJson": true, "tools": ["*"], "prompt": "file://./p.md"});
        spec.setup.vendor_file = file.as_object().cloned();
    });
    assert_eq!(plan.argv[5..7], ["--agent", "volery-coder"]);
    assert_eq!(plan.argv.last().unwrap(), "do it");
    let copy: Value = serde_json::from_slice(&plan.files[0].content).unwrap();
    assert_eq!((&copy["includeMcpJson"], &copy["mcpServers"]), (&Value::Bool(false), &serde_json::json!({})));
    assert_eq!(copy["prompt"], "file:///p/.kiro/agents/p.md");
    assert_eq!(copy["tools"], serde_json::json!(["*"]));
}

#[test]
fn a_copy_keeps_the_disabled_tools_of_a_server() {
    let plan = prepare(|spec| {
        spec.source = "/p/.kiro/agents/coder.json".to_owned();
        let servers = serde_json::json!({"git": {"command": "git-mcp", "disabledTools": ["push"], "autoApprove": ["log"]}});
        let file = serde_json::json!({"name": "coder", "includeMcpJson": true, "mcpServers": servers});
        spec.setup.vendor_file = file.as_object().cloned();
        let transport =
            Transport::Stdio { command: "git-mcp".to_owned(), args: Vec::new(), env: BTreeMap::new() };
        let server = McpServer { name: "git".to_owned(), transport, tools: None, timeout_ms: None };
        spec.setup.mcp_servers = vec![server];
    });
    let copy: Value = serde_json::from_slice(&plan.files[0].content).unwrap();
    let server = &copy["mcpServers"]["git"];
    assert_eq!(
        (&server["disabledTools"], &server["autoApprove"]),
        (&serde_json::json!(["push"]), &Value::Null)
    );
}

#[test]
fn what_it_cannot_limit_is_reported() {
    let gaps = |text: &str| VENDOR.unenforceable(&serde_json::from_str(text).unwrap(), &Value::Null);
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
        let mut reader = KiroStream::new(KiroStreamOptions { structured: true, ..KiroStreamOptions::default() });
        reader.feed(Pipe::Stdout, &bytes);
        reader.feed(Pipe::Stderr, &bytes);
        prop_assert!(matches!(reader.conclude(Exit::Code(0)).end, AgentEnd::Failed(_)));
    }
}

fn launched(spec: &mut domain::run::RunSpec, launch: &LaunchOverrides) {
    spec.source = "/home/ann/.kiro/agents/test.json".to_owned();
    spec.setup.vendor_agent = Some("Test Agent".to_owned());
    spec.backend.options = serde_json::to_value(launch).unwrap();
}

fn context_in(work: &Path) -> LaunchContext<'_> {
    LaunchContext {
        work_dir: work,
        current_exe: Path::new("/bin/volery"),
        program: None,
        prior_session_usage: None,
        project_executables: crate::contract::ProjectExecutables::On,
    }
}

#[test]
fn a_session_has_a_directory_where_there_is_a_folder_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let launch =
        LaunchOverrides { sessions: Some(folder.path().display().to_string()), ..LaunchOverrides::default() };
    let options = serde_json::to_value(&launch).unwrap();
    let can = |options: &Value| {
        let can = VENDOR.capabilities(options);
        (can.session, can.vendor_assigned_session_ids)
    };
    assert_eq!((can(&options), can(&Value::Null)), ((true, true), (false, false)));
    let mut spec = test_fixtures::spec("kiro");
    launched(&mut spec, &launch);
    let context = context_in(Path::new("/w"));
    assert_eq!(working_directory(&spec, &context, &launch), Some(folder.path().join(spec.id.to_string())));
    let argv = prepare(|spec| launched(spec, &launch)).argv;
    assert!(argv.windows(2).any(|pair| pair == ["--agent", "Test Agent"]), "{argv:?}");
    assert_eq!(argv.last().unwrap(), "In directory /p, do it", "it works elsewhere");
    spec.session = Some("kept".parse().unwrap());
    assert_eq!(working_directory(&spec, &context, &launch), Some(folder.path().join("kept")));
    assert!(VENDOR.stale_session(&spec, &context).unwrap().contains("is gone"));
    std::fs::create_dir(folder.path().join("kept")).unwrap();
    assert_eq!(VENDOR.stale_session(&spec, &context), None);
    let resumed = prepare(|spec| {
        launched(spec, &launch);
        spec.session = Some("kept".parse().unwrap());
    });
    assert!(resumed.argv.contains(&"--resume".to_owned()));
}

#[test]
fn a_conversation_has_a_name_only_where_a_model_answered() {
    for (stderr, session) in [(CREDITS, Some("s1".to_owned())), ("", None)] {
        let mut reader = KiroStream::new(KiroStreamOptions {
            session: Some("s1".to_owned()),
            ..KiroStreamOptions::default()
        });
        reader.feed(Pipe::Stdout, b"> Hello");
        reader.feed(Pipe::Stderr, stderr.as_bytes());
        assert_eq!(reader.conclude(Exit::Code(0)).session, session);
    }
}
