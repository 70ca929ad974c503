//! Qwen Code, driven by a stream of JSON in both directions, so that what it asks for is decided here. Its own option for the
//! shape of an answer is not used: with that it takes no such stream, and at `safe-edit` it would edit anywhere.

mod reader;
mod rules;
pub(crate) mod versions;

use std::path::{Path, PathBuf};

use domain::agent::Delegates;
use domain::permission::Permission;
use domain::run::{RunSpec, Usage};
use domain::setup::{Context, PromptMode};
use serde_json::{Map, Value, json};

use crate::combined_prompt::ARGUMENT_BYTES_MAX;
use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, PriceList, ProcessDrive, ProjectProgram,
    ProjectPrograms, Setting, WorkFile, permitted_args,
};
use crate::mcp_config::{self, OWN_SERVER};
use crate::plain_words::plain_words;
use crate::program::Program;
use crate::project_settings::{self, Keys, ProjectSettings};
use crate::user::{self, User};
use crate::worded_schema;

const KIND: &str = "qwen";
const MCP_FILE: &str = "mcp.json";
const SYSTEM_FILE: &str = "system.md";
/// The argument that leaves the directory's own instructions out.
pub(crate) const WITHOUT_CONTEXT: &str = "--bare";

/// How long a call of our own server may be silent; the run's own limits end it before.
const OWN_SERVER_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1_000;

/// Variables that Qwen Code needs to know its user, its service and its place.
pub(crate) const VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "BAILIAN_CODING_PLAN_API_KEY",
    "DASHSCOPE_API_KEY",
    "GEMINI_API_KEY",
    "GEMINI_MODEL",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_MODEL",
    "QWEN_HOME",
    "QWEN_MODEL",
];

/// Arguments that an agent's file may add: none of them grants anything.
const EXTRA_ARGS: &[&str] = &[
    "--auth-type",
    "--debug",
    "--fallback-model",
    "--max-subagent-depth",
    "--max-tool-calls",
    "--max-wall-time",
    "--output-style",
];

/// The variable that names the machine's settings, where they are without it, and the name of the run's.
const MACHINE_SETTINGS: &str = "QWEN_CODE_SYSTEM_SETTINGS_PATH";
const OF_THE_MACHINE: &str = "/etc/qwen-code/settings.json";
const MACHINE_FILE: &str = "secret-machine-settings.json";

/// Settings by which nothing is executed, reached or allowed that would not be without them. Servers are not started
/// unless the agent has them.
const HARMLESS_SETTINGS: &[&str] = &[
    "$schema",
    "$version",
    "context.autoCompactThreshold",
    "context.clearContextOnIdle",
    "context.fileFiltering",
    "context.fileName",
    "context.importFormat",
    "contextFileName",
    "fileFiltering",
    "general.debugKeystrokeLogging",
    "general.defaultFileEncoding",
    "general.enableAutoUpdate",
    "general.gitCoAuthor",
    "general.language",
    "general.notificationMode",
    "general.outputLanguage",
    "general.outputStyle",
    "general.preferredEditor",
    "general.showSessionRecap",
    "general.terminalBell",
    "general.vimMode",
    "hideBanner",
    "hideTips",
    "mcp.allowed",
    "mcp.excluded",
    "mcpServers",
    "model.chatCompression",
    "model.maxSessionTurns",
    "model.maxToolCalls",
    "model.maxToolCallsPerTurn",
    "model.maxWallTimeSeconds",
    "model.name",
    "model.reasoningEffort",
    "model.sessionTokenLimit",
    "model.skipLoopDetection",
    "model.skipNextSpeakerCheck",
    "model.skipStartupContext",
    "output.format",
    "output.showTimestamps",
    "permissions.ask",
    "permissions.deny",
    "skills.disabled",
    "slashCommands.disabled",
    "theme",
    "tools.disabled",
    "tools.exclude",
    "tools.truncateToolOutputLines",
    "tools.truncateToolOutputThreshold",
    "tools.useRipgrep",
    "ui.accessibility",
    "ui.compactMode",
    "ui.customThemes",
    "ui.customWittyPhrases",
    "ui.enableUserFeedback",
    "ui.enableWelcomeBack",
    "ui.hideBanner",
    "ui.hideTips",
    "ui.hideWindowTitle",
    "ui.renderMode",
    "ui.shellOutputMaxLines",
    "ui.showCitations",
    "ui.showLineNumbers",
    "ui.showStatusInTitle",
    "ui.theme",
    "vimMode",
];

