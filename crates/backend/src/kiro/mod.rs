//! Kiro's program, after its documentation: it could not be installed where this was written, and is stood in for in
//! the tests. It writes a transcript for people and names no session. It finds its last conversation, its agents and
//! its MCP servers by the directory it works in: a run gets one of its own, with an agent in it that has what the
//! run's agent has, and nothing of the project's. Only an agent that the project defines for Kiro itself works in the
//! project, or, if it may be asked once more, with the project's `.kiro`. So a later run cannot continue a conversation by it, unless whoever starts it gives it a folder for
//! sessions: then each has a directory there, which is its name.

mod agent_file;
mod answer_tool;
mod container;
mod reader;
mod said;

use std::path::{Path, PathBuf};

use domain::agent::Delegates;
use domain::id::SessionId;
use domain::inherit::Inherited;
use domain::launch::Launch;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::run::RunSpec;
use domain::setup::{ResponseFile, Setup};
use serde_json::Value;

use crate::combined_prompt::{self, ARGUMENT_BYTES_MAX};
use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, ProcessDrive, Setting, WorkFile, permitted_args,
};
use crate::mcp_config;
use crate::program::{Program, Tried, is_before};
use crate::worded_schema;

const KIND: &str = "kiro";
/// Put around the prompt.
const IN_DIRECTORY: &str = include_str!("in_directory.md");
const RESPONSE_FILE: &str = "response.txt";
/// The directory of a run whose conversation may have to be found again.
const SESSION_FOLDER: &str = "session";
/// Where Kiro itself finds agents, below a project or a home.
const OWN_AGENTS: &str = "/.kiro/agents/";
/// Where Kiro finds its user's agents; logins are elsewhere.
const HOME_VARIABLE: &str = "KIRO_HOME";
/// The first version that reads [`HOME_VARIABLE`].
const COPIES_SINCE: &str = "2.3";

/// None was had to try. Its documentation tells of versions 2 and 3; `KIRO_HOME` came with 2.3.
pub(crate) static PROGRAM: Program = Program {
    names: &["kiro-cli"],
    natives: &[],
    variable: None,
    tried: Tried::Documented(COPIES_SINCE, "3"),
};

pub(crate) const VARIABLES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "KIRO_API_KEY",
];

/// Arguments that an agent's file may add: none of them grants anything.
const EXTRA_ARGS: &[&str] = &["--require-mcp-startup", "--v2", "--v3"];

const WRITES: &str = "fs_write";

