//! What is shown of a run that goes on has no secrets either.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;

use crate::stage::{PATIENCE, Stage, said, wait_for};

#[test]
fn a_watcher_sees_masks_instead_of_secrets() {
    let stage = Stage::new();
    let go = stage.path("go");
    stage.fake("teller", &["env", &format!("wait-file:{}", go.display())], "env: [TELLER_TOKEN]");
    let mut command = stage.command(["run", "teller", "tell", "--background"]);
    let id = said(command.env("TELLER_TOKEN", "rather-secret").output().unwrap()).ok().stdout;
    let id = id.trim();

    let socket = stage.path("state").join(format!("sockets/{:x}", stage.tag(id)));
    let mut stream = wait_for(PATIENCE, "the run's socket", || UnixStream::connect(&socket).ok());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"{\"word\":\"watch\"}\n").unwrap();
    let seen = BufReader::new(stream).lines().map(Result::unwrap).find(|line| line.contains("TELLER_TOKEN="));
    let seen: Value = serde_json::from_str(&seen.unwrap()).unwrap();
    std::fs::write(&go, "").unwrap();

    let shown = seen["progress"]["text_tail"].as_str().unwrap();
    assert!(shown.contains("TELLER_TOKEN=[redacted]") && !shown.contains("rather-secret"), "{shown}");
    let result = stage.volery(["wait", id]).ok().stdout;
    assert!(result.contains("TELLER_TOKEN=[redacted]") && !result.contains("rather-secret"), "{result}");
}

#[test]
fn what_an_agents_servers_are_handed_is_masked_too() {
    let stage = Stage::new();
    let servers = "mcp_servers: {s: {command: x, env: {S_TOKEN: '${HANDED}', T_KEY: written-in-the-file}}}\nunenforceable: warn";
    stage.fake("teller", &["say:one hand-over-value and written-in-the-file"], servers);
    let _trusted = stage.volery(["trust", "--yes"]).ok();
    let mut command = stage.command(["run", "teller", "tell"]);
    let told = said(command.env("HANDED", "hand-over-value").output().unwrap()).ok().stdout;
    assert_eq!(told.trim(), "one [redacted] and [redacted]");
}
