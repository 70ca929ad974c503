//! What is known about an agent that speaks ACP: its program, and its differences where the protocol leaves a choice.
//! The folder of its vendor fills it in.

use std::path::Path;

use domain::run::{Failure, ModelError, RunSpec};

use super::option_encoding::{NO_OPTIONS, OptionEncodings};
use crate::contract::{LaunchContext, PriceList, WorkFile};
use crate::logins::Logins;
use crate::lost_requests::LogLineParser;
use crate::permission_overrides::OverrideFinder;
use crate::program::ProgramSpec;
use crate::vendor::{LaunchAdapter, ProjectExecutableFinder, Quirk};

/// An agent that needs no configuration.
pub struct AcpAgent {
    pub(crate) name: &'static str,
    pub(crate) program: &'static ProgramSpec,
    pub(crate) logins: Logins,
    /// What makes the program speak ACP.
    pub(crate) arguments: &'static [&'static str],
    /// Variables that it needs to know its user, its service and its folders.
    pub(crate) variables: &'static [&'static [&'static str]],
    pub(crate) set: &'static [(&'static str, &'static str)],
    /// How it gets its MCP servers, if not with the session.
    pub(crate) server_delivery: Option<ServerDelivery>,
    /// Excludes the servers of its settings, if that requires reading them.
    pub(crate) exclude_other_servers: Option<LaunchAdapter>,
    /// Finds settings that would keep it from asking.
    pub(crate) find_override: Option<OverrideFinder>,
    /// Finds what it would execute because files of a project say so.
    pub(crate) find_project_executables: Option<ProjectExecutableFinder>,
    pub(crate) quirks: &'static [Quirk],
    pub(crate) profile: AgentProfile,
}

/// A way other than the session to pass the MCP servers.
pub(crate) enum ServerDelivery {
    /// A file, and the argument that ends with its name.
    File { argument: &'static str, file: fn(&RunSpec, &LaunchContext<'_>) -> WorkFile },
    /// The same settings that exclude the others.
    Settings,
}

/// Returns why the last turn of a session failed, by the run's work folder and the session.
pub(crate) type RecordedFailureFinder = fn(&Path, &str) -> Option<Failure>;

/// The behaviour of an agent where the protocol leaves a choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgentProfile {
    pub(crate) modes: Option<Modes>,
    pub(crate) approval_scope: ApprovalScope,
    pub(crate) token_counting: TokenCounting,
    pub(crate) prices: PriceList,
    /// The beginning and the end of messages that stand for an error, because the turn ends like any other.
    pub(crate) error_marks: &'static [(&'static str, &'static str)],
    /// The error behind a turn that ends without a message, if nothing shows that its model was silent.
    pub(crate) silence_error: Option<ModelError>,
    /// Searches the home of the run's own for why the last turn of a session failed, because the turn ends like any
    /// other.
    pub(crate) find_recorded_failure: Option<RecordedFailureFinder>,
    /// Messages between the chunks of an answer that are not part of it.
    pub(crate) side_notes: &'static [&'static str],
    /// Its message in place of an answer if a tool is denied: it gives up then.
    pub(crate) denial_text: Option<&'static str>,
    /// Whether it also starts the MCP servers of its own settings, as it is started here.
    pub(crate) servers: ServerStartup,
    /// It asks a model for the title of a session without one, in a conversation of its own with all servers of its
    /// settings.
    pub(crate) makes_titles: bool,
    /// The system prompt can replace its own.
    pub(crate) replaces_prompt: bool,
    /// It can copy a session.
    pub(crate) forks: bool,
    /// Metadata of the session request, beyond the protocol.
    pub(crate) session_meta: Option<&'static str>,
    /// How it receives options that the protocol cannot express.
    pub(crate) options: OptionEncodings,
    /// The beginning of a message, or of an error, that says that the turns are used up.
    pub(crate) no_turns_left: Option<&'static str>,
    /// Parses the log on its error stream, for an agent that retries an unreachable service without end.
    pub(crate) lost_request: Option<LogLineParser>,
}

/// The modes that an agent is put in, so that it asks, or its own sandbox restricts it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Modes {
    pub(crate) read_only: &'static str,
    pub(crate) safe_edit: &'static str,
    /// Where everything is allowed.
    pub(crate) free: &'static str,
}

impl Modes {
    pub(crate) const fn one(mode: &'static str) -> Option<Self> {
        Some(Self { read_only: mode, safe_edit: mode, free: mode })
    }
}

/// What an agent asks about before it acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalScope {
    /// Every use of a tool.
    Everything,
    /// What changes something: edits, servers' tools, commands that it does not take for harmless.
    Changes,
    /// The same, except for edits within a git work tree, which it makes without asking.
    ChangesBeyondGit,
    /// As `Changes`, unless settings of its user or of the directory let it act without a question.
    PerSettings,
    /// Unknown: anything or nothing.
    Unknown,
}

/// What the tokens count that an agent reports at the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenCounting {
    Turn,
    /// All turns of the session so far.
    Session,
    /// Only the last request to the model.
    LastStep,
    /// It reports none.
    Nothing,
    Unknown,
}

/// Which MCP servers an agent starts besides those of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerStartup {
    /// None.
    SessionOnly,
    /// Those that its user's settings name.
    UserSettingsToo,
    Unknown,
}

/// The profile of an agent about which nothing is known.
pub(crate) const UNKNOWN_AGENT: AgentProfile = AgentProfile {
    modes: None,
    approval_scope: ApprovalScope::Unknown,
    token_counting: TokenCounting::Unknown,
    prices: PriceList::Unlisted,
    error_marks: &[],
    silence_error: None,
    find_recorded_failure: None,
    side_notes: &[],
    denial_text: None,
    servers: ServerStartup::Unknown,
    makes_titles: false,
    replaces_prompt: false,
    forks: false,
    session_meta: None,
    options: NO_OPTIONS,
    no_turns_left: None,
    lost_request: None,
};

pub(crate) const DEFAULT_PROFILE: AgentProfile = AgentProfile {
    approval_scope: ApprovalScope::Changes,
    servers: ServerStartup::SessionOnly,
    prices: PriceList::ByModel,
    ..UNKNOWN_AGENT
};

/// The meaning of the text of an error, by the first phrase that occurs; agents pass on the messages of their
/// services.
pub(crate) const ERROR_PHRASES: [(&str, ModelError); 15] = [
    ("rate limit", ModelError::RateLimit),
    ("rate_limit", ModelError::RateLimit),
    ("quota", ModelError::RateLimit),
    ("too many requests", ModelError::RateLimit),
    ("unauthorized", ModelError::Denied),
    ("authentication", ModelError::Denied),
    ("api key", ModelError::Denied),
    ("forbidden", ModelError::Denied),
    ("context length", ModelError::TooLong),
    ("context limit", ModelError::TooLong),
    ("prompt is too long", ModelError::TooLong),
    ("overloaded", ModelError::Overloaded),
    ("network error", ModelError::Unreachable),
    ("disconnected", ModelError::Unreachable),
    ("apierror", ModelError::Other),
];
