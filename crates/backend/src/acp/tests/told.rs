//! What an agent is told: with the protocol, and beside it.

use domain::run::{AgentEnd, Failure, RunSpec};
use domain::setup::{Context, PromptMode};
use serde_json::{Value, json};

use super::{Talk, adapted, drive, ends, hello, says, spec};
use crate::contract::{Answer, Feed, ProcessDrive, Report, Setting};

#[test]
fn a_turn_is_greeting_session_mode_model_and_prompt_in_this_order() {
    let mut spec = spec("acp-goose");
    spec.model = Some("large".to_owned());
    spec.setup.effort = Some("high".to_owned());
    let ProcessDrive { argv, feed, reader, .. } = drive(&spec);
    assert_eq!(argv, ["/bin/agent", "acp"]);
    let Feed::Open(greeting) = feed else { panic!("{feed:?}") };
    let greeting: Value = serde_json::from_slice(&greeting).unwrap();
    assert_eq!(
        (&greeting["method"], &greeting["params"]["protocolVersion"]),
        (&json!("initialize"), &json!(1))
    );
    let offered = &greeting["params"]["clientCapabilities"];
    assert!(offered["fs"]["readTextFile"] != true && offered["terminal"] != true, "{offered}");
    let mut talk = Talk { reader, written: Vec::new() };
    talk.hear(&hello(&json!({"loadSession": true})));
    let session = &talk.written[0];
    assert_eq!((&session["method"], &session["params"]["cwd"]), (&json!("session/new"), &json!("/p")));
    assert_eq!(session["params"]["mcpServers"], json!([]));
    let reports = talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1",
        "modes": {"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "approve"}]},
        "models": {"currentModelId": "small", "availableModels": []}}}));
    assert!(reports.contains(&Report::Session("s-1".to_owned())), "{reports:?}");
    assert!(reports.contains(&Report::Model("large".to_owned())), "{reports:?}");
    let told = "effort high is not honoured by acp-goose".to_owned();
    assert!(reports.contains(&Report::Warned(told)), "{reports:?}");
    assert_eq!(talk.written[1]["params"], json!({"sessionId": "s-1", "modeId": "approve"}));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    assert_eq!(talk.written[2]["method"], "session/set_model");
    talk.hear(&json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    let prompt = &talk.written[3]["params"]["prompt"][0]["text"];
    assert_eq!(prompt, "[System Context]\nYou are careful.\n\n[User Prompt]\ndo it");
    talk.hear(&says("Hel"));
    talk.hear(&says("lo."));
    let reports = talk.hear(&ends("end_turn"));
    let expected = [Report::Said("Hello.\n".to_owned()), Report::CloseInput, Report::Finished];
    assert_eq!(reports, expected);
    let conclusion = talk.end();
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, Answer::Text("Hello.".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("s-1"));
}

#[test]
fn an_agent_that_cannot_be_made_to_ask_is_not_started_on_its_turn() {
    let mut talk = Talk::of(&spec("acp-goose"));
    talk.hear(&hello(&json!({})));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1"}}));
    assert_eq!(talk.written.len(), 1, "no prompt: {:?}", talk.written);
    assert!(matches!(talk.end().end, AgentEnd::Failed(Failure::Agent { .. })));
}

#[test]
fn a_system_prompt_goes_with_the_session_where_that_takes_one() {
    let mut spec = spec("acp-claude");
    spec.system_prompt = "Be ${HOME}.".to_owned();
    spec.setup.prompt_mode = PromptMode::Replace;
    spec.setup.extra_directories = vec!["/q".to_owned()];
    let mut talk = Talk::of(&spec);
    let can = json!({"sessionCapabilities": {"additionalDirectories": {}, "systemPrompt": {"mode": {"override": {}}}}});
    let reports = talk.hear(&hello(&can));
    let Some(Report::WriteFilled { content, variables }) = reports.last() else { panic!("{reports:?}") };
    assert!(variables.is_empty() && !String::from_utf8_lossy(content).contains("${"), "{reports:?}");
    let params = &talk.written[0]["params"];
    let system = json!({"mode": "override", "content": [{"type": "text", "text": "Be ${HOME}."}]});
    assert_eq!((&params["systemPrompt"], &params["additionalDirectories"]), (&system, &json!(["/q"])));
    assert_eq!(params["_meta"]["claudeCode"]["options"]["strictMcpConfig"], true);
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": "default"}}}));
    assert_eq!(talk.written[1]["params"]["prompt"][0]["text"], "do it");
}

