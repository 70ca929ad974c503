//! Decides about the tool uses that an agent asks for: by the permission of its run, or by the answer of a person.

use backends::contract::{PermissionDecision, PermissionRequest};
use backends::mcp_config;
use domain::inherit::Inherited;
use domain::invisible_text::sanitize_for_terminal;
use domain::policy::{Effect, Policy, Verdict};
use domain::run::{DenialCause, Event, SupervisionInput};
use journal::StoreError;

use super::denials::DeniedUse;
use super::permission_question::{elide_middle, question_text};
use super::questions::{Answer, OpenQuestion, QuestionSource};
use super::resolved_path;
use super::supervisor::{AgentHandle, RunSupervisor};

/// The most of a free-text question that a person is shown.
const QUESTION_BYTES_MAX: usize = 2 << 10;
/// How many asks of one agent may wait for a person.
const PENDING_REQUESTS_MAX: usize = 32;

impl RunSupervisor {
    /// Decides about a tool use that the agent asks for, or asks a person.
    pub(super) fn handle_permission_request(&mut self, ask: PermissionRequest) -> Result<(), StoreError> {
        let verdict = self.verdict_for(&ask.tool, &ask.input);
        match verdict.effect {
            Effect::Allow => self.pass_on_decision(&ask, &PermissionDecision::Allow(ask.input.clone())),
            // The record names who set the rule; the agent sees only the rule.
            Effect::Deny => self.deny(&ask, DeniedUse::by_verdict(&verdict), verdict.reason()),
            Effect::Ask if mcp_config::needs_no_approval(&self.spec, &ask.tool) => {
                self.pass_on_decision(&ask, &PermissionDecision::Allow(ask.input.clone()))
            }
            Effect::Ask => {
                let AgentHandle::Process { pending_requests, .. } = &mut self.handle else { return Ok(()) };
                if pending_requests.len() >= PENDING_REQUESTS_MAX {
                    let reason =
                        format!("{PENDING_REQUESTS_MAX} other questions of this run are not answered yet");
                    return self.deny(
                        &ask,
                        DeniedUse::because(DenialCause::Unanswered, reason.clone()),
                        reason,
                    );
                }
                pending_requests.push_back(ask);
                self.open_next_question()
            }
        }
    }

    /// Returns what the run's policy decides about a tool use.
    pub(super) fn verdict_for(&self, tool: &str, input: &serde_json::Value) -> Verdict {
        let of = resolved_path::resolved_use(tool, input, &self.spec.directory);
        self.policy().decide(&of)
    }

    /// Returns the run's policy, with the rules that a person has granted during the run.
    pub(super) fn policy(&self) -> Policy {
        let directory = resolved_path::resolved_directory(&self.spec.directory);
        let policy = self.attempt_spec.policy(directory, self.user_rules_apply());
        policy.with_allowed(&self.log.state().granted_rules)
    }

    /// Returns whether the agent's program asks only about uses that its user's own rules do not allow.
    fn user_rules_apply(&self) -> bool {
        let backend = &self.attempt_spec.backend;
        let can = backends::registry::by_kind(&backend.kind).map(|kind| kind.capabilities(&backend.options));
        self.spec.setup.inherits(Inherited::Settings)
            && can.is_some_and(|can| can.inherits.contains(&Inherited::Settings))
    }

    /// Asks a person about the next pending request of the agent, if no question is open.
    fn open_next_question(&mut self) -> Result<(), StoreError> {
        let AgentHandle::Process { pending_requests, question: None, .. } = &mut self.handle else {
            return Ok(());
        };
        let Some(ask) = pending_requests.pop_front() else { return Ok(()) };
        let text = match ask.question() {
            // It is answered in words, so nothing can be approved with it: emoji and scripts stay.
            Some(question) => elide_middle(&sanitize_for_terminal(&question), QUESTION_BYTES_MAX),
            None => question_text(&ask.tool, &ask.input),
        };
        self.open_question(QuestionSource::Agent(ask), text)
    }

