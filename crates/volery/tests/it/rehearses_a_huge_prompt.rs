//! A text that takes more than a line of the journal is recorded in several.

use std::io::Write;
use std::process::Stdio;

use crate::stage::{Stage, said};

#[test]
fn a_prompt_that_grows_when_it_is_written_as_json_is_said() {
    let stage = Stage::new();
    stage.rehearsal("echo", "- say: \"{prompt}\"", "");
    let mut command = stage.command(["run", "echo"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Each quotation mark takes two bytes in the journal, so the whole takes twice what a line may hold.
    child.stdin.take().unwrap().write_all(&vec![b'"'; 1_000_000]).unwrap();
    let said = said(child.wait_with_output().unwrap()).ok();
    assert!(said.stdout.starts_with("\"\"\"\""), "{}", said.stderr);
}
