//! Agents that speak ACP: what they are told, and what their words mean.

mod ends;
mod servers;
mod sessions;
mod told;
mod tools;

use std::path::Path;

use domain::run::{RunSpec, Stream, Usage};
use serde_json::{Value, json};

use crate::contract::{Ask, Conclusion, Decision, Drive, Exit, Place, ProcessDrive, Reader, Report, Setting};
use crate::program::Found;
use crate::sample;
use crate::user::User;

/// One conversation of a run, with everything that was written to the agent.
struct Talk {
    reader: Box<dyn Reader>,
    written: Vec<Value>,
}

fn drive(spec: &RunSpec) -> ProcessDrive {
    let found = Found { argv: vec!["/bin/agent".to_owned()], version: None };
    let place = Place {
        work: Path::new("/w"),
        own_program: Path::new("/bin/volery"),
        found: Some(&found),
        session_used: Some(Usage { input_tokens: 1000, output_tokens: 100, ..Usage::default() }),
        project_programs: crate::contract::ProjectPrograms::On,
    };
    let backend = crate::registry::by_kind(&spec.backend.kind).unwrap();
    match backend.prepare(spec, &place).unwrap() {
        Drive::Process(drive) => drive,
        Drive::Loop(_) => panic!("an agent is a process"),
    }
}

fn spec(kind: &str) -> RunSpec {
    let mut spec = sample::spec(kind);
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

fn says(text: &str) -> Value {
    update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

fn ends(reason: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": reason}})
}

fn asks(id: u64, call: &Value) -> Value {
    let options = json!([
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": "s-1", "toolCall": call, "options": options});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params})
}

impl Talk {
    fn of(spec: &RunSpec) -> Self {
        Self { reader: drive(spec).reader, written: Vec::new() }
    }

    /// A conversation whose turn has begun.
    fn begun(spec: &RunSpec) -> Self {
        let mut talk = Self::of(spec);
        talk.hear(&hello(&json!({"loadSession": true})));
        talk.hear(&json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s-1", "modes": {
            "currentModeId": "default", "availableModes": [{"id": "default", "name": "Default"}]}}}));
        assert_eq!(talk.written.last().unwrap()["method"], "session/prompt");
        talk
    }

    fn hear(&mut self, message: &Value) -> Vec<Report> {
        let reports = self.reader.feed(Stream::Stdout, format!("{message}\n").as_bytes());
        self.note(reports)
    }

    fn note(&mut self, reports: Vec<Report>) -> Vec<Report> {
        for report in &reports {
            if let Report::Write(bytes) | Report::WriteFilled { content: bytes, .. } = report {
                let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                self.written.extend(lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()));
            }
        }
        reports
    }

    fn decide(&mut self, ask: &str, decision: &Decision) -> Vec<Report> {
        let reports = self.reader.decide(ask, decision);
        self.note(reports)
    }

    fn end(mut self) -> Conclusion {
        self.reader.conclude(Exit::Code(0))
    }
}

fn asked(reports: &[Report]) -> Vec<Ask> {
    let of = |report: &Report| match report {
        Report::Asks(ask) => Some(ask.clone()),
        _ => None,
    };
    reports.iter().filter_map(of).collect()
}

/// Returns what is started for a user who has servers of their own, and for a project that has some.
fn adapted(spec: &RunSpec, home: &Path) -> Result<ProcessDrive, String> {
    let mut drive = drive(spec);
    let place = sample::place(None);
    let user = User { home: Some(home), value: &|_| None };
    let backend = crate::registry::by_kind(&spec.backend.kind).unwrap();
    backend.adapt(spec, &mut drive, &place, &user).map_err(|error| error.to_string())?;
    Ok(drive)
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn set<'a>(drive: &'a ProcessDrive, name: &str) -> &'a str {
    match drive.set.iter().find(|(set, _)| set == name) {
        Some((_, Setting::Plain(value))) => value,
        other => panic!("{other:?}"),
    }
}
