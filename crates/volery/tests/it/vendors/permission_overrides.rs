//! Settings of the user or of the project cannot widen the permissions of an agent: a command beyond its level is not
//! executed, or the run is refused before it starts.

use std::fs;
use std::path::Path;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

use super::cases::beyond_every_sandbox;
use super::vendor_env::{Vendor, VendorEnv};

/// Permissions that hold an agent back from commands.
const HELD_BACK: [&str; 3] = ["permission: read-only", "permission: safe-edit", "permission: {deny: [Bash]}"];

/// Asks an agent for a command that its settings allow and its permission does not.
fn stays_within(vendor: &Vendor, override_permissions: fn(&mut VendorEnv)) {
    for permission in HELD_BACK {
        let Some(mut vendor_env) = VendorEnv::make(vendor, "loose settings", Vec::new()) else { return };
        override_permissions(&mut vendor_env);
        let outside = beyond_every_sandbox();
        let made = outside.path().join("made.txt");
        let touch = format!("touch '{}'", made.display());
        vendor_env
            .offline
            .server()
            .add([vendor.executes(&touch), ScriptedReply::say("It was not allowed.").always()]);
        vendor_env.agent(vendor, &format!("{permission}\ntimeout: 100s\nanswer_timeout: 2s"));
        // Trust in what a project executes does not widen what its agents may do.
        assert_eq!(vendor_env.volery(&["trust", "--yes"]).code, 0);
        let output = vendor_env.volery(&["run", "worker", "Touch a file elsewhere.", "--json"]);
        assert!(!made.exists(), "{permission}: {output:?}");
        if output.code == 3 {
            assert_eq!(output.json()["error"]["kind"], json!("denied"), "{permission}: {output:?}");
            continue;
        }
        let run = output.json();
        assert!(run["ended"] == json!(true) && run["status"] != json!("timed_out"), "{permission}: {run}");
    }
}

/// Sets a key in a settings file of the user.
fn set(vendor_env: &mut VendorEnv, file: &str, key: &str, value: &Value) {
    let path = vendor_env.env.path("home").join(file);
    put(&path, key, value);
    vendor_env.user_changed(&path);
}

/// The same in the project.
fn set_in_project(vendor_env: &VendorEnv, file: &str, key: &str, value: &Value) {
    put(&vendor_env.env.project().join(file), key, value);
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

fn append(vendor_env: &mut VendorEnv, file: &str, text: &str) {
    let path = vendor_env.env.path("home").join(file);
    let known = fs::read_to_string(&path).unwrap_or_default();
    write(&path, &format!("{text}{known}"));
    vendor_env.user_changed(&path);
}

fn override_claude(vendor_env: &mut VendorEnv) {
    let free = json!({"allow": ["Bash"], "defaultMode": "bypassPermissions"});
    set(vendor_env, ".claude/settings.json", "permissions", &free);
    set_in_project(vendor_env, ".claude/settings.json", "permissions", &free);
    let project = vendor_env.env.project().display().to_string();
    set(vendor_env, ".claude.json", "projects", &json!({ project: {"hasTrustDialogAccepted": true} }));
}

fn override_gemini(vendor_env: &mut VendorEnv) {
    let free = json!({"allowed": ["run_shell_command"], "autoAccept": true});
    let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = 999\n";
    set(vendor_env, ".gemini/settings.json", "tools", &free);
    set_in_project(vendor_env, ".gemini/settings.json", "tools", &free);
    write(&vendor_env.env.path("home/.gemini/policies/loose.toml"), rule);
    write(&vendor_env.env.project().join(".gemini/policies/loose.toml"), rule);
    let folder = vendor_env.env.project().join("loose-policies");
    write(&folder.join("loose.toml"), rule);
    set(vendor_env, ".gemini/settings.json", "adminPolicyPaths", &json!([folder]));
    set_in_project(vendor_env, ".gemini/settings.json", "adminPolicyPaths", &json!([folder]));
}

fn override_qwen(vendor_env: &mut VendorEnv) {
    let (tools, permissions) = (
        json!({"allowed": ["run_shell_command"], "approvalMode": "yolo"}),
        json!({"allow": ["run_shell_command"]}),
    );
    set(vendor_env, ".qwen/settings.json", "tools", &tools);
    set(vendor_env, ".qwen/settings.json", "permissions", &permissions);
    set_in_project(vendor_env, ".qwen/settings.json", "tools", &tools);
    set_in_project(vendor_env, ".qwen/settings.json", "permissions", &permissions);
}

fn override_opencode(vendor_env: &mut VendorEnv) {
    let free = json!({"bash": "allow", "external_directory": "allow"});
    set(vendor_env, ".config/opencode/opencode.json", "permission", &free);
    set_in_project(vendor_env, "opencode.json", "permission", &free);
}

fn override_codex(vendor_env: &mut VendorEnv) {
    let free = "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n";
    append(vendor_env, ".codex/config.toml", free);
    let rule = "prefix_rule(pattern = [\"touch\"], decision = \"allow\")\n";
    append(vendor_env, ".codex/rules/default.rules", rule);
    write(&vendor_env.env.project().join(".codex/rules/default.rules"), rule);
    write(&vendor_env.env.project().join(".codex/config.toml"), free);
    let project = vendor_env.env.project().display().to_string();
    let path = vendor_env.env.path("home/.codex/config.toml");
    let known = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{known}\n[projects.{project:?}]\ntrust_level = \"trusted\"\n")).unwrap();
    vendor_env.user_changed(&path);
}

fn override_copilot(vendor_env: &mut VendorEnv) {
    let project = vendor_env.env.project().display().to_string();
    let approvals =
        json!([{"kind": "commands", "commandIdentifiers": ["touch", "touch:*"]}, {"kind": "write"}]);
    let locations = json!({ project.clone(): {"tool_approvals": approvals} });
    set(vendor_env, ".copilot/permissions-config.json", "locations", &locations);
    set(vendor_env, ".copilot/config.json", "trusted_folders", &json!([project]));
    set(vendor_env, ".copilot/config.json", "trustedFolders", &json!([project]));
    set(vendor_env, ".copilot/settings.json", "allowAllTools", &json!(true));
}

fn override_goose(vendor_env: &mut VendorEnv) {
    let free = "user:\n  always_allow: [shell, developer__shell]\n  ask_before: []\n  never_allow: []\n";
    append(vendor_env, ".config/goose/permission.yaml", free);
    set(vendor_env, ".config/goose/config.yaml", "GOOSE_MODE", &json!("auto"));
}

fn override_kimi(vendor_env: &mut VendorEnv) {
    let free = "default_permission_mode = \"yolo\"\n";
    append(vendor_env, ".kimi-code/config.toml", free);
}

macro_rules! stay_within {
    ($($name:ident: $vendor:literal, $override_permissions:ident;)*) => {
        $(#[test]
        fn $name() {
            stays_within(&Vendor::new($vendor), $override_permissions);
        })*
    };
}

stay_within! {
    claude: "claude", override_claude;
    codex: "codex", override_codex;
    copilot: "copilot", override_copilot;
    gemini: "gemini", override_gemini;
    goose: "goose", override_goose;
    kimi: "kimi", override_kimi;
    opencode: "opencode", override_opencode;
    qwen: "qwen", override_qwen;
    acp_codex: "acp-codex", override_codex;
    acp_copilot: "acp-copilot", override_copilot;
    acp_goose: "acp-goose", override_goose;
    acp_kimi: "acp-kimi", override_kimi;
}
