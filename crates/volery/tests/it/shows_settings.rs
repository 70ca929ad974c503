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
    assert_eq!(of("limits.timeout"), (json!("3m00s"), json!("project"), json!(project)));
    assert_eq!(of("limits.grace"), (json!("9.0s"), json!("user"), json!(user)));
    assert_eq!(of("limits.answer_timeout").1, "default");
    let all = stage.volery(["config"]).ok().stdout;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let line = all.lines().find(|line| line.starts_with("limits.timeout")).unwrap();
    assert_eq!(words(line), ["limits.timeout", "3m00s", ".volery/config.toml"]);
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
