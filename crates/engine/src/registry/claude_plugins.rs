//! Reads the agents of Claude Code's plug-ins, whose names are `plugin:agent`. A plug-in counts if
//! `plugins/installed_plugins.json` in Claude Code's folder lists it and `enabledPlugins` in its settings enables it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::agent_formats::{AgentFile, claude};
use domain::agent::{Agent, AgentFormat, Layer};
use domain::diagnostic::Diagnostic;
use serde_json::Value;

use super::agent_folders::{AgentFolder, KiroPrompts};
use super::discovery::agent_files;
use super::file_state::observe;
use super::guarded_read::{ESCAPES_FOLDER, escapes_folder, read_text};

/// A plug-in that is installed and enabled.
struct Plugin {
    name: String,
    root: PathBuf,
}

/// Reads the agents of every plug-in that is enabled for the project.
pub(super) fn read_plugins(claude: &Path, project: &Path, diagnostics: &mut Vec<Diagnostic>) -> Vec<Agent> {
    let plugins = enabled_plugins(claude, project, diagnostics);
    plugins.iter().flat_map(|plugin| read_plugin(plugin, diagnostics)).collect()
}

fn enabled_plugins(claude: &Path, project: &Path, diagnostics: &mut Vec<Diagnostic>) -> Vec<Plugin> {
    let Some(installed) = json(&claude.join("plugins/installed_plugins.json"), diagnostics) else {
        return Vec::new();
    };
    let enabled = enabled(claude, project, diagnostics);
    let all = installed.get("plugins").and_then(Value::as_object).into_iter().flatten();
    let enabled_here = all.filter(|(id, _)| enabled.get(id.as_str()) == Some(&true));
    enabled_here.filter_map(|(id, installs)| installed_plugin(id, installs, project)).collect()
}

/// Returns whether each plug-in is enabled. The project's settings override the user's, as for Claude Code.
fn enabled(claude: &Path, project: &Path, diagnostics: &mut Vec<Diagnostic>) -> BTreeMap<String, bool> {
    let settings_files = [
        claude.join("settings.json"),
        project.join(".claude/settings.json"),
        project.join(".claude/settings.local.json"),
    ];
    let mut enabled = BTreeMap::new();
    for file in settings_files {
        let Some(settings) = json(&file, diagnostics) else { continue };
        let plugins = settings.get("enabledPlugins").and_then(Value::as_object).into_iter().flatten();
        enabled.extend(plugins.filter_map(|(id, value)| Some((id.clone(), value.as_bool()?))));
    }
    enabled
}

/// Returns where a plug-in is installed. One installation may be for all projects, another for this one.
fn installed_plugin(id: &str, installs: &Value, project: &Path) -> Option<Plugin> {
    let installs = installs.as_array().map_or(std::slice::from_ref(installs), Vec::as_slice);
    let applies = |install: &&Value| match install.get("projectPath").and_then(Value::as_str) {
        Some(path) => Path::new(path) == project,
        None => true,
    };
    let path = installs.iter().filter(applies).find_map(|install| install.get("installPath")?.as_str())?;
    let root = PathBuf::from(path);
    let manifest = json(&root.join(".claude-plugin/plugin.json"), &mut Vec::new());
    let manifest_name = manifest.as_ref().and_then(|manifest| manifest.get("name")?.as_str());
    let name = manifest_name.unwrap_or(id.split('@').next().unwrap_or(id)).to_owned();
    Some(Plugin { name, root })
}

fn read_plugin(plugin: &Plugin, diagnostics: &mut Vec<Diagnostic>) -> Vec<Agent> {
    let mut agents = Vec::new();
    for path in agent_paths(&plugin.root) {
        observe(&path);
        if escapes_folder(&path, &plugin.root) {
            diagnostics.push(Diagnostic::error(&path.display().to_string(), ESCAPES_FOLDER));
            continue;
        }
        // A manifest may name a file instead of a folder.
        let (folder, paths) = match path.is_file() {
            true => (path.parent().unwrap_or(&plugin.root).to_owned(), vec![path]),
            false => {
                let prompts = KiroPrompts::default();
                let folder = AgentFolder {
                    path,
                    format: AgentFormat::Claude,
                    layer: Layer::User,
                    boundary: None,
                    prompts,
                };
                let paths = agent_files(&folder, diagnostics);
                (folder.path, paths)
            }
        };
        agents.extend(paths.iter().filter_map(|path| read_file(plugin, &folder, path, diagnostics)));
    }
    agents
}

/// Returns the folders and files of a plug-in's agents: those that its manifest names, else the folder `agents`.
fn agent_paths(root: &Path) -> Vec<PathBuf> {
    let manifest = json(&root.join(".claude-plugin/plugin.json"), &mut Vec::new());
    let names = match manifest.as_ref().and_then(|manifest| manifest.get("agents")) {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(all)) => {
            all.iter().filter_map(|path| path.as_str().map(ToOwned::to_owned)).collect()
        }
        Some(_) | None => vec!["agents".to_owned()],
    };
    names.iter().map(|path| root.join(path.trim_start_matches("./"))).collect()
}

fn read_file(
    plugin: &Plugin,
    folder: &Path,
    path: &Path,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Agent> {
    let file = path.display().to_string();
    if escapes_folder(path, &plugin.root) {
        diagnostics.push(Diagnostic::error(&file, ESCAPES_FOLDER));
        return None;
    }
    let text = read_text(path, diagnostics)?;
    let below = path.parent().and_then(|parent| parent.strip_prefix(folder).ok()).unwrap_or(Path::new(""));
    let parts = std::iter::once(plugin.name.as_str()).chain(below.iter().filter_map(|part| part.to_str()));
    let prefix = parts.collect::<Vec<&str>>().join(":");
    let root = plugin.root.display().to_string();
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let agent_file = AgentFile { text: &text, file: &file, stem, layer: Layer::User };
    let (agent, found) = claude::read_plugin(agent_file, claude::Plugin { prefix: &prefix, root: &root });
    diagnostics.extend(found);
    agent
}

/// Returns the value of a JSON file; `None` if the file does not exist.
fn json(path: &Path, diagnostics: &mut Vec<Diagnostic>) -> Option<Value> {
    let text = read_text(path, diagnostics)?;
    match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
        Ok(value) => Some(value),
        Err(error) => {
            let message = format!("it is not valid JSON, so it enables no plug-in: {error}");
            diagnostics.push(Diagnostic::warning(&path.display().to_string(), message));
            None
        }
    }
}
