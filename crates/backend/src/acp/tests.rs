//! Agents that speak ACP: what they are told, and what their words mean.

use std::path::Path;

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Transport, VariableText};
use domain::permission::{Level, Permission};
use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, RunSpec, Stream, Usage};
use domain::setup::{Context, PromptMode};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::calls::Calls;
use super::{Acp, KNOWN};
use crate::contract::{
    Answer, Ask, Backend, Conclusion, Decision, Drive, Exit, Feed, Place, ProcessDrive, Reader, Report,
    Setting,
};
use crate::program::Found;
use crate::sample;
use crate::user::{self, User};

/// One conversation of a run, with everything that was written to the agent.
struct Talk {
    reader: Box<dyn Reader>,
    written: Vec<Value>,
}

fn drive(spec: &RunSpec) -> ProcessDrive {
    let found = Found { argv: vec!["/bin/agent".to_owned()], version: None };
    let place = Place {
        work: Path::new("/w"),
        own_program: Path::new("/bin/volery"),
        found: Some(&found),
        session_used: Some(Usage { input_tokens: 1000, output_tokens: 100, ..Usage::default() }),
        project_programs: crate::contract::ProjectPrograms::On,
    };
    let backend = crate::registry::by_kind(&spec.backend.kind).unwrap();
    match backend.prepare(spec, &place).unwrap() {
        Drive::Process(drive) => drive,
        Drive::Loop(_) => panic!("an agent is a process"),
    }
}

fn spec(kind: &str) -> RunSpec {
    let mut spec = sample::spec(kind);
    if kind == "acp" {
        spec.backend.options = json!({"command": ["mine", "--acp"], "env": ["MINE_KEY"]});
    }
    spec
}

fn hello(capabilities: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities}})
}

fn update(update: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-1", "update": update}})
}

fn says(text: &str) -> Value {
    update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

fn ends(reason: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": reason}})
}

fn asks(id: u64, call: &Value) -> Value {
    let options = json!([
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": "s-1", "toolCall": call, "options": options});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params})
}

impl Talk {
    fn of(spec: &RunSpec) -> Self {
        Self { reader: drive(spec).reader, written: Vec::new() }
    }

    /// A conversation whose turn has begun.
    fn begun(spec: &RunSpec) -> Self {
        let mut talk = Self::of(spec);
        talk.hear(&hello(&json!({"loadSession": true})));
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {
            "currentModeId": "default", "availableModes": [{"id": "default", "name": "Default"}]}}}));
        assert_eq!(talk.written.last().unwrap()["method"], "session/prompt");
        talk
    }

    fn hear(&mut self, message: &Value) -> Vec<Report> {
        let reports = self.reader.feed(Stream::Stdout, format!("{message}\n").as_bytes());
        self.note(reports)
    }

    fn note(&mut self, reports: Vec<Report>) -> Vec<Report> {
        for report in &reports {
            if let Report::Write(bytes) | Report::WriteFilled { content: bytes, .. } = report {
                let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                self.written.extend(lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()));
            }
        }
        reports
    }

    fn decide(&mut self, ask: &str, decision: &Decision) -> Vec<Report> {
        let reports = self.reader.decide(ask, decision);
        self.note(reports)
    }

    fn end(mut self) -> Conclusion {
        self.reader.conclude(Exit::Code(0))
    }
}

fn asked(reports: &[Report]) -> Vec<Ask> {
    let of = |report: &Report| match report {
        Report::Asks(ask) => Some(ask.clone()),
        _ => None,
    };
    reports.iter().filter_map(of).collect()
}

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

#[test]
fn servers_go_with_the_session_and_their_secrets_by_name() {
    let mut spec = spec("acp-kimi");
    let env = [("TOKEN".to_owned(), VariableText::from("${MY_TOKEN}".to_owned()))].into();
    let transport = Transport::Stdio { command: "birds".to_owned(), args: Vec::new(), env };
    spec.setup.mcp_servers =
        vec![McpServer { name: "aviary".to_owned(), transport, tools: None, timeout_ms: None }];
    spec.delegates = Delegates::Anyone;
    let mut talk = Talk::of(&spec);
    let reports = talk.hear(&hello(&json!({})));
    let Some(Report::WriteFilled { variables, .. }) = reports.last() else { panic!("{reports:?}") };
    assert_eq!(variables, &["MY_TOKEN"]);
    assert_eq!(reports.len(), 1, "{reports:?}");
    let expected = json!([
        {"name": "aviary", "command": "birds", "args": [], "env": [{"name": "TOKEN", "value": "${MY_TOKEN}"}]},
        {"name": "volery", "command": "/bin/volery", "args": ["serve"], "env": []},
    ]);
    assert_eq!(talk.written[0]["params"]["mcpServers"], expected);
}

