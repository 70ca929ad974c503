//! Checks how Volery shows the steps of real programs: while they work, with `run --verbose` on a terminal, and in the transcript
//! afterwards.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use fake_llm::ScriptedReply;
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};

use super::vendor_env::{PATIENCE, Vendor, VendorEnv};
use crate::test_env::{Terminal, wait_for};

/// Moves the cursor to the beginning of the live display and erases it.
const ERASED: &str = "\u{1b}[J";

/// Runs an agent that executes a command and writes a file. The command ends when the live display has shown it. Returns the
/// lines of the steps on the terminal, and the transcript.
fn steps_and_transcript(name: &'static str) -> Option<(Vec<String>, String)> {
    let vendor = Vendor::new(name);
    let vendor_env = VendorEnv::make_for(&[name], "transcript", Vec::new())?;
    let made = vendor_env.env.project().join("made.txt");
    let pipe = vendor_env.env.project().join("birds");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    vendor_env.offline.server().add([
        vendor.executes("cat birds"),
        vendor.writes(&made, "by hand"),
        ScriptedReply::say("It is done."),
    ]);
    vendor_env.agent(&vendor, "permission: yolo\ntimeout: 100s");
    let mut run = vendor_env.command(&["run", "worker", "Count, then write.", "--verbose"]);
    run.env("NO_COLOR", "1");
    let terminal = Terminal::start(run);
    wait_for(PATIENCE, "the command in the live display", || {
        let is_shown = |line: &str| line.contains(" worker  running ") && line.contains("$ cat birds");
        terminal.screen().lines().any(is_shown).then_some(())
    });
    let mut writer = wait_for(PATIENCE, "the reader of the pipe", || {
        OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&pipe).ok()
    });
    writer.write_all(b"herons\n").unwrap();
    drop(writer);
    let (code, screen) = terminal.exits();
    assert!(code == Some(0) && screen.contains("It is done."), "{screen}");
    let transcript = vendor_env.volery(&["logs"]).ok().stdout;
    let lines = screen.lines().map(|line| line.rsplit(ERASED).next().unwrap_or_default());
    let lines = lines.map(|line| vendor_env.env.masked(line.trim_end())).collect();
    Some((lines, vendor_env.env.masked(&transcript)))
}

/// Checks that the output shows the task, both steps in order, and the answer.
#[track_caller]
fn shows_steps(name: &'static str, expected: [&str; 2]) {
    let Some((lines, transcript)) = steps_and_transcript(name) else { return };
    let steps: Vec<&String> = lines.iter().filter(|line| expected.contains(&line.as_str())).collect();
    assert_eq!(steps, expected, "{lines:?}");
    let called: Vec<&str> = transcript.lines().filter_map(|line| line.strip_prefix("→ ")).collect();
    assert_eq!(called, expected, "{transcript}");
    let [task, result, answer] = ["\n> Count, then write.\n", "\n    herons\n", "\nIt is done.\n"];
    assert!([task, result, answer].iter().all(|part| transcript.contains(part)), "{transcript}");
    assert!(transcript.contains("✓ succeeded in "), "{transcript}");
}

#[test]
fn claude_reports_its_steps() {
    shows_steps("claude", ["$ cat birds", "Write made.txt"]);
}

#[test]
fn codex_reports_its_steps() {
    shows_steps("codex", ["$ cat birds", "$ printf %s 'by hand' > '[stage]/project/made.txt'"]);
}

#[test]
fn opencode_reports_its_steps_over_acp() {
    shows_steps("acp-opencode", ["$ cat birds", "Write made.txt"]);
}

/// Answers a real program's question with *always*, and starts it again where nobody can answer.
#[track_caller]
fn needs_one_answer(name: &'static str) {
    let vendor = Vendor::new(name);
    let Some(vendor_env) = VendorEnv::make_for(&[name], "always", Vec::new()) else { return };
    vendor_env.env.people_answer();
    vendor_env.agent(&vendor, "timeout: 100s");
    let made = vendor_env.env.project().join("made.txt");
    let script = || [vendor.executes("touch made.txt"), ScriptedReply::say("It is done.")];
    vendor_env.offline.server().add(script());
    let mut terminal = Terminal::start(vendor_env.command(&["run", "worker", "Touch it."]));
    terminal.shows("always: allow Bash(touch:*) for the agent worker in all your projects");
    terminal.shows("[y]es  [n]o  [a]lways  [v]iew  [?] ");
    assert!(!made.exists(), "it was executed before the answer");
    terminal.types("a");
    terminal.shows("permission.allow = [\"Bash(touch:*)\"]");
    let (code, screen) = terminal.exits();
    assert!(code == Some(0) && screen.contains("It is done.") && made.exists(), "{screen}");
    std::fs::remove_file(&made).unwrap();
    vendor_env.offline.server().add(script());
    let again = vendor_env.volery(&["run", "worker", "Touch it.", "--unattended", "--fail-on-denied"]).ok();
    assert!(made.exists(), "{}", again.stderr);
    // Another command is still denied, and the end of the run says which rule would allow it.
    vendor_env.offline.server().add([vendor.executes("mkdir new"), ScriptedReply::say("It is not done.")]);
    let denied =
        vendor_env.volery(&["run", "worker", "Make it.", "--unattended", "--fail-on-denied"]).exits(3);
    let says = |text: &str| assert!(denied.stderr.contains(text), "{}", denied.stderr);
    says(" succeeded, 1 denied in ");
    says("--allow 'Bash(mkdir:*)' allows it");
}

#[test]
fn claude_needs_one_answer() {
    needs_one_answer("claude");
}

#[test]
fn qwen_needs_one_answer() {
    needs_one_answer("qwen");
}

#[test]
fn goose_needs_one_answer_over_acp() {
    needs_one_answer("acp-goose");
}
