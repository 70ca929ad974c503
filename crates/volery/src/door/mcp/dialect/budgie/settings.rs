//! What budgie is told on its command line, and what follows from it. What cannot be had stops the server, by name.

use std::path::{Path, PathBuf};

use backend::kiro;
use backend::program::Version;
use domain::agent::{Format, Layer};
use domain::go_duration;
use domain::launch::{Container, Launch};

use crate::app::{AppError, Folder, Prompts, find_container_engine};
use crate::{env, programs};

const BACKEND: &str = "kiro";
const PREFIX: &str = "kiro-subagents.";
const TIMEOUT_MS: u64 = 600_000;
const IMAGE: &str = "budgie-sandbox:latest";
/// The longest prefix: names of tools have 128 characters at most.
const PREFIX_CHARS_MAX: usize = 64;

/// The flags as they were typed; `None` and `false` where they were not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) agents_dir: Option<PathBuf>,
    pub(crate) sessions_dir: Option<PathBuf>,
    pub(crate) prompts_dir: Option<PathBuf>,
    pub(crate) system_prompt: Option<PathBuf>,
    pub(crate) context_summary_prompt: Option<PathBuf>,
    pub(crate) kiro_binary: Option<String>,
    pub(crate) tool_prefix: Option<String>,
    pub(crate) agent_timeout: Option<String>,
    pub(crate) safe_names: bool,
    pub(crate) no_retry: bool,
    pub(crate) verbose: bool,
    pub(crate) sandbox: bool,
    pub(crate) sandbox_image: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) folder: Folder,
    /// Kiro finds these agents by itself.
    pub(super) known_to_kiro: bool,
    pub(super) sessions: PathBuf,
    pub(super) prefix: String,
    pub(super) timeout_ms: u64,
    pub(super) safe_names: bool,
    pub(super) retries: bool,
    pub(super) verbose: bool,
    pub(super) launch: Launch,
}

impl Settings {
    /// Tells whether agents are started by their own name, as budgie does: Kiro finds them by itself, or it is not known
    /// to find a copy.
    pub(super) fn starts_by_name(&self) -> bool {
        if self.known_to_kiro || self.launch.container.is_some() {
            return self.known_to_kiro;
        }
        let program = backend::registry::by_kind(BACKEND).and_then(|backend| backend.program());
        let found = program.and_then(|program| programs::find(program, &self.launch));
        let version = found.map(|found| programs::version(&found));
        !kiro::finds_copies(version.as_ref().and_then(Version::text))
    }
}

/// Understands the flags. Relative paths are those of the directory that the server stands in.
pub(super) fn read(flags: &Flags, directory: &Path) -> Result<Settings, AppError> {
    let home = env::home().ok_or_else(|| AppError::usage("HOME is not set"))?;
    let place = |named: &Option<PathBuf>, below: &str| match named {
        Some(named) => directory.join(named),
        None => home.join(below),
    };
    let own_agents = home.join(".kiro/agents");
    let agents = place(&flags.agents_dir, ".kiro/agents");
    let known_to_kiro = agents == own_agents;
    let sessions = place(&flags.sessions_dir, ".kiro/sub-agents/sessions");
    let folder = Folder {
        path: agents,
        format: Format::Kiro,
        layer: if known_to_kiro { Layer::User } else { Layer::CommandLine },
        within: None,
        prompts: Prompts {
            folders: vec![place(&flags.prompts_dir, ".kiro/sub-agents/prompts")],
            system: named_file(directory, "--system-prompt", flags.system_prompt.as_deref())?,
            summary: named_file(
                directory,
                "--context-summary-prompt",
                flags.context_summary_prompt.as_deref(),
            )?,
            sub_agents_only: true,
        },
    };
    let text = |path: &Path| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(AppError::usage(format!("the path {path:?} is not valid UTF-8"))),
    };
    let launch = Launch {
        program: flags.kiro_binary.as_deref().map(|named| program(directory, named)),
        sessions: Some(text(&sessions)?),
        container: match flags.sandbox {
            true => Some(container(flags, &home)?),
            false => None,
        },
        by_name: false,
    };
    Ok(Settings {
        folder,
        known_to_kiro,
        sessions,
        prefix: prefix(flags.tool_prefix.as_deref())?,
        timeout_ms: timeout_ms(flags.agent_timeout.as_deref())?,
        safe_names: flags.safe_names,
        retries: !flags.no_retry,
        verbose: flags.verbose,
        launch,
    })
}

/// A template that somebody names must be there; the usual ones need not be.
fn named_file(directory: &Path, flag: &str, named: Option<&Path>) -> Result<Option<PathBuf>, AppError> {
    let Some(named) = named else { return Ok(None) };
    let path = directory.join(named);
    match path.is_file() {
        true => Ok(Some(path)),
        false => Err(AppError::usage(format!("{flag}: there is no file {}", path.display()))),
    }
}

/// A name is looked for on the search path, a path is one from here.
fn program(directory: &Path, named: &str) -> String {
    match named.contains('/') {
        true => directory.join(named).display().to_string(),
        false => named.to_owned(),
    }
}

fn container(flags: &Flags, home: &Path) -> Result<Container, AppError> {
    let engine = find_container_engine("--sandbox")?;
    let image = flags.sandbox_image.clone().unwrap_or_else(|| IMAGE.to_owned());
    if image.is_empty() || image.starts_with('-') || image.contains(char::is_whitespace) {
        return Err(AppError::usage(format!("--sandbox-image: {image:?} is no name of an image")));
    }
    Ok(Container {
        engine: engine.display().to_string(),
        image,
        login: home.join(".local/share/kiro-cli").display().to_string(),
        settings: home.join(".kiro").display().to_string(),
    })
}

fn prefix(named: Option<&str>) -> Result<String, AppError> {
    let prefix = named.unwrap_or(PREFIX);
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
    if prefix.chars().all(fits) && prefix.len() <= PREFIX_CHARS_MAX {
        return Ok(prefix.to_owned());
    }
    let message = format!("--tool-prefix: {prefix:?} cannot begin the name of a tool");
    Err(AppError::usage(message).hint("at most 64 letters, digits, '_', '.' or '-'"))
}

fn timeout_ms(text: Option<&str>) -> Result<u64, AppError> {
    let Some(text) = text else { return Ok(TIMEOUT_MS) };
    let ms = go_duration::parse_ms(text).map_err(|error| format!("--agent-timeout: {error}"));
    match ms {
        Ok(0) => Err(AppError::usage(format!("--agent-timeout: {text} leaves no time"))),
        ms => ms.map_err(AppError::usage),
    }
}
