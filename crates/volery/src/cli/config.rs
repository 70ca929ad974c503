//! `volery config`: shows the effective settings and where each was set, and checks the files.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use domain::agent::Layer;

use super::context::Context;
use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use crate::report;
use engine::{ConfigView, EngineError, read_configuration};

/// Show the settings in force and their sources
///
/// Settings come from the defaults, the system's file, your own file, the
/// project's file and the environment; later ones override earlier ones.
/// docs/configuration.md explains each of them.
///
/// Examples:
///   volery config
///   volery config show limits
///   volery config path
///   $EDITOR "$(volery config path user)"
///   volery config check
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<ConfigAction>,

    /// The project of this directory [default: the working directory]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    Show(ShowArgs),
    Path(PathArgs),
    Check(CheckArgs),
}

/// Print each setting, its value and the file that sets it
///
/// This is also what `volery config` alone does.
///
/// Examples:
///   volery config show
///   volery config show serve
///   volery config show --json | jq '.settings[] | select(.layer == "project")'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ShowArgs {
    /// Only settings whose key begins with this, such as limits or limits.timeout
    pub(crate) key: Option<String>,
}

/// Print the paths of the configuration files
///
/// With a layer it prints only the path of that file, which need not exist yet.
///
/// Examples:
///   volery config path
///   $EDITOR "$(volery config path user)"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PathArgs {
    /// Which file
    pub(crate) layer: Option<LayerChoice>,
}

/// Report all problems of the configuration files
///
/// Exits with 1 if one of the problems is an error. Nothing starts until an
/// error is corrected, because the wrong setting may be a limit. `volery agents
/// check` also reports problems with agent files.
///
/// Examples:
///   volery config check
///   volery config check --json | jq '.diagnostics[].message'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CheckArgs {}

/// The files that `path` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayerChoice {
    /// The file of the machine's administrator
    System,
    /// Your own file
    User,
    /// The file of the project
    Project,
}

impl LayerChoice {
    fn layer(self) -> Layer {
        match self {
            Self::System => Layer::System,
            Self::User => Layer::User,
            Self::Project => Layer::Project,
        }
    }
}

pub(crate) fn run(args: Args, context: &Context, out: &mut Out) -> Result<Exit, CommandError> {
    let directory = context.absolute(args.dir.as_ref())?;
    let own = context.directory.to_string_lossy();
    let view = read_configuration(directory.as_deref().unwrap_or(&own))?;
    match args.command {
        None => show(view, None, out),
        Some(ConfigAction::Show(ShowArgs { key })) => show(view, key.as_deref(), out),
        Some(ConfigAction::Path(PathArgs { layer })) => path(&view, layer, out),
        Some(ConfigAction::Check(CheckArgs {})) => check(&view, out),
    }
}

fn show(mut view: ConfigView, key: Option<&str>, out: &mut Out) -> Result<Exit, CommandError> {
    if let Some(key) = key {
        view.settings.retain(|setting| {
            setting.key.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        if view.settings.is_empty() {
            let error = EngineError::not_found(format!("no setting that is in force begins with {key:?}"));
            return Err(error.hint("volery config lists them all").into());
        }
    }
    match out.format() {
        OutputFormat::Json => out.json(&view)?,
        OutputFormat::Text => {
            let table = report::settings(&view, &out.style());
            out.page(&table)?;
            out.flush()?;
            if !view.diagnostics.is_empty() {
                out.hint("something is wrong with the files: volery config check");
            }
        }
    }
    Ok(Exit::Done)
}

fn path(view: &ConfigView, choice: Option<LayerChoice>, out: &mut Out) -> Result<Exit, CommandError> {
    let Some(choice) = choice else {
        match out.format() {
            OutputFormat::Json => out.json(&serde_json::json!({ "files": view.files }))?,
            OutputFormat::Text => {
                let table = report::config_files(view, &out.style());
                out.page(&table)?;
            }
        }
        return Ok(Exit::Done);
    };
    let Some(found) = view.files.iter().find(|file| file.layer == choice.layer()) else {
        let error = EngineError::not_found(
            "your configuration has no place: neither HOME nor XDG_CONFIG_HOME is set",
        );
        return Err(error.hint("set VOLERY_CONFIG_HOME to an absolute path").into());
    };
    match out.format() {
        OutputFormat::Json => out.json(found)?,
        // Neither shortened nor sanitized: programs read it.
        OutputFormat::Text => out.page(&format!("{}\n", found.file))?,
    }
    Ok(Exit::Done)
}

fn check(view: &ConfigView, out: &mut Out) -> Result<Exit, CommandError> {
    let errors = view.diagnostics.iter().filter(|found| found.is_error()).count();
    let warnings = view.diagnostics.len() - errors;
    match out.format() {
        OutputFormat::Json => {
            out.json(&serde_json::json!({ "files": view.files, "diagnostics": view.diagnostics }))?
        }
        OutputFormat::Text => {
            let findings = report::diagnostics(&view.diagnostics, &view.project, &out.style());
            out.page(&findings)?;
            out.flush()?;
            let read = view.files.iter().filter(|file| file.exists).count();
            out.note(&format!("files read: {read}, errors: {errors}, warnings: {warnings}"));
        }
    }
    Ok(if errors > 0 { Exit::RunFailed } else { Exit::Done })
}
