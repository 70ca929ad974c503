//! Claude Code, driven by its stream of JSON in both directions, so that what it asks for is decided here.

mod inherited;
mod project;
mod reader;
mod settings;
mod versions;

use std::path::Path;

use domain::inherit::Inherited;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::run::RunSpec;
use domain::setup::{Context, PromptMode, Setup};
use serde_json::{Value, json};

pub(crate) use self::project::programs as project_programs;
use self::reader::Told;
use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, PriceList, ProcessDrive, ProjectProgram,
    Setting, WorkFile, permitted_args,
};
use crate::mcp_config;
use crate::plain_words::{no_command, plain_words};
use crate::program::Program;
use crate::user::{self, User};

const SYSTEM_FILE: &str = "system.md";
/// Settings of a run; what is in somebody's own file may be secret.
const SETTINGS_FILE: &str = "settings.json";
const MIXED_SETTINGS_FILE: &str = "secret-settings.json";

/// Variables that Claude Code needs to know its user, its service and its place.
pub(crate) const VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CONFIG_DIR",
    "CLOUD_ML_REGION",
    "GOOGLE_APPLICATION_CREDENTIALS",
];

/// Those of them that say nothing about a service, and so are for every service.
const OF_NO_SERVICE: &[&str] =
    &["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CONFIG_DIR"];

/// Arguments that an agent's file may add: none of them grants anything.
const EXTRA_ARGS: &[&str] = &[
    "--betas",
    "--debug",
    "--fallback-model",
    "--max-budget-usd",
    "--exclude-dynamic-system-prompt-sections",
];

/// The tools by which Claude Code changes files or starts programs.
const CHANGING_TOOLS: [(ToolKind<'static>, &str); 4] = [
    (ToolKind::Shell, "Bash"),
    (ToolKind::Edit, "Edit"),
    (ToolKind::Edit, "Write"),
    (ToolKind::Edit, "NotebookEdit"),
];

/// Where sub-agents-mcp looks for the key of a service that is not Anthropic's.
const KEY_OF_SUB_AGENTS: &str = "CLI_API_KEY";

/// The option with rules for what it shall not do.
const DENIES: &str = "--disallowedTools";

/// The variable by which it reads the instructions in folders that are named.
const NAMED_INSTRUCTIONS: &str = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD";

/// Another vendor's service that speaks the protocol of Claude Code's.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    pub address: &'static str,
    /// The user's variable that holds the key.
    pub key: &'static str,
    /// The variable by which Claude Code is given the key.
    pub key_variable: &'static str,
}

/// Claude Code, or the same program with another vendor's service behind it.
pub struct Claude {
    pub name: &'static str,
    pub service: Option<Endpoint>,
    /// Claude Code tells what it knows the price of.
    pub prices: PriceList,
}

impl Claude {
    /// Returns the variables of its user that it is given: keys only where they are for this service.
    fn variables(&self) -> &'static [&'static str] {
        match self.service {
            Some(_) => OF_NO_SERVICE,
            None => VARIABLES,
        }
    }

    /// Returns the file of the run's own settings, and whether there is one.
    fn settings_file(&self, spec: &RunSpec) -> Option<WorkFile> {
        let ours = settings::of(spec, self.service)?;
        let keys = self.service.iter().map(|service| service.key.to_owned()).collect();
        let mut file = WorkFile::with_variables(SETTINGS_FILE, ours.to_string(), keys);
        // It takes one file: somebody's own is mixed in when it can be read, and may hold secrets.
        if spec.setup.vendor_settings.is_some() {
            MIXED_SETTINGS_FILE.clone_into(&mut file.name);
        }
        Some(file)
    }
}

