//! `volery reindex`: the index anew from the runs themselves.

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};
use crate::report;

/// Rebuild the index from the directories of the runs
///
/// The index only makes lists and sums fast; the runs' directories are the
/// truth. A missing or damaged index is rebuilt without being asked for, so
/// this is for a doubt, or after copying runs from elsewhere.
///
/// Examples:
///   volery reindex
///   volery reindex --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let reindexed = context.open()?.reindex().await?;
    match out.format() {
        Format::Json => out.json(&reindexed)?,
        Format::Text => out.page(&report::reindexed(&reindexed))?,
    }
    Ok(Exit::Done)
}
