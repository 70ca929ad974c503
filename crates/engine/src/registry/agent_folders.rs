//! Where each format's files are: in the project, in the user's home, or where a variable points. The order is that
//! of precedence, the strongest last.

use std::path::{Path, PathBuf};

use backends::agent_files::UserFolder;
use backends::registry::agent_files;
use domain::agent::{AgentFormat, Layer};
use domain::diagnostic::Diagnostic;

use super::file_state::observe_link_target;
use crate::env;

/// A folder that may hold agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFolder {
    pub path: PathBuf,
    pub format: AgentFormat,
    pub layer: Layer,
    /// The directory that the folder must not leave: a project's folders stay in the project.
    pub boundary: Option<PathBuf>,
    pub prompts: KiroPrompts,
}

/// The files next to Kiro's agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KiroPrompts {
    /// The folders of prompt files and templates, the nearest first.
    pub folders: Vec<PathBuf>,
    /// The template for answers, if it is not in one of these folders.
    pub system: Option<PathBuf>,
    /// The same for the template that asks for a summary.
    pub summary: Option<PathBuf>,
    /// Offer only the agents that budgie would offer, for its dialect.
    pub sub_agents_only: bool,
}

/// Formats of no vendor and their folders below a project. If several formats define a name, the last one is used:
/// vendors' files win over these, and the project's own over all.
const IN_PROJECT: [(AgentFormat, &str); 3] = [
    (AgentFormat::Directive, ".ai/directives"),
    (AgentFormat::DotAgents, ".agents"),
    (AgentFormat::Jarvis, "agents"),
];
const OWN: &str = ".volery/agents";
const KIRO_PROMPTS: &str = ".kiro/sub-agents/prompts";

/// Returns the folder of the project's own agents, or of the user's.
pub fn own_folder(project: Option<&str>) -> Option<PathBuf> {
    match project {
        Some(project) => Some(Path::new(project).join(OWN)),
        None => env::config_home().map(|path| path.join("agents")),
    }
}

/// Something that agents are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    AgentFolder(AgentFolder),
    ConfigFile(ConfigFile),
    /// The plug-ins of Claude Code that are installed below its folder and enabled for the project.
    Plugins {
        claude: PathBuf,
        project: PathBuf,
    },
}

/// A vendor's configuration file that may define agents among other things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) kind: ConfigKind,
    pub(super) layer: Layer,
    /// The directory that the file, and files that it names, must not leave.
    pub(super) within: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigKind {
    /// `opencode.json` with `agent`.
    Opencode,
    /// `config.toml` of Codex with `[agents.NAME]`.
    Codex,
}

/// The configuration files below a project, the strongest last.
const CONFIGS_IN_PROJECT: [(ConfigKind, &str); 5] = [
    (ConfigKind::Opencode, "opencode.json"),
    (ConfigKind::Opencode, "opencode.jsonc"),
    (ConfigKind::Opencode, ".opencode/opencode.json"),
    (ConfigKind::Opencode, ".opencode/opencode.jsonc"),
    (ConfigKind::Codex, ".codex/config.toml"),
];

/// Returns everything that agents are read from, in the order of precedence: the user's, the project's, a variable's.
/// In each layer configuration files are weaker than folders, whose files define one agent each.
pub(super) fn sources(project: &Path, diagnostics: &mut Vec<Diagnostic>) -> Vec<Source> {
    let home = env::home();
    let folders = folders(project, diagnostics);
    let found_configs = user_configs(home.as_deref());
    let resolved_home = ResolvedHome::new(home.as_deref());
    let is_new = |path: &Path| !found_configs.iter().any(|file| resolved_home.resolve(&file.path) == path);
    let in_project = CONFIGS_IN_PROJECT.iter().filter_map(|(kind, below)| {
        let path = project.join(below);
        let within = Some(project.to_owned());
        is_new(&path).then_some(ConfigFile { path, kind: *kind, layer: Layer::Project, within })
    });
    let in_project: Vec<ConfigFile> = in_project.collect();
    let claude = vendor_dir(home.as_deref(), env::CLAUDE_CONFIG_DIR, ".claude");
    let plugins = claude.map(|claude| Source::Plugins { claude, project: project.to_owned() });
    let (user_folders, others) =
        folders.into_iter().partition::<Vec<_>, _>(|folder| folder.layer == Layer::User);
    let user_sources = found_configs.into_iter().map(Source::ConfigFile).chain(plugins);
    let user_sources = user_sources.chain(user_folders.into_iter().map(Source::AgentFolder));
    let project_configs = in_project.into_iter().map(Source::ConfigFile);
    user_sources.chain(project_configs).chain(others.into_iter().map(Source::AgentFolder)).collect()
}

fn user_configs(home: Option<&Path>) -> Vec<ConfigFile> {
    let opencode = vendor_dir(home, env::XDG_CONFIG_HOME, ".config").map(|path| path.join("opencode"));
    let codex = vendor_dir(home, env::CODEX_HOME, ".codex").map(|path| path.join("config.toml"));
    let opencode_configs = ["opencode.json", "opencode.jsonc"]
        .into_iter()
        .filter_map(|name| Some((ConfigKind::Opencode, opencode.as_ref()?.join(name))));
    let all = opencode_configs.chain(codex.map(|path| (ConfigKind::Codex, path)));
    all.map(|(kind, path)| ConfigFile { path, kind, layer: Layer::User, within: None }).collect()
}

