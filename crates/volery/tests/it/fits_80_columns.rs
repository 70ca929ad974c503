//! The screens that a new user sees first, on a real terminal of 80 columns.

use std::os::unix::fs::PermissionsExt;

use crate::test_env::{Terminal, TestEnv};

/// A project with agents that can run, that cannot, and that have run; and one program of a vendor.
fn env() -> TestEnv {
    let env = TestEnv::new();
    env.configure("[slots]\ncount = 16\n");
    std::fs::create_dir_all(env.path("bin")).unwrap();
    let claude = env.path("bin/claude");
    std::fs::write(&claude, "#!/bin/sh\n[ \"$1\" = --version ] && echo 2.1.325\n").unwrap();
    std::fs::set_permissions(&claude, PermissionsExt::from_mode(0o755)).unwrap();
    env.rehearsal("shouter", "- say: HELLO", "when_to_use: Whenever a text that is rather long and winding has to be said again in capital letters");
    env.rehearsal("a-name-that-is-longer-than-most-names-of-agents", "- say: done", "");
    env.agent("writer", "backend: gemini");
    env.agent("broken", "backend: rehearsal\nsteps:\n  - sing: loud");
    env.rehearsal("failer", "- fail: the service that this agent needs has not answered for a long time", "");
    for agent in ["shouter", "a-name-that-is-longer-than-most-names-of-agents", "failer"] {
        let prompt =
            "Say what is written in the file docs/introduction.md, and nothing else, in capital letters";
        drop(env.volery(["run", agent, prompt]));
    }
    env
}

/// Returns what a command shows on a terminal, and fails if a line of it is too long.
fn screen(env: &TestEnv, words: &[&str]) -> String {
    let mut command = env.command(words);
    command.env("NO_COLOR", "1").env("PATH", format!("{}:/usr/bin:/bin", env.path("bin").display()));
    // So that paths are as long as those of a user.
    command.env("HOME", env.path(""));
    let (_, screen) = Terminal::start(command).exits();
    let screen = screen.replace("\r\n", "\n");
    for line in screen.lines() {
        // A path or a command that has no blank is left in one piece, so that it can be copied.
        let unbroken = line.trim_start().split(' ').any(|word| word.chars().count() > 40);
        assert!(line.chars().count() <= 80 || unbroken, "{words:?} shows a long line: {line}");
    }
    env.masked(&screen)
}

#[test]
fn first_screens() {
    let env = env();
    insta::assert_snapshot!("start_page", screen(&env, &[]));
    insta::assert_snapshot!("agents", screen(&env, &["agents"]));
    insta::assert_snapshot!("agents_check", screen(&env, &["agents", "check"]));
    insta::assert_snapshot!("show", screen(&env, &["show"]));
    insta::assert_snapshot!("config", screen(&env, &["config"]));
    insta::assert_snapshot!("unknown_agent", screen(&env, &["run", "shoutre", "hi"]));
    // What these show depends on the machine and on how long the runs took; their tables are held at three widths in `report`.
    let pages = [
        &["agents", "show", "shouter"][..],
        &["agents", "show", "writer"],
        &["logs"],
        &["run", "shouter", "hi", "-v"],
    ];
    let tables = [&["ps", "--all"][..], &["health"], &["doctor"], &["prices"]];
    for words in tables.into_iter().chain(pages) {
        screen(&env, words);
    }
}