/// The tools that can be trusted one by one, with what they do.
const TOOLS: [(&str, ToolKind<'static>); 3] =
    [("fs_read", ToolKind::Read), (WRITES, ToolKind::Edit), ("execute_bash", ToolKind::Shell)];

pub struct Kiro;

impl Backend for Kiro {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn program(&self) -> Option<&'static Program> {
        Some(&PROGRAM)
    }

    fn variables(&self) -> Vec<&'static str> {
        VARIABLES.to_vec()
    }

    fn capabilities(&self, options: &Value) -> Capabilities {
        let launch = Launch::of(options);
        let sessions = launch.sessions.is_some() || launch.container.is_some();
        Capabilities {
            session: sessions,
            names_sessions: sessions,
            containers: true,
            writes_text: true,
            system_prompt: true,
            model: true,
            process: true,
            output_schema: true,
            extra_args: EXTRA_ARGS,
            response_file: true,
            reads_own_files: true,
            mcp_servers: true,
            delegates: true,
            skips_context: true,
            // By itself, where it is told the name of its own agent.
            inherits: &[Inherited::McpServers, Inherited::Settings],
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        let mut gaps = Vec::new();
        let trusted = trusted(permission, Some(Level::SafeEdit));
        let has = |tool: &str| trusted.as_ref().is_none_or(|trusted| trusted.iter().any(|name| name == tool));
        if permission.level == Some(Level::SafeEdit) && has(WRITES) {
            gaps.push("the level safe-edit (it changes files outside its directory too)".to_owned());
        }
        let patterned = permission.allow.iter().filter(|rule| rule.pattern().is_some());
        gaps.extend(patterned.map(|rule| format!("the rule allow {rule}")));
        let asks = permission.ask.iter().map(|rule| ("ask", rule));
        for (word, rule) in asks.chain(permission.deny.iter().map(|rule| ("deny", rule))) {
            let shell = rule.kind() == ToolKind::Shell || rule.kind() == ToolKind::Everything;
            // What the shell can do, a rule about another tool does not prevent.
            if !shell && has("execute_bash") {
                gaps.push(format!("the rule {word} {rule}"));
            }
        }
        gaps
    }

    fn answers_into_file(&self, setup: &Setup, _options: &Value) -> bool {
        let usual = setup.vendor_agent.is_none().then_some(Level::SafeEdit);
        let trusted = trusted(&setup.permission, usual);
        trusted.is_none_or(|tools| tools.iter().any(|tool| tool == WRITES))
    }

    fn works_in(&self, spec: &RunSpec, place: &Place<'_>) -> Option<PathBuf> {
        let launch = Launch::of(&spec.backend.options);
        if launch.container.is_some() {
            return Some(place.work.join(SESSION_FOLDER));
        }
        if let Some(sessions) = &launch.sessions {
            return Some(PathBuf::from(sessions).join(conversation(spec).as_str()));
        }
        if !own_agent(spec) {
            return Some(place.work.join(agent_file::folder(spec, SESSION_FOLDER)));
        }
        asks_again(spec).then(|| place.work.join(SESSION_FOLDER))
    }

    fn stale_session(&self, spec: &RunSpec, _place: &Place<'_>) -> Option<String> {
        let launch = Launch::of(&spec.backend.options);
        let sessions = launch.sessions.filter(|_| launch.container.is_none())?;
        let folder = PathBuf::from(sessions).join(conversation(spec).as_str());
        (!folder.is_dir()).then(|| format!("its folder {} is gone", folder.display()))
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let found = place.program("kiro-cli").map_err(wrong)?;
        let setup = &spec.setup;
        let launch = Launch::of(&spec.backend.options);
        let given = Given::to(spec, place, &launch);
        let mut words: Vec<String> =
            ["chat", "--no-interactive", "--wrap", "never"].map(ToOwned::to_owned).to_vec();
        words.extend(spec.session.is_some().then(|| "--resume".to_owned()));
        words.extend(["--agent".to_owned(), given.agent.clone()]);
        if let Some(model) = &spec.model {
            words.extend(["--model".to_owned(), model.clone()]);
        }
        words.push(trust(spec, &given));
        words.extend(permitted_args(&setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        let prompt = prompt(spec, place, &launch, &given);
        // Only newer versions read their prompt from a pipe.
        let piped = prompt.len() > ARGUMENT_BYTES_MAX;
        let mut argv = found.argv.clone();
        if let Some(container) = &launch.container {
            argv.extend(container::words(container, spec, place, piped).map_err(wrong)?);
            argv.push(launch.program.clone().unwrap_or_else(|| PROGRAM.names[0].to_owned()));
        }
        argv.extend(words);
        let feed = if piped {
            Feed::Whole(prompt.into_bytes())
        } else {
            argv.push(combined_prompt::argument(&prompt));
            Feed::Nothing
        };
        let mut files = given.files;
        files.extend(project_agents(spec, &launch));
        let response_file = protocol(spec).map(|_| response_name(&launch));
        // What an earlier attempt left there is no answer of this one.
        files.extend(response_file.as_ref().map(|name| WorkFile::plain(name, "")));
        // A container gets the login that is mounted, and no credentials of this machine.
        let of_kiro = VARIABLES.iter().filter(|_| launch.container.is_none());
        let of_engine = launch.container.iter().flat_map(|_| crate::container::VARIABLES);
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: of_kiro.chain(of_engine).map(|name| (*name).to_owned()).collect(),
            set: [("NO_COLOR".to_owned(), Setting::Plain("1".to_owned()))]
                .into_iter()
                .chain(given.variable)
                .collect(),
            feed,
            files,
            reader: Box::new(reader::Transcript::new(reader::Expected {
                structured: setup.output_schema.is_some(),
                response_file: response_file.map(|name| place.work.join(name)),
                asked_again: asks_again(spec),
                any_output: keeps(&launch),
                session: keeps(&launch).then(|| conversation(spec).to_string()),
            })),
        }))
    }
}

