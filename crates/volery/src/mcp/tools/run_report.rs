//! Renders a run for a model: its status, its result, and what to do next. Bounded.

use domain::run::{Cancellation, Denial, Failure, Outcome, OutcomeKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::super::client_profiles::ClientProfile;
use super::changed_files::{BranchReport, ChangedFiles, RESULT_FILES_MAX};
use engine::{AcceptanceView, AfterInterruption, QuestionView, RunView, WaitingView};

/// How much of the output of an active run is shown.
const PARTIAL_BYTES: usize = 4 << 10;
const STDERR_BYTES: usize = 2 << 10;
const WARNINGS_MAX: usize = 10;
const DENIALS_MAX: usize = 10;
const QUESTIONS_MAX: usize = 5;
/// How many bytes of a result a report repeats after an earlier answer contained all of it.
const REPEATED_BYTES: usize = 500;

/// A run.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(in super::super) struct RunReport {
    /// The handle of the run, for every later call. Kept for 7 days after the end.
    pub(super) run_id: String,
    pub(super) agent: String,
    /// While it goes on: accepted, running, waiting or stopping. At the end: succeeded, partial, failed, timed_out,
    /// cancelled, over_budget, refused or interrupted.
    pub(super) status: String,
    pub(super) ended: bool,
    /// What became of it, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) explanation: String,
    /// Who cancelled it, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancellation: Option<CancellationReport>,
    /// The agent's answer, or the beginning of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<String>,
    /// The length of the whole answer, when `result` is not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result_bytes: Option<u64>,
    /// Where the rest of the answer begins: give it to get_run as result_offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result_next_offset: Option<u64>,
    /// While the run goes on: the end of what it has said so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partial_text: Option<String>,
    /// What to do next, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
    /// The question that the run waits for an answer to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) question: Option<QuestionReport>,
    /// Open questions of runs below this one. A person answers them, not you.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) needs_answer: Vec<QuestionBelow>,
    /// The place in the queue for a slot; 1 is the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue_position: Option<u64>,
    /// No output for two minutes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stalled: bool,
    pub(super) duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_tokens: Option<u64>,
    /// Absent when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cost_usd: Option<f64>,
    /// `reported` by the agent, or `computed` from its tokens and a price list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cost_basis: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    /// The answer as a value that was checked, where its shape was asked for. A value that is no object stands in the
    /// member "value".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) structured: Option<Map<String, Value>>,
    /// The value was not quite JSON as the agent wrote it, and its spelling was mended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) repaired: bool,
    /// How often the agent was started, when that was more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attempts: Option<u64>,
    /// What is wrong with an answer that does not have the shape that was asked for. The answer is in `result`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) errors: Vec<String>,
    /// Of a success: "verified" if the agent's acceptance commands all succeeded afterwards, "claimed" if only the agent
    /// says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) verification: Option<String>,
    /// The acceptance commands that were run to confirm the agent's success.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) acceptance: Vec<AcceptanceReport>,
    /// Absent if the run's directory is in no git work tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changed_files: Option<ChangedFiles>,
    /// Where the work is, if the agent works in a work tree of its own and changed something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) branch: Option<BranchReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    /// The end of what the agent wrote to stderr, when the run did not succeed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) stderr_tail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    /// What the agent was denied, so that its answer may be incomplete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) denials: Vec<DenialReport>,
    /// How often the agent was denied something, if `denials` does not list all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) denials_count: Option<u64>,
    /// The idempotency key was known: this is the run of an earlier request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) reused: bool,
}

/// A tool use that the agent was denied.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(in super::super) struct DenialReport {
    tool: String,
    /// The command, path or address.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    /// The rule, the level or the person that denied it.
    reason: String,
    /// The narrowest rules that would allow it. Only a person can grant them: with `volery run --allow`, or in the
    /// permission of the agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allow_rules: Vec<String>,
}

impl From<Denial> for DenialReport {
    fn from(denial: Denial) -> Self {
        let Denial { tool, subject, cause: _, reason, by, allow_rules } = denial;
        let reason = match by {
            Some(name) => format!("denied by {name}: {reason}"),
            None => reason,
        };
        Self { tool, subject, reason, allow_rules }
    }
}

