//! A scripted child process for tests: each argument is a step, executed in order.
//!
//! `fake-agent say:hello sleep:100 exit:7`. The steps are listed in `step.rs`. Steps that start children return only
//! when the child has reached its final form, so that a test does not have to wait for it.

#[expect(unsafe_code, reason = "hostile processes need calls that no safe wrapper offers")]
mod children;
mod output;
#[expect(unsafe_code, reason = "signals and descriptors are handled raw")]
mod step;

use std::process::ExitCode;

use step::{ScriptStep, StepOutcome};

/// The exit code for an invalid script.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let mut held = step::HeldResources::default();
    for argument in std::env::args().skip(1) {
        let step = match ScriptStep::parse(&argument) {
            Ok(step) => step,
            Err(reason) => {
                output::write_line(
                    output::StandardStream::Stderr,
                    &format!("fake-agent: step {argument:?}: {reason}"),
                );
                return ExitCode::from(USAGE);
            }
        };
        match step::execute(&step, &mut held) {
            Ok(StepOutcome::Continue) => {}
            Ok(StepOutcome::Exit(code)) => return ExitCode::from(code),
            Err(error) => {
                output::write_line(
                    output::StandardStream::Stderr,
                    &format!("fake-agent: step {argument:?}: {error}"),
                );
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
