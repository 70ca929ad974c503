//! That commands are denied where nobody can be asked is said before the run, once per agent, with the line that allows
//! them.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::test_env::{CommandOutput, TestEnv, command_output, facts};

fn env() -> TestEnv {
    let env = TestEnv::new();
    let program = env.path("bin/claude");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "#!/bin/sh\nexit 9\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let folder = env.project().join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: reviewer\ndescription: Reviews\ntools: Read, Bash\n---\nReview.\n";
    std::fs::write(folder.join("reviewer.md"), text).unwrap();
    env
}

fn volery(env: &TestEnv, words: &[&str]) -> CommandOutput {
    let mut command = env.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display()));
    command_output(command.stdin(Stdio::null()).output().unwrap())
}

fn warnings_of_run(env: &TestEnv, agent: &str, words: &[&str]) -> Vec<String> {
    volery(env, &[&["run", agent, "go", "--timeout", "20s"], words].concat()).exits(1);
    let spec = env.spec(env.runs().last().unwrap());
    let warnings = spec["warnings"].as_array().cloned().unwrap_or_default();
    let about_tools =
        |warning: &Value| warning.as_str().filter(|text| text.starts_with("tools:")).map(str::to_owned);
    warnings.iter().filter_map(about_tools).collect()
}

#[test]
fn what_is_to_be_written_works_as_it_stands() {
    let env = env();
    let warnings = warnings_of_run(&env, "reviewer", &[]);
    let (_, advice) = warnings[0].split_once("to allow that, write ").unwrap();
    let (line, rest) = advice.split_once(" under ").unwrap();
    let (section, _) = rest.split_once(" in your configuration").unwrap();
    env.configure(&format!("{section}\n{line}\n"));
    assert_eq!(warnings_of_run(&env, "reviewer", &[]), Vec::<String>::new());
}

#[test]
fn in_the_check_on_the_page_and_in_the_warnings_of_a_run() {
    let env = env();
    let checked = volery(&env, &["agents", "check"]).ok().stdout;
    insta::assert_snapshot!(env.masked(&checked), @r#"
    .claude/agents/reviewer.md: warning: claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    .claude/agents/reviewer.md:4:1: warning: tools: Bash needs an answer from a person, and is denied where nobody can answer; to allow that, write permission = { allow = ["Bash"] } under [agents.reviewer] in your configuration
    "#);
    let page = volery(&env, &["agents", "show", "reviewer"]).ok().stdout;
    insta::assert_snapshot!(env.masked(facts(&page)), @r#"
    agent       reviewer
    description Reviews
    file        .claude/agents/reviewer.md (claude format, project layer)
    backend     claude
    model       the backend's default
    settings    callers: "anyone"
                containment: "auto"
                delegates: "nobody"
                on_interrupt: "end"
                prompt_mode: "replace"
                tools: ["Read","Bash"]
    warning     claude does not tell its version (asked with --version, it exits with 9); [version] to [version] is what volery fits
    warning     tools: Bash needs an answer from a person, and is denied where nobody can answer; to allow that, write permission = { allow = ["Bash"] } under [agents.reviewer] in your configuration
    "#);
    let warnings = warnings_of_run(&env, "reviewer", &[]);
    insta::assert_snapshot!(env.masked(&warnings.join("\n")), @r#"tools: Bash is denied: without a level safe-edit holds, which does not allow it, and nobody can answer: the command has no terminal; to allow that, write permission = { allow = ["Bash"] } under [agents.reviewer] in your configuration"#);
    // An agent without a list has every tool.
    let warnings = warnings_of_run(&env, "claude", &[]);
    insta::assert_snapshot!(env.masked(&warnings.join("\n")), @r#"tools: Bash is denied: without a level safe-edit holds, which does not allow it, and nobody can answer: the command has no terminal; to allow that, write permission = { allow = ["Bash"] } under [agents.claude] in your configuration"#);
}

#[test]
fn not_where_it_is_allowed() {
    let env = env();
    assert_eq!(warnings_of_run(&env, "reviewer", &["--allow", "Bash"]), [""; 0]);
    env.configure("[agents.reviewer]\npermission = { allow = [\"Bash\"] }\n");
    assert_eq!(warnings_of_run(&env, "reviewer", &[]), [""; 0]);
    let text = volery(&env, &["agents", "check"]).ok().stdout;
    assert!(!text.contains("Bash"), "{text}");
}
