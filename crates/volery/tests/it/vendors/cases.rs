//! The cases of the table, each of which runs for every vendor's program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::fake_clis::find_fake_cli;
use super::vendor_env::{Cell, PATIENCE, Vendor, VendorEnv, left_out, record_cell};
use crate::test_env::wait_for;

fn events<'a>(vendor_env: &VendorEnv, run: &'a Value) -> (Vec<Value>, &'a str) {
    let id = run["run_id"].as_str().unwrap();
    (vendor_env.env.events(id), id)
}

/// One start shows three cells: the answer, the directory's instructions, and what was used.
pub(super) fn say(vendor: &Vendor) {
    let usage = fake_llm::ScriptedUsage { input: 120, output: 30, cached: 40 };
    let script = vec![ScriptedReply::say("Hello from the script.").using(usage)];
    let Some(vendor_env) = VendorEnv::make(vendor, "say", script) else { return };
    // Some ask for a model whose price is published, others for one that only its user can know.
    let own = "[prices.scripted-model]\ninput = 1\noutput = 2\ncache_read = 0.5\n";
    vendor_env.env.configure(own);
    write_instructions(vendor, &vendor_env);
    vendor_env.agent(vendor, "timeout: 100s");
    let run = vendor_env.run("Say hello.", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    assert_eq!(run["result"].as_str().unwrap().trim(), "Hello from the script.", "{run}");
    let asks = vendor_env.offline.server().model_requests();
    assert_eq!(asks.len(), 1);
    // Some programs append text of their own.
    let prompt_arrived = asks[0].messages.iter().any(|message| message.text.contains("Say hello."));
    assert!(prompt_arrived, "{:?}", asks[0].messages);
    assert!(reads_instructions(&vendor_env), "{} is not read", vendor.test_facts().instructions);
    assert!(!run["warnings"].to_string().contains("context: none"), "{run}");
    record_cell(vendor, "say", &Cell::Works);
    record_cell(vendor, "cost", &cost(&run));
}

/// Returns the cell of the table for the tokens and the price that a run reports.
fn cost(run: &Value) -> Cell {
    let used = &run["usage"];
    match (used["input_tokens"].as_u64(), used["output_tokens"].as_u64()) {
        (Some(120), Some(30)) if used["cost"]["basis"] == "reported" => Cell::Works,
        (Some(120), Some(30)) => {
            let expected = computed(run["model"].as_str(), used["cache_read_tokens"].as_u64());
            assert_eq!(used["cost"]["microusd"].as_u64(), expected, "{run}");
            match expected {
                Some(_) => Cell::Limited("computed from its tokens"),
                None => Cell::Limited("tokens without a price"),
            }
        }
        (Some(0), Some(0)) => Cell::Cannot("the program does not tell"),
        _ => panic!("{run}"),
    }
}

const INSTRUCTION: &str = "Herons are always counted twice.";

/// Gives the directory instructions of its own, in the file that the program reads.
fn write_instructions(vendor: &Vendor, vendor_env: &VendorEnv) {
    fs::write(vendor_env.env.project().join(vendor.test_facts().instructions), format!("{INSTRUCTION}\n"))
        .unwrap();
}

fn reads_instructions(vendor_env: &VendorEnv) -> bool {
    vendor_env.offline.server().requests().iter().any(|seen| seen.body.to_string().contains(INSTRUCTION))
}

pub(super) fn tool(vendor: &Vendor) {
    let Some(vendor_env) = VendorEnv::make(vendor, "tool", Vec::new()) else { return };
    let made = vendor_env.env.project().join("made.txt");
    vendor_env.offline.server().add([vendor.writes(&made, "by hand"), ScriptedReply::say("Done.")]);
    vendor_env.agent(vendor, "permission: yolo\ntimeout: 100s");
    let run = vendor_env.run("Write a file.", &[]);
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    assert_eq!(fs::read_to_string(&made).unwrap_or_default().trim_end(), "by hand", "{run}");
    let (events, _) = events(&vendor_env, &run);
    if vendor.name == "kiro" {
        return record_cell(vendor, "tool", &Cell::Limited("it is not told which tools are used"));
    }
    assert!(events.iter().any(|event| event["type"] == "tool_called"), "{events:?}");
    assert!(events.iter().any(|event| event["type"] == "tool_returned" && event["ok"] == true), "{events:?}");
    record_cell(vendor, "tool", &Cell::Works);
}

fn is_replayed(run: &Value) -> bool {
    run["warnings"].to_string().contains("continued by replay")
}

/// A session is continued and copied: the same four starts show both.
pub(super) fn sessions(vendor: &Vendor) {
    let mut script = ["I am one.", "I am a copy.", "I am two."].map(ScriptedReply::say).to_vec();
    // Some programs also request a summary, sooner or later.
    script.push(ScriptedReply::say("I am still a copy.").always());
    let Some(vendor_env) = VendorEnv::make(vendor, "fork", script) else { return };
    vendor_env.agent(vendor, "timeout: 100s");
    let first = vendor_env.run("Remember the heron.", &[]);
    assert_eq!(first["status"], json!("succeeded"), "{first}");
    let session = first["session"].as_str().unwrap_or_else(|| panic!("no session: {first}"));
    let copy = vendor_env.run("In the copy: what was it?", &["--fork", session]);
    assert_eq!(copy["result"].as_str().unwrap_or_default().trim(), "I am a copy.", "{copy}");
    assert!(copy["session"].is_string() && copy["session"] != first["session"], "{copy}");
    check_usage_of_a_copy(&first, &copy);
    assert!(last_request(&vendor_env).contains("Remember the heron."), "the first run is not there");
    let second = vendor_env.run("What was it?", &["--session", session]);
    assert_eq!(second["result"].as_str().unwrap_or_default().trim(), "I am two.", "{second}");
    assert!(!last_request(&vendor_env).contains("In the copy"), "the copy is in the original");
    resume(vendor, &vendor_env, &second);
    let replayed = is_replayed(&copy);
    assert_eq!(replayed, !vendor.copies_sessions(), "{copy}");
    // What a copy is a copy of has been counted before.
    let on = vendor_env.run("And now?", &["--session", copy["session"].as_str().unwrap()]);
    assert_eq!(on["result"].as_str().unwrap_or_default().trim(), "I am still a copy.", "{on}");
    check_usage_of_a_copy(&first, &on);
    record_cell(vendor, "fork", &if replayed { Cell::Limited("by replay") } else { Cell::Works });
}

fn last_request(vendor_env: &VendorEnv) -> String {
    vendor_env.offline.server().requests().last().unwrap().body.to_string()
}

/// A copy has used only what it used itself, whatever its program counts.
fn check_usage_of_a_copy(first: &Value, copy: &Value) {
    let tokens = |run: &Value| (run["usage"]["input_tokens"].clone(), run["usage"]["output_tokens"].clone());
    let none = (json!(0), json!(0));
    assert!(tokens(copy) == tokens(first) || tokens(copy) == none, "{first} {copy}");
    // What is told as the price of the whole session is not taken for the copy's; it may have a title in it too.
    if copy["usage"]["cost"]["basis"] == first["usage"]["cost"]["basis"] {
        assert_eq!(copy["usage"]["cost"], first["usage"]["cost"], "{copy}");
    }
}

/// Checks a run that continued the session of the first one.
fn resume(vendor: &Vendor, vendor_env: &VendorEnv, second: &Value) {
    if let Some(cell) = left_out(vendor.name, "resume") {
        return record_cell(vendor, "resume", &cell);
    }
    // Not always the last: some programs also have a name made for the session.
    let whole = |body: &str| {
        body.contains("Remember the heron.") && body.contains("I am one.") && !body.contains("In the copy")
    };
    let seen = vendor_env.offline.server().requests();
    assert!(seen.iter().any(|seen| whole(&seen.body.to_string())), "the first run is not there");
    let unknown =
        vendor_env.volery(&["run", "worker", "x", "--session", "00000000-0000-4000-8000-000000000000"]);
    assert_eq!(unknown.code, 5, "{unknown:?}");
    let replayed = is_replayed(second);
    // Kiro has one conversation per directory, whoever talks.
    assert_eq!(replayed, vendor.name == "kiro", "{second}");
    record_cell(vendor, "resume", &if replayed { Cell::Limited("by replay") } else { Cell::Works });
}

pub(super) fn deny(vendor: &Vendor) {
    let Some(vendor_env) = VendorEnv::make(vendor, "deny", Vec::new()) else { return };
    let made = vendor_env.env.project().join("forbidden.txt");
    let touch = format!("touch '{}'", made.display());
    let last = ScriptedReply::say("It was not allowed.");
    let last = if vendor.decides_by_rules() { last } else { last.always() };
    vendor_env.offline.server().add([vendor.executes(&touch), last]);
    vendor_env.agent(vendor, "permission: read-only\ntimeout: 100s");
    if let Some(reason) = vendor.cannot_be_held() {
        let refused = vendor_env.volery(&["run", "worker", "Touch a file."]).exits(3);
        assert!(refused.stderr.contains("cannot enforce the level read-only"), "{refused:?}");
        assert_eq!(vendor_env.env.runs(), Vec::<String>::new());
        return record_cell(vendor, "deny", &Cell::Cannot(reason));
    }
    let run = vendor_env.run("Touch a file.", &[]);
    assert!(!made.exists(), "{run}");
    assert!(run["ended"] == json!(true) && run["status"] != json!("timed_out"), "{run}");
    let reports_denial = run["denials"].as_array().is_some_and(|denials| !denials.is_empty());
    assert_eq!(reports_denial, vendor.reports_denials(), "{run}");
    check_suggestion(vendor, &run);
    if vendor.decides_by_rules() {
        // The rule that the run suggests allows the command, as the program itself understands the rule.
        vendor_env
            .offline
            .server()
            .add([vendor.executes(&touch), ScriptedReply::say("It is done.").always()]);
        let run = vendor_env.run("Touch a file.", &["--allow", "Bash(touch:*)"]);
        assert!(made.exists() && run["denials"].is_null(), "{run}");
    }
    record_cell(vendor, "deny", &Cell::Works);
}

/// Checks the rules that a run suggests after it was denied to touch a file.
fn check_suggestion(vendor: &Vendor, run: &Value) {
    for denial in run["denials"].as_array().into_iter().flatten() {
        let rules = denial.get("allow_rules").cloned().unwrap_or(json!([]));
        assert_eq!(rules, json!(vendor.rules_for_touch()), "{run}");
    }
}

pub(super) fn error(vendor: &Vendor) {
    let script = vec![ScriptedReply::error(401, "the key is wrong").always()];
    let Some(vendor_env) = VendorEnv::make(vendor, "error", script) else { return };
    vendor_env.agent(vendor, "timeout: 100s");
    let run = vendor_env.run("Say hello.", &[]);
    assert_eq!((&run["status"], &run["outcome"]["kind"]), (&json!("failed"), &json!("model")), "{run}");
    let cell = match run["outcome"]["error"].as_str() {
        Some("denied") => Cell::Works,
        _ => Cell::Limited("the status is not told"),
    };
    record_cell(vendor, "error", &cell);
}

pub(super) fn time_out(vendor: &Vendor) {
    let script = vec![ScriptedReply::stall("Half of this is said and the other half never comes.").always()];
    let Some(vendor_env) = VendorEnv::make(vendor, "time-out", script) else { return };
    let run = time_out_after_the_first_request(vendor, &vendor_env);
    let cell = match run["status"].as_str() {
        Some("partial") => {
            assert_eq!(run["outcome"]["cause"]["limit"], json!("total"), "{run}");
            assert!(run["result"].as_str().unwrap().contains("Half of"), "{run}");
            Cell::Works
        }
        Some("timed_out") => Cell::Limited("half a message is not told"),
        _ => panic!("{run}"),
    };
    record_cell(vendor, "time-out", &cell);
}

/// Runs the agent with a time-out that leaves the program some seconds after its first request to the model. A busy machine
/// may need longer to get there than a quiet one, so a run that leaves less is repeated with twice the time-out. The time-out
/// does not simply start long: some programs give up a stalled model by themselves after a minute.
fn time_out_after_the_first_request(vendor: &Vendor, vendor_env: &VendorEnv) -> Value {
    let enough = Duration::from_secs(3);
    let mut timeout = Duration::from_secs(if vendor.drives() == "opencode" { 12 } else { 8 });
    loop {
        vendor_env.agent(vendor, &format!("timeout: {}s\ngrace: 2s", timeout.as_secs()));
        let before = vendor_env.offline.server().requests().len();
        let started = Instant::now();
        let run = vendor_env.run("Say it.", &[]);
        let seen = vendor_env.offline.server().requests();
        let first =
            seen[before..].iter().find(|seen| matches!(seen.purpose, fake_llm::RequestPurpose::Work(_)));
        if first.is_some_and(|first| first.received_at + enough <= started + timeout) {
            return run;
        }
        timeout *= 2;
        assert!(timeout <= PATIENCE, "the model was not asked in time: {run}");
    }
}

pub(super) fn cancel(vendor: &Vendor) {
    let Some(vendor_env) = VendorEnv::make(vendor, "cancel", vec![ScriptedReply::hang().always()]) else {
        return;
    };
    vendor_env.agent(vendor, "timeout: 100s\ngrace: 5s");
    let mut command = vendor_env.command(&["run", "worker", "Wait.", "--background"]);
    let id = crate::test_env::command_output(command.stdin(Stdio::null()).output().unwrap())
        .ok()
        .stdout
        .trim()
        .to_owned();
    assert!(vendor_env.offline.server().wait_until(PATIENCE, |seen| {
        seen.iter().any(|seen| matches!(seen.purpose, fake_llm::RequestPurpose::Work(_)))
    }));
    assert_eq!(vendor_env.volery(&["cancel", &id]).code, 0);
    let run = wait_for(PATIENCE, "the end", || {
        Some(vendor_env.volery(&["show", &id, "--json"]).json()).filter(|run| run["ended"] == json!(true))
    });
    let status = run["status"].as_str().unwrap();
    assert!(matches!(status, "cancelled" | "partial"), "{run}");
    vendor_env.check_nothing_left(&run);
    record_cell(vendor, "cancel", &Cell::Works);
}

pub(super) fn schema(vendor: &Vendor) {
    let value = json!({"birds": 3});
    // Over ACP the tool is not offered.
    let tool = vendor.test_facts().schema_tool.filter(|_| !vendor.name.starts_with("acp-"));
    let reply = match tool {
        Some(tool) => ScriptedReply::call(&tool, value.clone()),
        None => ScriptedReply::say_json(&value),
    };
    let Some(vendor_env) =
        VendorEnv::make(vendor, "schema", vec![reply, ScriptedReply::say_json(&value).always()])
    else {
        return;
    };
    let schema = "output_schema: {type: object, properties: {birds: {type: integer}}, required: [birds]}";
    vendor_env.agent(vendor, &format!("{schema}\ntimeout: 100s"));
    let run = vendor_env.run("Count them.", &[]);
    let seen = vendor_env.offline.server().requests();
    assert!(
        seen.iter().any(|seen| seen.body.to_string().contains("birds")),
        "the shape was not asked for: {run}"
    );
    let warned = run["warnings"].to_string().contains("the form of the output is not honoured");
    if warned {
        return record_cell(vendor, "schema", &Cell::Cannot("no way to ask for a shape"));
    }
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    assert_eq!(run["structured"], value, "{run}");
    record_cell(vendor, "schema", &Cell::Works);
}

pub(super) fn mcp(vendor: &Vendor) {
    let mut script = vec![ScriptedReply::say("I see.").always()];
    if vendor.name == "acp-qwen" {
        // It shows the tools of servers only to a model that looks for them.
        script.insert(0, ScriptedReply::call("tool_search", json!({"query": "delegate to an agent"})));
    }
    let Some(mut vendor_env) = VendorEnv::make(vendor, "mcp", script) else { return };
    // The project's own server must not be there, the agent's own must.
    let mark = users_server(&mut vendor_env, vendor);
    let program = env!("CARGO_BIN_EXE_volery");
    let other = match find_fake_cli(vendor.name) {
        // A fake CLI shows only what it could start.
        Some(_) => json!({"mcpServers": {"strange": {"command": program, "args": ["serve"]}}}),
        None => json!({"mcpServers": {"strange": {"command": "/nonexistent/strange-server", "args": []}}}),
    };
    let file = vendor_env.env.project().join(vendor.test_facts().project_servers);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, other.to_string()).unwrap();
    let servers = format!("mcp_servers:\n  aviary:\n    command: {program}\n    args: [serve]\n");
    vendor_env.agent(vendor, &format!("timeout: 100s\npermission: yolo\n{servers}"));
    assert_eq!(vendor_env.volery(&["trust", "--yes"]).code, 0);
    let run = vendor_env.run("What tools are there?", &[]);
    let seen = vendor_env.offline.server().requests();
    let bodies: Vec<String> = seen.iter().map(|seen| seen.body.to_string()).collect();
    if vendor.name == "acp-kiro" {
        assert!(run["warnings"].to_string().contains("also starts the MCP servers of its own"), "{run}");
        assert!(
            bodies.iter().any(|body| body.contains("aviary")),
            "the agent's own server is not there: {run}"
        );
        return record_cell(
            vendor,
            "mcp",
            &Cell::Limited("those of its settings are started too, with a warning"),
        );
    }
    assert!(!bodies.iter().any(|body| body.contains("strange")), "the project's server is there");
    assert!(!mark.exists(), "the user's or the project's server was started");
    if run["warnings"].to_string().contains("mcp_servers is not honoured") {
        return record_cell(vendor, "mcp", &Cell::Cannot("its own servers cannot be given to it"));
    }
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    assert!(bodies.iter().any(|body| body.contains("aviary")), "the agent's own server is not there: {run}");
    // What cannot be promised is warned about.
    assert!(!run["warnings"].to_string().contains("MCP servers of its"), "{run}");
    record_cell(vendor, "mcp", &Cell::Works);
}

