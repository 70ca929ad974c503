//! Where each format's files are: in the project, at the user's home, or where a variable says. The order is that of
//! precedence, the strongest last.

use std::path::{Path, PathBuf};

use domain::agent::{Format, Layer};
use domain::diagnostic::Diagnostic;

use super::file_state::observe_link_target;
use crate::env;

/// A folder that may hold agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    pub path: PathBuf,
    pub format: Format,
    pub layer: Layer,
    /// The directory that the folder must not leave: a project's folders stay in the project.
    pub within: Option<PathBuf>,
    pub prompts: Prompts,
}

/// What stands beside Kiro's agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts {
    /// The folders of prompt files and templates, the nearest first.
    pub folders: Vec<PathBuf>,
    /// The template for answers, if it is not in one of these folders.
    pub system: Option<PathBuf>,
    /// The same for the template that asks for a summary.
    pub summary: Option<PathBuf>,
    /// Only what budgie would offer counts, as its dialect has it.
    pub sub_agents_only: bool,
}

/// Formats and their folders below a project. If a name is defined in several, the last one is used.
const IN_PROJECT: [(Format, &str); 15] = [
    (Format::Directive, ".ai/directives"),
    (Format::DotAgents, ".agents"),
    (Format::Jarvis, "agents"),
    (Format::Kiro, ".kiro/agents"),
    (Format::Opencode, ".opencode/agent"),
    (Format::Opencode, ".opencode/agents"),
    (Format::Opencode, ".opencode/mode"),
    (Format::Opencode, ".opencode/modes"),
    (Format::Qwen, ".qwen/agents"),
    (Format::Gemini, ".gemini/agents"),
    (Format::Cursor, ".cursor/agents"),
    (Format::Copilot, ".github/agents"),
    (Format::Codex, ".codex/agents"),
    (Format::Claude, ".claude/agents"),
    (Format::Volery, OWN),
];
const OWN: &str = ".volery/agents";
const KIRO_PROMPTS: &str = ".kiro/sub-agents/prompts";

/// Returns the folder in which the project's own agents are, or the user's.
pub fn own_folder(project: Option<&str>) -> Option<PathBuf> {
    match project {
        Some(project) => Some(Path::new(project).join(OWN)),
        None => env::config_home().map(|path| path.join("agents")),
    }
}

/// Something that agents are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Folder(Folder),
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
    /// The directory that the file and what it names must not leave.
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

/// Returns everything that agents are read from, in the order of precedence: of the user, of the project, of a variable.
/// In each layer configuration files are weaker than folders, whose files are about one agent each.
pub(super) fn sources(project: &Path, diagnostics: &mut Vec<Diagnostic>) -> Vec<Source> {
    let home = env::home();
    let folders = folders(project, diagnostics);
    let of_user = user_configs(home.as_deref());
    let is_new = |path: &Path| !of_user.iter().any(|file| really(&file.path, home.as_deref()) == path);
    let in_project = CONFIGS_IN_PROJECT.iter().filter_map(|(kind, below)| {
        let path = project.join(below);
        let within = Some(project.to_owned());
        is_new(&path).then_some(ConfigFile { path, kind: *kind, layer: Layer::Project, within })
    });
    let in_project: Vec<ConfigFile> = in_project.collect();
    let claude = moved(home.as_deref(), env::CLAUDE_CONFIG_DIR, ".claude");
    let plugins = claude.map(|claude| Source::Plugins { claude, project: project.to_owned() });
    let (user_folders, others) =
        folders.into_iter().partition::<Vec<_>, _>(|folder| folder.layer == Layer::User);
    let of_user = of_user.into_iter().map(Source::ConfigFile).chain(plugins);
    let of_user = of_user.chain(user_folders.into_iter().map(Source::Folder));
    let of_project = in_project.into_iter().map(Source::ConfigFile);
    of_user.chain(of_project).chain(others.into_iter().map(Source::Folder)).collect()
}

fn user_configs(home: Option<&Path>) -> Vec<ConfigFile> {
    let opencode = moved(home, env::XDG_CONFIG_HOME, ".config").map(|path| path.join("opencode"));
    let codex = moved(home, env::CODEX_HOME, ".codex").map(|path| path.join("config.toml"));
    let of_opencode = ["opencode.json", "opencode.jsonc"]
        .into_iter()
        .filter_map(|name| Some((ConfigKind::Opencode, opencode.as_ref()?.join(name))));
    let all = of_opencode.chain(codex.map(|path| (ConfigKind::Codex, path)));
    all.map(|(kind, path)| ConfigFile { path, kind, layer: Layer::User, within: None }).collect()
}

/// Returns a vendor's folder: where a variable says, or below the home.
fn moved(home: Option<&Path>, variable: &str, default: &str) -> Option<PathBuf> {
    env::directory(variable).or_else(|| home.map(|home| home.join(default)))
}

