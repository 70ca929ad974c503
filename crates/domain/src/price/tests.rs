//! Costs by hand, and what holds for all of them.

use proptest::prelude::*;

use super::*;
use crate::run::{Asked, Conversation, Envelope, Event};

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
    assert_eq!(Some(SONNET.of(&usage)), computed(900 + 180 + 375 + 3_000));
    let plain = Price { cache_read: None, cache_write: None, ..SONNET };
    assert_eq!(Some(plain.of(&usage)), computed(3_000 + 3_000));
    assert_eq!(SONNET.of(&Usage::default()).microusd, 0);
    let cheap = Price { input: 75_000, output: 300_000, cache_read: None, cache_write: None };
    assert_eq!(cheap.of(&tokens(7, 0)).microusd, 1, "0.525 is nearer to 1");
}

/// Folds attempts, each a backend's choice and what happened in it.
fn state(attempts: Vec<Vec<Event>>) -> State {
    let began = |choice| Event::AttemptBegan {
        choice,
        backend: "b".to_owned(),
        model: None,
        conversation: Conversation::New,
        asked: Asked::Prompt,
        because: String::new(),
    };
    let numbered = (0u32..).zip(attempts);
    let events = numbered.flat_map(|(choice, events)| std::iter::once(began(choice)).chain(events));
    let at = "2026-11-15T00:00:00Z".parse().unwrap();
    let mut state = State::default();
    for (seq, event) in (0u64..).zip(events) {
        state.apply(&Envelope { seq, epoch: 1, at, event });
    }
    state
}

fn used(usage: Usage) -> Event {
    Event::Used { usage, model: None }
}

fn used_by(model: &str, usage: Usage) -> Event {
    Event::Used { usage, model: Some(model.to_owned()) }
}

fn named(model: &str) -> Event {
    Event::ModelNamed { model: model.to_owned() }
}

/// Only `s` has a price, and whatever is asked of the second choice.
fn price(attempt: &Attempted, model: Option<&str>) -> Option<Price> {
    let cheap = Price { input: 1_000_000, output: 1_000_000, cache_read: None, cache_write: None };
    match (model, attempt.choice) {
        (Some("s"), _) => Some(SONNET),
        (None, 1) => Some(cheap),
        (Some(_) | None, _) => None,
    }
}

#[test]
fn what_is_reported_counts_and_what_is_not_is_computed() {
    let check = |attempts, expected| assert_eq!(cost(&state(attempts), price), expected);
    let one = tokens(1_000, 100);
    check(vec![], None);
    check(vec![vec![named("s")]], None);
    check(vec![vec![named("s"), used(one)]], computed(4_500));
    check(vec![vec![named("s"), used(reported(7, one))]], reported(7, one).cost);
    check(vec![vec![named("s"), used(reported(7, one)), used(tokens(1_000, 0))]], computed(7_500));
    check(vec![vec![named("unheard-of"), used(one)]], None);
    check(vec![vec![used(one)]], None);
    check(vec![vec![used(one), named("s")]], computed(4_500));
    check(vec![vec![named("s"), used(one), used_by("unheard-of", one)]], None);
}

#[test]
fn each_attempt_has_its_own_price_and_a_sum_without_one_of_its_parts_is_none() {
    let one = tokens(1_000, 100);
    let check = |attempts, expected| assert_eq!(cost(&state(attempts), price), expected);
    check(vec![vec![named("s"), used(one)], vec![used(one)]], computed(4_500 + 1_100));
    check(vec![vec![named("t"), used(reported(9, one))], vec![used(one)]], computed(9 + 1_100));
    check(vec![vec![named("t"), used(reported(9, one))], vec![named("t"), used(one)]], None);
    // What used nothing costs nothing, whoever it was.
    check(vec![vec![named("t")], vec![used(one)]], computed(1_100));
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
        let apart = price.of(&usage).microusd.saturating_add(price.of(&more).microusd);
        let whole = price.of(&sum).microusd;
        prop_assert!(whole >= price.of(&usage).microusd);
        prop_assert!(whole.abs_diff(apart) <= 1, "{whole} {apart}");
    }

    #[test]
    fn no_amount_is_too_large(input in any::<u64>(), output in any::<u64>(), per in any::<u64>()) {
        let price = Price { input: per, output: per, cache_read: None, cache_write: None };
        price.of(&tokens(input, output));
    }
}

fn any_usage() -> impl Strategy<Value = Usage> {
    (0..1u64 << 30, 0..1u64 << 30, 0..1u64 << 30, 0..1u64 << 30).prop_map(|(fresh, read, written, output)| {
        let input = fresh + read + written;
        Usage { cache_read_tokens: read, cache_write_tokens: written, ..tokens(input, output) }
    })
}
