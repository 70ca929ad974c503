//! Codex, driven by its app server: JSON-RPC in lines over its standard streams. It alone, since it covers what
//! `codex exec` does and adds what that lacks: questions, a word to stop, text as it comes, and errors with a name.

mod asks;
pub(crate) mod beside;
mod command_line;
mod failure;
mod grant;
mod item;
mod message;
mod providers;
mod reader;
mod screen;
mod servers;
mod versions;

use domain::inherit::Inherited;
use domain::permission::Permission;
use domain::run::RunSpec;
use domain::setup::{Context, PromptMode};
use serde_json::{Value, json};

use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, PriceList, ProcessDrive, Setting, permitted_args,
};
use crate::loosened;
use crate::program::Program;
use crate::user::User;
use grant::Asking;
use reader::{AppServer, Order};
use servers::Servers;

const HOME: &str = "CODEX_HOME";

/// Variables that Codex needs to know its user, its service and its place.
pub(crate) const VARIABLES: &[&str] = &[
    "AZURE_OPENAI_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "CODEX_CA_CERTIFICATE",
    HOME,
    "CODEX_SQLITE_HOME",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORGANIZATION",
    "OPENAI_PROJECT",
    "OPENROUTER_API_KEY",
];

/// Those of them that are secret.
const KEYS: &[&str] =
    &["AZURE_OPENAI_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"];

/// Arguments that an agent's file may add: none of them grants anything.
const EXTRA_ARGS: &[&str] = &[
    "--strict-config",
    // How it talks and remembers.
    "--config=compact_prompt",
    "--config=hide_agent_reasoning",
    "--config=model_auto_compact_token_limit",
    "--config=model_context_window",
    "--config=model_reasoning_effort",
    "--config=model_reasoning_summary",
    "--config=model_verbosity",
    "--config=personality",
    "--config=show_raw_agent_reasoning",
    "--config=tool_output_token_limit",
];

/// Returns the settings that an agent's file may make.
pub fn permitted_settings() -> impl Iterator<Item = &'static str> {
    EXTRA_ARGS.iter().filter_map(|argument| argument.strip_prefix("--config="))
}

/// Codex.
pub struct Codex;

impl Backend for Codex {
    fn kind(&self) -> &'static str {
        "codex"
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
            prices: PriceList::Of("openai"),
            ask: true,
            tells_tools: true,
            process: true,
            replaces_prompt: true,
            effort: true,
            skips_context: true,
            mcp_servers: true,
            server_tools: true,
            server_timeouts: true,
            output_schema: true,
            extra_args: EXTRA_ARGS,
            extra_directories: true,
            vendor_settings: true,
            delegates: true,
            forks: true,
            inherits: &[Inherited::McpServers, Inherited::Settings],
            ..Capabilities::default()
        }
    }

    fn leaves(&self) -> &'static [&'static str] {
        versions::LEFT_FOLDERS
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        grant::unenforceable(permission)
    }

    fn adapt(
        &self,
        spec: &RunSpec,
        drive: &mut ProcessDrive,
        place: &Place<'_>,
        user: &User<'_>,
    ) -> Result<(), PrepareError> {
        let wrong = |reason: String| PrepareError { kind: self.kind(), reason };
        loosened::check(spec, user, loosened::codex).map_err(wrong)?;
        let keys = providers::variables(spec, user);
        if !keys.is_empty() {
            drive.known_env.extend(keys.iter().cloned());
        }
        let users = match spec.setup.inherits(Inherited::McpServers) {
            true => beside::users_own(spec, user),
            false => Vec::new(),
        };
        if !keys.is_empty() || !users.is_empty() {
            let servers = Servers::of(spec, place).map_err(wrong)?;
            let order = Order { users_servers: users, ..order(spec, &servers, &keys) };
            drive.reader = Box::new(AppServer::new(order));
        }
        Ok(())
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: self.kind(), reason };
        let found = place.program("codex").map_err(wrong)?;
        let servers = Servers::of(spec, place).map_err(wrong)?;
        let mut argv = found.argv.clone();
        argv.push("app-server".to_owned());
        for setting in versions::SETTINGS {
            argv.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        argv.extend(permitted_args(&spec.setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        let home = spec.setup.vendor_settings.clone().map(|path| (HOME.to_owned(), Setting::Plain(path)));
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: servers.needed.clone(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set: servers.settings().into_iter().chain(home).collect(),
            feed: Feed::Open(message::greeting(&spec.directory)),
            files: Vec::new(),
            reader: Box::new(AppServer::new(order(spec, &servers, &[]))),
        }))
    }
}

/// Returns what Codex is asked for. These keys are its user's, beside those that are known of it.
fn order(spec: &RunSpec, servers: &Servers, keys: &[String]) -> Order {
    Order {
        thread: thread(spec, servers, keys),
        turn: turn(spec),
        session: spec.session.as_ref().map(|session| session.as_str().to_owned()),
        fork: spec.fork,
        servers: servers.entries.clone(),
        users_servers: Vec::new(),
        structured: spec.setup.output_schema.is_some(),
    }
}

/// Returns what a conversation is begun or continued with.
fn thread(spec: &RunSpec, servers: &Servers, keys: &[String]) -> Value {
    let setup = &spec.setup;
    let mut config = json!({});
    // Codex uses these without asking, so they are there only where nobody would have to be asked.
    if !grant::allows(&setup.permission, "web_search") {
        config["web_search"] = json!("disabled");
    }
    if !grant::allows(&setup.permission, "delegate") {
        // As a path: a whole table would take the place of the one on the command line.
        config["features.multi_agent"] = json!(false);
    }
    if setup.context == Context::None {
        config["project_doc_max_bytes"] = json!(0);
    }
    // Codex's own keys are for Codex, and not for the commands that it runs, unless the agent names them.
    let known = KEYS.iter().copied().filter(|key| !spec.env.iter().any(|named| named == key));
    let hidden: Vec<&str> =
        servers.hidden().into_iter().chain(known).chain(providers::hidden(spec, keys)).collect();
    config["shell_environment_policy"] = json!({ "exclude": hidden });
    // The sandbox comes with the turn: a conversation that may write would mark the directory as trusted in the
    // user's own configuration, and so let its files start programs.
    let mut thread = json!({
        "cwd": spec.directory, "sandbox": "read-only", "approvalsReviewer": "user",
        "approvalPolicy": Asking::of(&setup.permission).as_str(), "config": config,
    });
    if !spec.system_prompt.trim().is_empty() {
        let place = match setup.prompt_mode {
            PromptMode::Append => "developerInstructions",
            PromptMode::Replace => "baseInstructions",
        };
        thread[place] = json!(spec.system_prompt);
    }
    if let Some(model) = &spec.model {
        thread["model"] = json!(model);
    }
    thread
}

/// Returns what the one turn of a run is begun with.
fn turn(spec: &RunSpec) -> Value {
    let setup = &spec.setup;
    let mut turn = json!({
        "input": [{"type": "text", "text": spec.prompt}],
        "sandboxPolicy": grant::sandbox(&setup.permission, &setup.extra_directories),
    });
    if let Some(effort) = &setup.effort {
        turn["effort"] = json!(effort);
    }
    if let Some(schema) = &setup.output_schema {
        turn["outputSchema"] = schema.clone();
    }
    turn
}

#[cfg(test)]
mod tests;