/// What Kiro is given so that it knows the run's agent.
struct Given {
    agent: String,
    /// It answers by our tool.
    answer_tool: bool,
    files: Vec<WorkFile>,
    variable: Option<(String, Setting)>,
}

impl Given {
    fn to(spec: &RunSpec, place: &Place<'_>, launch: &Launch) -> Self {
        let by_name = |agent: &str| Self {
            agent: agent.to_owned(),
            answer_tool: false,
            files: Vec::new(),
            variable: None,
        };
        let own_name = spec.setup.vendor_agent.as_deref().unwrap_or(spec.agent.as_str());
        // In a container our own program is missing, so that the agent's answer is what it writes.
        if launch.by_name || launch.container.is_some() {
            return by_name(own_name);
        }
        if !own_agent(spec) && launch.sessions.is_some() {
            let (file, variable) = agent_file::as_user(spec, place);
            return Self { files: vec![file], variable: Some(variable), ..by_name(agent_file::NAME) };
        }
        if !own_agent(spec) {
            let file = agent_file::file(spec, place, SESSION_FOLDER);
            return Self { files: vec![file], ..by_name(agent_file::NAME) };
        }
        match answer_tool::prepare(spec, place) {
            None => by_name(own_name),
            Some(copy) => Self {
                agent: copy.agent,
                answer_tool: copy.answer_tool,
                files: vec![copy.file],
                variable: Some(copy.variable),
            },
        }
    }
}

/// Returns the argument that says which tools need no question.
fn trust(spec: &RunSpec, given: &Given) -> String {
    match trusted(&spec.setup.permission, usual(spec)) {
        None => "--trust-all-tools".to_owned(),
        Some(mut tools) => {
            let delegates = !own_agent(spec) && spec.delegates != Delegates::Nobody;
            tools.extend(delegates.then(|| format!("@{}", mcp_config::OWN_SERVER)));
            tools.extend(given.answer_tool.then(|| answer_tool::TRUSTED.to_owned()));
            format!("--trust-tools={}", tools.join(","))
        }
    }
}

/// Returns what is asked: where to work, what to do, and where to put the answer.
fn prompt(spec: &RunSpec, place: &Place<'_>, launch: &Launch, given: &Given) -> String {
    let contained = launch.container.is_some();
    let directory = if contained { container::WORKSPACE } else { &spec.directory };
    let response_file = match contained {
        true => container::response_file(),
        false => place.file(RESPONSE_FILE),
    };
    let filled = |template: &str| {
        template.replace("{{RESPONSE_FILE}}", &response_file).replace("{{WORKING_DIRECTORY}}", directory)
    };
    let prompt = worded_schema::prompt(spec);
    match protocol(spec) {
        // It was asked before, in the same conversation, and is asked for a summary.
        Some(protocol) if protocol.summary_template.as_ref() == Some(&spec.prompt) => filled(&spec.prompt),
        Some(protocol) => {
            format!("{}\n\n{}", in_directory(directory, &prompt), filled(&protocol.template))
        }
        None if given.answer_tool => answer_tool::prompt(spec, &prompt),
        None if own_agent(spec) && !contained && launch.sessions.is_none() => prompt,
        None => in_directory(directory, &prompt),
    }
}

/// Returns by which words the agent answers into a file, if it may write one.
fn protocol(spec: &RunSpec) -> Option<&ResponseFile> {
    let protocol = spec.setup.response_file.as_ref();
    protocol.filter(|_| Kiro.answers_into_file(&spec.setup, &spec.backend.options))
}

/// Returns the name of the conversation: the directory that it has, where there is a folder for them.
fn conversation(spec: &RunSpec) -> SessionId {
    spec.session.clone().unwrap_or_else(|| spec.own_session())
}

/// Tells whether a conversation can be found again by its name.
fn keeps(launch: &Launch) -> bool {
    launch.sessions.is_some() || launch.container.is_some()
}

fn response_name(launch: &Launch) -> String {
    match launch.container {
        Some(_) => format!("{}/{RESPONSE_FILE}", container::ANSWER_FOLDER),
        None => RESPONSE_FILE.to_owned(),
    }
}

