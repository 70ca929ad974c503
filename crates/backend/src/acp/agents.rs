//! The agents that are known to speak ACP: one line each, with what the protocol leaves open and they do differently.

use std::path::Path;

use domain::run::{Failure, ModelError, RunSpec};
use serde_json::json;

use super::beside::{Beside, NOTHING, Way};
use crate::contract::{Place, PriceList, ProcessDrive, ProjectProgram, WorkFile};
use crate::loosened::{self, LoosenedBy};
use crate::lost_requests::ReadLine;
use crate::program::{Program, Tried};
use crate::user::User;

/// An agent that needs no configuration.
pub struct Known {
    pub(super) name: &'static str,
    pub(super) program: &'static Program,
    /// What makes the program speak ACP.
    pub(super) arguments: &'static [&'static str],
    /// Variables that it needs to know its user, its service and its place.
    pub(super) variables: &'static [&'static [&'static str]],
    pub(super) set: &'static [(&'static str, &'static str)],
    /// How it gets its MCP servers, if not with the session.
    pub(super) servers_by: Option<ServersBy>,
    /// What keeps the servers of its settings away, if that needs a look at them.
    pub(super) without_others: Option<WithoutOthers>,
    /// Finds settings by which it would not ask, where it usually does.
    pub(super) loosened_by: Option<LoosenedBy>,
    /// Finds what it would execute because files of a project say so.
    pub(super) project_programs: Option<OfProject>,
    pub(super) habits: Habits,
}

/// Another way to the MCP servers than the session.
pub(super) enum ServersBy {
    /// A file, and the argument that ends with its name.
    File { argument: &'static str, file: fn(&RunSpec, &Place<'_>) -> WorkFile },
    /// The same settings that keep the others away.
    Settings,
}

/// Looks for programs in folders of a project.
pub(super) type OfProject = fn(&[&Path]) -> Vec<ProjectProgram>;

/// Returns why the last turn of a session failed, by the run's work folder and the session.
pub(super) type ToldAtHome = fn(&Path, &str) -> Option<Failure>;

/// Changes a prepared process such that none but the servers of the run are started.
pub(super) type WithoutOthers = fn(&RunSpec, &mut ProcessDrive, &Place<'_>, &User<'_>) -> Result<(), String>;

/// What an agent does where the protocol does not say it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    pub(super) modes: Option<Modes>,
    pub(super) asks: Asks,
    pub(super) counts: Counts,
    pub(super) prices: PriceList,
    /// How a message begins and ends that stands for an error, since the turn ends as any other.
    pub(super) error_marks: &'static [(&'static str, &'static str)],
    /// What it means if a turn ends without a word, and nothing shows that its model did so.
    pub(super) silence: Option<ModelError>,
    /// Looks into the home of the run's own for why the last turn of a session failed, where the turn ends as any other.
    pub(super) told_at_home: Option<ToldAtHome>,
    /// What it says between the pieces of an answer and is none.
    pub(super) asides: &'static [&'static str],
    /// What it says in place of an answer when a tool is denied: it gives up then.
    pub(super) denial: Option<&'static str>,
    /// Whether it also starts the MCP servers of its own settings, as it is started here.
    pub(super) servers: Servers,
    /// It has a model make a title of a session that has none, in a conversation of its own with all servers of its
    /// settings.
    pub(super) makes_titles: bool,
    /// The system prompt can take the place of its own.
    pub(super) replaces_prompt: bool,
    /// It can copy a session.
    pub(super) forks: bool,
    /// What the request for a session carries beside what the protocol knows.
    pub(super) session_meta: Option<&'static str>,
    /// How it is told what the protocol has no words for.
    pub(super) beside: Beside,
    /// How a message begins, or an error, that says that the turns are used up.
    pub(super) no_turns_left: Option<&'static str>,
    /// Reads the log on its error stream, where it asks a service that it cannot reach without end.
    pub(super) lost_request: Option<ReadLine>,
    /// It leaves before the program that it drives has ended, which it only asks to.
    pub(super) is_followed: bool,
}

