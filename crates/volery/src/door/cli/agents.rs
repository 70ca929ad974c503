//! `volery agents`: who can be asked, and what is wrong with the files.

use std::path::PathBuf;

use clap::Subcommand;
use domain::setup::AnswersBy;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};
use crate::app::{
    AgentList, AgentOwner, AgentPage, AgentView, ListAgents, NewAgent, NewAgentView, ShowAgent,
};
use crate::report;

/// List the agents that can be run here
///
/// They are read from the project of the directory and from the user's own
/// folders; the project's win. Files of Claude Code, Codex, Copilot, Cursor,
/// Gemini, Kiro, opencode and others are read as they are. An agent that is
/// blocked says why.
///
/// Examples:
///   volery agents
///   volery agents --dir ../api
///   volery agents show reviewer
///   volery agents new reviewer
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
    Show(ShowArgs),
    New(NewArgs),
}

/// Report everything that is wrong with agent and configuration files
///
/// All problems of all files at once, with line, column and what to do. Exits
/// with 1 if one of them is an error: made for CI. An agent may also be blocked
/// by the machine, which lacks a program or a variable, or by a project that you
/// have not trusted: that is said, and no error, since its file is right.
///
/// Examples:
///   volery agents check
///   volery agents check --dir ../api --json | jq '.diagnostics[]?.message'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CheckArgs {
    /// List each warning of each file, also where many files have the same one
    #[arg(long)]
    pub(crate) all: bool,
}

/// Show one agent as it is understood, and how it would be started
///
/// What its file says, resolved; what the backend cannot honour; and the exact
/// arguments, with PROMPT for the prompt and WORK for the run's work folder.
/// Secrets are shown by name, never by value. No run is started.
///
/// Examples:
///   volery agents show reviewer
///   volery agents show reviewer --json | jq '.invocation.process?.argv'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ShowArgs {
    /// The agent's name
    pub(crate) agent: String,
}

/// Write the commented beginning of an agent's file
///
/// It goes to .volery/agents/NAME.md in the project, and can be run at once: as
/// it stands it is a rehearsal, which needs no model.
///
/// Examples:
///   volery agents new reviewer
///   volery agents new reviewer --backend claude
///   volery agents new reviewer --user
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NewArgs {
    /// The agent's name, which is also its file's
    pub(crate) name: String,

    /// How it shall be driven
    #[arg(long, value_name = "NAME", default_value = "rehearsal")]
    pub(crate) backend: String,

    /// Its model, which some backends need
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Write it to your own configuration, for every project
    #[arg(long)]
    pub(crate) user: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let directory = context.absolute(args.dir.as_ref())?;
    let app = context.open()?;
    match args.command {
        None => print_list(&app.list_agents(ListAgents { directory }).await?, out),
        Some(Action::Check(CheckArgs { all })) => {
            let extent = if all { Extent::Each } else { Extent::Grouped };
            print_check(&app.list_agents(ListAgents { directory }).await?, extent, out)
        }
        Some(Action::Show(ShowArgs { agent })) => {
            print_agent(&app.show_agent(ShowAgent { agent, directory }).await?, out)
        }
        Some(Action::New(NewArgs { name, backend, model, user })) => {
            let owner = if user { AgentOwner::User } else { AgentOwner::Project };
            print_new(&app.new_agent(NewAgent { name, backend, model, directory, owner }).await?, out)
        }
    }
}

fn print_agent(page: &AgentPage, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        Format::Json => out.json(page)?,
        Format::Text => {
            let text = report::agent_page(page, &out.look());
            out.page(&text)?;
            out.flush()?;
            if !page.diagnostics.is_empty() {
                let findings = counted(page.diagnostics.len(), "finding");
                out.hint(&format!("{findings} in its file: volery agents check"));
            }
        }
    }
    Ok(Exit::Done)
}

fn print_new(written: &NewAgentView, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        Format::Json => out.json(written)?,
        Format::Text => {
            out.page(&format!("{}\n", written.file))?;
            out.flush()?;
            if let Some(hidden) = &written.hides {
                out.warning(&format!("the name was that of {hidden} before"));
            }
            out.hint(&format!("edit it, then: volery run {} \"hello\"", written.name));
        }
    }
    Ok(Exit::Done)
}

fn print_list(list: &AgentList, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        Format::Json => out.json(list)?,
        Format::Text if list.agents.is_empty() => {
            out.note(&format!("no agents in {}", list.project));
            out.hint("volery agents new NAME writes one; volery demo shows how agents work");
        }
        Format::Text => {
            let table = report::agents(list, &out.look());
            out.page(&table)?;
            out.flush()?;
            for agent in list.agents.iter().filter(|agent| agent.takes_built_in_name) {
                let AgentView { name, file, .. } = agent;
                out.warning(&format!(
                    "the project's file {file} takes the name of the built-in agent {name}"
                ));
            }
        }
    }
    if !list.diagnostics.is_empty() {
        let findings = counted(list.diagnostics.len(), "finding");
        out.hint(&format!("{findings} in the files: volery agents check"));
    }
    Ok(Exit::Done)
}

/// How warnings that many files share are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Grouped,
    Each,
}

fn print_check(list: &AgentList, extent: Extent, out: &mut Out) -> Result<Exit, CommandError> {
    let errors = list.diagnostics.iter().filter(|found| found.is_error()).count();
    let warnings = list.diagnostics.len() - errors;
    // Built-in agents have no file that could be checked.
    let defined: Vec<&AgentView> = list.agents.iter().filter(|agent| !agent.built_in).collect();
    let blocked: Vec<_> = defined.iter().filter(|agent| agent.problem.is_some()).copied().collect();
    let blocked_count = blocked.len();
    match out.format() {
        Format::Json => out.json(list)?,
        Format::Text => {
            let each = report::diagnostics(&list.diagnostics, &out.look());
            let findings = match extent {
                Extent::Grouped => report::grouped_diagnostics(list, &out.look()),
                Extent::Each => each.clone(),
            };
            let is_grouped = findings != each;
            out.page(&findings)?;
            out.flush()?;
            // What is an error in a file was said.
            let said =
                |problem: &str| list.diagnostics.iter().any(|found| problem.starts_with(&found.message));
            let unsaid = |agent: &&AgentView| !agent.problem.as_deref().is_some_and(said);
            for (problem, names) in report::problems(blocked.into_iter().filter(unsaid)) {
                out.warning(&format!("{}: {problem}", report::some_of(&names)));
            }
            for agent in &defined {
                let how = match agent.answers_by {
                    AnswersBy::File => "into a file",
                    AnswersBy::SubmitResult => "by the tool submit_result",
                    AnswersBy::Output => continue,
                };
                out.note(&format!("{} answers {how}", agent.name));
            }
            let counts = [counted(defined.len(), "agent"), format!("{blocked_count} of them blocked")];
            let findings = [counted(errors, "error"), counted(warnings, "warning")];
            out.note(&[counts, findings].concat().join(", "));
            if is_grouped {
                out.hint("volery agents check --all lists equal warnings of every file");
            }
        }
    }
    Ok(if errors > 0 { Exit::RunFailed } else { Exit::Done })
}

fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}
