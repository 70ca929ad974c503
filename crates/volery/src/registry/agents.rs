//! Reads the agents of every folder that counts, and settles which definition of a name is used.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use definition::agent::plain::PlainDefaults;
use definition::agent::{
    AgentFile, claude, codex, copilot, cursor, directive, dot_agents, gemini, opencode, plain, volery,
};
use domain::agent::{Agent, Format, Script, ScriptSource};
use domain::diagnostic::Diagnostic;
use domain::id::AgentName;
use domain::permission::Level;

use super::beside::{read_jarvis, read_kiro};
use super::folders::{Folder, folders};
use super::text::{LEAVES, leaves_folder, read_text};
use crate::env;

/// The most agent files that are read from one folder.
const FILES_MAX: usize = 1_000;
const LEAVES_PROJECT: &str = "the folder leaves the project by a symbolic link, so it is not read";
/// The agent of Jarvis that is the caller.
const JARVIS_MAIN: &str = "main";

/// The agents that there are, by name.
#[derive(Debug, Default)]
pub(super) struct Agents {
    pub(super) sound: BTreeMap<AgentName, Agent>,
    /// Names whose file cannot be used, and why: no farther file takes its place.
    pub(super) broken: BTreeMap<AgentName, Diagnostic>,
}

/// Reads every agent of a project and its user. Nearer folders come later, and win.
pub(super) fn read(project: &Path, diagnostics: &mut Vec<Diagnostic>) -> Agents {
    let mut agents = Agents::default();
    let defaults = plain_defaults(env::text, diagnostics);
    for folder in folders(project) {
        read_into(&mut agents, &folder, &defaults, diagnostics);
    }
    agents
}

/// Reads the agents of one folder, which whoever started us named, as a server with these variables would.
pub fn read_folder(
    folder: &Folder,
    variable: impl Fn(&str) -> Option<String>,
) -> (BTreeMap<AgentName, Agent>, Vec<Diagnostic>) {
    let mut agents = Agents::default();
    let mut diagnostics = Vec::new();
    let defaults = plain_defaults(variable, &mut diagnostics);
    read_into(&mut agents, folder, &defaults, &mut diagnostics);
    (agents.sound, diagnostics)
}

