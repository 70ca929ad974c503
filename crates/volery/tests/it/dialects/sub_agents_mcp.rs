//! `--dialect sub-agents-mcp`: what that system documents, and what it promised and did not do.

mod programs;

use std::fs;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{Client, PATIENCE, TestEnv, kill, wait_for};

/// A program that follows its prompt: `fail`, `hang`, or repeat the prompt.
const PROGRAM: &str = r#"
prompt=$(cat)
case "$prompt" in
  *fail*) echo "half an answer"; echo "it broke" >&2; exit 7 ;;
  *silent*) while :; do sleep 1; done ;;
  *hang*) echo "half an answer"; while :; do sleep 1; done ;;
  *gate*) while [ ! -e "$0" ]; do sleep 0.02; done; echo "through" ;;
  *) printf '%s' "$prompt" ;;
esac
"#;

fn env_with_agents() -> TestEnv {
    let env = TestEnv::new();
    let gate = env.path("go").display().to_string();
    env.backend("scripted", &["sh", "-c", PROGRAM, &gate]);
    fs::create_dir(env.path("agents")).unwrap();
    agent(&env, "reviewer.md", "# Reviews changes\n\nBe strict.");
    agent(&env, "writer.txt", "Writes prose.\nBe short.");
    env
}

fn agent(env: &TestEnv, file: &str, text: &str) {
    fs::write(env.path("agents").join(file), text).unwrap();
}

fn command(env: &TestEnv, variables: &[(&str, &str)]) -> Command {
    let mut command = env.command(["serve", "--dialect", "sub-agents-mcp"]);
    command.env("AGENTS_DIR", env.path("agents")).env("AGENT_TYPE", "scripted").env("LOG_LEVEL", "error");
    command.envs(variables.iter().copied());
    command
}

fn serve(env: &TestEnv, variables: &[(&str, &str)]) -> Client {
    Client::start(command(env, variables)).initialize("test")
}

/// Calls the tool and returns the whole result, after a look at what every answer has.
#[track_caller]
fn run(client: &mut Client, arguments: Value) -> Value {
    let result = client.request("tools/call", json!({"name": "run_agent", "arguments": arguments}));
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"], "text and structured content say the same");
    result
}

fn ask(env: &TestEnv, agent: &str, prompt: &str) -> Value {
    json!({"agent": agent, "prompt": prompt, "cwd": env.project()})
}

