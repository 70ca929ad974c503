//! The scripted model server as a program, for trying things by hand.
//!
//! `model-server SCRIPT.json [PORT]` prints its address, then every request that it gets as a line of JSON, until it is stopped.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use model_server::{HOLD, Seen, Server, hold, parse_script};
use serde_json::json;

const USAGE: u8 = 64;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (script, port) = match arguments.as_slice() {
        [argument] if argument == HOLD => {
            return hold().map_or_else(|error| complain(&error.to_string(), 1), |()| ExitCode::SUCCESS);
        }
        [script] => (script, "0"),
        [script, port] => (script, port.as_str()),
        _ => return complain("usage: model-server SCRIPT.json [PORT]", USAGE),
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
    match Server::start_with(port, script, Vec::new()) {
        Ok(server) => follow(&server),
        Err(error) => complain(&format!("listen on loopback: {error}"), 1),
    }
}

/// Prints the address, and each request when it has come.
fn follow(server: &Server) -> ExitCode {
    let mut out = std::io::stdout();
    let mut printed = 0;
    let mut open = writeln!(out, "{}", server.url()).is_ok();
    while open {
        server.wait_until(Duration::from_secs(3600), |seen| seen.len() > printed);
        let seen = server.seen();
        open = seen[printed..].iter().all(|seen| writeln!(out, "{}", line(seen)).is_ok());
        printed = seen.len();
    }
    ExitCode::SUCCESS
}

fn line(seen: &Seen) -> String {
    let purpose = format!("{:?}", seen.purpose);
    let headers: serde_json::Map<_, _> =
        seen.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let line = json!({
        "method": seen.method, "path": seen.path, "purpose": purpose, "headers": headers, "body": seen.body,
    });
    line.to_string()
}

fn complain(text: &str, code: u8) -> ExitCode {
    // Without standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "model-server: {text}");
    ExitCode::from(code)
}
