//! What people do to the files before, between and after: it stays, and undoing still finds its way.

use std::fs;

use serde_json::{Value, json};

use super::super::client::Scope;
use super::super::edit::{EditError, Entry, Syntax, apply, take_back};
use super::super::set_up::State;
use super::files::{How, Place, states};

fn written(place: &Place, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(place.path(name)).unwrap()).unwrap()
}

#[test]
fn files_that_were_deleted_between_two_set_ups_leave_no_trace() {
    let place = Place::new();
    let before = place.all();
    place.init("claude", Scope::Project);
    fs::remove_dir_all(place.path("project/.claude")).unwrap();
    fs::remove_file(place.path("project/.mcp.json")).unwrap();
    place.init("claude", Scope::Project);
    assert_eq!(states(&place.undo("claude", Scope::Project)), [State::Removed, State::Removed]);
    assert_eq!(place.all(), before);
}

#[test]
fn a_folder_that_was_made_goes_though_its_file_was_deleted_once() {
    let place = Place::new();
    let before = place.all();
    place.init("cursor", Scope::Project);
    fs::remove_file(place.path("project/.cursor/mcp.json")).unwrap();
    place.init("cursor", Scope::Project);
    place.undo("cursor", Scope::Project);
    assert_eq!(place.all(), before);
}

#[test]
fn a_file_that_somebody_has_removed_is_said_to_be_gone_and_its_folder_goes_too() {
    let place = Place::new();
    let before = place.all();
    place.init("cursor", Scope::Project);
    fs::remove_file(place.path("project/.cursor/mcp.json")).unwrap();
    assert_eq!(states(&place.undo("cursor", Scope::Project)), [State::Gone]);
    assert_eq!(place.all(), before);
}

#[test]
fn an_entry_that_was_written_by_hand_keeps_what_is_not_ours() {
    let place = Place::new();
    let entry = json!({"args": ["serve", "--dialect", "jarvis"], "env": {"JARVIS_HOME": "/j", "KEY": "k"}, "timeout": 5});
    let text = json!({"mcpServers": {"volery": entry}}).to_string();
    place.write("project/.mcp.json", &text);
    let before = place.all();
    let reports = place.init("claude", Scope::Project);
    let mut wanted = entry;
    wanted["type"] = json!("stdio");
    wanted["command"] = json!("volery");
    assert_eq!(written(&place, "project/.mcp.json")["mcpServers"]["volery"], wanted);
    assert!(reports[0].diff.contains("JARVIS_HOME"), "{}", reports[0].diff);
    place.undo("claude", Scope::Project);
    assert_eq!(place.all(), before);
}

#[test]
fn arguments_give_way_to_a_dialect_that_was_named_and_only_then() {
    let arguments = |there: Value, dialect: Option<&'static str>| {
        let place = Place::new();
        let entry = json!({"command": "volery", "args": there});
        place.write("project/.cursor/mcp.json", &json!({"mcpServers": {"volery": entry}}).to_string());
        place.act("cursor", Scope::Project, How { dialect, ..How::default() });
        written(&place, "project/.cursor/mcp.json")["mcpServers"]["volery"]["args"].clone()
    };
    let own = json!(["serve", "--tools", "per-agent"]);
    assert_eq!(arguments(own.clone(), None), own);
    assert_eq!(arguments(own, Some("jarvis")), json!(["serve", "--dialect=jarvis"]));
    assert_eq!(arguments(json!(["-y", "volery"]), None), json!(["serve"]));
}

#[test]
fn a_dialect_of_an_earlier_set_up_stays_until_another_is_named() {
    let place = Place::new();
    place.act("opencode", Scope::Project, How { dialect: Some("jarvis"), ..How::default() });
    assert_eq!(states(&place.init("opencode", Scope::Project)), [State::Unchanged]);
    let command = written(&place, "project/opencode.json")["mcp"]["volery"]["command"].clone();
    assert_eq!(command, json!(["volery", "serve", "--dialect=jarvis"]));
}

#[test]
fn variables_of_an_entry_are_joined_and_comments_of_its_table_stay() {
    let wanted = json!({"command": "volery", "args": ["serve"], "env": {"VOLERY_HOME": "/v"}});
    let entries = [Entry::key(&["mcp_servers", "volery"], wanted)];
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
        assert_eq!(take_back(Syntax::Toml, &merged, &done).unwrap().text, text);
    }
}

#[test]
fn a_server_of_our_name_that_is_reached_by_an_address_is_left_alone() {
    let text = "{\"mcpServers\": {\"volery\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:1/mcp\"}}}";
    let entries = [Entry::key(&["mcpServers", "volery"], json!({"command": "volery", "args": ["serve"]}))];
    let error = apply(Syntax::Json, text, &entries).unwrap_err();
    assert!(matches!(error, EditError::OtherShape { .. }), "{error}");
    assert_eq!(error.to_string(), "mcpServers.volery is not a server that is started by a command there");
}

#[test]
fn undoing_leaves_a_client_alone_as_long_as_an_entry_of_ours_was_changed() {
    let place = Place::new();
    let before = place.all();
    place.init("claude", Scope::Project);
    let path = place.path("project/.mcp.json");
    let edited =
        fs::read_to_string(&path).unwrap().replace("\"serve\"", "\"serve\", \"--tools\", \"per-agent\"");
    fs::write(&path, edited).unwrap();
    let between = place.all();
    for _ in 0..2 {
        let reports = place.undo("claude", Scope::Project);
        assert_eq!(states(&reports), [State::LeftAlone, State::LeftAlone]);
        let problem = reports[0].problem.as_deref().unwrap();
        assert!(problem.starts_with("mcpServers.volery was changed since"), "{problem}");
        assert_eq!(place.all(), between, "half of it was taken back");
    }
    fs::write(&path, "{}").unwrap();
    place.undo("claude", Scope::Project);
    assert_eq!(place.all(), before);
}

#[test]
fn what_was_put_right_by_a_second_set_up_is_taken_back_with_the_first() {
    let place = Place::new();
    place.init("cursor", Scope::Project);
    let path = place.path("project/.cursor/mcp.json");
    let edited = fs::read_to_string(&path).unwrap().replace("\"volery\",", "\"elsewhere\",");
    fs::write(&path, edited).unwrap();
    assert_eq!(states(&place.init("cursor", Scope::Project)), [State::Written]);
    assert_eq!(states(&place.undo("cursor", Scope::Project)), [State::Removed]);
    assert!(!path.exists());
}
