//! `--dialect powerspawn`: what that system documents, what its `IAC.md` shows, and what it did wrong.

mod answer_limits;
mod directory_and_arguments;
mod keys;
mod programs;
mod tokens;
mod versions;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fake_llm::{ScriptedReply, ScriptedServer};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_env::{Client, PATIENCE, TestEnv, git, run_processes, tagged, wait_for};

const KEY: &str = "xai-0123456789abcdefghij";

/// A project with a model that follows a script behind all APIs.
struct PowerspawnEnv {
    env: TestEnv,
    server: ScriptedServer,
}

impl PowerspawnEnv {
    fn new(script: Vec<ScriptedReply>) -> Self {
        Self { env: TestEnv::new(), server: ScriptedServer::start(script).unwrap() }
    }

    fn command(&self) -> Command {
        let mut command = self.env.command(["serve", "--dialect", "powerspawn"]);
        let url = self.server.url();
        command.env("XAI_BASE_URL", &url).env("GOOGLE_GEMINI_BASE_URL", &url).env("MISTRAL_BASE_URL", &url);
        command.env("X_API_KEY", KEY).env("GOOGLE_AI_KEY", KEY).env("MISTRAL_API_KEY", KEY);
        command
    }

    fn serve(&self) -> Client {
        Client::start(self.command()).initialize("claude-code")
    }

    /// Returns the whole id of an agent's run.
    fn run(&self, id: &str) -> String {
        self.env.runs().into_iter().find(|run| run.ends_with(id)).unwrap()
    }

    fn iac(&self) -> String {
        fs::read_to_string(self.env.project().join("IAC.md")).unwrap()
    }
}

/// Calls a tool and returns its JSON; PowerSpawn's answers are never errors.
#[track_caller]
fn call(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let id = client.send("tools/call", json!({"name": tool, "arguments": arguments}));
    let result = client.answer(id, Duration::from_secs(120))["result"].clone();
    assert_eq!(result["isError"], json!(false), "{result}");
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"], "text and structured content say the same");
    text
}

