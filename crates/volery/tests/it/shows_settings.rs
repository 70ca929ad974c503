//! `volery config` says which settings are in force and which file sets each of them.

use serde_json::json;

use crate::test_env::TestEnv;

#[test]
fn each_setting_is_shown_with_the_file_that_sets_it() {
    let env = TestEnv::new();
    env.configure("[limits]\ntimeout = \"20m\"\ngrace = \"9s\"");
    std::fs::write(env.project().join(".volery/config.toml"), "[limits]\ntimeout = \"3m\"\n").unwrap();
    let shown = env.json(["config", "show", "limits"]);
    let setting = |key: &str| {
        let settings = shown["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["key"] == key).unwrap();
        (found["value"].clone(), found["layer"].clone(), found["source"].clone())
    };
    let project = env.project().join(".volery/config.toml");
    let user = env.path("config").join("config.toml");
    assert_eq!(setting("limits.timeout"), (json!("3m"), json!("project"), json!(project)));
    assert_eq!(setting("limits.grace"), (json!("9s"), json!("user"), json!(user)));
    assert_eq!(setting("limits.answer_timeout").1, "default");
    let all = env.volery(["config"]).ok().stdout;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let line = all.lines().find(|line| line.starts_with("limits.timeout")).unwrap();
    assert_eq!(words(line), ["limits.timeout", "3m", ".volery/config.toml"]);
    assert!(all.lines().any(|line| line.starts_with("slots.count")), "{all}");
    env.volery(["config", "show", "limit"]).exits(5);
}

#[test]
fn paths_are_printed_for_files_that_do_not_exist_yet() {
    let env = TestEnv::new();
    let user = env.path("config").join("config.toml").display().to_string();
    assert_eq!(env.volery(["config", "path", "user"]).ok().stdout, format!("{user}\n"));
    let files = env.json(["config", "path"])["files"].clone();
    assert_eq!(files[1], json!({ "layer": "user", "file": user, "exists": false }));
}

#[test]
fn a_check_of_settings_needs_no_state_and_fails_for_an_error() {
    let env = TestEnv::new();
    env.configure("[limits]\ntimeout = \"soon\"\n[slotz]");
    std::fs::remove_dir(env.path("state")).unwrap();
    let checked = env.volery(["config", "check"]).exits(1);
    insta::assert_snapshot!(env.masked(&checked.stdout), @r#"
    [stage]/config/config.toml:3:11: error: limits.timeout: expected a duration, found the text "soon"
      hint: write for example [span], [span], 5m or [span]; a number counts seconds
    [stage]/config/config.toml:4:2: warning: unknown key "slotz" is ignored
      hint: did you mean slots?
    "#);
    insta::assert_snapshot!(env.masked(&checked.stderr), @"files read: 1, errors: 1, warnings: 1");
    assert!(!env.path("state").exists());
    env.volery(["config", "show"]).ok();
}

#[test]
fn settings_of_a_project_that_nobody_trusts_are_shown_as_not_applied() {
    let env = TestEnv::new();
    env.rehearsal("dev", "- say: hello", "");
    let own = "[agents.dev]\npermission = \"yolo\"\nmodel = \"m\"\n[backends.up]\ncommand = [\"tr\", \"a-z\", \"A-Z\"]\n";
    std::fs::write(env.project().join(".volery/config.toml"), own).unwrap();
    let not_applied = |key: &str| {
        let shown = env.json(["config", "show", key]);
        (shown["settings"][0]["value"].clone(), shown["settings"][0].get("not_applied").cloned())
    };
    let wide = json!("it allows more, and the project is not trusted");
    assert_eq!(not_applied("agents.dev.permission"), (json!("yolo"), Some(wide)));
    let untrusted = json!("the project is not trusted");
    assert_eq!(not_applied("agents.dev.model"), (json!("m"), Some(untrusted.clone())));
    assert_eq!(not_applied("backends.up.command"), (json!(["tr", "a-z", "A-Z"]), Some(untrusted)));
    let text = env.volery(["config", "show", "agents"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&text), @"
    SETTING                VALUE               SET BY
    agents.dev.model       m (not applied)     .volery/config.toml
    agents.dev.permission  yolo (not applied)  .volery/config.toml

    agents.dev.model is not applied: the project is not trusted
    agents.dev.permission is not applied: it allows more, and the project is not trusted
    ");
    env.volery(["trust", "--yes"]).ok();
    assert_eq!(not_applied("agents.dev.permission"), (json!("yolo"), None));
    assert!(!env.volery(["config"]).ok().stdout.contains("not applied"));
}

/// Bug: a permission that allows less was called not applied, because the same section also had a time-out.
#[test]
fn a_permission_of_an_untrusted_project_that_allows_less_is_shown_as_applied() {
    let env = TestEnv::new();
    env.rehearsal("dev", "- say: hello", "permission: safe-edit");
    let own = "[agents.dev]\npermission = \"read-only\"\ntimeout = \"5m\"\n\
               [defaults.rehearsal]\npermission = { level = \"safe-edit\", allow = [\"Bash\"], deny = [\"WebFetch\"] }\n\
               [defaults.claude]\npermission = { level = \"safe-edit\" }\n";
    std::fs::write(env.project().join(".volery/config.toml"), own).unwrap();
    let agents = env.volery(["config", "show", "agents"]).ok().stdout;
    let defaults = env.volery(["config", "show", "defaults"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&format!("{agents}\n{defaults}")), @r#"
    SETTING                    VALUE             SET BY
    agents.dev.permission      read-only         .volery/config.toml
    agents.dev.limits.timeout  5m (not applied)  .volery/config.toml

    agents.dev.limits.timeout is not applied: the project is not trusted

    SETTING                        VALUE                                                                         SET BY
    defaults.claude.permission     safe-edit                                                                     .volery/config.toml
    defaults.rehearsal.permission  { level = "safe-edit", allow = ["Bash"], deny = ["WebFetch"] } (not applied)  .volery/config.toml

    defaults.rehearsal.permission is not applied: it allows more, and the project is not trusted; only its deny rules apply
    "#);
    // The warning names no model, because the file does not set one.
    insta::assert_snapshot!(env.masked(&env.volery(["agents", "check"]).ok().stdout), @".volery/agents/dev.md: warning: [agents.dev] of .volery/config.toml: limits are not applied: the project is not trusted");
}

#[test]
fn values_can_be_written_back() {
    let env = TestEnv::new();
    env.configure(
        "[limits]\ntimeout = \"90s\"\nmemory = \"1536MiB\"\ndepth = 3\n[serve]\nallowed_hosts = [\"a\", \"b\"]\n\
         [agents.dev]\ntimeout = \"61s\"\npermission = { level = \"safe-edit\", allow = [\"Bash\"] }\n",
    );
    let shown = env.json(["config"]);
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
    let text = env.volery(["config", "show", "agents"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&text), @r#"
    SETTING                    VALUE                                      SET BY
    agents.dev.permission      { level = "safe-edit", allow = ["Bash"] }  [stage]/config/config.toml
    agents.dev.limits.timeout  1m1s                                       [stage]/config/config.toml
    "#);
    assert!(!text.contains("timeout_ms"), "{text}");
}

#[test]
fn a_section_about_nobody_is_reported_and_one_with_an_error_is_not_in_force() {
    let env = TestEnv::new();
    env.rehearsal("reviewer", "- say: hello", "");
    env.configure("[agents.elsewhere]\nmodel = \"m\"\n[agents.reviewr]\nmodel = \"m\"\n[defaults.claud]\nmodel = \"m\"\n");
    let own = "[agents.nobody]\ntimeout = \"5m\"\n[agents.reviewer]\nbudget = 5\nmodel = \"x\"\n";
    std::fs::write(env.project().join(".volery/config.toml"), own).unwrap();
    let checked = env.volery(["config", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    .volery/config.toml:4:10: error: agents.reviewer.budget: a budget in money cannot be enforced, so the section is refused
      hint: bound the work instead: timeout, limits, max_turns
    .volery/config.toml: warning: [agents.nobody]: there is no agent nobody here
    [stage]/config/config.toml: warning: [agents.reviewr]: there is no agent reviewr here
      hint: did you mean reviewer?
    [stage]/config/config.toml: warning: [defaults.claud]: there is no backend claud
      hint: did you mean claude?
    ");
    // Your file serves all projects, and another one may have this agent.
    assert!(!checked.contains("elsewhere"), "{checked}");
    env.volery(["config", "show", "agents.reviewer"]).exits(5);
}
