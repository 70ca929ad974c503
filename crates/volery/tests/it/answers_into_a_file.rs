//! The protocol of the response file, with a fake Kiro: the file counts first, then what was written, and only if
//! both are empty, the same conversation gets a second prompt.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::test_env::{TestEnv, command_output};

const FRONTMATTER: &str = "backend: kiro
response_file:
  template: 'Write your answer to {{RESPONSE_FILE}}.'
  summary_template: 'Sum up what you did.'
";

/// Runs an agent on a program that does this the first time, and prints a summary at the second prompt.
fn run(first: &str) -> (Value, Vec<String>) {
    let env = TestEnv::new();
    let (bin, calls) = (env.path("bin"), env.path("calls"));
    fs::create_dir(&bin).unwrap();
    let file = "file=$(echo \"$*\" | sed -n 's/.*answer to \\(.*\\)\\.$/\\1/p')";
    let script = format!(
        "#!/bin/sh\n[ \"$*\" = --version ] && echo kiro-cli 2.3.0 && exit\necho \"$PWD|$*\" | tr '\\n' ' ' >> '{calls}'; echo >> '{calls}'\n{file}\n\
         case \"$*\" in *--resume*) echo '> The summary.' ;; *) {first} ;; esac\n\
         echo ' \u{25b8} Credits: 0.1 \u{2022} Time: 1s' >&2\n",
        calls = calls.display()
    );
    fs::write(bin.join("kiro-cli"), script).unwrap();
    fs::set_permissions(bin.join("kiro-cli"), PermissionsExt::from_mode(0o755)).unwrap();
    env.agent("worker", FRONTMATTER);
    let mut command = env.command(["run", "worker", "Count the herons.", "--json"]);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let run = command_output(command.stdin(Stdio::null()).output().unwrap()).json();
    (run, fs::read_to_string(calls).unwrap().lines().map(ToOwned::to_owned).collect())
}

#[track_caller]
fn answers(first: &str, answer: &str, calls: usize) {
    let (run, seen) = run(first);
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!(answer)), "{run}");
    assert_eq!(seen.len(), calls, "{seen:?}");
}

#[test]
fn the_file_counts_before_what_was_written() {
    answers("echo 'Three herons.' > \"$file\"; echo '> I wrote it.'", "Three herons.", 1);
}

#[test]
fn without_a_file_what_was_written_is_the_answer() {
    answers("echo '> Three herons.'", "Three herons.", 1);
}

#[test]
fn an_empty_answer_is_retried_once_in_the_same_conversation() {
    let (run, seen) = run(":");
    assert_eq!((&run["status"], &run["result"]), (&json!("succeeded"), &json!("The summary.")), "{run}");
    assert_eq!(seen.len(), 2, "{seen:?}");
    let folders: Vec<&str> = seen.iter().map(|call| call.split_once('|').unwrap().0).collect();
    assert_eq!(folders[0], folders[1], "it finds its conversation by its directory");
    assert!(folders[0].ends_with("/work/session"), "nobody else works there: {folders:?}");
    assert!(seen[1].contains("--resume") && seen[1].contains("Sum up what you did."), "{seen:?}");
    insta::assert_snapshot!(run["warnings"], @r#"["kiro: there is no answer"]"#);
}

#[test]
fn output_about_tools_only_counts_as_an_empty_answer() {
    answers("echo 'Using tool: execute_bash'; echo ' \u{25cf} Completed'; echo", "The summary.", 2);
}

#[test]
fn a_program_that_fails_is_not_retried() {
    let (run, seen) = run("echo broken >&2; exit 1");
    assert_eq!((&run["status"], seen.len()), (&json!("failed"), 1), "{run}");
}
