//! The command: probe, examine, print.

use super::super::context::Context;
use super::super::error::CommandError;
use super::super::exit::Exit;
use super::super::out::{Format, Out};
use super::examine::examine;
use crate::app::Machine;
use crate::report::{self, Grade};

/// Tell what this machine can enforce, and what to do about the rest
///
/// Each line is ok, weak (works, with a weaker guarantee) or missing. Exits with
/// 1 if something is missing that runs cannot do without.
///
/// Examples:
///   volery doctor
///   volery doctor --json | jq '.checks[] | select(.grade != "ok")'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let machine = Machine::probe();
    // A state directory that cannot be opened is a finding, not the end of the examination.
    let state = match context.open() {
        Ok(app) => app.state_report().await,
        Err(error) => Err(error),
    };
    let checks = examine(&machine, state.as_ref());
    match out.format() {
        Format::Json => out.json(&serde_json::json!({ "checks": checks }))?,
        Format::Text => {
            let page = report::doctor(&checks, &out.look());
            out.page(&page)?;
        }
    }
    let usable = checks.iter().all(|check| check.grade != Grade::Missing);
    Ok(if usable { Exit::Done } else { Exit::RunFailed })
}
