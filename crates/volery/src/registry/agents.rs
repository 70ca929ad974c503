//! Reads the agents of every folder that counts, and settles which definition of a name is used.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use definition::agent::plain::PlainDefaults;
use definition::agent::{
    AgentFile, claude, codex, copilot, cursor, directive, dot_agents, gemini, jarvis, opencode, plain, qwen,
    volery,
};
use domain::agent::{Agent, Format, Script, ScriptSource};
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;
use domain::permission::Level;

use super::beside::{read_jarvis, read_kiro};
use super::config_agents::read_config_file;
use super::duplicates::{Duplicates, Shadowed};
use super::file_cache::FileCache;
use super::folders::{Folder, Source, sources};
use super::listing::{LEAVES_PROJECT, files};
use super::places::place_of_key;
use super::plugins::read_plugins;
use super::text::{LEAVES, beginning, leaves_folder, read_text, read_text_lossy};
use crate::env;

/// The agents that there are, by name.
#[derive(Debug, Default)]
pub(super) struct Agents {
    pub(super) sound: BTreeMap<AgentName, Agent>,
    /// Agents whose name a stronger file has, by `FORMAT:NAME`.
    pub(super) shadowed: Shadowed,
    /// Names for which a file cannot be used, and why. Another file may define the same name.
    pub(super) broken: BTreeMap<AgentName, Diagnostic>,
    /// What could be read of such files: more may be wrong with them than their reader knows.
    pub(super) drafts: Vec<Agent>,
    duplicates: Duplicates,
    /// The files of the agents that a configuration file of Codex declares, wherever they really are. In the folder of agents
    /// they are no further agents.
    declared_files: BTreeSet<PathBuf>,
}

/// Reads every agent of a project and its user. Nearer folders come later, and win.
pub(super) fn read(project: &Path, diagnostics: &mut Vec<Diagnostic>) -> Agents {
    let mut agents = Agents::default();
    let defaults = plain_defaults(env::text, diagnostics);
    for source in sources(project, diagnostics) {
        match source {
            Source::Folder(folder) => read_into(&mut agents, &folder, &defaults, diagnostics),
            Source::ConfigFile(file) => {
                for agent in read_config_file(&file, diagnostics) {
                    if agent.source.format == Format::Codex {
                        agents.declared_files.extend(Path::new(&agent.source.file).canonicalize());
                    }
                    enter(agent, &mut agents);
                }
            }
            Source::Plugins { claude, project } => {
                read_plugins(&claude, &project, diagnostics)
                    .into_iter()
                    .for_each(|agent| enter(agent, &mut agents));
            }
        }
    }
    report(&mut agents, diagnostics);
    agents
}

static FOLDERS: FileCache<Folder, FolderAgents> = FileCache::new();

/// The agents of one folder, and what there is to say about its files.
pub type FolderAgents = (BTreeMap<AgentName, Agent>, Vec<Diagnostic>);

/// Returns the agents of one folder that a dialect names, with our own variables.
pub fn folder_agents(folder: &Folder) -> Arc<FolderAgents> {
    FOLDERS.get(folder, || read_folder(folder, env::text))
}

/// Says which of several files is used for a name.
pub(super) fn report(agents: &mut Agents, diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.extend(std::mem::take(&mut agents.duplicates).report(&agents.sound));
    for (name, problem) in &agents.broken {
        let Some(used) = agents.sound.get(name) else { continue };
        let message = format!("this file has errors, so the agent {name} is the one in {}", used.source.file);
        diagnostics.push(Diagnostic::warning(&problem.file, message));
    }
}

/// Reads the agents of one folder, which whoever started us named, as a server with these variables would.
pub fn read_folder(folder: &Folder, variable: impl Fn(&str) -> Option<String>) -> FolderAgents {
    let mut agents = Agents::default();
    let mut diagnostics = Vec::new();
    let defaults = plain_defaults(variable, &mut diagnostics);
    read_into(&mut agents, folder, &defaults, &mut diagnostics);
    report(&mut agents, &mut diagnostics);
    (agents.sound, diagnostics)
}

pub(super) fn read_into(
    agents: &mut Agents,
    folder: &Folder,
    defaults: &PlainDefaults,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let folder = &within_project(folder, diagnostics);
    for path in files(folder, diagnostics) {
        let is_declared = || path.canonicalize().is_ok_and(|real| agents.declared_files.contains(&real));
        if folder.format == Format::Codex && !agents.declared_files.is_empty() && is_declared() {
            continue;
        }
        let mut found = Vec::new();
        match read_agent(folder, &path, defaults, &mut found) {
            Some(mut agent) => {
                resolve_script(&mut agent, &folder.path, &mut found);
                diagnostics.extend(found);
                enter(agent, agents);
            }
            None => {
                note_broken(folder, &path, &found, agents);
                diagnostics.extend(found);
                agents.drafts.extend(draft(folder, &path, defaults));
            }
        }
    }
}

