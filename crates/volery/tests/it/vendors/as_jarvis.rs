//! `--dialect jarvis` with the real Claude Code: the agents of its design, their permissions, sessions and errors.

use std::fs;
use std::path::Path;

use model_server::Reply;
use serde_json::{Value, json};

use super::place::{PATIENCE, Place};
use crate::stage::{Client, wait_for};

fn place(case: &str, script: Vec<Reply>) -> Option<Place> {
    let place = Place::make_for(&["claude"], case, script)?;
    // Jarvis' home is no project of ours.
    fs::remove_dir_all(place.stage.project().join(".volery")).unwrap();
    Some(place)
}

fn agent(place: &Place, name: &str, frontmatter: &str, prompt: &str) {
    let folder = place.stage.project().join("agents").join(name);
    fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: {name}\ndescription: \"For {name}\"\n{frontmatter}---\n\n{prompt}\n");
    fs::write(folder.join("agent.md"), text).unwrap();
}

fn serve(place: &Place) -> Client {
    let mut command = place.command(&["serve", "--dialect", "jarvis"]);
    command.env("JARVIS_HOME", place.stage.project());
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
fn the_tool_names_the_agents_and_what_may_not_be_is_refused() {
    let Some(place) = place("jarvis-tools", Vec::new()) else { return };
    agent(&place, "main", "", "The caller itself.");
    agent(&place, "web-search", "", "Search.");
    agent(&place, "private", "allowed_callers: [other]\n", "Nobody's.");
    fs::create_dir_all(place.stage.project().join("agents/broken")).unwrap();
    fs::write(
        place.stage.project().join("agents/broken/agent.md"),
        "---\nname: broken\n---\nNo description.",
    )
    .unwrap();
    let mut client = serve(&place);
    let tools = client.request("tools/list", json!({}));
    insta::assert_snapshot!("jarvis", serde_json::to_string_pretty(&tools["tools"]).unwrap());
    let mut ask = |name: &str| run(&mut client, json!({"agent_name": name, "prompt": "x"}));
    assert_eq!(refused(&ask("nobody")), "Unknown agent: \"nobody\". Available: private, web-search");
    assert_eq!(refused(&ask("private")), "Agent \"private\" does not allow caller \"main\".");
    assert_eq!(refused(&run(&mut client, json!({"agent_name": "web-search"}))), "prompt is required");
    assert_eq!(place.stage.runs(), Vec::<String>::new());
}

/// Differs from jarvis: `permissions.deny` | read and not used | takes away from what is allowed
/// Differs from jarvis: a use of a tool that is denied | nothing in the answer says so | `notes` in the answer names the tool, why,
///    and what would allow it
#[test]
fn an_agent_may_do_what_its_file_allows_and_nothing_else() {
    let command = |text: &str| Reply::call("Bash", json!({"command": text, "description": "for a test"}));
    let script = vec![
        command("echo heron > allowed.txt"),
        command("touch forbidden.txt"),
        command("echo secret > denied.txt"),
        Reply::say("Found three herons."),
    ];
    let Some(place) = place("jarvis-permissions", script) else { return };
    let rules = "permissions:\n  allow: [\"Bash(echo:*)\"]\n  deny: [\"Bash(echo secret:*)\"]\n";
    agent(&place, "web-search", rules, "Search.");
    let said = answered(&run(
        &mut serve(&place),
        json!({"agent_name": "web-search", "prompt": "How many?", "context": "It is about birds."}),
    ));
    let keys: Vec<&String> = said.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["agent", "result", "duration_ms", "cost_usd", "notes"]);
    let notes: Vec<&str> = said["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(notes.len(), 4, "what was denied is named: {said}");
    let way = "to allow more, write permission = { level = \"read-only\", allow = [\"Bash\"] } under [agents.web-search] in your configuration";
    assert_eq!(notes[3], way, "{said}");
    let inherit = &place.stage.spec(&place.stage.only_run())["setup"]["inherit"];
    assert_eq!(inherit, &json!(["environment"]), "Jarvis is strict about servers and settings");
    assert_eq!((&said["agent"], &said["result"]), (&json!("web-search"), &json!("Found three herons.")));
    assert!(said["cost_usd"].is_f64() && said["duration_ms"].as_u64() > Some(0), "{said}");
    let there = |name: &str| place.stage.project().join(name).exists();
    assert_eq!((there("forbidden.txt"), there("denied.txt")), (false, false));
    let asks = place.offline.server().asks();
    let asked = asks[0].last_user_text();
    assert!(asked.ends_with("Context:\nIt is about birds.\n\nTask:\nHow many?"), "{asked}");
}

/// Differs from jarvis: `data/subagent-sessions.json` | written after each success | read, and left as it is; new sessions are in the
///    journal
#[test]
fn an_agent_with_a_session_knows_what_was_said_also_by_jarvis_itself() {
    let script = ["Noted.", "It was heron.", "Still heron.", "I remember nothing."].map(Reply::say);
    let Some(place) = place("jarvis-sessions", script.to_vec()) else { return };
    agent(&place, "github", "session: true\n", "Work on pull requests.");
    agent(&place, "search", "", "Search.");
    for name in ["github", "search"] {
        fs::write(place.stage.project().join("agents").join(name).join("memory.md"), "Ann likes egrets.")
            .unwrap();
    }
    let ask = |client: &mut Client, name: &str, prompt: &str| {
        answered(&run(client, json!({"agent_name": name, "prompt": prompt})))
    };
    let mut client = serve(&place);
    ask(&mut client, "github", "The word is heron.");
    ask(&mut client, "github", "Which word?");
    drop(client);
    let bodies =
        || place.offline.server().seen().into_iter().map(|seen| seen.body.to_string()).collect::<Vec<_>>();
    assert!(bodies()[1].contains("The word is heron."), "the second call continues the first");
    assert!(bodies()[0].contains("Ann likes egrets."));
    // The state of this program is gone, and Jarvis' own list of sessions tells where it was.
    let first = place.volery(&["show", &place.stage.runs()[0], "--json"]).ok().json();
    let native = native_session(&place.stage.run_dir(first["run_id"].as_str().unwrap()));
    fs::create_dir(place.stage.project().join("data")).unwrap();
    let kept = json!({"github": native});
    fs::write(place.stage.project().join("data/sessions.json"), kept.to_string()).unwrap();
    fs::remove_dir_all(place.stage.path("state")).unwrap();
    fs::create_dir(place.stage.path("state")).unwrap();
    let mut client = serve(&place);
    ask(&mut client, "github", "And now?");
    assert!(bodies()[2].contains("The word is heron."), "Claude Code has it still");
    let left = fs::read_to_string(place.stage.project().join("data/sessions.json")).unwrap();
    assert_eq!(left, kept.to_string(), "the list of Jarvis is as it was");
    assert!(!place.stage.project().join("data/subagent-sessions.json").exists());
    ask(&mut client, "search", "What do you know?");
    let last = bodies().pop().unwrap();
    assert!(!last.contains("Ann likes egrets.") && !last.contains("heron"), "{last}");
}

/// Returns the id that Claude Code itself has given to a conversation.
fn native_session(run: &Path) -> String {
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let mut named = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let named = named.rfind(|event| event["type"] == json!("session_named")).unwrap();
    named["native"].as_str().unwrap_or_else(|| panic!("{named}")).to_owned()
}

/// Differs from jarvis: a session that Claude Code no longer has | every call fails until the list is mended | a new one begins, and
///    a warning says so
#[test]
fn a_session_that_claude_code_has_forgotten_begins_anew() {
    let Some(place) = place("jarvis-forgotten", vec![Reply::say("Hello.")]) else { return };
    agent(&place, "github", "session: true\n", "Work.");
    fs::create_dir(place.stage.project().join("data")).unwrap();
    let kept = json!({"github": "00000000-0000-4000-8000-000000000000"});
    fs::write(place.stage.project().join("data/subagent-sessions.json"), kept.to_string()).unwrap();
    let said = answered(&run(&mut serve(&place), json!({"agent_name": "github", "prompt": "Hello?"})));
    assert_eq!(said["result"], json!("Hello."));
    let run = place.volery(&["show", &place.stage.only_run(), "--json"]).ok().json();
    assert!(run["warnings"].to_string().contains("it begins anew"), "{run}");
}

/// Differs from jarvis: what an agent had said before its time-out | is lost | follows the error
#[test]
fn errors_are_told_by_their_kind() {
    let script = vec![Reply::stall("Half of this.").times(1)];
    let Some(place) = place("jarvis-errors", script) else { return };
    let mut client = serve(&place);
    // A busy machine may need longer until the program asks the model.
    for timeout_ms in [8_000, 16_000, 32_000, 64_000] {
        agent(&place, "slow", &format!("timeout_ms: {timeout_ms}\n"), "Take your time.");
        let slow = run(&mut client, json!({"agent_name": "slow", "prompt": "x"}));
        let told = refused(&slow);
        let expected =
            format!("Subagent \"slow\" failed (timeout): Subagent \"slow\" timed out after {timeout_ms}ms.");
        assert!(told.starts_with(&expected), "{told}");
        if !place.offline.server().asks().is_empty() {
            assert!(told.contains("What it said before:\nHalf"), "what it said is kept: {told}");
            break;
        }
    }
    assert!(!place.offline.server().asks().is_empty(), "the model was not asked in time");
    place.offline.server().add([Reply::error(400, "no such thing").always()]);
    let failing = run(&mut client, json!({"agent_name": "slow", "prompt": "y"}));
    let told = refused(&failing);
    assert!(told.starts_with("Subagent \"slow\" failed (cli_error): Claude returned an error."), "{told}");
}

/// Differs from jarvis: `output_schema` | no such key | the answer is checked, and asked for once more with what
///    was wrong
#[test]
fn an_answer_of_a_shape_is_checked_corrected_once_and_then_an_error() {
    let schema = "output_format: json\noutput_schema: {type: object, required: [birds]}\n";
    let words = || Reply::say("There are three.");
    let right = Reply::call("StructuredOutput", json!({"birds": 3}));
    let script = vec![words(), words(), right, words().always()];
    let Some(place) = place("jarvis-schema", script) else { return };
    agent(&place, "counter", schema, "Count.");
    let mut client = serve(&place);
    let said = answered(&run(&mut client, json!({"agent_name": "counter", "prompt": "How many?"})));
    assert_eq!(said["result"], json!("{\"birds\":3}"), "{said}");
    let asked = place.offline.server().asks();
    let told = |text: &str| asked.iter().any(|ask| ask.last_user_text().contains(text));
    assert!(told("Your last answer cannot be used"), "{asked:?}");
    let failed = run(&mut client, json!({"agent_name": "counter", "prompt": "And now?"}));
    let told = refused(&failed);
    assert!(told.starts_with("Subagent \"counter\" failed (parse_error): "), "{told}");
    assert!(told.contains("There are three."), "what it said is kept: {told}");
}

/// Differs from jarvis: the file with the servers of an agent and their secrets | stays in `data/tmp` | removed
///    with the end of the run
#[test]
fn an_agents_servers_are_its_own_and_their_secret_is_in_no_file() {
    const SECRET: &str = "ghp-0123456789abcdef0123";
    let Some(mut place) = place("jarvis-servers", vec![Reply::say("I see.")]) else { return };
    let others = json!({"mcpServers": {"strange": {"command": "/nonexistent/strange-server", "args": []}}});
    fs::write(place.stage.project().join(".mcp.json"), others.to_string()).unwrap();
    let program = env!("CARGO_BIN_EXE_volery");
    let servers = format!(
        "mcp_servers:\n  aviary:\n    command: {program}\n    args: [serve]\n    env:\n      AVIARY_TOKEN: ${{MY_TOKEN}}\n"
    );
    agent(&place, "keeper", &servers, "Keep birds.");
    agent(&place, "other", "", "Keeps nothing.");
    place.set("MY_TOKEN", SECRET);
    let said = answered(&run(&mut serve(&place), json!({"agent_name": "keeper", "prompt": "Which tools?"})));
    assert_eq!(said["result"], json!("I see."));
    let body = place.offline.server().seen().last().unwrap().body.to_string();
    assert!(body.contains("mcp__aviary__") && !body.contains("strange"), "{body}");
    place.offline.server().add([Reply::say("Nothing.")]);
    answered(&run(&mut serve(&place), json!({"agent_name": "other", "prompt": "Which tools?"})));
    let body = place.offline.server().seen().last().unwrap().body.to_string();
    assert!(!body.contains("mcp__aviary__"), "another agent has its servers: {body}");
    for folder in ["state", "project", "home", "temporary"] {
        let found = holding(&place.stage.path(folder), SECRET);
        assert_eq!(found, Vec::<std::path::PathBuf>::new(), "the secret is in a file");
    }
}

#[test]
fn the_example_of_its_document_uses_its_server() {
    let script = vec![Reply::call("mcp__brave-search__web", json!({})), Reply::say("Found seven.")];
    let Some(mut place) = place("jarvis-example", script) else { return };
    let (server, mark) = place.marking_server("web", "seven");
    place.set("BRAVE_API_KEY", "of-the-user");
    let example = format!(
        "session: false\nallowed_callers: [main]\ntimeout_ms: 90000\npermissions:\n  allow: [\"Bash(curl:*)\", \"Bash(wget:*)\"]\n  \
         deny: []\nmcp_servers:\n  - name: brave-search\n    command: {}\n    args: [\"-y\"]\n    env:\n      \
         BRAVE_API_KEY: \"${{BRAVE_API_KEY}}\"\n",
        server.display()
    );
    agent(&place, "web-search", &example, "You are a web search agent.");
    let said = answered(&run(&mut serve(&place), json!({"agent_name": "web-search", "prompt": "How many?"})));
    assert_eq!((&said["result"], said.get("notes")), (&json!("Found seven."), None), "{said}");
    assert!(mark.exists(), "its server was used: {said}");
}

/// Returns the files below a folder that hold a text.
fn holding(folder: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(holding(&entry.path(), text));
        } else if kind.is_file() && String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).contains(text) {
            found.push(entry.path());
        }
    }
    found
}

