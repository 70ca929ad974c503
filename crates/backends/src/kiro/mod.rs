//! Kiro's program, written from its documentation: it could not be installed, and the tests use a fake CLI. It writes a transcript for
//! people and reports no session id. It finds its last conversation, its agents and its MCP servers by its working directory: so a
//! run gets a directory of its own, with an agent definition for the run's agent and nothing of the project. Only an agent that the
//! project defines for Kiro works in the project, or, if it may be asked again, with the project's `.kiro`. A later run can only
//! continue a conversation if the caller provides a folder for sessions: each session then has a directory there, which is its name.

mod acp;
mod agent_copy;
mod agent_file;
mod client;
mod container;
mod permission;
mod reader;
mod transcript_parser;
mod vendor;
mod versions;

use std::path::{Path, PathBuf};

use domain::id::SessionId;
use domain::launch::LaunchOverrides;
use domain::permission::Level;
use domain::run::RunSpec;
use domain::setup::{ResponseFile, Setup};

use crate::contract::{EnvValue, LaunchContext, ProcessLaunch, StdinFeed, WorkFile, permitted_args};
use crate::prompt_with_system::{self, ARGUMENT_BYTES_MAX};
use crate::schema_prompt;
pub use vendor::VENDOR;
use versions::PROGRAM;
pub use versions::supports_agent_copies;

/// The text around the prompt.
const IN_DIRECTORY: &str = include_str!("in_directory.md");
const RESPONSE_FILE: &str = "response.txt";
/// The working directory of a run that may have to continue its conversation.
const SESSION_FOLDER: &str = "session";
/// The folder in which Kiro finds agents, below a project or a home.
const AGENTS_PATH: &str = "/.kiro/agents/";
/// The variable with the folder of the user's agents; logins are elsewhere.
const HOME_VARIABLE: &str = "KIRO_HOME";

pub(crate) const VARIABLES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "KIRO_API_KEY",
];

/// Arguments that an agent's file may add. None of them grants a permission.
const EXTRA_ARGS: &[&str] = &["--require-mcp-startup", "--v2", "--v3"];

fn answers_into_file(setup: &Setup) -> bool {
    let default_level = setup.vendor_agent.is_none().then_some(Level::SafeEdit);
    let trusted = permission::trusted_tools(&setup.permission, default_level);
    trusted.is_none_or(|tools| tools.iter().any(|tool| tool == permission::WRITE_TOOL))
}

/// Returns the working directory of the process, if it is not the run's directory.
fn working_directory(
    spec: &RunSpec,
    context: &LaunchContext<'_>,
    launch: &LaunchOverrides,
) -> Option<PathBuf> {
    if launch.container.is_some() {
        return Some(context.work_dir.join(SESSION_FOLDER));
    }
    if let Some(sessions) = &launch.sessions {
        return Some(PathBuf::from(sessions).join(conversation(spec).as_str()));
    }
    if !is_kiro_agent(spec) {
        return Some(context.work_dir.join(agent_file::session_folder(spec, SESSION_FOLDER)));
    }
    asks_again(spec).then(|| context.work_dir.join(SESSION_FOLDER))
}

fn stale_session(spec: &RunSpec, _context: &LaunchContext<'_>) -> Option<String> {
    let launch = LaunchOverrides::from_options(&spec.backend.options);
    let sessions = launch.sessions.filter(|_| launch.container.is_none())?;
    let folder = PathBuf::from(sessions).join(conversation(spec).as_str());
    (!folder.is_dir()).then(|| format!("its folder {} is gone", folder.display()))
}

