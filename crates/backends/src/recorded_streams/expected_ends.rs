//! The expected end of each recorded run, whole and with its exit code. Most programs were recorded in the same
//! situations, so only the differences of one are listed with its name.

use domain::run::{AgentEnd, Failure};

use super::RecordedProgram;

/// How these situations end, as a keyword or as a part of the message.
const ENDS: &[(&str, &str)] = &[
    ("say", "done"),
    ("thinking", "done"),
    ("partial", "done"),
    ("schema", "done"),
    ("tool", "done"),
    ("tool-fails", "done"),
    ("resume", "done"),
    ("denied", "done"),
    ("error-400", "BadRequest"),
    ("error-401", "Denied"),
    ("error-429", "RateLimit"),
    ("error-500", "Overloaded"),
    ("cut", "Unreachable"),
    ("max-turns", "Turns"),
    ("unknown-session", "session"),
    ("unknown-flag", "Exit"),
    ("terminated", "Exit"),
    ("without-end", "Output"),
];

/// Different ends of one program, and situations that were recorded only of it.
const SPECIAL: &[(&str, &[(&str, &str)])] = &[
    ("acp-codex", &[("denied", "gave up")]),
    ("acp-copilot", &[("denied", "gave up")]),
    (
        "claude",
        &[
            ("budget", "Cost"),
            ("partial-cut", "Unreachable"),
            ("partial-terminated", "Exit"),
            ("schema-ignored", "done"),
        ],
    ),
    ("codex", &[("interrupted", "the turn was interrupted"), ("mcp", "done"), ("patch", "done")]),
    ("copilot", &[("terminated", "it was stopped")]),
    ("cursor", &[("error-500", "Other")]),
    ("gemini", &[("cut", "Other"), ("terminated", "Output")]),
    ("goose", &[("denied", "Exit"), ("denied-chat", "done"), ("terminated", "Signal")]),
    ("kimi", &[("unknown-flag", "unknown option")]),
    // It reports no status, and a refusal by the service only in words.
    ("kiro", &[("cut", "Agent"), ("error-400", "Agent"), ("error-429", "Agent"), ("error-500", "Agent")]),
    // Only its model learns about a limit of turns.
    (
        "opencode",
        &[("cut", "Other"), ("denied-ask", "Agent"), ("max-turns", "done"), ("terminated", "Signal")],
    ),
    // It keeps retrying, so two of them were ended by an option of its own.
    (
        "qwen",
        &[
            ("cut", "Other"),
            ("error-429", "wall-clock budget"),
            ("error-500", "wall-clock budget"),
            ("max-tool-calls", "tool-call budget"),
        ],
    ),
    // Text from before the tool call is not an answer.
    ("acp-opencode", &[("denied", "gave up when it was denied a tool")]),
    ("acp-qwen", &[("denied", "gave up when it was denied a tool")]),
];

/// Returns an end as a keyword, or in its debug form.
fn keyword(end: &AgentEnd) -> String {
    match end {
        AgentEnd::Done => "done".to_owned(),
        AgentEnd::OverBudget(limit) => format!("{limit:?}"),
        AgentEnd::Failed(Failure::Model { error, .. }) => format!("{error:?}"),
        AgentEnd::Failed(Failure::Session { .. }) => "session".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(super) fn check(kind: &str) {
    let special = SPECIAL.iter().find(|(program, _)| *program == kind).map_or(&[][..], |(_, ends)| ends);
    let cases = RecordedProgram::for_kind(kind).names();
    for (case, _) in special {
        assert!(cases.iter().any(|name| name == case), "{kind} {case} is not recorded");
    }
    for case in cases {
        let expected = special.iter().chain(ENDS).find(|(name, _)| *name == case).map(|(_, end)| *end);
        let expected = expected.unwrap_or_else(|| panic!("{kind} {case} is recorded: how does it end?"));
        let end = keyword(&super::replay(kind, &case).end);
        assert!(end.contains(expected), "{kind} {case} ended as {end}, not {expected}");
    }
}
