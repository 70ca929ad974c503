//! Costs computed by hand, and properties of all of them.

use proptest::prelude::*;

use super::*;
use crate::run::{ConversationKind, Envelope, Event, PromptKind};

const SONNET: Price =
    Price { input: 3_000_000, output: 15_000_000, cache_read: Some(300_000), cache_write: Some(3_750_000) };

fn tokens(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

fn reported(microusd: u64, usage: Usage) -> Usage {
    Usage { cost: Some(Cost { microusd, basis: CostBasis::Reported }), ..usage }
}

fn computed(microusd: u64) -> Option<Cost> {
    Some(Cost { microusd, basis: CostBasis::Computed })
}

#[test]
fn the_cost_is_that_of_each_kind_of_tokens() {
    let usage = Usage { cache_read_tokens: 600, cache_write_tokens: 100, ..tokens(1_000, 200) };
    // 300 * 3 + 600 * 0.3 + 100 * 3.75 + 200 * 15
    assert_eq!(Some(SONNET.cost_of(&usage)), computed(900 + 180 + 375 + 3_000));
    let plain = Price { cache_read: None, cache_write: None, ..SONNET };
    assert_eq!(Some(plain.cost_of(&usage)), computed(3_000 + 3_000));
    assert_eq!(SONNET.cost_of(&Usage::default()).microusd, 0);
    let cheap = Price { input: 75_000, output: 300_000, cache_read: None, cache_write: None };
    assert_eq!(cheap.cost_of(&tokens(7, 0)).microusd, 1, "0.525 is nearer to 1");
}

/// Folds attempts, each with its events; the index is the backend choice.
fn state(attempts: Vec<Vec<Event>>) -> RunState {
    let began = |choice| Event::AttemptStarted {
        choice,
        backend: "b".to_owned(),
        model: None,
        conversation: ConversationKind::New,
        prompt_kind: PromptKind::Prompt,
        reason: String::new(),
    };
    let numbered = (0u32..).zip(attempts);
    let events = numbered.flat_map(|(choice, events)| std::iter::once(began(choice)).chain(events));
    let at = "2026-11-15T00:00:00Z".parse().unwrap();
    let mut state = RunState::default();
    for (seq, event) in (0u64..).zip(events) {
        state.apply(&Envelope { seq, epoch: 1, at, event });
    }
    state
}

fn used(usage: Usage) -> Event {
    Event::UsageReported { usage, model: None }
}

fn used_by(model: &str, usage: Usage) -> Event {
    Event::UsageReported { usage, model: Some(model.to_owned()) }
}

fn model_named(model: &str) -> Event {
    Event::ModelReported { model: model.to_owned() }
}

/// Only `s` has a price, and any usage of the second choice without a model.
fn price(attempt: &AttemptState, model: Option<&str>) -> Option<Price> {
    let cheap = Price { input: 1_000_000, output: 1_000_000, cache_read: None, cache_write: None };
    match (model, attempt.choice) {
        (Some("s"), _) => Some(SONNET),
        (None, 1) => Some(cheap),
        (Some(_) | None, _) => None,
    }
}

#[test]
fn a_reported_cost_counts_and_a_missing_one_is_computed() {
    let check = |attempts, expected| assert_eq!(cost(&state(attempts), price), expected);
    let one = tokens(1_000, 100);
    check(vec![], None);
    check(vec![vec![model_named("s")]], None);
    check(vec![vec![model_named("s"), used(one)]], computed(4_500));
    check(vec![vec![model_named("s"), used(reported(7, one))]], reported(7, one).cost);
    check(vec![vec![model_named("s"), used(reported(7, one)), used(tokens(1_000, 0))]], computed(7_500));
    check(vec![vec![model_named("unheard-of"), used(one)]], None);
    check(vec![vec![used(one)]], None);
    check(vec![vec![used(one), model_named("s")]], computed(4_500));
    check(vec![vec![model_named("s"), used(one), used_by("unheard-of", one)]], None);
}

#[test]
fn each_attempt_has_its_own_price_and_a_sum_without_one_of_its_parts_is_none() {
    let one = tokens(1_000, 100);
    let check = |attempts, expected| assert_eq!(cost(&state(attempts), price), expected);
    check(vec![vec![model_named("s"), used(one)], vec![used(one)]], computed(4_500 + 1_100));
    check(vec![vec![model_named("t"), used(reported(9, one))], vec![used(one)]], computed(9 + 1_100));
    check(vec![vec![model_named("t"), used(reported(9, one))], vec![model_named("t"), used(one)]], None);
    // An attempt without tokens costs nothing, whichever model it used.
    check(vec![vec![model_named("t")], vec![used(one)]], computed(1_100));
}

proptest! {
    #[test]
    fn more_tokens_never_cost_less(
        usage in any_usage(),
        more in any_usage(),
        price in (any::<u32>(), any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>()),
    ) {
        let (input, output, cache_read, cache_write) = price;
        let price = Price {
            input: input.into(),
            output: output.into(),
            cache_read: cache_read.map(Into::into),
            cache_write: cache_write.map(Into::into),
        };
        let mut sum = usage;
        sum.add(more);
        let separate = price.cost_of(&usage).microusd.saturating_add(price.cost_of(&more).microusd);
        let whole = price.cost_of(&sum).microusd;
        prop_assert!(whole >= price.cost_of(&usage).microusd);
        prop_assert!(whole.abs_diff(separate) <= 1, "{whole} {separate}");
    }

    #[test]
    fn no_amount_is_too_large(input in any::<u64>(), output in any::<u64>(), per in any::<u64>()) {
        let price = Price { input: per, output: per, cache_read: None, cache_write: None };
        price.cost_of(&tokens(input, output));
    }
}

fn any_usage() -> impl Strategy<Value = Usage> {
    (0..1u64 << 30, 0..1u64 << 30, 0..1u64 << 30, 0..1u64 << 30).prop_map(|(fresh, read, written, output)| {
        let input = fresh + read + written;
        Usage { cache_read_tokens: read, cache_write_tokens: written, ..tokens(input, output) }
    })
}
