//! What a run used: tokens and money, with where the figure comes from.

use serde::{Deserialize, Serialize};

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostBasis {
    /// The agent said so.
    Reported,
    /// Tokens times a price list.
    Computed,
}

/// An amount of money in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    pub microusd: u64,
    pub basis: CostBasis,
}

/// Tokens and money of a run. No cost means unknown, never zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Usage {
    /// Adds what a further call used.
    pub fn add(&mut self, other: Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost = match (self.cost, other.cost) {
            (Some(one), Some(two)) => {
                let computed = [one.basis, two.basis].contains(&CostBasis::Computed);
                let basis = if computed { CostBasis::Computed } else { CostBasis::Reported };
                Some(Cost { microusd: one.microusd.saturating_add(two.microusd), basis })
            }
            (one, other) => one.or(other),
        };
    }
}
