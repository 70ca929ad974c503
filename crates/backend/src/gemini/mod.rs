//! Gemini CLI, headless, with a stream of JSON. What it may do stands in a policy file of the run, since it cannot ask.

mod home;
mod policy;
mod reader;
pub(crate) mod versions;

use std::path::Path;

use domain::agent::Delegates;
use domain::inherit::Inherited;
use domain::permission::{Level, Permission};
use domain::run::RunSpec;
use domain::setup::{PromptMode, Setup};
use serde_json::Value;

use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, PriceList, ProcessDrive, ProjectProgram,
    Setting, WorkFile, permitted_args,
};
use crate::loosened;
use crate::mcp_config;
use crate::plain_words::plain_words;
use crate::program::Program;
use crate::project_settings::{Keys, ProjectSettings};
use crate::user::User;
use crate::worded_schema;
use home::PlainVariables;
use policy::Wanted;

const KIND: &str = "gemini";
const POLICY_FILE: &str = "policy.toml";
const SYSTEM_FILE: &str = "system.md";
/// Where policies of the machine are. With one of them the program takes no other of that rank.
const MACHINE_POLICIES: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/GeminiCli/policies"
} else {
    "/etc/gemini-cli/policies"
};

/// Variables that Gemini CLI needs to know its user, its service and its place.
pub(crate) const VARIABLES: &[&str] = &[
    "GEMINI_API_KEY",
    "GEMINI_CLI_HOME",
    "GEMINI_MODEL",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_VERTEX_BASE_URL",
];

/// Arguments that an agent's file may add: none of them grants anything.
const EXTRA_ARGS: &[&str] = &["--debug", "--screen-reader"];

/// Settings by which nothing is executed, reached or allowed that would not be without them. Servers are not started
/// unless the agent has them.
const HARMLESS_SETTINGS: &[&str] = &[
    "$schema",
    "context.discoveryMaxDirs",
    "context.fileFiltering",
    "context.fileName",
    "context.importFormat",
    "context.includeDirectoryTree",
    "context.memoryBoundaryMarkers",
    "contextFileName",
    "contextManagement",
    "extensions.disabled",
    "fileFiltering",
    "general.checkpointing",
    "general.debugKeystrokeLogging",
    "general.enableAutoUpdate",
    "general.enableAutoUpdateNotification",
    "general.enableNotifications",
    "general.maxAttempts",
    "general.notificationMethod",
    "general.openEditorInNewWindow",
    "general.preferredEditor",
    "general.retryFetchErrors",
    "general.topicUpdateNarration",
    "general.vimMode",
    "hideBanner",
    "hideTips",
    "mcp.allowed",
    "mcp.excluded",
    "mcpServers",
    "model.compressionThreshold",
    "model.disableLoopDetection",
    "model.maxSessionTurns",
    "model.name",
    "model.skipNextSpeakerCheck",
    "model.summarizeToolOutput",
    "output.format",
    "skills.disabled",
    "theme",
    "tools.disableLLMCorrection",
    "tools.exclude",
    "tools.truncateToolOutputThreshold",
    "tools.useRipgrep",
    "ui",
    "useWriteTodos",
    "vimMode",
];

/// A project's settings count more than those of its user, and settings of the machine's are read only from places
/// that nobody else could write to.
pub(crate) static PROJECT: ProjectSettings = ProjectSettings {
    program: "gemini",
    files: &[".gemini/settings.json"],
    keys: Keys::Only { harmless: HARMLESS_SETTINGS, can_be_off: &[] },
    variables: &[".gemini/.env"],
};

/// Gemini CLI.
pub struct Gemini;

