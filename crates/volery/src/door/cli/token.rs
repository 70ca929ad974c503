//! `volery token`: who may come in over HTTP.

use clap::Subcommand;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};
use crate::app::NewToken;
use crate::report;

/// Make, list and take back tokens for `volery serve --http`
///
/// Who shows a token is its caller: agents see its name in allowed_callers, and
/// it sees the runs that were asked for with it and no others. What is kept is a
/// digest, so a token is printed once, when it is made.
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
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    New(NewArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
}

/// Make a token and print it, this once
///
/// Examples:
///   volery token new ci
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NewArgs {
    /// The caller's name: lower-case letters, digits, - and _
    name: String,

    /// Let it see the metrics of all runs, not only of its own
    #[arg(long)]
    all_metrics: bool,
}

/// List the tokens there are
///
/// Examples:
///   volery token list --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ListArgs {}

/// Take a token back: nobody is let in with it any more
///
/// A server that runs asks for each request, so it holds at once. A new token of
/// the same name sees the runs of the old one.
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
        Action::New(NewArgs { name, all_metrics }) => {
            let made = app.new_token(NewToken { name, all_metrics }).await?;
            match out.format() {
                Format::Json => out.json(&made)?,
                Format::Text => {
                    out.line(&made.token)?;
                    out.note("keep it: it is not stored and not shown again");
                }
            }
        }
        Action::List(ListArgs {}) => {
            let list = app.list_tokens().await?;
            match out.format() {
                Format::Json => out.json(&list)?,
                Format::Text if list.tokens.is_empty() => out.note("there are no tokens"),
                Format::Text => {
                    let table = report::token_list(&list, &out.look());
                    out.page(&table)?;
                }
            }
        }
        Action::Revoke(RevokeArgs { name }) => {
            app.revoke_token(name.clone()).await?;
            match out.format() {
                Format::Json => out.json(&serde_json::json!({ "revoked": name }))?,
                Format::Text => out.line(&format!("{name} is not let in any more"))?,
            }
        }
    }
    Ok(Exit::Done)
}
