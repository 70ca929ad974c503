//! The flags of `volery serve --dialect budgie`: those of budgie, also as Go lets people write them.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::app::AppError;

const SERVE: &str = "serve";
/// Those with a value, and those without.
const VALUED: [&str; 9] = [
    "agents-dir",
    "sessions-dir",
    "prompts-dir",
    "system-prompt",
    "context-summary-prompt",
    "kiro-binary",
    "tool-prefix",
    "agent-timeout",
    "sandbox-image",
];
const BARE: [&str; 6] = ["safe-names", "no-retry", "list-tools", "debug", "verbose", "sandbox"];

#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "With --dialect budgie")]
#[group(skip)]
pub(crate) struct Args {
    /// Where the agents' JSON files are [default: ~/.kiro/agents]
    #[arg(long, value_name = "DIR")]
    pub(super) agents_dir: Option<PathBuf>,

    /// Where each session has a directory that Kiro works in [default: ~/.kiro/sub-agents/sessions]
    #[arg(long, value_name = "DIR")]
    pub(super) sessions_dir: Option<PathBuf>,

    /// Where prompt files and templates are [default: ~/.kiro/sub-agents/prompts]
    #[arg(long, value_name = "DIR")]
    pub(super) prompts_dir: Option<PathBuf>,

    /// The template put after each prompt [default: _system.md of the prompts]
    #[arg(long, value_name = "FILE")]
    pub(super) system_prompt: Option<PathBuf>,

    /// The template that asks for an answer that is missing [default: _context-summary.md of the prompts]
    #[arg(long, value_name = "FILE")]
    pub(super) context_summary_prompt: Option<PathBuf>,

    /// Kiro's program [default: kiro-cli]
    #[arg(long, value_name = "PROGRAM")]
    pub(super) kiro_binary: Option<String>,

    /// How the tools' names begin [default: kiro-subagents.]
    #[arg(long, value_name = "TEXT")]
    pub(super) tool_prefix: Option<String>,

    /// How long each attempt may take, as Go writes it: 90s, 5m, 1h30m [default: 10m]
    #[arg(long, value_name = "DURATION")]
    pub(super) agent_timeout: Option<String>,

    /// List the tools with _ in their names instead of a dot; calls may use either
    #[arg(long)]
    pub(super) safe_names: bool,

    /// Do not try an agent again that ran out of time or broke
    #[arg(long)]
    pub(super) no_retry: bool,

    /// Print the tools and end
    #[arg(long, visible_alias = "debug")]
    pub(super) list_tools: bool,

    /// Write each chat to chat-ID.txt in its session's directory
    #[arg(long)]
    pub(super) verbose: bool,

    /// Run Kiro in a container, by docker or podman
    #[arg(long)]
    pub(super) sandbox: bool,

    /// The image of that container [default: budgie-sandbox:latest]
    #[arg(long, value_name = "IMAGE")]
    pub(super) sandbox_image: Option<String>,
}

impl Args {
    /// Returns an error if any of these is used without the dialect that they belong to.
    pub(crate) fn check_unused(&self) -> Result<(), AppError> {
        if *self == Self::default() {
            return Ok(());
        }
        let message = "these flags are of the dialect budgie, which is not served here";
        let known: Vec<String> = VALUED.iter().chain(&BARE).map(|name| format!("--{name}")).collect();
        Err(AppError::usage(message)
            .hint(format!("add --dialect budgie, or leave them out: {}", known.join(", "))))
    }
}

/// Writes flags in Go's way (`-agent-timeout 5m`, `-debug=true`) as everybody else writes them.
pub(crate) fn from_go(args: Vec<OsString>) -> Vec<OsString> {
    let serves = args.iter().skip(1).find(|arg| !arg.as_encoded_bytes().starts_with(b"-"));
    if serves.is_none_or(|word| word != SERVE) {
        return args;
    }
    args.into_iter()
        .filter_map(|arg| match arg.to_str() {
            Some(text) => understood(text).unwrap_or(Some(arg)),
            None => Some(arg),
        })
        .collect()
}

/// Returns what to write instead of an argument, nothing if it says nothing; `None` if it is none of these flags.
fn understood(arg: &str) -> Option<Option<OsString>> {
    let flag = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'))?;
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (flag, None),
    };
    if VALUED.contains(&name) {
        return Some(Some(format!("--{flag}").into()));
    }
    if !BARE.contains(&name) {
        return None;
    }
    match value {
        None | Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Some(Some(format!("--{name}").into())),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Some(None),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::from_go;

    fn read(words: &[&str]) -> Vec<String> {
        let args = from_go(words.iter().map(Into::into).collect());
        args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn flags_may_be_written_as_in_go() {
        let words =
            ["volery", "serve", "-agent-timeout", "5m", "-tool-prefix=x.", "-debug", "--sandbox=true"];
        let expected =
            ["volery", "serve", "--agent-timeout", "5m", "--tool-prefix=x.", "--debug", "--sandbox"];
        assert_eq!(read(&words), expected);
        assert_eq!(read(&["volery", "--json", "serve", "-verbose=false"]), ["volery", "--json", "serve"]);
    }

    #[test]
    fn other_words_and_other_commands_stay_as_they_are() {
        for words in [
            ["volery", "serve", "--debug=maybe", "-x"],
            ["volery", "run", "-debug", "serve"],
            ["volery", "serve", "--dialect", "budgie"],
        ] {
            assert_eq!(read(&words), words);
        }
    }
}