/// Reads what a file with errors says all the same, where its format has keys that only others can judge.
fn draft(folder: &Folder, path: &Path, defaults: &PlainDefaults) -> Option<Agent> {
    if leaves_folder(path, &folder.path) {
        return None;
    }
    let text = read_text(path, &mut Vec::new())?;
    let file = path.display().to_string();
    let stem = stem(folder, path);
    let agent_file = AgentFile { text: &text, file: &file, stem: &stem, layer: folder.layer };
    match folder.format {
        Format::Volery => volery::draft(agent_file),
        Format::DotAgents if has_frontmatter(&text) => dot_agents::draft(agent_file, defaults),
        Format::Jarvis if has_frontmatter(&text) => jarvis::draft(agent_file),
        Format::DotAgents
        | Format::Jarvis
        | Format::Plain
        | Format::Kiro
        | Format::Directive
        | Format::Claude
        | Format::Cursor
        | Format::Codex
        | Format::Gemini
        | Format::Qwen
        | Format::Opencode
        | Format::Copilot => None,
    }
}

/// Leaves out folders of prompts that lead out of the project.
fn within_project<'a>(folder: &'a Folder, diagnostics: &mut Vec<Diagnostic>) -> Cow<'a, Folder> {
    let (Format::Kiro, Some(within)) = (folder.format, &folder.within) else { return Cow::Borrowed(folder) };
    let leaves = |path: &PathBuf| path.starts_with(within) && leaves_folder(path, within);
    if !folder.path.is_dir() || !folder.prompts.folders.iter().any(leaves) {
        return Cow::Borrowed(folder);
    }
    let mut folder = folder.clone();
    folder.prompts.folders.retain(|path| {
        let leaves = leaves(path);
        if leaves {
            diagnostics.push(Diagnostic::error(&path.display().to_string(), LEAVES_PROJECT));
        }
        !leaves
    });
    Cow::Owned(folder)
}

/// Notes the name that a file with errors would define, for the answer to a caller who asks for it.
fn note_broken(folder: &Folder, path: &Path, found: &[Diagnostic], agents: &mut Agents) {
    let Some(problem) = found.iter().find(|found| found.is_error()) else { return };
    // What was wrong with the text is said already.
    let text = match leaves_folder(path, &folder.path) {
        true => String::new(),
        false => beginning(path, definition::FILE_BYTES_MAX as u64),
    };
    let name = definition::agent::name_of(folder.format, &text, &stem(folder, path));
    if let Some(name) = name {
        agents.broken.insert(name, problem.clone());
    }
}

/// Adds an agent. Sources are read in the order of precedence, so it takes the name from one that was read before.
pub(super) fn enter(agent: Agent, agents: &mut Agents) {
    // A file with errors that is weaker than this one would not have been used anyway.
    agents.broken.remove(&agent.name);
    if let Some(weaker) = agents.sound.insert(agent.name.clone(), agent) {
        agents.duplicates.add(weaker, &mut agents.shadowed);
    }
}

fn read_agent(
    folder: &Folder,
    path: &Path,
    defaults: &PlainDefaults,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Agent> {
    let file = path.display().to_string();
    // Only a link can lead elsewhere, and resolving a path costs a system call for each of its parts.
    let linked = path.is_symlink() || path.parent() != Some(&folder.path);
    if linked && leaves_folder(path, &folder.path) {
        diagnostics.push(Diagnostic::error(&file, LEAVES));
        return None;
    }
    let text = match folder.format {
        // The programs of these formats replace what is not UTF-8.
        Format::Plain | Format::Claude | Format::Opencode => read_text_lossy(path, diagnostics)?,
        _ => read_text(path, diagnostics)?,
    };
    let stem = stem(folder, path);
    let agent_file = AgentFile { text: &text, file: &file, stem: &stem, layer: folder.layer };
    let (agent, found) = match folder.format {
        Format::Volery => volery::read(agent_file),
        Format::Plain => plain::read(agent_file, defaults),
        Format::DotAgents if has_frontmatter(&text) => dot_agents::read(agent_file, defaults),
        Format::DotAgents => plain::read(agent_file, defaults),
        // Many projects have a folder of this name, with files that are something else.
        Format::Jarvis if !has_frontmatter(&text) => return None,
        Format::Jarvis => return read_jarvis(agent_file, diagnostics),
        Format::Kiro => return read_kiro(agent_file, &folder.prompts, diagnostics),
        // A folder of directives also holds their notes.
        Format::Directive if !directive::is_directive(&text) => return None,
        Format::Directive => directive::read(agent_file),
        Format::Claude => claude::read(agent_file),
        Format::Cursor => cursor::read(agent_file),
        Format::Codex => codex::read(agent_file),
        Format::Gemini => gemini::read(agent_file),
        Format::Qwen => qwen::read(agent_file),
        Format::Opencode => opencode::read(agent_file),
        Format::Copilot => copilot::read(agent_file),
    };
    diagnostics.extend(found);
    agent
}

/// Returns what an agent is called by its file, unless the file says another name.
fn stem<'a>(folder: &Folder, path: &'a Path) -> Cow<'a, str> {
    let named_by = match folder.format {
        Format::Jarvis => path.parent().and_then(Path::file_name),
        // opencode names an agent by its path below the folder.
        Format::Opencode if path.parent() != Some(&folder.path) => {
            let below = path.strip_prefix(&folder.path).unwrap_or(path).with_extension("");
            return Cow::Owned(below.to_str().unwrap_or_default().to_owned());
        }
        Format::Volery
        | Format::Plain
        | Format::DotAgents
        | Format::Kiro
        | Format::Directive
        | Format::Claude
        | Format::Cursor
        | Format::Codex
        | Format::Gemini
        | Format::Qwen
        | Format::Opencode
        | Format::Copilot => path.file_stem(),
    };
    Cow::Borrowed(named_by.and_then(|stem| stem.to_str()).unwrap_or_default())
}

