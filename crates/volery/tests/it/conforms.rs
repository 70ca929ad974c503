//! The product as it is against the protocol's conformance suite: what it does not have is listed, each with its reason,
//! and everything else passes. That nothing at all fails with the suite's own catalogue is tested with the HTTP server.

use std::path::Path;

use crate::test_env::{TestEnv, WebServer, conformance};

fn conforms(revision: &str) {
    let env = TestEnv::new();
    env.rehearsal("greeter", "- say: good day, {prompt}", "");
    let server = WebServer::start(&env);
    let token = server.printed_token().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/conformance");
    let baseline = folder.join(format!("{revision}.yml"));
    let listed = std::fs::read_to_string(&baseline).unwrap();
    let lines: Vec<&str> = listed.lines().map(str::trim).collect();
    for (vendor_env, _) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("- ")) {
        assert!(lines[vendor_env - 1].starts_with("# "), "{} has no reason", lines[vendor_env]);
    }
    let Some(found) = conformance(server.address, &token, revision, Some(&baseline)) else { return };
    assert_eq!(found.code, 0, "{:?}\n{}", found.failed, found.text);
    assert!(found.passed > 40, "only {} checks passed", found.passed);
}

#[test]
fn to_the_newer_generation() {
    conforms("2026-07-28");
}

#[test]
fn to_the_older_generation() {
    conforms("2025-11-25");
}
