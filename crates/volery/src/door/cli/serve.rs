//! `volery serve`: the MCP door.

use domain::run::Door;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use crate::app::AppError;
use crate::door::mcp::{DialectName, Options, open, serve};

/// Serve MCP clients over standard input and output
///
/// Add this command to an MCP client, and its agent can delegate to any agent
/// that `volery agents` lists. The client starts and ends it; runs that were
/// begun outlive it as their on_disconnect says.
///
/// Examples:
///   claude mcp add volery -- volery serve
///   codex mcp add volery -- volery serve
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Which system's tools to offer; several if given several times
    #[arg(long = "dialect", value_name = "NAME", value_enum)]
    dialects: Vec<DialectName>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit, CommandError> {
    let app = context.open_as(Door::Mcp)?;
    app.keep_house();
    // However the client ends it, leaving in good order is no failure.
    let dialects = if args.dialects.is_empty() { vec![DialectName::Volery] } else { args.dialects };
    let surface = open(&dialects, &app)?;
    let options = Options::new(app.config(), surface);
    serve(app, options).await.map_err(|error| {
        AppError::internal(format!("could not serve on standard input and output: {error}"))
    })?;
    Ok(Exit::Done)
}