fn has_frontmatter(text: &str) -> bool {
    let text = definition::frontmatter::normalize(text);
    definition::frontmatter::split(&text) != Err(definition::frontmatter::Missing::Begin)
}

/// The backend that is `kimi` for sub-agents-mcp.
const KIMI_BY_CLAUDE: &str = "claude-kimi";

/// Returns what sub-agents-mcp is told by its environment about all of its agents.
fn plain_defaults(
    variable: impl Fn(&str) -> Option<String>,
    diagnostics: &mut Vec<Diagnostic>,
) -> PlainDefaults {
    let variable = |name: &str| env::trimmed(variable(name));
    let mut defaults = PlainDefaults::default();
    let mut wrong = |name: &str, value: &str| {
        let message = format!("{name} is {value:?}, which means nothing");
        diagnostics.push(Diagnostic::warning("(environment)", message));
    };
    if let Some(value) = variable(env::AGENT_TYPE) {
        // With sub-agents-mcp `kimi` is Claude Code with Kimi's service, which cannot be without this key. Whoever has none means
        // Kimi's own program.
        let by_claude = value == "kimi" && variable(env::CLI_API_KEY).is_some();
        match if by_claude { KIMI_BY_CLAUDE } else { &value }.parse() {
            Ok(backend) => defaults.backend = backend,
            Err(_) => wrong(env::AGENT_TYPE, &value),
        }
    }
    // These become arguments of a program, which must not look like options.
    let is_word = |value: &str| !value.starts_with('-') && !value.chars().any(char::is_control);
    for (name, place) in [(env::AGENT_MODEL, &mut defaults.model), (env::AGENT_EFFORT, &mut defaults.effort)]
    {
        match variable(name) {
            Some(value) if !is_word(&value) => wrong(name, &value),
            value => *place = value,
        }
    }
    if let Some(value) = variable(env::AGENT_PERMISSION) {
        let levels = [Level::ReadOnly, Level::SafeEdit, Level::Yolo];
        defaults.level = levels.into_iter().find(|level| level.as_str() == value);
        if defaults.level.is_none() {
            wrong(env::AGENT_PERMISSION, &value);
        }
    }
    defaults
}

/// Reads the script that an agent names, so that a run holds its steps and not a path.
fn resolve_script(agent: &mut Agent, folder: &Path, diagnostics: &mut Vec<Diagnostic>) {
    let Some(ScriptSource::File(relative)) = &agent.script else { return };
    let path = folder.join(relative);
    let wrong = |message: String| {
        let finding = Diagnostic::error(&agent.source.file, message);
        match place_of_key(&agent.source.file, "script") {
            Some((line, column)) => finding.at(line, column),
            None => finding,
        }
    };
    let script = if leaves_folder(&path, folder) {
        diagnostics.push(wrong(format!("the script {relative} leaves its folder")));
        None
    } else if let Some(text) = read_text(&path, diagnostics) {
        let (script, found) = definition::script::read(&text, &path.display().to_string());
        diagnostics.extend(found);
        script
    } else {
        diagnostics.push(wrong(format!("the script {relative} cannot be read")));
        None
    };
    agent.script = Some(ScriptSource::Inline(script.unwrap_or_else(|| unreadable(relative))));
}

/// A rehearsal whose script is broken fails with the reason, instead of succeeding at nothing.
fn unreadable(relative: &str) -> Script {
    let message = format!("the script {relative} could not be read; `volery agents check` tells why");
    Script { steps: vec![domain::agent::Step::Fail(message)] }
}