impl Backend for Gemini {
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
            prices: PriceList::Of("google"),
            tells_tools: true,
            process: true,
            replaces_prompt: true,
            tools: true,
            mcp_servers: true,
            expands_dollars: true,
            server_tools: true,
            server_timeouts: true,
            max_turns: true,
            temperature: true,
            delegates: true,
            output_schema: true,
            extra_args: EXTRA_ARGS,
            extra_directories: true,
            inherits: &[Inherited::McpServers, Inherited::Settings],
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        policy::unenforceable(permission)
    }

    fn ungranted(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        policy::ungranted(permission)
    }

    fn project_programs(&self, folders: &[&Path]) -> Vec<ProjectProgram> {
        PROJECT.programs(folders)
    }

    fn adapt(
        &self,
        spec: &RunSpec,
        drive: &mut ProcessDrive,
        place: &Place<'_>,
        user: &User<'_>,
    ) -> Result<(), PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        loosened::check(spec, user, |_, _| policy::of_the_machine(Path::new(MACHINE_POLICIES)))
            .map_err(wrong)?;
        if spec.setup.inherits(Inherited::McpServers) {
            let users = home::users_servers(spec, user);
            drive.argv.extend(mcp_config::only_named(mcp_config::names(spec).into_iter().chain(users)));
        }
        let variables = home::plain_variables(spec, user).map_err(wrong)?;
        if !home::is_needed(spec) && variables == PlainVariables::Read {
            return Ok(());
        }
        home::furnish(spec, drive, place, user, &variables).map_err(wrong)
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let found = place.program("gemini").map_err(wrong)?;
        let setup = &spec.setup;
        let wanted = Wanted {
            permission: &setup.permission,
            tools: setup.tools.as_deref(),
            directory: &spec.directory,
            delegates: spec.delegates != Delegates::Nobody,
            servers: &setup.mcp_servers,
        };
        let mut argv = found.argv.clone();
        let mut option = |flag: &str, value: &str| argv.push(format!("{flag}={value}"));
        option("--output-format", "stream-json");
        let users_mode = users_mode(setup);
        let own_mode = if wanted.is_unrestricted() { "yolo" } else { "default" };
        option("--approval-mode", users_mode.unwrap_or(own_mode));
        if users_mode.is_some() && has_rules(&setup.permission) {
            option("--admin-policy", &place.file(POLICY_FILE));
        }
        if users_mode.is_none() {
            // As a policy of the machine it stands above what a project's settings name as one; as one of the user it takes
            // the place of those in the user's folder.
            option("--admin-policy", &place.file(POLICY_FILE));
            option("--policy", &place.file(POLICY_FILE));
        }
        if let Some(model) = &spec.model {
            option("--model", model);
        }
        if let Some(session) = &spec.session {
            option("--resume", session.as_str());
        }
        for directory in &setup.extra_directories {
            option("--include-directories", directory);
        }
        if !setup.inherits(Inherited::McpServers) {
            argv.extend(mcp_config::only_these(spec));
        }
        argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        let mut set = vec![
            ("GEMINI_CLI_TRUST_WORKSPACE".to_owned(), Setting::Plain("true".to_owned())),
            // The process that it would start itself anew in ignores signals.
            ("GEMINI_CLI_NO_RELAUNCH".to_owned(), Setting::Plain("true".to_owned())),
            ("NO_COLOR".to_owned(), Setting::Plain("1".to_owned())),
        ];
        let policy = if users_mode.is_some() { wanted.rules() } else { wanted.policy() };
        let mut files = vec![WorkFile::plain(POLICY_FILE, policy)];
        let system = spec.system_prompt.trim();
        if !system.is_empty() && setup.prompt_mode == PromptMode::Replace {
            files.push(WorkFile::plain(SYSTEM_FILE, system));
            set.push(("GEMINI_SYSTEM_MD".to_owned(), Setting::Plain(place.file(SYSTEM_FILE))));
        }
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set,
            feed: Feed::Whole(prompt(spec).into_bytes()),
            files,
            reader: Box::new(reader::Stream::new(setup.output_schema.is_some())),
        }))
    }
}

fn has_rules(permission: &Permission) -> bool {
    let Permission { level: _, allow, ask, deny } = permission;
    !(allow.is_empty() && ask.is_empty() && deny.is_empty())
}

/// Returns the mode that has the meaning of the level, where the rules of the program's user count and the agent has no list of
/// tools: what the mode and the rules of both do not allow is denied, since nobody can be asked.
fn users_mode(setup: &Setup) -> Option<&'static str> {
    let counts = setup.inherits(Inherited::Settings) && setup.tools.is_none();
    match setup.permission.level.filter(|_| counts)? {
        Level::ReadOnly => Some("plan"),
        Level::SafeEdit => Some("auto_edit"),
        Level::Yolo => None,
    }
}

/// Fits a process that speaks ACP to its user: its servers, which come with its session, are the only ones, and the
/// limit of turns is one of its settings.
pub(crate) fn beside(
    spec: &RunSpec,
    drive: &mut ProcessDrive,
    place: &Place<'_>,
    user: &User<'_>,
) -> Result<(), String> {
    drive.argv.extend(mcp_config::only_these(spec));
    let variables = home::plain_variables(spec, user)?;
    if spec.setup.max_turns.is_none() {
        return match variables {
            PlainVariables::Read => Ok(()),
            PlainVariables::Without(_) | PlainVariables::LeftOut => {
                home::furnish_alike(drive, place, user, &variables)
            }
        };
    }
    let mut without_servers = spec.clone();
    without_servers.setup.mcp_servers.clear();
    without_servers.delegates = Delegates::Nobody;
    home::furnish(&without_servers, drive, place, user, &variables)
}

/// Returns a policy that only takes away what the agent's list of tools does not have.
pub(crate) fn without_tools(spec: &RunSpec) -> WorkFile {
    WorkFile::plain(POLICY_FILE, policy::without(spec.setup.tools.as_deref().unwrap_or_default()))
}

/// Returns the prompt, with the system prompt before it if that shall not replace the program's own: there is no way to
/// put something behind that.
fn prompt(spec: &RunSpec) -> String {
    let system = spec.system_prompt.trim();
    let asked = worded_schema::prompt(spec);
    match spec.setup.prompt_mode {
        PromptMode::Append if !system.is_empty() => plain_words(&format!("{system}\n\n{asked}")),
        PromptMode::Append | PromptMode::Replace => plain_words(&asked),
    }
}

#[cfg(test)]
mod tests;
