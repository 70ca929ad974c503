//! Renders answers in the format of PowerSpawn: JSON as text, and never a tool error.

use domain::Timestamp;
use domain::id::RunId;
use domain::run::CostBasis;
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use super::super::super::tools::fit;
use super::super::dual_content::{compact, dual_content};
use super::super::failure_reason::with_stderr;
use super::answer_excerpt::fit_answer;
use engine::clock;
use engine::{EngineError, ErrorKind, Excerpt, IacEntry};

/// How many ids of completed agents are listed.
const COMPLETED_IDS: usize = 3;
/// The length of a task in its result.
const TASK_BYTES: usize = 2_000;

/// Builds a result from a value and warnings.
pub(super) fn build_result(mut value: Value, warnings: Vec<String>) -> CallToolResult {
    if !warnings.is_empty() {
        let mut all = value["warnings"].take().as_array().cloned().unwrap_or_default();
        all.extend(warnings.into_iter().map(Value::from));
        value["warnings"] = all.into();
    }
    dual_content(&value, compact)
}

pub(super) fn error(error: &EngineError) -> Value {
    let kind = match error.kind {
        ErrorKind::Usage => "ValueError",
        ErrorKind::Denied => "PermissionError",
        ErrorKind::Limit => "LimitError",
        ErrorKind::NotFound => "FileNotFoundError",
        ErrorKind::Backend | ErrorKind::Internal => "RuntimeError",
    };
    json!({ "success": false, "error": error.to_string(), "error_type": kind })
}

pub(super) fn spawned(run: RunId, agent_type: &str, model: Option<&str>, warnings: Vec<String>) -> Value {
    let id = run.short();
    let mut value = json!({ "agent_id": id, "agent_type": agent_type });
    if let Some(model) = model {
        value["model"] = model.into();
    }
    value["status"] = "running".into();
    value["message"] = format!("Agent {id} runs. Use result with this id, or wait_for_agents.").into();
    if !warnings.is_empty() {
        value["warnings"] = warnings.into();
    }
    value
}

pub(super) fn list(entries: &[IacEntry]) -> Value {
    // The oldest first, as in PowerSpawn.
    let running: Vec<Value> = entries.iter().rev().filter(|entry| entry.is_running()).map(short).collect();
    let completed = entries.iter().filter(|entry| !entry.is_running()).take(COMPLETED_IDS);
    let mut completed: Vec<String> = completed.map(|entry| entry.spec.id.short()).collect();
    completed.reverse();
    let tip = "Use wait_for_agents to wait for all that run, or result with an id.";
    json!({ "running": running, "completed_ids": completed, "tip": tip })
}

/// Renders a running agent briefly.
fn short(entry: &IacEntry) -> Value {
    json!({ "id": entry.spec.id.short(), "sec": elapsed_s(entry.spec.created_at), "type": agent_type(entry) })
}

pub(super) fn not_found() -> Value {
    json!({ "status": "not_found", "message": "No agent found with this ID." })
}

pub(super) fn running(entry: &IacEntry) -> Value {
    json!({
        "status": "running",
        "agent_id": entry.spec.id.short(),
        "agent_type": agent_type(entry),
        "model": entry.spec.model,
        "elapsed_seconds": elapsed_s(entry.spec.created_at),
        "task": fit(entry.spec.public_task(), TASK_BYTES),
        "message": "It still runs. Use wait_for_agents, or ask again.",
    })
}

/// Renders an agent that has ended, with its answer in at most this many bytes, and notes about denials.
pub(super) fn completed(entry: &IacEntry, answer: &Excerpt, bytes_max: usize, notes: Vec<String>) -> Value {
    let usage = entry.ending.as_ref().map(|ending| ending.usage).unwrap_or_default();
    let mut value = json!({
        "agent_id": entry.spec.id.short(),
        "agent_type": agent_type(entry),
        "model": entry.spec.model,
        "success": entry.succeeded(),
        "result": fit_answer(&entry.spec.id.short(), answer, bytes_max),
        "cost_usd": entry.cost_usd(),
        "error": entry.error().map(|error| with_stderr(error, entry.stderr())),
    });
    if usage.cost.is_some_and(|cost| cost.basis == CostBasis::Computed) {
        value["cost_basis"] = "computed".into();
    }
    if usage.input_tokens + usage.output_tokens > 0 {
        value["usage"] = json!({ "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens });
    }
    value["started_at"] = entry.spec.created_at.to_string().into();
    value["task"] = fit(entry.spec.public_task(), TASK_BYTES.min(bytes_max)).into();
    value["completed_at"] = entry.ended_at.map(|at| at.to_string()).into();
    if !notes.is_empty() {
        value["notes"] = notes.into();
    }
    value
}

fn agent_type(entry: &IacEntry) -> &str {
    entry.spec.iac.as_ref().map(|iac| iac.agent_type.as_str()).unwrap_or_default()
}

fn elapsed_s(since: Timestamp) -> i64 {
    ((clock::now().as_millisecond() - since.as_millisecond()) / 1_000).max(0)
}
