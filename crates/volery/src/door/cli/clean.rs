//! `volery clean`: removes what is old.

use domain::duration::parse_ms;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};
use crate::app::Clean;
use crate::report;

/// Remove old runs
///
/// Never touches a run that has not ended. Without --older-than it does what
/// happens by itself now and then: raw output goes after a day, the rest of a
/// run after a week, or as your configuration says.
///
/// Examples:
///   volery clean --older-than 7d --dry-run
///   volery clean --older-than 12h
///   volery clean
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Runs that ended longer ago than this, such as 7d or 12h
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    pub(crate) older_than: Option<u64>,

    /// Only tell what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let ask = Clean { older_than_ms: args.older_than, dry_run: args.dry_run };
    let cleaned = context.open()?.clean(ask).await?;
    match out.format() {
        Format::Json => out.json(&cleaned)?,
        Format::Text => {
            let page = report::cleaned(&cleaned);
            out.page(&page)?;
        }
    }
    Ok(Exit::Done)
}