/// Differs from jarvis: a sub-agent with a shell that starts agents itself | nothing prevents it | refused
#[test]
fn a_sub_agent_calls_nobody() {
    let volery = env!("CARGO_BIN_EXE_volery");
    let command = |text: &str| Reply::call("Bash", json!({"command": text, "description": "for a test"}));
    let script = vec![
        command(&format!("{volery} run other x; echo code $?")),
        command(&format!("{volery} serve --dialect jarvis < /dev/null; echo code $?")),
        Reply::say("Nobody."),
    ];
    let Some(place) = place("jarvis-depth", script) else { return };
    agent(&place, "caller", "permissions:\n  allow: [Bash]\n", "Call somebody.");
    agent(&place, "other", "", "Answers.");
    let said = answered(&run(&mut serve(&place), json!({"agent_name": "caller", "prompt": "Go."})));
    assert_eq!(said["result"], json!("Nobody."));
    let asks = place.offline.server().asks();
    for ask in &asks[1..=2] {
        let told = &ask.last_result().unwrap().text;
        assert!(told.contains("code 3"), "it was not denied: {told}");
    }
    place.stage.only_run();
}

/// Differs from jarvis: a client that gives up before the answer | loses the answer | is told that the agent goes
///    on; the same call again gets the answer
#[test]
fn the_same_call_again_waits_for_the_same_run() {
    let Some(place) = place("jarvis-again", vec![Reply::say("At last.").after_ms(5_000)]) else { return };
    place.stage.configure("[clients.claude-code]\nwait = \"1s\"\n");
    agent(&place, "slow", "", "Take your time.");
    let mut client = serve(&place);
    let arguments = json!({"agent_name": "slow", "prompt": "x"});
    let told = answered(&run(&mut client, arguments.clone()));
    assert!(told["result"].as_str().unwrap().contains("is still running"), "{told}");
    let said = wait_for(PATIENCE, "the answer", || {
        let said = answered(&run(&mut client, arguments.clone()))["result"].as_str().unwrap().to_owned();
        (!said.contains("is still running")).then_some(said)
    });
    assert_eq!(said, "At last.");
    place.stage.only_run();
}
