//! A test environment with agents of Kiro, a fake `kiro-cli`, and a server with the dialect budgie.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::test_env::{Client, CommandOutput, PATIENCE, TestEnv, command_output};

const KIRO: &str = include_str!("kiro-cli.sh");

pub(super) struct BudgieEnv {
    pub(super) env: TestEnv,
}

impl BudgieEnv {
    /// As the document of budgie has it: an agent with a prompt file, a second one, and two that are not for others.
    pub(super) fn new() -> Self {
        let budgie = Self { env: TestEnv::new() };
        budgie.program("kiro-cli", KIRO);
        let allowed = json!(["fs_read", "fs_write"]);
        budgie.agent(json!({
            "name": "test-agent", "description": "sub-agent: Validation and testing specialist",
            "allowedTools": allowed,
        }));
        budgie.agent(json!({
            "name": "Code Writer", "description": "Sub-Agent: Writes code", "allowedTools": allowed,
        }));
        budgie.agent(json!({"name": "orchestrator", "description": "sub-agent: Master"}));
        budgie.agent(json!({"name": "private", "description": "Not for others"}));
        budgie
    }

    pub(super) fn home(&self, name: &str) -> PathBuf {
        self.env.path("home").join(name)
    }

    pub(super) fn agent(&self, agent: Value) {
        let folder = self.home(".kiro/agents");
        fs::create_dir_all(&folder).unwrap();
        let name = agent["name"].as_str().unwrap().replace(' ', "-");
        fs::write(folder.join(format!("{name}.json")), agent.to_string()).unwrap();
    }

    pub(super) fn prompt(&self, name: &str, text: &str) {
        let folder = self.home(".kiro/sub-agents/prompts");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), text).unwrap();
    }

    /// Puts a program on the search path.
    pub(super) fn program(&self, name: &str, text: &str) -> PathBuf {
        let folder = self.env.path("bin");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    pub(super) fn command(&self, flags: &[&str]) -> Command {
        let mut command = self.env.command(["serve", "--dialect", "budgie"].iter().chain(flags));
        let path = format!("{}:/usr/bin:/bin", self.env.path("bin").display());
        command.env("PATH", path);
        command
    }

    pub(super) fn serve(&self, flags: &[&str]) -> Client {
        Client::start(self.command(flags)).initialize("test")
    }

    /// Runs the server without input and returns its output.
    pub(super) fn serve_output(&self, flags: &[&str]) -> CommandOutput {
        command_output(self.command(flags).stdin(Stdio::null()).output().unwrap())
    }

    /// The arguments of an ordinary call.
    pub(super) fn ask(&self, prompt: &str) -> Value {
        json!({"prompt": prompt, "directory": self.env.project()})
    }

    pub(super) fn in_session(&self, prompt: &str, session: &str) -> Value {
        json!({"prompt": prompt, "directory": self.env.project(), "sessionId": session})
    }

    /// Returns the recorded arguments of `kiro-cli`, one text for each call.
    pub(super) fn calls(&self) -> Vec<String> {
        self.notes("calls")
    }

    pub(super) fn notes(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.home(file)).unwrap_or_default();
        text.split("\n--\n")
            .map(str::trim_end)
            .filter(|call| !call.is_empty())
            .map(ToOwned::to_owned)
            .collect()
    }
}

/// Calls a tool and returns the whole result.
#[track_caller]
pub(super) fn call(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let id = client.send("tools/call", json!({"name": tool, "arguments": arguments}));
    client.answer(id, PATIENCE)["result"].clone()
}

/// Calls the tool of the first agent and returns its answer, after a look at what every answer has.
#[track_caller]
pub(super) fn answered(client: &mut Client, arguments: Value) -> Value {
    let result = call(client, "kiro-subagents.test-agent", arguments);
    assert_ne!(result["isError"], json!(true), "{result}");
    same_in_both(&result)
}

#[track_caller]
pub(super) fn same_in_both(result: &Value) -> Value {
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"], "text and structured content say the same");
    text
}

/// Returns the text of an error.
#[track_caller]
pub(super) fn refused(result: &Value) -> &str {
    assert_eq!(result["isError"], json!(true), "{result}");
    result["content"][0]["text"].as_str().unwrap()
}