/// The modes that an agent is put in: such that it asks, or is kept from it by its own sandbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct Modes {
    pub(super) read_only: &'static str,
    pub(super) safe_edit: &'static str,
    /// Where everything is allowed.
    pub(super) free: &'static str,
}

impl Modes {
    const fn one(mode: &'static str) -> Option<Self> {
        Some(Self { read_only: mode, safe_edit: mode, free: mode })
    }
}

/// What an agent asks before it does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// Every use of a tool.
    Everything,
    /// What changes something: edits, servers' tools, commands that it does not take for harmless.
    Changes,
    /// The same, but for edits within a work tree of git, which it makes unasked.
    ChangesBeyondGit,
    /// As those who ask about changes, unless settings of its user's or of the directory let it pass without a question.
    AsSet,
    /// Nobody knows.
    Unknown,
}

/// What the tokens count that an agent tells with the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    Turn,
    /// All turns of the session so far.
    Session,
    /// Only the last request to the model.
    LastStep,
    /// It tells none.
    Nothing,
    Unknown,
}

/// Which MCP servers an agent starts beside those of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Servers {
    /// None.
    OfSession,
    /// Those that its user's settings name.
    OfUserToo,
    Unknown,
}

/// Somebody's own agent, of whom nothing is known.
pub(super) const STRANGER: Habits = Habits {
    modes: None,
    asks: Asks::Unknown,
    counts: Counts::Unknown,
    prices: PriceList::Unlisted,
    error_marks: &[],
    silence: None,
    told_at_home: None,
    asides: &[],
    denial: None,
    servers: Servers::Unknown,
    makes_titles: false,
    replaces_prompt: false,
    forks: false,
    session_meta: None,
    beside: NOTHING,
    no_turns_left: None,
    lost_request: None,
    is_followed: false,
};

const KNOWN_WELL: Habits =
    Habits { asks: Asks::Changes, servers: Servers::OfSession, prices: PriceList::ByModel, ..STRANGER };

static CLAUDE_AGENT_ACP: Program = Program {
    names: &["claude-agent-acp"],
    natives: &[],
    variable: None,
    tried: Tried::Real("0.99.1", "0.99.1"),
};
static CODEX_ACP: Program =
    Program { names: &["codex-acp"], natives: &[], variable: None, tried: Tried::Real("2.6.0", "2.6.0") };

