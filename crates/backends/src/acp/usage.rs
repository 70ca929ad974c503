//! Tokens and money of one run, from what an agent reports at the end of its turn.

use agent_client_protocol_schema::v1::Usage as Tokens;
use domain::run::{Cost, Usage};
use serde_json::Value;

use super::profile::TokenCounting;
use crate::contract::AgentReport;
use crate::session_usage;

/// The usage reported so far.
#[derive(Debug, Default)]
pub(super) struct ReportedUsage {
    /// Attached to the chunks of the answer.
    chunks: Option<Usage>,
    /// In millionths of a dollar, over the whole session.
    cost: Option<Cost>,
}

/// What determines the meaning of the reported figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsageMeaning {
    pub(super) token_counting: TokenCounting,
    /// The session is a new one.
    pub(super) new: bool,
    /// What the session had used before, if that is known.
    pub(super) before: Option<Usage>,
    /// Whether the model was called more than once, as far as tools show it.
    pub(super) steps: bool,
}

impl ReportedUsage {
    /// Adds the tokens of one request to the model, which some attach to a chunk of the answer.
    pub(super) fn add_chunk(&mut self, meta: &Value) {
        if let Some(tokens) = tokens(&meta["usage"]) {
            self.chunks.get_or_insert_default().add(tokens);
        }
    }

    /// Records what the session costs so far.
    pub(super) fn cost(&mut self, amount: f64, currency: &str) {
        if currency == "USD" {
            self.cost = Cost::reported(amount).or(self.cost);
        }
    }

    /// Returns what this run used, from the response to its prompt.
    pub(super) fn report(&self, name: &str, result: &Value, meaning: UsageMeaning) -> Option<AgentReport> {
        let quota = &result["_meta"]["quota"]["token_count"];
        let reported = tokens(&result["usage"]).or_else(|| parse_quota(quota)).or(self.chunks);
        let Some(usage) = reported else {
            return self
                .cost
                .filter(|_| meaning.new)
                .map(|_| AgentReport::Used(self.with_cost(Usage::default(), true)));
        };
        match meaning.token_counting {
            TokenCounting::Nothing => None,
            TokenCounting::LastStep if meaning.steps => Some(AgentReport::Warned(format!(
                "{name} tells only the tokens of its last request; those of this run are not known"
            ))),
            TokenCounting::Turn | TokenCounting::LastStep => {
                Some(AgentReport::Used(self.with_cost(usage, meaning.new)))
            }
            TokenCounting::Session | TokenCounting::Unknown if meaning.new => {
                Some(AgentReport::Used(self.with_cost(usage, true)))
            }
            TokenCounting::Session => Some(session_usage::report_run_usage(name, usage, meaning.before)),
            TokenCounting::Unknown => Some(AgentReport::Warned(format!(
                "{name} does not say whether it counts tokens over the whole session; those of this run are not known"
            ))),
        }
    }

    /// The reported cost covers the whole session, so only that of a new one is the run's.
    fn with_cost(&self, usage: Usage, new: bool) -> Usage {
        Usage { cost: self.cost.filter(|_| new), ..usage }
    }
}

/// Parses tokens; cached tokens count as input, wherever the agent counts them.
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

fn parse_quota(value: &Value) -> Option<Usage> {
    Some(Usage {
        input_tokens: value["input_tokens"].as_u64()?,
        output_tokens: value["output_tokens"].as_u64()?,
        ..Usage::default()
    })
}
