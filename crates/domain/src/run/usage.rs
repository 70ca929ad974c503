//! The usage of a run: tokens and money, with the source of the figure.

use serde::{Deserialize, Serialize};

/// The source of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostBasis {
    /// The agent reported it.
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
    /// Returns a cost that an agent reported in dollars, if it is valid.
    pub fn reported(dollars: f64) -> Option<Self> {
        let amount = (dollars * 1_000_000.0).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
        let microusd = (amount.is_finite() && (0.0..1e15).contains(&amount)).then_some(amount as u64);
        microusd.map(|microusd| Self { microusd, basis: CostBasis::Reported })
    }
}

/// Tokens and cost of a run. A missing cost means unknown, never zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All input of the model, cached or not.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// The part of the input that was read from a cache, as far as it is known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// The part of the input that was written to a cache, as far as it is known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Usage {
    /// The usage of a new session: no tokens, and a known cost of zero.
    pub const ZERO: Self = Self {
        input_tokens: 0,
        output_tokens: 0,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        cost: Some(Cost { microusd: 0, basis: CostBasis::Reported }),
    };

    /// Adds the usage of another call. The cost of the sum is known if it is known for each part that used tokens.
    pub fn add(&mut self, other: Usage) {
        self.cost = match (self.cost, other.cost) {
            (Some(one), Some(two)) => {
                let computed = [one.basis, two.basis].contains(&CostBasis::Computed);
                let basis = if computed { CostBasis::Computed } else { CostBasis::Reported };
                Some(Cost { microusd: one.microusd.saturating_add(two.microusd), basis })
            }
            (one, None) if other.has_no_tokens() => one,
            (None, two) if self.has_no_tokens() => two,
            (Some(_), None) | (None, Some(_) | None) => None,
        };
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }

    /// Returns the usage since an earlier sum; `None` if the earlier sum is larger. Costs are not split.
    pub fn since(self, before: Usage) -> Option<Usage> {
        Some(Usage {
            input_tokens: self.input_tokens.checked_sub(before.input_tokens)?,
            output_tokens: self.output_tokens.checked_sub(before.output_tokens)?,
            cache_read_tokens: self.cache_read_tokens.saturating_sub(before.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(before.cache_write_tokens),
            cost: None,
        })
    }

    /// Returns whether no token was used.
    pub fn has_no_tokens(&self) -> bool {
        self.input_tokens == 0 && self.output_tokens == 0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