/// Returns what an agent is told beside the protocol: arguments, variables, files, and what its session carries.
fn told_beside(kind: &str) -> Value {
    let home = tempfile::tempdir().unwrap();
    let told = |spec: &RunSpec| {
        let drive = adapted(spec, home.path()).unwrap();
        let mut talk = Talk { reader: drive.reader, written: Vec::new() };
        talk.hear(&hello(&json!({})));
        let set = drive.set.iter().map(|(name, value)| format!("{name}={value:?}"));
        let files = drive.files.iter().map(|file| String::from_utf8_lossy(&file.content).into_owned());
        let words: Vec<String> = drive.argv.into_iter().chain(set).chain(files).collect();
        (words, talk.written[0]["params"]["_meta"].clone())
    };
    let (usual, always) = told(&spec(kind));
    let mut wishing = spec(kind);
    wishing.setup.context = Context::None;
    wishing.setup.tools = Some(vec!["read".to_owned()]);
    wishing.setup.max_turns = Some(3);
    wishing.setup.effort = Some("low".to_owned());
    let (words, meta) = told(&wishing);
    let words: Vec<String> = words.into_iter().filter(|word| !usual.contains(word)).collect();
    let meta = if meta == always { Value::Null } else { meta };
    json!({"words": words, "meta": meta})
}

#[test]
fn what_the_protocol_has_no_words_for_is_told_as_the_vendor_can() {
    let options = json!({"strictMcpConfig": true, "promptSuggestions": false, "settingSources": [],
        "tools": ["read"], "maxTurns": 3});
    let claude = json!({"words": [], "meta": {"claudeCode": {"options": options}}});
    assert_eq!(told_beside("acp-claude"), claude);
    let copilot = json!({"words": ["--reasoning-effort=low"], "meta": null});
    assert_eq!(told_beside("acp-copilot"), copilot);
    for (kind, parts) in [
        ("acp-codex", &["project_doc_max_bytes"][..]),
        ("acp-gemini", &["--policy=/w/policy.toml", "run_shell_command", "maxSessionTurns"]),
        ("acp-goose", &["CONTEXT_FILE_NAMES", "available_tools", "GOOSE_MAX_TURNS"]),
        ("acp-opencode", &["OPENCODE_DISABLE_PROJECT_CONFIG", r#"\"bash\":\"deny\""#]),
        ("acp-qwen", &["--bare", "--exclude-tools=run_shell_command"]),
    ] {
        let told = told_beside(kind)["words"].as_array().unwrap().clone();
        let missing = parts.iter().find(|part| {
            !told.iter().any(|word| word.as_str().unwrap().replace("\\\\", "\\").contains(**part))
        });
        assert_eq!(missing, None, "{kind}: {told:?}");
    }
    for kind in ["acp-kimi", "acp-kiro", "acp"] {
        assert_eq!(told_beside(kind), json!({"words": [], "meta": null}), "{kind}");
    }
}

#[test]
fn a_session_without_wishes_has_all_that_is_its_own() {
    for kind in ["acp-gemini", "acp-goose", "acp-opencode", "acp-qwen"] {
        let home = tempfile::tempdir().unwrap();
        let drive = adapted(&spec(kind), home.path()).unwrap();
        let words = format!("{:?} {:?} {:?}", drive.argv, drive.set, drive.files);
        for wish in ["--policy", "available_tools", "deny", "--exclude-tools", "--bare", "MAX_TURNS"] {
            assert!(!words.contains(wish), "{kind}: {words}");
        }
    }
}

#[test]
fn a_configured_command_is_started_as_it_is() {
    let ProcessDrive { argv, env, set, .. } = drive(&spec("acp"));
    assert_eq!(
        (argv, env, set),
        (vec!["mine".to_owned(), "--acp".to_owned()], vec!["MINE_KEY".to_owned()], Vec::new())
    );
    let ProcessDrive { argv, set, files, .. } = drive(&spec("acp-copilot"));
    assert_eq!(argv[1..], ["--acp", "--disable-builtin-mcps", "--additional-mcp-config=@/w/mcp.json"]);
    assert_eq!((set.len(), files.len()), (0, 1));
    let ProcessDrive { set, .. } = drive(&spec("acp-gemini"));
    assert!(set.contains(&("GEMINI_CLI_NO_RELAUNCH".to_owned(), Setting::Plain("true".to_owned()))));
}
