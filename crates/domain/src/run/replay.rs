//! The words of an attempt that is not the first: what was said before, told in the form that sub-agents-mcp has, and the
//! notes to an agent that goes on. What is told is data: no line of it can be taken for the frame around it.

use serde::{Deserialize, Serialize};

use super::Attempted;
use crate::harmless::harmless;
use crate::id::AgentName;
use crate::size::{head, tail};

/// The most that a replayed prompt has in all: it must fit into one argument of a program.
pub const REPLAY_BYTES_MAX: usize = 96 << 10;
/// The most of one request or response.
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

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    pub request: String,
    pub response: String,
}

/// A prompt with what was said before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    pub prompt: String,
    pub told: usize,
    pub left_out: usize,
}

/// Puts what was said before a prompt, the newest as far as there is room.
pub fn replay(agent: &AgentName, exchanges: &[Exchange], prompt: &str) -> Replayed {
    if exchanges.is_empty() {
        // An empty history would only tell the agent that something is missing.
        return Replayed { prompt: prompt.to_owned(), told: 0, left_out: 0 };
    }
    let mut room = REPLAY_BYTES_MAX.saturating_sub(prompt.len() + HISTORY.len() + LEFT_OUT.len() + 128);
    let mut told = Vec::new();
    for (index, exchange) in exchanges.iter().enumerate().rev() {
        let text = render(index + 1, exchange);
        let Some(rest) = room.checked_sub(text.len() + 2) else { break };
        room = rest;
        told.push(text);
    }
    let left_out = exchanges.len() - told.len();
    if left_out > 0 {
        let (number, all) = (left_out.to_string(), exchanges.len().to_string());
        told.push(fill(LEFT_OUT, &[("{{NUMBER}}", &number), ("{{ALL}}", &all)]));
    }
    told.reverse();
    let values =
        [("{{AGENT}}", agent.as_str()), ("{{EXCHANGES}}", &told.join("\n\n")), ("{{PROMPT}}", prompt)];
    Replayed { prompt: fill(HISTORY, &values), told: exchanges.len() - left_out, left_out }
}

/// Returns what an agent is told that goes on after an attempt which found no room.
pub fn go_on(prompt: &str, reason: &str) -> String {
    fill(GO_ON, &[("{{REASON}}", head(reason, 500)), ("{{PROMPT}}", prompt)])
}

/// Returns what an agent is told whose process was lost.
pub fn resume(prompt: &str) -> String {
    fill(RESUME, &[("{{PROMPT}}", prompt)])
}

/// Returns a prompt that asks for a value of no certain shape.
pub fn as_json(prompt: &str) -> String {
    fill(AS_JSON, &[("{{PROMPT}}", prompt)])
}

/// Returns what an agent is told whose answer does not have the form that was asked for.
pub fn correct(errors: &[String]) -> String {
    let lines: Vec<String> = errors.iter().map(|error| format!("- {}", head(error, 500))).collect();
    fill(CORRECT, &[("{{ERRORS}}", &lines.join("\n"))])
}

/// Returns what an attempt said and did, as the response to its request.
pub fn account(attempt: &Attempted) -> String {
    let mut lines = vec![attempt.said.trim().to_owned()];
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

fn render(number: usize, exchange: &Exchange) -> String {
    let number = number.to_string();
    let (request, response) = (quoted(&exchange.request), quoted(&exchange.response));
    fill(EXCHANGE, &[("{{NUMBER}}", &number), ("{{REQUEST}}", &request), ("{{RESPONSE}}", &response)])
}

/// Cuts a text and marks the lines of it that could be taken for the frame.
fn quoted(text: &str) -> String {
    let text = harmless(text);
    let text = text.trim();
    let cut = match text.len() {
        0..=TEXT_BYTES_MAX => text.to_owned(),
        bytes => {
            let (begin, end) = (head(text, TEXT_BYTES_MAX / 2), tail(text, TEXT_BYTES_MAX / 2));
            let omitted = (bytes - begin.len() - end.len()).to_string();
            format!("{begin}\n{}\n{end}", fill(OMITTED, &[("{{BYTES}}", &omitted)]))
        }
    };
    let line = |line: &str| if is_frame(line) { format!("> {line}") } else { line.to_owned() };
    cut.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn is_frame(line: &str) -> bool {
    let line = line.trim();
    let heading =
        line.strip_prefix("## ").and_then(|rest| rest.split_once(". ")).is_some_and(|(number, what)| {
            number.bytes().all(|byte| byte.is_ascii_digit())
                && matches!(what, "User Request" | "Agent Response")
        });
    let frame = matches!(line, "---" | "Current request:" | "Previous conversation history:");
    heading || frame || line.starts_with("# Session History:")
}

/// Fills a template in one pass, so that a value that looks like a placeholder stays as it is.
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
