//! How Claude Code speaks its stream: what its figures are about, and what was wrong with the model.

use domain::run::{AgentEnd, Cost, CostBasis, Failure, LimitName, ModelError, Usage};
use serde_json::Value;

use crate::contract::{Exit, Report};
use crate::kept::{self, Kept};
use crate::stream_json::{Dialect, StreamJson, text_of};

/// How the use of a tool is answered that the agent does not have; its name follows.
const UNKNOWN_TOOL: &str = "No such tool available: ";
/// How the program says that it does not know a session.
const UNKNOWN_SESSION: &str = "No conversation found";

/// The stream of one run.
pub(super) type Stream = StreamJson<Told>;

/// What the figures in the terminal event are about. Those of all models, and the price, add up over a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// What the session had used before, if that is known.
    before: Option<Usage>,
    /// The service is another vendor's, whose prices the program does not know.
    is_other_service: bool,
}

impl Told {
    /// A session begins, or its figures begin anew.
    pub(super) const fn anew() -> Self {
        Self { before: Some(Usage::NOTHING), is_other_service: false }
    }

    /// A session goes on.
    pub(super) const fn after(before: Option<Usage>) -> Self {
        Self { before, is_other_service: false }
    }

    pub(super) const fn at_another_service(self) -> Self {
        Self { is_other_service: true, ..self }
    }
}

impl Dialect for Told {
    const DENIED_BY: &'static str = "by the settings of claude";
    const LIMITS: &'static [(&'static str, LimitName)] =
        &[("error_max_turns", LimitName::Turns), ("error_max_budget_usd", LimitName::Cost)];
    const LISTS_DECIDED: bool = true;

    fn begun(&self, event: &Value) -> Vec<Report> {
        let servers = event["mcp_servers"].as_array().into_iter().flatten();
        let states = servers.map(|server| (text_of(&server["name"]), text_of(&server["status"])));
        let missing = states.filter(|(_, status)| !matches!(status.as_str(), "connected" | "pending"));
        let warn = |(name, status)| Report::Warned(format!("the MCP server {name} is not there: {status}"));
        missing.map(warn).collect()
    }

    /// Another vendor's service puts a model of its own in the place of one that it does not have.
    fn is_model(&self, name: &str) -> bool {
        !(self.is_other_service && name.starts_with("claude"))
    }

    fn of_model<'a>(&self, message: &Value, text: &'a str) -> &'a str {
        // The program's own words about an error, which the result tells too.
        if message["model"] == "<synthetic>" { "" } else { text }
    }

    fn missing_tool<'a>(&self, error: &'a str) -> Option<&'a str> {
        let (_, rest) = error.split_once(UNKNOWN_TOOL)?;
        rest.split(|letter: char| letter.is_whitespace() || "<.".contains(letter)).next()
    }

    /// Keeps what is said of a message that may never come whole, and tells why an answer is late.
    fn other(&mut self, event: &Value, kept: &mut Kept) -> Vec<Report> {
        if event["subtype"] == "api_retry" && event["attempt"] == 1 {
            return vec![retries(event)];
        }
        if event["type"] == "stream_event" && event["parent_tool_use_id"].is_null() {
            let event = &event["event"];
            match event["type"].as_str() {
                Some("message_start") => kept.begin(),
                Some("content_block_delta") => {
                    kept.piece(event["delta"]["text"].as_str().unwrap_or_default())
                }
                _ => {}
            }
        }
        Vec::new()
    }

    fn tokens(&self, usage: &Value) -> Option<Usage> {
        usage.is_object().then(|| tokens(usage))
    }

    fn used(&mut self, event: &Value) -> Vec<Report> {
        let mut usage = tokens(&event["usage"]);
        let models: Vec<&Value> =
            event["modelUsage"].as_object().into_iter().flat_map(|all| all.values()).collect();
        let all = of_models(&models);
        // Agents that it hands work to are counted by model only, and so is a run that stopped at its budget.
        let own = self.before.and_then(|before| rest(all, before));
        if let Some(own) = own.filter(|own| sum(*own) > sum(usage)) {
            usage = own;
        }
        let priced = !self.is_other_service && models.iter().all(|model| model["costBasis"] != "unknown");
        let told = event["total_cost_usd"].as_f64().filter(|_| priced).and_then(Cost::reported);
        let before = self.before.and_then(|before| before.cost);
        // What was computed is no part of what it has added up.
        let before = before.filter(|cost| cost.basis == CostBasis::Reported);
        usage.cost = told.zip(before).and_then(|(told, before)| {
            Some(Cost { microusd: told.microusd.checked_sub(before.microusd)?, ..told })
        });
        // A run that waits for agents in the background has several results, and each adds up all so far.
        if !models.is_empty() {
            self.before = Some(Usage { cost: told, ..all });
        }
        (usage != Usage::default()).then_some(Report::Used(usage)).into_iter().collect()
    }

    fn value(&self, event: &Value) -> Option<Value> {
        event.get("structured_output").filter(|value| !value.is_null()).cloned()
    }

    fn failure(&self, event: &Value) -> Failure {
        let errors = event["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let result = event["result"].as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned);
        let message = kept::message(&result.unwrap_or_else(|| errors.collect::<Vec<_>>().join("; ")));
        match model_error(event) {
            _ if message.contains(UNKNOWN_SESSION) => Failure::Session { reason: message },
            Some(error) => Failure::Model { error, message },
            None => Failure::Agent { message },
        }
    }

    fn without_result(&self, stderr: &str, exit: Exit) -> AgentEnd {
        AgentEnd::Failed(match stderr.contains(UNKNOWN_SESSION) {
            true => Failure::Session { reason: kept::message(stderr) },
            false => kept::without_end(exit),
        })
    }
}

