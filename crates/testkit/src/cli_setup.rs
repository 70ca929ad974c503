//! How vendors' agents run headless against a scripted server: argv and input, in addition to their environment.

use fake_llm::{AgentDirs, CliEnvironment, vendor_environment};

use crate::cli_runner::CliLaunch;
use crate::installed_clis::{InstalledCli, InstalledCliError};

/// The prompt for an agent, and the server to use.
#[derive(Debug, Clone, Copy)]
pub struct CliRequest<'a> {
    /// The address of the server, without a path.
    pub url: &'a str,
    pub folders: &'a AgentDirs,
    pub prompt: &'a str,
    /// Arguments of the test case, inserted where the agent accepts them.
    pub arguments: &'a [&'a str],
}

/// Returns how to run an agent headless, with a stream of JSON on standard output.
pub fn cli_launch(name: &str, order: &CliRequest<'_>) -> Result<CliLaunch, InstalledCliError> {
    let program = InstalledCli::find(name)?;
    let CliEnvironment { env, files, model: _ } = cli_environment(name, order.url, order.folders)?;
    let CliRequest { prompt, arguments, .. } = *order;
    let (before, after, stdin): (&[&str], &[&str], &str) = match name {
        "claude" => (&["-p", prompt, "--output-format", "stream-json", "--verbose"], &[], ""),
        "codex" => (&["exec", "--json", "--skip-git-repo-check"], &["--", prompt], ""),
        "gemini" => (&["-m", "gemini-2.5-flash", "-o", "stream-json"], &["-p", prompt], ""),
        "qwen" => (&["--auth-type", "openai", "-o", "stream-json"], &[], prompt),
        "copilot" => (&["--output-format", "json"], &["-p", prompt], ""),
        "opencode" => (&["run", "--format", "json", "--title", "t"], &[], prompt),
        "goose" => (
            &["run", "-q", "--output-format", "stream-json", "--with-builtin", "developer"],
            &["-t", prompt],
            "",
        ),
        "kimi" => (&["--output-format", "stream-json"], &["-p", prompt], ""),
        // Adapters take a conversation instead of a prompt.
        "claude-agent-acp" | "codex-acp" => (&[], &[], prompt),
        _ => return Err(InstalledCliError::Unknown(name.to_owned())),
    };
    let own_arguments = [before, arguments, after].concat().into_iter().map(str::to_owned);
    let argv = program.argv.into_iter().chain(own_arguments).collect();
    Ok(CliLaunch { argv, env, files, stdin: stdin.to_owned(), terminate_after: None })
}

/// Returns the environment for an agent or for an adapter, which drives an installed agent.
pub fn cli_environment(
    name: &str,
    url: &str,
    folders: &AgentDirs,
) -> Result<CliEnvironment, InstalledCliError> {
    if let Some(environment) = vendor_environment(name, url, folders) {
        return Ok(environment);
    }
    match name {
        "claude-agent-acp" => with_driven_program("claude", url, folders, "CLAUDE_CODE_EXECUTABLE"),
        "codex-acp" => with_driven_program("codex", url, folders, "CODEX_PATH"),
        _ => Err(InstalledCliError::Unknown(name.to_owned())),
    }
}

/// Returns the environment of the program that an adapter drives, with the variable that tells the adapter its path.
fn with_driven_program(
    program: &str,
    url: &str,
    folders: &AgentDirs,
    variable: &str,
) -> Result<CliEnvironment, InstalledCliError> {
    let mut environment = vendor_environment(program, url, folders)
        .ok_or_else(|| InstalledCliError::Unknown(program.to_owned()))?;
    let path = InstalledCli::find(program)?.argv.pop().unwrap_or_default();
    environment.env.push((variable.to_owned(), path));
    Ok(environment)
}
