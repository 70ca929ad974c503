//! The state machine of the loop. It is a fold over the ends of calls, so a worker that takes over a run computes the
//! same state from the recorded calls. No clock, no disk, no randomness.

use crate::conversation::{
    AssistantTurn, Message, ModelAnswer, ModelRequest, StopReason, ToolCall, ToolChoice, ToolResult, ToolSpec,
};
use crate::price::Price;
use crate::run::{LimitName, ModelError, Usage};

/// The most tools that one answer may call. Further calls get an error as their result.
const CALLS_PER_TURN_MAX: usize = 32;
/// How many tools run at the same time.
const PARALLEL_CALLS: usize = 8;
/// How many bytes of text count as one token, where a service has reported nothing yet. Dense text has three.
const BYTES_PER_TOKEN: u64 = 3;
/// The shortest last answer that is worth a call.
const LAST_ANSWER_TOKENS_MIN: u64 = 256;

/// The result of a call that a limit prevents.
const LIMIT_REACHED: &str = "not executed: a limit of the run is reached";

/// Everything that stays the same during a run.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopPlan {
    pub model: String,
    pub system: String,
    /// The first message of the user.
    pub prompt: String,
    pub tools: Vec<ToolSpec>,
    /// The name of the tool by which the model ends the run.
    pub finish_tool: String,
    pub limits: CallLimits,
    /// The price of the model; required if the cost is limited.
    pub price: Option<Price>,
    pub prompts: LoopPrompts,
    pub temperature: Option<f64>,
}

/// The limits on calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls of the model.
    pub steps: u64,
    pub tool_calls: Option<u64>,
    /// Input and output of all calls of the model.
    pub tokens: Option<u64>,
    /// The longest answer.
    pub answer_tokens: u64,
    pub cost_microusd: Option<u64>,
}

/// The texts that the loop itself sends to the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopPrompts {
    /// After an answer that neither calls a tool nor finishes.
    pub reminder: String,
    /// After an answer that was longer than its limit.
    pub answer_cut: String,
    /// Before the last answer, which is written without tools.
    pub last_answer: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum LoopEvent {
    ModelCalled,
    ModelAnswered(Box<ModelAnswer>),
    ModelFailed {
        error: ModelError,
        message: String,
    },
    ToolCalled {
        call: u32,
    },
    ToolEnded {
        call: u32,
        outcome: ToolOutcome,
    },
    /// A limit is reached, as the machine itself or the clock of the worker says.
    LimitReached(LimitName),
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    /// The text for the model.
    Returned { text: String, is_error: bool },
    /// The call finishes the run: with success or not, and the text of its result.
    Finished { success: bool, text: String },
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    CallModel {
        call: u32,
        request: Box<ModelRequest>,
    },
    /// Calls to start now, in this order.
    CallTools(Vec<PlannedToolCall>),
    /// A limit to record, and a sentence about it; then comes [`LoopEvent::LimitReached`].
    ReachLimit {
        limit: LimitName,
        detail: String,
    },
    /// Calls are in flight.
    Wait,
    End(LoopEnd),
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedToolCall {
    pub call: u32,
    /// The number of the model call that requested it.
    pub turn: u32,
    pub tool: ToolCall,
}

/// How the loop ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoopEnd {
    Finished {
        success: bool,
        text: String,
    },
    /// The model stopped without finishing, after one reminder.
    Unanswered {
        text: String,
    },
    /// A limit ended it. The text is what the model handed back.
    OverLimit {
        limit: LimitName,
        text: String,
    },
    ModelFailed {
        error: ModelError,
        message: String,
    },
}

/// The loop of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentLoop {
    plan: LoopPlan,
    messages: Vec<Message>,
    next_call: u32,
    steps: u64,
    tool_calls: u64,
    usage: Usage,
    /// Tokens of the conversation up to the last answer, as the service counted them.
    context_tokens: u64,
    /// Bytes that were added to the conversation since then.
    new_bytes: u64,
    was_reminded: bool,
    was_cut: bool,
    limit: Option<LimitName>,
    /// The call in flight is the last one, without tools.
    is_last_call: bool,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    /// The model is to be called.
    Model,
    AwaitingModel,
    Tools {
        turn: u32,
        slots: Vec<Slot>,
    },
    Ended(LoopEnd),
}