/// Returns what is started for a user who has servers of their own, and for a project that has some.
fn adapted(spec: &RunSpec, home: &Path) -> Result<ProcessDrive, String> {
    let mut drive = drive(spec);
    let place = sample::place(None);
    let user = User { home: Some(home), value: &|_| None };
    let backend = crate::registry::by_kind(&spec.backend.kind).unwrap();
    backend.adapt(spec, &mut drive, &place, &user).map_err(|error| error.to_string())?;
    Ok(drive)
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn set<'a>(drive: &'a ProcessDrive, name: &str) -> &'a str {
    match drive.set.iter().find(|(set, _)| set == name) {
        Some((_, Setting::Plain(value))) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn servers_of_the_settings_are_kept_away_as_the_vendor_can() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let project = home.join("project");
    let with = |kind: &str| {
        let mut spec = spec(kind);
        spec.directory = project.display().to_string();
        spec.project = spec.directory.clone();
        spec.delegates = Delegates::Anyone;
        spec
    };
    write(&home.join(".copilot/mcp-config.json"), r#"{"mcpServers": {"users": {}}}"#);
    write(&project.join(".mcp.json"), r#"{"mcpServers": {"projects": {}}}"#);
    write(&home.join(".config/opencode/opencode.json"), r#"{"mcp": {"users": {}, "volery": {}}}"#);
    for kind in ["acp-gemini", "acp-qwen"] {
        let argv = adapted(&with(kind), home).unwrap().argv;
        assert_eq!(argv.last().unwrap(), "--allowed-mcp-server-names=volery", "{argv:?}");
        let argv = adapted(&spec(kind), home).unwrap().argv;
        assert_eq!(argv.last().unwrap(), "--allowed-mcp-server-names=volery-allows-none", "{argv:?}");
    }
    let argv = adapted(&with("acp-copilot"), home).unwrap().argv;
    assert_eq!(argv[argv.len() - 2..], ["--disable-mcp-server=projects", "--disable-mcp-server=users"]);
    let drive = adapted(&with("acp-opencode"), home).unwrap();
    let config: Value = serde_json::from_str(set(&drive, "OPENCODE_CONFIG_CONTENT")).unwrap();
    assert_eq!(config["mcp"], json!({"users": {"enabled": false}, "volery": {"enabled": false}}));
    assert_eq!(config["permission"]["bash"], "ask");
    let drive = adapted(&with("acp-goose"), home).unwrap();
    let extensions: Value = serde_json::from_str(set(&drive, "EXTENSIONS")).unwrap();
    assert!(extensions.as_object().unwrap().values().all(|extension| extension["type"] == "platform"));
}

#[test]
fn opencode_shares_nothing_whatever_its_user_or_a_project_says() {
    let home = tempfile::tempdir().unwrap();
    for tools in [None, Some(Vec::new()), Some(vec!["read".to_owned()])] {
        let mut spec = spec("acp-opencode");
        spec.setup.tools = tools.clone();
        let drive = adapted(&spec, home.path()).unwrap();
        let config: Value = serde_json::from_str(set(&drive, "OPENCODE_CONFIG_CONTENT")).unwrap();
        assert_eq!(config["share"], "disabled", "{tools:?}");
    }
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
fn turns_that_are_used_up_are_told_in_an_error_or_in_a_message() {
    let over = AgentEnd::OverBudget(LimitName::Turns);
    let mut talk = Talk::begun(&spec("acp-claude"));
    talk.hear(&says("Half of it."));
    let error = json!({"code": -32603, "message": "Internal error: Reached maximum number of turns (3)"});
    talk.hear(&json!({"jsonrpc": "2.0", "id": 4, "error": error}));
    let Conclusion { end, answer, .. } = talk.end();
    assert_eq!((end, answer), (over.clone(), Answer::Text("Half of it.\n".to_owned())));
    let mut talk = Talk::of(&spec("acp-goose"));
    talk.hear(&hello(&json!({})));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {
        "currentModeId": "approve", "availableModes": [{"id": "approve", "name": "Approve"}]}}}));
    talk.hear(&says("Half of it."));
    talk.hear(&says("I've reached the maximum number of actions I can do without user input."));
    talk.hear(&ends("end_turn"));
    let Conclusion { end, answer, .. } = talk.end();
    assert_eq!((end, answer), (over, Answer::Text("Half of it.\n".to_owned())));
}

