//! Where each format's files are: in the project, at the user's home, or where a variable says. The order is that of
//! precedence, the strongest last.

use std::path::{Path, PathBuf};

use domain::agent::{Format, Layer};
use domain::diagnostic::Diagnostic;

use super::seen::note_way;
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
}

/// Formats and their folders below a project. If a name is defined in several, the last one is used.
const IN_PROJECT: [(Format, &str); 12] = [
    (Format::Directive, ".ai/directives"),
    (Format::DotAgents, ".agents"),
    (Format::Jarvis, "agents"),
    (Format::Kiro, ".kiro/agents"),
    (Format::Opencode, ".opencode/agent"),
    (Format::Opencode, ".opencode/agents"),
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

/// Returns every folder that counts for a project, in the order of precedence.
pub(super) fn folders(project: &Path, diagnostics: &mut Vec<Diagnostic>) -> Vec<Folder> {
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
        note_way(home);
    }
    let below = home.and_then(|home| Some((home.canonicalize().ok()?, folder.strip_prefix(home).ok()?)));
    below.map_or_else(|| folder.to_owned(), |(home, below)| home.join(below))
}

fn user_folders(home: Option<&Path>) -> Vec<(Format, PathBuf)> {
    let below_home = |path: &str| home.map(|home| home.join(path));
    let moved = |variable, default: &str| env::directory(variable).or_else(|| below_home(default));
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
