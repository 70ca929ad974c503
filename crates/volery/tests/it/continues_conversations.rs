//! `--continue` finds the last conversation of its caller in a directory, and `--session` and `--fork` take the id of a run.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::test_env::{TestEnv, command_output};

/// Two agents whose program stores no conversation and repeats its prompt.
fn parrots() -> TestEnv {
    let env = TestEnv::new();
    env.backend("parrot", &["cat"]).agent("parrot", "backend: parrot").agent("other", "backend: parrot");
    env
}

/// Returns the requests of the user in a prompt with a history, oldest first, and the agent's session.
fn continued(env: &TestEnv, words: &[&str]) -> (String, String, String) {
    let run = env.json([&["run", "--continue"], words].concat());
    let text = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
    (text("agent"), text("session"), text("result"))
}

#[test]
fn the_last_conversation_in_the_directory_is_continued() {
    let env = parrots();
    let none = env.volery(["run", "--continue", "two"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&none), @r#"
    error: you have no conversation in [stage]/project
    hint: start one: volery run AGENT "…"; to continue one of another directory: volery run --continue --dir DIR "…"
    "#);
    let first = env.json(["run", "parrot", "one"]);
    let other = env.json(["run", "other", "of another"]);
    let elsewhere = env.project().join("below");
    fs::create_dir(&elsewhere).unwrap();
    env.volery(["run", "other", "elsewhere", "--dir", elsewhere.to_str().unwrap()]).ok();

    let (agent, session, answer) = continued(&env, &["go on, please"]);
    assert_eq!((agent, json!(session)), ("other".to_owned(), other["session"].clone()));
    assert!(answer.contains("\n\nof another\n") && answer.ends_with("\ngo on, please"), "{answer}");
    // With a named agent, `--continue` uses that agent's last conversation, and the words after the name are the prompt.
    let (agent, session, answer) = continued(&env, &["parrot", "two", "words"]);
    assert_eq!((agent, json!(session)), ("parrot".to_owned(), first["session"].clone()));
    assert!(answer.contains("\n\none\n") && answer.ends_with("\ntwo words"), "{answer}");

    let shown = env.volery(["run", "-c", "three"]).ok();
    insta::assert_snapshot!(env.masked(shown.stderr.lines().next().unwrap()), @"continues the conversation of [run-id] parrot: two words");
    env.agent("unused", "backend: parrot");
    let none = env.volery(["run", "--continue", "unused", "x"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&none), @r#"
    error: you have no conversation with unused in [stage]/project
    hint: start one: volery run unused "…"; to continue one of another directory: volery run --continue --dir DIR "…"
    "#);
}

#[test]
fn a_run_stands_for_its_session() {
    let env = parrots();
    let first = env.json(["run", "parrot", "one"]);
    let (id, short) = (first["run_id"].as_str().unwrap(), first["short_id"].as_str().unwrap());
    let second = env.json(["run", "parrot", "two", "--session", short]);
    assert_eq!(second["session"], first["session"]);
    // The id of a run that continued a conversation also names that conversation.
    let third = env.json(["run", "parrot", "three", "--session", second["run_id"].as_str().unwrap()]);
    assert_eq!(third["session"], first["session"]);
    for reference in [id, short] {
        let copy = env.json(["run", "parrot", "four", "--fork", reference]);
        assert_ne!(copy["session"], first["session"]);
        assert!(copy["result"].as_str().unwrap().contains("\n\none\n"), "{copy}");
    }
    let unknown = env.volery(["run", "parrot", "x", "--session", "0000"]).exits(5).stderr;
    insta::assert_snapshot!(env.masked(&unknown), @r"
    error: there is no session 0000
    hint: `volery show RUN` (over MCP: get_run) prints the session of an earlier run; without a session a new conversation begins
    ");
}

#[test]
fn a_run_without_a_session_cannot_be_continued() {
    let env = TestEnv::new();
    let claude = env.path("home/bin/claude");
    fs::create_dir_all(claude.parent().unwrap()).unwrap();
    fs::write(&claude, "#!/bin/sh\n[ \"$1\" = --version ] && echo 2.1.0 && exit\nexit 9\n").unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    env.agent("coder", "backend: claude");
    let path = format!("{}:/usr/bin:/bin", claude.parent().unwrap().display());
    let volery = |words: &[&str]| command_output(env.command(words).env("PATH", &path).output().unwrap());
    volery(&["run", "coder", "x"]).exits(1);
    let run = env.only_run();
    let refused = volery(&["run", "coder", "y", "--session", &run]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&refused), @r#"
    error: the run [run-id] has no session: claude reported none
    hint: start a new conversation: volery run coder "…"
    "#);
    assert_eq!(volery(&["run", "--continue", "y"]).exits(5).stdout, "");
}

#[test]
fn several_words_are_one_prompt() {
    let env = parrots();
    let joined = env.volery(["run", "parrot", "explain", "this", "--timeout", "5m", "repo"]).ok();
    assert_eq!(joined.stdout.trim_end(), "explain this repo");
    let dashes = env.volery(["run", "parrot", "what", "does", "--", "--timeout", "do?"]).ok();
    assert_eq!(dashes.stdout.trim_end(), "what does --timeout do?");
    let unknown = env.volery(["run", "parrot", "what", "does", "--force", "do?"]).exits(2).stderr;
    insta::assert_snapshot!(env.masked(&unknown), @r"
    error: unexpected argument '--force' found

      tip: a similar argument exists: '--fork'

    Usage: volery run --fork <SESSION> <AGENT> <PROMPT>...

    For more information, try '--help'.
    ");
}