#[test]
fn codex_gets_its_servers_by_settings_that_turn_all_others_off() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let project = home.join("project");
    let mut spec = spec("acp-codex");
    spec.directory = project.display().to_string();
    spec.project = spec.directory.clone();
    spec.delegates = Delegates::Anyone;
    let env = [("TOKEN".to_owned(), VariableText::from("${MY_TOKEN}".to_owned()))].into();
    let transport = Transport::Stdio { command: "birds".to_owned(), args: Vec::new(), env };
    spec.setup.mcp_servers =
        vec![McpServer { name: "aviary".to_owned(), transport, tools: None, timeout_ms: None }];
    write(&home.join(".codex/config.toml"), "[mcp_servers.users]\ncommand = 'x'\n[mcp_servers.volery]\n");
    write(&project.join(".codex/config.toml"), "mcp_servers = {projects = {command = 'y'}}\n");
    let mut drive = adapted(&spec, home).unwrap();
    let config: Value = serde_json::from_str(set(&drive, "CODEX_CONFIG")).unwrap();
    let servers = &config["mcp_servers"];
    let mut names = user::names(&config, "mcp_servers");
    names.sort();
    assert_eq!(names, ["aviary", "projects", "users", "volery"]);
    assert_eq!((&servers["users"], &servers["projects"]), (&json!({"enabled": false}), &servers["users"]));
    assert_eq!(servers["aviary"]["env_vars"], json!(["TOKEN"]));
    assert!(drive.set.contains(&("TOKEN".to_owned(), Setting::From("MY_TOKEN".to_owned()))));
    let hello = format!("{}\n", hello(&json!({})));
    let reports = drive.reader.feed(Stream::Stdout, hello.as_bytes());
    let [Report::WriteFilled { content, .. }] = &reports[..] else { panic!("{reports:?}") };
    let opened: Value = serde_json::from_slice(content).unwrap();
    assert_eq!(opened["params"]["mcpServers"], json!([]));
    write(&project.join(".codex/config.toml"), "[mcp_servers.aviary]\nurl = 'z'\n");
    let refused = adapted(&spec, home).err().unwrap();
    assert!(refused.contains("has a server aviary of its own"), "{refused}");
}

#[test]
fn a_session_that_would_be_given_a_title_by_a_model_has_one_before() {
    let begun = |session: Option<&str>, fork: bool| {
        let mut spec = spec("acp-codex");
        spec.session = session.map(|session| session.parse().unwrap());
        spec.fork = fork;
        let mut talk = Talk::of(&spec);
        talk.hear(&hello(&json!({"sessionCapabilities": {"fork": {}, "resume": {}}})));
        let modes = json!({"currentModeId": "workspace-write"});
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": modes}}));
        talk
    };
    let methods = |talk: &Talk| {
        let names = talk.written.iter().map(|message| message["method"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let mut talk = begun(None, false);
    assert_eq!(methods(&talk), ["session/new", "session/set_title", "session/prompt"]);
    let refused = json!({"jsonrpc": "2.0", "id": 6, "error": {"code": -32603, "message": "not now"}});
    let reports = talk.hear(&refused);
    assert!(matches!(&reports[..], [Report::Warned(told)] if told.contains("not now")), "{reports:?}");
    assert_eq!(methods(&begun(Some("s-1"), false)), ["session/resume", "session/prompt"]);
    let copied = methods(&begun(Some("s-0"), true));
    assert_eq!(copied, ["session/fork", "session/set_title", "session/prompt"]);
}

#[test]
fn which_agents_copy_a_session_is_a_capability() {
    let forks = |kind: &str| crate::registry::by_kind(kind).unwrap().capabilities(&Value::Null).forks;
    let known = ["acp-claude", "acp-codex", "acp-copilot", "acp-goose", "acp-kimi", "acp-opencode"];
    let copying: Vec<&str> = known.into_iter().filter(|kind| forks(kind)).collect();
    assert_eq!(copying, ["acp-claude", "acp-codex", "acp-kimi", "acp-opencode"]);
}

#[test]
fn a_session_is_copied_by_an_agent_that_can_and_has_a_new_name() {
    let mut spec = spec("acp-kimi");
    spec.session = Some("s-0".parse().unwrap());
    spec.fork = true;
    let mut talk = Talk::of(&spec);
    talk.hear(&hello(&json!({"loadSession": true, "sessionCapabilities": {"fork": {}, "resume": {}}})));
    let asked = talk.written.last().unwrap();
    assert_eq!((&asked["method"], &asked["params"]["sessionId"]), (&json!("session/fork"), &json!("s-0")));
    let modes = json!({"currentModeId": "default"});
    let reports =
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": modes}}));
    assert!(reports.contains(&Report::Session("s-1".to_owned())), "{reports:?}");
    assert_eq!(talk.written.last().unwrap()["params"]["sessionId"], "s-1");
    talk.hear(&says("I am a copy."));
    talk.hear(&ends("end_turn"));
    assert_eq!(talk.end().session.as_deref(), Some("s-1"));

    let mut talk = Talk::of(&spec);
    talk.hear(&hello(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}})));
    assert_eq!(talk.written, Vec::<Value>::new(), "the session itself is not gone on with");
    assert!(matches!(talk.end().end, AgentEnd::Failed(Failure::Session { .. })));
}

