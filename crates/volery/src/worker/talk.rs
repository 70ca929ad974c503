//! The conversation with an agent's process: what its reader understood, what is written back, and what it asks for.

use backend::contract::{Ask, Decision, Report};
use backend::mcp_config;
use domain::inherit::Inherited;
use domain::permission::Ruling;
use domain::run::{Event, Input};
use journal::StoreError;
use tokio::sync::mpsc;

use super::desk::{Desk, Driven};
use super::permission_question;
use super::questions::{Asker, OpenQuestion};
use super::visible::cut;

/// The most of a text in one event; the whole of it is in the spool.
const SAID_MAX: usize = 64 << 10;
/// The most of a tool's input and output that is kept.
const TOOL_MAX: usize = 16 << 10;
/// How deep a tool's input may be; a line of the journal takes somewhat more.
const TOOL_DEPTH_MAX: usize = 48;
/// The most of the name of a tool, a call or a model.
const NAME_MAX: usize = 1 << 10;
/// The most of a question in words that a person is shown.
const SHOWN_MAX: usize = 2 << 10;
/// How many asks of one agent may wait for a person.
const ASKS_MAX: usize = 32;
/// How long an agent that has said its last word may take to leave.
const LEAVE_MS: u64 = 2_000;
/// How many messages may wait for an agent to read them.
pub(super) const WRITES_MAX: usize = 256;

impl Desk {
    /// Takes in what the reader understood, in order.
    pub(super) fn hear(&mut self, reports: Vec<Report>) -> Result<(), StoreError> {
        for report in reports {
            match report {
                Report::Write(bytes) => self.write_to_agent(bytes)?,
                Report::WriteFilled { content, variables } => {
                    match super::agent::filled(&content, &variables) {
                        Ok(bytes) => self.write_to_agent(bytes.into_owned())?,
                        Err(error) => {
                            self.append(Event::Warned { message: error.to_string() })?;
                            // Without this word the agent would wait for ever.
                            self.leave_by = Some(crate::clock::monotonic_ms());
                        }
                    }
                }
                Report::CloseInput => {
                    if let Driven::Process { input, .. } = &mut self.driven {
                        *input = None;
                    }
                }
                Report::Finished => self.leave_by = Some(crate::clock::monotonic_ms() + LEAVE_MS),
                Report::Asks(ask) => self.take_ask_of_agent(ask)?,
                Report::Session(session) => self.name_session(&session)?,
                Report::Said(text) => {
                    self.late = None;
                    self.audience.heard(text.as_bytes());
                    self.append(Event::Said { text: domain::size::head(&text, SAID_MAX).to_owned() })?;
                }
                Report::Used(usage) => self.append(Event::Used { usage, model: None })?,
                Report::UsedBy { model, usage } => {
                    self.append(Event::Used { usage, model: Some(named(model)) })?;
                }
                Report::Warned(message) => self.append(Event::Warned { message })?,
                Report::Denied { call, tool, reason } => {
                    self.denied_by_program(&call, &named(tool), &reason)?;
                }
                Report::Retries { error, message } => {
                    self.late = Some(format!("{error}; {message}"));
                    self.append(Event::Warned { message })?;
                }
                Report::Model(model) => {
                    let model = named(model);
                    if self.log.state().model.as_ref() != Some(&model) {
                        self.append(Event::ModelNamed { model })?;
                    }
                }
                Report::ToolCalled { id, name, input } => {
                    let (id, name) = (named(id), named(name));
                    self.late = None;
                    self.recent_calls.remember(&id, &input);
                    self.audience.note(format!("uses {name}"));
                    self.append(Event::ToolCalled { id, name, input: bounded(input) })?;
                }
                Report::ToolReturned { id, ok, output } => {
                    let (id, output) = (named(id), domain::size::head(&output, TOOL_MAX).to_owned());
                    self.append(Event::ToolReturned { id, ok, output })?;
                }
            }
        }
        Ok(())
    }

