//! The command: probe, examine, print.

use super::super::context::Context;
use super::super::error::CommandError;
use super::super::exit::Exit;
use super::super::out::{Format, Out};
use super::examine::examine;
use crate::app::{AppError, Machine, VendorProgram, try_contracts};
use crate::report::{self, Grade};

/// Tell what this machine can enforce, and what to do about the rest
///
/// Each line is one of
///   ok       it is there and works
///   absent   it is not there, and need not be, such as a program of a vendor
///   weak     it works, with a weaker guarantee
///   missing  it is not there, or cannot be used
///   broken   it is there and does not work
///
/// Exits with 1 if something is missing that runs cannot do without.
///
/// With --live each installed program of a vendor carries out one run, in a
/// temporary home and with a model on loopback that gives one answer. Your keys
/// and settings are not used, and nothing is spent. It takes seconds for each.
///
/// Examples:
///   volery doctor
///   volery doctor --live
///   volery doctor --json | jq '.checks[] | select(.grade != "ok")'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Also ask each installed program one question, of a model on this machine
    #[arg(long)]
    pub(crate) live: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let mut machine = Machine::probe();
    if args.live && !machine.surroundings.inside_run {
        machine.vendors = tried(machine.vendors, out).await?;
    }
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
    if !args.live && machine.vendors.iter().any(|vendor| vendor.found.is_some()) {
        out.hint("volery doctor --live also tries each program, which takes some seconds and spends nothing");
    }
    let usable = checks.iter().all(|check| check.grade < Grade::Missing);
    Ok(if usable { Exit::Done } else { Exit::RunFailed })
}

/// Tries the programs, away from the loop, and tells which one, since that takes a while.
async fn tried(mut vendors: Vec<VendorProgram>, out: &mut Out) -> Result<Vec<VendorProgram>, AppError> {
    let all = vendors.iter().filter(|vendor| vendor.found.is_some()).count();
    let (begun, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let trying = tokio::task::spawn_blocking(move || {
        try_contracts(&mut vendors, &|backend| {
            // Whoever no longer listens has gone.
            let _ = begun.send(backend);
        });
        vendors
    });
    let mut number = 0;
    while let Some(backend) = heard.recv().await {
        number += 1;
        out.note(&format!("trying {backend} ({number} of {all})"));
    }
    trying.await.map_err(|error| AppError::internal(format!("the programs could not be tried: {error}")))
}
