//! Volery: parse, build the app, run, map the result to an exit code.
#![expect(unreachable_pub, reason = "in a program, pub means that other rooms use it")]

mod app;
mod attendance;
mod causes;
mod clock;
mod door;
mod env;
mod iac;
mod keeper;
mod key_file;
mod own_program;
mod point;
mod program_versions;
mod programs;
mod readable;
mod registry;
mod report;
mod slots;
mod sockets;
mod wire;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // Before anything else: a keeper must stay as small as it starts.
    match arguments.get(1) {
        Some(word) if word == backend::mcp_config::SUBMIT_COMMAND => door::mcp::submit(),
        Some(word) if word == backend::api::COMMAND => backend::api::main(&env::get),
        Some(word) if word == "__keeper" => keeper::main(&arguments[2..]),
        Some(_) | None => door::cli::main(arguments),
    }
}
