//! Manual edits before, between and after Volery's own edits: they stay, and undoing still works.

use std::fs;

use backends::client_setup::{ConfigEntry, ConfigScope, Syntax};
use serde_json::{Value, json};

use super::super::edit::{EditError, SyntaxEdit, apply, undo};
use super::super::file_changes::FileOutcome;
use super::files::{InitOptions, TestHome, states};

fn read_json(home: &TestHome, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(home.path(name)).unwrap()).unwrap()
}

#[test]
fn files_that_were_deleted_between_two_set_ups_leave_no_trace() {
    let home = TestHome::new();
    let before = home.all();
    home.init("claude", ConfigScope::Project);
    fs::remove_dir_all(home.path("project/.claude")).unwrap();
    fs::remove_file(home.path("project/.mcp.json")).unwrap();
    home.init("claude", ConfigScope::Project);
    assert_eq!(
        states(&home.undo("claude", ConfigScope::Project)),
        [FileOutcome::Removed, FileOutcome::Removed]
    );
    assert_eq!(home.all(), before);
}

#[test]
fn a_folder_that_was_made_goes_though_its_file_was_deleted_once() {
    let home = TestHome::new();
    let before = home.all();
    home.init("cursor", ConfigScope::Project);
    fs::remove_file(home.path("project/.cursor/mcp.json")).unwrap();
    home.init("cursor", ConfigScope::Project);
    home.undo("cursor", ConfigScope::Project);
    assert_eq!(home.all(), before);
}

#[test]
fn a_file_that_somebody_has_removed_is_reported_and_its_folder_removed() {
    let home = TestHome::new();
    let before = home.all();
    home.init("cursor", ConfigScope::Project);
    fs::remove_file(home.path("project/.cursor/mcp.json")).unwrap();
    assert_eq!(states(&home.undo("cursor", ConfigScope::Project)), [FileOutcome::Gone]);
    assert_eq!(home.all(), before);
}

#[test]
fn a_handwritten_entry_keeps_its_other_members() {
    let home = TestHome::new();
    let entry = json!({"args": ["serve", "--dialect", "jarvis"], "env": {"JARVIS_HOME": "/j", "KEY": "k"}, "timeout": 5});
    let text = json!({"mcpServers": {"volery": entry}}).to_string();
    home.write("project/.mcp.json", &text);
    let before = home.all();
    let reports = home.init("claude", ConfigScope::Project);
    let mut expected = entry;
    expected["type"] = json!("stdio");
    expected["command"] = json!("volery");
    assert_eq!(read_json(&home, "project/.mcp.json")["mcpServers"]["volery"], expected);
    assert!(reports[0].diff.contains("JARVIS_HOME"), "{}", reports[0].diff);
    home.undo("claude", ConfigScope::Project);
    assert_eq!(home.all(), before);
}

#[test]
fn only_a_named_dialect_replaces_existing_arguments() {
    let arguments = |there: Value, dialect: Option<&'static str>| {
        let home = TestHome::new();
        let entry = json!({"command": "volery", "args": there});
        home.write("project/.cursor/mcp.json", &json!({"mcpServers": {"volery": entry}}).to_string());
        home.act("cursor", ConfigScope::Project, InitOptions { dialect, ..InitOptions::default() });
        read_json(&home, "project/.cursor/mcp.json")["mcpServers"]["volery"]["args"].clone()
    };
    let own = json!(["serve", "--tools", "per-agent"]);
    assert_eq!(arguments(own.clone(), None), own);
    assert_eq!(arguments(own, Some("jarvis")), json!(["serve", "--dialect=jarvis"]));
    assert_eq!(arguments(json!(["-y", "volery"]), None), json!(["serve"]));
}

