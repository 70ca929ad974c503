//! Every view of a run reports its denials afterwards, with the narrowest rule that allows each use. Volery does not warn about
//! commands in advance, because the decision depends on the command.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::test_env::{Client, CommandOutput, Terminal, TestEnv, command_output};

/// Imitates Claude Code: asks about each command in `$HOME/commands`, executes the allowed commands, and answers with the
/// decisions.
const CLAUDE: &str = r#"#!/bin/sh
case "$*" in *--version*) echo "2.1.325 (Claude Code)"; exit;; esac
read -r first
case $first in *control_request*)
  id=$(printf '%s' "$first" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
  printf '{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{}}}\n' "$id"
  read -r prompt;;
esac
echo '{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111","tools":[],"model":"m","mcp_servers":[]}'
number=0
decisions=
while read -r line; do
  number=$((number + 1))
  printf '{"type":"control_request","request_id":"r%s","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"%s"},"tool_use_id":"t%s"}}\n' "$number" "$line" "$number"
  read -r answer <&3
  case $answer in *'"behavior":"allow"'*) sh -c "$line" >/dev/null; decisions="$decisions yes";; *) decisions="$decisions no";; esac
done 3<&0 <"$HOME/commands"
printf '{"type":"result","subtype":"success","is_error":false,"result":"decisions:%s","session_id":"11111111-1111-4111-8111-111111111111","num_turns":1}\n' "$decisions"
"#;

fn env(commands: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    let program = env.path("bin/claude");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::write(&program, CLAUDE).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(env.path("home/commands"), format!("{}\n", commands.join("\n"))).unwrap();
    env
}

fn command(env: &TestEnv, words: &[&str]) -> Command {
    let mut command = env.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display()));
    command.env("USER", "ada").stdin(Stdio::null());
    command
}

fn volery(env: &TestEnv, words: &[&str]) -> CommandOutput {
    command_output(command(env, words).output().unwrap())
}

