//! `--dialect jarvis` with the real Claude Code: the agents of its design, their permissions, sessions and errors.

use std::fs;
use std::path::Path;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::vendor_env::{PATIENCE, VendorEnv};
use crate::test_env::{Client, wait_for};

fn vendor_env(case: &str, script: Vec<ScriptedReply>) -> Option<VendorEnv> {
    let vendor_env = VendorEnv::make_for(&["claude"], case, script)?;
    // Jarvis' home is not a project of Volery.
    fs::remove_dir_all(vendor_env.env.project().join(".volery")).unwrap();
    Some(vendor_env)
}

fn agent(vendor_env: &VendorEnv, name: &str, frontmatter: &str, prompt: &str) {
    let folder = vendor_env.env.project().join("agents").join(name);
    fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: {name}\ndescription: \"For {name}\"\n{frontmatter}---\n\n{prompt}\n");
    fs::write(folder.join("agent.md"), text).unwrap();
}

fn serve(vendor_env: &VendorEnv) -> Client {
    let mut command = vendor_env.command(&["serve", "--dialect", "jarvis"]);
    command.env("JARVIS_HOME", vendor_env.env.project());
    Client::start(command).initialize("claude-code")
}

fn run(client: &mut Client, arguments: Value) -> Value {
    let id = client.send("tools/call", json!({"name": "run_subagent", "arguments": arguments}));
    client.answer(id, PATIENCE)["result"].clone()
}

fn answered(result: &Value) -> Value {
    assert_ne!(result["isError"], json!(true), "{result}");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
    text
}