#[test]
fn the_dialect_of_an_earlier_set_up_stays_until_another_is_named() {
    let home = TestHome::new();
    home.act(
        "opencode",
        ConfigScope::Project,
        InitOptions { dialect: Some("jarvis"), ..InitOptions::default() },
    );
    assert_eq!(states(&home.init("opencode", ConfigScope::Project)), [FileOutcome::Unchanged]);
    let command = read_json(&home, "project/opencode.json")["mcp"]["volery"]["command"].clone();
    assert_eq!(command, json!(["volery", "serve", "--dialect=jarvis"]));
}

#[test]
fn variables_of_an_entry_are_joined_and_comments_of_its_table_stay() {
    let expected = json!({"command": "volery", "args": ["serve"], "env": {"VOLERY_HOME": "/v"}});
    let entries = [ConfigEntry::key(&["mcp_servers", "volery"], expected)];
    for env in ["env = { KEY = \"k\" }\n", "env.KEY = \"k\"\n", ""] {
        let text = format!(
            "[mcp_servers.volery] # this one\ncommand = \"old\" # was\n{env}\n[other]\na = 1\n# the end\n"
        );
        let (merged, done) = apply(Syntax::Toml, &text, &entries).unwrap();
        let value = Syntax::Toml.value(&merged).unwrap();
        let variables = &value["mcp_servers"]["volery"]["env"];
        assert_eq!(variables["VOLERY_HOME"], "/v", "{merged}");
        assert_eq!(variables.get("KEY").is_some(), !env.is_empty(), "{merged}");
        assert!(
            merged.starts_with("[mcp_servers.volery] # this one\ncommand = \"volery\" # was\n"),
            "{merged}"
        );
        assert!(merged.ends_with("\n[other]\na = 1\n# the end\n"), "{merged}");
        assert_eq!(undo(Syntax::Toml, &merged, &done).unwrap().text, text);
    }
}

#[test]
fn a_server_of_our_name_that_is_reached_by_an_address_is_left_alone() {
    let text = "{\"mcpServers\": {\"volery\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:1/mcp\"}}}";
    let entries =
        [ConfigEntry::key(&["mcpServers", "volery"], json!({"command": "volery", "args": ["serve"]}))];
    let error = apply(Syntax::Json, text, &entries).unwrap_err();
    assert!(matches!(error, EditError::OtherShape { .. }), "{error}");
    assert_eq!(error.to_string(), "mcpServers.volery is not a server that is started by a command there");
}

#[test]
fn undoing_leaves_a_client_alone_as_long_as_an_entry_of_ours_was_changed() {
    let home = TestHome::new();
    let before = home.all();
    home.init("claude", ConfigScope::Project);
    let path = home.path("project/.mcp.json");
    let edited =
        fs::read_to_string(&path).unwrap().replace("\"serve\"", "\"serve\", \"--tools\", \"per-agent\"");
    fs::write(&path, edited).unwrap();
    let between = home.all();
    for _ in 0..2 {
        let reports = home.undo("claude", ConfigScope::Project);
        assert_eq!(states(&reports), [FileOutcome::LeftAlone, FileOutcome::LeftAlone]);
        let problem = reports[0].problem.as_deref().unwrap();
        assert!(problem.starts_with("mcpServers.volery was changed since"), "{problem}");
        assert_eq!(home.all(), between, "half of it was taken back");
    }
    fs::write(&path, "{}").unwrap();
    home.undo("claude", ConfigScope::Project);
    assert_eq!(home.all(), before);
}

#[test]
fn a_repair_by_a_second_set_up_is_undone_with_the_first() {
    let home = TestHome::new();
    home.init("cursor", ConfigScope::Project);
    let path = home.path("project/.cursor/mcp.json");
    let edited = fs::read_to_string(&path).unwrap().replace("\"volery\",", "\"elsewhere\",");
    fs::write(&path, edited).unwrap();
    assert_eq!(states(&home.init("cursor", ConfigScope::Project)), [FileOutcome::Written]);
    assert_eq!(states(&home.undo("cursor", ConfigScope::Project)), [FileOutcome::Removed]);
    assert!(!path.exists());
}