#[test]
fn kimi_has_a_home_without_what_brings_servers() {
    let home = tempfile::tempdir().unwrap();
    for name in ["mcp.json", "config.toml", "plugins/x", "workspace-trust/x", "credentials/x"] {
        write(&home.path().join(".kimi-code").join(name), "");
    }
    let drive = adapted(&spec("acp-kimi"), home.path()).unwrap();
    let names: Vec<&str> = drive.files.iter().map(|file| file.name.as_str()).collect();
    let expected = ["blobs", "config.toml", "credentials", "sessions"];
    assert_eq!(names, expected.map(|name| format!("secret-kimi-home/{name}")));
    let users = home.path().join(".kimi-code/sessions");
    assert_eq!(drive.files[3].link.as_deref(), Some(users.as_path()));
    assert_eq!(set(&drive, "KIMI_CODE_HOME"), "/w/secret-kimi-home");
}

#[test]
fn a_server_whose_transport_the_agent_does_not_speak_ends_the_run() {
    let mut spec = spec("acp-kimi");
    let transport = Transport::Http { url: "http://localhost/".to_owned().into(), headers: [].into() };
    spec.setup.mcp_servers =
        vec![McpServer { name: "far".to_owned(), transport, tools: None, timeout_ms: None }];
    let mut talk = Talk::of(&spec);
    talk.hear(&hello(&json!({"mcpCapabilities": {"sse": true}})));
    let message = "acp-kimi does not speak http, as the MCP server far does".to_owned();
    assert_eq!(talk.end().end, AgentEnd::Failed(Failure::Agent { message }));
}

#[test]
fn what_a_loaded_session_repeats_is_no_part_of_this_run() {
    let mut spec = spec("acp-copilot");
    spec.session = Some("s-1".parse().unwrap());
    let mut talk = Talk::of(&spec);
    talk.hear(&hello(&json!({"loadSession": true})));
    assert_eq!(talk.written[0]["method"], "session/load");
    assert_eq!(talk.hear(&says("What I said yesterday.")), []);
    let agent = "https://agentclientprotocol.com/protocol/session-modes#agent";
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"modes": {"currentModeId": agent}}}));
    talk.hear(&says("Today."));
    let usage = json!({"totalTokens": 1650, "inputTokens": 1500, "outputTokens": 150});
    let reports =
        talk.hear(&json!({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn", "usage": usage}}));
    // It counts over the whole session, of which 1000 and 100 were used before.
    let own = Usage { input_tokens: 500, output_tokens: 50, ..Usage::default() };
    assert!(reports.contains(&Report::Used(own)), "{reports:?}");
    assert_eq!(talk.end().answer, Answer::Text("Today.".to_owned()));
}

#[test]
fn a_session_that_is_not_there_is_told_as_such() {
    let mut spec = spec("acp-kimi");
    spec.session = Some("s-1".parse().unwrap());
    let mut talk = Talk::of(&spec);
    talk.hear(&hello(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}})));
    assert_eq!(talk.written[0]["method"], "session/resume");
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "Session not found"}}));
    let reason = "Session not found".to_owned();
    assert_eq!(talk.end().end, AgentEnd::Failed(Failure::Session { reason }));
    let mut left = Talk::of(&spec);
    left.hear(&hello(&json!({"loadSession": true})));
    assert!(
        matches!(left.end().end, AgentEnd::Failed(Failure::Session { .. })),
        "an agent that leaves instead"
    );
    let mut unable = Talk::of(&spec);
    unable.hear(&hello(&json!({})));
    assert!(matches!(unable.end().end, AgentEnd::Failed(Failure::Session { .. })));
}

#[test]
fn what_is_asked_for_is_put_together_from_all_that_is_known() {
    let mut talk = Talk::begun(&spec("acp-kimi"));
    talk.hear(&update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Bash", "kind": "execute",
        "content": [{"type": "content", "content": {"type": "text", "text": "{\"command\":\"ls\"}"}}]}),
    ));
    let reports = talk.hear(&asks(7, &json!({"toolCallId": "c", "title": "Running: ls"})));
    let input = json!({"command": "ls", "title": "Bash"});
    assert_eq!(asked(&reports), [Ask { id: "7#0".to_owned(), tool: "execute".to_owned(), input }]);
    talk.decide("7#0", &Decision::Deny("no".to_owned()));
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "no"}});
    assert_eq!(talk.written.last().unwrap(), &json!({"jsonrpc": "2.0", "id": 7, "result": outcome}));
}