/// What a project's settings execute, and whom they lead to.
pub(crate) static PROJECT: ProjectSettings = ProjectSettings {
    program: "qwen",
    files: &[".qwen/settings.json"],
    keys: Keys::Only { harmless: HARMLESS_SETTINGS, can_be_off: &["hooks"] },
    variables: &[".qwen/.env"],
};

/// Qwen Code.
pub struct Qwen;

impl Backend for Qwen {
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
            prices: PriceList::ByModel,
            ask: true,
            answer_ms_max: Some(versions::DECISION_TIMEOUT_MS - versions::DECISION_MARGIN_MS),
            tells_tools: true,
            process: true,
            replaces_prompt: true,
            effort: true,
            tools: true,
            skips_context: true,
            mcp_servers: true,
            server_tools: true,
            server_timeouts: true,
            output_schema: true,
            max_turns: true,
            temperature: true,
            extra_args: EXTRA_ARGS,
            extra_directories: true,
            delegates: true,
            forks: true,
            appended_bytes_max: Some(ARGUMENT_BYTES_MAX),
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        rules::unenforceable(permission)
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
        restrict(spec, drive, place, user).map_err(|reason| PrepareError { kind: KIND, reason })
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let found = place.program("qwen").map_err(wrong)?;
        let setup = &spec.setup;
        let capabilities = self.capabilities(&spec.backend.options);
        if let Some(reason) = capabilities.wrong_prompt(&spec.system_prompt, setup.prompt_mode) {
            return Err(wrong(reason));
        }
        let servers = servers(spec, place);
        let mut files = vec![mcp_config::written(MCP_FILE, &json!({ "mcpServers": servers }), spec)];
        let mut argv = found.argv.clone();
        let mut option = |flag: &str, value: &str| argv.push(format!("{flag}={value}"));
        option("--output-format", "stream-json");
        option("--mcp-config", &place.file(&files[0].name));
        for rule in rules::excluded(&setup.permission, setup.tools.as_deref()) {
            option("--exclude-tools", &rule);
        }
        option("--input-format", "stream-json");
        option("--approval-mode", "default");
        if spec.delegates != Delegates::Nobody {
            option("--allowed-tools", &format!("mcp__{OWN_SERVER}"));
        }
        let mut set = vec![("QWEN_CODE_SUPPRESS_YOLO_WARNING".to_owned(), Setting::Plain("1".to_owned()))];
        if spec.delegates != Delegates::Nobody {
            let timeout = Setting::Plain(OWN_SERVER_TIMEOUT_MS.to_string());
            set.push(("QWEN_CODE_MCP_TOOL_IDLE_TIMEOUT_MS".to_owned(), timeout));
        }
        let system = spec.system_prompt.trim();
        match setup.prompt_mode {
            _ if system.is_empty() => {}
            PromptMode::Replace => {
                files.push(WorkFile::plain(SYSTEM_FILE, system));
                set.push(("QWEN_SYSTEM_MD".to_owned(), Setting::Plain(place.file(SYSTEM_FILE))));
            }
            PromptMode::Append => option("--append-system-prompt", system),
        }
        argv.extend(mcp_config::only_these(spec));
        argv.extend(options(spec));
        argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        let feed = Feed::Open(opening(spec).map_err(wrong)?);
        let used_before = if spec.session.is_some() { place.session_used } else { Some(Usage::default()) };
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set,
            feed,
            files,
            reader: Box::new(reader::Stream::new(
                reader::Counted::after(used_before),
                setup.output_schema.is_some(),
            )),
        }))
    }
}

/// Returns the arguments by which a process that speaks ACP has no tools but those of the agent's list.
pub(crate) fn without_tools(spec: &RunSpec) -> Vec<String> {
    let excluded = rules::excluded(&Permission::default(), spec.setup.tools.as_deref());
    excluded.into_iter().map(|tool| format!("--exclude-tools={tool}")).collect()
}

/// Keeps servers beside those of a session away, and variables of strangers.
pub(crate) fn without_others(
    spec: &RunSpec,
    drive: &mut ProcessDrive,
    place: &Place<'_>,
    user: &User<'_>,
) -> Result<(), String> {
    drive.argv.extend(mcp_config::only_these(spec));
    restrict(spec, drive, place, user)
}

