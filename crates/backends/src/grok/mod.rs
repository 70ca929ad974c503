//! Grok's program, written from its documentation; the tests use a fake CLI. A kernel sandbox enforces its levels, so it need not ask.
//! It loads the MCP servers of the user and the project, and has no option for others: unless the agent inherits the user's servers,
//! the tools with which a model reaches servers are disabled.

mod errors;
mod permission;
mod project_settings;
mod reader;
mod vendor;
mod versions;

use std::path::PathBuf;

use domain::inherit::Inherited;
use domain::run::RunSpec;

use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, StdinFeed, WorkFile};
use crate::prompt_with_system;
use crate::user_environment::UserEnvironment;
use project_settings::project_server_files;
pub use vendor::VENDOR;

const PROMPT_FILE: &str = "prompt.md";

const VARIABLES: &[&str] = &["GROK_HOME", "GROK_MODELS_BASE_URL", "GROK_XAI_API_BASE_URL", "XAI_API_KEY"];

/// Disables updates during a run.
const NO_UPDATES: (&str, &str) = ("GROK_DISABLE_AUTOUPDATER", "1");
/// Disables servers from the settings of other programs.
const NO_FOREIGN_SERVERS: [(&str, &str); 2] =
    [("GROK_CLAUDE_MCPS_ENABLED", "false"), ("GROK_CURSOR_MCPS_ENABLED", "false")];

/// The option that disables tools.
const DISABLED_TOOLS_OPTION: &str = "--disallowed-tools";

/// Disables the tools with which a model reaches servers, if a project would add its own to the user's.
fn disable_project_servers(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    let inherits_servers = spec.setup.inherits(Inherited::McpServers);
    if inherits_servers && !project_server_files(spec, user.home).is_empty() {
        let server_tools = permission::SERVER_TOOLS.join(",");
        match launch.argv.iter().position(|argument| argument == DISABLED_TOOLS_OPTION) {
            Some(at) => launch.argv[at + 1] = format!("{server_tools},{}", launch.argv[at + 1]),
            None => launch.argv.extend([DISABLED_TOOLS_OPTION.to_owned(), server_tools]),
        }
    }
    Ok(())
}

/// Says which of the user's servers the agent does not get.
fn withheld_servers(spec: &RunSpec) -> Result<Vec<String>, String> {
    if !spec.setup.inherits(Inherited::McpServers) {
        return Ok(Vec::new());
    }
    let files = project_server_files(spec, None).into_iter();
    let sentence = |file: PathBuf| {
        format!(
            "withheld: the user's MCP servers: {} defines servers too, and grok cannot be given the user's alone",
            file.display()
        )
    };
    Ok(files.map(sentence).collect())
}

fn prepare(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<ProcessLaunch, String> {
    let program = context.require_program("grok")?;
    let setup = &spec.setup;
    let mut argv = program.argv.clone();
    let mut option = |flag: &str, value: &str| argv.extend([flag.to_owned(), value.to_owned()]);
    option("--permission-mode", "bypassPermissions");
    option("--sandbox", permission::sandbox(&setup.permission));
    for rule in permission::denied_rules(&setup.permission, setup.inherits(Inherited::Settings)) {
        option("--deny", &rule);
    }
    let inherits_servers = setup.inherits(Inherited::McpServers);
    let server_tools = permission::SERVER_TOOLS.into_iter().filter(|_| !inherits_servers);
    let removed: Vec<&str> = server_tools.chain(permission::removed_tools(&setup.permission)).collect();
    if !removed.is_empty() {
        option(DISABLED_TOOLS_OPTION, &removed.join(","));
    }
    if let Some(turns) = setup.max_turns {
        option("--max-turns", &turns.to_string());
    }
    // Written with `=`, so that no value can become an option.
    argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
    argv.extend(setup.effort.iter().map(|effort| format!("--reasoning-effort={effort}")));
    argv.extend(spec.session.iter().map(|session| format!("--resume={}", session.as_str())));
    let mut option = |flag: &str, value: &str| argv.extend([flag.to_owned(), value.to_owned()]);
    option("--cwd", &spec.directory);
    option("--output-format", "streaming-json");
    option("--prompt-file", &context.work_file_path(PROMPT_FILE));
    argv.extend(spec.fork.then(|| "--fork-session".to_owned()));
    argv.push("--verbatim".to_owned());
    let no_foreign_servers = NO_FOREIGN_SERVERS.into_iter().filter(|_| !inherits_servers);
    let set = std::iter::once(NO_UPDATES).chain(no_foreign_servers);
    Ok(ProcessLaunch {
        argv,
        env: Vec::new(),
        optional_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
        env_overrides: set
            .map(|(name, value)| (name.to_owned(), EnvValue::Plain(value.to_owned())))
            .collect(),
        feed: StdinFeed::Nothing,
        directory: None,
        files: vec![WorkFile::plain(PROMPT_FILE, prompt_with_system::prompt_with_system(spec))],
        reader: Box::new(reader::GrokStream::new(setup.output_schema.is_some())),
    })
}

#[cfg(test)]
mod tests;
