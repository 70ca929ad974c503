//! What is recorded of each agent: the script of the model, and the arguments of the agent.

use std::time::Duration;

use model_server::Reply;
use serde_json::{Value, json};

/// One recording.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) script: Vec<Reply>,
    /// One after the other, with the same model and the same folders; the stream of the last is kept.
    pub(crate) steps: Vec<Step>,
    pub(crate) env: Vec<(&'static str, &'static str)>,
    /// Below the folder in which the agent works.
    pub(crate) files: Vec<(&'static str, &'static str)>,
    pub(crate) terminate_after: Option<Duration>,
}

/// One start of the agent.
pub(crate) struct Step {
    /// `SESSION` stands for the session of the step before.
    pub(crate) arguments: Vec<&'static str>,
    pub(crate) prompt: &'static str,
}

impl Case {
    fn new(name: &'static str, arguments: &[&'static str], script: Vec<Reply>) -> Self {
        let step = Step { arguments: arguments.to_vec(), prompt: "Say hello." };
        Self { name, script, steps: vec![step], env: Vec::new(), files: Vec::new(), terminate_after: None }
    }

    fn then(mut self, arguments: &[&'static str]) -> Self {
        self.steps.push(Step { arguments: arguments.to_vec(), prompt: "And again." });
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

const SAID: &str = "Hello from the script.";
const SCHEMA: &str = r#"{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}"#;

/// Returns the cases of every agent.
pub(crate) fn all() -> Vec<(&'static str, Vec<Case>)> {
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

/// What is the same for all: how the model answers, and which arguments let the agent use its shell.
fn usual(shell: &Shell, allow: &[&'static str]) -> Vec<Case> {
    vec![
        Case::new("say", &[], vec![Reply::say(SAID)]),
        Case::new("thinking", &[], vec![Reply::say(SAID).thinking("Let me think.")]),
        Case::new("tool", allow, vec![shell.call("echo hi"), Reply::say("Done.")]),
        Case::new("tool-fails", allow, vec![shell.call("echo no >&2; exit 3"), Reply::say("Done.")]),
        Case::new("error-400", &[], vec![Reply::error(400, "wrong in every way").always()]),
        Case::new("error-401", &[], vec![Reply::error(401, "who are you").always()]),
        Case::new("error-429", &[], vec![Reply::error(429, "slow down").retry_after_s(1).always()]),
        Case::new("error-500", &[], vec![Reply::error(500, "broken").always()]),
        Case::new("cut", &[], vec![Reply::cut(SAID).always()]),
        Case::new("terminated", &[], vec![Reply::stall(SAID).always()]).terminated(),
    ]
}

/// How an agent calls its shell.
struct Shell {
    tool: &'static str,
    command: &'static str,
    /// Arguments that the tool demands beside the command.
    also: Value,
}

impl Shell {
    fn call(&self, command: &str) -> Reply {
        let mut arguments = self.also.clone();
        arguments[self.command] = command.into();
        Reply::call(self.tool, arguments)
    }
}

fn claude() -> Vec<Case> {
    let shell = Shell { tool: "Bash", command: "command", also: json!({ "description": "say hi" }) };
    let mut cases = usual(&shell, &["--allowedTools=Bash"]);
    let answer = Reply::call("StructuredOutput", json!({ "answer": "yes" }));
    cases.extend([
        Case::new("denied", &[], vec![shell.call("echo hi > f"), Reply::say("Done.")]),
        Case::new(
            "max-turns",
            &["--max-turns", "1", "--allowedTools=Bash"],
            vec![shell.call("echo hi").always()],
        ),
        Case::new("partial", &["--include-partial-messages"], vec![Reply::say(SAID)]),
        Case::new("partial-terminated", &["--include-partial-messages"], vec![Reply::stall(SAID).always()])
            .terminated(),
        Case::new("partial-cut", &["--include-partial-messages"], vec![Reply::cut(SAID).always()]),
        Case::new("schema", &["--json-schema", SCHEMA], vec![answer, Reply::say("Done.")]),
        Case::new("schema-ignored", &["--json-schema", SCHEMA], vec![Reply::say(SAID).always()]),
        Case::new(
            "budget",
            &["--max-budget-usd", "0.0001", "--allowedTools=Bash"],
            vec![shell.call("echo hi").always()],
        ),
        Case::new("resume", &[], vec![Reply::say(SAID).always()]).then(&["--resume", "SESSION"]),
        Case::new("unknown-session", &["--resume", "00000000-0000-4000-8000-00000000dead"], vec![]),
        Case::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn codex() -> Vec<Case> {
    let shell = Shell { tool: "exec_command", command: "cmd", also: json!({}) };
    let mut cases = usual(&shell, &["--sandbox", "workspace-write"]);
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\n";
    cases.extend([
        Case::new(
            "denied",
            &["--sandbox", "read-only"],
            vec![shell.call("echo hi > f"), Reply::say("Done.")],
        ),
        Case::new(
            "patch",
            &["--sandbox", "workspace-write"],
            vec![Reply::call("apply_patch", patch.into()), Reply::say("Done.")],
        ),
        Case::new("resume", &[], vec![Reply::say(SAID).always()]).then(&["resume", "SESSION"]),
        Case::new("unknown-session", &["resume", "00000000-0000-4000-8000-00000000dead"], vec![]),
        Case::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn gemini() -> Vec<Case> {
    let shell = Shell { tool: "run_shell_command", command: "command", also: json!({}) };
    let mut cases = usual(&shell, &["--approval-mode", "yolo"]);
    cases.extend([
        Case::new("denied", &[], vec![shell.call("echo hi > f"), Reply::say("Done.")]),
        Case::new("max-turns", &["--approval-mode", "yolo"], vec![shell.call("echo hi").always()])
            .file(".gemini/settings.json", r#"{"model":{"maxSessionTurns":1}}"#),
        Case::new("resume", &[], vec![Reply::say(SAID).always()]).then(&["--resume", "SESSION"]),
        Case::new("unknown-session", &["--resume", "00000000-0000-4000-8000-00000000dead"], vec![]),
        Case::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn qwen() -> Vec<Case> {
    let shell =
        Shell { tool: "run_shell_command", command: "command", also: json!({ "is_background": false }) };
    let mut cases = usual(&shell, &["--yolo"]);
    cases.retain(|case| !["error-429", "error-500"].contains(&case.name));
    cases.extend([
        Case::new(
            "denied",
            &["--approval-mode", "default"],
            vec![shell.call("echo hi > f"), Reply::say("Done.")],
        ),
        Case::new("max-turns", &["--yolo", "--max-session-turns", "1"], vec![shell.call("echo hi").always()]),
        Case::new(
            "max-tool-calls",
            &["--yolo", "--max-tool-calls", "1"],
            vec![shell.call("echo hi").always()],
        ),
        Case::new(
            "schema",
            &["--json-schema", SCHEMA],
            vec![Reply::call("structured_output", json!({ "answer": "yes" })), Reply::say("Done.")],
        ),
        // Without a limit it tries for more than four minutes.
        Case::new(
            "error-429",
            &["--max-wall-time", "20s"],
            vec![Reply::error(429, "slow down").retry_after_s(1).always()],
        ),
        Case::new("error-500", &["--max-wall-time", "20s"], vec![Reply::error(500, "broken").always()]),
        Case::new("partial", &["--include-partial-messages"], vec![Reply::say(SAID)]),
        Case::new("resume", &[], vec![Reply::say(SAID).always()]).then(&["--resume", "SESSION"]),
        Case::new("unknown-session", &["--resume", "00000000-0000-4000-8000-00000000dead"], vec![]),
        Case::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn copilot() -> Vec<Case> {
    let shell = Shell { tool: "bash", command: "command", also: json!({ "description": "say hi" }) };
    let mut cases = usual(&shell, &["--allow-all-tools"]);
    cases.extend([
        Case::new("denied", &[], vec![shell.call("echo hi > f"), Reply::say("Done.")]),
        Case::new("resume", &[], vec![Reply::say(SAID).always()]).then(&["--resume=SESSION"]),
        Case::new("unknown-session", &["--resume=00000000-0000-4000-8000-00000000dead"], vec![]),
        Case::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn opencode() -> Vec<Case> {
    let shell = Shell { tool: "bash", command: "command", also: json!({ "description": "say hi" }) };
    let mut cases = usual(&shell, &[]);
    let call = || vec![shell.call("echo hi"), Reply::say("Done.")];
    cases.extend([
        Case::new("denied", &[], call()).env("OPENCODE_PERMISSION", r#"{"bash":"deny"}"#),
        Case::new("denied-ask", &[], call()).env("OPENCODE_PERMISSION", r#"{"bash":"ask"}"#),
        Case::new("max-turns", &[], vec![shell.call("echo hi").times(2), Reply::say("Stopped.").always()])
            .file("opencode.json", r#"{"agent":{"build":{"steps":1}}}"#),
        Case::new("resume", &[], vec![Reply::say(SAID).always()]).then(&["--session", "SESSION"]),
        Case::new("unknown-session", &["--session", "ses_dead"], vec![]),
        Case::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn goose() -> Vec<Case> {
    let shell = Shell { tool: "shell", command: "command", also: json!({}) };
    let mut cases = usual(&shell, &[]);
    cases.extend([
        Case::new("denied", &[], vec![shell.call("echo hi"), Reply::say("Done.")])
            .env("GOOSE_MODE", "approve"),
        Case::new("denied-chat", &[], vec![shell.call("echo hi"), Reply::say("Done.")])
            .env("GOOSE_MODE", "chat"),
        Case::new("max-turns", &["--max-turns", "1"], vec![shell.call("echo hi").always()]),
        Case::new("resume", &["-n", "one"], vec![Reply::say(SAID).always()]).then(&["-n", "one", "-r"]),
        Case::new("unknown-session", &["-n", "nobody", "-r"], vec![]),
        Case::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}

fn kimi() -> Vec<Case> {
    let shell = Shell { tool: "Bash", command: "command", also: json!({}) };
    let mut cases = usual(&shell, &[]);
    cases.extend([
        Case::new("resume", &[], vec![Reply::say(SAID).always()]).then(&["-S", "SESSION"]),
        Case::new("unknown-session", &["-S", "session_00000000-0000-4000-8000-00000000dead"], vec![]),
        Case::new("unknown-flag", &["--no-such-flag"], vec![]),
    ]);
    cases
}