fn prepare(spec: &RunSpec, context: &LaunchContext<'_>) -> Result<ProcessLaunch, String> {
    let program = context.require_program("kiro-cli")?;
    let setup = &spec.setup;
    let launch = LaunchOverrides::from_options(&spec.backend.options);
    let agent_setup = AgentSetup::for_run(spec, context, &launch);
    let mut args: Vec<String> =
        ["chat", "--no-interactive", "--wrap", "never"].map(ToOwned::to_owned).to_vec();
    args.extend(spec.session.is_some().then(|| "--resume".to_owned()));
    args.extend(["--agent".to_owned(), agent_setup.agent.clone()]);
    if let Some(model) = &spec.model {
        args.extend(["--model".to_owned(), model.clone()]);
    }
    args.push(permission::trust_argument(spec, &agent_setup));
    args.extend(permitted_args(&setup.extra_args, EXTRA_ARGS)?);
    let prompt = full_prompt(spec, context, &launch, &agent_setup);
    // Only newer versions read the prompt from a pipe.
    let is_piped = prompt.len() > ARGUMENT_BYTES_MAX;
    let mut argv = program.argv.clone();
    if let Some(container) = &launch.container {
        argv.extend(container::container_args(container, spec, context, is_piped)?);
        argv.push(launch.program.clone().unwrap_or_else(|| PROGRAM.names[0].to_owned()));
    }
    argv.extend(args);
    let feed = if is_piped {
        StdinFeed::Whole(prompt.into_bytes())
    } else {
        argv.push(prompt_with_system::to_argument(&prompt));
        StdinFeed::Nothing
    };
    let mut files = agent_setup.files;
    files.extend(project_agents(spec, &launch));
    let response_file = response_protocol(spec).map(|_| response_file_name(&launch));
    // The file of an earlier attempt is not an answer of this one.
    files.extend(response_file.as_ref().map(|name| WorkFile::plain(name, "")));
    // A container uses the mounted login, and no credentials of this machine.
    let kiro_variables = VARIABLES.iter().filter(|_| launch.container.is_none());
    let container_variables = launch.container.iter().flat_map(|_| crate::container::VARIABLES);
    Ok(ProcessLaunch {
        argv,
        env: Vec::new(),
        optional_env: kiro_variables.chain(container_variables).map(|name| (*name).to_owned()).collect(),
        env_overrides: [("NO_COLOR".to_owned(), EnvValue::Plain("1".to_owned()))]
            .into_iter()
            .chain(agent_setup.variable)
            .collect(),
        feed,
        directory: working_directory(spec, context, &launch),
        files,
        reader: Box::new(reader::KiroStream::new(reader::KiroStreamOptions {
            structured: setup.output_schema.is_some(),
            response_file: response_file.map(|name| context.work_dir.join(name)),
            can_ask_again: asks_again(spec),
            any_output: keeps_sessions(&launch),
            session: keeps_sessions(&launch).then(|| conversation(spec).to_string()),
        })),
    })
}

/// How Kiro finds the run's agent.
struct AgentSetup {
    agent: String,
    /// The agent answers with Volery's tool.
    has_answer_tool: bool,
    files: Vec<WorkFile>,
    variable: Option<(String, EnvValue)>,
}

impl AgentSetup {
    fn for_run(spec: &RunSpec, context: &LaunchContext<'_>, launch: &LaunchOverrides) -> Self {
        let by_name = |agent: &str| Self {
            agent: agent.to_owned(),
            has_answer_tool: false,
            files: Vec::new(),
            variable: None,
        };
        let own_name = spec.setup.vendor_agent.as_deref().unwrap_or(spec.agent.as_str());
        // Volery's program is missing in a container, so the agent's answer is its output.
        let is_limited = !spec.grants.is_empty();
        if (launch.by_name && !is_limited) || launch.container.is_some() {
            return by_name(own_name);
        }
        if !is_kiro_agent(spec) && launch.sessions.is_some() {
            let (file, variable) = agent_file::user_agent(spec, context);
            return Self { files: vec![file], variable: Some(variable), ..by_name(agent_file::NAME) };
        }
        if !is_kiro_agent(spec) {
            let file = agent_file::project_agent(spec, context, SESSION_FOLDER);
            return Self { files: vec![file], ..by_name(agent_file::NAME) };
        }
        match agent_copy::copy_agent(spec, context) {
            None => by_name(own_name),
            Some(copy) => Self {
                agent: copy.agent,
                has_answer_tool: copy.has_answer_tool,
                files: vec![copy.file],
                variable: Some(copy.variable),
            },
        }
    }
}