/// Gives the user a server of their own, and the project one, by the program's own settings; returns what they leave if
/// they are started.
fn users_server(vendor_env: &mut VendorEnv, vendor: &Vendor) -> PathBuf {
    let mark = vendor_env.env.path("users-server-was-started");
    let script = vendor_env.env.path("users-server");
    fs::write(&script, format!("#!/bin/sh\ntouch '{}'\nexec cat > /dev/null\n", mark.display())).unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let script = script.display().to_string();
    // None of Grok's tools for servers can be used, but it may start them.
    let Some(facts) = vendor.test_facts().users_server else { return mark };
    let entry = facts.entry(&script);
    let (users, projects, key) = (&facts.file, facts.project_file.as_deref(), facts.key.as_str());
    let path = vendor_env.env.path("home").join(users);
    add_server(&path, key, "of-the-user", &entry);
    if vendor.drives() == "copilot" {
        let plugin = vendor_env.env.path("home/.copilot/installed-plugins/_direct/plug");
        add_server(&plugin.join(".mcp.json"), key, "of-a-plugin", &entry);
        fs::write(
            plugin.join("plugin.json"),
            r#"{"name": "plug", "version": "1.0.0", "mcpServers": ".mcp.json"}"#,
        )
        .unwrap();
        let listed = json!({"installedPlugins": [{"name": "plug", "marketplace": "", "version": "1.0.0", "enabled": true,
            "installed_at": "2026-11-01T00:00:00Z", "cache_path": plugin, "source": {"source": "local", "path": plugin}}]});
        let list = vendor_env.env.path("home/.copilot/config.json");
        fs::write(&list, listed.to_string()).unwrap();
        for file in [plugin.join(".mcp.json"), plugin.join("plugin.json"), list] {
            vendor_env.user_changed(&file);
        }
    }
    vendor_env.user_changed(&path);
    if let Some(projects) = projects {
        add_server(&vendor_env.env.project().join(projects), key, "of-the-project", &entry);
    }
    mark
}

