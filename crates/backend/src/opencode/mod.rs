//! opencode, with its lines of JSON. It has no way to ask: what is not allowed before it starts is refused. All that
//! it must know goes by the layer of configuration that a project cannot overrule.

mod inherited;
mod outward;
mod permission;
mod project;
mod reader;
pub(crate) mod versions;

use std::path::{Path, PathBuf};

use domain::agent::Delegates;
use domain::inherit::Inherited;
use domain::mcp_server::VariableText;
use domain::permission::Permission;
use domain::run::RunSpec;
use domain::setup::{Context, PromptMode};
use serde_json::{Map, Value, json};

use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, PriceList, ProcessDrive, ProjectProgram,
    Setting, WorkFile, permitted_args,
};
use crate::logins;
use crate::mcp_config::{self, OWN_SERVER};
use crate::program::Program;
use crate::user::{self, User};
use crate::worded_schema;
use permission::{Decisions, UsersRule, mcp_key};
pub(crate) use project::programs_of_project;
use project::{check_above, folders_of};

const KIND: &str = "opencode";
const SYSTEM_FILE: &str = "system.md";
/// The variable with the last layer of settings.
pub(crate) const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";
/// The settings of a process that speaks ACP, since it asks about nothing by itself. Nothing is published, whatever its user
/// or a project says.
pub(crate) const ASKING: &str =
    r#"{"share":"disabled","mcp":{},"permission":{"edit":"ask","bash":"ask","webfetch":"ask"}}"#;
/// Variables that leave the directory's own instructions out.
pub(crate) const WITHOUT_CONTEXT: [(&str, &str); 2] =
    [("OPENCODE_DISABLE_PROJECT_CONFIG", "1"), ("OPENCODE_DISABLE_CLAUDE_CODE_PROMPT", "1")];

/// Variables that shorten the wait for a package registry that cannot be reached. Before opencode loads a plug-in or a tool
/// of a project, it installs a package with its built-in npm, which by default tries again after 10 s and after 60 s: without
/// a network an agent would begin 70 s late. It still tries three times, within 3 s, and goes on without the package.
pub(crate) const REGISTRY_RETRIES: [(&str, &str); 2] =
    [("npm_config_fetch_retry_mintimeout", "1000"), ("npm_config_fetch_retry_maxtimeout", "2000")];

/// Variables that opencode needs to know its user's keys, its services and its place.
pub(crate) const VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "GITHUB_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENCODE_API_KEY",
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_DIR",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENROUTER_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
];

/// Arguments that an agent's file may add: none of them grants anything.
const EXTRA_ARGS: &[&str] = &["--log-level", "--print-logs", "--pure", "--thinking", "--variant"];

pub struct Opencode;

impl Backend for Opencode {
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
            tells_tools: true,
            process: true,
            replaces_prompt: true,
            effort: true,
            temperature: true,
            tools: true,
            skips_context: true,
            mcp_servers: true,
            server_tools: true,
            output_schema: true,
            extra_args: EXTRA_ARGS,
            delegates: true,
            forks: true,
            inherits: &[Inherited::McpServers, Inherited::Settings],
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        permission::translate(permission, "", &[]).unsaid
    }

    fn ungranted(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        permission::translate(permission, "", &[]).ungranted
    }

    fn project_programs(&self, folders: &[&Path]) -> Vec<ProjectProgram> {
        programs_of_project(folders)
    }

    fn adapt(
        &self,
        spec: &RunSpec,
        drive: &mut ProcessDrive,
        place: &Place<'_>,
        user: &User<'_>,
    ) -> Result<(), PrepareError> {
        let wrong = |reason| PrepareError { kind: KIND, reason };
        if logins::is_logged_out(KIND, user) {
            drive.reader.expect_no_login();
        }
        if spec.setup.inherits(Inherited::McpServers) {
            check_above(spec, user).map_err(wrong)?;
            turn_off(drive, &inherited::projects_servers(spec, user));
        } else {
            without_others(spec, drive, place, user).map_err(wrong)?;
        }
        if spec.setup.inherits(Inherited::Settings) {
            let users = inherited::rules(spec, user).map_err(wrong)?;
            let (before, after) = (decisions(spec, &[]), decisions(spec, &users));
            replace_decisions(drive, &before, &after);
        }
        Ok(())
    }

    fn look_through(&self, spec: &RunSpec, drive: &mut ProcessDrive) -> Result<Vec<String>, PrepareError> {
        let withheld = match spec.setup.inherits(Inherited::McpServers) {
            true => inherited::withheld_servers(spec),
            false => Vec::new(),
        };
        // Where its user's rules count, commands may change what a link leads to, so nothing is gained by a look at links.
        if !permission::may_edit(&spec.setup.permission) || spec.setup.inherits(Inherited::Settings) {
            return Ok(withheld);
        }
        let denied = outward::look(spec, outward::BOUNDS);
        let outward::Denied { patterns, gap } =
            denied.map_err(|reason| PrepareError { kind: KIND, reason })?;
        deny_edits(spec, drive, &patterns);
        let gap = gap.map(|gap| format!("permission: {gap}: what they lead to may be edited"));
        Ok(withheld.into_iter().chain(gap).collect())
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let found = place.program("opencode").map_err(wrong)?;
        let setup = &spec.setup;
        let mut argv = found.argv.clone();
        argv.extend(["run", "--format=json", "--title=volery"].map(ToOwned::to_owned));
        argv.push(format!("--agent={}", agent_name(spec)));
        argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
        argv.extend(setup.effort.iter().map(|effort| format!("--variant={effort}")));
        argv.extend(spec.session.iter().map(|session| format!("--session={}", session.as_str())));
        argv.extend(spec.fork.then(|| "--fork".to_owned()));
        argv.extend(permitted_args(&setup.extra_args, EXTRA_ARGS).map_err(wrong)?);
        let (config, files) = settings(spec, place);
        let plain = |name: &str, value: &str| (name.to_owned(), Setting::Plain(value.to_owned()));
        let mut set = vec![plain(CONFIG, &config), plain("OPENCODE_DISABLE_AUTOUPDATE", "1")];
        set.extend(REGISTRY_RETRIES.map(|(name, value)| plain(name, value)));
        set.extend(versions::LOG.map(|(name, value)| plain(name, value)));
        if setup.context == Context::None {
            set.extend(WITHOUT_CONTEXT.map(|(name, value)| plain(name, value)));
        }
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set,
            feed: Feed::Whole(worded_schema::prompt(spec).into_bytes()),
            files,
            reader: Box::new(reader::Stream::new(setup.output_schema.is_some())),
        }))
    }
}