/// Returns the prompt: the directory, the task, and where to write the answer.
fn full_prompt(
    spec: &RunSpec,
    context: &LaunchContext<'_>,
    launch: &LaunchOverrides,
    agent_setup: &AgentSetup,
) -> String {
    let in_container = launch.container.is_some();
    let directory = if in_container { container::WORKSPACE } else { &spec.directory };
    let response_file = match in_container {
        true => container::response_file(),
        false => context.work_file_path(RESPONSE_FILE),
    };
    let fill = |template: &str| {
        template.replace("{{RESPONSE_FILE}}", &response_file).replace("{{WORKING_DIRECTORY}}", directory)
    };
    let prompt = schema_prompt::prompt_with_schema(spec);
    match response_protocol(spec) {
        // The prompt was sent before, in the same conversation, and the agent is now asked for a summary.
        Some(protocol) if protocol.summary_template.as_ref() == Some(&spec.prompt) => fill(&spec.prompt),
        Some(protocol) => {
            format!("{}\n\n{}", prompt_in_directory(directory, &prompt), fill(&protocol.template))
        }
        None if agent_setup.has_answer_tool => agent_copy::prompt_with_answer_tool(spec, &prompt),
        None if is_kiro_agent(spec) && !in_container && launch.sessions.is_none() => prompt,
        None => prompt_in_directory(directory, &prompt),
    }
}

/// Returns the instructions to answer into a file, if the agent may write one.
fn response_protocol(spec: &RunSpec) -> Option<&ResponseFile> {
    let protocol = spec.setup.response_file.as_ref();
    protocol.filter(|_| answers_into_file(&spec.setup))
}

/// Returns the name of the conversation, which is also the name of its directory in the folder of sessions.
fn conversation(spec: &RunSpec) -> SessionId {
    spec.session.clone().unwrap_or_else(|| spec.new_session_id())
}

/// Returns whether a conversation can be continued by its name.
fn keeps_sessions(launch: &LaunchOverrides) -> bool {
    launch.sessions.is_some() || launch.container.is_some()
}

fn response_file_name(launch: &LaunchOverrides) -> String {
    match launch.container {
        Some(_) => format!("{}/{RESPONSE_FILE}", container::ANSWER_FOLDER),
        None => RESPONSE_FILE.to_owned(),
    }
}

/// Adds the directory to a prompt, in the format of budgie.
fn prompt_in_directory(directory: &str, prompt: &str) -> String {
    let (before, after) = IN_DIRECTORY.trim_end().split_once("{{PROMPT}}").unwrap_or((IN_DIRECTORY, ""));
    format!("{}{prompt}{after}", before.replacen("{{DIRECTORY}}", directory, 1))
}

/// Returns whether a conversation without an answer is continued once, which needs a directory of its own.
fn asks_again(spec: &RunSpec) -> bool {
    response_protocol(spec).is_some_and(|protocol| protocol.summary_template.is_some())
}

/// Returns a link to the project's own agents, for a run with a working directory of its own: Kiro looks for agents below its
/// working directory.
fn project_agents(spec: &RunSpec, launch: &LaunchOverrides) -> Option<WorkFile> {
    let works_elsewhere = asks_again(spec) && is_kiro_agent(spec) && !keeps_sessions(launch);
    let (project, _) = spec.source.rsplit_once(AGENTS_PATH).filter(|_| works_elsewhere)?;
    let name = format!("{SESSION_FOLDER}/.kiro");
    spec.source.starts_with(&spec.project).then(|| WorkFile::link(&name, Path::new(project).join(".kiro")))
}

/// Returns whether Kiro finds the agent in the agent's own file.
fn is_kiro_agent(spec: &RunSpec) -> bool {
    let launch = LaunchOverrides::from_options(&spec.backend.options);
    let is_kiro_file = spec.source.contains(AGENTS_PATH) && spec.source.ends_with(".json");
    // In the directory of a session, Kiro only finds the agents that the caller names.
    launch.by_name || (is_kiro_file && (spec.setup.vendor_agent.is_some() || !keeps_sessions(&launch)))
}

#[cfg(test)]
mod tests;