/// Adds a server to settings in JSON or TOML.
fn add_server(path: &Path, key: &str, name: &str, entry: &Value) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let known = fs::read_to_string(path).unwrap_or_default();
    if path.extension().is_some_and(|ending| ending == "toml") {
        let added = format!("[{key}.{name}]\ncommand = {}\n", entry["command"]);
        return fs::write(path, known + &added).unwrap();
    }
    let mut settings: Value =
        if known.is_empty() { json!({}) } else { serde_json::from_str(&known).unwrap() };
    settings[key] = json!({ name: entry });
    fs::write(path, settings.to_string()).unwrap();
}

/// Returns what 120 tokens in, as many of them from a cache as the program told, and 30 out cost, in millionths of a
/// dollar.
fn computed(model: Option<&str>, cached: Option<u64>) -> Option<u64> {
    match (model?, cached) {
        // 80 * 5 + 40 * 0.5 + 30 * 30
        ("gpt-5.5", Some(40)) => Some(1_320),
        ("gpt-5.5", None) => Some(1_500),
        // 80 * 0.3 + 40 * 0.03 + 30 * 2.5
        ("gemini-2.5-flash", Some(40)) => Some(100),
        ("gemini-2.5-flash", None) => Some(111),
        ("scripted-model", Some(40)) => Some(160),
        ("scripted-model", None) => Some(180),
        (_, _) => None,
    }
}

