//! `agents show` prints what would be started without starting it; `agents new` writes a file that works at once.

use serde_json::json;

use crate::test_env::{TestEnv, command_output};

#[test]
fn the_exact_arguments_are_shown_and_nothing_is_started() {
    let env = TestEnv::new();
    env.backend("asker", &["ask-model", "--model", "{model}", "--system", "{system_file}", "{prompt}"]);
    env.agent(
        "reviewer",
        "backend: asker\nmodel: big-1\nenv: [REVIEW_MODE]\neffort: high\ncallers: [planner]",
    );
    let _trusted = env.volery(["trust", "--yes"]).ok();
    let shown = env.json(["agents", "show", "reviewer"]);
    let argv = json!(["ask-model", "--model", "big-1", "--system", "WORK/system.md", "PROMPT"]);
    let process = &shown["invocation"]["process"];
    assert_eq!((&process["argv"], &process["env"]), (&argv, &json!(["REVIEW_MODE"])), "{shown}");
    assert_eq!((&process["files"], &process["prompt_on_stdin"]), (&json!(["WORK/system.md"]), &json!(false)));
    assert_eq!(shown["settings"]["effort"], "high", "{shown}");
    insta::assert_snapshot!(env.masked_texts(&shown["warnings"]), @"effort is not honoured by asker");
    let page = env.volery(["agents", "show", "reviewer"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&page), @r#"
    agent       reviewer
    description for a test
    file        .volery/agents/reviewer.md (volery format, project layer)
    backend     asker
    model       big-1
    settings    callers: {"only":["planner"]}
                containment: "auto"
                delegates: "nobody"
                effort: "high"
                env: ["REVIEW_MODE"]
                on_interrupt: "end"
    warning     effort is not honoured by asker

    started as
      "ask-model"
      "--model"
      "big-1"
      "--system"
      "WORK/system.md"
      "PROMPT"

    variables beside the base list
      REVIEW_MODE

    files written for it
      WORK/system.md
    "#);
    assert_eq!(env.runs(), Vec::<String>::new());
    let missing = env.volery(["agents", "show", "reviewr"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&missing), @"
    error: there is no agent reviewr in [stage]/project
    hint: did you mean reviewer? Available: reviewer, asker
    ");
}

#[test]
fn the_arguments_of_a_program_that_is_not_installed_are_shown_by_its_name() {
    let env = TestEnv::new();
    let folder = env.project().join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: hunter\ndescription: Hunts\nmodel: opus\npermissionMode: plan\n---\nHunt.\n";
    std::fs::write(folder.join("hunter.md"), text).unwrap();
    let mut command = env.command(["agents", "show", "hunter", "--json"]);
    let shown = command_output(command.env("PATH", env.path("home")).output().unwrap()).ok().json();
    let argv = shown["invocation"]["process"]["argv"].as_array().unwrap();
    assert_eq!(argv[0], "claude", "{shown}");
    assert!(argv.contains(&json!("--model=opus")), "{shown}");
    insta::assert_snapshot!(env.masked_texts(&shown["problem"]), @r"
    needs claude, which is not on the PATH
    hint: install it: npm install -g @anthropic-ai/claude-code; or give the agent another backend
    ");
}

#[test]
fn no_value_of_a_secret_is_shown() {
    let env = TestEnv::new();
    let servers = "mcp_servers: {a: {command: x, env: {API_KEY: s3cretvalue, B_TOKEN: '${B_TOKEN}'}}, \
                   b: {url: 'http://127.0.0.1:1', headers: {Authorization: 'Bearer s3cretvalue'}}}";
    env.agent("armed", &format!("backend: rehearsal\nsteps: [{{say: hi}}]\n{servers}"));
    let shown = env.volery(["agents", "show", "armed", "--json"]).ok().stdout;
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("${B_TOKEN}") && shown.contains("[redacted]"), "{shown}");
    let page = env.volery(["agents", "show", "armed"]).ok().stdout;
    assert!(!page.contains("s3cret"), "{page}");
    let refused = env.volery(["run", "armed", "go"]).exits(3).stderr;
    assert!(!refused.contains("s3cret"), "{refused}");
    // Who gives trust sees what decides, which is in the repository anyway. The record has only its digest.
    let trust = env.volery(["trust", "--yes", "--json"]).ok().stdout;
    assert!(trust.contains("API_KEY=s3cretvalue"), "{trust}");
    for record in std::fs::read_dir(env.path("state/trust")).unwrap() {
        let record = std::fs::read_to_string(record.unwrap().path()).unwrap();
        assert!(!record.contains("s3cret"), "{record}");
    }
}

#[test]
fn secrets_are_hidden_wherever_a_file_has_them() {
    let env = TestEnv::new();
    let accept = "accept: [[curl, -H, 'Authorization: Bearer s3cretvalue'], [x, --api-key, s3cretvalue]]";
    env.agent("armed", &format!("backend: rehearsal\nsteps: [{{say: hi}}]\n{accept}"));
    let kiro = json!({"name": "kiro-armed", "description": "sub-agent: d", "prompt": "Look for the token: is it safe?",
                      "includeMcpJson": true, "toolsSettings": {"x": {"token": "s3cretvalue"}},
                      "hooks": {"agentSpawn": [{"command": "curl -H 'Authorization: Bearer s3cretvalue'"}]}});
    let folder = env.project().join(".kiro/agents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("kiro-armed.json"), kiro.to_string()).unwrap();
    for agent in ["armed", "kiro-armed"] {
        let shown = env.volery(["agents", "show", agent, "--json"]).ok().stdout;
        assert!(!shown.contains("s3cret") && shown.contains("[redacted]"), "{shown}");
        assert!(agent == "armed" || shown.contains("Look for the token: is it safe?"), "{shown}");
        let page = env.volery(["agents", "show", agent]).ok().stdout;
        assert!(!page.contains("s3cret") && page.contains("[redacted]"), "{page}");
    }
    env.volery(["trust", "--yes"]).ok();
    let records = std::fs::read_dir(env.path("state/trust")).unwrap();
    let texts: Vec<String> =
        records.map(|record| std::fs::read_to_string(record.unwrap().path()).unwrap()).collect();
    assert!(!texts.is_empty() && !texts.concat().contains("s3cret"), "{texts:?}");
}

#[test]
fn a_new_agent_works_at_once() {
    let env = TestEnv::new();
    let file = env.project().join(".volery/agents/helper.md");
    let written = env.volery(["agents", "new", "helper"]).ok().stdout;
    assert_eq!(written, format!("{}\n", file.display()));
    let checked = env.json(["agents", "check"]);
    assert_eq!(checked["diagnostics"], json!(null), "{checked}");
    assert_eq!(env.volery(["run", "helper", "hello"]).ok().stdout, "You asked: hello\n");
    let again = env.volery(["agents", "new", "helper"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&again), @"
    error: [stage]/project/.volery/agents/helper.md exists already
    hint: choose another name, or edit the file
    ");
    let _refused = env.volery(["agents", "new", "../helper"]).exits(2);
    let unknown = env.volery(["agents", "new", "other", "--backend", "claud"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&unknown), @"
    error: agent other needs the backend claud, which is not configured
    hint: did you mean claude? [stage]/project/.volery/agents/other.md names it
    ");
}

#[test]
fn a_new_agent_can_be_the_users_and_have_another_backend() {
    let env = TestEnv::new();
    env.rehearsal("twin", "- say: of the project", "");
    let view = env.json(["agents", "new", "twin", "--user", "--backend", "codex"]);
    let file = env.path("config/agents/twin.md");
    assert_eq!(view["file"], json!(file), "{view}");
    assert_eq!(view["hides"], json!(env.project().join(".volery/agents/twin.md")));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("\nbackend: codex\n") && !text.contains("steps:"), "{text}");
}

#[test]
fn a_new_agent_whose_backend_needs_a_model_is_written_with_one() {
    let env = TestEnv::new();
    let refused = env.volery(["agents", "new", "asker", "--backend", "api-openai"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: the api-openai backend cannot carry out this run: it needs a model: name one in the agent's file or in the call
    hint: say which: --model NAME
    ");
    assert!(!env.project().join(".volery/agents/asker.md").exists());
    env.volery(["agents", "new", "asker", "--backend", "api-openai", "--model", "gpt: 5"]).ok();
    let checked = env.json(["agents", "check"]);
    assert_eq!((&checked["diagnostics"], &checked["agents"][0]["model"]), (&json!(null), &json!("gpt: 5")));
}

#[test]
fn every_commented_line_of_the_starter_is_a_key_that_exists() {
    let env = TestEnv::new();
    let _written = env.volery(["agents", "new", "all"]).ok();
    let file = env.project().join(".volery/agents/all.md");
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
    let checked = env.json(["agents", "check"]);
    let found = checked["diagnostics"].as_array().cloned().unwrap_or_default();
    let messages: Vec<&str> = found.iter().map(|found| found["message"].as_str().unwrap()).collect();
    insta::assert_snapshot!(env.masked(&messages.join("\n")), @r#"
    the project's file [stage]/project/.volery/agents/all.md grants more than the defaults; until you trust the project (volery trust [stage]/project), this does not count: permission read-only; allow "Bash(git log:*)"; deny "Bash(git push:*)"
    mcp_servers is not honoured by rehearsal
    "#);
    // A script that writes no file does nothing that a permission is about.
    assert_eq!(found.iter().filter(|found| found["severity"] == "error").count(), 0, "{checked}");
}

fn is_key(line: &str) -> bool {
    let key = line.split(':').next().unwrap_or_default();
    key.len() < line.len() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[test]
fn server_settings_that_the_backend_does_not_support_are_named() {
    let env = TestEnv::new();
    let server = "mcp_servers: {tracker: {command: tracker, tools: [find], timeout: 5000}}";
    env.agent("careful", &format!("backend: claude\n{server}"));
    env.agent("able", &format!("backend: codex\n{server}"));
    let warnings = |name: &str| env.json(["agents", "show", name])["warnings"].clone();
    insta::assert_snapshot!(env.masked_texts(&warnings("careful")), @"
    the list of tools of an MCP server is not honoured by claude
    the time-out of an MCP server is not honoured by claude
    ");
    assert_eq!(warnings("able"), json!(null));
}

#[test]
fn no_agent_is_written_where_none_is_read() {
    let env = TestEnv::new();
    let refused = ["README", "readme"].map(|name| env.volery(["agents", "new", name]).exits(2).stderr);
    insta::assert_snapshot!(env.masked(&refused.concat()), @"
    error: README.md is taken for what explains a folder, and never for an agent
    hint: choose another name
    error: readme.md is taken for what explains a folder, and never for an agent
    hint: choose another name
    ");
    let elsewhere = env.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let own = env.project().join(".volery");
    if own.is_dir() {
        std::fs::remove_dir_all(&own).unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, &own).unwrap();
    let refused = env.volery(["agents", "new", "lost"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: [stage]/project/.volery/agents leads out of the project by a symbolic link, so agents in it are not read
    hint: put a folder in the place of the link, or say --user for an agent of your own
    ");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn an_empty_list_of_tools_is_shown_and_a_long_description_is_cut() {
    let env = TestEnv::new();
    let long = "d".repeat(5_000);
    let folder = env.project().join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("---\nname: bare\ndescription: {long}\ntools: []\n---\nx\n");
    std::fs::write(folder.join("bare.md"), text).unwrap();
    let shown = env.volery(["agents", "show", "bare", "--json"]).ok().json();
    assert_eq!(shown["settings"]["tools"], json!([]), "{shown}");
    let page = env.volery(["agents", "show", "bare"]).ok().stdout;
    assert!(page.contains("tools: []"), "{page}");
    let listed = env.volery(["agents"]).ok().stdout;
    assert!(listed.contains(&"d".repeat(190)) && !listed.contains(&"d".repeat(201)), "{listed}");
    assert_eq!(env.json(["agents"])["agents"][0]["description"], json!(long));
}
