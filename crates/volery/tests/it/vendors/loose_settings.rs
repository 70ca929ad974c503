//! What the settings of the program's user or of the project allow does not widen what an agent may do: a command beyond
//! its level is not executed, or the run is refused before it starts.

use std::fs;
use std::path::Path;

use model_server::Reply;
use serde_json::{Value, json};

use super::cases::beyond_every_sandbox;
use super::place::{Place, Vendor};

/// Permissions that hold an agent back from commands.
const HELD_BACK: [&str; 3] = ["permission: read-only", "permission: safe-edit", "permission: {deny: [Bash]}"];

/// Asks an agent for a command that its settings allow and its permission does not.
fn stays_within(vendor: &Vendor, loosen: fn(&mut Place)) {
    for permission in HELD_BACK {
        let Some(mut place) = Place::make(vendor, "loose settings", Vec::new()) else { return };
        loosen(&mut place);
        let outside = beyond_every_sandbox();
        let made = outside.path().join("made.txt");
        let touch = format!("touch '{}'", made.display());
        place.offline.server().add([vendor.executes(&touch), Reply::say("It was not allowed.").always()]);
        place.agent(vendor, &format!("{permission}\ntimeout: 100s\nanswer_timeout: 2s"));
        // Trust in what a project executes does not widen what its agents may do.
        assert_eq!(place.volery(&["trust", "--yes"]).code, 0);
        let asked = place.volery(&["run", "worker", "Touch a file elsewhere.", "--json"]);
        assert!(!made.exists(), "{permission}: {asked:?}");
        if asked.code == 3 {
            assert!(asked.stdout.contains("cannot enforce"), "{permission}: {asked:?}");
            continue;
        }
        let run = asked.json();
        assert!(run["ended"] == json!(true) && run["status"] != json!("timed_out"), "{permission}: {run}");
    }
}

/// Writes a key of a file of settings of the user's, whatever else stands there.
fn set(place: &mut Place, file: &str, key: &str, value: &Value) {
    let path = place.stage.path("home").join(file);
    put(&path, key, value);
    place.user_changed(&path);
}

/// The same in the project.
fn set_in_project(place: &Place, file: &str, key: &str, value: &Value) {
    put(&place.stage.project().join(file), key, value);
}

fn put(path: &Path, key: &str, value: &Value) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let known = fs::read_to_string(path).unwrap_or_default();
    let mut settings: Value =
        if known.is_empty() { json!({}) } else { serde_json::from_str(&known).unwrap() };
    settings[key] = value.clone();
    fs::write(path, settings.to_string()).unwrap();
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn append(place: &mut Place, file: &str, text: &str) {
    let path = place.stage.path("home").join(file);
    let known = fs::read_to_string(&path).unwrap_or_default();
    write(&path, &format!("{text}{known}"));
    place.user_changed(&path);
}

fn loosen_claude(place: &mut Place) {
    let free = json!({"allow": ["Bash"], "defaultMode": "bypassPermissions"});
    set(place, ".claude/settings.json", "permissions", &free);
    set_in_project(place, ".claude/settings.json", "permissions", &free);
    let project = place.stage.project().display().to_string();
    set(place, ".claude.json", "projects", &json!({ project: {"hasTrustDialogAccepted": true} }));
}

fn loosen_gemini(place: &mut Place) {
    let free = json!({"allowed": ["run_shell_command"], "autoAccept": true});
    let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = 999\n";
    set(place, ".gemini/settings.json", "tools", &free);
    set_in_project(place, ".gemini/settings.json", "tools", &free);
    write(&place.stage.path("home/.gemini/policies/loose.toml"), rule);
    write(&place.stage.project().join(".gemini/policies/loose.toml"), rule);
    let folder = place.stage.project().join("loose-policies");
    write(&folder.join("loose.toml"), rule);
    set(place, ".gemini/settings.json", "adminPolicyPaths", &json!([folder]));
    set_in_project(place, ".gemini/settings.json", "adminPolicyPaths", &json!([folder]));
}

fn loosen_qwen(place: &mut Place) {
    let (tools, permissions) = (
        json!({"allowed": ["run_shell_command"], "approvalMode": "yolo"}),
        json!({"allow": ["run_shell_command"]}),
    );
    set(place, ".qwen/settings.json", "tools", &tools);
    set(place, ".qwen/settings.json", "permissions", &permissions);
    set_in_project(place, ".qwen/settings.json", "tools", &tools);
    set_in_project(place, ".qwen/settings.json", "permissions", &permissions);
}

fn loosen_opencode(place: &mut Place) {
    let free = json!({"bash": "allow", "external_directory": "allow"});
    set(place, ".config/opencode/opencode.json", "permission", &free);
    set_in_project(place, "opencode.json", "permission", &free);
}

fn loosen_codex(place: &mut Place) {
    let free = "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n";
    append(place, ".codex/config.toml", free);
    let rule = "prefix_rule(pattern = [\"touch\"], decision = \"allow\")\n";
    append(place, ".codex/rules/default.rules", rule);
    write(&place.stage.project().join(".codex/rules/default.rules"), rule);
    write(&place.stage.project().join(".codex/config.toml"), free);
    let project = place.stage.project().display().to_string();
    let path = place.stage.path("home/.codex/config.toml");
    let known = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{known}\n[projects.{project:?}]\ntrust_level = \"trusted\"\n")).unwrap();
    place.user_changed(&path);
}

fn loosen_copilot(place: &mut Place) {
    let project = place.stage.project().display().to_string();
    let approvals =
        json!([{"kind": "commands", "commandIdentifiers": ["touch", "touch:*"]}, {"kind": "write"}]);
    let locations = json!({ project.clone(): {"tool_approvals": approvals} });
    set(place, ".copilot/permissions-config.json", "locations", &locations);
    set(place, ".copilot/config.json", "trusted_folders", &json!([project]));
    set(place, ".copilot/config.json", "trustedFolders", &json!([project]));
    set(place, ".copilot/settings.json", "allowAllTools", &json!(true));
}

fn loosen_goose(place: &mut Place) {
    let free = "user:\n  always_allow: [shell, developer__shell]\n  ask_before: []\n  never_allow: []\n";
    append(place, ".config/goose/permission.yaml", free);
    set(place, ".config/goose/config.yaml", "GOOSE_MODE", &json!("auto"));
}

fn loosen_kimi(place: &mut Place) {
    let free = "default_permission_mode = \"yolo\"\n";
    append(place, ".kimi-code/config.toml", free);
}

macro_rules! stay_within {
    ($($name:ident: $vendor:literal, $loosen:ident;)*) => {
        $(#[test]
        fn $name() {
            stays_within(&Vendor::named($vendor), $loosen);
        })*
    };
}

stay_within! {
    claude: "claude", loosen_claude;
    codex: "codex", loosen_codex;
    copilot: "copilot", loosen_copilot;
    gemini: "gemini", loosen_gemini;
    goose: "goose", loosen_goose;
    kimi: "kimi", loosen_kimi;
    opencode: "opencode", loosen_opencode;
    qwen: "qwen", loosen_qwen;
    acp_codex: "acp-codex", loosen_codex;
    acp_copilot: "acp-copilot", loosen_copilot;
    acp_goose: "acp-goose", loosen_goose;
    acp_kimi: "acp-kimi", loosen_kimi;
}
