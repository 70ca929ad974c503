//! `volery agents`: who can be asked, and what is wrong with the files.

use std::path::PathBuf;

use clap::Subcommand;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};
use crate::app::{AgentList, ListAgents};
use crate::report;

/// List the agents that can be run here
///
/// They are read from the project of the directory and from the user's own
/// configuration; the project's win. An agent that is blocked says why.
///
/// Examples:
///   volery agents
///   volery agents --dir ../api
///   volery agents check
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Action>,

    /// Where to look [default: the working directory]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Check(CheckArgs),
}

/// Report everything that is wrong with agent and configuration files
///
/// All problems of all files at once, with line, column and what to do. Exits
/// with 1 if one of them is an error: made for CI.
///
/// Examples:
///   volery agents check
///   volery agents check --dir ../api --json | jq '.diagnostics[].message'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CheckArgs {}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let directory = context.absolute(args.dir.as_ref())?;
    let list = context.open()?.list_agents(ListAgents { directory }).await?;
    match args.command {
        None => print_list(&list, out),
        Some(Action::Check(CheckArgs {})) => print_check(&list, out),
    }
}

fn print_list(list: &AgentList, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        Format::Json => out.json(list)?,
        Format::Text if list.agents.is_empty() => {
            out.note(&format!("no agents in {}", list.project));
            out.hint("write one to .volery/agents/NAME.md, or see how with `volery demo`");
        }
        Format::Text => {
            let table = report::agents(list, &out.look());
            out.page(&table)?;
            out.flush()?;
        }
    }
    if !list.diagnostics.is_empty() {
        out.hint(&format!("{} findings in the files: volery agents check", list.diagnostics.len()));
    }
    Ok(Exit::Done)
}

fn print_check(list: &AgentList, out: &mut Out) -> Result<Exit, CommandError> {
    let errors = list.diagnostics.iter().filter(|found| found.is_error()).count();
    let warnings = list.diagnostics.len() - errors;
    let blocked: Vec<_> = list.agents.iter().filter(|agent| agent.problem.is_some()).collect();
    match out.format() {
        Format::Json => out.json(list)?,
        Format::Text => {
            let findings = report::diagnostics(&list.diagnostics, &out.look());
            out.page(&findings)?;
            out.flush()?;
            for agent in blocked {
                out.warning(&format!("{}: {}", agent.name, agent.problem.as_deref().unwrap_or_default()));
            }
            out.note(&format!("{} agents, {errors} errors, {warnings} warnings", list.agents.len()));
        }
    }
    Ok(if errors > 0 { Exit::RunFailed } else { Exit::Done })
}