    /// Records a question and stops the clocks of the run until it is answered.
    pub(super) fn open_question(&mut self, source: QuestionSource, text: String) -> Result<(), StoreError> {
        let number = self.log.state().questions.len();
        let backend = &self.attempt_spec.backend;
        let can = backends::registry::by_kind(&backend.kind).map(|kind| kind.capabilities(&backend.options));
        let opened = OpenQuestion::new(&self.spec, source, number, can.and_then(|can| can.answer_ms_max));
        let allow_rules = match &opened.source {
            QuestionSource::Agent(ask) if ask.question().is_none() => {
                self.rules_to_allow(&ask.tool, &ask.input)
            }
            QuestionSource::Agent(_) | QuestionSource::Call(_) => Vec::new(),
        };
        let (question, until) = (opened.id.clone(), opened.until);
        let event = Event::QuestionRaised { question, text, until, allow_rules };
        match &mut self.handle {
            AgentHandle::Loop { question, .. } | AgentHandle::Process { question, .. } => {
                *question = Some(opened)
            }
            AgentHandle::AgentLoop(_) | AgentHandle::NotRunning => {}
        }
        self.append(event)?;
        // The question must be there after a crash too.
        self.log.sync()?;
        self.machine.step(crate::clock::monotonic_ms(), SupervisionInput::WaitBegan);
        // Subscribers are notified now, not with the agent's next output: the agent waits for the answer.
        self.subscribers.set_activity("asked".to_owned());
        self.next_inbox_check = 0;
        Ok(())
    }

    /// Applies the answer to the open question, if there is one.
    pub(super) async fn handle_answer(&mut self) -> Result<(), StoreError> {
        let (AgentHandle::Loop { question: open, .. } | AgentHandle::Process { question: open, .. }) =
            &mut self.handle
        else {
            return Ok(());
        };
        let Some(question) = open.clone() else { return Ok(()) };
        let Some(answer) = question.answer(&self.dir) else { return Ok(()) };
        *open = None;
        let Answer { allowed, text, .. } = &answer;
        let (allowed, text) = (*allowed, text.clone());
        let denied = answer.denied_use();
        self.append(answer.into_event(question.id.clone()))?;
        self.subscribers.set_activity("was answered".to_owned());
        self.step(SupervisionInput::WaitEnded).await?;
        match question.source {
            QuestionSource::Call(call) => {
                self.append_text(&format!("{text}\n"))?;
                self.complete_call(call, allowed, text).await
            }
            QuestionSource::Agent(ask) => {
                match allowed {
                    true if ask.question().is_some() => {
                        let decision = PermissionDecision::AgentAnswer { input: ask.input.clone(), text };
                        self.pass_on_decision(&ask, &decision)?;
                    }
                    true => self.pass_on_decision(&ask, &PermissionDecision::Allow(ask.input.clone()))?,
                    false => self.deny(&ask, denied, text)?,
                }
                self.answer_granted()?;
                self.open_next_question()
            }
        }
    }

    /// Allows the pending requests that newly granted rules cover.
    fn answer_granted(&mut self) -> Result<(), StoreError> {
        let AgentHandle::Process { pending_requests, .. } = &mut self.handle else { return Ok(()) };
        for ask in std::mem::take(pending_requests) {
            let is_allowed = self.verdict_for(&ask.tool, &ask.input).effect == Effect::Allow;
            if is_allowed {
                self.pass_on_decision(&ask, &PermissionDecision::Allow(ask.input.clone()))?;
            } else if let AgentHandle::Process { pending_requests, .. } = &mut self.handle {
                pending_requests.push_back(ask);
            }
        }
        Ok(())
    }

    /// Records that a use is denied, and tells the agent why.
    fn deny(&mut self, ask: &PermissionRequest, denied: DeniedUse, reason: String) -> Result<(), StoreError> {
        self.record_denial(&ask.tool, &ask.input, denied)?;
        self.pass_on_decision(ask, &PermissionDecision::Deny(reason))
    }

    fn pass_on_decision(
        &mut self,
        ask: &PermissionRequest,
        decision: &PermissionDecision,
    ) -> Result<(), StoreError> {
        let AgentHandle::Process { output, .. } = &mut self.handle else { return Ok(()) };
        let reports = output.decide(&ask.id, decision);
        self.apply_reports(reports)
    }
}