#[test]
fn every_file_of_an_edit_is_asked_about_and_all_must_be_allowed() {
    let mut talk = Talk::begun(&spec("acp-kimi"));
    let call = json!({"toolCallId": "c", "title": "Edit", "kind": "edit", "rawInput": {"path": "a.txt"},
        "content": [{"type": "diff", "path": "/p/b.txt", "newText": "x"}], "locations": [{"path": "/etc/passwd"}]});
    let reports = talk.hear(&asks(7, &call));
    let paths: Vec<String> =
        asked(&reports).iter().map(|ask| ask.input["file_path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(paths, ["a.txt", "/etc/passwd", "/p/b.txt"]);
    assert_eq!(talk.decide("7#0", &Decision::Allow(json!({}))), []);
    assert_eq!(talk.decide("7#2", &Decision::Allow(json!({}))), []);
    talk.decide("7#1", &Decision::Allow(json!({})));
    assert_eq!(talk.written.last().unwrap()["result"]["outcome"]["optionId"], "yes");
}

#[test]
fn tools_are_named_by_what_is_stricter() {
    let mut spec = spec("acp-kimi");
    spec.delegates = Delegates::Anyone;
    let cases = [
        (json!({"name": "Bash", "kind": "read"}), "Bash"),
        (json!({"name": "launch", "kind": "read"}), "launch"),
        (json!({"name": "launch", "kind": "execute"}), "execute"),
        (json!({"kind": "delete"}), "edit"),
        (json!({"title": "Frobnicate the bird"}), "Frobnicate"),
        (json!({"_meta": {"goose": {"toolCall": {"toolName": "shell"}}}}), "shell"),
        (json!({"_meta": {"toolName": "web_fetch"}}), "web_fetch"),
    ];
    for (mut call, tool) in cases {
        let mut talk = Talk::begun(&spec);
        call["toolCallId"] = json!("c");
        let reports = talk.hear(&asks(7, &call));
        assert_eq!(asked(&reports)[0].tool, tool, "{call}");
    }
    let mut talk = Talk::begun(&spec);
    talk.hear(&asks(7, &json!({"toolCallId": "c", "name": "volery-run_agent", "kind": "other"})));
    let told = &talk.written.last().unwrap()["result"]["outcome"]["optionId"];
    assert_eq!(told, "yes", "whoever may delegate is not asked about it");
}

#[test]
fn what_could_only_be_allowed_for_good_is_not() {
    let options = json!([{"optionId": "always", "name": "Always", "kind": "allow_always"}]);
    let params =
        json!({"sessionId": "s-1", "toolCall": {"toolCallId": "c", "kind": "execute"}, "options": options});
    let ask = json!({"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params});
    for (level, expected) in [(Some(Level::Yolo), json!("always")), (None, Value::Null)] {
        let mut spec = spec("acp-kimi");
        spec.setup.permission.level = level;
        let mut talk = Talk::begun(&spec);
        talk.hear(&ask);
        talk.decide("7#0", &Decision::Allow(json!({})));
        assert_eq!(talk.written.last().unwrap()["result"]["outcome"]["optionId"], expected);
    }
}

#[test]
fn files_terminals_and_what_nobody_knows_are_refused() {
    let mut talk = Talk::begun(&spec("acp-kimi"));
    for method in ["fs/read_text_file", "terminal/create", "craft/drainMidTurnQueue"] {
        talk.hear(&json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": {}}));
        let answer = talk.written.last().unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("x"), &json!(-32601)));
    }
}

#[test]
fn a_tool_is_told_when_its_input_is_known_and_once() {
    let mut talk = Talk::begun(&spec("acp-claude"));
    let begin = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Terminal", "name": "Bash",
        "kind": "execute", "rawInput": {}});
    assert_eq!(talk.hear(&update(&begin)), []);
    let known =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawInput": {"command": "ls"}});
    let called =
        Report::ToolCalled { id: "c".to_owned(), name: "Bash".to_owned(), input: json!({"command": "ls"}) };
    assert_eq!(talk.hear(&update(&known)), [called]);
    assert_eq!(talk.hear(&update(&known)), []);
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed", "rawOutput": "no"});
    let returned = Report::ToolReturned { id: "c".to_owned(), ok: false, output: "no".to_owned() };
    assert_eq!(talk.hear(&update(&done)), [returned]);
}

#[test]
fn uses_of_tools_that_are_too_large_to_be_kept_are_denied_and_not_judged_by_half() {
    let mut talk = Talk::begun(&spec("acp-kimi"));
    let begins = |id: &str, bytes: usize| {
        let input = json!({"command": "x".repeat(bytes)});
        update(&json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "Bash", "kind": "execute",
            "rawInput": input}))
    };
    for id in ["a", "b", "c"] {
        assert_eq!(talk.hear(&begins(id, 7 << 20)).len(), 1);
    }
    let reports = talk.hear(&asks(7, &json!({"toolCallId": "a"})));
    assert_eq!(asked(&reports), []);
    assert_eq!(talk.written.last().unwrap()["result"]["outcome"]["optionId"], "no");
    let reports = talk.hear(&asks(8, &json!({"toolCallId": "c"})));
    assert_eq!(asked(&reports)[0].input["command"].as_str().unwrap().len(), 7 << 20);
    assert_eq!(talk.hear(&begins("a", 1)), [], "what is forgotten is not told again");
    assert_eq!(asked(&talk.hear(&asks(9, &json!({"toolCallId": "a"})))), []);
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed", "rawOutput": "yes"});
    let returned = Report::ToolReturned { id: "a".to_owned(), ok: true, output: "yes".to_owned() };
    assert_eq!(talk.hear(&update(&done)), [returned]);
}