/// Returns the newest result of a wait, which are the recent ones if all agents had ended before it began.
#[track_caller]
fn newest_result(waited: &Value) -> &Value {
    let results = waited["results"].as_array().or(waited["recent_results"].as_array());
    results.and_then(|results| results.last()).unwrap_or_else(|| panic!("{waited}"))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[track_caller]
fn spawn(client: &mut Client, tool: &str, arguments: Value) -> String {
    let spawned = call(client, tool, arguments);
    let id = spawned["agent_id"].as_str().unwrap_or_else(|| panic!("{spawned}")).to_owned();
    assert!(id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    id
}

#[test]
fn the_tools_are_the_ones_that_were_reviewed() {
    let powerspawn = PowerspawnEnv::new(Vec::new());
    let mut client = Client::start(powerspawn.command());
    let hello = client.request(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    assert_eq!(hello["serverInfo"]["name"], json!("agents"));
    let instructions = hello["instructions"].as_str().unwrap();
    assert_eq!(instructions.matches("yolo").count(), 1, "{instructions}");
    let tools = client.request("tools/list", json!({}));
    insta::assert_snapshot!("powerspawn", serde_json::to_string_pretty(&tools["tools"]).unwrap());
}

/// Differs from powerspawn: the ids of an agent | one in the answer, another in `IAC.md` | one id everywhere, also
///    for `volery show`
#[test]
fn an_agent_is_spawned_at_once_and_its_result_has_the_documented_shape() {
    let reply = ScriptedReply::say("Thirty herons.").after_ms(1_500);
    let powerspawn = PowerspawnEnv::new(vec![reply]);
    let mut client = powerspawn.serve();
    let spawned = call(&mut client, "spawn_grok", json!({"prompt": "Count the herons."}));
    assert_eq!(keys(&spawned), ["agent_id", "agent_type", "model", "status", "message", "warnings"]);
    assert_eq!((&spawned["agent_type"], &spawned["status"]), (&json!("grok"), &json!("running")));
    let replaced = "the documented default model, grok-3, is replaced by grok-4: volery's own list of models";
    assert_eq!((&spawned["model"], &spawned["warnings"]), (&json!("grok-4"), &json!([replaced])));
    let id = spawned["agent_id"].as_str().unwrap();
    let going = call(&mut client, "result", json!({"agent_id": id}));
    assert_eq!((&going["status"], &going["agent_id"]), (&json!("running"), &json!(id)), "{going}");
    let listed = call(&mut client, "list", json!({}));
    assert_eq!(keys(&listed), ["running", "completed_ids", "tip"]);
    assert_eq!(keys(&listed["running"][0]), ["id", "sec", "type"]);
    assert_eq!((&listed["running"][0]["id"], &listed["completed_ids"]), (&json!(id), &json!([])));
    assert!(listed["running"][0]["sec"].as_i64().unwrap() < 60, "elapsed seconds are elapsed seconds");
    let waited = call(&mut client, "wait_for_agents", json!({}));
    assert_eq!((keys(&waited), &waited["status"]), (vec!["status", "results"], &json!("all_completed")));
    let result = call(&mut client, "result", json!({"agent_id": id}));
    assert_eq!(waited["results"], json!([result]));
    let documented = [
        "agent_id",
        "agent_type",
        "model",
        "success",
        "result",
        "cost_usd",
        "error",
        "cost_basis",
        "usage",
        "started_at",
        "task",
        "completed_at",
    ];
    assert_eq!(keys(&result), documented);
    assert_eq!((&result["success"], &result["result"]), (&json!(true), &json!("Thirty herons.")));
    assert_eq!((&result["error"], &result["task"]), (&Value::Null, &json!("Count the herons.")));
    assert_eq!(result["usage"], json!({"input_tokens": 100, "output_tokens": 10}));
    let listed = call(&mut client, "list", json!({}));
    assert_eq!((&listed["running"], &listed["completed_ids"]), (&json!([]), &json!([id])));
    let idle = call(&mut client, "wait_for_agents", json!({"timeout": 5}));
    assert_eq!((&idle["status"], &idle["recent_results"]), (&json!("no_agents_running"), &json!([result])));
    let run = powerspawn.env.json(["show", id]);
    assert_eq!(run["run_id"], json!(powerspawn.env.only_run()), "one id for both");
}

/// Differs from powerspawn: web search of the APIs | asked for | not asked for: the model answers alone
#[test]
fn the_apis_get_what_is_documented() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let mut client = powerspawn.serve();
    for (tool, model) in [
        ("spawn_grok", "grok-4"),
        ("spawn_grok_api", "grok-4"),
        ("spawn_gemini", "gemini-2.5-flash"),
        ("spawn_mistral", "mistral-large-latest"),
    ] {
        spawn(&mut client, tool, json!({"prompt": "Say ok.", "system_prompt": "Be brief."}));
        let waited = call(&mut client, "wait_for_agents", json!({}));
        assert_eq!(newest_result(&waited)["success"], json!(true), "{tool}: {waited}");
        let seen = powerspawn.server.requests().pop().unwrap();
        let ask = seen.model_request.unwrap();
        assert_eq!(
            (ask.model.as_str(), ask.system.as_str(), ask.last_user_text()),
            (model, "Be brief.", "Say ok.")
        );
        let temperature = seen.body.get("temperature").or(seen.body.pointer("/generationConfig/temperature"));
        assert_eq!(temperature, Some(&json!(0.7)), "{tool}");
        assert!(!seen.body.to_string().to_lowercase().contains("search"), "{}", seen.body);
    }
    spawn(&mut client, "spawn_grok", json!({"prompt": "x", "model": "grok-3-fast", "system_prompt": null}));
    call(&mut client, "wait_for_agents", json!({}));
    assert_eq!(powerspawn.server.model_requests().pop().unwrap().model, "grok-3-fast");
    let limits = |id: usize| powerspawn.env.spec(&powerspawn.env.runs()[id])["limits"]["timeout_ms"].clone();
    assert_eq!(limits(0), json!(300_000));
    spawn(&mut client, "spawn_gemini", json!({"prompt": "x", "timeout": 7}));
    call(&mut client, "wait_for_agents", json!({}));
    assert!(
        powerspawn
            .env
            .runs()
            .iter()
            .any(|run| powerspawn.env.spec(run)["limits"]["timeout_ms"] == json!(7_000))
    );
}

#[test]
fn wrong_arguments_are_errors_in_the_answer_and_nothing_starts() {
    let powerspawn = PowerspawnEnv::new(Vec::new());
    let mut client = powerspawn.serve();
    for (tool, arguments, error) in [
        ("spawn_grok", json!({}), "prompt is required and must be a string"),
        ("spawn_grok", json!({"prompt": "  "}), "prompt is required and must be a string"),
        ("spawn_grok", json!({"prompt": 7}), "prompt must be a string"),
        ("spawn_grok", json!({"prompt": "x", "model": 7}), "model must be a string"),
        (
            "spawn_grok",
            json!({"prompt": "x", "timeout": 0}),
            "timeout must be a number of seconds from 1 to 86400",
        ),
        ("spawn_cursor", json!({"prompt": "x", "force": "yes"}), "force must be true or false"),
        ("result", json!({}), "agent_id is required and must be a string"),
        ("wait_for_agents", json!({"timeout": "soon"}), "timeout must be a number of seconds"),
    ] {
        let answer = call(&mut client, tool, arguments);
        assert_eq!(answer, json!({"success": false, "error": error, "error_type": "ValueError"}));
    }
    for id in ["deadbeef", "no id", "../../x"] {
        let unknown = call(&mut client, "result", json!({"agent_id": id}));
        assert_eq!(unknown, json!({"status": "not_found", "message": "No agent found with this ID."}));
    }
    let idle = call(&mut client, "wait_for_agents", json!({}));
    assert_eq!(idle, json!({"status": "no_agents_running", "recent_results": []}));
    assert_eq!(powerspawn.env.runs(), Vec::<String>::new());
    let absent = call(&mut client, "spawn_cursor", json!({"prompt": "x"}));
    insta::assert_snapshot!(powerspawn.env.masked_texts(&absent["error"]), @r"
    agent cursor needs cursor-agent or agent, which is not on the PATH
    hint: install it: the script at cursor.com/install; or give the agent another backend
    ");
}

/// Differs from powerspawn: a time-out on Linux and macOS | kills the server | ends the agent with all that it
///    started
#[test]
fn a_time_out_ends_the_agent_and_not_the_server() {
    let powerspawn = PowerspawnEnv::new(vec![
        ScriptedReply::stall("Half of this is never said"),
        ScriptedReply::say("ok"),
    ]);
    let mut client = powerspawn.serve();
    let id = spawn(&mut client, "spawn_grok", json!({"prompt": "Count.", "timeout": 2}));
    let waited = call(&mut client, "wait_for_agents", json!({}));
    let result = newest_result(&waited);
    assert_eq!((&result["agent_id"], &result["success"]), (&json!(id), &json!(false)), "{result}");
    insta::assert_snapshot!(powerspawn.env.masked_texts(&result["error"]), @"partial: timed out, the total time-out passed, with usable output so far");
    assert!("Half of this is never said".starts_with(result["result"].as_str().unwrap()), "{result}");
    assert_eq!(tagged(powerspawn.env.tag(&powerspawn.env.only_run())), Vec::<u32>::new());
    let next = spawn(&mut client, "spawn_grok", json!({"prompt": "Again."}));
    call(&mut client, "wait_for_agents", json!({}));
    assert_eq!(call(&mut client, "result", json!({"agent_id": next}))["result"], json!("ok"));
}

#[test]
fn a_wait_that_times_out_lists_the_running_agents() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("first"), ScriptedReply::hang()]);
    let mut client = powerspawn.serve();
    spawn(&mut client, "spawn_grok", json!({"prompt": "one"}));
    call(&mut client, "wait_for_agents", json!({}));
    let id = spawn(&mut client, "spawn_grok", json!({"prompt": "two"}));
    let waited = call(&mut client, "wait_for_agents", json!({"timeout": 1}));
    assert_eq!(keys(&waited), ["status", "still_running", "completed_results"]);
    assert_eq!((&waited["status"], &waited["still_running"]), (&json!("timeout"), &json!([id])));
    powerspawn.env.volery(["cancel", &id]).ok();
    let cancelled = call(&mut client, "wait_for_agents", json!({}));
    insta::assert_snapshot!(powerspawn.env.masked_texts(&newest_result(&cancelled)["error"]), @"cancelled by main");
}

