//! The loop of a directive: a model calls tools until it finishes. Decides which tools there are, what a call of one
//! means, and which call comes next. Performs none.

mod command_line;
mod effective_tools;
mod machine;
mod spec;
mod template;
mod tier;
mod tool_request;
mod tools;

pub use command_line::{CommandLineError, split_command_line};
pub use effective_tools::{EffectiveTools, MissingReason, MissingTool, UnusableRule, effective_tools};
pub use machine::{
    AgentLoop, CallLimits, LoopEnd, LoopEvent, LoopPlan, LoopPrompts, NextStep, PlannedToolCall, ToolOutcome,
};
pub use spec::{
    ANSWER_TOKENS_DEFAULT, DirectiveRefusal, LoopModel, LoopSpec, ResolvedDirective, STEPS_DEFAULT,
    TIMEOUT_MS_DEFAULT, TOKENS_DEFAULT, check_directive, first_message, loop_plan, requested_limits,
    resolve_directive,
};
pub use tier::{TIER_NAME_RULE, TIER_TARGETS_MAX, TierTarget, TierTargetError, is_tier_name};
pub use tool_request::{FinishStatus, SearchRequest, ToolRequest, ToolRequestError, parse_tool_request};
pub use tools::{LoopTool, outputs_schema, tool_specs};

#[cfg(test)]
mod tests;