/// A tool call of the current turn.
#[derive(Debug, Clone, PartialEq)]
struct Slot {
    call: u32,
    tool: ToolCall,
    state: SlotState,
}

#[derive(Debug, Clone, PartialEq)]
enum SlotState {
    Pending,
    InFlight,
    Ended(ToolOutcome),
}

impl AgentLoop {
    pub fn new(plan: LoopPlan) -> Self {
        let schema_bytes: usize = plan.tools.iter().map(|tool| tool.input_schema.to_string().len()).sum();
        let new_bytes = (plan.system.len() + plan.prompt.len() + schema_bytes) as u64;
        Self {
            messages: vec![Message::User { text: plan.prompt.clone() }],
            plan,
            next_call: 0,
            steps: 0,
            tool_calls: 0,
            usage: Usage::default(),
            context_tokens: 0,
            new_bytes,
            was_reminded: false,
            was_cut: false,
            limit: None,
            is_last_call: false,
            stage: Stage::Model,
        }
    }

    /// How many times the model was called.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The limit that was reached.
    pub fn limit(&self) -> Option<LimitName> {
        self.limit
    }

    /// The last text of the model, for a run that is stopped.
    pub fn last_text(&self) -> &str {
        let texts = self.messages.iter().rev().filter_map(|message| match message {
            Message::Assistant(turn) if !turn.text.trim().is_empty() => Some(turn.text.as_str()),
            Message::Assistant(_) | Message::User { .. } | Message::ToolResults { .. } => None,
        });
        texts.into_iter().next().unwrap_or_default()
    }

    /// Decides what comes next.
    pub fn next(&self) -> NextStep {
        match &self.stage {
            Stage::Ended(end) => NextStep::End(end.clone()),
            Stage::AwaitingModel => NextStep::Wait,
            Stage::Tools { turn, slots } => next_tools(*turn, slots, &self.plan.finish_tool),
            Stage::Model => self.next_model_call(),
        }
    }

    fn next_model_call(&self) -> NextStep {
        let Some(limit) = self.limit else {
            return match self.exhausted_limit() {
                Some((limit, detail)) => NextStep::ReachLimit { limit, detail },
                None => self.call_model(ToolChoice::Allowed, self.answer_tokens()),
            };
        };
        match self.last_answer_tokens() {
            Some(tokens) => self.call_model(ToolChoice::Forbidden, tokens),
            None => NextStep::End(LoopEnd::OverLimit { limit, text: self.last_text().to_owned() }),
        }
    }

    fn call_model(&self, tool_choice: ToolChoice, answer_tokens: u64) -> NextStep {
        let mut messages = self.messages.clone();
        if tool_choice == ToolChoice::Forbidden {
            messages.push(Message::User { text: self.plan.prompts.last_answer.clone() });
        }
        let request = ModelRequest {
            model: self.plan.model.clone(),
            system: self.plan.system.clone(),
            messages,
            tools: self.plan.tools.clone(),
            tool_choice,
            max_output_tokens: Some(u32::try_from(answer_tokens).unwrap_or(u32::MAX)),
            temperature: self.plan.temperature,
            output_schema: None,
        };
        NextStep::CallModel { call: self.next_call, request: Box::new(request) }
    }

    /// Returns the limit that does not allow another ordinary step, and a sentence about it.
    fn exhausted_limit(&self) -> Option<(LimitName, String)> {
        let limits = &self.plan.limits;
        if self.steps >= limits.steps {
            return Some((LimitName::Turns, format!("Max steps ({}) reached", limits.steps)));
        }
        if let Some(max) = limits.tool_calls.filter(|max| self.tool_calls > *max) {
            return Some((LimitName::ToolCalls, format!("the limit of {max} tool calls is reached")));
        }
        // An ordinary step is allowed only if the budget also covers a last answer after it.
        let (input, output) = (self.next_input_tokens(), self.answer_tokens());
        let last = input.saturating_add(output).saturating_add(LAST_ANSWER_TOKENS_MIN);
        if let Some(max) = limits.tokens
            && self.used_tokens().saturating_add(input + output).saturating_add(last) > max
            && self.steps > 0
        {
            let used = self.used_tokens();
            return Some((
                LimitName::Tokens,
                format!("{used} of {max} tokens are used, too few are left for another step"),
            ));
        }
        if let Some(max) = limits.cost_microusd
            && self
                .used_cost()
                .saturating_add(self.cost(input, output))
                .saturating_add(self.cost(last, LAST_ANSWER_TOKENS_MIN))
                > max
        {
            return Some((
                LimitName::Cost,
                "too little of the cost limit is left for another step".to_owned(),
            ));
        }
        None
    }