/// Differs from powerspawn: `api_keys.json` that others can read | used without a word | used, and a warning names
///    it
#[test]
fn keys_of_the_projects_file_win_and_exposed_key_files_are_warned_about() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let project = powerspawn.env.project();
    let file = project.join("api_keys.json");
    fs::write(&file, json!({"GROK_API_KEY": "xai-from-the-file-itself"}).to_string()).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let mut client = powerspawn.serve();
    let ask = json!({"prompt": "x", "model": "m"});
    let spawned = call(&mut client, "spawn_grok", ask.clone());
    assert_eq!(spawned.get("warnings"), None, "{spawned}");
    call(&mut client, "wait_for_agents", json!({}));
    let sent = |powerspawn: &PowerspawnEnv| {
        let seen = powerspawn.server.requests().pop().unwrap();
        seen.headers.into_iter().find(|(name, _)| name == "authorization").unwrap().1
    };
    assert_eq!(sent(&powerspawn), "Bearer xai-from-the-file-itself");
    let dir = powerspawn.env.run_dir(&powerspawn.env.only_run());
    for name in ["spec.json", "events.jsonl", "stdout"] {
        let text = fs::read_to_string(dir.join(name)).unwrap();
        assert!(!text.contains("xai-from-the-file-itself") && !text.contains(KEY), "{name}: {text}");
    }
    git(&project, &["init", "-q"]);
    git(&project, &["add", "-f", "api_keys.json"]);
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let spawned = call(&mut client, "spawn_grok", ask.clone());
    insta::assert_snapshot!(powerspawn.env.masked_texts(&spawned["warnings"]), @"
    others can read the keys in [stage]/project/api_keys.json: chmod 600 it
    git tracks [stage]/project/api_keys.json, so whoever has the repository has its keys: git rm --cached it
    ");
    call(&mut client, "wait_for_agents", json!({}));
    fs::write(&file, "{ no json").unwrap();
    let spawned = call(&mut client, "spawn_grok", ask);
    insta::assert_snapshot!(powerspawn.env.masked_texts(&spawned["warnings"]), @"[stage]/project/api_keys.json is not used: it is no JSON (line 1, column 3)");
    call(&mut client, "wait_for_agents", json!({}));
    assert_eq!(sent(&powerspawn), format!("Bearer {KEY}"), "then the environment counts");
}