/// Returns the tokens of all models.
fn of_models(models: &[&Value]) -> Usage {
    let inputs = ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
    let sum = |keys: &[&str]| models.iter().map(|model| count(model, keys)).fold(0, u64::saturating_add);
    Usage {
        input_tokens: sum(&inputs),
        output_tokens: sum(&["outputTokens"]),
        cache_read_tokens: sum(&["cacheReadInputTokens"]),
        cache_write_tokens: sum(&["cacheCreationInputTokens"]),
        cost: None,
    }
}

/// Returns the tokens that were not used before; nothing where the figures do not fit each other.
fn rest(all: Usage, before: Usage) -> Option<Usage> {
    Some(Usage {
        input_tokens: all.input_tokens.checked_sub(before.input_tokens)?,
        output_tokens: all.output_tokens.checked_sub(before.output_tokens)?,
        cache_read_tokens: all.cache_read_tokens.checked_sub(before.cache_read_tokens)?,
        cache_write_tokens: all.cache_write_tokens.checked_sub(before.cache_write_tokens)?,
        cost: None,
    })
}

fn sum(usage: Usage) -> u64 {
    usage.input_tokens.saturating_add(usage.output_tokens)
}

fn count(of: &Value, keys: &[&str]) -> u64 {
    keys.iter().filter_map(|key| of[*key].as_u64()).fold(0, u64::saturating_add)
}

fn tokens(told: &Value) -> Usage {
    let inputs = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    Usage {
        input_tokens: count(told, &inputs),
        output_tokens: count(told, &["output_tokens"]),
        cache_read_tokens: count(told, &["cache_read_input_tokens"]),
        cache_write_tokens: count(told, &["cache_creation_input_tokens"]),
        cost: None,
    }
}

/// Returns what was wrong with the model, if the terminal event says that it was the model.
fn model_error(event: &Value) -> Option<ModelError> {
    if event["terminal_reason"] == "prompt_too_long" {
        return Some(ModelError::TooLong);
    }
    if event["stop_reason"] == "refusal" {
        return Some(ModelError::Refusal);
    }
    if let Some(status) = event["api_error_status"].as_u64() {
        return Some(ModelError::of_status(status));
    }
    match event["api_error"].as_str() {
        Some("connection_failed") => Some(ModelError::Unreachable),
        Some(_) => Some(ModelError::Other),
        None if event["terminal_reason"] == "api_error" => Some(ModelError::Other),
        None => of_words(event["result"].as_str().unwrap_or_default()),
    }
}

/// Older versions tell the status only in words.
fn of_words(text: &str) -> Option<ModelError> {
    let status = text.split("API Error: ").nth(1)?.split(|digit: char| !digit.is_ascii_digit()).next()?;
    Some(status.parse().map_or(ModelError::Other, ModelError::of_status))
}

/// Tells why the program asks its model again. Without a status there was no answer over HTTP at all.
fn retries(event: &Value) -> Report {
    let named = text_of(&event["error"]);
    let (error, why) = match event["error_status"].as_u64() {
        Some(status) => (ModelError::of_status(status), format!("{status} {named}")),
        None => (ModelError::Unreachable, format!("no answer from its service ({named})")),
    };
    Report::Retries { error, message: kept::message(&format!("claude asks its model again: {why}")) }
}