/// Returns the same with none of its own tools but these. What is denied stands there twice, since the settings of the
/// agent that it begins with count more.
pub(crate) fn asking_with_only(tools: &[String]) -> String {
    let mut denied = permission::Decisions::default();
    denied.keep_only(tools);
    let (all, denied) = (permission::asking_with_only(tools).to_json(), denied.to_json());
    format!(
        "{{\"share\":\"disabled\",\"mcp\":{{}},\"permission\":{all},\
         \"agent\":{{\"build\":{{\"permission\":{denied}}}}}}}"
    )
}

/// Turns off every server that the program would find by itself: it reads several layers of settings and mixes them, and ours are the last.
pub(crate) fn without_others(
    spec: &RunSpec,
    drive: &mut ProcessDrive,
    _place: &Place<'_>,
    user: &User<'_>,
) -> Result<(), String> {
    check_above(spec, user)?;
    turn_off(drive, &others(spec, user));
    Ok(())
}

/// Turns these servers off.
fn turn_off(drive: &mut ProcessDrive, servers: &[String]) {
    for (name, setting) in &mut drive.set {
        if let (CONFIG, Setting::Plain(config)) = (name.as_str(), setting) {
            // Servers that come with a session are not in there, and one of the same name must not start before.
            let own =
                serde_json::from_str(config).map_or_else(|_| Vec::new(), |all| user::names(&all, "mcp"));
            let others = servers.iter().filter(|name| !own.contains(name)).cloned();
            *config = with_off(config, &others.collect::<Vec<_>>());
        }
    }
}

/// Returns a configuration in which these servers are turned off.
fn with_off(config: &str, others: &[String]) -> String {
    const BEGIN: &str = "\"mcp\":{";
    let Some((before, after)) = config.split_once(BEGIN) else { return config.to_owned() };
    let off: Vec<String> =
        others.iter().map(|name| format!("{}:{{\"enabled\":false}}", json!(name))).collect();
    let comma = if off.is_empty() || after.starts_with('}') { "" } else { "," };
    format!("{before}{BEGIN}{}{comma}{after}", off.join(","))
}

/// The names of files of settings, in the order in which the program reads them.
const FILES: [&str; 3] = ["config.json", "opencode.json", "opencode.jsonc"];

/// Returns the names of the servers in the layers of settings that the program reads.
fn others(spec: &RunSpec, user: &User<'_>) -> Vec<String> {
    let files = users_files(user).into_iter().chain(projects_files(&folders_of(spec, user)));
    server_names(files)
}

/// Returns the names of the servers in these files of settings.
fn server_names(files: impl Iterator<Item = PathBuf>) -> Vec<String> {
    let found = files.filter_map(|file| user::settings(&file));
    let mut names: Vec<String> = found.flat_map(|settings| user::names(&settings, "mcp")).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the files of settings that are the user's own, in the order in which they count.
fn users_files(user: &User<'_>) -> Vec<PathBuf> {
    let within = |folder: PathBuf| FILES.map(|file| folder.join(file));
    let config = user.folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("opencode"));
    let named = (user.value)("OPENCODE_CONFIG").map(PathBuf::from);
    let own = user.folder("OPENCODE_CONFIG_DIR", ".opencode");
    config.into_iter().flat_map(within).chain(named).chain(own.into_iter().flat_map(within)).collect()
}