/// Those that were tried for real, and kiro by its documentation.
pub static KNOWN: [Known; 9] = [
    Known {
        name: "acp-claude",
        program: &CLAUDE_AGENT_ACP,
        arguments: &[],
        variables: &[crate::claude::VARIABLES, &["CLAUDE_CODE_EXECUTABLE"]],
        set: &[],
        servers_by: None,
        without_others: None,
        loosened_by: None,
        project_programs: Some(crate::claude::project_programs),
        habits: Habits {
            modes: Modes::one("default"),
            prices: PriceList::Of("anthropic"),
            counts: Counts::Turn,
            replaces_prompt: true,
            forks: true,
            // After each turn it would have its model guess what its user says next.
            session_meta: Some(
                r#"{"claudeCode":{"options":{"strictMcpConfig":true,"promptSuggestions":false}}}"#,
            ),
            beside: Beside {
                no_context: Some(Way::Session(|_| json!({"settingSources": []}))),
                tools: Some(Way::Session(|spec| json!({"tools": spec.setup.tools}))),
                max_turns: Some(Way::Session(|spec| json!({"maxTurns": spec.setup.max_turns}))),
                ..NOTHING
            },
            no_turns_left: Some("Internal error: Reached maximum number of turns"),
            is_followed: true,
            asks: Asks::AsSet,
            ..KNOWN_WELL
        },
    },
    Known {
        name: "acp-codex",
        program: &CODEX_ACP,
        arguments: &[],
        variables: &[crate::codex::VARIABLES, &["CODEX_PATH"]],
        set: &[],
        // Those of a session would bring back all others.
        servers_by: Some(ServersBy::Settings),
        without_others: Some(crate::codex::beside::without_others),
        loosened_by: Some(loosened::codex),
        project_programs: None,
        habits: Habits {
            // Its usual mode lets another model decide.
            modes: Some(Modes {
                read_only: "read-only",
                safe_edit: "workspace-write",
                free: "agent-full-access",
            }),
            makes_titles: true,
            forks: true,
            beside: Beside { no_context: Some(Way::Adapted), ..NOTHING },
            prices: PriceList::Of("openai"),
            counts: Counts::Turn,
            ..KNOWN_WELL
        },
    },
    Known {
        name: "acp-gemini",
        program: &crate::gemini::versions::PROGRAM,
        arguments: &["--acp"],
        variables: &[crate::gemini::VARIABLES],
        set: &[("GEMINI_CLI_TRUST_WORKSPACE", "true"), ("GEMINI_CLI_NO_RELAUNCH", "true")],
        servers_by: None,
        without_others: Some(crate::gemini::beside),
        loosened_by: None,
        project_programs: Some(|folders| crate::gemini::PROJECT.programs(folders)),
        habits: Habits {
            modes: Modes::one("default"),
            beside: Beside {
                tools: Some(Way::File { argument: "--policy=", file: crate::gemini::without_tools }),
                max_turns: Some(Way::Adapted),
                ..NOTHING
            },
            prices: PriceList::Of("google"),
            counts: Counts::Turn,
            asks: Asks::AsSet,
            ..KNOWN_WELL
        },
    },
    Known {
        name: "acp-copilot",
        program: &crate::copilot::versions::PROGRAM,
        arguments: &["--acp", "--disable-builtin-mcps"],
        variables: &[crate::copilot::VARIABLES],
        set: &[],
        // It takes no servers that are programs with a session.
        servers_by: Some(ServersBy::File {
            argument: "--additional-mcp-config=@",
            file: crate::copilot::servers,
        }),
        without_others: Some(crate::copilot::without_others),
        loosened_by: Some(loosened::copilot),
        project_programs: Some(crate::copilot::project_programs),
        habits: Habits {
            modes: Modes::one("https://agentclientprotocol.com/protocol/session-modes#agent"),
            prices: PriceList::Of("github-copilot"),
            counts: Counts::Session,
            error_marks: &[("Error: ", "")],
            asides: &["Info: Request failed due to a transient API error. Retrying..."],
            denial: Some("Info: Operation cancelled by user"),
            // Its arguments about instructions do not count here.
            beside: Beside {
                effort: Some(Way::Arguments(|spec| {
                    spec.setup.effort.iter().map(|effort| format!("--reasoning-effort={effort}")).collect()
                })),
                ..NOTHING
            },
            ..KNOWN_WELL
        },
    },
    Known {
        name: "acp-opencode",
        program: &crate::opencode::versions::PROGRAM,
        arguments: &["acp"],
        variables: &[crate::opencode::VARIABLES],
        // It asks about nothing by itself.
        set: &[
            (crate::opencode::CONFIG, crate::opencode::ASKING),
            crate::opencode::REGISTRY_RETRIES[0],
            crate::opencode::REGISTRY_RETRIES[1],
            crate::opencode::versions::LOG[0],
            crate::opencode::versions::LOG[1],
        ],
        servers_by: None,
        without_others: Some(crate::opencode::without_others),
        loosened_by: None,
        project_programs: Some(crate::opencode::programs_of_project),
        habits: Habits {
            counts: Counts::LastStep,
            asks: Asks::AsSet,
            forks: true,
            lost_request: Some(crate::opencode::versions::lost_request),
            beside: Beside {
                no_context: Some(Way::Variables(|_| {
                    crate::opencode::WITHOUT_CONTEXT.map(|(name, value)| (name, value.to_owned())).into()
                })),
                tools: Some(Way::Variables(|spec| {
                    let tools = spec.setup.tools.as_deref().unwrap_or_default();
                    vec![(crate::opencode::CONFIG, crate::opencode::asking_with_only(tools))]
                })),
                ..NOTHING
            },
            ..KNOWN_WELL
        },
    },
    Known {
        name: "acp-qwen",
        program: &crate::qwen::versions::PROGRAM,
        arguments: &["--acp"],
        variables: &[crate::qwen::VARIABLES],
        set: &[("QWEN_CODE_NO_RELAUNCH", "true"), ("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1")],
        servers_by: None,
        without_others: Some(crate::qwen::without_others),
        loosened_by: None,
        project_programs: Some(|folders| crate::qwen::PROJECT.programs(folders)),
        habits: Habits {
            modes: Modes::one("default"),
            counts: Counts::Turn,
            asks: Asks::AsSet,
            // It counts no turns here.
            beside: Beside {
                no_context: Some(Way::Arguments(|_| vec![crate::qwen::WITHOUT_CONTEXT.to_owned()])),
                tools: Some(Way::Arguments(crate::qwen::without_tools)),
                ..NOTHING
            },
            ..KNOWN_WELL
        },
    },
    Known {
        name: "acp-goose",
        program: &crate::goose::versions::PROGRAM,
        arguments: &["acp"],
        variables: &[crate::goose::VARIABLES],
        set: &[(crate::goose::EXTENSIONS, crate::goose::versions::EXTENSIONS)],
        servers_by: None,
        without_others: None,
        loosened_by: Some(loosened::goose),
        project_programs: None,
        habits: Habits {
            modes: Modes::one("approve"),
            asks: Asks::Everything,
            counts: Counts::LastStep,
            error_marks: &crate::goose::versions::ERROR_MARKS,
            // Of all errors it is silent only about credits that are used up.
            silence: Some(ModelError::RateLimit),
            beside: Beside {
                // What it hands work to asks nobody.
                held: Some(Way::Variables(|_| {
                    vec![(crate::goose::EXTENSIONS, crate::goose::extensions_without_delegation())]
                })),
                no_context: Some(Way::Variables(|_| {
                    let (name, value) = crate::goose::WITHOUT_CONTEXT;
                    vec![(name, value.to_owned())]
                })),
                tools: Some(Way::Variables(|spec| {
                    let tools = spec.setup.tools.as_deref().unwrap_or_default();
                    vec![(crate::goose::EXTENSIONS, crate::goose::extensions_with_only(tools))]
                })),
                max_turns: Some(Way::Variables(|spec| {
                    let turns = spec.setup.max_turns.map(|turns| turns.to_string());
                    turns.into_iter().map(|turns| ("GOOSE_MAX_TURNS", turns)).collect()
                })),
                ..NOTHING
            },
            no_turns_left: Some(crate::goose::versions::NO_TURNS_LEFT),
            ..KNOWN_WELL
        },
    },
    Known {
        name: "acp-kimi",
        program: &crate::kimi::PROGRAM,
        arguments: &["acp"],
        variables: &[crate::kimi::VARIABLES],
        set: &[],
        servers_by: None,
        without_others: Some(crate::kimi::home::furnish),
        loosened_by: Some(loosened::kimi),
        project_programs: None,
        habits: Habits {
            // In its mode for plans it does not edit, but agents that it starts do.
            modes: Modes::one("default"),
            asks: Asks::ChangesBeyondGit,
            counts: Counts::Nothing,
            silence: Some(ModelError::Other),
            told_at_home: Some(crate::kimi::home::failed_turn),
            forks: true,
            ..KNOWN_WELL
        },
    },
    Known {
        name: "acp-kiro",
        program: &crate::kiro::PROGRAM,
        arguments: &["acp"],
        variables: &[crate::kiro::VARIABLES],
        set: &[],
        servers_by: None,
        without_others: None,
        loosened_by: None,
        project_programs: None,
        habits: Habits { counts: Counts::Nothing, servers: Servers::OfUserToo, ..KNOWN_WELL },
    },
];

/// What the words of an error mean, by the first that occur; agents pass on what their services say.
pub(super) const ERRORS: [(&str, ModelError); 15] = [
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
