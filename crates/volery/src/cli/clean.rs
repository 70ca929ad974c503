//! `volery clean`: removes old runs.

use domain::duration::parse_ms;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use crate::report;
use engine::CleanRequest;

/// Remove old runs
///
/// Only removes runs that have ended. Without --older-than it applies the
/// configured retention, as volery does by itself from time to time: by default
/// it removes raw output after a day and the rest of a run after a week.
///
/// Examples:
///   volery clean --older-than 7d --dry-run
///   volery clean --older-than 12h
///   volery clean
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Remove runs that ended longer ago than this, such as 7d or 12h
    #[arg(long, value_name = "TIME", value_parser = parse_ms)]
    pub(crate) older_than: Option<u64>,

    /// Print what would be removed without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let request = CleanRequest { older_than_ms: args.older_than, dry_run: args.dry_run };
    let cleaned = context.open()?.ask(request).await?;
    match out.format() {
        OutputFormat::Json => out.json(&cleaned)?,
        OutputFormat::Text => {
            let page = report::clean_report(&cleaned, &out.style());
            out.page(&page)?;
            out.flush()?;
            for problem in &cleaned.problems {
                out.warning(&format!("could not remove {problem}"));
            }
        }
    }
    Ok(if cleaned.problems.is_empty() { Exit::Done } else { Exit::RunFailed })
}
