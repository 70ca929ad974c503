//! `volery health`: prints success rates, durations and costs of agents.

use std::path::PathBuf;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use crate::report;
use engine::{HealthRequest, ListScope};

/// Show success rate, duration, cost and last error of each agent
///
/// Covers the project of the working directory, or every project with --all.
/// Cancelled runs count neither for nor against an agent.
///
/// Examples:
///   volery health
///   volery health --all --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Agents of every project
    #[arg(long, short)]
    pub(crate) all: bool,

    /// The project of this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "all")]
    pub(crate) dir: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let scope = if args.all { ListScope::All } else { ListScope::Project };
    let directory = context.absolute(args.dir.as_ref())?;
    let report = context.open()?.ask(HealthRequest { directory, scope }).await?;
    match out.format() {
        OutputFormat::Json => out.json(&report)?,
        OutputFormat::Text => {
            let page = report::health(&report, &out.style());
            out.page(&page)?;
        }
    }
    Ok(Exit::Done)
}