    /// Returns the length of the last answer that the budget still allows; `None` if it allows none.
    fn last_answer_tokens(&self) -> Option<u64> {
        let limits = &self.plan.limits;
        let input = self.next_input_tokens();
        let mut tokens = limits.answer_tokens;
        if let Some(max) = limits.tokens {
            tokens = tokens.min(max.saturating_sub(self.used_tokens()).saturating_sub(input));
        }
        if let Some(max) = limits.cost_microusd {
            let left = max.saturating_sub(self.used_cost()).saturating_sub(self.cost(input, 0));
            let per_token = self.cost(0, 1_000_000).max(1);
            let affordable = u128::from(left) * 1_000_000 / u128::from(per_token);
            tokens = tokens.min(u64::try_from(affordable).unwrap_or(u64::MAX));
        }
        (tokens >= LAST_ANSWER_TOKENS_MIN.min(limits.answer_tokens)).then_some(tokens)
    }

    /// Returns the length of an ordinary answer: with a small budget, less than the limit, so that a last answer fits.
    fn answer_tokens(&self) -> u64 {
        let most = self.plan.limits.answer_tokens;
        let Some(max) = self.plan.limits.tokens else { return most };
        let left = max.saturating_sub(self.used_tokens()).saturating_sub(2 * self.next_input_tokens());
        most.min((left / 3).max(LAST_ANSWER_TOKENS_MIN)).max(1)
    }

    fn used_tokens(&self) -> u64 {
        self.usage.input_tokens.saturating_add(self.usage.output_tokens)
    }

    /// Returns the expected input of the next call: the conversation as the service last counted it, and what is new.
    fn next_input_tokens(&self) -> u64 {
        self.context_tokens.saturating_add(self.new_bytes.div_ceil(BYTES_PER_TOKEN))
    }

    fn used_cost(&self) -> u64 {
        self.usage
            .cost
            .or_else(|| Some(self.plan.price?.cost_of(&self.usage)))
            .map_or(0, |cost| cost.microusd)
    }

    /// Returns the price of a call without any cache, which is the dearest case.
    fn cost(&self, input_tokens: u64, output_tokens: u64) -> u64 {
        let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
        self.plan.price.map_or(0, |price| price.cost_of(&usage).microusd)
    }

    /// Applies an event. An event that does not belong to the current stage changes nothing.
    pub fn apply(&mut self, event: LoopEvent) {
        match (event, &mut self.stage) {
            (LoopEvent::ModelCalled, Stage::Model) => {
                self.next_call = self.next_call.saturating_add(1);
                self.steps += 1;
                self.is_last_call = self.limit.is_some();
                if self.is_last_call {
                    let text = self.plan.prompts.last_answer.clone();
                    self.add_message(Message::User { text });
                }
                self.stage = Stage::AwaitingModel;
            }
            (LoopEvent::ModelAnswered(answer), Stage::AwaitingModel) => self.handle_answer(*answer),
            (LoopEvent::ModelFailed { error, message }, Stage::AwaitingModel) => {
                let text = self.last_text().to_owned();
                self.stage = Stage::Ended(match self.limit {
                    // The run ends at its limit in any case; only the last words are missing.
                    Some(limit) => LoopEnd::OverLimit { limit, text },
                    None => LoopEnd::ModelFailed { error, message },
                });
            }
            (LoopEvent::ToolCalled { call }, Stage::Tools { slots, .. }) => {
                if let Some(slot) = slots.iter_mut().find(|slot| slot.call == call) {
                    slot.state = SlotState::InFlight;
                }
            }
            (LoopEvent::ToolEnded { call, outcome }, Stage::Tools { slots, .. }) => {
                if let Some(slot) = slots.iter_mut().find(|slot| slot.call == call) {
                    slot.state = SlotState::Ended(outcome);
                }
                self.close_turn();
            }
            (LoopEvent::LimitReached(limit), Stage::Model | Stage::AwaitingModel | Stage::Tools { .. }) => {
                self.limit.get_or_insert(limit);
                self.refuse_pending_calls();
            }
            (
                LoopEvent::ModelCalled
                | LoopEvent::ModelAnswered(_)
                | LoopEvent::ModelFailed { .. }
                | LoopEvent::ToolCalled { .. }
                | LoopEvent::ToolEnded { .. }
                | LoopEvent::LimitReached(_),
                _,
            ) => {}
        }
    }

