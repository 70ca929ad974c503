//! A child process that follows a script, for tests: each argument is a step, carried out in order.
//!
//! `fake-agent say:hello sleep:100 exit:7`. The steps are listed in `step.rs`. Steps that form children return only
//! when the child is what it shall be, so that a test needs no guess.

#[expect(unsafe_code, reason = "hostile processes need calls that no safe wrapper offers")]
mod children;
mod output;
#[expect(unsafe_code, reason = "signals and descriptors are handled raw")]
mod step;

use std::process::ExitCode;

use step::{Carried, Step};

/// The exit code for a script that cannot be followed.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let mut kept = step::Kept::default();
    for argument in std::env::args().skip(1) {
        let step = match Step::parse(&argument) {
            Ok(step) => step,
            Err(reason) => {
                output::line(output::Stream::Stderr, &format!("fake-agent: step {argument:?}: {reason}"));
                return ExitCode::from(USAGE);
            }
        };
        match step::carry_out(&step, &mut kept) {
            Ok(Carried::On) => {}
            Ok(Carried::Exit(code)) => return ExitCode::from(code),
            Err(error) => {
                output::line(output::Stream::Stderr, &format!("fake-agent: step {argument:?}: {error}"));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