/// Makes a folder that is not below those for temporary files, which some sandboxes leave open; a checkout may be.
pub(super) fn beyond_every_sandbox() -> tempfile::TempDir {
    let home = std::env::var("HOME").unwrap_or_default();
    let candidates = [env!("CARGO_TARGET_TMPDIR"), home.as_str(), "/opt", "/srv", "/usr/local"];
    let open = |path: &&str| ["/tmp", "/var/tmp", "/dev"].iter().any(|open| path.starts_with(open));
    let mut closed = candidates.into_iter().filter(|path| path.starts_with('/') && !open(path));
    closed.find_map(|path| tempfile::tempdir_in(path).ok()).expect("a folder outside of all temporary ones")
}

/// An approval that nobody answers is denied, and the run ends.
pub(super) fn ask(vendor: &Vendor) {
    let Some(vendor_env) = VendorEnv::make(vendor, "ask", Vec::new()) else { return };
    let outside = beyond_every_sandbox();
    let made = outside.path().join("made.txt");
    let touch = format!("touch '{}'", made.display());
    vendor_env
        .offline
        .server()
        .add([vendor.executes_beyond(&touch), ScriptedReply::say("Nobody allowed it.").always()]);
    vendor_env.agent(vendor, "timeout: 100s\nanswer_timeout: 2s");
    let run = vendor_env.run("Touch a file elsewhere.", &[]);
    assert!(!made.exists(), "{run}");
    assert!(run["denials"].is_array() || vendor.name == "kiro", "{run}");
    check_suggestion(vendor, &run);
    if ["acp-codex", "acp-copilot", "acp-opencode", "acp-qwen"].contains(&vendor.name) {
        assert!(run["outcome"]["message"].as_str().unwrap_or_default().contains("gave up"), "{run}");
        return record_cell(vendor, "ask", &Cell::Limited("its turn ends with a denial"));
    }
    assert_eq!((&run["status"], &run["ended"]), (&json!("succeeded"), &json!(true)), "{run}");
    let (events, _) = events(&vendor_env, &run);
    let has_question = events.iter().any(|event| event["type"] == "asked");
    record_cell(
        vendor,
        "ask",
        &if has_question { Cell::Works } else { Cell::Limited("it is denied without a question") },
    );
}

