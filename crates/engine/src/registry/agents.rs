//! Reads the agents of every folder of a project, and decides which definition of a name is used.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::agent_formats::plain::PlainDefaults;
use config::agent_formats::{
    AgentFile, claude, codex, copilot, cursor, directive, dot_agents, gemini, jarvis, opencode, plain, qwen,
    volery,
};
use domain::agent::{Agent, AgentFormat, RehearsalScript, ScriptSource};
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;
use domain::permission::Level;

use super::agent_folders::{AgentFolder, Source, sources};
use super::claude_plugins::read_plugins;
use super::config_agents::read_config_file;
use super::discovery::{ESCAPES_PROJECT, agent_files};
use super::duplicates::{Duplicates, Shadowed};
use super::file_cache::FileCache;
use super::guarded_read::{ESCAPES_FOLDER, escapes_folder, read_head, read_text, read_text_lossy};
use super::key_location::key_location;
use super::parsed_files::{self, AgentFileContent};
use super::sidecar_files::{read_jarvis, read_kiro};
use crate::env;

/// The agents of a project, by name.
#[derive(Debug, Default)]
pub(super) struct Agents {
    pub(super) usable: BTreeMap<AgentName, Arc<Agent>>,
    /// Agents whose name a stronger file has, by `FORMAT:NAME`.
    pub(super) shadowed: Shadowed,
    /// Names with a file that cannot be used, and why. Another file may define the same name.
    pub(super) broken: BTreeMap<AgentName, Diagnostic>,
    /// The readable parts of such files, which may have further errors that their reader does not know.
    pub(super) drafts: Vec<Agent>,
    duplicates: Duplicates,
    /// The resolved files of the agents that a configuration file of Codex declares. The same files in the folder of
    /// agents do not define further agents.
    declared_files: BTreeSet<PathBuf>,
}

/// Reads every agent of a project and its user. Nearer folders come later, and win.
pub(super) fn read(project: &Path, diagnostics: &mut Vec<Diagnostic>) -> Agents {
    let mut agents = Agents::default();
    let defaults = plain_defaults(env::text, diagnostics);
    for source in sources(project, diagnostics) {
        match source {
            Source::AgentFolder(folder) => read_folder_into(&mut agents, &folder, &defaults, diagnostics),
            Source::ConfigFile(file) => {
                for agent in read_config_file(&file, diagnostics) {
                    if agent.source.format == AgentFormat::Codex {
                        agents.declared_files.extend(Path::new(&agent.source.file).canonicalize());
                    }
                    add_agent(Arc::new(agent), &mut agents);
                }
            }
            Source::Plugins { claude, project } => {
                read_plugins(&claude, &project, diagnostics)
                    .into_iter()
                    .for_each(|agent| add_agent(Arc::new(agent), &mut agents));
            }
        }
    }
    report_duplicates(&mut agents, diagnostics);
    agents
}

static FOLDERS: FileCache<AgentFolder, FolderAgents> = FileCache::new();

/// The agents of one folder, and the diagnostics about its files.
pub(crate) type FolderAgents = (BTreeMap<AgentName, Arc<Agent>>, Vec<Diagnostic>);

/// Returns the agents of one folder that a dialect names, with Volery's own variables.
pub fn folder_agents(folder: &AgentFolder) -> Arc<FolderAgents> {
    FOLDERS.get(folder, || read_folder(folder, env::text))
}

/// Reports which of several files is used for a name.
pub(super) fn report_duplicates(agents: &mut Agents, diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.extend(std::mem::take(&mut agents.duplicates).report(&agents.usable));
    for (name, problem) in &agents.broken {
        let Some(used) = agents.usable.get(name) else { continue };
        let message = format!("this file has errors, so the agent {name} is the one in {}", used.source.file);
        diagnostics.push(Diagnostic::warning(&problem.file, message));
    }
}