#[test]
fn what_is_kept_of_the_uses_of_tools_is_bounded_in_bytes() {
    let mut calls = Calls::new(Vec::new());
    let long = "x".repeat(1 << 20);
    let zeros = vec![0; 100_000];
    for number in 0..40 {
        let call = match number % 4 {
            0 => json!({"toolCallId": format!("{number}"), "rawInput": {"a": long}}),
            1 => json!({"toolCallId": format!("{number}"), "title": long}),
            2 => json!({"toolCallId": format!("{number}"), "locations": [{"path": long}]}),
            _ => json!({"toolCallId": format!("{number}"), "rawInput": {"a": zeros}}),
        };
        calls.take(serde_json::from_value(call).unwrap());
        assert!(calls.bytes() <= 16 << 20, "{number}: {}", calls.bytes());
    }
    assert!(calls.bytes() > 8 << 20, "{}", calls.bytes());
    let named = json!({"toolCallId": long, "rawInput": {"a": 1}});
    let (_, parts) = calls.wanted(serde_json::from_value(named).unwrap());
    assert_eq!(parts, []);
}

#[test]
fn the_reason_of_the_end_decides() {
    let model =
        |error, message: &str| AgentEnd::Failed(Failure::Model { error, message: message.to_owned() });
    let cases = [
        ("end_turn", AgentEnd::Done),
        ("max_tokens", AgentEnd::OverBudget(LimitName::Tokens)),
        ("max_turn_requests", AgentEnd::OverBudget(LimitName::Turns)),
        ("refusal", model(ModelError::Refusal, "the agent refuses to go on")),
        ("cancelled", AgentEnd::Failed(Failure::Agent { message: "the turn was cancelled".to_owned() })),
        ("bored", AgentEnd::Failed(Failure::Output { reason: "the turn ended with \"bored\"".to_owned() })),
    ];
    for (reason, end) in cases {
        let mut talk = Talk::begun(&spec("acp-kimi"));
        talk.hear(&says("So far."));
        talk.hear(&ends(reason));
        let conclusion = talk.end();
        assert_eq!(conclusion.end, end);
        let Answer::Text(text) = conclusion.answer else { panic!("{reason}") };
        assert_eq!(text.trim(), "So far.");
    }
}

#[test]
fn an_agent_that_gives_up_at_a_denial_has_not_succeeded() {
    let copilot = says("Info: Operation cancelled by user");
    for (kind, last) in [
        ("acp-copilot", vec![copilot, ends("end_turn")]),
        ("acp-codex", vec![ends("cancelled")]),
        ("acp-opencode", vec![ends("end_turn")]),
    ] {
        let mut talk = Talk::of(&spec(kind));
        talk.hear(&hello(&json!({})));
        let mode = KNOWN.iter().find(|known| known.name == kind).and_then(|known| known.habits.modes);
        let mode = mode.map(|modes| modes.safe_edit);
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        talk.hear(&asks(7, &json!({"toolCallId": "c", "kind": "execute"})));
        talk.decide("7#0", &Decision::Deny("no".to_owned()));
        for message in last {
            talk.hear(&message);
        }
        let message = format!("{kind} gave up when it was denied a tool");
        assert_eq!(talk.end().end, AgentEnd::Failed(Failure::Agent { message }));
    }
}

#[test]
fn errors_that_agents_hide_in_a_good_end_are_found() {
    let said = |kind: &str, text: &str| {
        let mut talk = Talk::of(&spec(kind));
        talk.hear(&hello(&json!({})));
        let mode = KNOWN.iter().find(|known| known.name == kind).and_then(|known| known.habits.modes);
        let mode = mode.map(|modes| modes.safe_edit);
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        talk.hear(&says("Info: Request failed due to a transient API error. Retrying..."));
        if kind == "acp-codex" {
            let status = json!({"codex": {"threadStatus": {"type": "systemError"}}});
            talk.hear(&update(&json!({"sessionUpdate": "session_info_update", "_meta": status})));
        }
        talk.hear(&says(text));
        talk.hear(&ends("end_turn"));
        match talk.end().end {
            AgentEnd::Failed(Failure::Model { error, .. }) => error,
            end => panic!("{kind}: {end:?}"),
        }
    };
    assert_eq!(said("acp-copilot", "Error: Authentication failed (HTTP 401)."), ModelError::Denied);
    assert_eq!(said("acp-goose", "Ran into this error: Rate limit exceeded"), ModelError::RateLimit);
    assert_eq!(said("acp-codex", "unexpected status 503"), ModelError::Overloaded);
    let mut silent = Talk::begun(&spec("acp-kimi"));
    silent.hear(&ends("end_turn"));
    assert!(matches!(silent.end().end, AgentEnd::Failed(Failure::Model { error: ModelError::Other, .. })));
    let mut mute = Talk::begun(&spec("acp"));
    mute.hear(&ends("end_turn"));
    assert!(matches!(mute.end().end, AgentEnd::Failed(Failure::Output { .. })));
}

