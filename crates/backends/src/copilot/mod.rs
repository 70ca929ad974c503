//! GitHub Copilot's program, with its JSON lines. It cannot ask in this mode, so it denies what is not allowed before it starts. A
//! custom agent in a folder of the run contains the system prompt and the list of tools.

mod acp;
mod client;
mod permission;
mod permission_overrides;
mod plugin_servers;
mod project_settings;
mod reader;
mod vendor;
pub(crate) mod versions;

use domain::agent::Delegates;
use domain::run::RunSpec;
use domain::setup::Context;
use serde_json::json;

use crate::contract::{LaunchContext, ProcessLaunch, StdinFeed, WorkFile, permitted_args};
use crate::mcp_config::{self, OWN_SERVER};
use crate::prompt_escape::escape_command;
use crate::schema_prompt;
use crate::session_usage;
use crate::user_environment::{self, UserEnvironment};
use permission::CopilotPermission;
pub(crate) use project_settings::project_executables;
pub use vendor::VENDOR;
use versions::TOOL_GROUPS;

/// The folder with the custom agent.
const AGENT_FOLDER: &str = "agent";
const USAGE_FILE: &str = "usage.json";

/// Variables with which Copilot finds its user, its service and its configuration.
pub(crate) const VARIABLES: &[&str] = &[
    "COPILOT_GH_HOST",
    "COPILOT_GITHUB_TOKEN",
    "COPILOT_HOME",
    "COPILOT_MODEL",
    "COPILOT_OFFLINE",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_AZURE_API_VERSION",
    "COPILOT_PROVIDER_BASE_URL",
    "COPILOT_PROVIDER_BEARER_TOKEN",
    "COPILOT_PROVIDER_HEADERS",
    "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS",
    "COPILOT_PROVIDER_MAX_PROMPT_TOKENS",
    "COPILOT_PROVIDER_MODEL_ID",
    "COPILOT_PROVIDER_TRANSPORT",
    "COPILOT_PROVIDER_TYPE",
    "COPILOT_PROVIDER_WIRE_API",
    "COPILOT_PROVIDER_WIRE_MODEL",
    "GH_HOST",
    "GH_TOKEN",
    "GITHUB_TOKEN",
];

/// Arguments that an agent's file may add. None of them grants a permission.
const EXTRA_ARGS: &[&str] =
    &["--context", "--auto-tier", "--log-level", "--max-ai-credits", "--no-experimental"];

fn prepare(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<ProcessLaunch, String> {
    let program = context.require_program("copilot")?;
    let setup = &spec.setup;
    let translated = permission::translate(&setup.permission, &spec.directory);
    let mut argv = program.argv.clone();
    let fixed_args = [
        "--output-format=json",
        "--stream=on",
        "--no-ask-user",
        "--no-auto-update",
        "--no-color",
        "--no-remote",
        "--disable-builtin-mcps",
    ];
    argv.extend(fixed_args.map(ToOwned::to_owned));
    let name = agent_name(spec);
    argv.push(format!("--agent={name}"));
    let agent_file = format!("{AGENT_FOLDER}/.github/agents/{name}.agent.md");
    let files = vec![
        mcp_config_file(spec, context),
        WorkFile::plain(&agent_file, agent_definition(spec, &name, &translated)),
    ];
    argv.push(format!("--additional-mcp-config=@{}", context.work_file_path(&files[0].name)));
    argv.push(format!("--add-dir={}", context.work_file_path(AGENT_FOLDER)));
    argv.push(format!("--usage-output-file={}", context.work_file_path(USAGE_FILE)));
    argv.extend(translated.args);
    if spec.delegates != Delegates::Nobody {
        argv.push(format!("--allow-tool={OWN_SERVER}"));
    }
    let session = spec.session.as_ref().map(|session| session.as_str().to_owned());
    let resumed = session.is_some();
    let session = session.unwrap_or_else(|| spec.id.to_string());
    argv.push(format!("--{}={session}", if resumed { "resume" } else { "session-id" }));
    argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
    argv.extend(setup.effort.iter().map(|effort| format!("--reasoning-effort={effort}")));
    argv.extend(setup.extra_directories.iter().map(|directory| format!("--add-dir={directory}")));
    if setup.context == Context::None {
        argv.push("--no-custom-instructions".to_owned());
    }
    argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS)?);
    let own_servers = mcp_config::servers(spec, context).into_iter().map(|(name, _)| name).collect();
    Ok(ProcessLaunch {
        argv,
        env: Vec::new(),
        optional_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
        env_overrides: Vec::new(),
        feed: StdinFeed::Whole(escape_command(&schema_prompt::prompt_with_schema(spec)).into_bytes()),
        directory: None,
        files,
        reader: Box::new(reader::CopilotStream::new(reader::CopilotStreamOptions {
            structured: setup.output_schema.is_some(),
            session,
            used_before: session_usage::usage_before_run(spec, context),
            own_servers,
            usage_file: context.work_dir.join(USAGE_FILE),
        })),
    })
}

