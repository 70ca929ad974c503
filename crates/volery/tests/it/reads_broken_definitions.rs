//! A definition with mistakes is reported with its line, and other agents still work.

use serde_json::json;

use crate::test_env::TestEnv;

fn write(env: &TestEnv, name: &str, text: &str) {
    std::fs::write(env.project().join(".volery/agents").join(name), text).unwrap();
}

#[test]
fn broken_yaml_has_a_line_and_a_column_and_other_agents_work() {
    let env = TestEnv::new();
    env.rehearsal("fine", "- say: fine", "");
    write(&env, "broken.md", "---\ndescription: x\nbackend: [rehearsal\nmodel: : :\n---\n");
    let checked = env.volery(["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    .volery/agents/broken.md:4:6: error: not valid YAML: illegal placement of ':' indicator
      hint: put text with a colon in quotes
    ");
    assert_eq!(env.volery(["run", "fine", "go"]).ok().stdout, "fine\n");
    let refused = env.volery(["run", "broken", "go"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: agent broken cannot be used: .volery/agents/broken.md:4:6: not valid YAML: illegal placement of ':' indicator
    hint: put text with a colon in quotes
    ");
    let mut client = env.serve().initialize("it");
    let listed = client.call("list_agents", json!({"directory": env.project()}));
    assert_eq!(listed["agents"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn unknown_keys_warn_with_a_suggestion() {
    let env = TestEnv::new();
    write(
        &env,
        "typo.md",
        "---\ndescription: x\nbackend: rehearsal\ntimeuot: 3s\nsteps:\n  - say: hi\n---\n",
    );
    let checked = env.volery(["agents", "check"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&checked), @r#"
    .volery/agents/typo.md:4:1: warning: unknown key "timeuot" is ignored
      hint: did you mean timeout?
    "#);
    let diagnostics = env.json(["agents", "check"])["diagnostics"].clone();
    assert_eq!((&diagnostics[0]["line"], &diagnostics[0]["column"]), (&json!(4), &json!(1)), "{diagnostics}");
    assert_eq!(env.volery(["run", "typo", "go"]).ok().stdout, "hi\n");
}

#[test]
fn configuration_with_mistakes_is_reported_and_the_rest_counts() {
    let env = TestEnv::new();
    env.backend("upper", &["tr", "a-z", "A-Z"]).agent("shout", "backend: upper");
    env.configure("[slotz]\ncount = 3\n[backends.half]\ncomand = [\"x\"]\n");
    let checked = env.volery(["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @r#"
    [stage]/config/config.toml:5:2: warning: unknown key "slotz" is ignored
      hint: did you mean slots?
    [stage]/config/config.toml:7:1: error: the key backends.half.command is missing
      hint: add for example command = ["program", "argument"]
    [stage]/config/config.toml:8:1: warning: unknown key "comand" in backends.half is ignored
      hint: did you mean command?
    "#);
    assert_eq!(env.volery(["run", "shout", "hello"]).ok().stdout, "HELLO");
    env.configure("[limits]\nmemory = \"plenty\"\n");
    let refused = env.volery(["run", "shout", "hello"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&refused), @r#"
    error: the configuration has errors, so nothing is started:
      [stage]/config/config.toml:7:1: error: the key backends.half.command is missing (hint: add for example command = ["program", "argument"])
      [stage]/config/config.toml:11:10: error: limits.memory: expected a size, found the text "plenty" (hint: write for example 512MiB or 2G; a number counts bytes)
    hint: `volery agents check` lists everything that is wrong
    "#);
}

#[test]
fn an_agent_without_its_backend_says_which_one_is_meant() {
    let env = TestEnv::new();
    env.backend("upper", &["tr", "a-z", "A-Z"]).agent("lost", "backend: uper");
    let refused = env.volery(["run", "lost", "go"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: agent lost needs the backend uper, which is not configured
    hint: did you mean upper? [stage]/project/.volery/agents/lost.md names it
    ");
    let checked = env.volery(["agents", "check"]).exits(1).stdout;
    insta::assert_snapshot!(env.masked(&checked), @"
    .volery/agents/lost.md:3:1: error: agent lost needs the backend uper, which is not configured
      hint: did you mean upper? [stage]/project/.volery/agents/lost.md names it
    ");
}

#[test]
fn a_permission_that_cannot_be_enforced_stops_the_run_unless_a_warning_will_do() {
    let env = TestEnv::new();
    env.backend("upper", &["tr", "a-z", "A-Z"]);
    env.agent("strict", "backend: upper\npermission: {level: read-only, deny: ['Bash(rm:*)']}");
    env.agent("easy", "backend: upper\npermission: read-only\nunenforceable: warn\neffort: high");
    let refused = env.volery(["run", "strict", "go"]).exits(3).stderr;
    insta::assert_snapshot!(env.masked(&refused), @"
    error: agent strict: the backend upper cannot enforce the level read-only, the rule deny Bash(rm:*)
    hint: choose another backend, or write unenforceable: warn into the agent's file
    ");
    let listed = env.json(["agents"]);
    insta::assert_snapshot!(env.masked_texts(&listed["agents"][1]["problem"]), @"
    the backend upper cannot enforce the level read-only, the rule deny Bash(rm:*)
    hint: choose another backend, or write unenforceable: warn into the agent's file
    ");
    env.volery(["trust", "--yes"]).ok();
    env.volery(["run", "easy", "go"]).ok();
    insta::assert_snapshot!(env.masked_texts(&env.spec(&env.only_run())["warnings"]), @"
    effort is not honoured by upper
    the level read-only is not enforced by upper
    ");
}
