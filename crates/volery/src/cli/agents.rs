//! `volery agents`: lists, shows, creates and checks agents.

use std::path::PathBuf;

use clap::Subcommand;
use domain::setup::AnswerChannel;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use crate::report;
use engine::{AgentDetail, AgentList, AgentOwner, AgentView, ListAgents, NewAgent, NewAgentView, ShowAgent};

/// List the available agents
///
/// Volery reads agents from the project of the directory and from your own
/// folders; the project takes precedence. It reads the agent files of Claude
/// Code, Codex, Copilot, Cursor, Gemini, Kiro, opencode and others as they are.
/// The list gives the reason for each agent that cannot run.
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
    pub(crate) command: Option<AgentsAction>,

    /// The directory whose project is searched [default: the working directory]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsAction {
    Check(CheckArgs),
    Show(ShowArgs),
    New(NewArgs),
}

/// Report all problems of agent and configuration files
///
/// Each problem has its line, its column and a hint. The command exits with 1 if
/// one of them is an error, so it fits into CI. An agent is blocked, not in
/// error, if only this machine prevents it from running: a missing program or
/// variable, or a project that you have not trusted.
///
/// Examples:
///   volery agents check
///   volery agents check --dir ../api --json | jq '.diagnostics[]?.message'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CheckArgs {
    /// List every warning of every file, even if many files share it
    #[arg(long)]
    pub(crate) all: bool,
}

/// Show one agent and the command that would start it
///
/// Prints the resolved settings of its file, the settings that its backend does
/// not support, and the exact arguments, with PROMPT for the prompt and WORK for
/// the run's work folder. Secrets appear by name only. Starts no run.
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

/// Create a commented agent file
///
/// The file is .volery/agents/NAME.md in the project. You can run the agent at
/// once: until you change its backend it is a rehearsal, which needs no model.
///
/// Examples:
///   volery agents new reviewer
///   volery agents new reviewer --backend claude
///   volery agents new reviewer --user
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct NewArgs {
    /// The name of the agent and of its file
    pub(crate) name: String,

    /// The backend that runs it
    #[arg(long, value_name = "NAME", default_value = "rehearsal")]
    pub(crate) backend: String,

    /// Its model; some backends need one
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Create it in your own configuration, for every project
    #[arg(long)]
    pub(crate) user: bool,
}

pub(crate) async fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let directory = context.absolute(args.dir.as_ref())?;
    let app = context.open()?;
    match args.command {
        None => print_list(&app.ask(ListAgents { directory }).await?, out),
        Some(AgentsAction::Check(CheckArgs { all })) => {
            let detail = if all { WarningDetail::Each } else { WarningDetail::Grouped };
            print_check(&app.ask(ListAgents { directory }).await?, detail, out)
        }
        Some(AgentsAction::Show(ShowArgs { agent })) => {
            print_agent(&app.ask(ShowAgent { agent, directory }).await?, out)
        }
        Some(AgentsAction::New(NewArgs { name, backend, model, user })) => {
            let owner = if user { AgentOwner::User } else { AgentOwner::Project };
            print_new(&app.ask(NewAgent { name, backend, model, directory, owner }).await?, out)
        }
    }
}

fn print_agent(page: &AgentDetail, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        OutputFormat::Json => out.json(page)?,
        OutputFormat::Text => {
            let text = report::agent_page(page, &out.style());
            out.page(&text)?;
            out.flush()?;
            if !page.diagnostics.is_empty() {
                let findings = pluralize(page.diagnostics.len(), "finding");
                out.hint(&format!("{findings} in its file: volery agents check"));
            }
        }
    }
    Ok(Exit::Done)
}

fn print_new(written: &NewAgentView, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        OutputFormat::Json => out.json(written)?,
        OutputFormat::Text => {
            out.page(&format!("{}\n", written.file))?;
            out.flush()?;
            if let Some(hidden) = &written.shadowed_file {
                out.warning(&format!("the name was that of {hidden} before"));
            }
            out.hint(&format!("edit it, then: volery run {} \"hello\"", written.name));
        }
    }
    Ok(Exit::Done)
}

