//! Cursor's program, written from its documentation: it could not be installed, and the tests use a fake CLI. It has no option for
//! MCP servers; those of the user and the project need an approval, which it does not get. Without `--force` it changes no file and
//! executes nothing that its settings do not allow, so `safe-edit` allows no more than that.

mod client;
mod permission;
mod permission_overrides;
mod project_settings;
mod reader;
mod vendor;
mod versions;

use domain::run::RunSpec;

use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, StdinFeed};
use crate::prompt_with_system::{self, ARGUMENT_BYTES_MAX};
use crate::user_environment::UserEnvironment;
pub use vendor::VENDOR;

const KEY_VARIABLE: &str = "CURSOR_API_KEY";
/// The variable in which sub-agents-mcp also expects the key.
const SUB_AGENTS_KEY_VARIABLE: &str = "CLI_API_KEY";
const SETTINGS_VARIABLE: &str = "CURSOR_CONFIG_DIR";
const VARIABLES: &[&str] = &[KEY_VARIABLE, SETTINGS_VARIABLE];

fn prepare(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<ProcessLaunch, String> {
    let program = context.require_program("cursor-agent")?;
    let setup = &spec.setup;
    let prompt = prompt_with_system::prompt_with_system(spec);
    let mut argv = program.argv.clone();
    let fixed_args = ["-p", "--output-format", "stream-json", "--stream-partial-output", "--trust"];
    argv.extend(fixed_args.map(ToOwned::to_owned));
    argv.extend(permission::level_args(&setup.permission).iter().map(|argument| (*argument).to_owned()));
    let mut option = |flag: &str, value: &str| argv.extend([flag.to_owned(), value.to_owned()]);
    option("--workspace", &spec.directory);
    argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
    argv.extend(spec.session.iter().map(|session| format!("--resume={}", session.as_str())));
    let feed = if prompt.len() > ARGUMENT_BYTES_MAX {
        StdinFeed::Whole(prompt.into_bytes())
    } else {
        argv.push(prompt_with_system::to_argument(&prompt));
        StdinFeed::Nothing
    };
    Ok(ProcessLaunch {
        argv,
        env: Vec::new(),
        optional_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
        env_overrides: setup
            .vendor_settings
            .iter()
            .map(|path| (SETTINGS_VARIABLE.to_owned(), EnvValue::Plain(path.clone())))
            .collect(),
        feed,
        directory: None,
        files: Vec::new(),
        reader: Box::new(reader::CursorStream::new(setup.output_schema.is_some())),
    })
}

fn apply_user_environment(
    _spec: &RunSpec,
    launch: &mut ProcessLaunch,
    _context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    if (user.variable)(KEY_VARIABLE).is_none() && (user.variable)(SUB_AGENTS_KEY_VARIABLE).is_some() {
        launch
            .env_overrides
            .push((KEY_VARIABLE.to_owned(), EnvValue::FromVariable(SUB_AGENTS_KEY_VARIABLE.to_owned())));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
