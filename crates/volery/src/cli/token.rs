//! `volery token`: manages the tokens of the HTTP server.

use clap::Subcommand;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use crate::report;
use engine::NewToken;

/// Create, list and revoke tokens for `volery serve --http`
///
/// A token identifies its caller: volery matches its name against an agent's
/// allowed_callers, and the caller can only see runs started with the token.
/// Volery stores a digest, so it prints a token only once, when it creates it.
///
/// Examples:
///   volery token new ci
///   volery token new prometheus --all-metrics
///   volery token list
///   volery token revoke ci
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    New(NewArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Create a token and print it once
///
/// Examples:
///   volery token new ci
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NewArgs {
    /// The caller's name: lower-case letters, digits, - and _
    name: String,

    /// Let the caller see the metrics of all runs
    #[arg(long)]
    all_metrics: bool,
}

/// List all tokens
///
/// Examples:
///   volery token list --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ListArgs {}

/// Revoke a token
///
/// Takes effect immediately, because a running server checks the token of every
/// request. A new token with the same name can see the runs of the old one.
///
/// Examples:
///   volery token revoke ci
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct RevokeArgs {
    /// The caller's name
    name: String,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open()?;
    match args.action {
        TokenAction::New(NewArgs { name, all_metrics }) => {
            let made = app.ask(NewToken { name, all_metrics }).await?;
            match out.format() {
                OutputFormat::Json => out.json(&made)?,
                OutputFormat::Text => {
                    out.line(&made.token)?;
                    out.note("keep it: it is not stored and not shown again");
                }
            }
        }
        TokenAction::List(ListArgs {}) => {
            let list = app.ask(engine::ListTokens).await?;
            match out.format() {
                OutputFormat::Json => out.json(&list)?,
                OutputFormat::Text if list.tokens.is_empty() => out.note("there are no tokens"),
                OutputFormat::Text => {
                    let table = report::token_list(&list, &out.style());
                    out.page(&table)?;
                }
            }
        }
        TokenAction::Revoke(RevokeArgs { name }) => {
            app.ask(engine::RevokeToken { name: name.clone() }).await?;
            match out.format() {
                OutputFormat::Json => out.json(&serde_json::json!({ "revoked": name }))?,
                OutputFormat::Text => out.line(&format!("{name} is not let in any more"))?,
            }
        }
    }
    Ok(Exit::Done)
}