#[test]
fn a_denied_command_is_reported_with_the_option_that_allows_it() {
    let env = env(&["git log", "touch made", "ls | head -n 3"]);
    let run = volery(&env, &["run", "claude", "go"]).ok();
    assert_eq!(run.stdout, "decisions: yes no yes");
    insta::assert_snapshot!(env.masked(&run.stderr), @"
    [run-id] succeeded, 1 denied in [span]
    warning: denied: Bash(touch made): nobody can answer: the command has no terminal; --allow 'Bash(touch:*)' allows it
    ");
    let words = ["run", "claude", "go", "--allow", "Bash(touch:*)", "--fail-on-denied"];
    let run = volery(&env, &words).ok();
    assert_eq!(run.stdout, "decisions: yes yes yes");
    insta::assert_snapshot!(env.masked(&run.stderr), @"[run-id] succeeded in [span]");
    assert!(env.project().join("made").exists());
}

#[test]
fn a_run_with_denials_does_not_look_like_one_without() {
    let env = env(&["touch made", "touch made", "python3 x.py --fast"]);
    let run = volery(&env, &["run", "claude", "go", "--fail-on-denied"]).exits(3);
    insta::assert_snapshot!(env.masked(&run.stderr), @"
    [run-id] succeeded, 3 denied in [span]
    warning: denied: Bash(touch made): nobody can answer: the command has no terminal; --allow 'Bash(touch:*)' allows it
    warning: denied: Bash(python3 x.py --fast): nobody can answer: the command has no terminal; --allow 'Bash(python3 x.py --fast)' allows it
    ");
    let page = volery(&env, &["show"]).ok().stdout;
    let lines: Vec<&str> = page.lines().filter(|line| line.contains("denied")).collect();
    insta::assert_snapshot!(env.masked(&lines.join("\n")), @"
    status      succeeded, 3 denied
    questions   denied at once: the command has no terminal
    denied      Bash(touch made): nobody can answer: the command has no terminal; --allow 'Bash(touch:*)' allows it
    denied      Bash(python3 x.py --fast): nobody can answer: the command has no terminal; --allow 'Bash(python3 x.py --fast)' allows it
    ");
    let listed = volery(&env, &["ps", "--all"]).ok().stdout;
    // The columns are as wide as the times and the path of this machine.
    let row = env.masked(listed.lines().last().unwrap());
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>()[..5],
        ["[run-id]", "claude", "succeeded,", "3", "denied"]
    );
    let listed = volery(&env, &["ps", "--all", "--json"]).ok().json();
    assert_eq!(listed["runs"][0]["denials_count"], json!(3), "{listed}");

    let shown: Value = volery(&env, &["show", "--json"]).ok().json();
    let expected = json!([
        {"tool": "Bash", "subject": "touch made", "cause": "unattended",
            "reason": "nobody can answer: the command has no terminal", "allow_rules": ["Bash(touch:*)"]},
        {"tool": "Bash", "subject": "python3 x.py --fast", "cause": "unattended",
            "reason": "nobody can answer: the command has no terminal", "allow_rules": ["Bash(python3 x.py --fast)"]},
    ]);
    assert_eq!((&shown["denials"], &shown["denials_count"]), (&expected, &json!(3)), "{shown}");
    let mut client = Client::start(command(&env, &["serve"])).initialize("it");
    let report = client.call("get_run", json!({"run_id": env.only_run()}));
    assert_eq!(report["denials"][0]["allow_rules"], json!(["Bash(touch:*)"]), "{report}");
}

#[test]
fn lists_have_the_first_denials_of_each_run() {
    let commands: Vec<String> = (0..15).map(|number| format!("touch made{number}")).collect();
    let long = format!("touch {}", "x".repeat(100_000));
    let commands: Vec<&str> =
        std::iter::once(long.as_str()).chain(commands.iter().map(String::as_str)).collect();
    let env = env(&commands);
    volery(&env, &["run", "claude", "go"]).ok();
    let subjects = |run: &Value| -> Vec<String> {
        let denials = run["denials"].as_array().expect("a list of denials");
        denials.iter().map(|denial| denial["subject"].as_str().unwrap().to_owned()).collect()
    };
    let check = |run: &Value, expected: usize| {
        let subjects = subjects(run);
        assert_eq!((subjects.len(), &run["denials_count"]), (expected, &json!(16)), "{run}");
        assert!(subjects[0].len() < 500, "{} bytes", subjects[0].len());
        assert_eq!(subjects[1..3], ["touch made0", "touch made1"]);
        assert_eq!(run["denials"][1]["allow_rules"], json!(["Bash(touch:*)"]), "{run}");
        let reason = "nobody can answer: the command has no terminal";
        assert_eq!(run["denials"][1]["reason"], json!(reason), "{run}");
    };
    check(&volery(&env, &["ps", "--json"]).ok().json()["runs"][0], 10);
    check(&volery(&env, &["show", "--json"]).ok().json(), 16);
    let mut client = Client::start(command(&env, &["serve"])).initialize("it");
    check(&client.call("list_runs", json!({}))["runs"][0], 3);
    check(&client.call("get_run", json!({"run_id": env.only_run()})), 10);
}

#[test]
fn nothing_is_said_in_advance_about_commands() {
    let env = env(&["git log"]);
    let text = "---\nname: reviewer\ndescription: Reviews\ntools: Read, Bash\n---\nReview.\n";
    let folder = env.project().join(".claude/agents");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("reviewer.md"), text).unwrap();
    for agent in ["reviewer", "claude"] {
        let run = volery(&env, &["run", agent, "go"]).ok();
        assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    }
    let checked = volery(&env, &["agents", "check"]).ok();
    assert!(!checked.stdout.contains("Bash"), "{}", checked.stdout);
}

#[test]
fn always_writes_the_narrowest_rule_and_asks_no_more() {
    let env = env(&["touch a", "touch b && ls"]);
    env.people_answer();
    let before = std::fs::read_to_string(env.path("config/config.toml")).unwrap();
    let mut terminal = Terminal::start({
        let mut run = command(&env, &["run", "claude", "go"]);
        run.stdin(Stdio::piped());
        run
    });
    terminal.shows("[y]es  [n]o  [a]lways  [v]iew  [?] ");
    terminal.types("?");
    terminal.shows("write Bash(touch:*) into your configuration");
    terminal.types("v");
    terminal.shows("always: Bash(touch:*)");
    terminal.types("a");
    terminal.shows("permission.allow = [\"Bash(touch:*)\"]");
    // The second command causes no question, because the rule applies to the rest of the run.
    terminal.shows("decisions: yes yes");
    let (code, screen) = terminal.exits();
    assert_eq!(code, Some(0), "{screen}");
    let after = std::fs::read_to_string(env.path("config/config.toml")).unwrap();
    insta::assert_snapshot!(after.strip_prefix(&before).unwrap(), @r#"

    [agents.claude]
    permission = { allow = ["Bash(touch:*)"] }
    "#);
    let answered = env.wait_for_event(&env.only_run(), "answered");
    assert_eq!(answered["granted_rules"], json!(["Bash(touch:*)"]), "{answered}");
    // The rule applies to later runs too.
    assert_eq!(volery(&env, &["run", "claude", "go", "--unattended"]).ok().stdout, "decisions: yes yes");
}

#[test]
fn approve_always_does_the_same_from_another_terminal() {
    let env = env(&["touch a", "touch b"]);
    env.people_answer();
    let id = volery(&env, &["run", "claude", "go", "--background"]).ok().stdout.trim().to_owned();
    env.wait_for_event(&id, "asked");
    let approved = volery(&env, &["approve", &id, "--always"]).ok();
    insta::assert_snapshot!(env.masked(&format!("{}{}", approved.stdout, approved.stderr)), @r#"
    [run-id] approved a0
    [stage]/config/config.toml has now: [agents.claude] permission.allow = ["Bash(touch:*)"]
    "#);
    assert_eq!(env.wait_for_end(&id)["result"], json!("decisions: yes yes"));
}

#[test]
fn a_person_who_denies_is_named() {
    let env = env(&["touch a", "touch b"]);
    env.people_answer();
    let mut run = command(&env, &["run", "claude", "go"]);
    run.stdin(Stdio::piped());
    let mut terminal = Terminal::start(run);
    terminal.shows("[y]es  [n]o");
    terminal.types("n");
    terminal.shows("touch b");
    let id = env.only_run();
    let mut other = command(&env, &["deny", &id, "--reason", "use make instead"]);
    command_output(other.env("USER", "bo").output().unwrap()).ok();
    let (_, screen) = terminal.exits();
    for line in ["you denied: Bash(touch a)", "denied by bo: Bash(touch b): use make instead"] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
}

#[test]
fn an_unwritable_configuration_does_not_undo_the_answer() {
    let env = env(&["touch a", "touch b"]);
    env.people_answer();
    let file = env.path("config/config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let id = volery(&env, &["run", "claude", "go", "--background"]).ok().stdout.trim().to_owned();
    env.wait_for_event(&id, "asked");
    std::fs::write(&file, format!("agents = 3\n{text}")).unwrap();
    let approved = volery(&env, &["approve", &id, "--always"]);
    insta::assert_snapshot!(env.masked(&approved.stderr), @"
    error: could not write [stage]/config/config.toml: agents is not a table
    hint: write it yourself: [agents.claude] permission = …
    ");
    std::fs::write(&file, text).unwrap();
    assert_eq!(env.wait_for_end(&id)["result"], json!("decisions: yes yes"));
}
