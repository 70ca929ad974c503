//! `volery reindex`: rebuilds the index from the runs' directories.

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use crate::report;

/// Rebuild the index from the directories of the runs
///
/// The index only speeds up lists and sums; it holds nothing that the runs'
/// directories do not hold. Volery rebuilds a missing or damaged index by
/// itself. Use this command after you copied runs from another machine.
///
/// Examples:
///   volery reindex
///   volery reindex --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let reindexed = context.open()?.ask(engine::Reindex).await?;
    match out.format() {
        OutputFormat::Json => out.json(&reindexed)?,
        OutputFormat::Text => out.page(&report::reindex_report(&reindexed))?,
    }
    Ok(Exit::Done)
}
