//! What an agent is started with: in the protocol, and outside it.

use domain::run::{AgentEnd, Failure, RunSpec};
use domain::setup::{Context, PromptMode};
use serde_json::{Value, json};

use super::{TestConversation, hello, launch, launch_for_user, message_chunk, spec, turn_end};
use crate::contract::{AgentAnswer, AgentReport, EnvValue, ProcessLaunch, StdinFeed};

#[test]
fn a_turn_is_greeting_session_mode_model_and_prompt_in_this_order() {
    let mut spec = spec("acp-goose");
    spec.model = Some("large".to_owned());
    spec.setup.effort = Some("high".to_owned());
    let ProcessLaunch { argv, feed, reader, .. } = launch(&spec);
    assert_eq!(argv, ["/bin/agent", "acp"]);
    let StdinFeed::Open(greeting) = feed else { panic!("{feed:?}") };
    let greeting: Value = serde_json::from_slice(&greeting).unwrap();
    assert_eq!(
        (&greeting["method"], &greeting["params"]["protocolVersion"]),
        (&json!("initialize"), &json!(1))
    );
    let capabilities = &greeting["params"]["clientCapabilities"];
    assert!(capabilities["fs"]["readTextFile"] != true && capabilities["terminal"] != true, "{capabilities}");
    let mut conversation = TestConversation { reader, written: Vec::new() };
    conversation.receive(&hello(&json!({"loadSession": true})));
    let session = &conversation.written[0];
    assert_eq!((&session["method"], &session["params"]["cwd"]), (&json!("session/new"), &json!("/p")));
    assert_eq!(session["params"]["mcpServers"], json!([]));
    let reports = conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1",
        "modes": {"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "approve"}]},
        "models": {"currentModelId": "small", "availableModels": []}}}));
    assert!(reports.contains(&AgentReport::Session("s-1".to_owned())), "{reports:?}");
    assert!(reports.contains(&AgentReport::Model("large".to_owned())), "{reports:?}");
    let warning = "effort high is not honoured by acp-goose".to_owned();
    assert!(reports.contains(&AgentReport::Warned(warning)), "{reports:?}");
    assert_eq!(conversation.written[1]["params"], json!({"sessionId": "s-1", "modeId": "approve"}));
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    assert_eq!(conversation.written[2]["method"], "session/set_model");
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    let prompt = &conversation.written[3]["params"]["prompt"][0]["text"];
    assert_eq!(prompt, "[System Context]\nYou are careful.\n\n[User Prompt]\ndo it");
    conversation.receive(&message_chunk("Hel"));
    conversation.receive(&message_chunk("lo."));
    let reports = conversation.receive(&turn_end("end_turn"));
    let expected = [AgentReport::Text("Hello.\n".to_owned()), AgentReport::CloseInput, AgentReport::Finished];
    assert_eq!(reports, expected);
    let conclusion = conversation.end();
    assert_eq!((conclusion.end, conclusion.answer), (AgentEnd::Done, AgentAnswer::Text("Hello.".to_owned())));
    assert_eq!(conclusion.session.as_deref(), Some("s-1"));
}

#[test]
fn an_agent_that_cannot_be_made_to_ask_gets_no_prompt() {
    let mut conversation = TestConversation::new(&spec("acp-goose"));
    conversation.receive(&hello(&json!({})));
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1"}}));
    assert_eq!(conversation.written.len(), 1, "no prompt: {:?}", conversation.written);
    assert!(matches!(conversation.end().end, AgentEnd::Failed(Failure::Agent { .. })));
}

#[test]
fn a_system_prompt_is_sent_with_a_session_that_accepts_one() {
    let mut spec = spec("acp-claude");
    spec.system_prompt = "Be ${HOME}.".to_owned();
    spec.setup.prompt_mode = PromptMode::Replace;
    spec.setup.extra_directories = vec!["/q".to_owned()];
    let mut conversation = TestConversation::new(&spec);
    let can = json!({"sessionCapabilities": {"additionalDirectories": {}, "systemPrompt": {"mode": {"override": {}}}}});
    let reports = conversation.receive(&hello(&can));
    let Some(AgentReport::WriteWithVariables { content, variables }) = reports.last() else {
        panic!("{reports:?}")
    };
    assert!(variables.is_empty() && !String::from_utf8_lossy(content).contains("${"), "{reports:?}");
    let params = &conversation.written[0]["params"];
    let system = json!({"mode": "override", "content": [{"type": "text", "text": "Be ${HOME}."}]});
    assert_eq!((&params["systemPrompt"], &params["additionalDirectories"]), (&system, &json!(["/q"])));
    assert_eq!(params["_meta"]["claudeCode"]["options"]["strictMcpConfig"], true);
    conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": "default"}}}));
    assert_eq!(conversation.written[1]["params"]["prompt"][0]["text"], "do it");
}