/// Reads the agents of one folder as a server with these variables would.
pub fn read_folder(folder: &AgentFolder, variable: impl Fn(&str) -> Option<String>) -> FolderAgents {
    let mut agents = Agents::default();
    let mut diagnostics = Vec::new();
    let defaults = plain_defaults(variable, &mut diagnostics);
    read_folder_into(&mut agents, folder, &defaults, &mut diagnostics);
    report_duplicates(&mut agents, &mut diagnostics);
    (agents.usable, diagnostics)
}

pub(super) fn read_folder_into(
    agents: &mut Agents,
    folder: &AgentFolder,
    defaults: &PlainDefaults,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let folder = &within_project(folder, diagnostics);
    for path in agent_files(folder, diagnostics) {
        let is_declared = || path.canonicalize().is_ok_and(|real| agents.declared_files.contains(&real));
        if folder.format == AgentFormat::Codex && !agents.declared_files.is_empty() && is_declared() {
            continue;
        }
        let content = parsed_files::content(folder, &path, defaults, || read_file(folder, &path, defaults));
        diagnostics.extend(content.diagnostics);
        agents.broken.extend(content.broken);
        agents.drafts.extend(content.draft);
        content.agent.into_iter().for_each(|agent| add_agent(agent, agents));
    }
}

fn read_file(folder: &AgentFolder, path: &Path, defaults: &PlainDefaults) -> AgentFileContent {
    let mut diagnostics = Vec::new();
    match read_agent(folder, path, defaults, &mut diagnostics) {
        Some(mut agent) => {
            resolve_script(&mut agent, &folder.path, &mut diagnostics);
            AgentFileContent { agent: Some(Arc::new(agent)), diagnostics, ..AgentFileContent::default() }
        }
        None => AgentFileContent {
            broken: broken_name(folder, path, &diagnostics),
            draft: draft(folder, path, defaults),
            diagnostics,
            agent: None,
        },
    }
}

/// Reads a file with errors as far as possible, if its format has keys that only later checks can judge.
fn draft(folder: &AgentFolder, path: &Path, defaults: &PlainDefaults) -> Option<Agent> {
    if escapes_folder(path, &folder.path) {
        return None;
    }
    let text = read_text(path, &mut Vec::new())?;
    let file = path.display().to_string();
    let stem = stem(folder, path);
    let agent_file = AgentFile { text: &text, file: &file, stem: &stem, layer: folder.layer };
    match folder.format {
        AgentFormat::Volery => volery::draft(agent_file),
        AgentFormat::DotAgents if has_frontmatter(&text) => dot_agents::draft(agent_file, defaults),
        AgentFormat::Jarvis if has_frontmatter(&text) => jarvis::draft(agent_file),
        AgentFormat::DotAgents
        | AgentFormat::Jarvis
        | AgentFormat::Plain
        | AgentFormat::Kiro
        | AgentFormat::Directive
        | AgentFormat::Claude
        | AgentFormat::Cursor
        | AgentFormat::Codex
        | AgentFormat::Gemini
        | AgentFormat::Qwen
        | AgentFormat::Opencode
        | AgentFormat::Copilot => None,
    }
}

/// Drops folders of prompts that lead out of the project.
fn within_project<'a>(folder: &'a AgentFolder, diagnostics: &mut Vec<Diagnostic>) -> Cow<'a, AgentFolder> {
    let (AgentFormat::Kiro, Some(within)) = (folder.format, &folder.boundary) else {
        return Cow::Borrowed(folder);
    };
    let leaves = |path: &PathBuf| path.starts_with(within) && escapes_folder(path, within);
    if !folder.path.is_dir() || !folder.prompts.folders.iter().any(leaves) {
        return Cow::Borrowed(folder);
    }
    let mut folder = folder.clone();
    folder.prompts.folders.retain(|path| {
        let leaves = leaves(path);
        if leaves {
            diagnostics.push(Diagnostic::error(&path.display().to_string(), ESCAPES_PROJECT));
        }
        !leaves
    });
    Cow::Owned(folder)
}

