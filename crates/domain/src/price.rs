//! The price of a model's tokens, and the computed cost of runs that report none.

use serde::{Deserialize, Serialize};

use crate::run::{AttemptState, Cost, CostBasis, RunState, Usage};

/// The price of a million tokens, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    pub input: u64,
    pub output: u64,
    /// For input from a cache; defaults to `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// For input that is written to a cache; defaults to `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
}

impl Price {
    /// Returns the cost of these tokens, to the nearest millionth of a dollar.
    pub fn cost_of(&self, usage: &Usage) -> Cost {
        // Cached input is part of the input: subtract it, so that nothing counts twice.
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
pub fn cost(
    state: &RunState,
    mut price: impl FnMut(&AttemptState, Option<&str>) -> Option<Price>,
) -> Option<Cost> {
    if state.usage.cost.is_some() || state.usage.has_no_tokens() {
        return state.usage.cost;
    }
    let mut sum = Usage::default();
    for attempt in &state.attempts {
        for model_usage in &attempt.usage_by_model {
            let computed = || Some(price(attempt, model_usage.model.as_deref())?.cost_of(&model_usage.usage));
            sum.add(Usage { cost: model_usage.usage.cost.or_else(computed), ..model_usage.usage });
        }
    }
    // Usage outside of any attempt has no model, so its cost is unknown.
    let whole =
        (sum.input_tokens, sum.output_tokens) == (state.usage.input_tokens, state.usage.output_tokens);
    sum.cost.filter(|_| whole)
}

#[cfg(test)]
mod tests;
