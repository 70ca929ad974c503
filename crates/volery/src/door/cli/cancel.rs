//! `volery cancel`: ends runs early.

use domain::run::CancelOrder;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::last_run;
use super::out::{Format, Out};
use crate::app::{App, AppError, Cancel, CancelTarget, Cancelled};

/// End runs early, with everything they started
///
/// The agent is asked to stop and killed after a grace of some seconds; --now
/// kills at once. Its child runs go with it. What it has said so far is kept.
///
/// Examples:
///   volery cancel
///   volery cancel 3f9a
///   volery cancel --now 3f9a 77c0
///   volery cancel --session nightly
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The runs: their ids, or four or more digits from the ends of them [default: your last one here]
    pub(crate) runs: Vec<String>,

    /// Every run of this session
    #[arg(long, value_name = "SESSION", conflicts_with = "runs")]
    pub(crate) session: Option<String>,

    /// Kill at once instead of asking first
    #[arg(long)]
    pub(crate) now: bool,

    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open()?;
    let order = CancelOrder { by: context.person(), reason: args.reason.unwrap_or_default(), now: args.now };
    let targets = match args.session {
        Some(session) => vec![CancelTarget::Session(session)],
        None if args.runs.is_empty() => {
            vec![CancelTarget::Run(last_run::or_last(&app, None, out).await?)]
        }
        None => args.runs.into_iter().map(CancelTarget::Run).collect(),
    };
    let (cancelled, failed) = cancel_each(&app, targets, &order).await;
    match (out.format(), failed) {
        (Format::Json, None) => out.json(&cancelled)?,
        (Format::Json, Some(error)) => return Err(error.into()),
        (Format::Text, failed) => {
            for run in &cancelled.runs {
                out.line(&format!("{} {}", run.run_id.short(), in_words(&run.effect)))?;
            }
            if let Some(error) = failed {
                return Err(error.into());
            }
        }
    }
    Ok(Exit::Done)
}

/// Cancels all it can: a run that is not found must not save the others. Returns the first error.
async fn cancel_each(
    app: &App,
    targets: Vec<CancelTarget>,
    order: &CancelOrder,
) -> (Cancelled, Option<AppError>) {
    let mut cancelled = Cancelled { runs: Vec::new() };
    let mut failed = None;
    for target in targets {
        match app.cancel(Cancel { target, order: order.clone() }).await {
            Ok(done) => cancelled.runs.extend(done.runs),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    (cancelled, failed)
}

fn in_words(effect: &str) -> &str {
    match effect {
        "asked" => "is asked to stop",
        "already_asked" => "was asked to stop already; cancel --now kills it",
        "already_ended" => "has ended already",
        other => other,
    }
}