/// Returns every folder that counts for a project, in the order of precedence.
fn folders(project: &Path, diagnostics: &mut Vec<Diagnostic>) -> Vec<Folder> {
    let home = env::home();
    let prompts = |base: Option<&Path>| base.map(|base| base.join(KIRO_PROMPTS));
    let user_prompts: Vec<PathBuf> = prompts(home.as_deref()).into_iter().collect();
    let own_prompts: Vec<PathBuf> = prompts(Some(project)).into_iter().chain(user_prompts.clone()).collect();
    let of = |folders: &[PathBuf]| Prompts { folders: folders.to_vec(), ..Prompts::default() };
    let in_project = folders_at(project)
        .map(|folder| Folder { prompts: of(&own_prompts), ..folder })
        .collect::<Vec<Folder>>();
    let of_user = user_folders(home.as_deref()).into_iter().map(|(format, path)| Folder {
        path,
        format,
        layer: Layer::User,
        within: None,
        prompts: of(&user_prompts),
    });
    let mut all: Vec<Folder> = of_user.collect();
    // A project that is the user's home has the same folders twice: they are the user's, whoever looks from where.
    let of_users: Vec<PathBuf> = all.iter().map(|folder| really(&folder.path, home.as_deref())).collect();
    all.extend(in_project.into_iter().filter(|folder| !of_users.contains(&folder.path)));
    all.extend(named_folders(diagnostics));
    all
}

/// Returns every folder that would count if a project began here.
pub(super) fn folders_at(project: &Path) -> impl Iterator<Item = Folder> {
    IN_PROJECT.iter().map(move |(format, below)| Folder {
        path: project.join(below),
        format: *format,
        layer: Layer::Project,
        within: Some(project.to_owned()),
        prompts: Prompts::default(),
    })
}

/// Returns a folder of the user's as it is called where the home is no symbolic link, as a project never is.
fn really(folder: &Path, home: Option<&Path>) -> PathBuf {
    if let Some(home) = home {
        observe_link_target(home);
    }
    let below = home.and_then(|home| Some((home.canonicalize().ok()?, folder.strip_prefix(home).ok()?)));
    below.map_or_else(|| folder.to_owned(), |(home, below)| home.join(below))
}

fn user_folders(home: Option<&Path>) -> Vec<(Format, PathBuf)> {
    let below_home = |path: &str| home.map(|home| home.join(path));
    let moved = |variable, default: &str| moved(home, variable, default);
    let opencode = moved(env::XDG_CONFIG_HOME, ".config").map(|path| path.join("opencode"));
    let in_opencode = |name: &str| opencode.as_ref().map(|path| path.join(name));
    let agents_of = |base: Option<PathBuf>| base.map(|path| path.join("agents"));
    let folders = [
        (Format::Directive, below_home(".ai/directives")),
        (Format::DotAgents, below_home(".agents")),
        (Format::Jarvis, agents_of(env::directory(env::JARVIS_HOME))),
        (Format::Kiro, below_home(".kiro/agents")),
        (Format::Opencode, in_opencode("agent")),
        (Format::Opencode, in_opencode("agents")),
        (Format::Opencode, in_opencode("mode")),
        (Format::Opencode, in_opencode("modes")),
        (Format::Qwen, below_home(".qwen/agents")),
        (Format::Gemini, below_home(".gemini/agents")),
        (Format::Cursor, below_home(".cursor/agents")),
        (Format::Copilot, agents_of(moved(env::COPILOT_HOME, ".copilot"))),
        (Format::Codex, agents_of(moved(env::CODEX_HOME, ".codex"))),
        (Format::Claude, agents_of(moved(env::CLAUDE_CONFIG_DIR, ".claude"))),
        (Format::Volery, agents_of(env::config_home())),
    ];
    folders.into_iter().filter_map(|(format, path)| path.map(|path| (format, path))).collect()
}

/// Folders that whoever started us named, as sub-agents-mcp and its sibling are told theirs.
fn named_folders(diagnostics: &mut Vec<Diagnostic>) -> Vec<Folder> {
    let named = [(Format::DotAgents, env::SUB_AGENTS_DIR), (Format::Plain, env::AGENTS_DIR)];
    let folders = named.into_iter().filter_map(|(format, variable)| {
        let path = PathBuf::from(env::get(variable).filter(|path| !path.is_empty())?);
        if path.is_relative() {
            let message =
                format!("{variable} is {path:?}, which is no absolute path, so no agents are read from it");
            diagnostics.push(Diagnostic::warning("(environment)", message));
            return None;
        }
        Some(Folder { path, format, layer: Layer::Environment, within: None, prompts: Prompts::default() })
    });
    folders.collect()
}
