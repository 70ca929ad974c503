//! An ended run as lists show it, and its conversion to and from a row.

use domain::Timestamp;
use domain::id::{AgentName, BackendName, RunId, SessionId};
use domain::run::{Ending, Outcome, OutcomeKind, PartialCause, RunSpec};
use rusqlite::{Row, ToSql};

use super::run_key;

/// The maximum length of the stored part of the prompt.
pub const PROMPT_HEAD_CHARS_MAX: usize = 200;
/// The maximum length of the stored error.
pub const ERROR_CHARS_MAX: usize = 500;
/// The greatest amount that is stored, so that sums of rows stay within 64 bits.
const AMOUNT_MAX: u64 = 1 << 50;

/// The columns in the order of [`EndedRun::from_row`] and [`EndedRun::values`].
pub(super) const COLUMNS: &str = "id, agent, backend, project, caller, session, parent, root, outcome, created_at_ms, \
     ended_at_ms, duration_ms, cost_microusd, input_tokens, output_tokens, prompt_head, error, ending, token, denials";

/// An ended run as the index stores it. Times have a precision of one millisecond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRun {
    pub id: RunId,
    pub agent: AgentName,
    pub backend: BackendName,
    pub project: String,
    /// The caller's name.
    pub caller: String,
    /// The token with which the run's tree was requested.
    pub token: Option<String>,
    pub session: Option<SessionId>,
    pub parent: Option<RunId>,
    pub root: RunId,
    pub outcome: OutcomeKind,
    pub created_at: Timestamp,
    pub ended_at: Timestamp,
    pub duration_ms: u64,
    /// `None` means unknown, never zero.
    pub cost_microusd: Option<u64>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The beginning of the prompt in one line.
    pub prompt_head: String,
    /// The error in one line. A cancelled run has none.
    pub error: Option<String>,
    /// How often the agent was denied something.
    pub denials_count: u64,
}

impl EndedRun {
    /// Builds the entry from the spec and the ending of a run.
    pub fn new(spec: &RunSpec, ending: &Ending, ended_at: Timestamp) -> Self {
        Self {
            id: spec.id,
            agent: spec.agent.clone(),
            backend: ending.backend.clone().unwrap_or_else(|| spec.backend.name.clone()),
            project: spec.project.clone(),
            caller: spec.caller.name.clone(),
            token: spec.caller.token.clone(),
            session: spec.continued_session().cloned(),
            parent: spec.parent,
            root: spec.root,
            outcome: ending.outcome.kind(),
            created_at: to_millisecond(spec.created_at),
            ended_at: to_millisecond(ended_at),
            duration_ms: ending.duration_ms.min(AMOUNT_MAX),
            cost_microusd: ending.usage.cost.map(|cost| cost.microusd.min(AMOUNT_MAX)),
            input_tokens: ending.usage.input_tokens.min(AMOUNT_MAX),
            output_tokens: ending.usage.output_tokens.min(AMOUNT_MAX),
            prompt_head: one_line(&spec.prompt, PROMPT_HEAD_CHARS_MAX),
            error: error_text(ending),
            denials_count: ending.denials_count.min(AMOUNT_MAX),
        }
    }

    pub(super) fn values(&self) -> [Box<dyn ToSql>; 20] {
        [
            Box::new(run_key::from_run_id(self.id)),
            Box::new(self.agent.as_str().to_owned()),
            Box::new(self.backend.as_str().to_owned()),
            Box::new(self.project.clone()),
            Box::new(self.caller.clone()),
            Box::new(self.session.as_ref().map(|session| session.as_str().to_owned())),
            Box::new(self.parent.map(run_key::from_run_id)),
            Box::new(run_key::from_run_id(self.root)),
            Box::new(self.outcome.as_str()),
            Box::new(self.created_at.as_millisecond()),
            Box::new(self.ended_at.as_millisecond()),
            Box::new(clamp_amount(self.duration_ms)),
            Box::new(self.cost_microusd.map(clamp_amount)),
            Box::new(clamp_amount(self.input_tokens)),
            Box::new(clamp_amount(self.output_tokens)),
            Box::new(one_line(&self.prompt_head, PROMPT_HEAD_CHARS_MAX)),
            Box::new(self.error.as_deref().map(|error| one_line(error, ERROR_CHARS_MAX))),
            Box::new(run_key::reversed_hex(&self.id.hex())),
            Box::new(self.token.clone()),
            Box::new(clamp_amount(self.denials_count)),
        ]
    }

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: read_run_id(row, 0)?,
            agent: read_name(row, 1)?,
            backend: read_name(row, 2)?,
            project: row.get(3)?,
            caller: row.get(4)?,
            session: row.get::<_, Option<String>>(5)?.map(|_| read_name(row, 5)).transpose()?,
            parent: row.get::<_, Option<run_key::RunKey>>(6)?.map(|_| read_run_id(row, 6)).transpose()?,
            root: read_run_id(row, 7)?,
            outcome: read_outcome(row, 8)?,
            created_at: read_time(row, 9)?,
            ended_at: read_time(row, 10)?,
            duration_ms: read_amount(row, 11)?,
            cost_microusd: row.get::<_, Option<i64>>(12)?.map(|_| read_amount(row, 12)).transpose()?,
            input_tokens: read_amount(row, 13)?,
            output_tokens: read_amount(row, 14)?,
            prompt_head: row.get(15)?,
            error: row.get(16)?,
            token: row.get(18)?,
            denials_count: read_amount(row, 19)?,
        })
    }
}

pub(super) fn read_run_id(row: &Row<'_>, column: usize) -> rusqlite::Result<RunId> {
    run_key::to_run_id(row.get(column)?).ok_or_else(|| invalid_column(row, column))
}

pub(super) fn read_name<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    row.get::<_, String>(column)?.parse().map_err(|_| invalid_column(row, column))
}

pub(super) fn read_time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_millisecond(row.get(column)?).map_err(|_| invalid_column(row, column))
}

pub(super) fn read_amount(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|_| invalid_column(row, column))
}

fn read_outcome(row: &Row<'_>, column: usize) -> rusqlite::Result<OutcomeKind> {
    let name: String = row.get(column)?;
    OutcomeKind::ALL.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| invalid_column(row, column))
}

/// Only this program writes the file, so a value that it could not have written means damage.
fn invalid_column(row: &Row<'_>, column: usize) -> rusqlite::Error {
    let name = row.as_ref().column_name(column).unwrap_or("?").to_owned();
    let kind = row.get_ref(column).map_or(rusqlite::types::Type::Null, |value| value.data_type());
    rusqlite::Error::InvalidColumnType(column, name, kind)
}

fn clamp_amount(amount: u64) -> i64 {
    i64::try_from(amount.min(AMOUNT_MAX)).expect("the greatest amount fits")
}

fn to_millisecond(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

fn error_text(ending: &Ending) -> Option<String> {
    match &ending.outcome {
        Outcome::Succeeded
        | Outcome::Cancelled { .. }
        | Outcome::Partial { cause: PartialCause::Cancelled { .. } } => None,
        _ => Some(one_line(&ending.explanation(), ERROR_CHARS_MAX)),
    }
}

/// Returns the words of a text with single spaces between them, cut at a number of characters.
fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut remaining = chars_max;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        let space = usize::from(!line.is_empty());
        if remaining <= space {
            break;
        }
        line.push_str(&" "[..space]);
        remaining -= space;
        let before = line.len();
        line.extend(word.chars().take(remaining));
        remaining -= line[before..].chars().count();
    }
    line
}