/// Turns off hooks of a project that is not trusted, variables in files `.env` other than keys and models, and waiting
/// for a service where there are fallbacks; sets the temperature. Nothing but the machine's settings counts more.
fn restrict(
    spec: &RunSpec,
    drive: &mut ProcessDrive,
    place: &Place<'_>,
    user: &User<'_>,
) -> Result<(), String> {
    PROJECT.check_above(spec, user.home)?;
    let variables = project_settings::plain_variables(&spec.directory, user.home)?;
    let has_fallbacks = !spec.alternatives.is_empty();
    let temperature = spec.setup.temperature;
    let changes_model = has_fallbacks || temperature.is_some();
    if place.project_programs == ProjectPrograms::On && variables.is_empty() && !changes_model {
        return Ok(());
    }
    let named = (user.value)(MACHINE_SETTINGS).map(PathBuf::from);
    let path = named.unwrap_or_else(|| PathBuf::from(OF_THE_MACHINE));
    let settings = user::settings(&path).unwrap_or_default();
    let mut settings = settings.as_object().cloned().unwrap_or_default();
    if place.project_programs == ProjectPrograms::Off {
        settings.insert("disableAllHooks".to_owned(), json!(true));
    }
    if !variables.is_empty() {
        project_settings::exclude_variables(&mut settings, &versions::EXCLUDED_VARIABLES, &variables);
    }
    if let Some(temperature) = temperature {
        let model = user::section(&mut settings, "model");
        let generation = user::section(model, "generationConfig");
        let sampling = user::section(generation, "samplingParams");
        sampling.insert("temperature".to_owned(), json!(temperature.degrees()));
    }
    if has_fallbacks {
        let model = user::section(&mut settings, "model");
        let generation = user::section(model, "generationConfig");
        generation.extend(versions::RETRIES.map(|(name, value)| (name.to_owned(), json!(value))));
    }
    drive.files.push(WorkFile::plain(MACHINE_FILE, Value::Object(settings).to_string()));
    drive.set.push((MACHINE_SETTINGS.to_owned(), Setting::Plain(place.file(MACHINE_FILE))));
    Ok(())
}

/// Returns the options that follow from single wishes.
fn options(spec: &RunSpec) -> Vec<String> {
    let setup = &spec.setup;
    let mut argv = Vec::new();
    let mut option = |flag: &str, value: Option<String>| {
        argv.extend(value.map(|value| format!("{flag}={value}")));
    };
    option("--model", spec.model.clone());
    option("--resume", spec.session.as_ref().map(|session| session.as_str().to_owned()));
    option("--max-session-turns", setup.max_turns.map(|turns| turns.to_string()));
    for directory in &setup.extra_directories {
        option("--add-dir", Some(directory.clone()));
    }
    argv.extend(spec.fork.then(|| "--fork-session".to_owned()));
    argv.extend((setup.context == Context::None).then(|| WITHOUT_CONTEXT.to_owned()));
    argv
}

/// Returns the MCP servers in the program's own form.
fn servers(spec: &RunSpec, place: &Place<'_>) -> Map<String, Value> {
    let mut all = mcp_config::servers(spec, place);
    for server in &spec.setup.mcp_servers {
        let entry = &mut all[&server.name];
        *entry = mcp_config::bounded(entry.take(), server);
    }
    all
}

/// Returns the first words of the conversation: who decides, and the prompt.
fn opening(spec: &RunSpec) -> Result<Vec<u8>, String> {
    let mut request =
        json!({"subtype": "initialize", "timeout": {"canUseTool": versions::DECISION_TIMEOUT_MS}});
    if let Some(effort) = &spec.setup.effort {
        if !versions::EFFORTS.contains(&effort.as_str()) {
            let known = versions::EFFORTS.join(", ");
            return Err(format!("the effort {effort:?} is not one of {known}"));
        }
        request["effort"] = json!(effort);
    }
    let hello = json!({"type": "control_request", "request_id": "volery-initialize", "request": request});
    let message = json!({"role": "user", "content": plain_words(&worded_schema::prompt(spec))});
    let user = json!({"type": "user", "session_id": "", "message": message, "parent_tool_use_id": null});
    Ok(format!("{hello}\n{user}\n").into_bytes())
}

#[cfg(test)]
mod tests;
