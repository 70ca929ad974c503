//! The machine: answers and results in, calls and an end out.

use proptest::prelude::*;
use serde_json::json;

use super::super::{AgentLoop, CallLimits, LoopEnd, LoopEvent, LoopPlan, LoopPrompts, NextStep, ToolOutcome};
use crate::conversation::{
    AssistantTurn, Message, ModelAnswer, ModelRequest, StopReason, ToolArguments, ToolCall, ToolChoice,
    ToolSpec,
};
use crate::price::Price;
use crate::run::{LimitName, ModelError, Usage};

fn plan() -> LoopPlan {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
    };
    LoopPlan {
        model: "m".to_owned(),
        system: "s".to_owned(),
        prompt: "Execute the directive.".to_owned(),
        tools: vec![tool("finish"), tool("read")],
        finish_tool: "finish".to_owned(),
        limits: CallLimits {
            steps: 50,
            tool_calls: None,
            tokens: None,
            answer_tokens: 4096,
            cost_microusd: None,
        },
        price: None,
        prompts: LoopPrompts {
            reminder: "REMINDER".to_owned(),
            answer_cut: "CUT".to_owned(),
            last_answer: "LAST".to_owned(),
        },
        temperature: None,
    }
}

fn with_limits(change: impl FnOnce(&mut CallLimits)) -> LoopPlan {
    let mut plan = plan();
    change(&mut plan.limits);
    plan
}

