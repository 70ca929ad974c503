//! `volery completions`: what a shell needs to complete our commands.

use clap_complete::Shell;

use super::error::CommandError;
use super::exit::Exit;
use super::out::{Format, Out};

/// Print a completion script for a shell
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
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "volery", &mut script);
    let script = String::from_utf8_lossy(&script);
    match out.format() {
        Format::Json => {
            out.json(&serde_json::json!({ "shell": args.shell.to_string(), "script": script }))?
        }
        Format::Text => out.page(&script)?,
    }
    Ok(Exit::Done)
}