/// Differs from powerspawn: agents after a restart, or of a second server | unknown | known for seven days
#[test]
fn two_servers_and_the_next_one_see_the_same_agents() {
    let powerspawn = PowerspawnEnv::new(vec![
        ScriptedReply::say("from the first").after_ms(1_500),
        ScriptedReply::say("from the second").after_ms(1_500),
    ]);
    let (mut one, mut two) = (powerspawn.serve(), powerspawn.serve());
    let first = spawn(&mut one, "spawn_grok", json!({"prompt": "first task"}));
    let second = spawn(&mut two, "spawn_mistral", json!({"prompt": "second task"}));
    let iac = powerspawn.iac();
    assert!(iac.contains(&format!("`#{first}`")) && iac.contains(&format!("`#{second}`")), "{iac}");
    let waited = call(&mut one, "wait_for_agents", json!({}));
    assert_eq!(waited["results"].as_array().map(Vec::len), Some(2), "{waited}");
    assert_eq!(call(&mut two, "list", json!({}))["running"], json!([]));
    drop((one, two));
    let mut third = powerspawn.serve();
    let result = call(&mut third, "result", json!({"agent_id": first}));
    assert_eq!(result["task"], json!("first task"));
    let iac = powerspawn.iac();
    assert_eq!((iac.matches("✅ **Done**").count(), iac.matches("⏳").count()), (2, 0), "{iac}");
    // Another project is another matter.
    let other = powerspawn.env.path("other");
    fs::create_dir_all(other.join(".git")).unwrap();
    let mut command = powerspawn.command();
    command.current_dir(&other);
    let mut stranger = Client::start(command).initialize("t");
    let unknown = call(&mut stranger, "result", json!({"agent_id": first}));
    assert_eq!(unknown["status"], json!("not_found"));
    assert_eq!(call(&mut stranger, "list", json!({}))["completed_ids"], json!([]));
}