fn refused(result: &Value) -> &str {
    assert_eq!(result["isError"], json!(true), "{result}");
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn the_tool_lists_the_agents_and_invalid_calls_are_refused() {
    let Some(vendor_env) = vendor_env("jarvis-tools", Vec::new()) else { return };
    agent(&vendor_env, "main", "", "The caller itself.");
    agent(&vendor_env, "web-search", "", "Search.");
    agent(&vendor_env, "private", "allowed_callers: [other]\n", "Nobody's.");
    fs::create_dir_all(vendor_env.env.project().join("agents/broken")).unwrap();
    fs::write(
        vendor_env.env.project().join("agents/broken/agent.md"),
        "---\nname: broken\n---\nNo description.",
    )
    .unwrap();
    let mut client = serve(&vendor_env);
    let tools = client.request("tools/list", json!({}));
    insta::assert_snapshot!("jarvis", serde_json::to_string_pretty(&tools["tools"]).unwrap());
    let mut ask = |name: &str| run(&mut client, json!({"agent_name": name, "prompt": "x"}));
    assert_eq!(refused(&ask("nobody")), "Unknown agent: \"nobody\". Available: private, web-search");
    assert_eq!(refused(&ask("private")), "Agent \"private\" does not allow caller \"main\".");
    assert_eq!(refused(&run(&mut client, json!({"agent_name": "web-search"}))), "prompt is required");
    assert_eq!(vendor_env.env.runs(), Vec::<String>::new());
}

/// Differs from jarvis: `permissions.deny` | read and not used | takes away from what is allowed
/// Differs from jarvis: a use of a tool that is denied | nothing in the answer says so | `notes` in the answer names the tool, why,
///    and what would allow it
#[test]
fn an_agent_may_do_what_its_file_allows_and_nothing_else() {
    let command =
        |text: &str| ScriptedReply::call("Bash", json!({"command": text, "description": "for a test"}));
    let script = vec![
        command("echo heron > allowed.txt"),
        command("touch forbidden.txt"),
        command("echo secret > denied.txt"),
        ScriptedReply::say("Found three herons."),
    ];
    let Some(vendor_env) = vendor_env("jarvis-permissions", script) else { return };
    let rules = "permissions:\n  allow: [\"Bash(echo:*)\"]\n  deny: [\"Bash(echo secret:*)\"]\n";
    agent(&vendor_env, "web-search", rules, "Search.");
    let answer = answered(&run(
        &mut serve(&vendor_env),
        json!({"agent_name": "web-search", "prompt": "How many?", "context": "It is about birds."}),
    ));
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["agent", "result", "duration_ms", "cost_usd", "notes"]);
    let notes: Vec<&str> = answer["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(notes.len(), 4, "what was denied is named: {answer}");
    let way = "to allow more, write permission = { level = \"read-only\", allow = [\"Bash\"] } under [agents.web-search] in your configuration";
    assert_eq!(notes[3], way, "{answer}");
    let inherit = &vendor_env.env.spec(&vendor_env.env.only_run())["setup"]["inherit"];
    assert_eq!(inherit, &json!(["environment"]), "Jarvis is strict about servers and settings");
    assert_eq!((&answer["agent"], &answer["result"]), (&json!("web-search"), &json!("Found three herons.")));
    assert!(answer["cost_usd"].is_f64() && answer["duration_ms"].as_u64() > Some(0), "{answer}");
    let there = |name: &str| vendor_env.env.project().join(name).exists();
    assert_eq!((there("forbidden.txt"), there("denied.txt")), (false, false));
    let asks = vendor_env.offline.server().model_requests();
    let prompt = asks[0].last_user_text();
    assert!(prompt.ends_with("Context:\nIt is about birds.\n\nTask:\nHow many?"), "{prompt}");
}

#[test]
fn following_the_advice_keeps_what_the_agent_could_do() {
    let Some(vendor_env) = vendor_env("jarvis-advice", Vec::new()) else { return };
    let (server, _) = vendor_env.marking_server("search", "seven herons");
    let file = format!(
        "permissions:\n  allow: [\"Bash(curl:*)\"]\nmcp_servers:\n  brave-search:\n    command: {}\n",
        server.display()
    );
    agent(&vendor_env, "res", &file, "Search.");
    let configuration = vendor_env.env.path("config/config.toml");
    let before = fs::read_to_string(&configuration).unwrap_or_default();
    let made = vendor_env.env.project().join("made.txt");
    for followed in 0..2 {
        vendor_env.offline.server().add(vec![
            ScriptedReply::call("mcp__brave-search__search", json!({})),
            ScriptedReply::call("mcp__mine__hello", json!({"name": "x"})),
            ScriptedReply::call("Bash", json!({"command": "touch made.txt", "description": "for a test"})),
            ScriptedReply::say("Done."),
        ]);
        let answer =
            answered(&run(&mut serve(&vendor_env), json!({"agent_name": "res", "prompt": "Search."})));
        let asked = vendor_env.offline.server().requests();
        assert!(
            asked.last().unwrap().body.to_string().contains("seven herons"),
            "the server works: {answer}"
        );
        assert_eq!(made.exists(), followed == 1, "{answer}");
        let notes: Vec<&str> = answer["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(notes[0].ends_with("the agent has no such tool"), "{answer}");
        let advice = notes.last().and_then(|note| note.strip_prefix("to allow more, write "));
        assert_eq!(advice.is_some(), followed == 0, "{answer}");
        let Some(advice) = advice.and_then(|advice| advice.strip_suffix(" in your configuration")) else {
            continue;
        };
        let (key, section) = advice.split_once(" under ").unwrap();
        fs::write(&configuration, format!("{before}\n{section}\n{key}\n")).unwrap();
    }
}

/// Differs from jarvis: `data/subagent-sessions.json` | written after each success | read, and left as it is; new sessions are in the
///    journal
#[test]
fn an_agent_with_a_session_continues_sessions_of_jarvis_too() {
    let script = ["Noted.", "It was heron.", "Still heron.", "I remember nothing."].map(ScriptedReply::say);
    let Some(vendor_env) = vendor_env("jarvis-sessions", script.to_vec()) else { return };
    agent(&vendor_env, "github", "session: true\n", "Work on pull requests.");
    agent(&vendor_env, "search", "", "Search.");
    for name in ["github", "search"] {
        fs::write(vendor_env.env.project().join("agents").join(name).join("memory.md"), "Ann likes egrets.")
            .unwrap();
    }
    let ask = |client: &mut Client, name: &str, prompt: &str| {
        answered(&run(client, json!({"agent_name": name, "prompt": prompt})))
    };
    let mut client = serve(&vendor_env);
    ask(&mut client, "github", "The word is heron.");
    ask(&mut client, "github", "Which word?");
    drop(client);
    let bodies = || {
        vendor_env
            .offline
            .server()
            .requests()
            .into_iter()
            .map(|seen| seen.body.to_string())
            .collect::<Vec<_>>()
    };
    assert!(bodies()[1].contains("The word is heron."), "the second call continues the first");
    assert!(bodies()[0].contains("Ann likes egrets."));
    // Volery's state is gone, and Jarvis' own list of sessions has the id.
    let first = vendor_env.volery(&["show", &vendor_env.env.runs()[0], "--json"]).ok().json();
    let native = native_session(&vendor_env.env.run_dir(first["run_id"].as_str().unwrap()));
    fs::create_dir(vendor_env.env.project().join("data")).unwrap();
    let sessions = json!({"github": native});
    fs::write(vendor_env.env.project().join("data/sessions.json"), sessions.to_string()).unwrap();
    fs::remove_dir_all(vendor_env.env.path("state")).unwrap();
    fs::create_dir(vendor_env.env.path("state")).unwrap();
    let mut client = serve(&vendor_env);
    ask(&mut client, "github", "And now?");
    assert!(bodies()[2].contains("The word is heron."), "Claude Code has it still");
    let left = fs::read_to_string(vendor_env.env.project().join("data/sessions.json")).unwrap();
    assert_eq!(left, sessions.to_string(), "the list of Jarvis is as it was");
    assert!(!vendor_env.env.project().join("data/subagent-sessions.json").exists());
    ask(&mut client, "search", "What do you know?");
    let last = bodies().pop().unwrap();
    assert!(!last.contains("Ann likes egrets.") && !last.contains("heron"), "{last}");
}

/// Returns the id that Claude Code itself has given to a conversation.
fn native_session(run: &Path) -> String {
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let mut events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let session_named = events.rfind(|event| event["type"] == json!("session_named")).unwrap();
    session_named["native"].as_str().unwrap_or_else(|| panic!("{session_named}")).to_owned()
}

/// Differs from jarvis: a session that Claude Code no longer has | every call fails until the list is mended | a new one begins, and
///    a warning says so
#[test]
fn a_session_that_claude_code_has_forgotten_begins_anew() {
    let Some(vendor_env) = vendor_env("jarvis-forgotten", vec![ScriptedReply::say("Hello.")]) else { return };
    agent(&vendor_env, "github", "session: true\n", "Work.");
    fs::create_dir(vendor_env.env.project().join("data")).unwrap();
    let sessions = json!({"github": "00000000-0000-4000-8000-000000000000"});
    fs::write(vendor_env.env.project().join("data/subagent-sessions.json"), sessions.to_string()).unwrap();
    let answer = answered(&run(&mut serve(&vendor_env), json!({"agent_name": "github", "prompt": "Hello?"})));
    assert_eq!(answer["result"], json!("Hello."));
    let run = vendor_env.volery(&["show", &vendor_env.env.only_run(), "--json"]).ok().json();
    // The warning before it is the text of Claude Code.
    insta::assert_snapshot!(vendor_env.env.masked_texts(&run["warnings"][1]), @"what was said in this conversation elsewhere is gone; it begins anew");
}

/// Differs from jarvis: what an agent had said before its time-out | is lost | follows the error
#[test]
fn errors_are_reported_by_their_kind() {
    let script = vec![ScriptedReply::stall("Half of this.").times(1)];
    let Some(vendor_env) = vendor_env("jarvis-errors", script) else { return };
    let mut client = serve(&vendor_env);
    // A busy machine may need longer until the program asks the model.
    for timeout_ms in [8_000, 16_000, 32_000, 64_000] {
        agent(&vendor_env, "slow", &format!("timeout_ms: {timeout_ms}\n"), "Take your time.");
        let slow = run(&mut client, json!({"agent_name": "slow", "prompt": "x"}));
        let refusal = refused(&slow);
        let expected =
            format!("Subagent \"slow\" failed (timeout): Subagent \"slow\" timed out after {timeout_ms}ms.");
        assert!(refusal.starts_with(&expected), "{refusal}");
        if !vendor_env.offline.server().model_requests().is_empty() {
            assert!(refusal.contains("What it said before:\nHalf"), "what it said is kept: {refusal}");
            break;
        }
    }
    assert!(!vendor_env.offline.server().model_requests().is_empty(), "the model was not asked in time");
    vendor_env.offline.server().add([ScriptedReply::error(400, "no such thing").always()]);
    let failing = run(&mut client, json!({"agent_name": "slow", "prompt": "y"}));
    let refusal = refused(&failing);
    assert!(
        refusal.starts_with("Subagent \"slow\" failed (cli_error): Claude returned an error."),
        "{refusal}"
    );
}

/// Differs from jarvis: `output_schema` | no such key | the answer is checked, and asked for once more with what
///    was wrong
#[test]
fn an_answer_with_a_schema_is_checked_corrected_once_and_then_an_error() {
    let schema = "output_format: json\noutput_schema: {type: object, required: [birds]}\n";
    let prose = || ScriptedReply::say("There are three.");
    let right = ScriptedReply::call("StructuredOutput", json!({"birds": 3}));
    let script = vec![prose(), prose(), right, prose().always()];
    let Some(vendor_env) = vendor_env("jarvis-schema", script) else { return };
    agent(&vendor_env, "counter", schema, "Count.");
    let mut client = serve(&vendor_env);
    let answer = answered(&run(&mut client, json!({"agent_name": "counter", "prompt": "How many?"})));
    assert_eq!(answer["result"], json!("{\"birds\":3}"), "{answer}");
    let requests = vendor_env.offline.server().model_requests();
    let was_sent = |text: &str| requests.iter().any(|ask| ask.last_user_text().contains(text));
    assert!(was_sent("Your last answer cannot be used"), "{requests:?}");
    let failed = run(&mut client, json!({"agent_name": "counter", "prompt": "And now?"}));
    let refusal = refused(&failed);
    assert!(refusal.starts_with("Subagent \"counter\" failed (parse_error): "), "{refusal}");
    assert!(refusal.contains("There are three."), "what it said is kept: {refusal}");
}

/// Differs from jarvis: the file with the servers of an agent and their secrets | stays in `data/tmp` | removed
///    with the end of the run
#[test]
fn an_agents_servers_are_its_own_and_their_secret_is_in_no_file() {
    const SECRET: &str = "ghp-0123456789abcdef0123";
    let Some(mut vendor_env) = vendor_env("jarvis-servers", vec![ScriptedReply::say("I see.")]) else {
        return;
    };
    let others = json!({"mcpServers": {"strange": {"command": "/nonexistent/strange-server", "args": []}}});
    fs::write(vendor_env.env.project().join(".mcp.json"), others.to_string()).unwrap();
    let program = env!("CARGO_BIN_EXE_volery");
    let servers = format!(
        "mcp_servers:\n  aviary:\n    command: {program}\n    args: [serve]\n    env:\n      AVIARY_TOKEN: ${{MY_TOKEN}}\n"
    );
    agent(&vendor_env, "keeper", &servers, "Keep birds.");
    agent(&vendor_env, "other", "", "Keeps nothing.");
    vendor_env.set("MY_TOKEN", SECRET);
    let answer =
        answered(&run(&mut serve(&vendor_env), json!({"agent_name": "keeper", "prompt": "Which tools?"})));
    assert_eq!(answer["result"], json!("I see."));
    let body = vendor_env.offline.server().requests().last().unwrap().body.to_string();
    assert!(body.contains("mcp__aviary__") && !body.contains("strange"), "{body}");
    vendor_env.offline.server().add([ScriptedReply::say("Nothing.")]);
    answered(&run(&mut serve(&vendor_env), json!({"agent_name": "other", "prompt": "Which tools?"})));
    let body = vendor_env.offline.server().requests().last().unwrap().body.to_string();
    assert!(!body.contains("mcp__aviary__"), "another agent has its servers: {body}");
    for folder in ["state", "project", "home", "temporary"] {
        let found = holding(&vendor_env.env.path(folder), SECRET);
        assert_eq!(found, Vec::<std::path::PathBuf>::new(), "the secret is in a file");
    }
}

#[test]
fn the_example_of_its_document_uses_its_server() {
    let script =
        vec![ScriptedReply::call("mcp__brave-search__web", json!({})), ScriptedReply::say("Found seven.")];
    let Some(mut vendor_env) = vendor_env("jarvis-example", script) else { return };
    let (server, mark) = vendor_env.marking_server("web", "seven");
    vendor_env.set("BRAVE_API_KEY", "of-the-user");
    let example = format!(
        "session: false\nallowed_callers: [main]\ntimeout_ms: 90000\npermissions:\n  allow: [\"Bash(curl:*)\", \"Bash(wget:*)\"]\n  \
         deny: []\nmcp_servers:\n  - name: brave-search\n    command: {}\n    args: [\"-y\"]\n    env:\n      \
         BRAVE_API_KEY: \"${{BRAVE_API_KEY}}\"\n",
        server.display()
    );
    agent(&vendor_env, "web-search", &example, "You are a web search agent.");
    let answer =
        answered(&run(&mut serve(&vendor_env), json!({"agent_name": "web-search", "prompt": "How many?"})));
    assert_eq!((&answer["result"], answer.get("notes")), (&json!("Found seven."), None), "{answer}");
    assert!(mark.exists(), "its server was used: {answer}");
}

/// Returns the files below a folder that hold a text.
fn holding(folder: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        // A file that is gone meanwhile, such as one that was written to be renamed, holds nothing.
        let Ok(kind) = entry.file_type() else { continue };
        let holds =
            || fs::read(entry.path()).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text));
        if kind.is_dir() {
            found.extend(holding(&entry.path(), text));
        } else if kind.is_file() && holds() {
            found.push(entry.path());
        }
    }
    found
}