    /// Ends the calls that have not been started: at a limit, nothing new begins.
    fn refuse_pending_calls(&mut self) {
        let Stage::Tools { slots, .. } = &mut self.stage else { return };
        for slot in slots.iter_mut().filter(|slot| slot.state == SlotState::Pending) {
            let text = LIMIT_REACHED.to_owned();
            slot.state = SlotState::Ended(ToolOutcome::Returned { text, is_error: true });
        }
        self.close_turn();
    }

    fn handle_answer(&mut self, answer: ModelAnswer) {
        let ModelAnswer { turn, stop, usage, answered_by: _ } = answer;
        let answer_bytes = turn_bytes(&turn);
        self.count_usage(usage, answer_bytes);
        let (text, calls) = (turn.text.clone(), turn.calls.clone());
        // A service refuses an empty message of the model when it gets it back.
        let is_empty = turn.native.is_empty() && text.is_empty() && calls.is_empty();
        if !is_empty {
            self.messages.push(Message::Assistant(turn));
        }
        if let Some(limit) = self.limit {
            if !self.is_last_call && !calls.is_empty() {
                // The limit was reached during this call, so the model has not been told to hand back what it has.
                self.start_turn(calls, Some(LIMIT_REACHED));
                return;
            }
            let text = if text.trim().is_empty() { self.last_text().to_owned() } else { text };
            self.stage = Stage::Ended(LoopEnd::OverLimit { limit, text });
            return;
        }
        match stop {
            StopReason::Refusal(message) => self.fail(ModelError::Refusal, message),
            StopReason::ContextWindow => {
                let message = "the conversation is longer than the model's context window".to_owned();
                self.fail(ModelError::TooLong, message);
            }
            StopReason::MaxTokens => self.handle_cut_answer(text, calls),
            StopReason::EndTurn | StopReason::ToolUse | StopReason::Other(_) if calls.is_empty() => {
                if std::mem::replace(&mut self.was_reminded, true) {
                    self.stage = Stage::Ended(LoopEnd::Unanswered { text });
                } else {
                    let text = self.plan.prompts.reminder.clone();
                    self.add_message(Message::User { text });
                    self.stage = Stage::Model;
                }
            }
            StopReason::EndTurn | StopReason::ToolUse | StopReason::Other(_) => self.start_turn(calls, None),
        }
    }

    /// An answer that was cut may have lost calls or parts of arguments, so none of its calls is made. The model may try
    /// once more.
    fn handle_cut_answer(&mut self, text: String, calls: Vec<ToolCall>) {
        if std::mem::replace(&mut self.was_cut, true) {
            self.stage = Stage::Ended(LoopEnd::OverLimit { limit: LimitName::Tokens, text });
            return;
        }
        let notice = self.plan.prompts.answer_cut.clone();
        if calls.is_empty() {
            self.add_message(Message::User { text: notice });
            self.stage = Stage::Model;
        } else {
            self.start_turn(calls, Some(&notice));
        }
    }

