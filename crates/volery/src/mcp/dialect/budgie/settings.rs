//! Budgie's command-line flags, and the settings that follow from them. An invalid flag prevents the start, by name.

use std::path::{Path, PathBuf};

use backends::kiro;
use backends::program::ProgramVersion;
use domain::agent::{AgentFormat, Layer};
use domain::go_duration;
use domain::launch::{Container, LaunchOverrides};

use engine::{AgentFolder, EngineError, KiroPrompts, find_container_engine};
use engine::{env, vendor_programs};

const BACKEND: &str = "kiro";
const PREFIX: &str = "kiro-subagents.";
const TIMEOUT_MS: u64 = 600_000;
const IMAGE: &str = "budgie-sandbox:latest";
/// The longest prefix: tool names have at most 128 characters.
const PREFIX_CHARS_MAX: usize = 64;

/// The flags from the command line; `None` or `false` if they are absent.
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
pub(super) struct BudgieSettings {
    pub(super) folder: AgentFolder,
    /// The agents are in Kiro's own folder.
    pub(super) known_to_kiro: bool,
    pub(super) sessions: PathBuf,
    pub(super) prefix: String,
    pub(super) timeout_ms: u64,
    pub(super) safe_names: bool,
    pub(super) retries: bool,
    pub(super) verbose: bool,
    pub(super) launch: LaunchOverrides,
}

impl BudgieSettings {
    /// Returns whether agents are started by their own name, as in budgie: they are in Kiro's own folder, or this version of
    /// Kiro may not find a copy.
    pub(super) fn starts_by_name(&self) -> bool {
        if self.known_to_kiro || self.launch.container.is_some() {
            return self.known_to_kiro;
        }
        let program = backends::registry::by_kind(BACKEND).and_then(|backend| backend.program());
        let found = program.and_then(|program| vendor_programs::find(program, &self.launch));
        let version = found.map(|found| vendor_programs::version(&found));
        !kiro::supports_agent_copies(version.as_ref().and_then(ProgramVersion::text))
    }
}

/// Converts the flags. Paths are relative to the server's working directory.
pub(super) fn read(flags: &Flags, directory: &Path) -> Result<BudgieSettings, EngineError> {
    let home = env::home().ok_or_else(|| EngineError::usage("HOME is not set"))?;
    let resolve = |configured: &Option<PathBuf>, below: &str| match configured {
        Some(configured) => directory.join(configured),
        None => home.join(below),
    };
    let own_agents = home.join(".kiro/agents");
    let agents = resolve(&flags.agents_dir, ".kiro/agents");
    let known_to_kiro = agents == own_agents;
    let sessions = resolve(&flags.sessions_dir, ".kiro/sub-agents/sessions");
    let folder = AgentFolder {
        path: agents,
        format: AgentFormat::Kiro,
        layer: if known_to_kiro { Layer::User } else { Layer::CommandLine },
        boundary: None,
        prompts: KiroPrompts {
            folders: vec![resolve(&flags.prompts_dir, ".kiro/sub-agents/prompts")],
            system: existing_file(directory, "--system-prompt", flags.system_prompt.as_deref())?,
            summary: existing_file(
                directory,
                "--context-summary-prompt",
                flags.context_summary_prompt.as_deref(),
            )?,
            sub_agents_only: true,
        },
    };
    let text = |path: &Path| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(EngineError::usage(format!("the path {path:?} is not valid UTF-8"))),
    };
    let launch = LaunchOverrides {
        program: flags.kiro_binary.as_deref().map(|configured| program(directory, configured)),
        sessions: Some(text(&sessions)?),
        container: match flags.sandbox {
            true => Some(container(flags, &home)?),
            false => None,
        },
        by_name: false,
    };
    Ok(BudgieSettings {
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

/// Checks that a template from a flag exists; the default ones are optional.
fn existing_file(
    directory: &Path,
    flag: &str,
    configured: Option<&Path>,
) -> Result<Option<PathBuf>, EngineError> {
    let Some(configured) = configured else { return Ok(None) };
    let path = directory.join(configured);
    match path.is_file() {
        true => Ok(Some(path)),
        false => Err(EngineError::usage(format!("{flag}: there is no file {}", path.display()))),
    }
}

/// A name is searched on the PATH; a path is relative to the working directory.
fn program(directory: &Path, name: &str) -> String {
    match name.contains('/') {
        true => directory.join(name).display().to_string(),
        false => name.to_owned(),
    }
}

fn container(flags: &Flags, home: &Path) -> Result<Container, EngineError> {
    let engine = find_container_engine("--sandbox")?;
    let image = flags.sandbox_image.clone().unwrap_or_else(|| IMAGE.to_owned());
    if image.is_empty() || image.starts_with('-') || image.contains(char::is_whitespace) {
        return Err(EngineError::usage(format!("--sandbox-image: {image:?} is no name of an image")));
    }
    Ok(Container {
        engine: engine.display().to_string(),
        image,
        login: home.join(".local/share/kiro-cli").display().to_string(),
        settings: home.join(".kiro").display().to_string(),
    })
}

fn prefix(configured: Option<&str>) -> Result<String, EngineError> {
    let prefix = configured.unwrap_or(PREFIX);
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
    if prefix.chars().all(fits) && prefix.len() <= PREFIX_CHARS_MAX {
        return Ok(prefix.to_owned());
    }
    let message = format!("--tool-prefix: {prefix:?} cannot begin the name of a tool");
    Err(EngineError::usage(message).hint("at most 64 letters, digits, '_', '.' or '-'"))
}

fn timeout_ms(text: Option<&str>) -> Result<u64, EngineError> {
    let Some(text) = text else { return Ok(TIMEOUT_MS) };
    let ms = go_duration::parse_ms(text).map_err(|error| format!("--agent-timeout: {error}"));
    match ms {
        Ok(0) => Err(EngineError::usage(format!("--agent-timeout: {text} leaves no time"))),
        ms => ms.map_err(EngineError::usage),
    }
}
