//! Grok's program, after what other systems that drive it do: it could not be installed where this was written. Its
//! levels are those of a sandbox of the kernel, so that nothing is asked; it has no words for rules.

mod reader;

use domain::permission::{Level, Permission};
use domain::run::RunSpec;
use serde_json::Value;

use crate::combined_prompt;
use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, ProcessDrive, WorkFile, inexpressible,
};
use crate::program::Program;

const KIND: &str = "grok";
const PROMPT_FILE: &str = "prompt.md";

/// No version was tried.
static PROGRAM: Program = Program { names: &["grok"], natives: &[], tried: ("0", "9999") };

const VARIABLES: &[&str] = &["XAI_API_KEY"];

pub struct Grok;

impl Backend for Grok {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn program(&self) -> Option<&'static Program> {
        Some(&PROGRAM)
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        Capabilities {
            system_prompt: true,
            model: true,
            session: true,
            names_sessions: true,
            process: true,
            effort: true,
            output_schema: true,
            ..Capabilities::default()
        }
    }

    /// Only the levels have words.
    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        inexpressible(&Permission { level: None, ..permission.clone() })
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: &str| PrepareError { kind: KIND, reason: reason.to_owned() };
        let found = place.found.ok_or_else(|| wrong("grok was not found on the PATH"))?;
        let setup = &spec.setup;
        let mut argv = found.argv.clone();
        let mut option = |flag: &str, value: &str| argv.extend([flag.to_owned(), value.to_owned()]);
        option("--permission-mode", "bypassPermissions");
        option("--sandbox", sandbox(setup.permission.level));
        if let Some(model) = &spec.model {
            option("--model", model);
        }
        if let Some(effort) = &setup.effort {
            option("--reasoning-effort", effort);
        }
        if let Some(session) = &spec.session {
            option("--resume", session.as_str());
        }
        option("--cwd", &spec.directory);
        option("--output-format", "json");
        option("--prompt-file", &place.file(PROMPT_FILE));
        argv.push("--verbatim".to_owned());
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set: Vec::new(),
            feed: Feed::Nothing,
            files: vec![WorkFile::plain(PROMPT_FILE, combined_prompt::combined(spec))],
            reader: Box::new(reader::Document::new(setup.output_schema.is_some())),
        }))
    }
}

fn sandbox(level: Option<Level>) -> &'static str {
    match level {
        Some(Level::ReadOnly) => "read-only",
        None | Some(Level::SafeEdit) => "workspace",
        Some(Level::Yolo) => "off",
    }
}

#[cfg(test)]
mod tests;
