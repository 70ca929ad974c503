//! The recordings of each agent: the script of the model and the arguments of the agent.

use std::time::Duration;

use fake_llm::ScriptedReply;
use serde_json::{Value, json};

/// One recording.
pub(crate) struct RecordingCase {
    pub(crate) name: &'static str,
    pub(crate) script: Vec<ScriptedReply>,
    /// Executed one after the other, with the same model and the same folders; the stream of the last one is
    /// recorded.
    pub(crate) steps: Vec<AgentStart>,
    pub(crate) env: Vec<(&'static str, &'static str)>,
    /// Files below the agent's working directory.
    pub(crate) files: Vec<(&'static str, &'static str)>,
    pub(crate) terminate_after: Option<Duration>,
}

/// One start of the agent.
pub(crate) struct AgentStart {
    /// `SESSION` is replaced by the session id of the previous step.
    pub(crate) arguments: Vec<&'static str>,
    pub(crate) prompt: &'static str,
}

impl RecordingCase {
    fn new(name: &'static str, arguments: &[&'static str], script: Vec<ScriptedReply>) -> Self {
        let step = AgentStart { arguments: arguments.to_vec(), prompt: "Say hello." };
        Self { name, script, steps: vec![step], env: Vec::new(), files: Vec::new(), terminate_after: None }
    }

    fn then(mut self, arguments: &[&'static str]) -> Self {
        self.steps.push(AgentStart { arguments: arguments.to_vec(), prompt: "And again." });
        self
    }

    fn env(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    fn file(mut self, name: &'static str, text: &'static str) -> Self {
        self.files.push((name, text));
        self
    }

    fn terminated(mut self) -> Self {
        self.terminate_after = Some(Duration::from_secs(3));
        self
    }
}

const ANSWER: &str = "Hello from the script.";
const SCHEMA: &str = r#"{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}"#;

/// Returns the cases of every agent.
pub(crate) fn all() -> Vec<(&'static str, Vec<RecordingCase>)> {
    vec![
        ("claude", claude()),
        ("codex", codex()),
        ("gemini", gemini()),
        ("qwen", qwen()),
        ("copilot", copilot()),
        ("opencode", opencode()),
        ("goose", goose()),
        ("kimi", kimi()),
    ]
}

/// The cases that all agents share: how the model answers, and the arguments that let the agent use its shell.
fn common_cases(shell: &Shell, allow: &[&'static str]) -> Vec<RecordingCase> {
    vec![
        RecordingCase::new("say", &[], vec![ScriptedReply::say(ANSWER)]),
        RecordingCase::new("thinking", &[], vec![ScriptedReply::say(ANSWER).thinking("Let me think.")]),
        RecordingCase::new("tool", allow, vec![shell.call("echo hi"), ScriptedReply::say("Done.")]),
        RecordingCase::new(
            "tool-fails",
            allow,
            vec![shell.call("echo no >&2; exit 3"), ScriptedReply::say("Done.")],
        ),
        RecordingCase::new("error-400", &[], vec![ScriptedReply::error(400, "wrong in every way").always()]),
        RecordingCase::new("error-401", &[], vec![ScriptedReply::error(401, "who are you").always()]),
        RecordingCase::new(
            "error-429",
            &[],
            vec![ScriptedReply::error(429, "slow down").retry_after_s(1).always()],
        ),
        RecordingCase::new("error-500", &[], vec![ScriptedReply::error(500, "broken").always()]),
        RecordingCase::new("cut", &[], vec![ScriptedReply::cut(ANSWER).always()]),
        RecordingCase::new("terminated", &[], vec![ScriptedReply::stall(ANSWER).always()]).terminated(),
    ]
}

/// How an agent calls its shell.
struct Shell {
    tool: &'static str,
    command: &'static str,
    /// Arguments that the tool requires in addition to the command.
    extra_arguments: Value,
}

impl Shell {
    fn call(&self, command: &str) -> ScriptedReply {
        let mut arguments = self.extra_arguments.clone();
        arguments[self.command] = command.into();
        ScriptedReply::call(self.tool, arguments)
    }
}

fn claude() -> Vec<RecordingCase> {
    let shell =
        Shell { tool: "Bash", command: "command", extra_arguments: json!({ "description": "say hi" }) };
    let mut cases = common_cases(&shell, &["--allowedTools=Bash"]);
    let answer = ScriptedReply::call("StructuredOutput", json!({ "answer": "yes" }));
    cases.extend([
        RecordingCase::new("denied", &[], vec![shell.call("echo hi > f"), ScriptedReply::say("Done.")]),
        RecordingCase::new(
            "max-turns",
            &["--max-turns", "1", "--allowedTools=Bash"],
            vec![shell.call("echo hi").always()],
        ),
        RecordingCase::new("partial", &["--include-partial-messages"], vec![ScriptedReply::say(ANSWER)]),
        RecordingCase::new(
            "partial-terminated",
            &["--include-partial-messages"],
            vec![ScriptedReply::stall(ANSWER).always()],
        )
        .terminated(),
        RecordingCase::new(
            "partial-cut",
            &["--include-partial-messages"],
            vec![ScriptedReply::cut(ANSWER).always()],
        ),
        RecordingCase::new("schema", &["--json-schema", SCHEMA], vec![answer, ScriptedReply::say("Done.")]),
        RecordingCase::new(
            "schema-ignored",
            &["--json-schema", SCHEMA],
            vec![ScriptedReply::say(ANSWER).always()],
        ),
        RecordingCase::new(
            "budget",
            &["--max-budget-usd", "0.0001", "--allowedTools=Bash"],
            vec![shell.call("echo hi").always()],
        ),
        RecordingCase::new("resume", &[], vec![ScriptedReply::say(ANSWER).always()])
            .then(&["--resume", "SESSION"]),
        RecordingCase::new("unknown-session", &["--resume", "00000000-0000-4000-8000-00000000dead"], vec![]),
        RecordingCase::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn codex() -> Vec<RecordingCase> {
    let shell = Shell { tool: "exec_command", command: "cmd", extra_arguments: json!({}) };
    let mut cases = common_cases(&shell, &["--sandbox", "workspace-write"]);
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\n";
    cases.extend([
        RecordingCase::new(
            "denied",
            &["--sandbox", "read-only"],
            vec![shell.call("echo hi > f"), ScriptedReply::say("Done.")],
        ),
        RecordingCase::new(
            "patch",
            &["--sandbox", "workspace-write"],
            vec![ScriptedReply::call("apply_patch", patch.into()), ScriptedReply::say("Done.")],
        ),
        RecordingCase::new("resume", &[], vec![ScriptedReply::say(ANSWER).always()])
            .then(&["resume", "SESSION"]),
        RecordingCase::new("unknown-session", &["resume", "00000000-0000-4000-8000-00000000dead"], vec![]),
        RecordingCase::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn gemini() -> Vec<RecordingCase> {
    let shell = Shell { tool: "run_shell_command", command: "command", extra_arguments: json!({}) };
    let mut cases = common_cases(&shell, &["--approval-mode", "yolo"]);
    cases.extend([
        RecordingCase::new("denied", &[], vec![shell.call("echo hi > f"), ScriptedReply::say("Done.")]),
        RecordingCase::new("max-turns", &["--approval-mode", "yolo"], vec![shell.call("echo hi").always()])
            .file(".gemini/settings.json", r#"{"model":{"maxSessionTurns":1}}"#),
        RecordingCase::new("resume", &[], vec![ScriptedReply::say(ANSWER).always()])
            .then(&["--resume", "SESSION"]),
        RecordingCase::new("unknown-session", &["--resume", "00000000-0000-4000-8000-00000000dead"], vec![]),
        RecordingCase::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn qwen() -> Vec<RecordingCase> {
    let shell = Shell {
        tool: "run_shell_command",
        command: "command",
        extra_arguments: json!({ "is_background": false }),
    };
    let mut cases = common_cases(&shell, &["--yolo"]);
    cases.retain(|case| !["error-429", "error-500"].contains(&case.name));
    cases.extend([
        RecordingCase::new(
            "denied",
            &["--approval-mode", "default"],
            vec![shell.call("echo hi > f"), ScriptedReply::say("Done.")],
        ),
        RecordingCase::new(
            "max-turns",
            &["--yolo", "--max-session-turns", "1"],
            vec![shell.call("echo hi").always()],
        ),
        RecordingCase::new(
            "max-tool-calls",
            &["--yolo", "--max-tool-calls", "1"],
            vec![shell.call("echo hi").always()],
        ),
        RecordingCase::new(
            "schema",
            &["--json-schema", SCHEMA],
            vec![
                ScriptedReply::call("structured_output", json!({ "answer": "yes" })),
                ScriptedReply::say("Done."),
            ],
        ),
        // Without a limit it retries for more than four minutes.
        RecordingCase::new(
            "error-429",
            &["--max-wall-time", "20s"],
            vec![ScriptedReply::error(429, "slow down").retry_after_s(1).always()],
        ),
        RecordingCase::new(
            "error-500",
            &["--max-wall-time", "20s"],
            vec![ScriptedReply::error(500, "broken").always()],
        ),
        RecordingCase::new("partial", &["--include-partial-messages"], vec![ScriptedReply::say(ANSWER)]),
        RecordingCase::new("resume", &[], vec![ScriptedReply::say(ANSWER).always()])
            .then(&["--resume", "SESSION"]),
        RecordingCase::new("unknown-session", &["--resume", "00000000-0000-4000-8000-00000000dead"], vec![]),
        RecordingCase::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn copilot() -> Vec<RecordingCase> {
    let shell =
        Shell { tool: "bash", command: "command", extra_arguments: json!({ "description": "say hi" }) };
    let mut cases = common_cases(&shell, &["--allow-all-tools"]);
    cases.extend([
        RecordingCase::new("denied", &[], vec![shell.call("echo hi > f"), ScriptedReply::say("Done.")]),
        RecordingCase::new("resume", &[], vec![ScriptedReply::say(ANSWER).always()])
            .then(&["--resume=SESSION"]),
        RecordingCase::new("unknown-session", &["--resume=00000000-0000-4000-8000-00000000dead"], vec![]),
        RecordingCase::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn opencode() -> Vec<RecordingCase> {
    let shell =
        Shell { tool: "bash", command: "command", extra_arguments: json!({ "description": "say hi" }) };
    let mut cases = common_cases(&shell, &[]);
    let call = || vec![shell.call("echo hi"), ScriptedReply::say("Done.")];
    cases.extend([
        RecordingCase::new("denied", &[], call()).env("OPENCODE_PERMISSION", r#"{"bash":"deny"}"#),
        RecordingCase::new("denied-ask", &[], call()).env("OPENCODE_PERMISSION", r#"{"bash":"ask"}"#),
        RecordingCase::new(
            "max-turns",
            &[],
            vec![shell.call("echo hi").times(2), ScriptedReply::say("Stopped.").always()],
        )
        .file("opencode.json", r#"{"agent":{"build":{"steps":1}}}"#),
        RecordingCase::new("resume", &[], vec![ScriptedReply::say(ANSWER).always()])
            .then(&["--session", "SESSION"]),
        RecordingCase::new("unknown-session", &["--session", "ses_dead"], vec![]),
        RecordingCase::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn goose() -> Vec<RecordingCase> {
    let shell = Shell { tool: "shell", command: "command", extra_arguments: json!({}) };
    let mut cases = common_cases(&shell, &[]);
    cases.extend([
        RecordingCase::new("denied", &[], vec![shell.call("echo hi"), ScriptedReply::say("Done.")])
            .env("GOOSE_MODE", "approve"),
        RecordingCase::new("denied-chat", &[], vec![shell.call("echo hi"), ScriptedReply::say("Done.")])
            .env("GOOSE_MODE", "chat"),
        RecordingCase::new("max-turns", &["--max-turns", "1"], vec![shell.call("echo hi").always()]),
        RecordingCase::new("resume", &["-n", "one"], vec![ScriptedReply::say(ANSWER).always()])
            .then(&["-n", "one", "-r"]),
        RecordingCase::new("unknown-session", &["-n", "nobody", "-r"], vec![]),
        RecordingCase::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn kimi() -> Vec<RecordingCase> {
    let shell = Shell { tool: "Bash", command: "command", extra_arguments: json!({}) };
    let mut cases = common_cases(&shell, &[]);
    cases.extend([
        RecordingCase::new("resume", &[], vec![ScriptedReply::say(ANSWER).always()]).then(&["-S", "SESSION"]),
        RecordingCase::new(
            "unknown-session",
            &["-S", "session_00000000-0000-4000-8000-00000000dead"],
            vec![],
        ),
        RecordingCase::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}
