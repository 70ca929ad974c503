//! Which MCP servers an agent has, and how those of its settings are excluded.

use domain::agent::Delegates;
use domain::mcp_server::{McpServer, Transport, VariableText};
use domain::run::{AgentEnd, Failure, StdStream};
use serde_json::{Value, json};

use super::{TestConversation, hello, launch_for_user, set, spec, write};
use crate::contract::{AgentReport, EnvValue};
use crate::user_environment;

#[test]
fn servers_go_with_the_session_and_their_secrets_by_name() {
    let mut spec = spec("acp-kimi");
    let env = [("TOKEN".to_owned(), VariableText::from("${MY_TOKEN}".to_owned()))].into();
    let transport = Transport::Stdio { command: "birds".to_owned(), args: Vec::new(), env };
    spec.setup.mcp_servers =
        vec![McpServer { name: "aviary".to_owned(), transport, tools: None, timeout_ms: None }];
    spec.delegates = Delegates::Anyone;
    let mut conversation = TestConversation::new(&spec);
    let reports = conversation.receive(&hello(&json!({})));
    let Some(AgentReport::WriteWithVariables { variables, .. }) = reports.last() else {
        panic!("{reports:?}")
    };
    assert_eq!(variables, &["MY_TOKEN"]);
    assert_eq!(reports.len(), 1, "{reports:?}");
    let expected = json!([
        {"name": "aviary", "command": "birds", "args": [], "env": [{"name": "TOKEN", "value": "${MY_TOKEN}"}]},
        {"name": "volery", "command": "/bin/volery", "args": ["serve"], "env": []},
    ]);
    assert_eq!(conversation.written[0]["params"]["mcpServers"], expected);
}

#[test]
fn servers_of_the_settings_are_excluded_in_the_vendors_way() {
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
        let argv = launch_for_user(&with(kind), home).unwrap().argv;
        assert_eq!(argv.last().unwrap(), "--allowed-mcp-server-names=volery", "{argv:?}");
        let argv = launch_for_user(&spec(kind), home).unwrap().argv;
        assert_eq!(argv.last().unwrap(), "--allowed-mcp-server-names=volery-allows-none", "{argv:?}");
    }
    let argv = launch_for_user(&with("acp-copilot"), home).unwrap().argv;
    assert_eq!(argv[argv.len() - 2..], ["--disable-mcp-server=projects", "--disable-mcp-server=users"]);
    let launch = launch_for_user(&with("acp-opencode"), home).unwrap();
    let config: Value = serde_json::from_str(set(&launch, "OPENCODE_CONFIG_CONTENT")).unwrap();
    assert_eq!(config["mcp"], json!({"users": {"enabled": false}, "volery": {"enabled": false}}));
    assert_eq!(config["permission"]["bash"], "ask");
    let launch = launch_for_user(&with("acp-goose"), home).unwrap();
    let extensions: Value = serde_json::from_str(set(&launch, "EXTENSIONS")).unwrap();
    assert!(extensions.as_object().unwrap().values().all(|extension| extension["type"] == "platform"));
}

#[test]
fn opencode_shares_nothing_whatever_its_user_or_a_project_says() {
    let home = tempfile::tempdir().unwrap();
    for tools in [None, Some(Vec::new()), Some(vec!["read".to_owned()])] {
        let mut spec = spec("acp-opencode");
        spec.setup.tools = tools.clone();
        let launch = launch_for_user(&spec, home.path()).unwrap();
        let config: Value = serde_json::from_str(set(&launch, "OPENCODE_CONFIG_CONTENT")).unwrap();
        assert_eq!(config["share"], "disabled", "{tools:?}");
    }
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
    let users =
        "[mcp_servers.users]\ncommand = 'x'\n[mcp_servers.volery]\n[model_providers.x]\nenv_key = 'MY_KEY'\n";
    write(&home.join(".codex/config.toml"), users);
    write(&project.join(".codex/config.toml"), "mcp_servers = {projects = {command = 'y'}}\n");
    let mut launch = launch_for_user(&spec, home).unwrap();
    let config: Value = serde_json::from_str(set(&launch, "CODEX_CONFIG")).unwrap();
    let servers = &config["mcp_servers"];
    let mut names = user_environment::entry_names(&config, "mcp_servers");
    names.sort();
    assert_eq!(names, ["aviary", "projects", "users", "volery"]);
    assert_eq!((&servers["users"], &servers["projects"]), (&json!({"enabled": false}), &servers["users"]));
    assert_eq!(servers["aviary"]["env_vars"], json!(["TOKEN"]));
    assert!(
        launch.env_overrides.contains(&("TOKEN".to_owned(), EnvValue::FromVariable("MY_TOKEN".to_owned())))
    );
    assert!(launch.optional_env.contains(&"MY_KEY".to_owned()), "{:?}", launch.optional_env);
    assert_eq!(config["shell_environment_policy"]["exclude"], json!(["TOKEN", "MY_KEY"]));
    let hello = format!("{}\n", hello(&json!({})));
    let reports = launch.reader.feed(StdStream::Stdout, hello.as_bytes());
    let [AgentReport::WriteWithVariables { content, .. }] = &reports[..] else { panic!("{reports:?}") };
    let opened: Value = serde_json::from_slice(content).unwrap();
    assert_eq!(opened["params"]["mcpServers"], json!([]));
    write(&project.join(".codex/config.toml"), "[mcp_servers.aviary]\nurl = 'z'\n");
    let refused = launch_for_user(&spec, home).err().unwrap();
    assert!(refused.contains("has a server aviary of its own"), "{refused}");
}

#[test]
fn kimi_has_a_home_without_what_brings_servers() {
    let home = tempfile::tempdir().unwrap();
    for name in ["mcp.json", "config.toml", "plugins/x", "workspace-trust/x", "credentials/x"] {
        write(&home.path().join(".kimi-code").join(name), "");
    }
    let launch = launch_for_user(&spec("acp-kimi"), home.path()).unwrap();
    let names: Vec<&str> = launch.files.iter().map(|file| file.name.as_str()).collect();
    let expected = ["blobs", "config.toml", "credentials", "sessions"];
    assert_eq!(names, expected.map(|name| format!("secret-kimi-home/{name}")));
    let users = home.path().join(".kimi-code/sessions");
    assert_eq!(launch.files[3].link.as_deref(), Some(users.as_path()));
    assert_eq!(set(&launch, "KIMI_CODE_HOME"), "/w/secret-kimi-home");
}

#[test]
fn a_server_whose_transport_the_agent_does_not_speak_ends_the_run() {
    let mut spec = spec("acp-kimi");
    let transport = Transport::Http { url: "http://localhost/".to_owned().into(), headers: [].into() };
    spec.setup.mcp_servers =
        vec![McpServer { name: "far".to_owned(), transport, tools: None, timeout_ms: None }];
    let mut conversation = TestConversation::new(&spec);
    conversation.receive(&hello(&json!({"mcpCapabilities": {"sse": true}})));
    let message = "acp-kimi does not speak http, as the MCP server far does".to_owned();
    assert_eq!(conversation.end().end, AgentEnd::Failed(Failure::Agent { message }));
}
