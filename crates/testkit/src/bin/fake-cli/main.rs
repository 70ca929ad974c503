//! Fake versions of vendors' programs that no package registry offers: Cursor, Kiro and Grok. The program follows the
//! documented interface of the program by whose name it was started, including documented failures, and refuses
//! anything undocumented, so that a backend that invents an option fails here.
//!
//! The answers of its model come from a server whose address is in `~/.fake-cli/model`; a word in `~/.fake-cli/fails`
//! makes it fail in one of the ways that the vendor's program is known for.

mod agent_loop;
mod arguments;
mod cursor;
mod environment;
mod grok;
mod kiro;
mod kiro_acp;
mod mcp_client;
mod model_client;
mod sessions;
#[expect(unsafe_code, reason = "a documented exit code after a signal needs a handler")]
mod signals;
mod tools;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// The exit code for a name that no vendor uses.
const UNKNOWN_PROGRAM: u8 = 64;

fn main() -> ExitCode {
    let mut args = std::env::args();
    let started_as = args.next().unwrap_or_default();
    let name = Path::new(&started_as).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let arguments: Vec<String> = args.collect();
    let code = match name {
        "cursor-agent" | "agent" => cursor::run(&arguments),
        "kiro-cli" => kiro::run(&arguments),
        "grok" => grok::run(&arguments),
        other => {
            print_error(&format!("fake-cli: nobody's program is called {other:?}"));
            UNKNOWN_PROGRAM
        }
    };
    ExitCode::from(code)
}

/// Writes a line to standard output, unbuffered. Ignores a closed pipe.
fn print_line(text: &str) {
    print_raw(&format!("{text}\n"));
}

fn print_raw(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a line to the error stream.
fn print_error(text: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}
