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

impl CostBasis {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Computed => "computed",
        }
    }
}

/// An amount of money in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    pub microusd: u64,
    pub basis: CostBasis,
}

impl Cost {
    /// Returns an amount that an agent told in dollars, unless it is none.
    pub fn reported(dollars: f64) -> Option<Self> {
        let amount = (dollars * 1_000_000.0).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
        let microusd = (amount.is_finite() && (0.0..1e15).contains(&amount)).then_some(amount as u64);
        microusd.map(|microusd| Self { microusd, basis: CostBasis::Reported })
    }
}

/// Tokens and money of a run. No cost means unknown, never zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All that the model was given, wherever it came from.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The part of the input that came from a cache, as far as it is known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// The part of the input that was put into a cache, as far as it is known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Usage {
    /// What a session has used that begins: it costs nothing yet, and somebody says so.
    pub const NOTHING: Self = Self {
        input_tokens: 0,
        output_tokens: 0,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        cost: Some(Cost { microusd: 0, basis: CostBasis::Reported }),
    };

    /// Adds what a further call used. The cost of the sum is known if that of each part is which used something.
    pub fn add(&mut self, other: Usage) {
        self.cost = match (self.cost, other.cost) {
            (Some(one), Some(two)) => {
                let computed = [one.basis, two.basis].contains(&CostBasis::Computed);
                let basis = if computed { CostBasis::Computed } else { CostBasis::Reported };
                Some(Cost { microusd: one.microusd.saturating_add(two.microusd), basis })
            }
            (one, None) if other.is_nothing() => one,
            (None, two) if self.is_nothing() => two,
            (Some(_), None) | (None, Some(_) | None) => None,
        };
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }

    /// Returns what was used beyond an earlier sum; nothing if it is no part of this one. Money is not told apart.
    pub fn beyond(self, before: Usage) -> Option<Usage> {
        Some(Usage {
            input_tokens: self.input_tokens.checked_sub(before.input_tokens)?,
            output_tokens: self.output_tokens.checked_sub(before.output_tokens)?,
            cache_read_tokens: self.cache_read_tokens.saturating_sub(before.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(before.cache_write_tokens),
            cost: None,
        })
    }

    /// Tells whether no token was used.
    pub fn is_nothing(&self) -> bool {
        self.input_tokens == 0 && self.output_tokens == 0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