#[test]
fn errors_in_answer_to_the_prompt_have_a_meaning() {
    let cases = [
        (json!({"code": 429, "message": "slow down"}), Some(ModelError::RateLimit)),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"details": "401 wrong key"}}),
            Some(ModelError::Denied),
        ),
        (
            json!({"code": -32603, "message": "Internal error", "data": {"errorName": "APIError"}}),
            Some(ModelError::Other),
        ),
        (json!({"code": -32000, "message": "Authentication required"}), Some(ModelError::Denied)),
        (json!({"code": -32603, "message": "out of nuts"}), None),
    ];
    for (error, expected) in cases {
        let mut talk = Talk::begun(&spec("acp-kimi"));
        talk.hear(&json!({"jsonrpc": "2.0", "id": 4, "error": error}));
        let got = match talk.end().end {
            AgentEnd::Failed(Failure::Model { error, .. }) => Some(error),
            AgentEnd::Failed(Failure::Agent { .. }) => None,
            end => panic!("{end:?}"),
        };
        assert_eq!(got, expected, "{error}");
    }
}

#[test]
fn whoever_has_to_log_in_is_told_how() {
    let mut talk = Talk::of(&spec("acp-copilot"));
    let mut hello = hello(&json!({}));
    hello["result"]["authMethods"] =
        json!([{"id": "x", "name": "Log in", "description": "Run `copilot login`"}]);
    talk.hear(&hello);
    talk.hear(
        &json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": "Authentication required"}}),
    );
    let message = "acp-copilot wants its user to log in first: Run `copilot login` (Authentication required)"
        .to_owned();
    assert_eq!(talk.end().end, AgentEnd::Failed(Failure::Model { error: ModelError::Denied, message }));
}

#[test]
fn another_version_of_the_protocol_is_not_spoken() {
    let mut talk = Talk::of(&spec("acp"));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 2}}));
    assert_eq!(talk.written, Vec::<Value>::new());
    assert!(matches!(talk.end().end, AgentEnd::Failed(Failure::Output { .. })));
}

#[test]
fn tokens_are_told_as_far_as_they_are_the_runs_own() {
    let usage = json!({"totalTokens": 165, "inputTokens": 100, "outputTokens": 15, "cachedReadTokens": 50});
    let told = |kind: &str, tools: bool| {
        let mut spec = spec(kind);
        spec.setup.permission.level = None;
        let mut talk = Talk::of(&spec);
        talk.hear(&hello(&json!({})));
        let mode = KNOWN.iter().find(|known| known.name == kind).and_then(|known| known.habits.modes);
        let mode = mode.map(|modes| modes.safe_edit);
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": mode}}}));
        if tools {
            talk.hear(&update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"})));
        }
        talk.hear(&update(&json!({"sessionUpdate": "usage_update", "used": 1, "size": 2,
            "cost": {"amount": 0.5, "currency": "USD"}})));
        let end = json!({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn", "usage": usage}});
        let reports = talk.hear(&end);
        reports.into_iter().find(|report| matches!(report, Report::Used(_) | Report::Warned(_)))
    };
    let cost = Some(Cost { microusd: 500_000, basis: CostBasis::Reported });
    // What came from a cache is input too.
    let tokens = Usage { input_tokens: 150, output_tokens: 15, cache_read_tokens: 50, ..Usage::default() };
    let whole = Some(Report::Used(Usage { cost, ..tokens }));
    for kind in ["acp-claude", "acp-copilot", "acp-opencode", "acp"] {
        assert_eq!(told(kind, false), whole, "{kind}");
    }
    assert!(
        matches!(told("acp-opencode", true), Some(Report::Warned(_))),
        "only the last request is counted"
    );
    assert_eq!(told("acp-kimi", false), None);
}

#[test]
fn a_run_is_stopped_by_a_word_and_nothing_is_asked_any_more() {
    let mut talk = Talk::begun(&spec("acp-kimi"));
    talk.hear(&asks(7, &json!({"toolCallId": "c", "kind": "execute"})));
    let reports = talk.reader.ask_to_stop();
    talk.note(reports);
    let told: Vec<&Value> = talk.written.iter().rev().take(2).collect();
    assert_eq!(told[1]["result"]["outcome"], json!({"outcome": "cancelled"}));
    assert_eq!(
        (&told[0]["method"], &told[0]["params"]),
        (&json!("session/cancel"), &json!({"sessionId": "s-1"}))
    );
    let mut early = Talk::of(&spec("acp-kimi"));
    early.hear(&hello(&json!({})));
    assert_eq!(early.reader.ask_to_stop(), [Report::CloseInput]);
    let reports = early.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1",
        "modes": {"currentModeId": "default"}}}));
    assert!(
        !reports.iter().any(|report| matches!(report, Report::Write(_))),
        "no turn is begun: {reports:?}"
    );
}