/// Returns what an agent gets outside the protocol: arguments, variables, files, and the metadata of its session.
fn outside_protocol(kind: &str) -> Value {
    let home = tempfile::tempdir().unwrap();
    let encode = |spec: &RunSpec| {
        let launch = launch_for_user(spec, home.path()).unwrap();
        let mut conversation = TestConversation { reader: launch.reader, written: Vec::new() };
        conversation.receive(&hello(&json!({})));
        let set = launch.env_overrides.iter().map(|(name, value)| format!("{name}={value:?}"));
        let files = launch.files.iter().map(|file| String::from_utf8_lossy(&file.content).into_owned());
        let words: Vec<String> = launch.argv.into_iter().chain(set).chain(files).collect();
        (words, conversation.written[0]["params"]["_meta"].clone())
    };
    let (usual, always) = encode(&spec(kind));
    let mut custom = spec(kind);
    custom.setup.context = Context::None;
    custom.setup.tools = Some(vec!["read".to_owned()]);
    custom.setup.max_turns = Some(3);
    custom.setup.effort = Some("low".to_owned());
    let (words, meta) = encode(&custom);
    let words: Vec<String> = words.into_iter().filter(|word| !usual.contains(word)).collect();
    let meta = if meta == always { Value::Null } else { meta };
    json!({"words": words, "meta": meta})
}

#[test]
fn options_outside_the_protocol_are_passed_in_the_vendors_way() {
    let options = json!({"strictMcpConfig": true, "promptSuggestions": false, "settingSources": [],
        "tools": ["read"], "maxTurns": 3});
    let claude = json!({"words": [], "meta": {"claudeCode": {"options": options}}});
    assert_eq!(outside_protocol("acp-claude"), claude);
    let copilot = json!({"words": ["--reasoning-effort=low"], "meta": null});
    assert_eq!(outside_protocol("acp-copilot"), copilot);
    for (kind, parts) in [
        ("acp-codex", &["project_doc_max_bytes"][..]),
        ("acp-gemini", &["--policy=/w/policy.toml", "run_shell_command", "maxSessionTurns"]),
        ("acp-goose", &["CONTEXT_FILE_NAMES", "available_tools", "GOOSE_MAX_TURNS"]),
        ("acp-opencode", &["OPENCODE_DISABLE_PROJECT_CONFIG", r#"\"bash\":\"deny\""#]),
        ("acp-qwen", &["--bare", "--exclude-tools=run_shell_command"]),
    ] {
        let words = outside_protocol(kind)["words"].as_array().unwrap().clone();
        let missing = parts.iter().find(|part| {
            !words.iter().any(|word| word.as_str().unwrap().replace("\\\\", "\\").contains(**part))
        });
        assert_eq!(missing, None, "{kind}: {words:?}");
    }
    for kind in ["acp-kimi", "acp-kiro", "acp"] {
        assert_eq!(outside_protocol(kind), json!({"words": [], "meta": null}), "{kind}");
    }
}

#[test]
fn a_session_without_options_keeps_its_defaults() {
    for kind in ["acp-gemini", "acp-goose", "acp-opencode", "acp-qwen"] {
        let home = tempfile::tempdir().unwrap();
        let launch = launch_for_user(&spec(kind), home.path()).unwrap();
        let words = format!("{:?} {:?} {:?}", launch.argv, launch.env_overrides, launch.files);
        for option in ["--policy", "available_tools", "deny", "--exclude-tools", "--bare", "MAX_TURNS"] {
            assert!(!words.contains(option), "{kind}: {words}");
        }
    }
}

#[test]
fn a_configured_command_is_started_as_it_is() {
    let ProcessLaunch { argv, env, env_overrides, .. } = launch(&spec("acp"));
    assert_eq!(
        (argv, env, env_overrides),
        (vec!["mine".to_owned(), "--acp".to_owned()], vec!["MINE_KEY".to_owned()], Vec::new())
    );
    let ProcessLaunch { argv, env_overrides, files, .. } = launch(&spec("acp-copilot"));
    assert_eq!(argv[1..], ["--acp", "--disable-builtin-mcps", "--additional-mcp-config=@/w/mcp.json"]);
    assert_eq!((env_overrides.len(), files.len()), (0, 1));
    let ProcessLaunch { env_overrides, .. } = launch(&spec("acp-gemini"));
    assert!(
        env_overrides.contains(&("GEMINI_CLI_NO_RELAUNCH".to_owned(), EnvValue::Plain("true".to_owned())))
    );
}
