//! Kiro's program, after its documentation: it could not be installed where this was written, and is stood in for in
//! the tests. It writes a transcript for people and names no session, so that a later run cannot continue a
//! conversation by it. It finds its last conversation, its agents and its MCP servers by the directory it works in: a
//! run gets one of its own, with an agent in it that has what the run's agent has, and nothing of the project's. Only
//! an agent that the project defines for Kiro itself works in the project.

mod agent_file;
mod answer_tool;
mod reader;

use std::path::PathBuf;

use domain::agent::Delegates;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::run::RunSpec;
use serde_json::Value;

use crate::combined_prompt::{self, ARGUMENT_BYTES_MAX};
use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, ProcessDrive, Setting, WorkFile, permitted_args,
};
use crate::mcp_config;
use crate::program::Program;
use crate::worded_schema;

const KIND: &str = "kiro";
const RESPONSE_FILE: &str = "response.txt";
/// The directory of a run whose conversation may have to be found again.
const SESSION_FOLDER: &str = "session";
/// Where Kiro itself finds agents, below a project or a home.
const OWN_AGENTS: &str = "/.kiro/agents/";

/// No version was tried.
pub(crate) static PROGRAM: Program = Program { names: &["kiro-cli"], natives: &[], tried: ("0", "9999") };

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

/// The tools that can be trusted one by one, with what they do.
const TOOLS: [(&str, ToolKind<'static>); 3] =
    [("fs_read", ToolKind::Read), ("fs_write", ToolKind::Edit), ("execute_bash", ToolKind::Shell)];

pub struct Kiro;

impl Backend for Kiro {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn program(&self) -> Option<&'static Program> {
        Some(&PROGRAM)
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        Capabilities {
            system_prompt: true,
            model: true,
            process: true,
            output_schema: true,
            extra_args: true,
            response_file: true,
            mcp_servers: true,
            delegates: true,
            skips_context: true,
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        let mut gaps = Vec::new();
        let trusted = trusted(permission);
        let has = |tool: &str| trusted.as_ref().is_none_or(|trusted| trusted.iter().any(|name| name == tool));
        if permission.level == Some(Level::SafeEdit) && has("fs_write") {
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

    fn works_in(&self, spec: &RunSpec, place: &Place<'_>) -> Option<PathBuf> {
        if !own_agent(spec) {
            return Some(place.work.join(agent_file::folder(spec, SESSION_FOLDER)));
        }
        asks_again(spec).then(|| place.work.join(SESSION_FOLDER))
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let found = place.found.ok_or_else(|| wrong("kiro-cli was not found on the PATH".to_owned()))?;
        let setup = &spec.setup;
        let mut argv = found.argv.clone();
        argv.extend(["chat", "--no-interactive", "--wrap", "never"].map(ToOwned::to_owned));
        // Only an attempt that asks the same conversation once more has one.
        let once_more = spec.session.is_some();
        argv.extend(once_more.then(|| "--resume".to_owned()));
        let own_agent = own_agent(spec);
        let tool = own_agent.then(|| answer_tool::prepare(spec, place)).flatten();
        let name = match &tool {
            Some(tool) => tool.agent.as_str(),
            None if own_agent => spec.agent.as_str(),
            None => agent_file::NAME,
        };
        argv.extend(["--agent".to_owned(), name.to_owned()]);
        if let Some(model) = &spec.model {
            argv.extend(["--model".to_owned(), model.clone()]);
        }
        match trusted(&setup.permission) {
            None => argv.push("--trust-all-tools".to_owned()),
            Some(mut tools) => {
                let delegates = !own_agent && spec.delegates != Delegates::Nobody;
                tools.extend(delegates.then(|| format!("@{}", mcp_config::OWN_SERVER)));
                tools.extend(tool.iter().map(|_| answer_tool::TRUSTED.to_owned()));
                argv.push(format!("--trust-tools={}", tools.join(",")));
            }
        }
        argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        let response_file = place.work.join(RESPONSE_FILE);
        let mut prompt = worded_schema::prompt(spec);
        let mut files = Vec::new();
        if !own_agent {
            files.push(agent_file::file(spec, place, SESSION_FOLDER));
            if setup.response_file.is_none() {
                prompt = format!("In directory {}, {prompt}", spec.directory);
            }
        }
        if let Some(protocol) = &setup.response_file {
            let filled = |template: &str| {
                template
                    .replace("{{RESPONSE_FILE}}", &response_file.display().to_string())
                    .replace("{{WORKING_DIRECTORY}}", &spec.directory)
            };
            prompt = match once_more {
                true => filled(&spec.prompt),
                false => {
                    format!("In directory {}, {prompt}\n\n{}", spec.directory, filled(&protocol.template))
                }
            };
            // What an earlier attempt left there is no answer of this one.
            files.push(WorkFile::plain(RESPONSE_FILE, ""));
        } else if tool.is_some() {
            prompt = answer_tool::prompt(spec, &prompt);
        }
        files.extend(tool.iter().map(|tool| tool.file.clone()));
        // Only newer versions read their prompt from a pipe.
        let feed = if prompt.len() > ARGUMENT_BYTES_MAX {
            Feed::Whole(prompt.into_bytes())
        } else {
            argv.push(combined_prompt::argument(&prompt));
            Feed::Nothing
        };
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set: [("NO_COLOR".to_owned(), Setting::Plain("1".to_owned()))]
                .into_iter()
                .chain(tool.iter().map(|tool| tool.variable.clone()))
                .collect(),
            feed,
            files,
            reader: Box::new(reader::Transcript::new(
                setup.output_schema.is_some(),
                setup.response_file.as_ref().map(|_| response_file),
                asks_again(spec),
            )),
        }))
    }
}

/// Tells whether a conversation without an answer is asked once more, which needs a directory of its own.
fn asks_again(spec: &RunSpec) -> bool {
    let asks = spec.setup.response_file.as_ref().is_some_and(|file| file.summary_template.is_some());
    // It looks for a project's own agents below the directory it works in.
    let at_home = !own_agent(spec) || !spec.source.starts_with(&spec.project);
    asks && at_home
}

/// Tells whether Kiro knows the agent from its own file.
fn own_agent(spec: &RunSpec) -> bool {
    spec.source.contains(OWN_AGENTS) && spec.source.ends_with(".json")
}

/// Returns the tools that need no question; `None` stands for all. What is not among them is refused.
fn trusted(permission: &Permission) -> Option<Vec<String>> {
    let level = permission.level.unwrap_or(Level::SafeEdit);
    let restricted = |kind: ToolKind<'_>| {
        let speaks = |rule: &Rule| rule.kind() == kind || rule.kind() == ToolKind::Everything;
        permission.deny.iter().chain(&permission.ask).any(speaks)
    };
    let everything = |rule: &Rule| rule.kind() == ToolKind::Everything && rule.pattern().is_none();
    let all = level == Level::Yolo || permission.allow.iter().any(everything);
    if all && permission.deny.is_empty() && permission.ask.is_empty() {
        return None;
    }
    let within = |kind: ToolKind<'_>| match kind {
        ToolKind::Read => true,
        ToolKind::Edit => level == Level::SafeEdit,
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