    fn write_to_agent(&mut self, bytes: Vec<u8>) -> Result<(), StoreError> {
        let Driven::Process { input: Some(input), .. } = &self.driven else { return Ok(()) };
        match input.try_send(bytes) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                let message = "the agent asks and does not read the answers; one was dropped".to_owned();
                self.append(Event::Warned { message })
            }
        }
    }

    /// Decides about what the agent wants to do, or lets a person decide.
    fn take_ask_of_agent(&mut self, ask: Ask) -> Result<(), StoreError> {
        match self.ruling(&ask.tool, &ask.input) {
            Ruling::Allow(_) => self.tell_agent(&ask, &Decision::Allow(ask.input.clone())),
            Ruling::Deny(reason) => self.tell_agent(&ask, &Decision::Deny(reason)),
            Ruling::Ask(_) if mcp_config::is_unasked(&self.spec, &ask.tool) => {
                self.tell_agent(&ask, &Decision::Allow(ask.input.clone()))
            }
            Ruling::Ask(_) => {
                let Driven::Process { asks, .. } = &mut self.driven else { return Ok(()) };
                if asks.len() >= ASKS_MAX {
                    let reason = format!("{ASKS_MAX} other questions of this run are not answered yet");
                    return self.tell_agent(&ask, &Decision::Deny(reason));
                }
                asks.push_back(ask);
                self.ask_next_of_agent()
            }
        }
    }

    /// Returns what the run's permission says about a use of a tool.
    pub(super) fn ruling(&self, tool: &str, input: &serde_json::Value) -> Ruling {
        let permission = &self.attempt.setup.permission;
        let ground = super::ground::of(input, &self.spec.directory);
        match self.users_rules_count() {
            true => permission.decide_beyond_users(tool, input, &ground),
            false => permission.decide(tool, input, &ground),
        }
    }

    /// Tells whether the agent's program asks only about what its user's own rules do not allow.
    fn users_rules_count(&self) -> bool {
        let backend = &self.attempt.backend;
        let can = backend::registry::by_kind(&backend.kind).map(|kind| kind.capabilities(&backend.options));
        self.spec.setup.inherits(Inherited::Settings)
            && can.is_some_and(|can| can.inherits.contains(&Inherited::Settings))
    }

    /// Puts the next ask of the agent to people, if none is open.
    fn ask_next_of_agent(&mut self) -> Result<(), StoreError> {
        let Driven::Process { asks, question: None, .. } = &mut self.driven else { return Ok(()) };
        let Some(ask) = asks.pop_front() else { return Ok(()) };
        let text = match ask.question() {
            Some(question) => cut(&question, SHOWN_MAX),
            None => permission_question::worded(&ask.tool, &ask.input),
        };
        self.put_question(Asker::Agent(ask), text)
    }

    /// Records a question and lets the clocks of the run stand still until it is answered.
    pub(super) fn put_question(&mut self, asker: Asker, text: String) -> Result<(), StoreError> {
        let number = self.log.state().questions.len();
        let backend = &self.attempt.backend;
        let can = backend::registry::by_kind(&backend.kind).map(|kind| kind.capabilities(&backend.options));
        let asked = OpenQuestion::new(&self.spec, asker, number, can.and_then(|can| can.answer_ms_max));
        let event = Event::Asked { question: asked.id.clone(), text, until: asked.until };
        match &mut self.driven {
            Driven::Loop { question, .. } | Driven::Process { question, .. } => *question = Some(asked),
            Driven::Nothing => {}
        }
        self.append(event)?;
        // Whoever is asked must find the question after a crash too.
        self.log.sync()?;
        self.machine.step(crate::clock::monotonic_ms(), Input::WaitBegan);
        // Whoever watches hears of it now, and not with the agent's next word, for which it waits.
        self.audience.note("asked".to_owned());
        self.next_look = 0;
        Ok(())
    }

    /// Takes the answer to the open question, if there is one.
    pub(super) async fn take_answer(&mut self) -> Result<(), StoreError> {
        let (Driven::Loop { question: open, .. } | Driven::Process { question: open, .. }) = &mut self.driven
        else {
            return Ok(());
        };
        let Some(question) = open.clone() else { return Ok(()) };
        let Some(answered) = question.answer(&self.dir) else { return Ok(()) };
        *open = None;
        let (allowed, text) = match &answered {
            Event::Answered { allowed, text, .. } => (*allowed, text.clone()),
            _ => (false, String::new()),
        };
        self.append(answered)?;
        self.audience.note("was answered".to_owned());
        self.step(Input::WaitEnded).await?;
        match question.asker {
            Asker::Call(call) => {
                self.say(&format!("{text}\n"))?;
                self.complete(call, allowed, text).await
            }
            Asker::Agent(ask) => {
                let decision = match allowed {
                    true if ask.question().is_some() => Decision::Answer { input: ask.input.clone(), text },
                    true => Decision::Allow(ask.input.clone()),
                    false => Decision::Deny(text),
                };
                self.tell_agent(&ask, &decision)?;
                self.ask_next_of_agent()
            }
        }
    }

    fn tell_agent(&mut self, ask: &Ask, decision: &Decision) -> Result<(), StoreError> {
        if let Decision::Deny(reason) = decision {
            self.denied_here(ask, reason)?;
        }
        let Driven::Process { output, .. } = &mut self.driven else { return Ok(()) };
        let reports = output.decide(&ask.id, decision);
        self.hear(reports)
    }
}

/// Returns a tool's input, or its beginning as a text where it is too long or too deep to be kept.
fn bounded(input: serde_json::Value) -> serde_json::Value {
    let text = input.to_string();
    match text.len() {
        0..=TOOL_MAX if is_shallow(&input, TOOL_DEPTH_MAX) => input,
        bytes => serde_json::json!({"beginning": domain::size::head(&text, TOOL_MAX), "bytes": bytes}),
    }
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

/// Returns a name that a program gave to something, short enough to be kept.
fn named(name: String) -> String {
    if name.len() <= NAME_MAX { name } else { domain::size::head(&name, NAME_MAX).to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::bounded;

    #[test]
    fn an_input_that_is_too_deep_for_the_journal_is_kept_as_a_text() {
        let nested = |levels: usize| (0..levels).fold(json!("egg"), |inner, _| json!([inner]));
        assert_eq!(bounded(nested(20)), nested(20));
        let cut = bounded(nested(90));
        assert_eq!(cut["bytes"], json!(nested(90).to_string().len()));
        assert!(cut["beginning"].as_str().unwrap().contains("egg"));
    }
}
