//! The scripted model server as a program, for experiments by hand.
//!
//! `fake-llm SCRIPT.json [PORT]` prints its address, then every request as a line of JSON, until it is stopped.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use fake_llm::{RecordedRequest, ScriptedServer, parse_script};
use serde_json::json;
use testkit::{HOLD_NAMESPACE_ARGUMENT, hold_namespace};

const USAGE: u8 = 64;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (script, port) = match arguments.as_slice() {
        [argument] if argument == HOLD_NAMESPACE_ARGUMENT => {
            return hold_namespace()
                .map_or_else(|error| complain(&error.to_string(), 1), |()| ExitCode::SUCCESS);
        }
        [script] => (script, "0"),
        [script, port] => (script, port.as_str()),
        _ => return complain("usage: fake-llm SCRIPT.json [PORT]", USAGE),
    };
    let Ok(port) = port.parse() else { return complain("the port is no number", USAGE) };
    let script = match std::fs::read_to_string(script) {
        Ok(text) => text,
        Err(error) => return complain(&format!("read {script}: {error}"), USAGE),
    };
    let script = match parse_script(&script) {
        Ok(script) => script,
        Err(error) => return complain(&error.to_string(), USAGE),
    };
    match ScriptedServer::start_with(port, script, Vec::new()) {
        Ok(server) => follow(&server),
        Err(error) => complain(&format!("listen on loopback: {error}"), 1),
    }
}

/// Prints the address, and each request as it arrives.
fn follow(server: &ScriptedServer) -> ExitCode {
    let mut out = std::io::stdout();
    let mut printed = 0;
    let mut open = writeln!(out, "{}", server.url()).is_ok();
    while open {
        server.wait_until(Duration::from_secs(3600), |seen| seen.len() > printed);
        let seen = server.requests();
        open = seen[printed..].iter().all(|seen| writeln!(out, "{}", line(seen)).is_ok());
        printed = seen.len();
    }
    ExitCode::SUCCESS
}

fn line(seen: &RecordedRequest) -> String {
    let purpose = format!("{:?}", seen.purpose);
    let headers: serde_json::Map<_, _> =
        seen.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let line = json!({
        "method": seen.method, "path": seen.path, "purpose": purpose, "headers": headers, "body": seen.body,
    });
    line.to_string()
}

fn complain(text: &str, code: u8) -> ExitCode {
    // Without standard error the message is lost.
    let _ = writeln!(std::io::stderr(), "fake-llm: {text}");
    ExitCode::from(code)
}
