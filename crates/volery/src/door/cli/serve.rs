//! `volery serve`: the MCP door.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::dialect::DialectName;
use domain::run::Door;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use crate::app::AppError;
use crate::door::mcp::{NativeTools, Options, open, serve};

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
    ///
    /// Without any: what [serve] dialects says, which is volery.
    #[arg(long = "dialect", value_name = "NAME", value_parser = dialect_parser(), verbatim_doc_comment)]
    dialects: Vec<DialectName>,

    /// Also offer one tool for each agent of this directory's project
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    tools: NativeTools,
}

fn dialect_parser() -> impl TypedValueParser<Value = DialectName> {
    let names = PossibleValuesParser::new(DialectName::ALL.map(DialectName::as_str));
    names.map(|name| DialectName::parse(&name).expect("one of these names"))
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit, CommandError> {
    let app = context.open_as(Door::Mcp)?;
    app.keep_house();
    // However the client ends it, leaving in good order is no failure.
    let configured = &app.config().dialects.value;
    let dialects = if args.dialects.is_empty() { configured } else { &args.dialects };
    let surface = open(dialects, args.tools, &app).await?;
    let options = Options::new(app.config(), surface);
    serve(app, options).await.map_err(|error| {
        AppError::internal(format!("could not serve on standard input and output: {error}"))
    })?;
    Ok(Exit::Done)
}
