//! Volery: parse, build the app, run, map the result to an exit code.
#![expect(unreachable_pub, reason = "in a program, pub means that other rooms use it")]

mod app;
mod clock;
mod env;
mod keeper;
mod point;
mod registry;
mod slots;
mod sockets;
mod wire;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(word) if word == "__keeper" => keeper::main(&arguments.collect::<Vec<_>>()),
        _ => ExitCode::SUCCESS,
    }
}