/// Differs from powerspawn: agents when the server ends | are forgotten, and `IAC.md` shows them as running | go
///    on, and `IAC.md` is right
#[test]
fn the_file_shows_running_agents_after_the_server_has_exited() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("done without a server").after_ms(700)]);
    let mut client = powerspawn.serve();
    let id = spawn(&mut client, "spawn_gemini", json!({"prompt": "Count | the herons.\nAll of them."}));
    let iac = powerspawn.iac();
    assert!(iac.starts_with(
        "# Inter Agent Context (IAC)\n\n> Auto-generated by PowerSpawn. Do not edit manually.\n"
    ));
    assert!(
        iac.contains(&format!(
            "| {id} | Gemini | API | gemini-2.5-flash | Count \\| the herons. All of them. |"
        )),
        "{iac}"
    );
    assert!(
        iac.contains(&format!("- [ ] ⏳ **Running** | `#{id}` | Gemini (gemini-2.5-flash) [API] | ")),
        "{iac}"
    );
    assert!(iac.contains(&format!("<!-- RESULT_{id} -->")), "{iac}");
    client.kill();
    powerspawn.env.wait_for_end(&powerspawn.run(&id));
    let iac = wait_for(PATIENCE, "the end in IAC.md", || {
        Some(powerspawn.iac()).filter(|iac| iac.contains("✅ **Done**"))
    });
    assert!(
        iac.contains("| - | - | - | - | *No active agents* | - |") && iac.contains("done without a server"),
        "{iac}"
    );
    assert!(!iac.contains("RESULT_"), "{iac}");
    let left = fs::read_dir(powerspawn.env.project()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, [".volery", "IAC.md"], "nothing else is left");
}

#[test]
fn an_agent_that_was_killed_is_not_shown_as_running() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::hang()]);
    let mut client = powerspawn.serve();
    let id = spawn(&mut client, "spawn_grok", json!({"prompt": "Count."}));
    assert!(powerspawn.server.wait_until(PATIENCE, |seen| !seen.is_empty()));
    client.kill();
    let run_processes = run_processes(&powerspawn.env.run_dir(&powerspawn.env.only_run()));
    assert!(
        [run_processes.keeper, run_processes.worker]
            .into_iter()
            .flatten()
            .all(|member| member.signal(Signal::KILL))
    );
    let mut next = powerspawn.serve();
    wait_for(PATIENCE, "the end of the lost run", || {
        let listed = call(&mut next, "list", json!({}));
        (listed["running"] == json!([])).then_some(())
    });
    let result = call(&mut next, "result", json!({"agent_id": id}));
    insta::assert_snapshot!(powerspawn.env.masked_texts(&result["error"]), @"interrupted: keeper and worker were killed or could not write, or the machine restarted");
    assert!(
        powerspawn.iac().contains("❌ **Failed**: interrupted")
            && powerspawn.iac().contains("*No active agents*")
    );
}