fn used(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

fn answer(text: &str, calls: &[&str], stop: StopReason) -> ModelAnswer {
    let call = |(number, name): (usize, &&str)| ToolCall {
        id: format!("c{number}"),
        name: (*name).to_owned(),
        arguments: ToolArguments::Parsed(json!({})),
    };
    let turn = AssistantTurn {
        wire: "messages".to_owned(),
        model: "m".to_owned(),
        native: vec![json!({"type": "text", "text": text})],
        text: text.to_owned(),
        calls: calls.iter().enumerate().map(call).collect(),
    };
    ModelAnswer { turn, stop, usage: Some(used(100, 10)), answered_by: None }
}

fn returned(call: u32, text: &str) -> LoopEvent {
    LoopEvent::ToolEnded { call, outcome: ToolOutcome::Returned { text: text.to_owned(), is_error: false } }
}

/// Makes the next model call and returns its request.
fn call_model(machine: &mut AgentLoop) -> ModelRequest {
    loop {
        match machine.next() {
            NextStep::CallModel { request, .. } => {
                machine.apply(LoopEvent::ModelCalled);
                return *request;
            }
            NextStep::ReachLimit { limit, .. } => machine.apply(LoopEvent::LimitReached(limit)),
            other => panic!("no model call, but {other:?}"),
        }
    }
}

fn answer_with(machine: &mut AgentLoop, text: &str, calls: &[&str], stop: StopReason) {
    call_model(machine);
    machine.apply(LoopEvent::ModelAnswered(Box::new(answer(text, calls, stop))));
}

/// Starts the calls that are ready and returns their numbers.
fn start_tools(machine: &mut AgentLoop) -> Vec<u32> {
    let NextStep::CallTools(calls) = machine.next() else { return Vec::new() };
    let numbers: Vec<u32> = calls.iter().map(|planned| planned.call).collect();
    numbers.iter().for_each(|call| machine.apply(LoopEvent::ToolCalled { call: *call }));
    numbers
}

fn end(machine: &AgentLoop) -> LoopEnd {
    match machine.next() {
        NextStep::End(end) => end,
        other => panic!("no end, but {other:?}"),
    }
}

fn last_user_text(request: &ModelRequest) -> &str {
    match request.messages.last() {
        Some(Message::User { text }) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn results_go_back_in_the_order_of_the_calls_whatever_ends_first() {
    let mut machine = AgentLoop::new(plan());
    answer_with(&mut machine, "I read.", &["read", "read", "read"], StopReason::ToolUse);
    assert_eq!(start_tools(&mut machine), [1, 2, 3]);
    for call in [3, 1, 2] {
        assert_eq!(machine.next(), NextStep::Wait);
        machine.apply(returned(call, &format!("of {call}")));
    }
    let request = call_model(&mut machine);
    let Some(Message::ToolResults { results }) = request.messages.last() else { panic!("{request:?}") };
    let texts: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
    assert_eq!(texts, ["of 1", "of 2", "of 3"]);
    assert_eq!(request.messages.len(), 3, "the task, the answer, the results");
}

#[test]
fn finish_waits_for_the_other_calls_of_its_turn_and_ends_the_run() {
    let mut machine = AgentLoop::new(plan());
    answer_with(&mut machine, "", &["finish", "read"], StopReason::ToolUse);
    assert_eq!(start_tools(&mut machine), [2]);
    machine.apply(returned(2, "read"));
    assert_eq!(start_tools(&mut machine), [1]);
    let outcome = ToolOutcome::Finished { success: true, text: "42".to_owned() };
    machine.apply(LoopEvent::ToolEnded { call: 1, outcome });
    assert_eq!(end(&machine), LoopEnd::Finished { success: true, text: "42".to_owned() });
}

#[test]
fn words_never_decide_and_one_reminder_is_all() {
    for text in ["Done! Everything completed successfully.", "It could not be done.", ""] {
        let mut machine = AgentLoop::new(plan());
        answer_with(&mut machine, text, &[], StopReason::EndTurn);
        let request = call_model(&mut machine);
        assert_eq!(last_user_text(&request), "REMINDER");
        machine.apply(LoopEvent::ModelAnswered(Box::new(answer(text, &[], StopReason::EndTurn))));
        assert_eq!(end(&machine), LoopEnd::Unanswered { text: text.to_owned() });
    }
}

#[test]
fn an_empty_answer_is_not_sent_back() {
    let mut machine = AgentLoop::new(plan());
    call_model(&mut machine);
    let mut empty = answer("", &[], StopReason::EndTurn);
    empty.turn.native.clear();
    machine.apply(LoopEvent::ModelAnswered(Box::new(empty)));
    let request = call_model(&mut machine);
    assert!(request.messages.iter().all(|message| matches!(message, Message::User { .. })), "{request:?}");
}

#[test]
fn at_the_limit_of_steps_one_turn_without_tools_follows() {
    let mut machine = AgentLoop::new(with_limits(|limits| limits.steps = 50));
    for _ in 0..50 {
        answer_with(&mut machine, "more", &["read"], StopReason::ToolUse);
        start_tools(&mut machine).into_iter().for_each(|call| machine.apply(returned(call, "x")));
    }
    let NextStep::ReachLimit { limit, detail } = machine.next() else { panic!("{:?}", machine.next()) };
    assert_eq!((limit, detail.as_str()), (LimitName::Turns, "Max steps (50) reached"));
    let request = call_model(&mut machine);
    assert_eq!((request.tool_choice, last_user_text(&request)), (ToolChoice::Forbidden, "LAST"));
    machine.apply(LoopEvent::ModelAnswered(Box::new(answer("half of it", &["read"], StopReason::ToolUse))));
    let text = "half of it".to_owned();
    assert_eq!(end(&machine), LoopEnd::OverLimit { limit: LimitName::Turns, text });
}

#[test]
fn a_limit_that_is_reached_during_a_call_still_leaves_a_last_answer() {
    let mut machine = AgentLoop::new(plan());
    call_model(&mut machine);
    machine.apply(LoopEvent::LimitReached(LimitName::Time));
    machine.apply(LoopEvent::ModelAnswered(Box::new(answer("", &["read"], StopReason::ToolUse))));
    let request = call_model(&mut machine);
    assert_eq!((request.tool_choice, last_user_text(&request)), (ToolChoice::Forbidden, "LAST"));
    machine.apply(LoopEvent::ModelAnswered(Box::new(answer("so far", &[], StopReason::EndTurn))));
    let text = "so far".to_owned();
    assert_eq!(end(&machine), LoopEnd::OverLimit { limit: LimitName::Time, text });
}

#[test]
fn a_call_beyond_the_token_budget_is_never_made() {
    let mut machine = AgentLoop::new(with_limits(|limits| limits.tokens = Some(100_000)));
    call_model(&mut machine);
    let mut dear = answer("first", &["read"], StopReason::ToolUse);
    dear.usage = Some(used(55_000, 5_000));
    machine.apply(LoopEvent::ModelAnswered(Box::new(dear)));
    start_tools(&mut machine).into_iter().for_each(|call| machine.apply(returned(call, "x")));
    let NextStep::ReachLimit { limit, .. } = machine.next() else { panic!("{:?}", machine.next()) };
    machine.apply(LoopEvent::LimitReached(limit));
    let text = "first".to_owned();
    assert_eq!(
        end(&machine),
        LoopEnd::OverLimit { limit: LimitName::Tokens, text },
        "no room for a last call"
    );
}

#[test]
fn the_cost_limit_holds_back_a_last_turn() {
    let mut plan = with_limits(|limits| limits.cost_microusd = Some(20_000));
    // One thousandth of a dollar for each thousand tokens.
    plan.price = Some(Price { input: 1_000_000, output: 1_000_000, cache_read: None, cache_write: None });
    let mut machine = AgentLoop::new(plan);
    let mut spent = 0;
    loop {
        let request = call_model(&mut machine);
        let written = u64::from(request.max_output_tokens.unwrap()).min(500);
        spent += 1_000 + written;
        let mut next = answer("x", &["read"], StopReason::ToolUse);
        next.usage = Some(used(1_000, written));
        machine.apply(LoopEvent::ModelAnswered(Box::new(next)));
        if matches!(machine.next(), NextStep::End(_)) {
            break;
        }
        start_tools(&mut machine).into_iter().for_each(|call| machine.apply(returned(call, "x")));
    }
    assert!(matches!(end(&machine), LoopEnd::OverLimit { limit: LimitName::Cost, .. }));
    assert!((5_000..=20_000).contains(&spent), "{spent}");
}

#[test]
fn a_service_without_usage_does_not_make_the_budget_endless() {
    let mut machine =
        AgentLoop::new(with_limits(|limits| (limits.steps, limits.tokens) = (1_000, Some(30_000))));
    for _ in 0..100 {
        let NextStep::CallModel { .. } = machine.next() else { return };
        machine.apply(LoopEvent::ModelCalled);
        let mut silent = answer(&"word ".repeat(200), &["read"], StopReason::ToolUse);
        silent.usage = None;
        machine.apply(LoopEvent::ModelAnswered(Box::new(silent)));
        start_tools(&mut machine).into_iter().for_each(|call| machine.apply(returned(call, "x")));
    }
    panic!("100 calls fit into 30,000 tokens");
}

#[test]
fn an_answer_that_is_cut_makes_no_calls_and_may_be_repeated_once() {
    let mut machine = AgentLoop::new(plan());
    answer_with(&mut machine, "too long", &["read"], StopReason::MaxTokens);
    let request = call_model(&mut machine);
    let Some(Message::ToolResults { results }) = request.messages.last() else { panic!("{request:?}") };
    assert!(results[0].is_error && results[0].text == "CUT", "{results:?}");
    machine.apply(LoopEvent::ModelAnswered(Box::new(answer("again", &[], StopReason::MaxTokens))));
    let text = "again".to_owned();
    assert_eq!(end(&machine), LoopEnd::OverLimit { limit: LimitName::Tokens, text });
}

#[test]
fn calls_beyond_the_limit_of_tool_calls_get_an_error() {
    let mut machine = AgentLoop::new(with_limits(|limits| limits.tool_calls = Some(2)));
    answer_with(&mut machine, "", &["read", "read", "read"], StopReason::ToolUse);
    let started = start_tools(&mut machine);
    assert_eq!(started, [1, 2]);
    started.into_iter().for_each(|call| machine.apply(returned(call, "x")));
    let request = call_model(&mut machine);
    assert_eq!(request.tool_choice, ToolChoice::Forbidden);
    assert_eq!(machine.limit(), Some(LimitName::ToolCalls));
}

#[test]
fn a_refusal_and_a_full_context_fail_the_run() {
    for (stop, expected) in [
        (StopReason::Refusal("no".to_owned()), ModelError::Refusal),
        (StopReason::ContextWindow, ModelError::TooLong),
    ] {
        let mut machine = AgentLoop::new(plan());
        answer_with(&mut machine, "", &[], stop);
        assert!(matches!(end(&machine), LoopEnd::ModelFailed { error, .. } if error == expected));
    }
}

fn any_answer() -> impl Strategy<Value = ModelAnswer> {
    let stop = prop_oneof![
        4 => Just(StopReason::ToolUse),
        2 => Just(StopReason::EndTurn),
        1 => Just(StopReason::MaxTokens),
        1 => Just(StopReason::Other("pause".to_owned())),
    ];
    let names = proptest::collection::vec(prop_oneof![4 => Just("read"), 1 => Just("finish")], 0..40);
    let usage = proptest::option::of(
        (0_u64..u64::MAX, 0_u64..5_000).prop_map(|(input, output)| used(input % 3_000, output)),
    );
    (names, stop, usage, 0_usize..2_000).prop_map(|(names, stop, usage, bytes)| ModelAnswer {
        usage,
        ..answer(&"x".repeat(bytes), &names, stop)
    })
}

proptest! {
    /// Whatever a model answers: the loop ends, keeps its limits, and each call gets exactly one result, in order.
    #[test]
    fn every_conversation_ends_within_its_limits(
        answers in proptest::collection::vec(any_answer(), 1..80),
        steps in 1_u64..20,
        tool_calls in proptest::option::of(0_u64..60),
        tokens in proptest::option::of(500_u64..60_000),
        order in any::<u64>(),
    ) {
        let plan = with_limits(|limits| (limits.steps, limits.tool_calls, limits.tokens) = (steps, tool_calls, tokens));
        let mut machine = AgentLoop::new(plan);
        let (mut answers, mut model_calls, mut executed) = (answers.into_iter().cycle(), 0, 0_u64);
        let mut in_flight: Vec<u32> = Vec::new();
        for _ in 0..10_000 {
            match machine.next() {
                NextStep::End(_) => {
                    prop_assert!(model_calls <= steps + 1, "{} of {}", model_calls, steps);
                    prop_assert!(tool_calls.is_none_or(|max| executed <= max));
                    return Ok(());
                }
                NextStep::CallModel { request, .. } => {
                    check_pairs(&request)?;
                    machine.apply(LoopEvent::ModelCalled);
                    model_calls += 1;
                    let answer = answers.next().expect("it repeats");
                    machine.apply(LoopEvent::ModelAnswered(Box::new(answer)));
                }
                NextStep::CallTools(calls) => {
                    prop_assert!(in_flight.len() + calls.len() <= 8);
                    executed += calls.len() as u64;
                    in_flight.extend(calls.iter().map(|planned| planned.call));
                    calls.iter().for_each(|planned| machine.apply(LoopEvent::ToolCalled { call: planned.call }));
                }
                NextStep::ReachLimit { limit, .. } => machine.apply(LoopEvent::LimitReached(limit)),
                NextStep::Wait => {
                    let at = usize::try_from(order).unwrap_or(0) % in_flight.len();
                    machine.apply(returned(in_flight.swap_remove(at), "x"));
                }
            }
        }
        prop_assert!(false, "it does not end");
    }
}

/// Checks that each turn with calls is followed by exactly its results, in order.
fn check_pairs(request: &ModelRequest) -> Result<(), TestCaseError> {
    for (at, message) in request.messages.iter().enumerate() {
        let Message::Assistant(turn) = message else { continue };
        let ids: Vec<&String> = turn.calls.iter().map(|call| &call.id).collect();
        match request.messages.get(at + 1) {
            Some(Message::ToolResults { results }) => {
                let answered: Vec<&String> = results.iter().map(|result| &result.id).collect();
                prop_assert_eq!(answered, ids);
            }
            Some(Message::User { .. }) | None => prop_assert!(ids.is_empty()),
            Some(Message::Assistant(_)) => prop_assert!(false, "two answers in a row"),
        }
    }
    Ok(())
}