/// More than fits into one argument reaches the model whole, and the directory's instructions do not if the agent says so.
pub(super) fn long_prompt(vendor: &Vendor) {
    let Some(vendor_env) = VendorEnv::make(vendor, "long prompt", vec![ScriptedReply::say("Read.").always()])
    else {
        return;
    };
    write_instructions(vendor, &vendor_env);
    vendor_env.agent(vendor, "timeout: 100s\ncontext: none");
    let prompt =
        format!("Begin with the heron.\n{}\nEnd with the wren.", "A line of feathers.\n".repeat(16_000));
    let mut command = vendor_env.command(&["run", "worker", "-", "--json"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), prompt.as_bytes()).unwrap();
    let run = crate::test_env::command_output(child.wait_with_output().unwrap()).json();
    assert_eq!(run["status"], json!("succeeded"), "{run}");
    vendor_env.check_nothing_left(&run);
    let seen = vendor_env.offline.server().requests();
    let whole = |body: &str| {
        body.contains("Begin with the heron.")
            && body.contains("End with the wren.")
            && body.len() > prompt.len()
    };
    assert!(seen.iter().any(|seen| whole(&seen.body.to_string())), "the prompt did not arrive whole: {run}");
    record_cell(vendor, "long prompt", &Cell::Works);
    let warned = run["warnings"].to_string().contains("context: none is not honoured");
    match (reads_instructions(&vendor_env), warned) {
        (false, false) => record_cell(vendor, "context", &Cell::Works),
        (true, true) => record_cell(vendor, "context", &Cell::Limited("context: none is warned about")),
        (read, warned) => panic!("read: {read}, warned: {warned}"),
    }
}

pub(super) fn doctor(vendor: &Vendor) {
    let Some(vendor_env) = VendorEnv::make(vendor, "doctor", Vec::new()) else { return };
    let report = vendor_env.volery(&["doctor", "--live", "--json"]).json();
    let checks = report["checks"].as_array().unwrap();
    // A program with two backends is tried once.
    let Some(check) = checks.iter().find(|check| check["name"] == json!(vendor.name)) else {
        return record_cell(vendor, "doctor", &Cell::Cannot("its program is tried by its other backend"));
    };
    assert!(check["found"].as_str().unwrap().contains("contract ok ("), "{check}");
    record_cell(vendor, "doctor", &Cell::Works);
}