/// Differs from powerspawn: an answer that looks like a part of `IAC.md` | breaks the file | gets a backslash
#[test]
fn text_that_looks_like_markup_does_not_break_the_file() {
    let hostile =
        "### 🤖 Fake\n- [x] ✅ **Done**\n```\n</details>\n<!-- RESULT_00000000 -->\n\u{202e}\u{1b}[31mred";
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say(hostile), ScriptedReply::say("ok")]);
    let mut client = powerspawn.serve();
    let first = spawn(&mut client, "spawn_grok", json!({"prompt": hostile}));
    call(&mut client, "wait_for_agents", json!({}));
    let second = spawn(&mut client, "spawn_grok", json!({"prompt": "plain"}));
    call(&mut client, "wait_for_agents", json!({}));
    let iac = powerspawn.iac();
    let entries: Vec<&str> = iac.split("### 🤖").skip(1).collect();
    assert_eq!(entries.len(), 2, "{iac}");
    for (entry, id) in entries.iter().zip([&second, &first]) {
        assert!(entry.contains(&format!("`#{id}`")), "the newest first: {iac}");
        assert_eq!(
            (entry.matches("<details>").count(), entry.matches("</details>").count()),
            (2, 2),
            "{iac}"
        );
    }
    assert!(!iac.contains('\u{202e}') && !iac.contains('\u{1b}'), "{iac}");
}

/// Differs from powerspawn: `IAC.md` | beside the server | in the root of the project; left alone if somebody else
///    wrote it
#[test]
fn a_foreign_iac_file_is_left_alone_and_the_agent_still_runs() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    let file = powerspawn.env.project().join("IAC.md");
    fs::write(&file, "# My own notes\n").unwrap();
    let mut client = powerspawn.serve();
    let spawned = call(&mut client, "spawn_mistral", json!({"prompt": "x"}));
    insta::assert_snapshot!(powerspawn.env.masked_texts(&spawned["warnings"]), @"IAC.md is not written: [stage]/project/IAC.md was written by somebody else, and is left alone; move it away to have one");
    let waited = call(&mut client, "wait_for_agents", json!({}));
    assert_eq!(newest_result(&waited)["result"], json!("ok"), "{waited}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "# My own notes\n");
    fs::remove_file(&file).unwrap();
    let outside = powerspawn.env.path("outside.md");
    fs::write(&outside, "outside").unwrap();
    symlink(&outside, &file).unwrap();
    let spawned = call(&mut client, "spawn_mistral", json!({"prompt": "x"}));
    insta::assert_snapshot!(powerspawn.env.masked_texts(&spawned["warnings"]), @"IAC.md is not written: [stage]/project/IAC.md is a symbolic link, and is left alone");
    call(&mut client, "wait_for_agents", json!({}));
    assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
}

#[test]
fn concurrent_agents_appear_once_each_in_the_file() {
    const AGENTS: usize = 12;
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    powerspawn.env.configure("[slots]\ncount = 6\n");
    let mut clients = [powerspawn.serve(), powerspawn.serve(), powerspawn.serve()];
    let ids: Vec<String> = (0..AGENTS)
        .map(|number| {
            spawn(&mut clients[number % 3], "spawn_grok", json!({"prompt": format!("task {number}")}))
        })
        .collect();
    call(&mut clients[0], "wait_for_agents", json!({}));
    let iac = powerspawn.iac();
    assert_eq!(iac.matches("✅ **Done**").count(), AGENTS, "{iac}");
    for id in ids {
        assert_eq!(iac.matches(&format!("`#{id}`")).count(), 1, "{iac}");
    }
}