/// Returns a prompt that says where it is about, as agents of budgie know it.
fn in_directory(directory: &str, prompt: &str) -> String {
    let (before, after) = IN_DIRECTORY.trim_end().split_once("{{PROMPT}}").unwrap_or((IN_DIRECTORY, ""));
    format!("{}{prompt}{after}", before.replacen("{{DIRECTORY}}", directory, 1))
}

/// Tells whether a conversation without an answer is asked once more, which needs a directory of its own.
fn asks_again(spec: &RunSpec) -> bool {
    protocol(spec).is_some_and(|protocol| protocol.summary_template.is_some())
}

/// Returns what makes a project's own agents known in a directory of the run's own: Kiro looks for them below the one
/// that it works in.
fn project_agents(spec: &RunSpec, launch: &Launch) -> Option<WorkFile> {
    let elsewhere = asks_again(spec) && own_agent(spec) && !keeps(launch);
    let (project, _) = spec.source.rsplit_once(OWN_AGENTS).filter(|_| elsewhere)?;
    let name = format!("{SESSION_FOLDER}/.kiro");
    spec.source.starts_with(&spec.project).then(|| WorkFile::link(&name, Path::new(project).join(".kiro")))
}

/// Tells whether a version of Kiro finds the copy of an agent that a run leads it to. An unknown version may not.
pub fn finds_copies(version: Option<&str>) -> bool {
    version.is_some_and(|version| !is_before(version, COPIES_SINCE))
}

/// Tells whether Kiro knows the agent from its own file.
fn own_agent(spec: &RunSpec) -> bool {
    let launch = Launch::of(&spec.backend.options);
    let there = spec.source.contains(OWN_AGENTS) && spec.source.ends_with(".json");
    // In the directory of a session, Kiro knows only the agents that the starter of the run says it knows.
    launch.by_name || (there && (spec.setup.vendor_agent.is_some() || !keeps(&launch)))
}

/// Returns the level of an agent that names none. A file of Kiro's own says itself which tools need no question.
fn usual(spec: &RunSpec) -> Option<Level> {
    let of_kiro = own_agent(spec) || spec.setup.vendor_agent.is_some();
    (!of_kiro).then_some(Level::SafeEdit)
}

/// Returns the tools that need no question; `None` stands for all. What is not among them is refused.
fn trusted(permission: &Permission, usual: Option<Level>) -> Option<Vec<String>> {
    let level = permission.level.or(usual);
    let restricted = |kind: ToolKind<'_>| {
        let speaks = |rule: &Rule| rule.kind() == kind || rule.kind() == ToolKind::Everything;
        permission.deny.iter().chain(&permission.ask).any(speaks)
    };
    let everything = |rule: &Rule| rule.kind() == ToolKind::Everything && rule.pattern().is_none();
    let all = level == Some(Level::Yolo) || permission.allow.iter().any(everything);
    if all && permission.deny.is_empty() && permission.ask.is_empty() {
        return None;
    }
    let within = |kind: ToolKind<'_>| match kind {
        ToolKind::Read => level.is_some(),
        ToolKind::Edit => level == Some(Level::SafeEdit),
        _ => false,
    };
    let named = |kind: ToolKind<'_>| {
        permission.allow.iter().any(|rule| rule.kind() == kind && rule.pattern().is_none())
    };
    let own = TOOLS.iter().filter(|(_, kind)| (all || within(*kind) || named(*kind)) && !restricted(*kind));
    let mut tools: Vec<String> = own.map(|(tool, _)| (*tool).to_owned()).collect();
    for rule in permission.allow.iter().filter(|rule| rule.pattern().is_none()) {
        let ToolKind::Mcp { server, tool } = rule.kind() else { continue };
        let whole = ToolKind::Mcp { server, tool: None };
        let partly = permission.deny.iter().chain(&permission.ask).any(
            |rule| matches!(rule.kind(), ToolKind::Mcp { server: other, .. } if tool.is_none() && other == server),
        );
        if !restricted(rule.kind()) && !restricted(whole) && !partly {
            tools.push(tool.map_or_else(|| format!("@{server}"), |tool| format!("@{server}/{tool}")));
        }
    }
    Some(tools)
}

#[cfg(test)]
mod tests;