/// Who cancelled a run, and why.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(in super::super) struct CancellationReport {
    by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
}

/// A question of a waiting run.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(in super::super) struct QuestionReport {
    pub(super) question_id: String,
    pub(super) text: String,
    /// When it counts as denied.
    pub(super) until: String,
}

/// A question of a run below the one that shows it.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(in super::super) struct QuestionBelow {
    /// The run that waits for the answer.
    run_id: String,
    /// The names of the agents from the run that shows the question down to the one that has it.
    agents: Vec<String>,
    question_id: String,
    text: String,
    /// When it counts as denied.
    until: String,
}

impl QuestionBelow {
    /// Returns the first of these questions that runs below ask.
    pub(super) fn list(questions: &[QuestionView]) -> Vec<Self> {
        let below = questions.iter().filter(|question| !question.is_own()).take(QUESTIONS_MAX).cloned();
        let report = |question: QuestionView| {
            let QuestionView { run_id, agents, question, text, until, short_id: _, allow_rules: _ } =
                question;
            Self { run_id: run_id.to_string(), agents, question_id: question, text, until }
        };
        below.map(report).collect()
    }
}

/// An acceptance command.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub(in super::super) struct AcceptanceReport {
    command: Vec<String>,
    passed: bool,
    /// What became of the command.
    explanation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The end of what it wrote, if it did not succeed.
    #[serde(skip_serializing_if = "String::is_empty")]
    output_tail: String,
}

impl From<&AcceptanceView> for AcceptanceReport {
    fn from(command: &AcceptanceView) -> Self {
        let output = if command.passed { "" } else { fit_tail(&command.output_tail, STDERR_BYTES) };
        Self {
            command: command.command.clone(),
            passed: command.passed,
            explanation: command.explanation.clone(),
            exit_code: command.exit_code,
            output_tail: output.to_owned(),
        }
    }
}

/// Wraps a value into the object that clients expect; `None` if it is too long for the client.
fn as_object(value: Value, bytes_max: usize) -> Option<Map<String, Value>> {
    if value.to_string().len() > bytes_max {
        return None;
    }
    Some(match value {
        Value::Object(members) => members,
        other => Map::from_iter([("value".to_owned(), other)]),
    })
}

/// Returns whether a status means that the run failed.
pub(in super::super) fn is_failure(status: &str) -> bool {
    let kind = OutcomeKind::ALL.into_iter().find(|kind| kind.as_str() == status);
    match kind {
        None | Some(OutcomeKind::Succeeded | OutcomeKind::Partial) => false,
        Some(
            OutcomeKind::Failed
            | OutcomeKind::TimedOut
            | OutcomeKind::Cancelled
            | OutcomeKind::OverBudget
            | OutcomeKind::Refused
            | OutcomeKind::Interrupted,
        ) => true,
    }
}

/// Limits the number of warnings.
fn limit_warnings(mut warnings: Vec<String>) -> Vec<String> {
    if warnings.len() > WARNINGS_MAX {
        let more = warnings.len() - WARNINGS_MAX + 1;
        warnings.truncate(WARNINGS_MAX - 1);
        warnings.push(format!("{more} more warnings: `volery show RUN` has them"));
    }
    warnings
}

/// Advice for a caller about denials that a rule would have prevented.
const ADVICE_AFTER_DENIALS: &str = "The agent was denied something (see denials), so its answer may be incomplete. If that \
     matters, show your user the allow_rules: only a person can grant them.";

impl RunReport {
    /// Renders a run for a client, with as much of its result as the client's model sees.
    pub(in super::super) fn for_client(run: RunView, client: &ClientProfile) -> Self {
        Self::with_result_bytes(run, 0, client.result_bytes)
    }

    /// Renders an ended run with only the beginning of its result, because an earlier answer contained all of it.
    pub(super) fn without_repeated_result(run: RunView, client: &ClientProfile) -> Self {
        let run = RunView { structured: None, ..run };
        let mut report = Self::with_result_bytes(run, 0, client.result_bytes.min(REPEATED_BYTES));
        if report.result_next_offset.is_some() {
            report.next = Some(format!(
                "An earlier answer has the whole result. If you no longer have it, call get_run with run_id {:?}.",
                report.run_id
            ));
        }
        report
    }

