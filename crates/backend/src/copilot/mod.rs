//! GitHub Copilot's program, with its lines of JSON. It has no way to be asked or to ask: what is not allowed before
//! it starts is refused. System prompt and list of tools go by a custom agent in a folder of the run.

mod permission;
mod plugins;
mod project;
mod reader;
pub(crate) mod versions;

use std::path::Path;

use domain::agent::Delegates;
use domain::permission::Permission;
use domain::run::RunSpec;
use domain::setup::Context;
use serde_json::{Value, json};

use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, PriceList, ProcessDrive, ProjectProgram,
    WorkFile, permitted_args,
};
use crate::cumulative;
use crate::mcp_config::{self, OWN_SERVER};
use crate::plain_words::no_command;
use crate::program::Program;
use crate::user::{self, User};
use crate::worded_schema;
use permission::Translated;
pub(crate) use project::programs as project_programs;
use versions::TOOL_GROUPS;

const KIND: &str = "copilot";
/// The folder that the program takes its custom agent from.
const AGENT_FOLDER: &str = "agent";
const USAGE_FILE: &str = "usage.json";

/// Variables that Copilot needs to know its user, its service and its place.
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

/// Arguments that an agent's file may add: none of them grants anything.
const EXTRA_ARGS: &[&str] =
    &["--context", "--auto-tier", "--log-level", "--max-ai-credits", "--no-experimental"];

pub struct Copilot;

impl Backend for Copilot {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn program(&self) -> Option<&'static Program> {
        Some(&versions::PROGRAM)
    }

    fn variables(&self) -> Vec<&'static str> {
        VARIABLES.to_vec()
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        Capabilities {
            system_prompt: true,
            model: true,
            session: true,
            names_sessions: true,
            usage: true,
            prices: PriceList::Of("github-copilot"),
            tells_tools: true,
            process: true,
            effort: true,
            tools: true,
            skips_context: true,
            mcp_servers: true,
            expands_dollars: true,
            server_tools: true,
            server_timeouts: true,
            output_schema: true,
            extra_args: EXTRA_ARGS,
            extra_directories: true,
            delegates: true,
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        permission::translate(permission, "/").unsaid
    }

    fn ungranted(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        permission::translate(permission, "/").ungranted
    }

    fn project_programs(&self, folders: &[&Path]) -> Vec<ProjectProgram> {
        project::programs(folders)
    }

    fn adapt(
        &self,
        spec: &RunSpec,
        drive: &mut ProcessDrive,
        place: &Place<'_>,
        user: &User<'_>,
    ) -> Result<(), PrepareError> {
        without_others(spec, drive, place, user).map_err(|reason| PrepareError { kind: KIND, reason })
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let found = place.program("copilot").map_err(wrong)?;
        let setup = &spec.setup;
        let translated = permission::translate(&setup.permission, &spec.directory);
        let mut argv = found.argv.clone();
        let fixed = [
            "--output-format=json",
            "--stream=on",
            "--no-ask-user",
            "--no-auto-update",
            "--no-color",
            "--no-remote",
            "--disable-builtin-mcps",
        ];
        argv.extend(fixed.map(ToOwned::to_owned));
        let name = agent_name(spec);
        argv.push(format!("--agent={name}"));
        let agent_file = format!("{AGENT_FOLDER}/.github/agents/{name}.agent.md");
        let files = vec![servers(spec, place), WorkFile::plain(&agent_file, agent(spec, &name, &translated))];
        argv.push(format!("--additional-mcp-config=@{}", place.file(&files[0].name)));
        argv.push(format!("--add-dir={}", place.file(AGENT_FOLDER)));
        argv.push(format!("--usage-output-file={}", place.file(USAGE_FILE)));
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
        argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        let own_servers = mcp_config::servers(spec, place).into_iter().map(|(name, _)| name).collect();
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set: Vec::new(),
            feed: Feed::Whole(no_command(&worded_schema::prompt(spec)).into_bytes()),
            files,
            reader: Box::new(reader::Stream::new(reader::Expected {
                structured: setup.output_schema.is_some(),
                session,
                used_before: cumulative::used_before(spec, place),
                own_servers,
                usage_file: place.work.join(USAGE_FILE),
            })),
        }))
    }
}

/// Turns off every server that the program would start by itself.
pub(crate) fn without_others(
    spec: &RunSpec,
    drive: &mut ProcessDrive,
    place: &Place<'_>,
    user: &User<'_>,
) -> Result<(), String> {
    let own = mcp_config::servers(spec, place);
    let others = others(spec, user).into_iter().filter(|name| !own.contains_key(name));
    drive.argv.extend(others.map(|name| format!("--disable-mcp-server={name}")));
    Ok(())
}

/// Returns the names of the servers that the program would start by itself.
fn others(spec: &RunSpec, user: &User<'_>) -> Vec<String> {
    const IN_PROJECTS: [&str; 4] =
        [".mcp.json", ".github/mcp.json", ".copilot/mcp-config.json", ".vscode/mcp.json"];
    let home = user.folder("COPILOT_HOME", ".copilot");
    let of_plugins = home.as_deref().map(plugins::servers).unwrap_or_default();
    let users = home.map(|folder| folder.join("mcp-config.json"));
    let folders = user::upward(&spec.directory, &spec.project).into_iter();
    let in_projects = folders.flat_map(|folder| IN_PROJECTS.map(|file| folder.join(file)));
    let found = users.into_iter().chain(in_projects).filter_map(|file| user::settings(&file));
    let names = found.flat_map(|settings| {
        [user::names(&settings, "mcpServers"), user::names(&settings, "servers")].concat()
    });
    let mut names: Vec<String> = names.chain(of_plugins).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the file with the servers, each with the tools that the agent sees of it.
pub(crate) fn servers(spec: &RunSpec, place: &Place<'_>) -> WorkFile {
    let mut servers = mcp_config::servers(spec, place);
    for (name, server) in &mut servers {
        let own = spec.setup.mcp_servers.iter().find(|server| server.name == *name);
        let tools = own.and_then(|own| own.tools.clone()).unwrap_or_else(|| vec!["*".to_owned()]);
        server["tools"] = json!(tools);
        if let Some(timeout_ms) = own.and_then(|own| own.timeout_ms) {
            server["timeout"] = json!(timeout_ms);
        }
    }
    mcp_config::written("mcp.json", &json!({ "mcpServers": servers }), spec)
}

/// Returns a name that no agent of the user's or the project's has: theirs would count more.
fn agent_name(spec: &RunSpec) -> String {
    format!("volery-{}", spec.id)
}

/// Returns the custom agent: the system prompt, and the tools by which those of the user's other servers are hidden.
fn agent(spec: &RunSpec, name: &str, translated: &Translated) -> String {
    let own = spec.setup.mcp_servers.iter().map(|server| server.name.as_str());
    let ours = (spec.delegates != Delegates::Nobody).then_some(OWN_SERVER);
    let of_servers = own.chain(ours).map(|server| format!("{server}/*"));
    let built_in: Vec<String> = match &spec.setup.tools {
        Some(tools) => tools.clone(),
        None => TOOL_GROUPS.iter().map(|group| (*group).to_owned()).collect(),
    };
    let shown = built_in.into_iter().filter(|tool| !translated.hidden.contains(&tool.as_str()));
    let tools: Vec<String> = shown.chain(of_servers).collect();
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
