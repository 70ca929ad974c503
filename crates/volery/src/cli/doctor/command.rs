//! The command: probes the machine, examines the facts and prints the findings.

use super::super::context::Context;
use super::super::error::CommandError;
use super::super::exit::Exit;
use super::super::output::{Out, OutputFormat};
use super::examine::examine;
use crate::report::{self, Grade};
use engine::{EngineError, MachineReport, VendorProgram, run_live_probes};

/// Check what this machine supports, with a hint for every problem
///
/// Each check has one of these grades:
///   ok       installed and working
///   absent   not installed, and optional, such as a vendor's program
///   weak     works, with a weaker guarantee
///   missing  required, but not installed or not usable
///   broken   installed, but does not work
///
/// The command exits with 1 if a requirement of every run is missing.
///
/// With --live, each installed vendor's program executes one run in a temporary
/// home, against a scripted model on this machine. It uses neither your keys nor
/// your settings and costs nothing. Each program takes a few seconds.
///
/// Examples:
///   volery doctor
///   volery doctor --live
///   volery doctor --json | jq '.checks[] | select(.grade != "ok")'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Also execute one run with each installed program, against a scripted model
    #[arg(long)]
    pub(crate) live: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let mut machine = MachineReport::probe();
    if args.live && !machine.process.inside_run {
        machine.vendors = probe_programs(machine.vendors, out).await?;
    }
    // An unusable state directory is a finding, not a fatal error.
    let state = match context.open() {
        Ok(app) => app.ask(engine::GetStateReport).await,
        Err(error) => Err(error),
    };
    let checks = examine(&machine, state.as_ref());
    match out.format() {
        OutputFormat::Json => out.json(&serde_json::json!({ "checks": checks }))?,
        OutputFormat::Text => {
            let page = report::doctor(&checks, &out.style());
            out.page(&page)?;
        }
    }
    if !args.live && machine.vendors.iter().any(|vendor| vendor.found.is_some()) {
        out.hint("volery doctor --live also tries each program, which takes some seconds and spends nothing");
    }
    let usable = checks.iter().all(|check| check.grade < Grade::Missing);
    Ok(if usable { Exit::Done } else { Exit::RunFailed })
}

/// Probes the programs on a blocking thread, and prints which one, because that takes a while.
async fn probe_programs(
    mut vendors: Vec<VendorProgram>,
    out: &mut Out,
) -> Result<Vec<VendorProgram>, EngineError> {
    let all = vendors.iter().filter(|vendor| vendor.found.is_some()).count();
    let (started, mut progress) = tokio::sync::mpsc::unbounded_channel();
    let trying = tokio::task::spawn_blocking(move || {
        run_live_probes(&mut vendors, &|backend| {
            // If nobody receives it, the command has ended.
            let _ = started.send(backend);
        });
        vendors
    });
    let mut number = 0;
    while let Some(backend) = progress.recv().await {
        number += 1;
        out.note(&format!("trying {backend} ({number} of {all})"));
    }
    trying.await.map_err(|error| EngineError::internal(format!("the programs could not be tried: {error}")))
}
