//! Agents that speak ACP: what they are started with, and how their messages are interpreted.

mod ends;
mod launch_and_session;
mod servers;
mod sessions;
mod tools;

use std::path::Path;

use domain::run::{RunSpec, StdStream, Usage};
use serde_json::{Value, json};

use crate::contract::{
    AgentReport, Conclusion, EnvValue, Exit, LaunchContext, LaunchPlan, OutputReader, PermissionDecision,
    PermissionRequest, ProcessLaunch,
};
use crate::program::LocatedProgram;
use crate::test_fixtures;
use crate::user_environment::UserEnvironment;

/// One conversation of a run, with everything that was written to the agent.
struct TestConversation {
    reader: Box<dyn OutputReader>,
    written: Vec<Value>,
}

fn launch(spec: &RunSpec) -> ProcessLaunch {
    let found = LocatedProgram { argv: vec!["/bin/agent".to_owned()], version: None };
    let context = LaunchContext {
        work_dir: Path::new("/w"),
        current_exe: Path::new("/bin/volery"),
        program: Some(&found),
        prior_session_usage: Some(Usage { input_tokens: 1000, output_tokens: 100, ..Usage::default() }),
        project_executables: crate::contract::ProjectExecutables::On,
    };
    let backend = crate::registry::by_kind(&spec.backend.kind).unwrap();
    match backend.prepare(spec, &context).unwrap() {
        LaunchPlan::Process(launch) => launch,
        LaunchPlan::Loop(_) | LaunchPlan::AgentLoop(_) => panic!("an agent is a process"),
    }
}

fn spec(kind: &str) -> RunSpec {
    let mut spec = test_fixtures::spec(kind);
    if kind == "acp" {
        spec.backend.options = json!({"command": ["mine", "--acp"], "env": ["MINE_KEY"]});
    }
    spec
}

fn hello(capabilities: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities}})
}

fn update(update: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-1", "update": update}})
}

fn message_chunk(text: &str) -> Value {
    update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

fn turn_end(reason: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": reason}})
}

fn permission_request(id: u64, call: &Value) -> Value {
    let options = json!([
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": "s-1", "toolCall": call, "options": options});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params})
}

impl TestConversation {
    fn new(spec: &RunSpec) -> Self {
        Self { reader: launch(spec).reader, written: Vec::new() }
    }

    /// A conversation whose turn has begun.
    fn prompted(spec: &RunSpec) -> Self {
        let mut conversation = Self::new(spec);
        conversation.receive(&hello(&json!({"loadSession": true})));
        conversation.receive(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {
            "currentModeId": "default", "availableModes": [{"id": "default", "name": "Default"}]}}}));
        assert_eq!(conversation.written.last().unwrap()["method"], "session/prompt");
        conversation
    }

    fn receive(&mut self, message: &Value) -> Vec<AgentReport> {
        let reports = self.reader.feed(StdStream::Stdout, format!("{message}\n").as_bytes());
        self.record(reports)
    }

    fn record(&mut self, reports: Vec<AgentReport>) -> Vec<AgentReport> {
        for report in &reports {
            if let AgentReport::Write(bytes) | AgentReport::WriteWithVariables { content: bytes, .. } = report
            {
                let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                self.written.extend(lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()));
            }
        }
        reports
    }

    fn decide(&mut self, ask: &str, decision: &PermissionDecision) -> Vec<AgentReport> {
        let reports = self.reader.decide(ask, decision);
        self.record(reports)
    }

    fn end(mut self) -> Conclusion {
        self.reader.conclude(Exit::Code(0))
    }
}

fn permission_requests(reports: &[AgentReport]) -> Vec<PermissionRequest> {
    let as_request = |report: &AgentReport| match report {
        AgentReport::PermissionRequested(ask) => Some(ask.clone()),
        _ => None,
    };
    reports.iter().filter_map(as_request).collect()
}

/// Returns the launch for a user, and for a project, with MCP servers of their own.
fn launch_for_user(spec: &RunSpec, home: &Path) -> Result<ProcessLaunch, String> {
    let mut launch = launch(spec);
    let context = test_fixtures::launch_context(None);
    let user = UserEnvironment { home: Some(home), variable: &|_| None };
    let backend = crate::registry::by_kind(&spec.backend.kind).unwrap();
    backend.apply_user_environment(spec, &mut launch, &context, &user).map_err(|error| error.to_string())?;
    Ok(launch)
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn set<'a>(launch: &'a ProcessLaunch, name: &str) -> &'a str {
    match launch.env_overrides.iter().find(|(set, _)| set == name) {
        Some((_, EnvValue::Plain(value))) => value,
        other => panic!("{other:?}"),
    }
}
