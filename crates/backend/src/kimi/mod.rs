//! Kimi Code, headless, with its lines of JSON. It asks nobody, so what an agent may not do is taken away with the tool. All
//! else that it must know goes by an agent file, and it works in a home of the run's own without its user's MCP servers.
//! Servers of an agent's own are for `acp-kimi`.

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
use crate::program::Program;
use crate::user::User;
use crate::worded_schema;
pub(crate) use versions::PROGRAM;
use versions::{BASE_PROMPT, INSTRUCTIONS};

const KIND: &str = "kimi";
const AGENT_FILE: &str = "agent.md";

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
            // It would continue a session with the tools that it began with, whatever the agent may do now.
            session: false,
            model: true,
            process: true,
            replaces_prompt: true,
            tools: true,
            output_schema: true,
            extra_args: EXTRA_ARGS,
            extra_directories: true,
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        tools::unenforceable(permission)
    }

    fn adapt(
        &self,
        spec: &RunSpec,
        drive: &mut ProcessDrive,
        place: &Place<'_>,
        user: &User<'_>,
    ) -> Result<(), PrepareError> {
        home::furnish(spec, drive, place, user).map_err(|reason| PrepareError { kind: KIND, reason })
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let found = place.found.ok_or_else(|| wrong("kimi was not found on the PATH".to_owned()))?;
        let setup = &spec.setup;
        let prompt = argument(&worded_schema::prompt(spec));
        if prompt.len() > ARGUMENT_BYTES_MAX {
            let limit = ARGUMENT_BYTES_MAX >> 10;
            return Err(wrong(format!(
                "kimi takes its prompt as an argument of at most {limit} KiB; acp-kimi takes more"
            )));
        }
        let mut argv = found.argv.clone();
        argv.push("--output-format=stream-json".to_owned());
        argv.push(format!("--agent-file={}", place.file(AGENT_FILE)));
        argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
        argv.extend(setup.extra_directories.iter().map(|directory| format!("--add-dir={directory}")));
        argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        argv.push(format!("--prompt={prompt}"));
        let set = [("KIMI_CODE_NO_AUTO_UPDATE", "1"), ("KIMI_DISABLE_TELEMETRY", "1"), ("NO_COLOR", "1")];
        let set = set.map(|(name, value)| (name.to_owned(), Setting::Plain(value.to_owned())));
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set: set.into(),
            feed: Feed::Nothing,
            files: vec![WorkFile::plain(AGENT_FILE, agent(spec))],
            reader: Box::new(reader::Stream::new(setup.output_schema.is_some())),
        }))
    }
}

/// Returns the agent file: the only tools, and the system prompt. The list hides the tools of the user's MCP servers.
fn agent(spec: &RunSpec) -> String {
    let setup = &spec.setup;
    let tools = tools::allowed(&setup.permission, setup.tools.as_deref());
    let system = spec.system_prompt.trim();
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