fn print_list(list: &AgentList, out: &mut Out) -> Result<Exit, CommandError> {
    match out.format() {
        OutputFormat::Json => out.json(list)?,
        OutputFormat::Text if list.agents.is_empty() => {
            out.note(&format!("no agents in {}", list.project));
            let installs = backends::registry::vendor_by_name("claude").map(|vendor| vendor.program.install);
            let install =
                installs.map(|install| format!("; {install} installs Claude Code")).unwrap_or_default();
            out.hint(&format!(
                "every installed agent program is an agent: volery doctor says how to install one{install}"
            ));
            out.hint("volery agents new NAME writes one; volery demo shows how agents work");
        }
        OutputFormat::Text => {
            let table = report::agents(list, &out.style());
            out.page(&table)?;
            out.flush()?;
            for agent in list.agents.iter().filter(|agent| agent.takes_built_in_name) {
                let AgentView { name, .. } = agent;
                let file = out.style().short_path(&agent.file, Some(&list.project));
                out.warning(&format!(
                    "the project's file {file} takes the name of the built-in agent {name}"
                ));
            }
        }
    }
    if !list.diagnostics.is_empty() {
        let findings = pluralize(list.diagnostics.len(), "finding");
        out.hint(&format!("{findings} in the files: volery agents check"));
    }
    Ok(Exit::Done)
}

/// How warnings are printed that many files share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WarningDetail {
    Grouped,
    Each,
}

fn print_check(list: &AgentList, detail: WarningDetail, out: &mut Out) -> Result<Exit, CommandError> {
    let errors = list.diagnostics.iter().filter(|found| found.is_error()).count();
    let warnings = list.diagnostics.len() - errors;
    // Built-in agents have no file that could be checked.
    let defined: Vec<&AgentView> = list.agents.iter().filter(|agent| !agent.built_in).collect();
    let blocked: Vec<_> = defined.iter().filter(|agent| agent.problem.is_some()).copied().collect();
    let blocked_count = blocked.len();
    match out.format() {
        OutputFormat::Json => out.json(list)?,
        OutputFormat::Text => {
            let each = report::diagnostics(&list.diagnostics, &list.project, &out.style());
            let findings = match detail {
                WarningDetail::Grouped => report::grouped_diagnostics(list, &out.style()),
                WarningDetail::Each => each.clone(),
            };
            let is_grouped = findings != each;
            out.page(&findings)?;
            out.flush()?;
            // Errors in files were printed above.
            let is_reported =
                |problem: &str| list.diagnostics.iter().any(|found| problem.starts_with(&found.message));
            let is_unreported = |agent: &&AgentView| !agent.problem.as_deref().is_some_and(is_reported);
            let unreported: Vec<&AgentView> = blocked.into_iter().filter(is_unreported).collect();
            let warnings = warnings + unreported.len();
            for (problem, names) in report::problems(unreported) {
                let problem = out.style().short_paths(problem, &list.project);
                out.warning(&format!("{}: {problem}", report::first_names(&names)));
            }
            for agent in &defined {
                let how = match agent.answers_by {
                    AnswerChannel::File => "into a file",
                    AnswerChannel::SubmitResult => "by the tool submit_result",
                    AnswerChannel::Output => continue,
                };
                out.note(&format!("{} answers {how}", agent.name));
            }
            let counts = [pluralize(defined.len(), "agent"), format!("{blocked_count} of them blocked")];
            let findings = [pluralize(errors, "error"), pluralize(warnings, "warning")];
            out.note(&[counts, findings].concat().join(", "));
            if is_grouped {
                out.hint("volery agents check --all lists equal warnings of every file");
            }
        }
    }
    Ok(if errors > 0 { Exit::RunFailed } else { Exit::Done })
}

fn pluralize(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}
