//! The keeper and the worker of a real program are both killed: the next command ends the run and leaves nothing.

use std::process::Stdio;

use fake_llm::{RequestPurpose, ScriptedReply};
use rustix::process::Signal;
use serde_json::json;

use super::vendor_env::{PATIENCE, Vendor, VendorEnv};
use crate::test_env::{command_output, run_processes, wait_for};

#[test]
fn leaves_neither_processes_nor_temporary_files() {
    let vendor = Vendor::new("copilot");
    let Some(vendor_env) = VendorEnv::make(&vendor, "killed", vec![ScriptedReply::hang().always()]) else {
        return;
    };
    vendor_env.agent(&vendor, "timeout: 100s");
    let mut command = vendor_env.command(&["run", "worker", "Wait.", "--background"]);
    let id = command_output(command.stdin(Stdio::null()).output().unwrap()).ok().stdout.trim().to_owned();
    let has_work_request = |seen: &[fake_llm::RecordedRequest]| {
        seen.iter().any(|seen| matches!(seen.purpose, RequestPurpose::Work(_)))
    };
    assert!(vendor_env.offline.server().wait_until(PATIENCE, has_work_request));
    assert!(
        vendor_env.temporary_entries() > 0,
        "this program has no temporary files, so this test proves nothing"
    );
    let run_processes = run_processes(&vendor_env.env.run_dir(&id));
    // The keeper first: alive, it would end the run itself.
    for one in [run_processes.keeper.unwrap(), run_processes.worker.unwrap()] {
        one.signal(Signal::KILL);
    }
    let run = wait_for(PATIENCE, "a look to end the run", || {
        Some(vendor_env.volery(&["show", &id, "--json"]).json()).filter(|run| run["ended"] == json!(true))
    });
    assert_eq!(run["status"], json!("interrupted"), "{run}");
    vendor_env.check_nothing_left(&run);
}
