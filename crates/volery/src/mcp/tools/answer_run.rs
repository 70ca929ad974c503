//! `answer_run`: answers the question of a run.

use domain::run::AnswerOrigin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::tool_call::ToolCall;
use super::catalog::{Hints, NativeTool, ToolReply};
use engine::{AnswerRequest, EngineError};

pub(super) struct AnswerRun;

/// Answer the question of a run whose status is "waiting": approve or deny what it wants to do, or give it the text
/// it asks for. If the decision is not yours to make, ask your user first. The first answer counts; then call
/// wait_runs for the result.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The run_id, or the last digits of it that people are shown.
    run_id: String,
    /// Which question, as get_run shows it. Left out: the only open one.
    question_id: Option<String>,
    /// "approve" or "deny". May be left out when text answers a question that wants words; whether a run may do something
    /// is never decided by text alone.
    decision: Option<AnswerDecision>,
    /// The answer, or the reason of a denial.
    text: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AnswerDecision {
    Approve,
    Deny,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    run_id: String,
    question_id: String,
    /// What to do next.
    next: String,
}

impl NativeTool for AnswerRun {
    const NAME: &'static str = "answer_run";
    const TITLE: &'static str = "Answer a run";
    const HINTS: Hints = Hints { read_only: false, destructive: true, idempotent: false, open_world: true };
    const SEARCH_HINT: &'static str = "approve, deny or answer a question of a waiting sub-agent";

    type Input = Input;
    type Output = Output;

    async fn call(call: &ToolCall<'_>, input: Input) -> Result<ToolReply<Output>, EngineError> {
        let allow = match (input.decision, &input.text) {
            (Some(AnswerDecision::Approve), _) => Some(true),
            (Some(AnswerDecision::Deny), _) => Some(false),
            (None, Some(_)) => None,
            (None, None) => {
                return Err(EngineError::usage("give decision (\"approve\" or \"deny\"), text, or both"));
            }
        };
        let by = call.client.caller_name();
        let request = AnswerRequest {
            run: input.run_id,
            question: input.question_id,
            allow,
            text: input.text,
            by,
            origin: AnswerOrigin::McpClient,
            granted_rules: Vec::new(),
        };
        let answered = call.handler.engine.ask(request).await?;
        let run_id = answered.run_id.to_string();
        let next = format!("Answered. Call wait_runs with run_ids [{run_id:?}] for the result.");
        Ok(ToolReply::Done(Output { run_id, question_id: answered.question, next }))
    }
}