    /// Returns whether the run has ended and this report has all of its result.
    pub(super) fn has_whole_result(&self) -> bool {
        // A report that begins at an offset has `result_bytes`.
        self.ended && self.result_bytes.is_none()
    }

    /// Renders a run whose result begins at `offset`.
    pub(super) fn with_result_bytes(run: RunView, offset: u64, bytes_max: usize) -> Self {
        let errors = match run.outcome {
            Some(Outcome::Failed { failure: Failure::Schema { errors, .. } }) => errors,
            _ => Vec::new(),
        };
        let too_long =
            run.structured.as_ref().filter(|value| value.to_string().len() > bytes_max).map(|value| {
                let bytes = value.to_string().len();
                format!("the value is left out here: it has {bytes} bytes; `volery show RUN --json` has it")
            });
        let warnings =
            limit_warnings(run.warnings.into_iter().chain(damage_warning(run.damaged_lines)).collect());
        let mut report = Self {
            run_id: run.run_id.to_string(),
            agent: run.agent,
            ended: run.ended,
            explanation: run.explanation,
            cancellation: run
                .cancellation
                .map(|Cancellation { by, reason }| CancellationReport { by, reason }),
            needs_answer: QuestionBelow::list(&run.needs_answer),
            stalled: run.stalled,
            duration_ms: run.duration_ms,
            session_id: run.session,
            structured: run.structured.and_then(|value| as_object(value, bytes_max)),
            repaired: run.repaired,
            attempts: Some(run.attempts).filter(|attempts| *attempts > 1),
            errors,
            verification: run.verification.map(|verification| verification.as_str().to_owned()),
            acceptance: run.acceptance.iter().map(AcceptanceReport::from).collect(),
            exit_code: run.exit_code.filter(|code| *code != 0),
            changed_files: run
                .changes
                .as_ref()
                .map(|changes| ChangedFiles::from_changes(changes, RESULT_FILES_MAX)),
            branch: run.branch.as_ref().map(BranchReport::from),
            warnings: too_long.into_iter().chain(warnings).collect(),
            denials_count: Some(run.denials_count).filter(|count| *count > DENIALS_MAX as u64),
            denials: run.denials.into_iter().take(DENIALS_MAX).map(DenialReport::from).collect(),
            ..Self::default()
        };
        let usage = run.usage;
        if usage.input_tokens > 0 || usage.output_tokens > 0 {
            report.input_tokens = Some(usage.input_tokens);
            report.output_tokens = Some(usage.output_tokens);
        }
        report.cost_usd = usage.cost.map(|cost| cost.microusd as f64 / 1e6);
        report.cost_basis = usage.cost.map(|cost| cost.basis.as_str());
        match run.waiting {
            Some(WaitingView::Slot { position }) => report.queue_position = Some(position),
            Some(WaitingView::Answer { question, text, until, allow_rules: _ }) => {
                report.question = Some(QuestionReport { question_id: question, text, until });
            }
            Some(WaitingView::Session { .. }) | None => {}
        }
        if let Some(result) = run.result {
            let shown = fit(&result, bytes_max);
            let end = offset + shown.len() as u64;
            if shown.len() < result.len() || run.result_next_offset.is_some() {
                report.result_next_offset = Some(end);
            }
            if report.result_next_offset.is_some() || offset > 0 {
                report.result_bytes = Some(run.result_bytes);
            }
            report.result = Some(shown.to_owned());
        }
        if !run.ended {
            let partial = run.partial.unwrap_or_default();
            let partial = fit_tail(&partial, PARTIAL_BYTES.min(bytes_max));
            report.partial_text = (!partial.is_empty()).then(|| partial.to_owned());
        }
        if run.ended && run.status != OutcomeKind::Succeeded.as_str() {
            report.stderr_tail = fit_tail(&run.stderr_tail, STDERR_BYTES).to_owned();
        }
        report.status = run.status;
        report.next = report.advice(run.parent.is_some());
        report.next = report.next.take().or_else(|| report.advice_after_end(run.after_interruption.as_ref()));
        report
    }

    /// Returns advice for the caller about an interrupted run or about denials.
    fn advice_after_end(&self, interruption: Option<&AfterInterruption>) -> Option<String> {
        let is_denied = self.denials.iter().any(|denial| !denial.allow_rules.is_empty());
        interruption
            .map(|after| advice_after_interruption(after, self.session_id.as_deref()))
            .or_else(|| is_denied.then(|| ADVICE_AFTER_DENIALS.to_owned()))
    }

