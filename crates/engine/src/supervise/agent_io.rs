//! The conversation with an agent's process: applies the reports of its reader, and writes to its input.

use backends::contract::AgentReport;
use domain::run::Event;
use domain::run::tool_summary::{summarize_tool_call, truncate};
use journal::StoreError;
use tokio::sync::mpsc;

use super::supervisor::{AgentHandle, RunSupervisor};

/// The most of a text in one event; the spool has all of it.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// The most of a tool's input and output in one event.
const TOOL_BYTES_MAX: usize = 16 << 10;
/// How deep a tool's input may be; a line of the journal allows somewhat more.
const TOOL_DEPTH_MAX: usize = 48;
/// How many short texts the record of a long input contains, and the longest of them.
const SHORT_TEXTS_MAX: usize = 16;
const SHORT_BYTES_MAX: usize = 512;
/// The most of the name of a tool, a call or a model.
const NAME_BYTES_MAX: usize = 1 << 10;
/// How long an agent may take to exit after it has reported that it is finished.
const EXIT_MS: u64 = 2_000;
/// How many messages may wait for an agent to read them.
pub(super) const WRITES_MAX: usize = 256;

impl RunSupervisor {
    /// Applies the reports of the reader, in order.
    pub(super) fn apply_reports(&mut self, reports: Vec<AgentReport>) -> Result<(), StoreError> {
        for report in reports {
            match report {
                AgentReport::Write(bytes) => self.write_to_agent(bytes)?,
                AgentReport::WriteWithVariables { content, variables } => {
                    match crate::launch::agent_process::fill_variables(&content, &variables) {
                        Ok(bytes) => self.write_to_agent(bytes.into_owned())?,
                        Err(error) => {
                            self.append(Event::Warned { message: error.to_string() })?;
                            // Without this message the agent would wait for ever.
                            self.exit_deadline = Some(crate::clock::monotonic_ms());
                        }
                    }
                }
                AgentReport::CloseInput => {
                    if let AgentHandle::Process { input, .. } = &mut self.handle {
                        *input = None;
                    }
                }
                AgentReport::Finished => self.exit_deadline = Some(crate::clock::monotonic_ms() + EXIT_MS),
                AgentReport::PermissionRequested(ask) => self.handle_permission_request(ask)?,
                AgentReport::Session(session) => self.record_session(&session)?,
                AgentReport::Text(text) => {
                    self.delay_reason = None;
                    self.subscribers.push_text(text.as_bytes());
                    self.append(Event::AnswerAppended {
                        text: domain::size::head(&text, TEXT_BYTES_MAX).to_owned(),
                    })?;
                }
                AgentReport::Used(usage) => self.append(Event::UsageReported { usage, model: None })?,
                AgentReport::UsedBy { model, usage } => {
                    self.append(Event::UsageReported { usage, model: Some(truncate_name(model)) })?;
                }
                AgentReport::Warned(message) => self.append(Event::Warned { message })?,
                AgentReport::Denied { call, tool, reason } => {
                    self.record_program_denial(&call, &truncate_name(tool), &reason)?;
                }
                AgentReport::Retrying { error, message } => {
                    self.delay_reason = Some(format!("{error}; {message}"));
                    self.subscribers.set_activity(truncate(&domain::invisible_text::one_line(&message)));
                    self.append(Event::Warned { message })?;
                }
                AgentReport::Model(model) => {
                    let model = truncate_name(model);
                    if self.log.state().model.as_ref() != Some(&model) {
                        self.append(Event::ModelReported { model })?;
                    }
                }
                AgentReport::ToolCalled { id, name, input } => {
                    let (id, name) = (truncate_name(id), truncate_name(name));
                    self.delay_reason = None;
                    self.recent_calls.remember(&id, &input);
                    let summary = summarize_tool_call(&name, &input, &self.attempt_spec.directory);
                    self.subscribers.set_activity(summary);
                    self.append(Event::ToolCalled { id, name, input: bound_input(input) })?;
                }
                AgentReport::ToolReturned { id, ok, output } => {
                    let (id, output) =
                        (truncate_name(id), domain::size::head(&output, TOOL_BYTES_MAX).to_owned());
                    self.append(Event::ToolReturned { id, ok, output })?;
                }
            }
        }
        Ok(())
    }

    fn write_to_agent(&mut self, bytes: Vec<u8>) -> Result<(), StoreError> {
        let AgentHandle::Process { input: Some(input), .. } = &self.handle else { return Ok(()) };
        match input.try_send(bytes) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                let message = "the agent asks and does not read the answers; one was dropped".to_owned();
                self.append(Event::Warned { message })
            }
        }
    }
}

/// Returns a tool's input, or its beginning as text if it is too long or too deep for the journal.
fn bound_input(input: serde_json::Value) -> serde_json::Value {
    let text = input.to_string();
    match text.len() {
        0..=TOOL_BYTES_MAX if is_shallow(&input, TOOL_DEPTH_MAX) => input,
        bytes => {
            // The short arguments identify the call, for example by the path of the file that it writes.
            let mut bounded: serde_json::Map<String, serde_json::Value> = short_texts(&input).collect();
            bounded.insert("beginning".to_owned(), domain::size::head(&text, TOOL_BYTES_MAX).into());
            bounded.insert("bytes".to_owned(), bytes.into());
            bounded.into()
        }
    }
}

/// Returns the first short texts of an input, with their keys.
fn short_texts(input: &serde_json::Value) -> impl Iterator<Item = (String, serde_json::Value)> {
    let is_short =
        |value: &serde_json::Value| value.as_str().is_some_and(|text| text.len() <= SHORT_BYTES_MAX);
    let fields = input.as_object().into_iter().flatten();
    let short = fields.filter(move |(key, value)| key.len() <= SHORT_BYTES_MAX && is_short(value));
    short.take(SHORT_TEXTS_MAX).map(|(key, value)| (key.clone(), value.clone()))
}

fn is_shallow(value: &serde_json::Value, levels: usize) -> bool {
    use serde_json::Value;
    match (value, levels.checked_sub(1)) {
        (Value::Array(items), Some(left)) => items.iter().all(|item| is_shallow(item, left)),
        (Value::Object(fields), Some(left)) => fields.values().all(|field| is_shallow(field, left)),
        (Value::Array(_) | Value::Object(_), None) => false,
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => true,
    }
}

/// Truncates a name that a program reported.
fn truncate_name(name: String) -> String {
    if name.len() <= NAME_BYTES_MAX { name } else { domain::size::head(&name, NAME_BYTES_MAX).to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::bound_input;

    #[test]
    fn an_input_that_is_too_deep_for_the_journal_is_stored_as_text() {
        let nested = |levels: usize| (0..levels).fold(json!("egg"), |inner, _| json!([inner]));
        assert_eq!(bound_input(nested(20)), nested(20));
        let bounded = bound_input(nested(90));
        assert_eq!(bounded["bytes"], json!(nested(90).to_string().len()));
        assert!(bounded["beginning"].as_str().unwrap().contains("egg"));
    }

    #[test]
    fn the_short_texts_of_a_long_input_stay() {
        let bounded = bound_input(json!({"content": "x".repeat(100_000), "file_path": "a.txt", "limit": 3}));
        assert_eq!((&bounded["file_path"], bounded.get("content")), (&json!("a.txt"), None));
    }
}
