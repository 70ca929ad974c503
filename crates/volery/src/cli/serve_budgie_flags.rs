//! The flags of `volery serve --dialect budgie`: those of budgie, also in Go's notation.

use std::ffi::OsString;
use std::path::PathBuf;

use engine::EngineError;

const SERVE_COMMAND: &str = "serve";
/// The flags with a value, and those without.
const FLAGS_WITH_VALUE: [&str; 9] = [
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
const BOOLEAN_FLAGS: [&str; 6] = ["safe-names", "no-retry", "list-tools", "debug", "verbose", "sandbox"];

#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "With --dialect budgie")]
#[group(skip)]
pub(crate) struct Args {
    /// The folder of the agents' JSON files [default: ~/.kiro/agents]
    #[arg(long, value_name = "DIR")]
    pub(super) agents_dir: Option<PathBuf>,

    /// The folder of Kiro's working directories, one per session [default: ~/.kiro/sub-agents/sessions]
    #[arg(long, value_name = "DIR")]
    pub(super) sessions_dir: Option<PathBuf>,

    /// The folder of prompt files and templates [default: ~/.kiro/sub-agents/prompts]
    #[arg(long, value_name = "DIR")]
    pub(super) prompts_dir: Option<PathBuf>,

    /// The template that is appended to each prompt [default: _system.md in the prompts folder]
    #[arg(long, value_name = "FILE")]
    pub(super) system_prompt: Option<PathBuf>,

    /// The template that asks for a missing answer [default: _context-summary.md in the prompts folder]
    #[arg(long, value_name = "FILE")]
    pub(super) context_summary_prompt: Option<PathBuf>,

    /// Kiro's program [default: kiro-cli]
    #[arg(long, value_name = "PROGRAM")]
    pub(super) kiro_binary: Option<String>,

    /// The prefix of the tools' names [default: kiro-subagents.]
    #[arg(long, value_name = "TEXT")]
    pub(super) tool_prefix: Option<String>,

    /// The time-out of each attempt as a Go duration: 90s, 5m, 1h30m [default: 10m]
    #[arg(long, value_name = "DURATION")]
    pub(super) agent_timeout: Option<String>,

    /// List tool names with _ instead of a dot; calls may use either
    #[arg(long)]
    pub(super) safe_names: bool,

    /// Do not retry an agent that timed out or crashed
    #[arg(long)]
    pub(super) no_retry: bool,

    /// Print the tools and exit
    #[arg(long, visible_alias = "debug")]
    pub(super) list_tools: bool,

    /// Write each chat to chat-ID.txt in its session's directory
    #[arg(long)]
    pub(super) verbose: bool,

    /// Run Kiro in a container of docker or podman
    #[arg(long)]
    pub(super) sandbox: bool,

    /// The image of the container [default: budgie-sandbox:latest]
    #[arg(long, value_name = "IMAGE")]
    pub(super) sandbox_image: Option<String>,
}

impl Args {
    /// Returns an error if any of these flags is used without the dialect.
    pub(crate) fn check_unused(&self) -> Result<(), EngineError> {
        if *self == Self::default() {
            return Ok(());
        }
        let message = "these flags are of the dialect budgie, which is not served here";
        let known: Vec<String> =
            FLAGS_WITH_VALUE.iter().chain(&BOOLEAN_FLAGS).map(|name| format!("--{name}")).collect();
        Err(EngineError::usage(message)
            .hint(format!("add --dialect budgie, or leave them out: {}", known.join(", "))))
    }
}

/// Rewrites flags in Go's notation (`-agent-timeout 5m`, `-debug=true`) to the usual one.
pub(crate) fn normalize_go_flags(args: Vec<OsString>) -> Vec<OsString> {
    let serves = args.iter().skip(1).find(|arg| !arg.as_encoded_bytes().starts_with(b"-"));
    if serves.is_none_or(|argument| argument != SERVE_COMMAND) {
        return args;
    }
    args.into_iter()
        .filter_map(|arg| match arg.to_str() {
            Some(text) => rewrite_flag(text).unwrap_or(Some(arg)),
            None => Some(arg),
        })
        .collect()
}

/// Returns the replacement of an argument, `Some(None)` to drop it; `None` if it is not one of these flags.
fn rewrite_flag(arg: &str) -> Option<Option<OsString>> {
    let flag = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'))?;
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (flag, None),
    };
    if FLAGS_WITH_VALUE.contains(&name) {
        return Some(Some(format!("--{flag}").into()));
    }
    if !BOOLEAN_FLAGS.contains(&name) {
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
    use super::normalize_go_flags;

    fn read(arguments: &[&str]) -> Vec<String> {
        let args = normalize_go_flags(arguments.iter().map(Into::into).collect());
        args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    #[test]
    fn flags_may_be_written_as_in_go() {
        let arguments =
            ["volery", "serve", "-agent-timeout", "5m", "-tool-prefix=x.", "-debug", "--sandbox=true"];
        let expected =
            ["volery", "serve", "--agent-timeout", "5m", "--tool-prefix=x.", "--debug", "--sandbox"];
        assert_eq!(read(&arguments), expected);
        assert_eq!(read(&["volery", "--json", "serve", "-verbose=false"]), ["volery", "--json", "serve"]);
    }

    #[test]
    fn other_arguments_and_commands_stay_unchanged() {
        for arguments in [
            ["volery", "serve", "--debug=maybe", "-x"],
            ["volery", "run", "-debug", "serve"],
            ["volery", "serve", "--dialect", "budgie"],
        ] {
            assert_eq!(read(&arguments), arguments);
        }
    }
}
