//! The program's entry point: runs a keeper, a helper process or the command line, and returns the exit code.

mod cli;
mod mcp;
mod report;
#[cfg(test)]
mod sample_run;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // A keeper is dispatched before anything else, so that it stays as small as it starts.
    match arguments.get(1) {
        Some(command) if command == backends::mcp_config::SUBMIT_COMMAND => mcp::serve_submit_tool(),
        Some(command) if command == backends::api::API_COMMAND => backends::api::main(&engine::env::get),
        Some(command) if command == "__keeper" => engine::keeper_main(&arguments[2..]),
        Some(_) | None => cli::main(arguments),
    }
}
