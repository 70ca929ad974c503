//! `agents show` tells what would be started without starting it; `agents new` writes a file that works at once.

use serde_json::json;

use crate::stage::{Stage, said};

#[test]
fn the_exact_arguments_are_shown_and_nothing_is_started() {
    let stage = Stage::new();
    stage.backend("asker", &["ask-model", "--model", "{model}", "--system", "{system_file}", "{prompt}"]);
    stage.agent(
        "reviewer",
        "backend: asker\nmodel: big-1\nenv: [REVIEW_MODE]\neffort: high\ncallers: [planner]",
    );
    let shown = stage.json(["agents", "show", "reviewer"]);
    let argv = json!(["ask-model", "--model", "big-1", "--system", "WORK/system.md", "PROMPT"]);
    let process = &shown["invocation"]["process"];
    assert_eq!((&process["argv"], &process["env"]), (&argv, &json!(["REVIEW_MODE"])), "{shown}");
    assert_eq!((&process["files"], &process["prompt_on_stdin"]), (&json!(["WORK/system.md"]), &json!(false)));
    assert_eq!(shown["settings"]["effort"], "high", "{shown}");
    assert_eq!(shown["warnings"], json!(["effort is not honoured by asker"]));
    let page = stage.volery(["agents", "show", "reviewer"]).ok().stdout;
    assert!(page.contains("\"--system\"\n  \"WORK/system.md\"\n  \"PROMPT\"\n"), "{page}");
    assert!(page.contains("REVIEW_MODE"), "{page}");
    assert_eq!(stage.runs(), Vec::<String>::new());
    let missing = stage.volery(["agents", "show", "reviewr"]).exits(5).stderr;
    assert!(missing.contains("did you mean reviewer?"), "{missing}");
}

#[test]
fn the_arguments_of_a_program_that_is_not_installed_are_shown_by_its_name() {
    let stage = Stage::new();
    let folder = stage.project().join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: hunter\ndescription: Hunts\nmodel: opus\npermissionMode: plan\n---\nHunt.\n";
    std::fs::write(folder.join("hunter.md"), text).unwrap();
    let mut command = stage.command(["agents", "show", "hunter", "--json"]);
    let shown = said(command.env("PATH", stage.path("home")).output().unwrap()).ok().json();
    let argv = shown["invocation"]["process"]["argv"].as_array().unwrap();
    assert_eq!(argv[0], "claude", "{shown}");
    assert!(argv.contains(&json!("--model=opus")), "{shown}");
    assert!(shown["problem"].as_str().unwrap().contains("which is not on the PATH"), "{shown}");
}

#[test]
fn no_value_of_a_secret_is_shown() {
    let stage = Stage::new();
    let servers = "mcp_servers: {a: {command: x, env: {API_KEY: s3cretvalue, B_TOKEN: '${B_TOKEN}'}}, \
                   b: {url: 'http://127.0.0.1:1', headers: {Authorization: 'Bearer s3cretvalue'}}}";
    stage.agent("armed", &format!("backend: rehearsal\nsteps: [{{say: hi}}]\n{servers}"));
    let shown = stage.volery(["agents", "show", "armed", "--json"]).ok().stdout;
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("${B_TOKEN}") && shown.contains("[redacted]"), "{shown}");
    let page = stage.volery(["agents", "show", "armed"]).ok().stdout;
    assert!(!page.contains("s3cret"), "{page}");
    let refused = stage.volery(["run", "armed", "go"]).exits(3).stderr;
    assert!(!refused.contains("s3cret"), "{refused}");
    // Who gives trust sees what decides, which is in the repository anyway. The record has only its digest.
    let trust = stage.volery(["trust", "--yes", "--json"]).ok().stdout;
    assert!(trust.contains("API_KEY=s3cretvalue"), "{trust}");
    for record in std::fs::read_dir(stage.path("state/trust")).unwrap() {
        let record = std::fs::read_to_string(record.unwrap().path()).unwrap();
        assert!(!record.contains("s3cret"), "{record}");
    }
}

#[test]
fn secrets_are_hidden_wherever_a_file_has_them() {
    let stage = Stage::new();
    let accept = "accept: [[curl, -H, 'Authorization: Bearer s3cretvalue'], [x, --api-key, s3cretvalue]]";
    stage.agent("armed", &format!("backend: rehearsal\nsteps: [{{say: hi}}]\n{accept}"));
    let kiro = json!({"name": "kiro-armed", "description": "sub-agent: d", "prompt": "Look for the token: is it safe?",
                      "includeMcpJson": true, "toolsSettings": {"x": {"token": "s3cretvalue"}},
                      "hooks": {"agentSpawn": [{"command": "curl -H 'Authorization: Bearer s3cretvalue'"}]}});
    let folder = stage.project().join(".kiro/agents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("kiro-armed.json"), kiro.to_string()).unwrap();
    for agent in ["armed", "kiro-armed"] {
        let shown = stage.volery(["agents", "show", agent, "--json"]).ok().stdout;
        assert!(!shown.contains("s3cret") && shown.contains("[redacted]"), "{shown}");
        assert!(agent == "armed" || shown.contains("Look for the token: is it safe?"), "{shown}");
        let page = stage.volery(["agents", "show", agent]).ok().stdout;
        assert!(!page.contains("s3cret") && page.contains("[redacted]"), "{page}");
    }
    stage.volery(["trust", "--yes"]).ok();
    let records = std::fs::read_dir(stage.path("state/trust")).unwrap();
    let texts: Vec<String> =
        records.map(|record| std::fs::read_to_string(record.unwrap().path()).unwrap()).collect();
    assert!(!texts.is_empty() && !texts.concat().contains("s3cret"), "{texts:?}");
}

#[test]
fn a_new_agent_works_at_once() {
    let stage = Stage::new();
    let file = stage.project().join(".volery/agents/helper.md");
    let written = stage.volery(["agents", "new", "helper"]).ok().stdout;
    assert_eq!(written, format!("{}\n", file.display()));
    let checked = stage.json(["agents", "check"]);
    assert_eq!(checked["diagnostics"], json!(null), "{checked}");
    assert_eq!(stage.volery(["run", "helper", "hello"]).ok().stdout, "You asked: hello\n");
    let again = stage.volery(["agents", "new", "helper"]).exits(2).stderr;
    assert!(again.contains("helper.md exists already"), "{again}");
    let _refused = stage.volery(["agents", "new", "../helper"]).exits(2);
    let unknown = stage.volery(["agents", "new", "other", "--backend", "claud"]).exits(2).stderr;
    assert!(unknown.contains("did you mean claude?"), "{unknown}");
}

#[test]
fn a_new_agent_can_be_the_users_and_have_another_backend() {
    let stage = Stage::new();
    stage.rehearsal("twin", "- say: of the project", "");
    let view = stage.json(["agents", "new", "twin", "--user", "--backend", "codex"]);
    let file = stage.path("config/agents/twin.md");
    assert_eq!(view["file"], json!(file), "{view}");
    assert_eq!(view["hides"], json!(stage.project().join(".volery/agents/twin.md")));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("\nbackend: codex\n") && !text.contains("steps:"), "{text}");
}

