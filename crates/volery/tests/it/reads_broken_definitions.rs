//! A definition with mistakes is reported with its place, and keeps no other agent from working.

use serde_json::json;

use crate::stage::Stage;

fn write(stage: &Stage, name: &str, text: &str) {
    std::fs::write(stage.project().join(".volery/agents").join(name), text).unwrap();
}

#[test]
fn broken_yaml_has_a_line_and_a_column_and_other_agents_work() {
    let stage = Stage::new();
    stage.rehearsal("fine", "- say: fine", "");
    write(&stage, "broken.md", "---\ndescription: x\nbackend: [rehearsal\nmodel: : :\n---\n");
    let file = stage.project().join(".volery/agents/broken.md").display().to_string();
    let checked = stage.volery(["agents", "check"]).exits(1).stdout;
    assert!(checked.contains(&format!("{file}:4:6: error: not valid YAML: ")), "{checked}");
    assert_eq!(stage.volery(["run", "fine", "go"]).ok().stdout, "fine\n");
    let refused = stage.volery(["run", "broken", "go"]).exits(5).stderr;
    assert!(refused.contains(&format!("hint: its file has a problem: {file}:4:6: error:")), "{refused}");
    let mut client = stage.serve().initialize("it");
    let listed = client.call("list_agents", json!({"directory": stage.project()}));
    assert_eq!(listed["agents"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn unknown_keys_warn_with_a_suggestion() {
    let stage = Stage::new();
    write(
        &stage,
        "typo.md",
        "---\ndescription: x\nbackend: rehearsal\ntimeuot: 3s\nsteps:\n  - say: hi\n---\n",
    );
    let checked = stage.volery(["agents", "check"]).ok().stdout;
    assert!(checked.contains(
        "typo.md:4:1: warning: unknown key \"timeuot\" is ignored\n  hint: did you mean timeout?\n"
    ));
    let diagnostics = stage.json(["agents", "check"])["diagnostics"].clone();
    assert_eq!((&diagnostics[0]["line"], &diagnostics[0]["column"]), (&json!(4), &json!(1)), "{diagnostics}");
    assert_eq!(stage.volery(["run", "typo", "go"]).ok().stdout, "hi\n");
}

#[test]
fn configuration_with_mistakes_is_reported_and_the_rest_counts() {
    let stage = Stage::new();
    stage.backend("upper", &["tr", "a-z", "A-Z"]).agent("shout", "backend: upper");
    stage.configure("[slotz]\ncount = 3\n[backends.half]\ncomand = [\"x\"]\n");
    let checked = stage.volery(["agents", "check"]).exits(1).stdout;
    assert!(
        checked.contains("warning: unknown key \"slotz\" is ignored\n  hint: did you mean slots?"),
        "{checked}"
    );
    assert!(checked.contains("error: the key backends.half.command is missing"), "{checked}");
    assert_eq!(stage.volery(["run", "shout", "hello"]).ok().stdout, "HELLO");
    stage.configure("[limits]\nmemory = \"plenty\"\n");
    let refused = stage.volery(["run", "shout", "hello"]).exits(2).stderr;
    assert!(refused.starts_with("error: the configuration has errors, so nothing is started:"), "{refused}");
    assert!(
        refused.contains("limits.memory"),
        "a limit that cannot be read is not simply left out: {refused}"
    );
}

#[test]
fn an_agent_without_its_backend_says_which_one_is_meant() {
    let stage = Stage::new();
    stage.backend("upper", &["tr", "a-z", "A-Z"]).agent("lost", "backend: uper");
    let refused = stage.volery(["run", "lost", "go"]).exits(2).stderr;
    assert!(
        refused.starts_with(
            "error: agent lost needs the backend uper, which is not configured\nhint: did you mean upper?"
        ),
        "{refused}"
    );
    let checked = stage.volery(["agents", "check"]).exits(1).stdout;
    assert!(
        checked.contains(
            "error: agent lost needs the backend uper, which is not configured\n  hint: did you mean upper?"
        ),
        "{checked}"
    );
}

#[test]
fn a_permission_that_cannot_be_enforced_stops_the_run_unless_a_warning_will_do() {
    let stage = Stage::new();
    stage.backend("upper", &["tr", "a-z", "A-Z"]);
    stage.agent("strict", "backend: upper\npermission: {level: read-only, deny: ['Bash(rm:*)']}");
    stage.agent("easy", "backend: upper\npermission: read-only\nunenforceable: warn\neffort: high");
    let refused = stage.volery(["run", "strict", "go"]).exits(3).stderr;
    let reason = "the backend upper cannot enforce the level read-only, the rule deny Bash(rm:*)";
    assert!(refused.contains(&format!("agent strict: {reason}")), "{refused}");
    let listed = stage.json(["agents"]);
    let hint = "choose another backend, or write unenforceable: warn into the agent's file";
    assert_eq!(listed["agents"][1]["problem"], json!(format!("{reason}\nhint: {hint}")), "{listed}");
    let run = stage.json(["run", "easy", "go"]);
    let warnings = json!(["effort is not honoured by upper", "the level read-only is not enforced by upper"]);
    assert_eq!(stage.spec(&stage.only_run())["warnings"], warnings, "{run}");
}
