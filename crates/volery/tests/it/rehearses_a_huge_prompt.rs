//! A text that takes more than a line of the journal is recorded in several.

use std::io::Write;
use std::process::Stdio;

use crate::test_env::{TestEnv, command_output};

#[test]
fn a_prompt_that_grows_when_it_is_written_as_json_is_answered() {
    let env = TestEnv::new();
    env.rehearsal("echo", "- say: \"{prompt}\"", "");
    let mut command = env.command(["run", "echo"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Each quotation mark takes two bytes in the journal, so the whole takes twice what a line may hold.
    child.stdin.take().unwrap().write_all(&vec![b'"'; 1_000_000]).unwrap();
    let output = command_output(child.wait_with_output().unwrap()).ok();
    assert!(output.stdout.starts_with("\"\"\"\""), "{}", output.stderr);
}