fn read_into(
    agents: &mut Agents,
    folder: &Folder,
    defaults: &PlainDefaults,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let folder = &within_project(folder, diagnostics);
    for path in files(folder, diagnostics) {
        let mut found = Vec::new();
        match read_agent(folder, &path, defaults, &mut found) {
            Some(mut agent) => {
                resolve_script(&mut agent, &folder.path, &mut found);
                diagnostics.extend(found);
                enter(agent, agents, diagnostics);
            }
            None => {
                reserve(folder, &path, &found, agents, diagnostics);
                diagnostics.extend(found);
            }
        }
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

/// Keeps the name of a file that cannot be used from an agent that is farther away: whoever asks for it means this one.
fn reserve(
    folder: &Folder,
    path: &Path,
    found: &[Diagnostic],
    agents: &mut Agents,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some(problem) = found.iter().find(|found| found.is_error()) else { return };
    // What was wrong with the text is said already.
    let text = match leaves_folder(path, &folder.path) {
        true => String::new(),
        false => read_text(path, &mut Vec::new()).unwrap_or_default(),
    };
    let Some(name) = definition::agent::name_of(folder.format, &text, stem(folder.format, path)) else {
        return;
    };
    if let Some(known) = agents.sound.remove(&name) {
        let message = format!(
            "the name {name} stays with this file, so the agent in {} is not used",
            known.source.file
        );
        diagnostics.push(Diagnostic::warning(&path.display().to_string(), message));
    }
    agents.broken.insert(name, problem.clone());
}

/// Adds an agent, and says which one it takes the place of.
fn enter(agent: Agent, agents: &mut Agents, diagnostics: &mut Vec<Diagnostic>) {
    let Agents { sound: agents, broken } = agents;
    broken.remove(&agent.name);
    if let Some(known) = agents.get(&agent.name) {
        let message = match known.source.layer == agent.source.layer {
            true => {
                format!("agent {} is also defined in {}; this one is used", agent.name, known.source.file)
            }
            false => format!("agent {} hides the one in {}", agent.name, known.source.file),
        };
        diagnostics.push(Diagnostic::warning(&agent.source.file, message));
    }
    agents.insert(agent.name.clone(), agent);
}

/// Returns the files of a folder that may define agents, in the order of their names.
fn files(folder: &Folder, diagnostics: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    let depth = match folder.format {
        // These sort their files into folders; the name stands in the file.
        Format::Claude | Format::Directive => 3,
        Format::Jarvis
        | Format::Volery
        | Format::Plain
        | Format::DotAgents
        | Format::Kiro
        | Format::Cursor
        | Format::Codex
        | Format::Gemini
        | Format::Opencode
        | Format::Copilot => 0,
    };
    if !folder.path.is_dir() {
        return Vec::new();
    }
    if let Some(within) = &folder.within
        && leaves_folder(&folder.path, within)
    {
        diagnostics.push(Diagnostic::error(&folder.path.display().to_string(), LEAVES_PROJECT));
        return Vec::new();
    }
    let mut paths = match folder.format {
        Format::Jarvis => jarvis_files(&folder.path),
        Format::Volery
        | Format::Plain
        | Format::DotAgents
        | Format::Kiro
        | Format::Directive
        | Format::Claude
        | Format::Cursor
        | Format::Codex
        | Format::Gemini
        | Format::Opencode
        | Format::Copilot => {
            let mut found = Vec::new();
            collect(&folder.path, depth, &folder.path, &mut found, diagnostics);
            found
        }
    };
    paths.retain(|path| is_definition(folder.format, path));
    paths.sort();
    if folder.format == Format::Opencode {
        name_deeper(&folder.path, diagnostics);
    }
    if matches!(folder.format, Format::Plain | Format::DotAgents) {
        drop_hidden_texts(&mut paths, diagnostics);
    }
    if paths.len() > FILES_MAX {
        let message = format!("only the first {FILES_MAX} of {} agent files are read", paths.len());
        diagnostics.push(Diagnostic::warning(&folder.path.display().to_string(), message));
        paths.truncate(FILES_MAX);
    }
    paths
}

fn collect(
    folder: &Path,
    depth: usize,
    top: &Path,
    paths: &mut Vec<PathBuf>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if paths.len() > FILES_MAX * 4 {
            return;
        }
        match path.is_dir() {
            true if depth > 0 && path.is_symlink() && leaves_folder(&path, top) => {
                diagnostics.push(Diagnostic::error(&path.display().to_string(), LEAVES));
            }
            true if depth > 0 => collect(&path, depth - 1, top, paths, diagnostics),
            true => {}
            false => paths.push(path),
        }
    }
}

/// opencode calls an agent in a folder below `FOLDER/NAME`, which is no name of an agent here.
fn name_deeper(folder: &Path, diagnostics: &mut Vec<Diagnostic>) {
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    collect(folder, 3, folder, &mut found, &mut unread);
    found.retain(|path| path.parent() != Some(folder) && is_definition(Format::Opencode, path));
    found.sort();
    for path in found.into_iter().take(FILES_MAX) {
        let message = "an agent in a folder below is not read; move the file up";
        diagnostics.push(Diagnostic::warning(&path.display().to_string(), message));
    }
}

/// Returns `NAME/agent.md` of a folder whose name many projects use for something else.
fn jarvis_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let folders = entries.filter_map(Result::ok).filter(|entry| entry.file_name() != JARVIS_MAIN);
    folders
        .map(|entry| entry.path().join("agent.md"))
        .filter(|path| path.symlink_metadata().is_ok())
        .collect()
}

