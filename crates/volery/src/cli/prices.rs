//! `volery prices`: prints the prices by which the cost of a run is computed.

use std::path::PathBuf;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use crate::report;
use engine::read_prices;

/// Show the prices of models, and the date of the list
///
/// Volery computes the cost of a run by these prices if the agent's program
/// reports only tokens. They are US dollars per million tokens, from a list of
/// published prices inside the program. A price of your own takes precedence:
/// `[prices."MODEL"]` in your configuration.
///
/// Examples:
///   volery prices
///   volery prices gpt-5
///   volery prices claude-sonnet-4-5-20250929 --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A model: its price, and those of all models whose names contain this
    pub(crate) model: Option<String>,

    /// With the configuration of this directory [default: the working directory]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

pub(crate) fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let directory = context.absolute(args.dir.as_ref())?;
    let own = context.directory.to_string_lossy();
    let view = read_prices(directory.as_deref().unwrap_or(&own), args.model.as_deref())?;
    match out.format() {
        OutputFormat::Json => out.json(&view)?,
        OutputFormat::Text => {
            let table = report::prices(&view, &out.style());
            out.page(&table)?;
            out.flush()?;
            out.note(&format!(
                "US dollars per million tokens; published prices from {} of {}",
                view.source, view.date
            ));
        }
    }
    Ok(Exit::Done)
}
