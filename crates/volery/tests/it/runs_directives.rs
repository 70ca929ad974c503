//! Directives with the scripted model: only the declared tools, every use judged, one connection, and a worker that is
//! killed at any point.

use std::fs;

use fake_llm::{RequestChecks, ScriptedReply, ScriptedServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{PATIENCE, TestEnv, kill, tagged, wait_for};

/// A directive that reads `src`, writes `out` and starts `git` and `sleep`.
const HEAD: &str = r#"```xml
<directive name="worker" version="1.0.0">
  <metadata>
    <description>Does some work</description>
    <model tier="local"/>
    <permissions>
      <read resource="filesystem" path="src/**"/>
      <write resource="filesystem" path="out/**"/>
      <execute resource="shell" action="git"/>
      <execute resource="shell" action="sleep"/>
    </permissions>
    LIMITS
  </metadata>
  <tools>
    <filesystem><read paths="src/**"/><write paths="out/**"/></filesystem>
    <shell><command>git</command><command>sleep</command></shell>
  </tools>
  <inputs><input name="file" type="string" required="true">A file</input></inputs>
  <process>
    <step name="look"><description>Look at {input:file}</description><action>Read it.</action></step>
  </process>
</directive>
```
"#;

fn directive_env(server: &ScriptedServer, limits: &str) -> TestEnv {
    let env = TestEnv::new();
    env.configure(&format!(
        "[backends.local]\napi = \"anthropic\"\nbase_url = \"{}\"\nmodel = \"m\"\n[tiers]\nlocal = \"local\"\n",
        server.url()
    ));
    let project = env.project();
    for folder in [".ai/directives", "src", "out", ".git"] {
        fs::create_dir_all(project.join(folder)).unwrap();
    }
    fs::write(project.join("src/a.rs"), "fn a() {}\n").unwrap();
    fs::write(project.join("secret.txt"), "SECRET").unwrap();
    fs::write(project.join(".ai/directives/worker.md"), HEAD.replace("LIMITS", limits)).unwrap();
    env
}

fn finish(result: &str) -> ScriptedReply {
    ScriptedReply::call("finish", json!({"status": "success", "result": result}))
}

/// Runs the directive to its end.
fn run(env: &TestEnv) -> Value {
    let output = env.volery(["run", "worker", "--input", "file=src/a.rs", "--json", "go"]);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Starts the directive in the background and returns its run.
fn start(env: &TestEnv) -> String {
    let words = ["run", "worker", "--input", "file=src/a.rs", "--background", "go"];
    env.volery(words).ok().stdout.trim().to_owned()
}

/// Returns the texts of the tool results in a request, in order.
fn results(body: &Value) -> Vec<(bool, String)> {
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let blocks = last["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_result");
    let text = |block: &Value| match &block["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    blocks.map(|block| (block["is_error"] == true, text(block))).collect()
}

#[test]
fn a_directive_has_its_tools_and_no_others_and_every_denial_names_its_rule() {
    let server = ScriptedServer::start(vec![
        ScriptedReply::call("filesystem_read", json!({"path": "src/a.rs"}))
            .thinking("I look.")
            .and_call("filesystem_read", json!({"path": "secret.txt"}))
            .and_call("filesystem_read", json!({"path": "src/../secret.txt"}))
            .and_call("filesystem_search", json!({"pattern": "SECRET"}))
            .and_call("shell_run", json!({"command": "git x; id"}))
            .and_call("shell_run", json!({"command": ["id"]}))
            .and_call("filesystem_write", json!({"path": ".git/config", "content": "x"})),
        ScriptedReply::call("filesystem_write", json!({"path": "out/n.txt", "content": "done\n"}))
            .and_call("unknown_tool", json!({})),
        finish("all read"),
    ])
    .unwrap();
    server.verify(RequestChecks { conversation: true, cache_prefix: true });
    let env = directive_env(&server, "");
    let ended = run(&env);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &json!("all read")), "{ended}");
    assert_eq!(fs::read_to_string(env.project().join("out/n.txt")).unwrap(), "done\n");
    assert!(!env.project().join(".git/config").exists());
    let requests = server.requests();
    assert_eq!((requests.len(), server.connections()), (3, 1), "one connection for the whole run");
    let first = &requests[0].body;
    let mut tools: Vec<&str> =
        first["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    tools.sort_unstable();
    let offered = [
        "filesystem_edit",
        "filesystem_list",
        "filesystem_read",
        "filesystem_search",
        "filesystem_write",
        "finish",
        "read_output",
        "report_step",
        "shell_run",
    ];
    assert_eq!(tools, offered);
    assert_eq!(first["max_tokens"], json!(4096));
    assert!(!first["tools"].to_string().contains("src/**"), "what is allowed is in no schema");
    assert!(first["system"].to_string().contains("src/a.rs"), "the input is in the system prompt");
    let results = results(&requests[1].body);
    let is_error: Vec<bool> = results.iter().map(|(is_error, _)| *is_error).collect();
    assert_eq!(is_error, [false, true, true, false, true, true, true], "{results:?}");
    assert!(results[0].1.contains("fn a()"), "{results:?}");
    assert!(results[1].1.contains("Allowed for this kind of use: src/**"), "{results:?}");
    assert!(results.iter().all(|(_, text)| !text.contains("SECRET")), "{results:?}");
    let denials = env.json(["show", &env.only_run()])["denials"].as_array().unwrap().len();
    assert_eq!(denials, 4, "two reads, id, and .git");
}

#[test]
fn words_such_as_done_do_not_decide_and_one_reminder_follows() {
    for text in ["Done! Everything completed successfully.", "It could not be done."] {
        let server = ScriptedServer::start(vec![ScriptedReply::say(text).always()]).unwrap();
        let env = directive_env(&server, "");
        let ended = run(&env);
        assert_eq!((&ended["status"], server.requests().len()), (&json!("failed"), 2), "{ended}");
        assert!(ended.to_string().contains("unanswered"), "{ended}");
    }
}

#[test]
fn at_a_limit_one_last_answer_follows_without_tools() {
    let more = ScriptedReply::call("filesystem_list", json!({"path": "src"})).times(3);
    let server = ScriptedServer::start(vec![more, ScriptedReply::say("half of it")]).unwrap();
    let env = directive_env(&server, r#"<limits turns="3"/>"#);
    let ended = run(&env);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("partial"), &json!("half of it")), "{ended}");
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[3].body["tool_choice"], json!({"type": "none"}));
    let limits = env.events(&env.only_run());
    let reached = limits.iter().find(|event| event["type"] == "limit_passed").unwrap();
    assert_eq!(reached["detail"], json!("Max steps (3) reached"));
}

#[test]
fn a_directive_that_lacks_a_required_tool_calls_no_model() {
    let server = ScriptedServer::start(vec![finish("x")]).unwrap();
    let env = directive_env(&server, "");
    let file = env.project().join(".ai/directives/worker.md");
    let text = fs::read_to_string(&file).unwrap();
    let mcp = r#"<mcps><mcp name="supabase" required="true"><tool>deploy</tool></mcp></mcps></tools>"#;
    fs::write(&file, text.replace("</tools>", mcp)).unwrap();
    let refused = env.volery(["run", "worker", "--input", "file=a", "go"]).exits(2).stderr;
    assert!(refused.contains("supabase") && refused.contains("line"), "{refused}");
    assert_eq!((server.requests().len(), env.runs().len()), (0, 0));
    let missing = env.volery(["run", "worker", "go"]).exits(2).stderr;
    assert!(missing.contains("the input file is missing"), "{missing}");
}

/// Runs with a worker that is killed at a point, and returns the ended run.
fn run_killed_at(server: &ScriptedServer, point: &str) -> (TestEnv, Value) {
    let env = directive_env(server, "");
    env.hold(point);
    let id = start(&env);
    let worker = env.wait_until_held(point);
    kill(worker, Signal::KILL);
    env.release(point);
    let ended = env.wait_for_end(&id);
    (env, ended)
}

#[test]
fn a_killed_worker_loses_no_call_and_repeats_no_effect() {
    for point in [
        "loop_requested_model",
        "loop_model_answered",
        "loop_completed_model",
        "loop_requested_tool",
        "loop_tool_ended",
        "loop_completed_tool",
    ] {
        let script = vec![
            ScriptedReply::call("filesystem_write", json!({"path": "out/n.txt", "content": "1"})),
            // A model call in doubt is made again.
            ScriptedReply::call("filesystem_write", json!({"path": "out/n.txt", "content": "1"})),
            finish("written"),
        ];
        let server = ScriptedServer::start(script).unwrap();
        server.verify(RequestChecks { conversation: true, cache_prefix: false });
        let (env, ended) = run_killed_at(&server, point);
        assert_eq!(
            (&ended["status"], &ended["result"]),
            (&json!("succeeded"), &json!("written")),
            "{point}: {ended}"
        );
        let events = env.events(&env.only_run());
        let mut completed: Vec<u64> = Vec::new();
        for event in events.iter().filter(|event| event["type"] == "call_completed") {
            completed.push(event["call"].as_u64().unwrap());
        }
        let mut once = completed.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(completed.len(), once.len(), "{point}: each call ended once: {completed:?}");
        let calls = events
            .iter()
            .filter(|event| event["type"] == "call_completed" && event["details"]["usage"].is_object());
        let input: u64 = calls.map(|call| call["details"]["usage"]["input_tokens"].as_u64().unwrap()).sum();
        assert_eq!(ended["usage"]["input_tokens"], json!(input), "{point}");
    }
}

#[test]
fn a_command_in_doubt_is_reported_and_not_repeated() {
    let server = ScriptedServer::start(vec![
        ScriptedReply::call("shell_run", json!({"command": "git init --quiet out/repository"})),
        finish("noticed"),
    ])
    .unwrap();
    let (env, ended) = run_killed_at(&server, "loop_tool_ended");
    assert_eq!(ended["status"], json!("succeeded"), "{ended}");
    let told = results(&server.requests()[1].body);
    assert!(told[0].0 && told[0].1.starts_with("unknown:"), "{told:?}");
    let events = env.events(&env.only_run());
    assert_eq!(events.iter().filter(|event| event["type"] == "call_in_doubt").count(), 1);
}

#[test]
fn a_cancelled_directive_leaves_no_process() {
    let server =
        ScriptedServer::start(vec![ScriptedReply::call("shell_run", json!({"command": ["sleep", "300"]}))])
            .unwrap();
    let env = directive_env(&server, "");
    let id = start(&env);
    let tag = env.tag(&id);
    let is_sleeping = || {
        let names =
            tagged(tag).into_iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok());
        names.into_iter().any(|name| name.trim() == "sleep").then_some(())
    };
    wait_for(PATIENCE, "the command", is_sleeping);
    env.volery(["cancel", &id]).ok();
    let ended = env.wait_for_end(&id);
    assert_eq!(ended["status"], json!("cancelled"), "{ended}");
    wait_for(PATIENCE, "the end of all processes", || tagged(tag).is_empty().then_some(()));
}

#[test]
fn a_command_cannot_read_outside_or_reach_the_network() {
    let server = ScriptedServer::start(Vec::new()).unwrap();
    let env = directive_env(&server, "");
    let outside = env.path("home").join("private.txt");
    fs::write(&outside, "PRIVATE").unwrap();
    let read = format!("alias.x=!cat {}", outside.display());
    let made = env.project().join("made.txt");
    let write = format!("alias.x=!touch {}", made.display());
    let connect = format!("alias.x=!exec 3<>/dev/tcp/{}", server.address().to_string().replace(':', "/"));
    server.add([
        ScriptedReply::call("shell_run", json!({"command": ["git", "-c", read, "x"]}))
            .and_call("shell_run", json!({"command": ["git", "-c", write, "x"]}))
            .and_call("shell_run", json!({"command": ["git", "-c", connect, "x"]}))
            .and_call("shell_run", json!({"command": ["git", "--version"]})),
        finish("tried"),
    ]);
    let ended = run(&env);
    assert_eq!(ended["status"], json!("succeeded"), "{ended}");
    let results = results(&server.requests()[1].body);
    assert!(results.iter().all(|(_, text)| !text.contains("PRIVATE")), "{results:?}");
    assert!(results[..3].iter().all(|(is_error, _)| *is_error) && !results[3].0, "{results:?}");
    assert!(!made.exists());
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_denial_of_the_caller_binds_commands_and_a_search_shows_only_what_may_be_read() {
    let server = ScriptedServer::start(vec![
        ScriptedReply::call("shell_run", json!({"command": ["git", "init", "--quiet", "out/repository"]}))
            .and_call("filesystem_search", json!({"path": "secret.txt", "pattern": "."})),
        finish("tried"),
    ])
    .unwrap();
    let env = directive_env(&server, "");
    let file = env.project().join(".ai/directives/worker.md");
    let text = fs::read_to_string(&file).unwrap();
    // Something below the directory may be read, and this file may not.
    fs::write(&file, text.replace("src/**", "**/*.rs")).unwrap();
    env.volery(["run", "worker", "--input", "file=a", "--permission", "yolo", "--deny", "Write", "go"]).ok();
    let results = results(&server.requests()[1].body);
    assert!(results.iter().all(|(is_error, _)| *is_error), "{results:?}");
    assert!(!results[1].1.contains("SECRET"), "{results:?}");
    assert!(!env.project().join("out/repository").exists());
}
