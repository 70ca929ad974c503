//! A real program whose keeper and worker are both killed: whoever looks next ends the run and leaves nothing.

use std::process::Stdio;

use model_server::{Purpose, Reply};
use rustix::process::Signal;
use serde_json::json;

use super::place::{PATIENCE, Place, Vendor};
use crate::stage::{crew, said, wait_for};

#[test]
fn leaves_neither_processes_nor_temporary_files() {
    let vendor = Vendor::named("copilot");
    let Some(place) = Place::make(&vendor, "killed", vec![Reply::hang().always()]) else { return };
    place.agent(&vendor, "timeout: 100s");
    let mut command = place.command(&["run", "worker", "Wait.", "--background"]);
    let id = said(command.stdin(Stdio::null()).output().unwrap()).ok().stdout.trim().to_owned();
    let asked =
        |seen: &[model_server::Seen]| seen.iter().any(|seen| matches!(seen.purpose, Purpose::Work(_)));
    assert!(place.offline.server().wait_until(PATIENCE, asked));
    assert!(
        place.temporary_entries() > 0,
        "this program has no temporary files, so this test proves nothing"
    );
    let crew = crew(&place.stage.run_dir(&id));
    // The keeper first: alive, it would end the run itself.
    for one in [crew.keeper.unwrap(), crew.worker.unwrap()] {
        one.signal(Signal::KILL);
    }
    let run = wait_for(PATIENCE, "a look to end the run", || {
        Some(place.volery(&["show", &id, "--json"]).json()).filter(|run| run["ended"] == json!(true))
    });
    assert_eq!(run["status"], json!("interrupted"), "{run}");
    place.check_nothing_left(&run);
}
