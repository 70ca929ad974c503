//! The calls of a resumable loop: requested in the journal, carried out, completed in the journal. A completed
//! call is never repeated, and one in doubt only if repeating it changes nothing.

use backend::contract::{Action, Answer, Conclusion, PlannedCall, Turn};
use domain::run::{CallClass, Event, Input};
use journal::StoreError;

use super::actions::{self, WriteHow};
use super::desk::{Desk, Driven, Seen};
use super::questions::Asker;
use crate::app::Start;
use crate::point;

/// The most output of a call that is journalled, and of a text in one event: written as JSON it may take six times as
/// much, and a line of the journal holds 1 MiB.
const CALL_OUTPUT_MAX: usize = 128 << 10;

impl Desk {
    /// Asks the loop for its next call and begins it.
    pub(super) async fn next_turn(&mut self) -> Result<(), StoreError> {
        let Driven::Loop { steps, .. } = &self.driven else { return Ok(()) };
        match steps.next(&self.log.state().calls) {
            Turn::Finish(end) => {
                let answer = Answer::Text(self.log.state().answer());
                self.answer_with(Conclusion::new(end, answer)).await
            }
            Turn::Call(planned) => self.begin_call(planned).await,
        }
    }

    /// After an interruption: calls that were requested and not completed are repeated if that is harmless.
    pub(super) fn settle_doubts(&mut self) -> Result<(), StoreError> {
        let doubtful: Vec<u32> = self
            .log
            .state()
            .calls
            .iter()
            .filter(|(_, call)| call.completed.is_none() && call.class == CallClass::Effect)
            .map(|(number, _)| *number)
            .collect();
        for call in doubtful {
            self.append(Event::CallInDoubt { call })?;
            let message = format!("whether call {call} took effect is not known; it was not repeated");
            self.append(Event::Warned { message: message.clone() })?;
            self.append(Event::CallCompleted { call, ok: false, output: message })?;
        }
        Ok(())
    }

    async fn begin_call(&mut self, planned: PlannedCall) -> Result<(), StoreError> {
        let PlannedCall { call, kind, class, name, input, action } = planned;
        self.audience.note(name.clone());
        self.append(Event::CallRequested { call, kind, class, name, input })?;
        match class {
            CallClass::Pure => {}
            // The intent of an effect is on disk before the effect.
            CallClass::Idempotent | CallClass::Effect => self.log.sync()?,
        }
        point::reach("worker_requested_call");
        self.act(call, action)?;
        Ok(())
    }

    /// Carries out a call; its end comes back to the desk as something seen.
    fn act(&mut self, call: u32, action: Action) -> Result<(), StoreError> {
        match action {
            Action::Say(text) => {
                let line = text + "\n";
                self.audience.heard(line.as_bytes());
                self.say(&line)?;
                self.done_soon(call, true, String::new());
            }
            Action::Use(usage) => {
                self.append(Event::Used { usage, model: None })?;
                self.done_soon(call, true, String::new());
            }
            Action::Write { path, text } => self.write(call, &path, &text, WriteHow::Replace),
            Action::Append { path, text } => self.write(call, &path, &text, WriteHow::Append),
            Action::Sleep { ms } => {
                let to_desk = self.to_desk.clone();
                self.under_way(tokio::task::spawn_local(async move {
                    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
                    let _ = to_desk.send(Seen::CallDone { call, ok: true, output: String::new() }).await;
                }));
            }
            Action::Ask { text } => self.put_question(Asker::Call(call), text)?,
            Action::Delegate { agent, prompt } => self.delegate(call, agent, prompt)?,
        }
        Ok(())
    }

    /// Records a part of the answer, in as many events as it needs.
    pub(super) fn say(&mut self, text: &str) -> Result<(), StoreError> {
        let mut rest = text;
        while !rest.is_empty() {
            let piece = domain::size::head(rest, CALL_OUTPUT_MAX);
            self.append(Event::Said { text: piece.to_owned() })?;
            rest = &rest[piece.len()..];
        }
        Ok(())
    }

    fn write(&mut self, call: u32, path: &str, text: &str, how: WriteHow) {
        let written = actions::write_beneath(&self.spec.directory, path, text, how);
        point::reach("worker_made_effect");
        let output = match &written {
            Ok(()) => format!("wrote {path}"),
            Err(error) => format!("could not write {path}: {error}"),
        };
        self.done_soon(call, written.is_ok(), output);
    }

    /// Runs another agent as a child and says its result.
    fn delegate(&mut self, call: u32, agent: String, prompt: String) -> Result<(), StoreError> {
        let start = Start {
            agent,
            prompt,
            directory: Some(self.spec.directory.clone()),
            // The same call after an interruption finds the same child.
            idempotency_key: Some(format!("{}:{call}", self.spec.id)),
            ..Start::default()
        };
        let run = match self.start_child(start)? {
            Ok(started) => started.run_id,
            Err(error) => {
                self.done_soon(call, false, error.to_string());
                return Ok(());
            }
        };
        let engine = std::sync::Arc::clone(&self.engine);
        let to_desk = self.to_desk.clone();
        self.under_way(tokio::task::spawn_local(async move {
            let (outcome, output) = engine.result_of(run).await;
            let _ = to_desk.send(Seen::ChildEnded { run, outcome }).await;
            let ok = outcome == domain::run::OutcomeKind::Succeeded;
            let _ = to_desk.send(Seen::CallDone { call, ok, output }).await;
        }));
        Ok(())
    }

    /// A call that is done at once is completed through the loop too, so that nothing recurses.
    fn done_soon(&mut self, call: u32, ok: bool, output: String) {
        let to_desk = self.to_desk.clone();
        self.under_way(tokio::task::spawn_local(async move {
            let _ = to_desk.send(Seen::CallDone { call, ok, output }).await;
        }));
    }

    fn under_way(&mut self, task: tokio::task::JoinHandle<()>) {
        if let Driven::Loop { under_way, .. } = &mut self.driven {
            *under_way = Some(task.abort_handle());
        }
    }

    /// Records that a call was made, and goes on.
    pub(super) async fn complete(&mut self, call: u32, ok: bool, output: String) -> Result<(), StoreError> {
        let known = self.log.state().calls.get(&call);
        if known.is_none_or(|known| known.completed.is_some()) {
            return Ok(());
        }
        let delegated = known.is_some_and(|known| known.name == "delegate");
        let output = domain::size::head(&output, CALL_OUTPUT_MAX).to_owned();
        if delegated {
            self.say(&format!("{}\n", output.trim_end()))?;
        }
        self.append(Event::CallCompleted { call, ok, output })?;
        point::reach("worker_completed_call");
        self.step(Input::Output(domain::run::Stream::Stdout)).await?;
        if self.finished { Ok(()) } else { self.next_turn().await }
    }
}
