//! Kimi Code, headless, with its lines of JSON. It asks nobody, so what an agent may not do is taken away with the tool. All
//! else that it must know goes by an agent file, also a prompt that is too long for an argument, and it works in a home of
//! the run's own without its user's MCP servers. Those of the agent are named in there.
//!
//! An agent file is for a new session only: one that goes on has the tools and the system prompt that it began with. So the
//! name of a session tells what that was, and one that began otherwise is told again instead.

pub(crate) mod home;
mod reader;
mod tools;
mod versions;

use domain::permission::Permission;
use domain::run::RunSpec;
use domain::setup::PromptMode;
use serde_json::{Value, json};

use crate::combined_prompt::{ARGUMENT_BYTES_MAX, argument};
use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, ProcessDrive, Setting, WorkFile, permitted_args,
};
use crate::digest::digest;
use crate::program::Program;
use crate::user::User;
use crate::worded_schema;
pub(crate) use versions::PROGRAM;
use versions::{BASE_PROMPT, INSTRUCTIONS, NOTHING};

const KIND: &str = "kimi";
const AGENT_FILE: &str = "agent.md";
/// What stands before a prompt in the agent file, and what is said in its place.
const TASK: &str = include_str!("task.md");
const SEE_TASK: &str = "Do what stands under the heading TASK at the end of your instructions.";

/// Variables that Kimi Code needs to know its user, its service and its place.
pub(crate) const VARIABLES: &[&str] = &[
    "KIMI_API_KEY",
    "KIMI_CODE_BASE_URL",
    "KIMI_CODE_HOME",
    "KIMI_MODEL_API_KEY",
    "KIMI_MODEL_BASE_URL",
    "KIMI_MODEL_MAX_CONTEXT_SIZE",
    "KIMI_MODEL_MAX_OUTPUT_SIZE",
    "KIMI_MODEL_NAME",
    "KIMI_MODEL_PROVIDER_TYPE",
];

/// Arguments that an agent's file may add: none of them grants anything.
const EXTRA_ARGS: &[&str] = &["--skills-dir"];

/// Kimi Code.
pub struct Kimi;

impl Backend for Kimi {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn program(&self) -> Option<&'static Program> {
        Some(&PROGRAM)
    }

    fn variables(&self) -> Vec<&'static str> {
        VARIABLES.to_vec()
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        Capabilities {
            system_prompt: true,
            session: true,
            names_sessions: true,
            model: true,
            process: true,
            replaces_prompt: true,
            tools: true,
            mcp_servers: true,
            server_tools: true,
            output_schema: true,
            extra_args: EXTRA_ARGS,
            extra_directories: true,
            edits_anywhere: true,
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        tools::unenforceable(permission)
    }

    fn ungranted(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        tools::ungranted(permission)
    }

    fn stale_session(&self, spec: &RunSpec, _place: &Place<'_>) -> Option<String> {
        session(spec).err()
    }

    fn adapt(
        &self,
        spec: &RunSpec,
        drive: &mut ProcessDrive,
        place: &Place<'_>,
        user: &User<'_>,
    ) -> Result<(), PrepareError> {
        home::furnish_with_servers(spec, drive, place, user)
            .map_err(|reason| PrepareError { kind: KIND, reason })
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let found = place.program("kimi").map_err(wrong)?;
        let setup = &spec.setup;
        let mut argv = found.argv.clone();
        argv.push("--output-format=stream-json".to_owned());
        let mut files = Vec::new();
        match session(spec).map_err(wrong)? {
            Some(session) => argv.push(format!("--session={session}")),
            None => {
                argv.push(format!("--agent-file={}", place.file(AGENT_FILE)));
                files.push(WorkFile::plain(AGENT_FILE, agent_file(spec)));
            }
        }
        argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
        argv.extend(setup.extra_directories.iter().map(|directory| format!("--add-dir={directory}")));
        argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        let prompt = worded_schema::prompt(spec);
        let said = if is_long(&prompt) { SEE_TASK.to_owned() } else { argument(&prompt) };
        argv.push(format!("--prompt={said}"));
        let set = [("KIMI_CODE_NO_AUTO_UPDATE", "1"), ("KIMI_DISABLE_TELEMETRY", "1"), ("NO_COLOR", "1")];
        let set = set.map(|(name, value)| (name.to_owned(), Setting::Plain(value.to_owned())));
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set: set.into(),
            feed: Feed::Nothing,
            files,
            reader: Box::new(reader::Stream::new(setup.output_schema.is_some(), began_with(spec))),
        }))
    }
}

/// Tells whether a prompt does not fit into an argument.
fn is_long(prompt: &str) -> bool {
    prompt.len() > ARGUMENT_BYTES_MAX
}

/// Returns the session to go on with, as Kimi Code calls it; an error where it must be told again instead.
fn session(spec: &RunSpec) -> Result<Option<String>, String> {
    let Some(session) = &spec.session else { return Ok(None) };
    let Some(session) = session.as_str().strip_suffix(&format!("-{}", began_with(spec))) else {
        return Err("it began with other tools or another system prompt, which kimi would keep".to_owned());
    };
    if is_long(&worded_schema::prompt(spec)) {
        return Err("kimi takes a prompt of this length only for a new session".to_owned());
    }
    Ok(Some(session.to_owned()))
}

/// Returns the digest of what a session keeps of the agent that began it.
fn began_with(spec: &RunSpec) -> String {
    digest(&agent(spec))
}

/// Returns the agent file, with the prompt in it where that does not fit elsewhere.
fn agent_file(spec: &RunSpec) -> String {
    let agent = agent(spec);
    let prompt = worded_schema::prompt(spec);
    if is_long(&prompt) { format!("{agent}{TASK}{}\n", plain(&prompt)) } else { agent }
}

/// Returns a text such that an agent file says it, and nothing in it is taken for a variable: they are replaced only once.
fn plain(text: &str) -> String {
    text.replace("${", &format!("${NOTHING}{{"))
}

/// Returns the agent: the only tools, and the system prompt. What is not in the list is not there.
fn agent(spec: &RunSpec) -> String {
    let setup = &spec.setup;
    let own = tools::allowed(&setup.permission, setup.tools.as_deref()).into_iter().map(ToOwned::to_owned);
    let of_servers = setup.mcp_servers.iter().flat_map(|server| tools::of_server(&setup.permission, server));
    let tools: Vec<String> = own.chain(of_servers).collect();
    let system = plain(spec.system_prompt.trim());
    let body = match setup.prompt_mode {
        PromptMode::Replace if !system.is_empty() => format!("{system}\n\n{INSTRUCTIONS}"),
        PromptMode::Append | PromptMode::Replace => format!("{BASE_PROMPT}\n\n{system}"),
    };
    // JSON is YAML too, and needs no care about quotes.
    let frontmatter = json!({"name": "volery", "description": "An agent of volery.", "tools": tools});
    format!("---\n{frontmatter}\n---\n{}\n", body.trim())
}

#[cfg(test)]
mod tests;