/// Returns the name that a file with errors would define, to explain it to a caller who asks for that agent.
fn broken_name(folder: &AgentFolder, path: &Path, found: &[Diagnostic]) -> Option<(AgentName, Diagnostic)> {
    let problem = found.iter().find(|found| found.is_error())?;
    // The errors of the text were already reported.
    let text = match escapes_folder(path, &folder.path) {
        true => String::new(),
        false => read_head(path, config::FILE_BYTES_MAX as u64),
    };
    let name = config::agent_formats::declared_name(folder.format, &text, &stem(folder, path))?;
    Some((name, problem.clone()))
}

/// Adds an agent. Sources are read in the order of precedence, so it takes the name from one that was read before.
pub(super) fn add_agent(agent: Arc<Agent>, agents: &mut Agents) {
    // A file with errors that is weaker than this one would not have been used anyway.
    agents.broken.remove(&agent.name);
    if let Some(weaker) = agents.usable.insert(agent.name.clone(), agent) {
        agents.duplicates.add(weaker, &mut agents.shadowed);
    }
}

fn read_agent(
    folder: &AgentFolder,
    path: &Path,
    defaults: &PlainDefaults,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Agent> {
    let file = path.display().to_string();
    // Only a link can lead elsewhere, and resolving a path costs a system call for each of its parts.
    let may_escape = path.is_symlink() || path.parent() != Some(&folder.path);
    if may_escape && escapes_folder(path, &folder.path) {
        diagnostics.push(Diagnostic::error(&file, ESCAPES_FOLDER));
        return None;
    }
    let text = match folder.format {
        // The programs of these formats replace bytes that are not UTF-8.
        AgentFormat::Plain | AgentFormat::Claude | AgentFormat::Opencode => {
            read_text_lossy(path, diagnostics)?
        }
        _ => read_text(path, diagnostics)?,
    };
    let stem = stem(folder, path);
    let agent_file = AgentFile { text: &text, file: &file, stem: &stem, layer: folder.layer };
    let (agent, found) = match folder.format {
        AgentFormat::Volery => volery::read(agent_file),
        AgentFormat::Plain => plain::read(agent_file, defaults),
        AgentFormat::DotAgents if has_frontmatter(&text) => dot_agents::read(agent_file, defaults),
        AgentFormat::DotAgents => plain::read(agent_file, defaults),
        // Many projects have a folder of this name with other files.
        AgentFormat::Jarvis if !has_frontmatter(&text) => return None,
        AgentFormat::Jarvis => return read_jarvis(agent_file, diagnostics),
        AgentFormat::Kiro => return read_kiro(agent_file, &folder.prompts, diagnostics),
        // A folder of directives also holds their notes.
        AgentFormat::Directive if !directive::is_directive(&text) => return None,
        AgentFormat::Directive => directive::read(agent_file),
        AgentFormat::Claude => claude::read(agent_file),
        AgentFormat::Cursor => cursor::read(agent_file),
        AgentFormat::Codex => codex::read(agent_file),
        AgentFormat::Gemini => gemini::read(agent_file),
        AgentFormat::Qwen => qwen::read(agent_file),
        AgentFormat::Opencode => opencode::read(agent_file),
        AgentFormat::Copilot => copilot::read(agent_file),
    };
    diagnostics.extend(found);
    agent
}

/// Returns the name of an agent by its file, unless the file's content sets another name.
fn stem<'a>(folder: &AgentFolder, path: &'a Path) -> Cow<'a, str> {
    let name_source = match folder.format {
        AgentFormat::Jarvis => path.parent().and_then(Path::file_name),
        // opencode names an agent by its path below the folder; folders of directives hold several files of one name.
        AgentFormat::Opencode | AgentFormat::Directive if path.parent() != Some(&folder.path) => {
            let below = path.strip_prefix(&folder.path).unwrap_or(path).with_extension("");
            return Cow::Owned(below.to_str().unwrap_or_default().to_owned());
        }
        AgentFormat::Volery
        | AgentFormat::Plain
        | AgentFormat::DotAgents
        | AgentFormat::Kiro
        | AgentFormat::Directive
        | AgentFormat::Claude
        | AgentFormat::Cursor
        | AgentFormat::Codex
        | AgentFormat::Gemini
        | AgentFormat::Qwen
        | AgentFormat::Opencode
        | AgentFormat::Copilot => path.file_stem(),
    };
    Cow::Borrowed(name_source.and_then(|stem| stem.to_str()).unwrap_or_default())
}

