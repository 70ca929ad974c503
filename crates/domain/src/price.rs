//! What a model's tokens cost, and what a run cost that did not say so.

use serde::{Deserialize, Serialize};

use crate::run::{Attempted, Cost, CostBasis, State, Usage};

/// The price of a million tokens, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    pub input: u64,
    pub output: u64,
    /// Of input that came from a cache; without it as any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Of input that was put into a cache; without it as any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
}

impl Price {
    /// Returns what these tokens cost, to the nearest millionth of a dollar.
    pub fn of(&self, usage: &Usage) -> Cost {
        // Nothing is counted twice: a cache's part of the input is no part of the rest.
        let read = usage.cache_read_tokens.min(usage.input_tokens);
        let written = usage.cache_write_tokens.min(usage.input_tokens - read);
        let parts = [
            (usage.input_tokens - read - written, self.input),
            (read, self.cache_read.unwrap_or(self.input)),
            (written, self.cache_write.unwrap_or(self.input)),
            (usage.output_tokens, self.output),
        ];
        let sum = parts.iter().fold(0u128, |sum, (tokens, price)| {
            sum.saturating_add(u128::from(*tokens).saturating_mul(u128::from(*price)))
        });
        let microusd = sum.saturating_add(500_000) / 1_000_000;
        Cost { microusd: u64::try_from(microusd).unwrap_or(u64::MAX), basis: CostBasis::Computed }
    }
}

/// Returns the cost of a run: as it was reported, else by the price of each model that was used. Unknown if one of them
/// has no price.
pub fn cost(state: &State, mut price: impl FnMut(&Attempted, Option<&str>) -> Option<Price>) -> Option<Cost> {
    if state.usage.cost.is_some() || state.usage.is_nothing() {
        return state.usage.cost;
    }
    let mut sum = Usage::default();
    for attempt in &state.attempts {
        for part in &attempt.parts {
            let computed = || Some(price(attempt, part.model.as_deref())?.of(&part.usage));
            sum.add(Usage { cost: part.usage.cost.or_else(computed), ..part.usage });
        }
    }
    // What belongs to no attempt has no model either.
    let whole =
        (sum.input_tokens, sum.output_tokens) == (state.usage.input_tokens, state.usage.output_tokens);
    sum.cost.filter(|_| whole)
}

#[cfg(test)]
mod tests;
