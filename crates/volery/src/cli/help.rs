//! `volery help`: prints the help of a command.

use super::error::CommandError;
use super::exit::Exit;
use super::output::{Out, OutputFormat};
use engine::EngineError;

/// Print the help of a command
///
/// Prints what `volery COMMAND --help` prints. Without a command it lists all
/// of them.
///
/// Examples:
///   volery help
///   volery help run
///   volery help agents check
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The command, and its subcommand if it has one
    pub(crate) command: Vec<String>,
}

pub(crate) fn run(args: Args, mut root: clap::Command, out: &mut Out) -> Result<Exit, CommandError> {
    // Sets the full names and global options of the subcommands.
    root.build();
    let mut command = &mut root;
    for name in &args.command {
        command = match command.find_subcommand(name) {
            Some(_) => command.find_subcommand_mut(name).expect("it was found just now"),
            None => return Err(unknown(command, name).into()),
        };
    }
    let text = format!("{}\n", command.render_long_help().to_string().trim_end());
    match out.format() {
        OutputFormat::Text => out.page(&text)?,
        OutputFormat::Json => out.json(&serde_json::json!({ "text": text }))?,
    }
    Ok(Exit::Done)
}

fn unknown(parent: &clap::Command, name: &str) -> EngineError {
    let names: Vec<&str> =
        parent.get_subcommands().filter(|child| !child.is_hide_set()).map(clap::Command::get_name).collect();
    let parent_name = parent.get_bin_name().unwrap_or("volery");
    let error = EngineError::usage(format!("{parent_name} has no command {name:?}"));
    match domain::nearest::nearest(name, names.iter().copied()) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None if names.is_empty() => error.hint(format!("try {parent_name} --help")),
        None => error.hint(format!("its commands are {}", names.join(", "))),
    }
}
