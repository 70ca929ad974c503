//! Stand-ins for the programs of vendors that no registry offers: Cursor, Kiro and Grok. Each follows the documented
//! interface of the program by whose name it was started, with the documented failures, and refuses what is not
//! documented, so that a backend that invents an option fails here.
//!
//! What its model says comes from a server whose address stands in `~/.stand-in/model`; a word in `~/.stand-in/fails`
//! makes it fail in one of the ways that its vendor's program is known for.

mod agent;
mod arguments;
mod cursor;
mod grok;
mod kiro;
mod kiro_acp;
mod mcp;
mod model;
mod place;
mod sessions;
#[expect(unsafe_code, reason = "a documented exit code after a signal needs a handler")]
mod signals;
mod tools;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// For a name that none of the vendors uses.
const NOBODY: u8 = 64;

fn main() -> ExitCode {
    let mut words = std::env::args();
    let started_as = words.next().unwrap_or_default();
    let name = Path::new(&started_as).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let arguments: Vec<String> = words.collect();
    let code = match name {
        "cursor-agent" | "agent" => cursor::run(&arguments),
        "kiro-cli" => kiro::run(&arguments),
        "grok" => grok::run(&arguments),
        other => {
            complain(&format!("stand-in: nobody's program is called {other:?}"));
            NOBODY
        }
    };
    ExitCode::from(code)
}

/// Writes a line to standard output, at once. A reader that is gone is nobody's loss here.
fn say(text: &str) {
    say_raw(&format!("{text}\n"));
}

fn say_raw(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a line to the error stream.
fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}
