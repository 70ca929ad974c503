//! The subscribers of a run: the door that started it, and clients that watch it.

use domain::id::RunId;
use domain::run::tool_summary::last_sentence;
use domain::run::{Phase, RunSpec, RunState};

use crate::api::{Progress, QuestionView, RunView};
use crate::clock;
use crate::ipc::wire::{self, MessageSender, RunMessage};

/// The shortest time between two progress messages.
const NOTIFY_EVERY_MS: u64 = 200;
/// A progress message can be lost, and an agent that waits causes no further messages. Volery therefore repeats an open
/// question this often, and repeats the end of a question for this long.
const REPEAT_EVERY_MS: u64 = 1_000;
const REPEAT_END_FOR_MS: u64 = 3_000;
/// The most subscribers; more are refused.
const PEERS_MAX: usize = 64;
/// The longest message with a view; a socket's buffer holds more.
const VIEW_BYTES_MAX: usize = 64 << 10;
/// How much of the end of the agent's text is sent.
const TAIL_BYTES: usize = 600;

pub(super) struct Subscribers {
    peers: Vec<MessageSender>,
    tail: Vec<u8>,
    /// The last step of the agent; progress shows it unless the agent wrote text afterwards.
    activity: String,
    wrote_text_since: bool,
    started_ms: u64,
    notified_ms: u64,
    pending: bool,
    /// The open questions of child runs, in the order in which they arrived.
    child_questions: Vec<(RunId, QuestionView)>,
    /// When the last message with an open question was sent.
    question_sent_ms: Option<u64>,
}

impl Subscribers {
    pub(super) fn new(channel: MessageSender) -> Self {
        Self {
            peers: vec![channel],
            tail: Vec::new(),
            activity: "started".to_owned(),
            wrote_text_since: false,
            started_ms: clock::monotonic_ms(),
            notified_ms: 0,
            pending: true,
            child_questions: Vec::new(),
            question_sent_ms: None,
        }
    }

    pub(super) fn add(&mut self, peer: MessageSender) {
        if self.peers.len() < PEERS_MAX {
            self.peers.push(peer);
            self.pending = true;
            self.notified_ms = 0;
        }
    }

    /// Adds to the tail of the agent's text.
    pub(super) fn push_text(&mut self, bytes: &[u8]) {
        let recent = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let begins_message = !std::mem::replace(&mut self.wrote_text_since, true);
        if begins_message && self.tail.last().is_some_and(|last| *last != b'\n') {
            // Vendors' programs write no line break between two messages.
            self.tail.push(b'\n');
        }
        self.tail.extend_from_slice(recent);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..excess);
        self.pending = true;
    }

    /// Sets the agent's current step.
    pub(super) fn set_activity(&mut self, activity: String) {
        self.activity = activity;
        self.wrote_text_since = false;
        self.pending = true;
    }

    /// Sets the open question of a child run, or of a run below it; `None` if it has none.
    pub(super) fn set_child_question(&mut self, child: RunId, question: Option<QuestionView>) {
        let known = self.child_questions.iter().position(|(run, _)| *run == child);
        match (known, question) {
            (Some(index), Some(question)) => self.child_questions[index].1 = question,
            (None, Some(question)) => self.child_questions.push((child, question)),
            (Some(index), None) => _ = self.child_questions.remove(index),
            (None, None) => return,
        }
        self.pending = true;
    }

    /// Returns the open question of the run, otherwise the oldest question of its children.
    fn open_question(&self, spec: &RunSpec, state: &RunState) -> Option<QuestionView> {
        let agent = spec.agent.to_string();
        match &state.phase {
            // The children are being cancelled.
            Phase::Stopping | Phase::Ended(_) => None,
            Phase::Accepted | Phase::Running | Phase::Waiting(_) => {
                // A question of an unattended run is denied at once.
                let own = QuestionView::from_phase(spec.id, vec![agent.clone()], &state.phase)
                    .filter(|_| spec.unattended.is_none());
                own.or_else(|| {
                    let (_, question) = self.child_questions.first()?;
                    let agents = std::iter::once(agent).chain(question.agents.iter().cloned()).collect();
                    Some(QuestionView { agents, ..question.clone() })
                })
            }
        }
    }

    /// Sends progress soon, because the log has a new event that subscribers may read there.
    pub(super) fn wake(&mut self) {
        self.pending = true;
    }

    /// Returns the last sentence or the last step, whichever is later, and whether it is a sentence.
    fn latest_activity(&self) -> (String, bool) {
        if self.wrote_text_since {
            let sentence = last_sentence(&String::from_utf8_lossy(&self.tail));
            if !sentence.is_empty() {
                return (sentence, true);
            }
        }
        (self.activity.clone(), false)
    }

    /// Returns when the next progress message is due.
    pub(super) fn next_update_ms(&self) -> Option<u64> {
        let repeats = |sent_ms| self.notified_ms < sent_ms + REPEAT_END_FOR_MS;
        match self.pending {
            _ if self.peers.is_empty() => None,
            true => Some(self.notified_ms + NOTIFY_EVERY_MS),
            false => self.question_sent_ms.is_some_and(repeats).then_some(self.notified_ms + REPEAT_EVERY_MS),
        }
    }

    pub(super) fn notify_if_due(&mut self, spec: &RunSpec, state: &RunState) {
        let now = clock::monotonic_ms();
        if self.next_update_ms().is_none_or(|due_ms| now < due_ms) {
            return;
        }
        self.pending = false;
        self.notified_ms = now;
        let needs_answer = self.open_question(spec, state).map(Box::new);
        if needs_answer.is_some() {
            self.question_sent_ms = Some(now);
        }
        let (status, (activity, activity_is_text)) = match (&state.phase, &needs_answer) {
            (Phase::Waiting(reason), _) => ("waiting", (reason.activity(), false)),
            (Phase::Stopping, _) => ("stopping", ("stopping".to_owned(), false)),
            (Phase::Accepted | Phase::Running | Phase::Ended(_), Some(question)) => {
                ("running", (question.activity(), false))
            }
            (Phase::Accepted | Phase::Running | Phase::Ended(_), None) => ("running", self.latest_activity()),
        };
        let progress = Progress {
            run_id: spec.id,
            agent: spec.agent.to_string(),
            status: status.to_owned(),
            elapsed_ms: now - self.started_ms,
            activity,
            activity_is_text,
            text_tail: String::from_utf8_lossy(&self.tail).into_owned(),
            needs_answer,
        };
        let message = RunMessage::Progress { progress };
        self.peers.retain_mut(|peer| peer.try_send(&message).is_ok());
    }

    /// Notifies all subscribers that the outcome is on disk, and sends the run's view to the door that started it.
    /// Does not wait for a peer that does not read.
    pub(super) async fn notify_ended(&mut self, view: Option<RunView>) {
        let plain = wire::encode_line(&RunMessage::Ended { view: None });
        let with_view = view.map(|view| wire::encode_line(&RunMessage::Ended { view: Some(Box::new(view)) }));
        // A longer line could fill the peer's buffer; the door then reads the run from the disk.
        let mut with_view = with_view.filter(|line| line.len() <= VIEW_BYTES_MAX);
        for peer in &mut self.peers {
            // The first peer is the run's channel, while its door is there.
            let line = with_view.take();
            let sent = peer.send_line(line.as_deref().unwrap_or(&plain));
            let _ = tokio::time::timeout(std::time::Duration::from_millis(100), sent).await;
        }
    }
}