/// Differs from sub-agents-mcp: the annotations of the tool | none | a title and what the tool may do
/// Differs from sub-agents-mcp: `cwd` in the list of required parameters | required in later versions | optional;
///    the directory of the server counts if it is left out
#[test]
fn the_tools_and_resources_are_the_ones_that_were_reviewed() {
    let env = env_with_agents();
    let mut client = Client::start(command(&env, &[]));
    let hello = client.request(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    assert_eq!(hello["serverInfo"]["name"], json!("sub-agents-mcp"));
    assert_eq!(hello["capabilities"], json!({"tools": {}, "resources": {}}));
    let tools = client.request("tools/list", json!({}));
    let resources = client.request("resources/list", json!({}));
    insta::assert_snapshot!(
        "sub_agents_mcp",
        serde_json::to_string_pretty(&json!({"tools": tools["tools"], "resources": resources["resources"]}))
            .unwrap()
    );
}

#[test]
fn an_answer_has_the_documented_shape() {
    let env = env_with_agents();
    let result = run(&mut serve(&env, &[]), ask(&env, "reviewer", "  look at this  "));
    assert_eq!(result["isError"], json!(false));
    assert_eq!(result.get("_meta"), None, "sessions are off");
    let content = &result["structuredContent"];
    let keys: Vec<&String> = content.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["result", "agent", "exit_code", "execution_time", "status", "request_id"]);
    assert_eq!((&content["agent"], &content["exit_code"]), (&json!("reviewer"), &json!(0)));
    assert_eq!((&content["status"], &content["result"]), (&json!("success"), &json!("look at this")));
    let request_id = content["request_id"].as_str().unwrap();
    let parts: Vec<&str> = request_id.splitn(4, '_').collect();
    assert_eq!((parts[0], parts[1], parts[3].len()), ("run", "agent", 9), "{request_id}");
    assert!(parts[2].parse::<u64>().is_ok() && parts[3].bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let run = env.json(["show", &env.only_run()]);
    assert_eq!((&run["agent"], &run["caller"]), (&json!("reviewer"), &json!("test")));
}

/// Differs from sub-agents-mcp: `result` of a failure | stdout, or stderr | why the agent failed, then what it had
///    said
#[test]
fn a_failure_is_an_error_with_its_exit_code_and_output() {
    let env = env_with_agents();
    let result = run(&mut serve(&env, &[]), ask(&env, "reviewer", "fail"));
    assert_eq!(result["isError"], json!(true));
    let content = &result["structuredContent"];
    assert_eq!((&content["status"], &content["exit_code"]), (&json!("error"), &json!(7)));
    let text = content["result"].as_str().unwrap();
    assert!(text.contains("half an answer"), "{text}");
}

/// Differs from sub-agents-mcp: a time-out without any output | `status: "error"` without `isError` | `status: "error"` and `isError`
#[test]
fn a_time_out_is_partial_with_a_result_and_an_error_without() {
    let env = env_with_agents();
    let mut client = serve(&env, &[("EXECUTION_TIMEOUT_MS", "1000")]);
    let partial = run(&mut client, ask(&env, "reviewer", "hang"));
    let content = &partial["structuredContent"];
    assert_eq!((&partial["isError"], &content["status"]), (&json!(false), &json!("partial")), "{content}");
    assert_eq!((&content["exit_code"], &content["result"]), (&json!(124), &json!("half an answer")));
    let silent = run(&mut client, ask(&env, "reviewer", "silent"));
    let content = &silent["structuredContent"];
    assert_eq!((&silent["isError"], &content["status"]), (&json!(true), &json!("error")), "{content}");
    assert_eq!(content["exit_code"], json!(124));
}

#[test]
fn a_missing_program_is_exit_code_127() {
    let env = env_with_agents();
    env.backend("absent", &["/nowhere/agent"]);
    let result = run(&mut serve(&env, &[("AGENT_TYPE", "absent")]), ask(&env, "reviewer", "x"));
    let content = &result["structuredContent"];
    assert_eq!((&result["isError"], &content["exit_code"]), (&json!(true), &json!(127)), "{content}");
}

/// Differs from sub-agents-mcp: a `cwd` that does not exist | the program is not found, exit code 127 | refused
///    before anything starts, with the path
/// Differs from sub-agents-mcp: an unknown tool | `Unknown tool: NAME` | an error that names the tools there are
#[test]
fn errors_have_the_texts_of_sub_agents_mcp() {
    let env = env_with_agents();
    let mut client = serve(&env, &[]);
    let unknown = run(&mut client, ask(&env, "nobody", "x"));
    assert_eq!(unknown["isError"], json!(true));
    let error = json!({
        "status": "error", "error": "Agent 'nobody' not found", "available_agents": ["reviewer", "writer"],
    });
    assert_eq!(unknown["structuredContent"], error);
    let empty = run(&mut client, json!({"agent": " ", "prompt": "x"}));
    let error = json!({"status": "error", "error": "Agent execution failed: Invalid agent parameter: cannot be empty"});
    assert_eq!((&empty["isError"], &empty["structuredContent"]), (&json!(true), &error));
    let elsewhere = run(&mut client, json!({"agent": "writer", "prompt": "x", "cwd": "/does/not/exist"}));
    let error = elsewhere["structuredContent"]["error"].as_str().unwrap();
    assert!(error.starts_with("Agent execution failed: "), "{error}");
    insta::assert_snapshot!(env.masked(error), @r#"
    Agent execution failed: the directory "/does/not/exist" does not exist
    hint: give the absolute path of an existing directory
    "#);
    assert_eq!(env.runs(), Vec::<String>::new());
    let id = client.send("tools/call", json!({"name": "run_agents", "arguments": {}}));
    let answer = client.answer(id, PATIENCE);
    insta::assert_snapshot!(env.masked_texts(&answer["error"]["message"]), @r#"unknown tool "run_agents"; did you mean run_agent? The tools are run_agent"#);
}

#[test]
fn a_relative_cwd_begins_at_the_servers_directory() {
    let env = env_with_agents();
    fs::create_dir(env.project().join("src")).unwrap();
    let mut client = serve(&env, &[]);
    for (cwd, expected) in
        [("src", env.project().join("src")), (" ./src/ ", env.project().join("src")), (".", env.project())]
    {
        let before = env.runs();
        let result = run(&mut client, json!({"agent": "reviewer", "prompt": "x", "cwd": cwd}));
        assert_eq!(result["isError"], json!(false), "{result}");
        let new = env.runs().into_iter().find(|run| !before.contains(run)).unwrap();
        assert_eq!(env.json(["show", &new])["directory"], json!(expected), "{cwd}");
    }
    let missing = run(&mut client, json!({"agent": "reviewer", "prompt": "x", "cwd": "nowhere"}));
    let error = missing["structuredContent"]["error"].as_str().unwrap();
    insta::assert_snapshot!(env.masked(error), @r#"
    Agent execution failed: the directory "[stage]/project/nowhere" does not exist
    hint: give the absolute path of an existing directory
    "#);
}

#[test]
fn agents_are_read_from_their_folder_at_each_call_and_nowhere_else() {
    let env = env_with_agents();
    env.rehearsal("native", "- say: hi", "");
    let mut client = serve(&env, &[]);
    let native = run(&mut client, ask(&env, "native", "x"));
    assert_eq!(native["structuredContent"]["error"], json!("Agent 'native' not found"));
    agent(&env, "late.md", "# Came later");
    assert_eq!(run(&mut client, ask(&env, "late", "x"))["isError"], json!(false));
    fs::write(env.path("outside.md"), "# Outside").unwrap();
    std::os::unix::fs::symlink(env.path("outside.md"), env.path("agents/linked.md")).unwrap();
    assert_eq!(
        run(&mut client, ask(&env, "linked", "x"))["structuredContent"]["error"],
        json!("Agent 'linked' not found")
    );
}

#[test]
fn the_resources_list_and_show_the_files() {
    let env = env_with_agents();
    let mut client = serve(&env, &[]);
    let mut read = |uri: &str| client.request("resources/read", json!({"uri": uri}))["contents"][0].clone();
    let list = read("agents://list");
    assert_eq!(list["mimeType"], json!("text/plain"));
    let text = list["text"].as_str().unwrap();
    assert!(text.starts_with("Available Claude Code Sub-Agents (2 total):\n\n## reviewer\n"), "{text}");
    assert!(text.ends_with("**Resource URI:** agents://writer\n\n"), "{text}");
    for line in
        ["**Description:** Reviews changes", "**Resource URI:** agents://writer", "**Last Modified:** 20"]
    {
        assert!(text.contains(line), "{text}");
    }
    agent(&env, "reviewer.md", "\n# Reviews changes ✔\n\nBe strict.\n\n");
    let reviewer = read("agents://reviewer");
    assert_eq!(reviewer["mimeType"], json!("text/markdown"));
    let text = reviewer["text"].as_str().unwrap();
    let file = env.path("agents/reviewer.md");
    let head = format!(
        "# Agent: reviewer\n\n**Description:** Reviews changes ✔\n**File Path:** {}\n**Last Modified:** 20",
        file.display()
    );
    assert!(text.starts_with(&head), "{text}");
    let rest = &text[head.len()..];
    let (modified, content) = rest.split_once('\n').unwrap();
    assert!(modified.len() == "26-11-18T02:55:04.123Z".len() && modified.ends_with('Z'), "{modified}");
    let whole =
        "**Content Length:** 34 characters\n\n## Agent Definition\n\n\n# Reviews changes ✔\n\nBe strict.\n\n";
    assert_eq!(content, whole, "the file as it is, with its blanks");
    let unknown = read("agents://nobody");
    let text = "Agent 'nobody' not found.\n\nAvailable agents:\n- reviewer\n- writer";
    assert_eq!(unknown["text"], json!(text), "not an error, as there");
    for uri in ["file:///etc/passwd", "agents://", "agents://a/b", &format!("agents://{}", "a".repeat(101))] {
        let id = client.send("resources/read", json!({"uri": uri}));
        let answer = client.answer(id, PATIENCE);
        assert_eq!(answer["error"]["message"], json!(format!("Invalid resource URI: {uri}")));
    }
}

#[test]
fn the_list_of_an_empty_folder_reports_that_there_are_no_agents() {
    let env = TestEnv::new();
    fs::create_dir(env.path("agents")).unwrap();
    let mut client = serve(&env, &[("AGENT_TYPE", "cursor")]);
    let list = client.request("resources/read", json!({"uri": "agents://list"}));
    let text = "No agents available. Check agent directory configuration.";
    assert_eq!(list["contents"][0]["text"], json!(text));
}

/// Differs from sub-agents-mcp: an agent's file that is empty or blank | is listed; a call of an empty one fails with
///    `Invalid execution parameters` | is no agent: the log names it, and a call fails with `Agent 'NAME' not found`
#[test]
fn an_empty_file_is_no_agent() {
    let env = env_with_agents();
    agent(&env, "empty.md", "");
    agent(&env, "blank.md", " \n\n");
    let stderr = env.path("stderr");
    let mut command = command(&env, &[("LOG_LEVEL", "warn")]);
    command.stderr(fs::File::create(&stderr).unwrap());
    let mut client = Client::start(command).initialize("test");
    let resources = client.request("resources/list", json!({}));
    let uris: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["agents://list", "agents://reviewer", "agents://writer"]);
    let read = client.request("resources/read", json!({"uri": "agents://empty"}));
    let text = read["contents"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Agent 'empty' not found."), "{text}");
    let call = run(&mut client, ask(&env, "blank", "x"));
    assert_eq!(call["structuredContent"]["error"], json!("Agent 'blank' not found"), "{call}");
    let log = fs::read_to_string(stderr).unwrap();
    for file in ["empty.md", "blank.md"] {
        let named = log.lines().any(|line| line.contains(file) && line.contains("the file is empty"));
        assert!(named, "{log}");
    }
}

#[test]
fn a_file_with_a_byte_that_is_not_text_is_an_agent() {
    let env = env_with_agents();
    fs::write(env.path("agents/latin.md"), b"# Pr\xfcft\n").unwrap();
    let mut client = serve(&env, &[]);
    assert_eq!(run(&mut client, ask(&env, "latin", "x"))["isError"], json!(false));
    let resources = client.request("resources/list", json!({}));
    let latin =
        resources["resources"].as_array().unwrap().iter().find(|known| known["uri"] == "agents://latin");
    assert_eq!(latin.unwrap()["description"], json!("Pr\u{fffd}ft"));
}

#[test]
fn blanks_around_the_value_of_a_variable_do_not_count() {
    let env = env_with_agents();
    let folder = format!(" {} ", env.path("agents").display());
    let variables = [
        ("AGENTS_DIR", folder.as_str()),
        ("AGENT_TYPE", " scripted "),
        ("AGENT_PERMISSION", " "),
        ("AGENT_MODEL", "  "),
        ("EXECUTION_TIMEOUT_MS", " 60000 "),
        ("LOG_LEVEL", " error "),
        ("SERVER_NAME", " mine "),
    ];
    let mut client = Client::start(command(&env, &variables));
    let hello = client.request(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    assert_eq!(hello["serverInfo"]["name"], json!("mine"));
    let result = run(&mut client, ask(&env, "reviewer", "look"));
    assert_eq!(result["structuredContent"]["result"], json!("look"), "{result}");
    let run = env.json(["show", &env.only_run()]);
    assert_eq!(run["model"], json!(null), "{run}");
}

const SESSIONS: &[(&str, &str)] = &[("SESSION_ENABLED", "true")];

/// Differs from sub-agents-mcp: how a session is continued | the history is put before the prompt | by the program
///    itself where it can, else by the history
#[test]
fn a_session_is_the_agents_own_in_every_directory_and_survives_the_server() {
    let env = env_with_agents();
    let mut client = serve(&env, SESSIONS);
    let first = run(&mut client, ask(&env, "reviewer", "the word is heron"));
    let session = first["_meta"]["session_id"].as_str().unwrap().to_owned();
    assert_eq!(first["structuredContent"]["session_id"], json!(session));
    drop(client);
    let mut client = serve(&env, SESSIONS);
    let with = |agent: &str, cwd: &std::path::Path| json!({"agent": agent, "prompt": "which word?", "session_id": session, "cwd": cwd});
    let second = run(&mut client, with("reviewer", &env.path("home")));
    let answer = second["structuredContent"]["result"].as_str().unwrap();
    for part in [
        "Previous conversation history:",
        "# Session History: reviewer",
        "the word is heron",
        "Current request:\nwhich word?",
    ] {
        assert!(answer.contains(part), "{answer}");
    }
    let other = run(&mut client, with("writer", &env.project()));
    assert_eq!(
        other["structuredContent"]["result"],
        json!("which word?"),
        "another agent knows nothing of it"
    );
}

/// Differs from sub-agents-mcp: two calls of one session at once | one of them may be lost | one after the other,
///    and both are kept
#[test]
fn a_callers_own_id_begins_a_session_and_two_calls_at_once_lose_nothing() {
    let env = env_with_agents();
    let mut client = serve(&env, SESSIONS);
    let call = |prompt: &str| {
        let arguments =
            json!({"agent": "reviewer", "prompt": prompt, "session_id": "mine", "cwd": env.project()});
        json!({"name": "run_agent", "arguments": arguments})
    };
    let ids = [client.send("tools/call", call("one")), client.send("tools/call", call("two"))];
    for id in ids {
        let answer = client.answer(id, PATIENCE);
        assert_eq!(answer["result"]["structuredContent"]["session_id"], json!("mine"), "{answer}");
    }
    let third = client.request("tools/call", call("three"));
    let answer = third["structuredContent"]["result"].as_str().unwrap();
    assert!(answer.contains("\none\n") && answer.contains("\ntwo\n"), "{answer}");
}

/// The keeper of the run that begins the session may come to its lock after the keeper of the next run.
#[test]
fn a_call_that_continues_a_session_waits_for_the_one_that_begins_it() {
    let env = env_with_agents();
    let mut client = serve(&env, SESSIONS);
    let call = |prompt: &str| {
        let arguments =
            json!({"agent": "reviewer", "prompt": prompt, "session_id": "mine", "cwd": env.project()});
        json!({"name": "run_agent", "arguments": arguments})
    };
    env.hold("keeper_started");
    let first = client.send("tools/call", call("one"));
    let keeper = env.wait_until_held("keeper_started");
    kill(keeper, Signal::STOP);
    env.release("keeper_started");
    let second = client.send("tools/call", call("two"));
    env.wait_for_event(&env.wait_for_run_count(2), "session_awaited");
    kill(keeper, Signal::CONT);
    let result_text =
        |answer: Value| answer["result"]["structuredContent"]["result"].as_str().unwrap().to_owned();
    assert_eq!(result_text(client.answer(first, PATIENCE)), "one");
    let second = result_text(client.answer(second, PATIENCE));
    assert!(second.contains("\none\n") && second.ends_with("Current request:\ntwo"), "{second}");
}

/// Differs from sub-agents-mcp: `SESSION_DIR` | sessions are written there | existing sessions are read; new ones
///    are in the journal
#[test]
fn a_session_file_of_that_system_is_continued() {
    let env = env_with_agents();
    let folder = env.path("kept");
    fs::create_dir(&folder).unwrap();
    let entry = |prompt: &str, stdout: &str| {
        json!({
            "timestamp": "2026-01-01T00:00:00.000Z",
            "request": {"agent": "reviewer", "prompt": prompt},
            "response": {"stdout": stdout, "stderr": "", "exitCode": 0, "executionTime": 5},
        })
    };
    let result = json!({"type": "result", "result": "It is an egret."}).to_string();
    let file = json!({
        "sessionId": "old", "agentType": "reviewer",
        "history": [entry("which bird?", &result), entry("and now?", "plain words")],
        "createdAt": "2026-01-01T00:00:00.000Z", "lastUpdatedAt": "2026-01-01T00:00:00.000Z",
    });
    let path = folder.join("old_reviewer.json");
    fs::write(&path, file.to_string()).unwrap();
    let variables = [("SESSION_ENABLED", "true"), ("SESSION_DIR", folder.to_str().unwrap())];
    let mut client = serve(&env, &variables);
    let mut ask = |prompt: &str| {
        let arguments =
            json!({"agent": "reviewer", "prompt": prompt, "session_id": "old", "cwd": env.project()});
        run(&mut client, arguments)["structuredContent"]["result"].as_str().unwrap().to_owned()
    };
    let answer = ask("say it again");
    for part in ["which bird?", "It is an egret.", "plain words", "Current request:\nsay it again"] {
        assert!(answer.contains(part), "{answer}");
    }
    let later = ask("and once more");
    assert!(later.contains("It is an egret.") && later.contains("say it again"), "{later}");
    assert_eq!(fs::read_to_string(path).unwrap(), file.to_string(), "the file stays as it was");
}

/// Differs from sub-agents-mcp: session files past their retention | removed by the next call | left alone and not
///    read
#[test]
fn a_session_file_past_its_retention_is_not_continued() {
    let env = env_with_agents();
    let folder = env.path("kept");
    fs::create_dir(&folder).unwrap();
    let file = json!({
        "sessionId": "old", "agentType": "reviewer",
        "history": [{
            "timestamp": "2026-01-01T00:00:00.000Z", "request": {"agent": "reviewer", "prompt": "which bird?"},
            "response": {"stdout": "an egret", "stderr": "", "exitCode": 0, "executionTime": 5},
        }],
        "createdAt": "2026-01-01T00:00:00.000Z", "lastUpdatedAt": "2026-01-01T00:00:00.000Z",
    });
    let path = folder.join("old_reviewer.json");
    fs::write(&path, file.to_string()).unwrap();
    let hours = |hours: u64| std::time::SystemTime::now() - Duration::from_secs(hours * 3_600);
    fs::File::options().append(true).open(&path).unwrap().set_modified(hours(30)).unwrap();
    let ask = |days: &str, prompt: &str| {
        let dir = folder.to_str().unwrap();
        let variables = [("SESSION_ENABLED", "true"), ("SESSION_DIR", dir), ("SESSION_RETENTION_DAYS", days)];
        let mut arguments = ask(&env, "reviewer", prompt);
        arguments["session_id"] = json!("old");
        run(&mut serve(&env, &variables), arguments)["structuredContent"]["result"].clone()
    };
    assert_eq!(ask("1", "again"), json!("again"), "30 hours are more than a day");
    fs::remove_dir_all(env.path("state/sessions")).unwrap();
    let answer = ask("2", "again").as_str().unwrap().to_owned();
    assert!(answer.contains("an egret"), "{answer}");
}

/// Differs from sub-agents-mcp: `session_id` while sessions are off | ignored without a word | ignored, and a note
///    says so
#[test]
fn a_session_id_while_sessions_are_off_gets_a_note() {
    let env = env_with_agents();
    let mut arguments = ask(&env, "reviewer", "x");
    arguments["session_id"] = json!("mine");
    let result = run(&mut serve(&env, &[]), arguments);
    let note = result["content"][1]["text"].as_str().unwrap();
    insta::assert_snapshot!(env.masked(note), @"The session_id was not used: sessions are off. Set SESSION_ENABLED=true for this server.");
}

/// Differs from sub-agents-mcp: a parameter that the tool does not have | ignored without a word | ignored, and a
///    note names it
#[test]
fn an_unknown_parameter_is_named() {
    let env = env_with_agents();
    let mut arguments = ask(&env, "reviewer", "x");
    (arguments["bogus"], arguments["model"]) = (json!(1), json!("opus"));
    let result = run(&mut serve(&env, &[]), arguments);
    let notes: Vec<&Value> =
        result["content"].as_array().unwrap()[1..].iter().map(|part| &part["text"]).collect();
    let ignored = |key: &str| json!(format!("{key} is not a parameter of run_agent and was ignored"));
    assert_eq!(notes, [&ignored("bogus"), &ignored("model")]);
}

/// Differs from sub-agents-mcp: a client that gives up before the answer | loses the answer | gets `partial` in
///    time; the same call again waits for the same run
#[test]
fn a_client_without_patience_gets_the_answer_by_asking_again() {
    let env = env_with_agents();
    env.configure("[serve]\nwait = \"1s\"\n");
    let mut client = serve(&env, &[]);
    let first = run(&mut client, ask(&env, "reviewer", "gate"));
    assert_eq!(
        (&first["isError"], &first["structuredContent"]["status"]),
        (&json!(false), &json!("partial"))
    );
    let text = first["structuredContent"]["result"].as_str().unwrap();
    insta::assert_snapshot!(env.masked(text), @"The agent is still running, as run [run-id]. Call run_agent again with exactly the same arguments to wait for its answer; it is not started a second time.");
    fs::write(env.path("go"), "").unwrap();
    let second = run(&mut client, ask(&env, "reviewer", "gate"));
    assert_eq!(second["structuredContent"]["result"], json!("through"));
    assert_eq!(env.runs().len(), 1, "nothing was started twice");
    run(&mut client, ask(&env, "reviewer", "gate"));
    assert_eq!(env.runs().len(), 2, "what was answered is not answered again");
}

#[test]
fn a_repeated_call_gets_the_id_of_the_running_session() {
    let env = env_with_agents();
    env.configure("[serve]\nwait = \"1s\"\n");
    let mut client = serve(&env, SESSIONS);
    let first = run(&mut client, ask(&env, "reviewer", "gate"));
    fs::write(env.path("go"), "").unwrap();
    let second = run(&mut client, ask(&env, "reviewer", "gate"));
    assert_eq!(second["structuredContent"]["result"], json!("through"));
    assert_eq!(second["_meta"]["session_id"], first["_meta"]["session_id"]);
    let mut third = ask(&env, "reviewer", "what did you say?");
    third["session_id"] = second["_meta"]["session_id"].clone();
    let answer = run(&mut client, third);
    assert!(answer["structuredContent"]["result"].as_str().unwrap().contains("through"), "{answer}");
}

/// Differs from sub-agents-mcp: a cancelled call | the agent goes on | ends the agent and every process that it
///    started
#[test]
fn a_cancelled_call_ends_the_agent_and_all_it_started() {
    let env = env_with_agents();
    let mut client = serve(&env, &[]);
    let id =
        client.send("tools/call", json!({"name": "run_agent", "arguments": ask(&env, "reviewer", "hang")}));
    let run = env.wait_for_run_count(1);
    env.wait_for_event(&run, "agent_started");
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "the user pressed escape"}));
    let ended = env.wait_for_end(&run);
    assert!(["cancelled", "partial"].contains(&ended["status"].as_str().unwrap()), "{ended}");
    let tag = env.tag(&run);
    wait_for(PATIENCE, "the end of every process", || crate::test_env::tagged(tag).is_empty().then_some(()));
}

/// Differs from sub-agents-mcp: the end of the server | its agents go on alone | ends its agents after half a
///    minute
#[test]
fn runs_of_a_server_end_after_it_exits() {
    let env = env_with_agents();
    env.configure("[serve]\ndisconnect_grace = \"100ms\"\n");
    let mut client = serve(&env, &[]);
    client.send("tools/call", json!({"name": "run_agent", "arguments": ask(&env, "reviewer", "hang")}));
    let run = env.wait_for_run_count(1);
    env.wait_for_event(&run, "agent_started");
    client.close();
    assert_eq!(client.exit(Duration::from_secs(10)), Some(0));
    env.wait_for_end(&run);
    let tag = env.tag(&run);
    wait_for(PATIENCE, "the end of every process", || crate::test_env::tagged(tag).is_empty().then_some(()));
}

/// Returns the warnings of a server that starts and answers a call, and the time limit of its run.
fn start_with(variables: &[(&str, &str)]) -> (String, Value) {
    let env = env_with_agents();
    let mut command = command(&env, variables);
    let stderr = env.path("stderr");
    command.env("LOG_LEVEL", "warn").stderr(fs::File::create(&stderr).unwrap());
    let mut client = Client::start(command).initialize("test");
    run(&mut client, ask(&env, "reviewer", "look"));
    let limits = env.spec(&env.only_run())["limits"]["timeout_ms"].clone();
    let text = fs::read_to_string(stderr).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let warnings: Vec<String> = lines
        .map(|line| format!("{}: {}", line["level"].as_str().unwrap(), line["message"].as_str().unwrap()))
        .collect();
    (warnings.join("\n"), limits)
}

/// Differs from sub-agents-mcp: `EXECUTION_TIMEOUT_MS` of 0 or less, or above 2147483647 | every call times out at once | 300000
///    counts in place of 0 or less, with a warning; more than 2147483647 counts
/// Differs from sub-agents-mcp: `EXECUTION_TIMEOUT_MS` or `SESSION_RETENTION_DAYS` that is not a whole number | the digits that
///    it begins with count, else the default, without a word | the same, and a warning says which number counts
#[test]
fn a_server_with_an_invalid_number_starts_and_warns() {
    let mut warnings = Vec::new();
    let mut start = |name: &str, value: &str| {
        let (warning, timeout_ms) = start_with(&[("SESSION_ENABLED", "true"), (name, value)]);
        warnings.extend((!warning.is_empty()).then_some(warning));
        timeout_ms
    };
    for (value, timeout_ms) in [
        ("0", 300_000),
        ("-5", 300_000),
        ("soon", 300_000),
        ("12.7", 12),
        ("1e4", 1),
        ("60000ms", 60_000),
        ("+60000", 60_000),
        ("99999999999999999999", u64::MAX),
    ] {
        assert_eq!(start("EXECUTION_TIMEOUT_MS", value), json!(timeout_ms), "{value}");
    }
    for value in ["0", "-1", "abc", "0.5", "2.5", "3"] {
        start("SESSION_RETENTION_DAYS", value);
    }
    insta::assert_snapshot!(warnings.join("\n"), @r#"
    warn: EXECUTION_TIMEOUT_MS is "0", which is not a whole number above 0: the default counts, 300000
    warn: EXECUTION_TIMEOUT_MS is "-5", which is not a whole number above 0: the default counts, 300000
    warn: EXECUTION_TIMEOUT_MS is "soon", which is not a whole number above 0: the default counts, 300000
    warn: EXECUTION_TIMEOUT_MS is "12.7", which is not a whole number: 12 counts
    warn: EXECUTION_TIMEOUT_MS is "1e4", which is not a whole number: 1 counts
    warn: EXECUTION_TIMEOUT_MS is "60000ms", which is not a whole number: 60000 counts
    warn: SESSION_RETENTION_DAYS is "0", which is not a whole number above 0: the default counts, 1
    warn: SESSION_RETENTION_DAYS is "-1", which is not a whole number above 0: the default counts, 1
    warn: SESSION_RETENTION_DAYS is "abc", which is not a whole number above 0: the default counts, 1
    warn: SESSION_RETENTION_DAYS is "0.5", which is not a whole number above 0: the default counts, 1
    warn: SESSION_RETENTION_DAYS is "2.5", which is not a whole number: 2 counts
    "#);
}

/// Differs from sub-agents-mcp: a relative `AGENTS_DIR` | a path from the directory of the server | the server does
///    not start; `volery import` writes the absolute path
#[test]
fn a_server_with_invalid_settings_does_not_start() {
    let env = env_with_agents();
    let refusal_for = |variables: &[(&str, &str)]| {
        let output = command(&env, variables).stdin(std::process::Stdio::null()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        env.masked(&stderr)
    };
    let known = "Must be one of: cursor, claude, gemini, codex, glm, kimi, grok, opencode";
    let refusal = refusal_for(&[("AGENT_TYPE", "parrot")]);
    assert!(refusal.contains(&format!("Invalid AGENT_TYPE: \"parrot\". {known}")), "{refusal}");
    let refusal = refusal_for(&[("AGENT_PERMISSION", "all")]);
    assert!(refusal.contains("Invalid AGENT_PERMISSION: \"all\""), "{refusal}");
    let refusals = [
        refusal_for(&[("AGENTS_DIR", "")]),
        refusal_for(&[("AGENTS_DIR", "agents")]),
        refusal_for(&[("AGENT_TYPE", "gemini"), ("AGENT_EFFORT", "high")]),
    ];
    insta::assert_snapshot!(refusals.concat(), @r#"
    error: AGENTS_DIR is not set
    hint: set AGENTS_DIR to the absolute path of the folder with your agents' .md or .txt files
    error: AGENTS_DIR is "agents", which is not an absolute path
    error: AGENT_EFFORT is set, and gemini takes no effort
    hint: unset AGENT_EFFORT, or choose another AGENT_TYPE
    "#);
}

#[test]
fn two_dialects_with_the_same_tool_are_an_error_at_the_start() {
    let env = env_with_agents();
    let mut both = env.command(["serve", "--dialect", "volery", "--dialect", "sub-agents-mcp"]);
    both.env("AGENTS_DIR", env.path("agents")).stdin(std::process::Stdio::null());
    let output = both.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    insta::assert_snapshot!(env.masked(&stderr), @"
    error: volery and sub-agents-mcp both have a tool run_agent
    hint: serve them by two servers
    ");
}