    /// Begins the calls of an answer; with `refusal`, each of them only gets this error as its result.
    fn start_turn(&mut self, calls: Vec<ToolCall>, refusal: Option<&str>) {
        let turn = self.next_call.saturating_sub(1);
        let allowed = self.plan.limits.tool_calls.map(|max| max.saturating_sub(self.tool_calls));
        let slot = |(position, (call, tool)): (usize, (u32, ToolCall))| {
            let too_many = format!("not executed: one answer may call {CALLS_PER_TURN_MAX} tools at most");
            let no_budget = "not executed: the limit of tool calls is reached".to_owned();
            let error = match refusal {
                Some(refusal) => Some(refusal.to_owned()),
                None if position >= CALLS_PER_TURN_MAX => Some(too_many),
                None if allowed.is_some_and(|allowed| position as u64 >= allowed) => Some(no_budget),
                None => None,
            };
            let ended = |text| SlotState::Ended(ToolOutcome::Returned { text, is_error: true });
            Slot { call, tool, state: error.map_or(SlotState::Pending, ended) }
        };
        let slots: Vec<Slot> = (self.next_call..).zip(calls).enumerate().map(slot).collect();
        let count = slots.len() as u64;
        self.next_call = self.next_call.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        self.tool_calls = self.tool_calls.saturating_add(count);
        self.stage = Stage::Tools { turn, slots };
        self.close_turn();
    }

    /// Returns the results to the model once all calls of the turn have ended.
    fn close_turn(&mut self) {
        let Stage::Tools { slots, .. } = &self.stage else { return };
        let mut results = Vec::new();
        let mut end = None;
        for slot in slots {
            let SlotState::Ended(outcome) = &slot.state else { return };
            match outcome {
                ToolOutcome::Returned { text, is_error } => results.push(ToolResult {
                    id: slot.tool.id.clone(),
                    name: slot.tool.name.clone(),
                    text: text.clone(),
                    is_error: *is_error,
                }),
                ToolOutcome::Finished { success, text } => {
                    end.get_or_insert(LoopEnd::Finished { success: *success, text: text.clone() });
                }
            }
        }
        if let Some(end) = end {
            self.stage = Stage::Ended(end);
            return;
        }
        self.add_message(Message::ToolResults { results });
        self.stage = Stage::Model;
    }

    fn add_message(&mut self, message: Message) {
        let bytes = match &message {
            Message::User { text } => text.len(),
            Message::ToolResults { results } => results.iter().map(|result| result.text.len() + 64).sum(),
            Message::Assistant(_) => 0,
        };
        self.new_bytes = self.new_bytes.saturating_add(bytes as u64);
        self.messages.push(message);
    }

    fn count_usage(&mut self, usage: Option<Usage>, answer_bytes: u64) {
        let estimate = || Usage {
            input_tokens: self.next_input_tokens(),
            output_tokens: answer_bytes.div_ceil(BYTES_PER_TOKEN),
            ..Usage::default()
        };
        // A service that reports nothing must not make the budget endless.
        let counted = usage.filter(|usage| !usage.has_no_tokens()).unwrap_or_else(estimate);
        self.context_tokens = counted.input_tokens.saturating_add(counted.output_tokens);
        self.new_bytes = 0;
        self.usage.add(counted);
    }

    fn fail(&mut self, error: ModelError, message: String) {
        self.stage = Stage::Ended(LoopEnd::ModelFailed { error, message });
    }
}

/// Returns the calls to start now. The tool that finishes the run comes after all others of its turn.
fn next_tools(turn: u32, slots: &[Slot], finish_tool: &str) -> NextStep {
    let in_flight = slots.iter().filter(|slot| slot.state == SlotState::InFlight).count();
    let pending = || slots.iter().filter(|slot| slot.state == SlotState::Pending);
    let others_open = in_flight > 0 || pending().any(|slot| slot.tool.name != finish_tool);
    let ready = pending().filter(|slot| slot.tool.name != finish_tool || !others_open);
    let calls: Vec<PlannedToolCall> = ready
        .take(PARALLEL_CALLS.saturating_sub(in_flight))
        .map(|slot| PlannedToolCall { call: slot.call, turn, tool: slot.tool.clone() })
        .collect();
    if calls.is_empty() { NextStep::Wait } else { NextStep::CallTools(calls) }
}

fn turn_bytes(turn: &AssistantTurn) -> u64 {
    turn.native.iter().map(|block| block.to_string().len() as u64).sum()
}
