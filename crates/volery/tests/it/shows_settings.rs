//! `volery config` says which settings are in force and which file sets each of them.

use serde_json::json;

use crate::stage::Stage;

#[test]
fn each_setting_is_shown_with_the_file_that_sets_it() {
    let stage = Stage::new();
    stage.configure("[limits]\ntimeout = \"20m\"\ngrace = \"9s\"");
    std::fs::write(stage.project().join(".volery/config.toml"), "[limits]\ntimeout = \"3m\"\n").unwrap();
    let shown = stage.json(["config", "show", "limits"]);
    let of = |key: &str| {
        let settings = shown["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["key"] == key).unwrap();
        (found["value"].clone(), found["layer"].clone(), found["source"].clone())
    };
    let project = stage.project().join(".volery/config.toml");
    let user = stage.path("config").join("config.toml");
    assert_eq!(of("limits.timeout"), (json!("3m"), json!("project"), json!(project)));
    assert_eq!(of("limits.grace"), (json!("9s"), json!("user"), json!(user)));
    assert_eq!(of("limits.answer_timeout").1, "default");
    let all = stage.volery(["config"]).ok().stdout;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let line = all.lines().find(|line| line.starts_with("limits.timeout")).unwrap();
    assert_eq!(words(line), ["limits.timeout", "3m", ".volery/config.toml"]);
    assert!(all.lines().any(|line| line.starts_with("slots.count")), "{all}");
    stage.volery(["config", "show", "limit"]).exits(5);
}

#[test]
fn paths_are_printed_for_files_that_do_not_exist_yet() {
    let stage = Stage::new();
    let user = stage.path("config").join("config.toml").display().to_string();
    assert_eq!(stage.volery(["config", "path", "user"]).ok().stdout, format!("{user}\n"));
    let files = stage.json(["config", "path"])["files"].clone();
    assert_eq!(files[1], json!({ "layer": "user", "file": user, "exists": false }));
}

#[test]
fn a_check_of_settings_needs_no_state_and_fails_for_an_error() {
    let stage = Stage::new();
    stage.configure("[limits]\ntimeout = \"soon\"\n[slotz]");
    std::fs::remove_dir(stage.path("state")).unwrap();
    let checked = stage.volery(["config", "check"]).exits(1);
    assert!(checked.stdout.contains("config.toml:3:11: error:"), "{checked:?}");
    assert_eq!(checked.stderr, "files read: 1, errors: 1, warnings: 1\n");
    assert!(!stage.path("state").exists());
    stage.volery(["config", "show"]).ok();
}

#[test]
fn settings_of_a_project_that_nobody_trusts_are_shown_as_not_applied() {
    let stage = Stage::new();
    stage.rehearsal("dev", "- say: hello", "");
    let own = "[agents.dev]\npermission = \"yolo\"\nmodel = \"m\"\n[backends.up]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n";
    std::fs::write(stage.project().join(".volery/config.toml"), own).unwrap();
    let not_applied = |key: &str| {
        let shown = stage.json(["config", "show", key]);
        (shown["settings"][0]["value"].clone(), shown["settings"][0].get("not_applied").cloned())
    };
    let narrow = json!("only where it allows less: the project is not trusted");
    assert_eq!(not_applied("agents.dev.permission"), (json!("yolo"), Some(narrow)));
    let untrusted = json!("the project is not trusted");
    assert_eq!(not_applied("agents.dev.model"), (json!("m"), Some(untrusted.clone())));
    assert_eq!(not_applied("backends.up.command"), (json!(["tr", "a-z", "A-Z"]), Some(untrusted)));
    let text = stage.volery(["config"]).ok().stdout;
    assert!(text.contains("agents.dev.model is not applied: the project is not trusted"), "{text}");
    stage.volery(["trust", "--yes"]).ok();
    assert_eq!(not_applied("agents.dev.permission"), (json!("yolo"), None));
    assert!(!stage.volery(["config"]).ok().stdout.contains("not applied"));
}

#[test]
fn values_can_be_written_back() {
    let stage = Stage::new();
    stage.configure(
        "[limits]\ntimeout = \"90s\"\nmemory = \"1536MiB\"\ndepth = 3\n[serve]\nallowed_hosts = [\"a\", \"b\"]\n\
         [agents.dev]\ntimeout = \"61s\"\npermission = { level = \"safe-edit\", allow = [\"Bash\"] }\n",
    );
    let shown = stage.json(["config"]);
    let value = |key: &str| {
        let settings = shown["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["key"] == key).unwrap()["value"].clone()
    };
    assert_eq!(value("limits.timeout"), json!("1m30s"));
    assert_eq!(value("limits.memory"), json!("1536MiB"));
    assert_eq!(value("limits.depth"), json!(3));
    assert_eq!(value("serve.allowed_hosts"), json!(["a", "b"]));
    assert_eq!(value("agents.dev.limits.timeout"), json!("1m1s"));
    assert_eq!(value("agents.dev.permission"), json!({"level": "safe-edit", "allow": ["Bash"]}));
    let text = stage.volery(["config", "show", "agents"]).ok().stdout;
    assert!(text.contains("{ level = \"safe-edit\", allow = [\"Bash\"] }"), "{text}");
    assert!(!text.contains("timeout_ms"), "{text}");
}

#[test]
fn a_section_about_nobody_is_reported_and_one_with_an_error_is_not_in_force() {
    let stage = Stage::new();
    stage.rehearsal("reviewer", "- say: hello", "");
    stage.configure("[agents.elsewhere]\nmodel = \"m\"\n[agents.reviewr]\nmodel = \"m\"\n[defaults.claud]\nmodel = \"m\"\n");
    let own = "[agents.nobody]\ntimeout = \"5m\"\n[agents.reviewer]\nbudget = 5\nmodel = \"x\"\n";
    std::fs::write(stage.project().join(".volery/config.toml"), own).unwrap();
    let checked = stage.volery(["config", "check"]).exits(1).stdout;
    for said in [
        "[agents.nobody]: there is no agent nobody here",
        "[agents.reviewr]: there is no agent reviewr here",
        "hint: did you mean reviewer?",
        "[defaults.claud]: there is no backend claud",
    ] {
        assert!(checked.contains(said), "{said}: {checked}");
    }
    // Your file serves all projects, and another one may have this agent.
    assert!(!checked.contains("elsewhere"), "{checked}");
    stage.volery(["config", "show", "agents.reviewer"]).exits(5);
}