/// Disables every server that Copilot would start by itself.
pub(crate) fn disable_other_servers(
    spec: &RunSpec,
    launch: &mut ProcessLaunch,
    context: &LaunchContext<'_>,
    user: &UserEnvironment<'_>,
) -> Result<(), String> {
    let run_servers = mcp_config::servers(spec, context);
    let other_servers =
        configured_server_names(spec, user).into_iter().filter(|name| !run_servers.contains_key(name));
    launch.argv.extend(other_servers.map(|name| format!("--disable-mcp-server={name}")));
    Ok(())
}

/// Returns the names of the servers that Copilot would start by itself.
fn configured_server_names(spec: &RunSpec, user: &UserEnvironment<'_>) -> Vec<String> {
    const PROJECT_FILES: [&str; 4] =
        [".mcp.json", ".github/mcp.json", ".copilot/mcp-config.json", ".vscode/mcp.json"];
    let home = user.folder("COPILOT_HOME", ".copilot");
    let plugin_servers = home.as_deref().map(plugin_servers::server_names).unwrap_or_default();
    let user_file = home.map(|folder| folder.join("mcp-config.json"));
    let folders = user_environment::directories_up_to_root(&spec.directory, &spec.project).into_iter();
    let project_files = folders.flat_map(|folder| PROJECT_FILES.map(|file| folder.join(file)));
    let settings =
        user_file.into_iter().chain(project_files).filter_map(|file| user_environment::read_settings(&file));
    let names = settings.flat_map(|settings| {
        [
            user_environment::entry_names(&settings, "mcpServers"),
            user_environment::entry_names(&settings, "servers"),
        ]
        .concat()
    });
    let mut names: Vec<String> = names.chain(plugin_servers).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the file with the servers of the run, each with the tools that the agent may see.
pub(crate) fn mcp_config_file(spec: &RunSpec, context: &LaunchContext<'_>) -> WorkFile {
    let mut servers = mcp_config::servers(spec, context);
    for (name, server) in &mut servers {
        let agent_server = spec.setup.mcp_servers.iter().find(|server| server.name == *name);
        let tools = agent_server
            .and_then(|agent_server| agent_server.tools.clone())
            .unwrap_or_else(|| vec!["*".to_owned()]);
        server["tools"] = json!(tools);
        if let Some(timeout_ms) = agent_server.and_then(|agent_server| agent_server.timeout_ms) {
            server["timeout"] = json!(timeout_ms);
        }
    }
    mcp_config::config_work_file("mcp.json", &json!({ "mcpServers": servers }), spec)
}

/// Returns a name that no agent of the user or the project has: theirs would take precedence.
fn agent_name(spec: &RunSpec) -> String {
    format!("volery-{}", spec.id)
}

/// Returns the custom agent: the system prompt, and a list of tools that hides those of other servers.
fn agent_definition(spec: &RunSpec, name: &str, permission: &CopilotPermission) -> String {
    let agent_servers = spec.setup.mcp_servers.iter().map(|server| server.name.as_str());
    let own_server = (spec.delegates != Delegates::Nobody).then_some(OWN_SERVER);
    let server_tools = agent_servers.chain(own_server).map(|server| format!("{server}/*"));
    let built_in: Vec<String> = match &spec.setup.tools {
        Some(tools) => tools.clone(),
        None => TOOL_GROUPS.iter().map(|group| (*group).to_owned()).collect(),
    };
    let visible = built_in.into_iter().filter(|tool| !permission.hidden_tool_groups.contains(&tool.as_str()));
    let tools: Vec<String> = visible.chain(server_tools).collect();
    let description = format!("The agent {}", spec.agent);
    format!(
        "---\nname: {name}\ndescription: {}\ntools: {}\n---\n{}\n",
        json!(description),
        json!(tools),
        spec.system_prompt
    )
}

#[cfg(test)]
mod tests;