/// Returns a vendor's folder: where a variable points, or below the home. An empty name is no variable.
fn vendor_dir(home: Option<&Path>, variable: &str, default: &str) -> Option<PathBuf> {
    let named = Some(variable).filter(|variable| !variable.is_empty()).and_then(env::directory);
    named.or_else(|| home.map(|home| home.join(default)))
}

/// Returns every agent folder of a project, in the order of precedence.
fn folders(project: &Path, diagnostics: &mut Vec<Diagnostic>) -> Vec<AgentFolder> {
    let home = env::home();
    let prompts = |base: Option<&Path>| base.map(|base| base.join(KIRO_PROMPTS));
    let user_prompts: Vec<PathBuf> = prompts(home.as_deref()).into_iter().collect();
    let own_prompts: Vec<PathBuf> = prompts(Some(project)).into_iter().chain(user_prompts.clone()).collect();
    let prompts_in =
        |folders: &[PathBuf]| KiroPrompts { folders: folders.to_vec(), ..KiroPrompts::default() };
    let in_project = folders_at(project)
        .map(|folder| AgentFolder { prompts: prompts_in(&own_prompts), ..folder })
        .collect::<Vec<AgentFolder>>();
    let user_folders = user_folders(home.as_deref()).into_iter().map(|(format, path)| AgentFolder {
        path,
        format,
        layer: Layer::User,
        boundary: None,
        prompts: prompts_in(&user_prompts),
    });
    let mut all: Vec<AgentFolder> = user_folders.collect();
    // A project that is the user's home has the same folders twice: they count as the user's.
    let resolved_home = ResolvedHome::new(home.as_deref());
    let user_paths: Vec<PathBuf> = all.iter().map(|folder| resolved_home.resolve(&folder.path)).collect();
    all.extend(in_project.into_iter().filter(|folder| !user_paths.contains(&folder.path)));
    all.extend(env_folders(diagnostics));
    all
}

/// Returns every agent folder that a project at this path would have.
pub(super) fn folders_at(project: &Path) -> impl Iterator<Item = AgentFolder> {
    let vendor_folders = agent_files()
        .into_iter()
        .flat_map(|files| files.project_folders.iter().map(move |below| (files.format, *below)));
    let in_project = IN_PROJECT.into_iter().chain(vendor_folders).chain([(AgentFormat::Volery, OWN)]);
    in_project.map(move |(format, below)| AgentFolder {
        path: project.join(below),
        format,
        layer: Layer::Project,
        boundary: Some(project.to_owned()),
        prompts: KiroPrompts::default(),
    })
}

/// The user's home, and the path that its links lead to. Resolved once for all folders below it.
struct ResolvedHome<'a>(Option<(&'a Path, PathBuf)>);

impl<'a> ResolvedHome<'a> {
    fn new(home: Option<&'a Path>) -> Self {
        home.into_iter().for_each(observe_link_target);
        Self(home.and_then(|home| Some((home, home.canonicalize().ok()?))))
    }

    /// Returns a folder of the user with the links of the home resolved, like the path of a project.
    fn resolve(&self, folder: &Path) -> PathBuf {
        let below = self.0.as_ref().and_then(|(home, real)| Some(real.join(folder.strip_prefix(home).ok()?)));
        below.unwrap_or_else(|| folder.to_owned())
    }
}

fn user_folders(home: Option<&Path>) -> Vec<(AgentFormat, PathBuf)> {
    let below_home = |path: &str| home.map(|home| home.join(path));
    let vendor_folders = agent_files().into_iter().flat_map(|files| {
        let path = move |folder: &UserFolder| {
            vendor_dir(home, folder.variable, folder.vendor_folder).map(|path| path.join(folder.agents))
        };
        files.user_folders.iter().map(move |folder| (files.format, path(folder)))
    });
    let agents_below = |base: Option<PathBuf>| base.map(|path| path.join("agents"));
    let other_folders = [
        (AgentFormat::Directive, below_home(".ai/directives")),
        (AgentFormat::DotAgents, below_home(".agents")),
        (AgentFormat::Jarvis, agents_below(env::directory(env::JARVIS_HOME))),
    ];
    let own = (AgentFormat::Volery, agents_below(env::config_home()));
    let folders = other_folders.into_iter().chain(vendor_folders).chain([own]);
    folders.filter_map(|(format, path)| path.map(|path| (format, path))).collect()
}

/// Returns the folders that environment variables name, as for sub-agents-mcp and its sibling.
fn env_folders(diagnostics: &mut Vec<Diagnostic>) -> Vec<AgentFolder> {
    let variables = [(AgentFormat::DotAgents, env::SUB_AGENTS_DIR), (AgentFormat::Plain, env::AGENTS_DIR)];
    let folders = variables.into_iter().filter_map(|(format, variable)| {
        let path = PathBuf::from(env::get(variable).filter(|path| !path.is_empty())?);
        if path.is_relative() {
            let message =
                format!("{variable} is {path:?}, which is no absolute path, so no agents are read from it");
            diagnostics.push(Diagnostic::warning("(environment)", message));
            return None;
        }
        Some(AgentFolder {
            path,
            format,
            layer: Layer::Environment,
            boundary: None,
            prompts: KiroPrompts::default(),
        })
    });
    folders.collect()
}