#[test]
fn a_session_that_can_be_closed_is_before_the_agent_leaves() {
    let mut talk = Talk::of(&spec("acp-kimi"));
    talk.hear(&hello(&json!({"sessionCapabilities": {"close": {}}})));
    talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": "default"}}}));
    talk.hear(&says("Done."));
    let reports = talk.hear(&ends("end_turn"));
    assert!(reports.contains(&Report::Finished) && !reports.contains(&Report::CloseInput), "{reports:?}");
    assert_eq!(talk.written.last().unwrap()["method"], "session/close");
    assert_eq!(talk.hear(&json!({"jsonrpc": "2.0", "id": 5, "result": {}})), [Report::CloseInput]);
    assert_eq!(talk.end().end, AgentEnd::Done);
}

#[test]
fn an_answer_in_a_shape_is_read_as_a_value() {
    let mut spec = spec("acp-kimi");
    spec.setup.output_schema = Some(json!({"type": "object"}));
    let mut talk = Talk::begun(&spec);
    let prompt = talk.written.last().unwrap()["params"]["prompt"][0]["text"].to_string();
    assert!(prompt.contains("{\\\"type\\\":\\\"object\\\"}"), "{prompt}");
    talk.hear(&says("{\"birds\": 3}"));
    talk.hear(&ends("end_turn"));
    assert_eq!(talk.end().structured, Some(json!({"birds": 3})));
}

#[test]
fn what_cannot_be_held_is_named() {
    let permission = Permission {
        level: Some(Level::ReadOnly),
        allow: vec!["Read".parse().unwrap()],
        ask: vec!["Edit(src/**)".parse().unwrap()],
        deny: vec!["Bash(rm:*)".parse().unwrap(), "mcp__x".parse().unwrap()],
    };
    let gaps = |kind: &str| crate::registry::by_kind(kind).unwrap().unenforceable(&permission, &Value::Null);
    assert_eq!(gaps("acp-goose"), Vec::<String>::new(), "it asks about everything");
    assert_eq!(gaps("acp-codex"), ["the rule deny Bash(rm:*)"], "it lets harmless commands pass");
    let all = [
        "the level read-only",
        "the rule ask Edit(src/**)",
        "the rule deny Bash(rm:*)",
        "the rule deny mcp__x",
    ];
    assert_eq!(gaps("acp"), all, "nobody knows what it asks");
    for kind in ["acp-claude", "acp-gemini", "acp-opencode", "acp-qwen"] {
        assert_eq!(gaps(kind), all, "{kind} does not ask about what settings allow");
    }
    assert_eq!(
        Acp.unenforceable(&Permission { level: Some(Level::Yolo), ..Permission::default() }, &Value::Null),
        [""; 0]
    );
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

/// The whole of what an agent writes in one good run.
fn stream() -> Vec<u8> {
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": "execute",
        "rawInput": {"command": "ls"}});
    let done = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"});
    let messages = [
        hello(&json!({"loadSession": true})),
        json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {"currentModeId": "default"}}}),
        update(&call),
        asks(7, &json!({"toolCallId": "c"})),
        update(&done),
        says("Hello."),
        ends("end_turn"),
    ];
    messages.iter().flat_map(|message| format!("{message}\n").into_bytes()).collect()
}

#[test]
fn no_beginning_of_a_stream_succeeds() {
    let whole = stream();
    for cut in 0..whole.len() - 1 {
        let mut talk = Talk::of(&spec("acp-kimi"));
        talk.reader.feed(Stream::Stdout, &whole[..cut]);
        assert_ne!(talk.end().end, AgentEnd::Done, "cut at {cut}");
    }
    let mut talk = Talk::of(&spec("acp-kimi"));
    talk.reader.feed(Stream::Stdout, &whole);
    assert_eq!(talk.end().end, AgentEnd::Done);
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let mut talk = Talk::of(&spec("acp"));
        for chunk in &chunks {
            talk.reader.feed(Stream::Stdout, chunk);
        }
        prop_assert_ne!(talk.end().end, AgentEnd::Done);
    }

    #[test]
    fn a_stream_with_strange_bytes_in_it_is_survived(at in 0_usize..1_500, bytes in prop::collection::vec(any::<u8>(), 1..8)) {
        let mut whole = stream();
        let at = at.min(whole.len());
        whole.splice(at..(at + bytes.len()).min(whole.len()), bytes);
        let mut talk = Talk::of(&spec("acp-kimi"));
        talk.reader.feed(Stream::Stdout, &whole);
        talk.end();
    }
}