#[test]
fn a_new_agent_whose_backend_needs_a_model_is_written_with_one() {
    let stage = Stage::new();
    let refused = stage.volery(["agents", "new", "asker", "--backend", "api-openai"]).exits(2).stderr;
    assert!(
        refused.contains("it needs a model") && refused.contains("hint: say which: --model"),
        "{refused}"
    );
    assert!(!stage.project().join(".volery/agents/asker.md").exists());
    stage.volery(["agents", "new", "asker", "--backend", "api-openai", "--model", "gpt: 5"]).ok();
    let checked = stage.json(["agents", "check"]);
    assert_eq!((&checked["diagnostics"], &checked["agents"][0]["model"]), (&json!(null), &json!("gpt: 5")));
}

#[test]
fn every_commented_line_of_the_starter_is_a_key_that_exists() {
    let stage = Stage::new();
    let _written = stage.volery(["agents", "new", "all"]).ok();
    let file = stage.project().join(".volery/agents/all.md");
    let text = std::fs::read_to_string(&file).unwrap();
    // A commented key begins with a small letter and a colon follows; prose begins with a capital.
    let uncommented: Vec<String> = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with(' ') || is_key(rest) => rest.to_owned(),
            Some(_) | None => line.to_owned(),
        })
        .collect();
    std::fs::write(&file, uncommented.join("\n")).unwrap();
    let checked = stage.json(["agents", "check"]);
    let found = checked["diagnostics"].as_array().cloned().unwrap_or_default();
    let unknown = found.iter().filter(|found| found["message"].as_str().unwrap().contains("unknown key"));
    assert_eq!(unknown.count(), 0, "{checked}");
    // A script that writes no file does nothing that a permission is about.
    assert_eq!(found.iter().filter(|found| found["severity"] == "error").count(), 0, "{checked}");
}

fn is_key(line: &str) -> bool {
    let key = line.split(':').next().unwrap_or_default();
    key.len() < line.len() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[test]
fn what_a_server_is_asked_for_and_the_backend_cannot_do_is_named() {
    let stage = Stage::new();
    let server = "mcp_servers: {tracker: {command: tracker, tools: [find], timeout: 5000}}";
    stage.agent("careful", &format!("backend: claude\n{server}"));
    stage.agent("able", &format!("backend: codex\n{server}"));
    let warnings = |name: &str| stage.json(["agents", "show", name])["warnings"].clone();
    let named = json!([
        "the list of tools of an MCP server is not honoured by claude",
        "the time-out of an MCP server is not honoured by claude",
    ]);
    assert_eq!(warnings("careful"), named);
    assert_eq!(warnings("able"), json!(null));
}

#[test]
fn no_agent_is_written_where_none_is_read() {
    let stage = Stage::new();
    for name in ["README", "readme"] {
        let refused = stage.volery(["agents", "new", name]).exits(2).stderr;
        assert!(refused.contains("never for an agent") && refused.contains("hint: "), "{refused}");
    }
    let elsewhere = stage.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let own = stage.project().join(".volery");
    if own.is_dir() {
        std::fs::remove_dir_all(&own).unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, &own).unwrap();
    let refused = stage.volery(["agents", "new", "lost"]).exits(2).stderr;
    assert!(refused.contains("leads out of the project by a symbolic link"), "{refused}");
    assert!(refused.contains("--user"), "{refused}");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn an_empty_list_of_tools_is_shown_and_a_long_description_is_cut() {
    let stage = Stage::new();
    let long = "d".repeat(5_000);
    let folder = stage.project().join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: bare\ndescription: {long}\ntools: []\n---\nx\n");
    std::fs::write(folder.join("bare.md"), text).unwrap();
    let shown = stage.volery(["agents", "show", "bare", "--json"]).ok().json();
    assert_eq!(shown["settings"]["tools"], json!([]), "{shown}");
    let page = stage.volery(["agents", "show", "bare"]).ok().stdout;
    assert!(page.contains("tools: []"), "{page}");
    let listed = stage.volery(["agents"]).ok().stdout;
    assert!(listed.contains(&"d".repeat(190)) && !listed.contains(&"d".repeat(201)), "{listed}");
    assert_eq!(stage.json(["agents"])["agents"][0]["description"], json!(long));
}
