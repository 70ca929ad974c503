//! Parses the stream of Claude Code: the part of `stream_json` that is specific to it.

use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, Usage};
use serde_json::Value;

use super::errors::{model_error, retry_report};
use super::versions::{UNKNOWN_SESSION, UNKNOWN_TOOL};
use crate::contract::{AgentReport, Exit};
use crate::stream_buffer::{self, StreamBuffer};
use crate::stream_json::{StreamJson, StreamJsonDialect, string_or_empty};

/// The stream of one run.
pub(super) type ClaudeStream = StreamJson<ClaudeDialect>;

/// What differs from other programs that write this stream. In the terminal event, the usage by model and the cost are
/// totals of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClaudeDialect {
    /// Usage of the session before this run, if it is known.
    used_before: Option<Usage>,
    /// The service is another vendor's: Claude Code does not know its prices.
    has_other_service: bool,
}

impl ClaudeDialect {
    /// For a new session, or one whose totals start again at zero.
    pub(super) const fn for_new_session() -> Self {
        Self { used_before: Some(Usage::ZERO), has_other_service: false }
    }

    pub(super) const fn for_resumed_session(used_before: Option<Usage>) -> Self {
        Self { used_before, has_other_service: false }
    }

    pub(super) const fn with_other_service(self) -> Self {
        Self { has_other_service: true, ..self }
    }
}

impl StreamJsonDialect for ClaudeDialect {
    const DENIED_BY: &'static str = "by the settings of claude";
    const LIMITS: &'static [(&'static str, LimitName)] =
        &[("error_max_turns", LimitName::Turns), ("error_max_budget_usd", LimitName::Cost)];

    fn handle_init(&self, event: &Value) -> Vec<AgentReport> {
        let servers = event["mcp_servers"].as_array().into_iter().flatten();
        let states =
            servers.map(|server| (string_or_empty(&server["name"]), string_or_empty(&server["status"])));
        let missing = states.filter(|(_, status)| !matches!(status.as_str(), "connected" | "pending"));
        let warn =
            |(name, status)| AgentReport::Warned(format!("the MCP server {name} is not there: {status}"));
        missing.map(warn).collect()
    }

    /// Another vendor's service substitutes its own model for one that it does not have.
    fn is_model(&self, name: &str) -> bool {
        !(self.has_other_service && name.starts_with("claude"))
    }

    fn model_text<'a>(&self, message: &Value, text: &'a str) -> &'a str {
        // Claude Code reports an error as a message of the model; the result contains the same text.
        if message["model"] == "<synthetic>" { "" } else { text }
    }

    fn missing_tool<'a>(&self, error: &'a str) -> Option<&'a str> {
        let (_, after_marker) = error.split_once(UNKNOWN_TOOL)?;
        after_marker.split(|character: char| character.is_whitespace() || "<.".contains(character)).next()
    }

    /// Buffers parts of a message, which may never be completed, and reports why an answer is late.
    fn handle_other(&mut self, event: &Value, buffer: &mut StreamBuffer) -> Vec<AgentReport> {
        if event["subtype"] == "api_retry" && event["attempt"] == 1 {
            return vec![retry_report(event)];
        }
        if event["type"] == "stream_event" && event["parent_tool_use_id"].is_null() {
            let event = &event["event"];
            match event["type"].as_str() {
                Some("message_start") => buffer.discard_chunks(),
                Some("content_block_delta") => {
                    buffer.push_chunk(event["delta"]["text"].as_str().unwrap_or_default())
                }
                _ => {}
            }
        }
        Vec::new()
    }

    fn partial_usage(&self, usage: &Value) -> Option<Usage> {
        usage.is_object().then(|| tokens(usage))
    }

    fn result_usage(&mut self, event: &Value) -> Vec<AgentReport> {
        let mut usage = tokens(&event["usage"]);
        let models: Vec<&Value> =
            event["modelUsage"].as_object().into_iter().flat_map(|models| models.values()).collect();
        let all_models = total_of_models(&models);
        // Sub-agents, and a run that stopped at its budget, are only counted in the usage by model.
        let run_usage = self.used_before.and_then(|used_before| usage_since(all_models, used_before));
        if let Some(run_usage) = run_usage.filter(|run_usage| total_tokens(*run_usage) > total_tokens(usage))
        {
            usage = run_usage;
        }
        let has_prices =
            !self.has_other_service && models.iter().all(|model| model["costBasis"] != "unknown");
        let reported_cost = event["total_cost_usd"].as_f64().filter(|_| has_prices).and_then(Cost::reported);
        let cost_before = self.used_before.and_then(|used_before| used_before.cost);
        // A cost that Volery computed is not contained in the total of Claude Code.
        let cost_before = cost_before.filter(|cost| cost.basis == CostBasis::Reported);
        usage.cost = reported_cost.zip(cost_before).and_then(|(reported, before)| {
            Some(Cost { microusd: reported.microusd.checked_sub(before.microusd)?, ..reported })
        });
        // A run that waits for background agents has several results, each with the totals so far.
        if !models.is_empty() {
            self.used_before = Some(Usage { cost: reported_cost, ..all_models });
        }
        (usage != Usage::default()).then_some(AgentReport::Used(usage)).into_iter().collect()
    }

    fn structured_answer(&self, event: &Value) -> Option<Value> {
        event.get("structured_output").filter(|structured_answer| !structured_answer.is_null()).cloned()
    }

    fn result_failure(&self, event: &Value) -> Failure {
        let errors = event["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let result = event["result"].as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned);
        let message =
            stream_buffer::bounded_message(&result.unwrap_or_else(|| errors.collect::<Vec<_>>().join("; ")));
        match model_error(event) {
            _ if message.contains(UNKNOWN_SESSION) => Failure::Session { reason: message },
            Some(error) => Failure::Model { error, message },
            None => Failure::Agent { message },
        }
    }

    fn end_without_result(&self, stderr: &str, exit: Exit) -> AgentEnd {
        AgentEnd::Failed(match stderr.contains(UNKNOWN_SESSION) {
            true => Failure::Session { reason: stream_buffer::bounded_message(stderr) },
            false => stream_buffer::missing_end_failure(exit),
        })
    }
}

