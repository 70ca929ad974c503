//! The loop of a directive: a model calls tools until it finishes. Decides which call comes next; performs none.

mod machine;

pub use machine::{
    AgentLoop, CallLimits, LoopEnd, LoopEvent, LoopPlan, LoopPrompts, NextStep, PlannedToolCall, ToolOutcome,
};

#[cfg(test)]
mod tests;
