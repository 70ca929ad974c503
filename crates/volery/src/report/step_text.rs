//! Describes single events of a run for the transcript and for the lines of `--verbose`.

use std::collections::BTreeMap;

use domain::run::Event;
use domain::run::tool_summary::summarize_tool_call;

use super::denials::denial_line;
use super::text::one_line;

/// The most calls without a result in memory.
const OPEN_CALLS_MAX: usize = 512;

/// The calls that have no result yet, by the id that the agent's program gave them.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    directory: String,
    summaries: BTreeMap<String, String>,
}

/// A call that began or ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallChange<'a> {
    Began { id: String, summary: String },
    Ended { id: String, summary: String, ok: bool, output: &'a str },
}

impl OpenCalls {
    pub(super) fn new(directory: &str) -> Self {
        Self { directory: directory.to_owned(), summaries: BTreeMap::new() }
    }

    /// Returns the start or end of a call that the event reports. The text and the usage of a rehearsal have separate events.
    pub(super) fn change<'a>(&mut self, event: &'a Event) -> Option<CallChange<'a>> {
        match event {
            Event::ToolCalled { id, name, input } => Some(self.begin(id.clone(), name, input)),
            Event::CallRequested { call, kind: domain::run::CallKind::Tool, name, input, .. } => {
                Some(self.begin(format!("#{call}"), name, input))
            }
            Event::ToolReturned { id, ok, output } => Some(self.end(id.clone(), *ok, output)),
            Event::CallCompleted { call, ok, output, details: _ } => {
                let id = format!("#{call}");
                self.summaries.contains_key(&id).then(|| self.end(id, *ok, output))
            }
            _ => None,
        }
    }

    fn begin(&mut self, id: String, name: &str, input: &serde_json::Value) -> CallChange<'static> {
        let summary = summarize_tool_call(name, input, &self.directory);
        if self.summaries.len() < OPEN_CALLS_MAX {
            self.summaries.insert(id.clone(), summary.clone());
        }
        CallChange::Began { id, summary }
    }

    fn end<'a>(&mut self, id: String, ok: bool, output: &'a str) -> CallChange<'a> {
        let summary = self.summaries.remove(&id).unwrap_or_else(|| "a tool call".to_owned());
        CallChange::Ended { id, summary, ok, output }
    }
}

/// Returns the line about a denied call. The reader of a transcript may not be the person who denied it.
pub(super) fn denial(event: &Event) -> Option<String> {
    match event {
        Event::ToolDenied { denial } => Some(denial_line(denial, "")),
        _ => None,
    }
}

/// Describes an event that is not a call, a denial, a warning, text or the end. Returns `None` for an event that only the
/// program needs.
pub(super) fn note(event: &Event) -> Option<String> {
    Some(match event {
        Event::Queued { .. } => "waits for a free slot".to_owned(),
        Event::SessionAwaited { session } => format!("waits for the session {session}"),
        Event::ModelReported { model } => format!("model {}", one_line(model)),
        Event::QuestionRaised { text, .. } => format!("asks: {}", one_line(text)),
        Event::QuestionAnswered { allowed: true, text, by, .. } => {
            let words = match text.trim() {
                "" | "yes" => String::new(),
                words => format!(": {}", one_line(words)),
            };
            format!("allowed by {}{words}", one_line(by))
        }
        // A separate event reports the denial.
        Event::QuestionAnswered { allowed: false, question, .. } if question.is_permission() => return None,
        Event::QuestionAnswered { allowed: false, text, by, .. } => {
            format!("denied by {}: {}", one_line(by), one_line(text))
        }
        Event::OutputTruncated { stream, retained_bytes } => {
            let size = domain::size::display_bytes(*retained_bytes);
            format!(
                "the output on {} is longer than its limit; {size} of it are stored",
                stream_name(*stream)
            )
        }
        Event::LimitExceeded { limit, detail } => {
            let limit = serde_json::to_value(limit).unwrap_or_default();
            format!("exceeded its limit {}: {}", limit.as_str().unwrap_or_default(), one_line(detail))
        }
        Event::CancelRequested { by, reason } => {
            format!("cancelled by {}: {}", one_line(by), one_line(reason))
        }
        Event::ChildStarted { run, agent } => {
            format!("started the run {} of {}", run.short(), one_line(agent.as_str()))
        }
        Event::ChildEnded { run, outcome } => format!("the run {} ended: {}", run.short(), outcome),
        Event::CallInDoubt { call } => format!("call {call} may or may not have taken effect"),
        Event::AcceptanceStarted { argv, .. } => {
            format!("runs the acceptance command {}", one_line(&argv.join(" ")))
        }
        Event::AcceptanceEnded { exit, .. } => format!("acceptance command: {}", one_line(&exit.to_string())),
        Event::WorktreeCreated { branch, .. } => format!("works on the branch {}", one_line(branch)),
        // Other functions report these events, or only the program needs them.
        Event::Claimed { .. }
        | Event::SlotTaken { .. }
        | Event::AgentStarted { .. }
        | Event::AnswerAppended { .. }
        | Event::ToolCalled { .. }
        | Event::ToolReturned { .. }
        | Event::AttemptStarted { .. }
        | Event::CallRequested { .. }
        | Event::CallCompleted { .. }
        | Event::UsageReported { .. }
        | Event::SessionReported { .. }
        | Event::ClientDisconnected { .. }
        | Event::StopRequested { .. }
        | Event::Warned { .. }
        | Event::ToolDenied { .. }
        | Event::ResultSubmitted { .. }
        | Event::FilesChanged { .. }
        | Event::WorktreeEnded { .. }
        | Event::Ended { .. } => return None,
    })
}

fn stream_name(stream: domain::run::StdStream) -> &'static str {
    match stream {
        domain::run::StdStream::Stdout => "standard output",
        domain::run::StdStream::Stderr => "standard error",
    }
}
