//! The prompts of attempts after the first: the conversation so far in the format of sub-agents-mcp, and notes to an
//! agent that continues. The history is data: no line of it can pass for the frame around it.

use serde::{Deserialize, Serialize};

use super::AttemptState;
use crate::id::AgentName;
use crate::invisible_text::strip_invisible;
use crate::size::{head, tail};

/// The most bytes of a replayed prompt: it must fit into one argument of a program.
pub const REPLAY_BYTES_MAX: usize = 96 << 10;
/// The most bytes of one request or response.
const TEXT_BYTES_MAX: usize = 24 << 10;

const HISTORY: &str = include_str!("replay/history.md");
const EXCHANGE: &str = include_str!("replay/exchange.md");
const LEFT_OUT: &str = include_str!("replay/left_out.md");
const GO_ON: &str = include_str!("replay/go_on.md");
const OMITTED: &str = include_str!("replay/omitted.md");
const TOOL_USED: &str = include_str!("replay/tool_used.md");
const RESUME: &str = include_str!("replay/resume.md");
const AS_JSON: &str = include_str!("replay/as_json.md");
const CORRECT: &str = include_str!("replay/correct.md");

/// One request with its response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    pub request: String,
    pub response: String,
}

/// A prompt with the history before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    pub prompt: String,
    pub included: usize,
    pub left_out: usize,
}

/// Puts the history before a prompt: as many of the newest exchanges as fit.
pub fn prompt_with_history(agent: &AgentName, exchanges: &[Exchange], prompt: &str) -> Replayed {
    if exchanges.is_empty() {
        // An empty history would suggest to the agent that something is missing.
        return Replayed { prompt: prompt.to_owned(), included: 0, left_out: 0 };
    }
    let mut room = REPLAY_BYTES_MAX.saturating_sub(prompt.len() + HISTORY.len() + LEFT_OUT.len() + 128);
    let mut included = Vec::new();
    for (index, exchange) in exchanges.iter().enumerate().rev() {
        let text = render_exchange(index + 1, exchange);
        let Some(rest) = room.checked_sub(text.len() + 2) else { break };
        room = rest;
        included.push(text);
    }
    let left_out = exchanges.len() - included.len();
    if left_out > 0 {
        let (number, all) = (left_out.to_string(), exchanges.len().to_string());
        included.push(fill(LEFT_OUT, &[("{{NUMBER}}", &number), ("{{ALL}}", &all)]));
    }
    included.reverse();
    let values =
        [("{{AGENT}}", agent.as_str()), ("{{EXCHANGES}}", &included.join("\n\n")), ("{{PROMPT}}", prompt)];
    Replayed { prompt: fill(HISTORY, &values), included: exchanges.len() - left_out, left_out }
}

/// Returns the prompt to continue after an attempt that ended for lack of capacity.
pub fn continue_prompt(prompt: &str, reason: &str) -> String {
    fill(GO_ON, &[("{{REASON}}", head(reason, 500)), ("{{PROMPT}}", prompt)])
}

/// Returns the prompt to continue after the agent's process was lost.
pub fn resume_prompt(prompt: &str) -> String {
    fill(RESUME, &[("{{PROMPT}}", prompt)])
}

/// Returns a prompt that requests JSON without a schema.
pub fn json_prompt(prompt: &str) -> String {
    fill(AS_JSON, &[("{{PROMPT}}", prompt)])
}

/// Returns the prompt to correct an answer that does not match the requested format.
pub fn correction_prompt(errors: &[String]) -> String {
    let lines: Vec<String> = errors.iter().map(|error| format!("- {}", head(error, 500))).collect();
    fill(CORRECT, &[("{{ERRORS}}", &lines.join("\n"))])
}

/// Returns the output and tool calls of an attempt, as the response to its request.
pub fn attempt_summary(attempt: &AttemptState) -> String {
    let mut lines = vec![attempt.answer_text.trim().to_owned()];
    for tool in &attempt.tools {
        let end = match tool.ok {
            Some(true) => "done",
            Some(false) => "failed",
            None => "not known to have ended",
        };
        let values = [("{{TOOL}}", tool.name.as_str()), ("{{END}}", end), ("{{INPUT}}", tool.input.as_str())];
        lines.push(fill(TOOL_USED, &values));
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

fn render_exchange(number: usize, exchange: &Exchange) -> String {
    let number = number.to_string();
    let (request, response) = (quote_exchange(&exchange.request), quote_exchange(&exchange.response));
    fill(EXCHANGE, &[("{{NUMBER}}", &number), ("{{REQUEST}}", &request), ("{{RESPONSE}}", &response)])
}

/// Shortens a text and marks the lines that could pass for the frame.
fn quote_exchange(text: &str) -> String {
    let text = strip_invisible(text);
    let text = text.trim();
    let cut = match text.len() {
        0..=TEXT_BYTES_MAX => text.to_owned(),
        bytes => {
            let (begin, end) = (head(text, TEXT_BYTES_MAX / 2), tail(text, TEXT_BYTES_MAX / 2));
            let omitted = (bytes - begin.len() - end.len()).to_string();
            format!("{begin}\n{}\n{end}", fill(OMITTED, &[("{{BYTES}}", &omitted)]))
        }
    };
    let line = |line: &str| if is_frame_line(line) { format!("> {line}") } else { line.to_owned() };
    cut.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn is_frame_line(line: &str) -> bool {
    let line = line.trim();
    let heading =
        line.strip_prefix("## ").and_then(|rest| rest.split_once(". ")).is_some_and(|(number, what)| {
            number.bytes().all(|byte| byte.is_ascii_digit())
                && matches!(what, "User Request" | "Agent Response")
        });
    let frame = matches!(line, "---" | "Current request:" | "Previous conversation history:");
    heading || frame || line.starts_with("# Session History:")
}

/// Fills a template in one pass, so that a value that looks like a placeholder is not replaced.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::new();
    let mut rest = template.trim_end();
    while let Some(at) = rest.find("{{") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match values.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                out.push_str(value);
                rest = &rest[name.len()..];
            }
            None => {
                out.push_str("{{");
                rest = &rest[2..];
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
