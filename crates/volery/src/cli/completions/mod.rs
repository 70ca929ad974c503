//! `volery completions`: prints the completion script of a shell.

use clap_complete::Shell;

use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};

/// Print a completion script for a shell
///
/// Completes commands and options in every shell, and the names of agents and
/// the ids of runs in bash, zsh and fish.
///
/// Examples:
///   volery completions bash > ~/.local/share/bash-completion/completions/volery
///   volery completions zsh > ~/.zfunc/_volery
///   volery completions fish > ~/.config/fish/completions/volery.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The shell
    pub(crate) shell: Shell,
}

pub(crate) fn run(args: Args, command: &mut clap::Command, out: &mut Out) -> Result<Exit, CommandError> {
    let script = match args.shell {
        Shell::Bash => include_str!("volery.bash").to_owned(),
        Shell::Zsh => include_str!("volery.zsh").to_owned(),
        Shell::Fish => include_str!("volery.fish").to_owned(),
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, command, "volery", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    };
    match out.format() {
        OutputFormat::Json => {
            out.json(&serde_json::json!({ "shell": args.shell.to_string(), "script": script }))?
        }
        OutputFormat::Text => out.page(&script)?,
    }
    Ok(Exit::Done)
}