impl Backend for Claude {
    fn kind(&self) -> &'static str {
        self.name
    }

    fn program(&self) -> Option<&'static Program> {
        Some(&versions::PROGRAM)
    }

    fn variables(&self) -> Vec<&'static str> {
        VARIABLES.iter().copied().chain(self.service.map(|service| service.key)).collect()
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        Capabilities {
            system_prompt: true,
            model: true,
            session: true,
            names_sessions: true,
            usage: true,
            prices: self.prices,
            ask: true,
            tells_tools: true,
            process: true,
            replaces_prompt: true,
            effort: true,
            tools: true,
            skips_context: true,
            mcp_servers: true,
            expands_dollars: true,
            output_schema: true,
            max_turns: true,
            extra_args: EXTRA_ARGS,
            extra_directories: true,
            vendor_settings: true,
            delegates: true,
            forks: true,
            inherits: &[Inherited::McpServers, Inherited::Settings],
            denies_folders: true,
            ..Capabilities::default()
        }
    }

    /// Whatever settings allow, what a permission restricts is asked for, and decided by the permission itself.
    fn unenforceable(&self, _permission: &Permission, _options: &Value) -> Vec<String> {
        Vec::new()
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
        let (retries, some) = versions::RETRIES;
        if !spec.alternatives.is_empty() && (user.value)(retries).is_none() {
            drive.set.push((retries.to_owned(), Setting::Plain(some.to_owned())));
        }
        if inherited::leaves_project_out(&spec.setup, place) {
            deny_more(&mut drive.argv, &project::denials(spec));
        }
        let mut service = self.service;
        if let Some(Endpoint { key, .. }) = &mut service
            && (user.value)(key).is_none()
            && (user.value)(KEY_OF_SUB_AGENTS).is_some()
        {
            read_key_from(drive, key, KEY_OF_SUB_AGENTS);
            *key = KEY_OF_SUB_AGENTS;
        }
        let own = [SETTINGS_FILE, MIXED_SETTINGS_FILE];
        let Some(file) = drive.files.iter_mut().find(|file| own.contains(&file.name.as_str())) else {
            return Ok(());
        };
        let mut ours = settings::of(spec, service).unwrap_or_default();
        if spec.setup.inherits(Inherited::McpServers) {
            let named = inherited::projects_servers(spec)
                .map_err(|reason| PrepareError { kind: self.name, reason })?;
            ours[inherited::LEFT_OUT] = named.into_iter().map(|(_, name)| name).collect();
        }
        let Some(path) = &spec.setup.vendor_settings else {
            file.content = ours.to_string().into_bytes();
            return Ok(());
        };
        let wrong = |reason: String| PrepareError { kind: self.name, reason };
        let theirs = user::settings(Path::new(path))
            .filter(Value::is_object)
            .ok_or_else(|| wrong(format!("the settings {path} cannot be read")))?;
        file.content = settings::on_top(theirs, &ours).to_string().into_bytes();
        Ok(())
    }

    fn look_through(&self, spec: &RunSpec, _drive: &mut ProcessDrive) -> Result<Vec<String>, PrepareError> {
        let mut withheld = Vec::new();
        if spec.setup.inherits(Inherited::McpServers) {
            let servers = inherited::withheld_servers(spec);
            withheld.extend(servers.map_err(|reason| PrepareError { kind: self.name, reason })?);
        }
        if spec.setup.inherits(Inherited::Settings) {
            withheld.extend(inherited::withheld_settings(spec));
        }
        Ok(withheld)
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: self.name, reason };
        let found = place.program("claude").map_err(wrong)?;
        let setup = &spec.setup;
        let mut argv = found.argv.clone();
        let fixed = ["-p", "--output-format=stream-json", "--input-format=stream-json", "--verbose"];
        argv.extend(fixed.map(ToOwned::to_owned));
        // Else what was said of a message that is not finished would be lost with it.
        argv.push("--include-partial-messages".to_owned());
        argv.push("--permission-prompt-tool=stdio".to_owned());
        argv.push(format!("--permission-mode={}", inherited::permission_mode(setup)));
        argv.extend((!setup.inherits(Inherited::McpServers)).then(|| "--strict-mcp-config".to_owned()));
        let mut files = vec![mcp_config::file(spec, place)];
        argv.push(format!("--mcp-config={}", place.file(&files[0].name)));
        if !spec.system_prompt.trim().is_empty() {
            files.push(WorkFile::plain(SYSTEM_FILE, spec.system_prompt.as_str()));
            let flag = match setup.prompt_mode {
                PromptMode::Append => "--append-system-prompt-file",
                PromptMode::Replace => "--system-prompt-file",
            };
            argv.push(format!("{flag}={}", place.file(SYSTEM_FILE)));
        }
        let mut option = |flag: &str, value: Option<String>| {
            argv.extend(value.map(|value| format!("{flag}={value}")));
        };
        option("--model", spec.model.clone());
        option("--effort", setup.effort.clone());
        option("--tools", offered(setup).map(|tools| tools.join(",")));
        option(DENIES, denied(setup));
        option("--max-turns", setup.max_turns.map(|turns| turns.to_string()));
        option("--json-schema", setup.output_schema.as_ref().map(Value::to_string));
        option("--resume", spec.session.as_ref().map(|session| session.as_str().to_owned()));
        let own_settings = self.settings_file(spec);
        let settings = own_settings.as_ref().map(|file| place.file(&file.name));
        files.extend(own_settings);
        option("--settings", settings.or_else(|| setup.vendor_settings.clone()));
        let without_project = inherited::leaves_project_out(setup, place);
        let sources = match setup.context {
            Context::None => Some(String::new()),
            Context::Load => without_project.then(|| "user".to_owned()),
        };
        option("--setting-sources", sources);
        // Where the project's settings are left out, so are its instructions, unless the folder is named.
        let own = without_project.then_some([&spec.directory, &spec.project]);
        for directory in setup.extra_directories.iter().chain(own.into_iter().flatten()) {
            option("--add-dir", Some(directory.clone()));
        }
        argv.extend(spec.fork.then(|| "--fork-session".to_owned()));
        argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        let mut set = Vec::new();
        if without_project && setup.context == Context::Load {
            set.push((NAMED_INSTRUCTIONS.to_owned(), Setting::Plain("1".to_owned())));
        }
        if let Some(service) = self.service {
            set.extend(settings::of_other_services(service).map(|name| (name.to_owned(), Setting::Unset)));
            set.push(("ANTHROPIC_BASE_URL".to_owned(), Setting::Plain(service.address.to_owned())));
            set.push((service.key_variable.to_owned(), Setting::From(service.key.to_owned())));
        }
        let prompt = as_words(&spec.prompt, &setup.permission);
        let message = json!({"role": "user", "content": [{"type": "text", "text": prompt}]});
        let first = format!("{}\n", json!({"type": "user", "message": message}));
        let told = match spec.session {
            Some(_) if versions::cost_is_cumulative(found.version.as_deref()) => {
                Told::after(place.session_used)
            }
            Some(_) | None => Told::anew(),
        };
        let told = if self.service.is_some() { told.at_another_service() } else { told };
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: self.variables().iter().map(|name| (*name).to_owned()).collect(),
            set,
            feed: Feed::Open(first.into_bytes()),
            files,
            reader: Box::new(reader::Stream::new(told, setup.output_schema.is_some())),
        }))
    }
}

