//! Tokens and money of one run, from what an agent tells with the end of its turn.

use agent_client_protocol_schema::v1::Usage as Tokens;
use domain::run::{Cost, Usage};
use serde_json::Value;

use super::agents::Counts;
use crate::contract::Report;
use crate::cumulative;

/// What was told so far.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Beside the pieces of the answer.
    pieces: Option<Usage>,
    /// In millionths of a dollar, over the whole session.
    cost: Option<Cost>,
}

/// What decides about the meaning of what is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meaning {
    pub(super) counts: Counts,
    /// The session is a new one.
    pub(super) new: bool,
    /// What the session had used before, where that is known.
    pub(super) before: Option<Usage>,
    /// Whether the model was asked more than once, as far as tools show it.
    pub(super) steps: bool,
}

impl Told {
    /// Takes the tokens of one request to the model, which some put beside a piece of the answer.
    pub(super) fn piece(&mut self, meta: &Value) {
        if let Some(tokens) = tokens(&meta["usage"]) {
            self.pieces.get_or_insert_default().add(tokens);
        }
    }

    /// Takes what the session costs so far.
    pub(super) fn cost(&mut self, amount: f64, currency: &str) {
        if currency == "USD" {
            self.cost = Cost::reported(amount).or(self.cost);
        }
    }

    /// Returns what this run used, by the answer to its prompt.
    pub(super) fn report(&self, name: &str, result: &Value, meaning: Meaning) -> Option<Report> {
        let quota = &result["_meta"]["quota"]["token_count"];
        let told = tokens(&result["usage"]).or_else(|| snake(quota)).or(self.pieces);
        let Some(usage) = told else {
            return self
                .cost
                .filter(|_| meaning.new)
                .map(|_| Report::Used(self.with_cost(Usage::default(), true)));
        };
        match meaning.counts {
            Counts::Nothing => None,
            Counts::LastStep if meaning.steps => Some(Report::Warned(format!(
                "{name} tells only the tokens of its last request; those of this run are not known"
            ))),
            Counts::Turn | Counts::LastStep => Some(Report::Used(self.with_cost(usage, meaning.new))),
            Counts::Session | Counts::Unknown if meaning.new => {
                Some(Report::Used(self.with_cost(usage, true)))
            }
            Counts::Session => Some(cumulative::own_part(name, usage, meaning.before)),
            Counts::Unknown => Some(Report::Warned(format!(
                "{name} does not say whether it counts tokens over the whole session; those of this run are not known"
            ))),
        }
    }

    /// A price is told for the whole session, so that only that of a new one is the run's.
    fn with_cost(&self, usage: Usage, new: bool) -> Usage {
        Usage { cost: self.cost.filter(|_| new), ..usage }
    }
}

/// Returns tokens; what came from a cache or went into one is input, wherever the agent counts it.
fn tokens(value: &Value) -> Option<Usage> {
    let tokens: Tokens = serde_json::from_value(value.clone()).ok()?;
    let cache_read_tokens = tokens.cached_read_tokens.unwrap_or(0);
    let cache_write_tokens = tokens.cached_write_tokens.unwrap_or(0);
    let cached = cache_read_tokens.saturating_add(cache_write_tokens);
    let apart = tokens.input_tokens.saturating_add(tokens.output_tokens).saturating_add(cached);
    let input_tokens = match tokens.total_tokens >= apart {
        true => tokens.input_tokens.saturating_add(cached),
        false => tokens.input_tokens,
    };
    let output_tokens = tokens.output_tokens;
    Some(Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost: None })
}

fn snake(value: &Value) -> Option<Usage> {
    Some(Usage {
        input_tokens: value["input_tokens"].as_u64()?,
        output_tokens: value["output_tokens"].as_u64()?,
        ..Usage::default()
    })
}
