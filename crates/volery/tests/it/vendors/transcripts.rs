//! Checks how Volery shows the steps of real programs: with `run --verbose` while they work, and in the transcript afterwards.

use fake_llm::ScriptedReply;

use super::vendor_env::{Vendor, VendorEnv};
use crate::test_env::Terminal;

/// Runs an agent that executes a command and writes a file. Returns the lines on standard error and the transcript.
fn steps_and_transcript(name: &'static str) -> Option<(Vec<String>, String)> {
    let vendor = Vendor::new(name);
    let vendor_env = VendorEnv::make_for(&[name], "transcript", Vec::new())?;
    let made = vendor_env.env.project().join("made.txt");
    vendor_env.offline.server().add([
        vendor.executes("echo herons"),
        vendor.writes(&made, "by hand"),
        ScriptedReply::say("It is done."),
    ]);
    vendor_env.agent(&vendor, "permission: yolo\ntimeout: 100s");
    let run = vendor_env.volery(&["run", "worker", "Count, then write.", "--verbose"]).ok();
    assert_eq!(run.stdout.trim_end(), "It is done.");
    let transcript = vendor_env.volery(&["logs"]).ok().stdout;
    let lines = run.stderr.lines().map(|line| vendor_env.env.masked(line)).collect();
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
    shows_steps("claude", ["$ echo herons", "Write made.txt"]);
}

#[test]
fn codex_reports_its_steps() {
    shows_steps("codex", ["$ echo herons", "$ printf %s 'by hand' > '[stage]/project/made.txt'"]);
}

#[test]
fn opencode_reports_its_steps_over_acp() {
    shows_steps("acp-opencode", ["$ echo herons", "Write made.txt"]);
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