/// Has a prepared process read the key of its service from another variable.
fn read_key_from(drive: &mut ProcessDrive, key: &str, other: &str) {
    for (_, setting) in &mut drive.set {
        if matches!(setting, Setting::From(name) if name == key) {
            *setting = Setting::From(other.to_owned());
        }
    }
    for file in drive.files.iter_mut().filter(|file| file.variables.iter().any(|name| name == key)) {
        file.variables.iter_mut().filter(|name| *name == key).for_each(|name| other.clone_into(name));
        if let Ok(text) = std::str::from_utf8(&file.content) {
            file.content = text.replace(&format!("${{{key}}}"), &format!("${{{other}}}")).into_bytes();
        }
    }
}

/// Adds rules to those that are denied.
fn deny_more(argv: &mut Vec<String>, rules: &[String]) {
    if rules.is_empty() {
        return;
    }
    let rules = rules.join(",");
    match argv.iter_mut().find(|word| word.strip_prefix(DENIES).is_some_and(|rest| rest.starts_with('='))) {
        Some(known) => *known = format!("{known},{rules}"),
        None => argv.push(format!("{DENIES}={rules}")),
    }
}

/// Returns the only tools of its own that Claude Code shall offer its model, if not all.
fn offered(setup: &Setup) -> Option<Vec<String>> {
    let permission = &setup.permission;
    match (&setup.tools, permission.level) {
        (Some(tools), _) => Some(tools.clone()),
        // Its own mode says which of them may be used.
        (None, _) if setup.inherits(Inherited::Settings) => None,
        (None, Some(Level::ReadOnly | Level::SafeEdit)) => {
            let named = permission.allow.iter().chain(&permission.ask);
            let others = named.filter(|rule| matches!(rule.kind(), ToolKind::Other(_))).map(Rule::tool);
            Some(versions::TOOLS_OF_LEVELS.iter().copied().chain(others).map(ToOwned::to_owned).collect())
        }
        (None, Some(Level::Yolo) | None) => None,
    }
}

/// Returns the prompt so that it is taken as words: `/word` would be a command. `@word` puts the file of that name into
/// the prompt without a question, which is no more than the agent may do unless its permission speaks of reading.
fn as_words(prompt: &str, permission: &Permission) -> String {
    let speaks = |rule: &Rule| matches!(rule.kind(), ToolKind::Read | ToolKind::Everything);
    if permission.deny.iter().chain(&permission.ask).any(speaks) {
        return plain_words(prompt);
    }
    no_command(prompt)
}

/// Returns the tools and rules that Claude Code itself shall refuse, since it lets some uses pass without asking.
fn denied(setup: &Setup) -> Option<String> {
    let permission = &setup.permission;
    let mut rules: Vec<String> = permission.deny.iter().map(|rule| rule.spelling().to_owned()).collect();
    if permission.level == Some(Level::ReadOnly) && !setup.inherits(Inherited::Settings) {
        let allowed = |kind: ToolKind<'_>| {
            let speaks = |rule: &Rule| rule.kind() == kind || rule.kind() == ToolKind::Everything;
            permission.allow.iter().chain(&permission.ask).any(speaks)
        };
        let forbidden = CHANGING_TOOLS.iter().filter(|(kind, _)| !allowed(*kind));
        rules.extend(forbidden.map(|(_, tool)| (*tool).to_owned()));
    }
    (!rules.is_empty()).then(|| rules.join(","))
}

#[cfg(test)]
mod tests;
