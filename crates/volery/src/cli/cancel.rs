//! `volery cancel`: ends runs early.

use domain::run::CancelRequest;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::last_run;
use super::output::{Out, OutputFormat};
use engine::{CancelResult, CancelRunsRequest, CancelTarget, EngineError, EngineHandle};

/// Cancel runs and end all of their processes
///
/// Volery asks the agent to stop, and kills it after a few seconds; --now kills
/// it at once. Child runs are cancelled too. The output so far is kept.
///
/// Examples:
///   volery cancel
///   volery cancel 3f9a
///   volery cancel --now 3f9a 77c0
///   volery cancel --session nightly
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The ids of the runs, or at least their last four digits [default: your last active run]
    pub(crate) runs: Vec<String>,

    /// Cancel every run of this session
    #[arg(long, value_name = "SESSION", conflicts_with = "runs")]
    pub(crate) session: Option<String>,

    /// Kill at once instead of asking the agent to stop
    #[arg(long)]
    pub(crate) now: bool,

    /// The reason, which is recorded with the run
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let app = context.open_existing()?;
    let order =
        CancelRequest { by: context.user_name(), reason: args.reason.unwrap_or_default(), now: args.now };
    let targets = match args.session {
        Some(session) => vec![CancelTarget::Session(session)],
        None if args.runs.is_empty() => {
            vec![CancelTarget::Run(last_run::last_active(&app, out).await?)]
        }
        None => args.runs.into_iter().map(CancelTarget::Run).collect(),
    };
    let (cancelled, failed) = cancel_each(&app, targets, &order).await;
    match (out.format(), failed) {
        (OutputFormat::Json, None) => out.json(&cancelled)?,
        (OutputFormat::Json, Some(error)) => return Err(error.into()),
        (OutputFormat::Text, failed) => {
            for run in &cancelled.runs {
                out.line(&format!("{} {}", run.run_id.short(), describe_effect(&run.effect)))?;
            }
            if let Some(error) = failed {
                return Err(error.into());
            }
        }
    }
    Ok(Exit::Done)
}

/// Cancels all runs that it can: one that is not found must not keep the others alive. Returns the first error.
async fn cancel_each(
    app: &EngineHandle,
    targets: Vec<CancelTarget>,
    order: &CancelRequest,
) -> (CancelResult, Option<EngineError>) {
    let mut cancelled = CancelResult { runs: Vec::new() };
    let mut failed = None;
    for target in targets {
        match app.ask(CancelRunsRequest { target, order: order.clone() }).await {
            Ok(done) => cancelled.runs.extend(done.runs),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    (cancelled, failed)
}

fn describe_effect(effect: &str) -> &str {
    match effect {
        "asked" => "is asked to stop",
        "already_asked" => "was asked to stop already; cancel --now kills it",
        "already_ended" => "has ended already",
        other => other,
    }
}