fn has_frontmatter(text: &str) -> bool {
    let text = config::frontmatter::normalize(text);
    config::frontmatter::split(&text) != Err(config::frontmatter::Missing::Begin)
}

/// The backend that sub-agents-mcp calls `kimi`.
const KIMI_BY_CLAUDE: &str = "claude-kimi";

/// Returns the defaults that the environment sets for all agents of sub-agents-mcp.
fn plain_defaults(
    variable: impl Fn(&str) -> Option<String>,
    diagnostics: &mut Vec<Diagnostic>,
) -> PlainDefaults {
    let variable = |name: &str| env::trimmed(variable(name));
    let mut defaults = PlainDefaults::default();
    let mut invalid = |name: &str, value: &str| {
        let message = format!("{name} is {value:?}, which means nothing");
        diagnostics.push(Diagnostic::warning("(environment)", message));
    };
    if let Some(value) = variable(env::AGENT_TYPE) {
        // For sub-agents-mcp `kimi` is Claude Code with Kimi's service, which needs this key. Without the key the
        // user means Kimi's own program.
        let by_claude = value == "kimi" && variable(env::CLI_API_KEY).is_some();
        match if by_claude { KIMI_BY_CLAUDE } else { &value }.parse() {
            Ok(backend) => defaults.backend = backend,
            Err(_) => invalid(env::AGENT_TYPE, &value),
        }
    }
    // These become arguments of a program, which must not look like options.
    let is_word = |value: &str| !value.starts_with('-') && !value.chars().any(char::is_control);
    for (name, slot) in [(env::AGENT_MODEL, &mut defaults.model), (env::AGENT_EFFORT, &mut defaults.effort)] {
        match variable(name) {
            Some(value) if !is_word(&value) => invalid(name, &value),
            value => *slot = value,
        }
    }
    if let Some(value) = variable(env::AGENT_PERMISSION) {
        let levels = [Level::ReadOnly, Level::SafeEdit, Level::Yolo];
        defaults.level = levels.into_iter().find(|level| level.as_str() == value);
        if defaults.level.is_none() {
            invalid(env::AGENT_PERMISSION, &value);
        }
    }
    defaults
}

/// Reads the script that an agent names, so that a run holds its steps and not a path.
fn resolve_script(agent: &mut Agent, folder: &Path, diagnostics: &mut Vec<Diagnostic>) {
    let Some(ScriptSource::File(relative)) = &agent.script else { return };
    let path = folder.join(relative);
    let invalid = |message: String| {
        let finding = Diagnostic::error(&agent.source.file, message);
        match key_location(&agent.source.file, "script") {
            Some((line, column)) => finding.at(line, column),
            None => finding,
        }
    };
    let script = if escapes_folder(&path, folder) {
        diagnostics.push(invalid(format!("the script {relative} leaves its folder")));
        None
    } else if let Some(text) = read_text(&path, diagnostics) {
        let (script, found) = config::script::read(&text, &path.display().to_string());
        diagnostics.extend(found);
        script
    } else {
        diagnostics.push(invalid(format!("the script {relative} cannot be read")));
        None
    };
    agent.script = Some(ScriptSource::Inline(script.unwrap_or_else(|| unreadable(relative))));
}

/// Returns a script that fails with the reason: a rehearsal with a broken script must not succeed.
fn unreadable(relative: &str) -> RehearsalScript {
    let message = format!("the script {relative} could not be read; `volery agents check` tells why");
    RehearsalScript { steps: vec![domain::agent::RehearsalStep::Fail(message)] }
}