fn total_of_models(models: &[&Value]) -> Usage {
    let inputs = ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
    let sum_of =
        |keys: &[&str]| models.iter().map(|model| sum_counts(model, keys)).fold(0, u64::saturating_add);
    Usage {
        input_tokens: sum_of(&inputs),
        output_tokens: sum_of(&["outputTokens"]),
        cache_read_tokens: sum_of(&["cacheReadInputTokens"]),
        cache_write_tokens: sum_of(&["cacheCreationInputTokens"]),
        cost: None,
    }
}

/// Returns the tokens used since `earlier`, or `None` if the totals are inconsistent.
fn usage_since(total: Usage, earlier: Usage) -> Option<Usage> {
    Some(Usage {
        input_tokens: total.input_tokens.checked_sub(earlier.input_tokens)?,
        output_tokens: total.output_tokens.checked_sub(earlier.output_tokens)?,
        cache_read_tokens: total.cache_read_tokens.checked_sub(earlier.cache_read_tokens)?,
        cache_write_tokens: total.cache_write_tokens.checked_sub(earlier.cache_write_tokens)?,
        cost: None,
    })
}

fn total_tokens(usage: Usage) -> u64 {
    usage.input_tokens.saturating_add(usage.output_tokens)
}

fn sum_counts(counts: &Value, keys: &[&str]) -> u64 {
    keys.iter().filter_map(|key| counts[*key].as_u64()).fold(0, u64::saturating_add)
}

fn tokens(usage: &Value) -> Usage {
    let inputs = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    Usage {
        input_tokens: sum_counts(usage, &inputs),
        output_tokens: sum_counts(usage, &["output_tokens"]),
        cache_read_tokens: sum_counts(usage, &["cache_read_input_tokens"]),
        cache_write_tokens: sum_counts(usage, &["cache_creation_input_tokens"]),
        cost: None,
    }
}