fn is_definition(format: Format, path: &Path) -> bool {
    let part =
        |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str()).unwrap_or_default().to_owned();
    let (stem, extension) = (part(path.file_stem()), part(path.extension()));
    let wanted: &[&str] = match format {
        Format::Volery
        | Format::Claude
        | Format::Cursor
        | Format::Gemini
        | Format::Opencode
        | Format::Copilot
        | Format::Jarvis
        | Format::Directive => &["md"],
        Format::Plain | Format::DotAgents => &["md", "txt"],
        Format::Codex => &["toml"],
        Format::Kiro => &["json"],
    };
    // A folder's own explanation is no agent; sub-agents-mcp alone takes every file for one.
    let explains = stem.eq_ignore_ascii_case("readme") && format != Format::Plain;
    wanted.contains(&extension.as_str()) && !explains
}

/// Of two files with one name, the markdown counts.
fn drop_hidden_texts(paths: &mut Vec<PathBuf>, diagnostics: &mut Vec<Diagnostic>) {
    let all: BTreeSet<PathBuf> = paths.iter().cloned().collect();
    paths.retain(|path| {
        let markdown = path.with_extension("md");
        let hidden = path.extension().is_some_and(|extension| extension == "txt") && all.contains(&markdown);
        if hidden {
            let message = format!("{} is used instead of this file", markdown.display());
            diagnostics.push(Diagnostic::warning(&path.display().to_string(), message));
        }
        !hidden
    });
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
    let text = read_text(path, diagnostics)?;
    let stem = stem(folder.format, path);
    let agent_file = AgentFile { text: &text, file: &file, stem, layer: folder.layer };
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
        Format::Opencode => opencode::read(agent_file),
        Format::Copilot => copilot::read(agent_file),
    };
    diagnostics.extend(found);
    agent
}

/// Returns what an agent is called by its file, unless the file says another name.
fn stem(format: Format, path: &Path) -> &str {
    let named_by = match format {
        Format::Jarvis => path.parent().and_then(Path::file_name),
        Format::Volery
        | Format::Plain
        | Format::DotAgents
        | Format::Kiro
        | Format::Directive
        | Format::Claude
        | Format::Cursor
        | Format::Codex
        | Format::Gemini
        | Format::Opencode
        | Format::Copilot => path.file_stem(),
    };
    named_by.and_then(|stem| stem.to_str()).unwrap_or_default()
}

fn has_frontmatter(text: &str) -> bool {
    let text = definition::frontmatter::normalize(text);
    definition::frontmatter::split(&text) != Err(definition::frontmatter::Missing::Begin)
}

/// Returns what sub-agents-mcp is told by its environment about all of its agents.
fn plain_defaults(
    variable: impl Fn(&str) -> Option<String>,
    diagnostics: &mut Vec<Diagnostic>,
) -> PlainDefaults {
    let mut defaults = PlainDefaults::default();
    let mut wrong = |name: &str, value: &str| {
        let message = format!("{name} is {value:?}, which means nothing");
        diagnostics.push(Diagnostic::warning("(environment)", message));
    };
    if let Some(value) = variable(env::AGENT_TYPE) {
        match value.parse() {
            Ok(backend) => defaults.backend = backend,
            Err(_) => wrong(env::AGENT_TYPE, &value),
        }
    }
    let word = |value: &String| !value.starts_with('-') && !value.chars().any(char::is_control);
    defaults.model = variable(env::AGENT_MODEL).filter(word);
    defaults.effort = variable(env::AGENT_EFFORT).filter(word);
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
    let script = if leaves_folder(&path, folder) {
        diagnostics
            .push(Diagnostic::error(&agent.source.file, format!("the script {relative} leaves its folder")));
        None
    } else if let Some(text) = read_text(&path, diagnostics) {
        let (script, found) = definition::script::read(&text, &path.display().to_string());
        diagnostics.extend(found);
        script
    } else {
        diagnostics
            .push(Diagnostic::error(&agent.source.file, format!("the script {relative} cannot be read")));
        None
    };
    agent.script = Some(ScriptSource::Inline(script.unwrap_or_else(|| unreadable(relative))));
}

/// A rehearsal whose script is broken fails with the reason, instead of succeeding at nothing.
fn unreadable(relative: &str) -> Script {
    let message = format!("the script {relative} could not be read; `volery agents check` tells why");
    Script { steps: vec![domain::agent::Step::Fail(message)] }
}