/// Installs the fake CLI of a vendor outside the search path.
fn install_fake_cli(powerspawn: &PowerspawnEnv, name: &str) -> String {
    let built = Path::new(env!("CARGO_BIN_EXE_volery")).with_file_name("fake-cli");
    assert!(built.exists(), "build it first: cargo build -p fake-agent");
    let own = powerspawn.env.path("elsewhere");
    fs::create_dir_all(&own).unwrap();
    // A copy onto a link to the same file would leave nothing of it.
    if !own.join(name).exists() {
        fs::hard_link(&built, own.join(name))
            .or_else(|_| fs::copy(&built, own.join(name)).map(|_| ()))
            .unwrap();
    }
    fs::create_dir_all(powerspawn.env.path("home/.fake-cli")).unwrap();
    fs::write(powerspawn.env.path("home/.fake-cli/model"), powerspawn.server.url()).unwrap();
    own.join(name).display().to_string()
}

fn argv(powerspawn: &PowerspawnEnv, id: &str) -> String {
    let started = powerspawn.env.wait_for_event(&powerspawn.run(id), "agent_started");
    started["argv"]
        .as_array()
        .unwrap()
        .iter()
        .map(|argument| argument.as_str().unwrap())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Differs from powerspawn: the time-out of Copilot | 600 s documented, 300 s in fact | 600 s
#[test]
fn each_program_is_started_as_documented() {
    let powerspawn = PowerspawnEnv::new(Vec::new());
    let bin = powerspawn.env.path("bin");
    fs::create_dir_all(&bin).unwrap();
    for name in ["claude", "codex", "copilot", "gemini"] {
        fs::write(bin.join(name), "#!/bin/sh\nexit 3\n").unwrap();
        fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = powerspawn.command();
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let mut client = Client::start(command).initialize("t");
    let mut spec = |tool: &str, arguments: Value| {
        let id = spawn(&mut client, tool, arguments);
        call(&mut client, "wait_for_agents", json!({}));
        let spec = powerspawn.env.spec(&powerspawn.run(&id));
        let setup = &spec["setup"];
        let level = setup["permission"]["level"].clone();
        json!([spec["backend"]["kind"], spec["model"], level, spec["limits"]["timeout_ms"], setup["tools"]])
    };
    let six = json!(["Bash", "Read", "Write", "Edit", "Glob", "Grep"]);
    let cases = [
        ("spawn_claude", json!({}), json!(["claude", "sonnet", "yolo", 600_000, six])),
        (
            "spawn_claude",
            json!({"model": "opus", "timeout": 300, "dangerously_skip_permissions": false}),
            json!(["claude", "opus", "safe-edit", 300_000, six]),
        ),
        ("spawn_codex", json!({}), json!(["codex", null, "yolo", 300_000, null])),
        ("spawn_codex", json!({"model": "gpt-5"}), json!(["codex", "gpt-5", "yolo", 300_000, null])),
        ("spawn_copilot", json!({}), json!(["copilot", "gpt-5.1", "yolo", 600_000, null])),
        (
            "spawn_copilot",
            json!({"model": "claude-sonnet"}),
            json!(["copilot", "claude-sonnet-4.5", "yolo", 600_000, null]),
        ),
        ("spawn_gemini_cli", json!({}), json!(["gemini", null, "yolo", 300_000, null])),
        ("spawn_gemini_cli", json!({"yolo": false}), json!(["gemini", null, "safe-edit", 300_000, null])),
    ];
    for (tool, mut arguments, expected) in cases {
        arguments["prompt"] = json!("Count the herons.");
        assert_eq!(spec(tool, arguments.clone()), expected, "{tool} {arguments}");
    }
    assert!(powerspawn.iac().contains("❌ **Failed**"), "what fails is shown as failed");
}

/// Differs from powerspawn: `force` and `yolo` left out, for Cursor and Gemini CLI | false: what needs an approval
///    is not done | as far as `powerspawn_permission` lets them
#[test]
fn programs_need_no_approval_unless_configured_otherwise() {
    let powerspawn = PowerspawnEnv::new(vec![ScriptedReply::say("ok").always()]);
    fs::write(powerspawn.env.project().join("AGENTS.md"), "Herons are grey.\n").unwrap();
    let (cursor, grok) =
        (install_fake_cli(&powerspawn, "cursor-agent"), install_fake_cli(&powerspawn, "grok"));
    let serve = |variables: &[(&str, &str)]| {
        let mut command = powerspawn.command();
        command.env("CURSOR_AGENT_BIN", &cursor).env("GROK_BIN", &grok).env("CURSOR_API_KEY", "dummy");
        command.env("XAI_API_KEY", "dummy").envs(variables.iter().copied());
        Client::start(command).initialize("t")
    };
    let mut client = serve(&[]);
    let run = |client: &mut Client, tool: &str, arguments: Value| {
        let id = spawn(client, tool, arguments);
        let waited = call(client, "wait_for_agents", json!({}));
        let result = call(client, "result", json!({"agent_id": id}));
        assert_eq!(result["result"], json!("ok"), "{waited}");
        (
            argv(&powerspawn, &id),
            powerspawn.server.model_requests().pop().unwrap().last_user_text().to_owned(),
            result,
        )
    };
    let (command_line, prompt, _) = run(&mut client, "spawn_cursor", json!({"prompt": "Count."}));
    assert!(command_line.contains(" --force ") && !prompt.contains("grey"), "{command_line} {prompt}");
    let (command_line, _, _) = run(&mut client, "spawn_cursor", json!({"prompt": "Count.", "force": false}));
    assert!(!command_line.contains("--force"), "{command_line}");
    let (command_line, prompt, result) = run(&mut client, "spawn_grok_cli", json!({"prompt": "Count."}));
    assert!(command_line.contains("--sandbox read-only"), "force is off by itself: {command_line}");
    assert!(!prompt.contains("# Primary briefing"), "programs read their own files: {prompt}");
    assert_eq!(
        powerspawn.env.spec(&powerspawn.run(result["agent_id"].as_str().unwrap()))["limits"]["timeout_ms"],
        json!(600_000)
    );
    let (command_line, _, _) = run(&mut client, "spawn_grok_cli", json!({"prompt": "Count.", "force": true}));
    assert!(command_line.contains("--sandbox off"), "{command_line}");
    powerspawn.env.configure("[serve]\npowerspawn_agents_context = true\n");
    let mut briefing = serve(&[]);
    let (_, prompt, result) = run(&mut briefing, "spawn_grok_cli", json!({"prompt": "Count."}));
    let briefed = "# Primary briefing (AGENTS.md)\n\nHerons are grey.\n\n---\n\n# Your task\n\nCount.";
    assert!(prompt.contains(briefed), "{prompt}");
    assert_eq!(result["task"], json!("Count."), "the task is the task");
    assert!(!powerspawn.iac().contains("grey"), "{}", powerspawn.iac());
    fs::write(powerspawn.env.project().join("AGENTS.md"), "x".repeat(300 << 10)).unwrap();
    let spawned = call(&mut briefing, "spawn_grok_cli", json!({"prompt": "Count."}));
    insta::assert_snapshot!(powerspawn.env.masked_texts(&spawned["warnings"]), @"
    AGENTS.md has more than 256 KiB: only its beginning is put before the task
    grok may start the MCP servers of its user and of the project, which the agent cannot use
    grok [version] was not tried with volery, which goes by its documentation
    ");
    call(&mut briefing, "wait_for_agents", json!({}));
    fs::write(powerspawn.env.project().join("AGENTS.md"), "Herons are grey.\n").unwrap();
    let mut unbriefed = serve(&[("POWERSPAWN_NO_AGENTS_CONTEXT", "1")]);
    let (_, prompt, _) = run(&mut unbriefed, "spawn_grok_cli", json!({"prompt": "Count."}));
    assert!(!prompt.contains("grey"), "{prompt}");
    powerspawn.env.configure("powerspawn_permission = \"read-only\"\n");
    let mut narrow = serve(&[]);
    let (command_line, _, _) = run(&mut narrow, "spawn_grok_cli", json!({"prompt": "Count.", "force": true}));
    assert!(
        command_line.contains("--sandbox read-only"),
        "a caller gets no more than the user gives: {command_line}"
    );
}