/// Returns the files of settings in folders of a project.
fn projects_files(folders: &[PathBuf]) -> Vec<PathBuf> {
    let both = folders.iter().flat_map(|folder| [folder.join(".opencode"), folder.clone()]);
    both.flat_map(|folder| FILES.map(|file| folder.join(file))).collect()
}

/// A project cannot have an agent of this name, whose settings would be mixed with ours.
fn agent_name(spec: &RunSpec) -> String {
    format!("volery-{}", spec.id)
}

/// Returns what a run may do, with the rules of its user where those count.
fn decisions(spec: &RunSpec, users: &[UsersRule]) -> Decisions {
    let setup = &spec.setup;
    let root = user::upward(&spec.directory, &spec.project).last().copied().unwrap_or(Path::new(""));
    let folder = Path::new(&spec.directory).strip_prefix(root).unwrap_or(Path::new("")).display().to_string();
    let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut decisions = match setup.inherits(Inherited::Settings) {
        true => permission::translate_with_users(&setup.permission, &folder, &setup.mcp_servers, users),
        false => permission::translate(&setup.permission, &folder, &setup.mcp_servers),
    };
    if let Some(tools) = &setup.tools {
        decisions.keep_only(tools);
    }
    if spec.delegates != Delegates::Nobody {
        decisions.make(&mcp_key(OWN_SERVER, None), "*", "allow");
    }
    decisions
}

/// Denies edits in settings that are made, by putting other decisions in the place of all that stand there.
fn deny_edits(spec: &RunSpec, drive: &mut ProcessDrive, patterns: &[String]) {
    let made = decisions(spec, &[]);
    let mut fewer = decisions(spec, &[]);
    patterns.iter().for_each(|pattern| fewer.make("edit", pattern, "deny"));
    replace_decisions(drive, &made, &fewer);
}

fn replace_decisions(drive: &mut ProcessDrive, before: &Decisions, after: &Decisions) {
    let said = |decisions: &Decisions| format!("\"permission\":{}", decisions.to_json());
    for (name, setting) in &mut drive.set {
        if let (CONFIG, Setting::Plain(config)) = (name.as_str(), setting) {
            *config = config.replace(&said(before), &said(after));
        }
    }
}

/// Returns the configuration of a run, and its files: values that must not stand in the environment stand there.
fn settings(spec: &RunSpec, place: &Place<'_>) -> (String, Vec<WorkFile>) {
    let setup = &spec.setup;
    let mut files = Vec::new();
    if !spec.system_prompt.trim().is_empty() {
        files.push(WorkFile::plain(SYSTEM_FILE, spec.system_prompt.as_str()));
    }
    let decisions = decisions(spec, &[]).to_json();
    let system = format!("{{file:{}}}", place.file(SYSTEM_FILE));
    let has_system = !spec.system_prompt.trim().is_empty();
    let (prompt, instructions) = match setup.prompt_mode {
        _ if !has_system => (String::new(), json!([])),
        PromptMode::Append => (String::new(), json!([place.file(SYSTEM_FILE)])),
        PromptMode::Replace => (format!(",\"prompt\":{}", json!(system)), json!([])),
    };
    let temperature =
        setup.temperature.map(|temperature| format!(",\"temperature\":{}", temperature.degrees()));
    let temperature = temperature.unwrap_or_default();
    let servers = permission::servers(&hidden(mcp_config::servers(spec, place), place, &mut files));
    let config = format!(
        "{{\"autoupdate\":false,\"share\":\"disabled\",\"instructions\":{instructions},\"mcp\":{},\
         \"permission\":{decisions},\"agent\":{{{}:{{\"mode\":\"primary\",\"permission\":{decisions}{prompt}{temperature}}}}}}}",
        Value::Object(servers),
        json!(agent_name(spec))
    );
    (config, files)
}

/// Puts each text that refers to variables into a file, and a reference to the file into its place.
fn hidden(servers: Map<String, Value>, place: &Place<'_>, files: &mut Vec<WorkFile>) -> Map<String, Value> {
    servers.into_iter().map(|(name, server)| (name, hide(server, place, files))).collect()
}

fn hide(value: Value, place: &Place<'_>, files: &mut Vec<WorkFile>) -> Value {
    match value {
        Value::String(text) => {
            let variables: Vec<String> =
                VariableText::from(text.as_str()).variables().map(ToOwned::to_owned).collect();
            if variables.is_empty() {
                return Value::String(text);
            }
            let file = WorkFile::with_variables(&format!("value-{}", files.len()), text, variables);
            let reference = format!("{{file:{}}}", place.file(&file.name));
            files.push(file);
            Value::String(reference)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|item| hide(item, place, files)).collect()),
        Value::Object(members) => Value::Object(hidden(members, place, files)),
        other => other,
    }
}

#[cfg(test)]
mod tests;