/// Differs from jarvis: a sub-agent with a shell that starts agents itself | nothing prevents it | refused
#[test]
fn a_sub_agent_calls_nobody() {
    let volery = env!("CARGO_BIN_EXE_volery");
    let command =
        |text: &str| ScriptedReply::call("Bash", json!({"command": text, "description": "for a test"}));
    let script = vec![
        command(&format!("{volery} run other x; echo code $?")),
        command(&format!("{volery} serve --dialect jarvis < /dev/null; echo code $?")),
        ScriptedReply::say("Nobody."),
    ];
    let Some(vendor_env) = vendor_env("jarvis-depth", script) else { return };
    agent(&vendor_env, "caller", "permissions:\n  allow: [Bash]\n", "Call somebody.");
    agent(&vendor_env, "other", "", "Answers.");
    let answer = answered(&run(&mut serve(&vendor_env), json!({"agent_name": "caller", "prompt": "Go."})));
    assert_eq!(answer["result"], json!("Nobody."));
    let asks = vendor_env.offline.server().model_requests();
    for ask in &asks[1..=2] {
        let tool_result = &ask.last_result().unwrap().text;
        assert!(tool_result.contains("code 3"), "it was not denied: {tool_result}");
    }
    vendor_env.env.only_run();
}

/// Differs from jarvis: a client that gives up before the answer | loses the answer | is told that the agent goes
///    on; the same call again gets the answer
#[test]
fn the_same_call_again_waits_for_the_same_run() {
    let Some(vendor_env) = vendor_env("jarvis-again", vec![ScriptedReply::say("At last.").after_ms(5_000)])
    else {
        return;
    };
    vendor_env.env.configure("[clients.claude-code]\nwait = \"1s\"\n");
    agent(&vendor_env, "slow", "", "Take your time.");
    let mut client = serve(&vendor_env);
    let arguments = json!({"agent_name": "slow", "prompt": "x"});
    let notice = answered(&run(&mut client, arguments.clone()));
    insta::assert_snapshot!(vendor_env.env.masked_texts(&notice["result"]), @r#"Subagent "slow" is still running, as run [run-id]. Call run_subagent again with exactly the same arguments to wait for its answer; it is not started a second time."#);
    let answer = wait_for(PATIENCE, "the answer", || {
        let answer = answered(&run(&mut client, arguments.clone()))["result"].as_str().unwrap().to_owned();
        (answer != notice["result"]).then_some(answer)
    });
    assert_eq!(answer, "At last.");
    vendor_env.env.only_run();
}