    /// Returns the run's id if its result is shown only in part.
    pub(super) fn cut_short(&self) -> Option<String> {
        self.result_next_offset.map(|_| self.run_id.clone())
    }

    /// Renders a run that was just started.
    pub(super) fn started(run_id: String, agent: String, warnings: Vec<String>) -> Self {
        let mut report = Self { run_id, agent, status: "running".into(), warnings, ..Self::default() };
        report.next = report.advice(false);
        report
    }

    /// Sets the advice for a server that stops before the run has ended.
    pub(super) fn leaving(mut self) -> Self {
        self.next = Some(format!(
            "This server is leaving. What becomes of the run is what on_disconnect says: it is cancelled after a \
             grace, or it goes on. Another server's get_run with run_id {:?} tells.",
            self.run_id
        ));
        self
    }

    /// Returns what the caller can do next. The caller of a child run may be a run itself, which cannot answer questions.
    fn advice(&self, is_child: bool) -> Option<String> {
        let Self { run_id, .. } = self;
        if self.question.is_some() && is_child {
            return Some(format!(
                "The run waits for an answer of a person, who gives it with volery approve, deny or answer {run_id}. Call \
                 wait_runs with run_ids [{run_id:?}] for the result; without an answer in time it is told no, and goes on."
            ));
        }
        if let Some(question) = &self.question {
            return Some(format!(
                "The run waits for an answer. Decide, or ask your user, then call answer_run with run_id {run_id:?} \
                 and question_id {:?}, and wait_runs for the result.",
                question.question_id
            ));
        }
        if let Some(question) = self.needs_answer.first() {
            let QuestionBelow { run_id: below, agents, .. } = question;
            return Some(format!(
                "{} waits for an answer of a person, who gives it with volery approve, deny or answer {below}. Tell your \
                 user. Nothing is lost if you do other work; then call wait_runs with run_ids [{run_id:?}] for the result. \
                 Without an answer in time it is told no, and goes on.",
                agents.join(" › ")
            ));
        }
        if !self.ended {
            return Some(format!(
                "Still going; nothing is lost if you do other work first. Then call wait_runs with \
                 run_ids [{run_id:?}] for the result, get_run to look at it, or cancel_run to stop it."
            ));
        }
        self.result_next_offset.map(|offset| {
            format!("This is not all of the result. Call get_run with run_id {run_id:?} and result_offset {offset} for more.")
        })
    }
}

/// Returns advice for a model about an interrupted run. Only a person can resume a run.
fn advice_after_interruption(after: &AfterInterruption, session: Option<&str>) -> String {
    let again = match session {
        Some(session) => {
            format!("or call run_agent with session_id {session:?} to continue the conversation")
        }
        None => "or call run_agent again with the same prompt".to_owned(),
    };
    match after {
        AfterInterruption::Resume { command } => {
            format!("The run was interrupted. Your user can continue it with `{command}`, {again}.")
        }
        AfterInterruption::RunAgain { reason, .. } => format!(
            "The run was interrupted and cannot be resumed: {reason}. Check what it did, then call run_agent again if \
             that does no harm."
        ),
    }
}

fn damage_warning(lines: u64) -> Option<String> {
    (lines > 0).then(|| crate::report::damage_warning(lines))
}

/// Returns the longest prefix of a text that takes at most `max` bytes as a JSON string.
pub(in super::super) fn fit(text: &str, max: usize) -> &str {
    let mut used = 0;
    for (index, c) in text.char_indices() {
        used += escaped_len(c);
        if used > max {
            return &text[..index];
        }
    }
    text
}

/// Returns the longest suffix of a text that takes at most `max` bytes as a JSON string.
pub(in super::super) fn fit_tail(text: &str, max: usize) -> &str {
    let mut used = 0;
    for (index, c) in text.char_indices().rev() {
        used += escaped_len(c);
        if used > max {
            return &text[index + c.len_utf8()..];
        }
    }
    text
}

fn escaped_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c.is_ascii_control() => 6,
        c => c.len_utf8(),
    }
}
