//! Cursor's program, after its documentation: it could not be installed where this was written, and is stood in for in
//! the tests. It has no way to name MCP servers; those of the user and of the project need an approval that it is not
//! given. Without force it changes no file and executes nothing that its settings do not allow: `safe-edit` is as
//! narrow as that.

mod reader;

use std::path::Path;

use domain::inherit::Inherited;
use domain::permission::{Level, Permission};
use domain::run::RunSpec;
use serde_json::Value;

use crate::combined_prompt::{self, ARGUMENT_BYTES_MAX};
use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, ProcessDrive, ProjectProgram, Setting,
    inexpressible,
};
use crate::loosened;
use crate::program::{Program, Tried};
use crate::project_settings::{Keys, ProjectSettings};
use crate::user::User;

const KIND: &str = "cursor";

/// The newer name is also that of other programs, so the older one counts first. None was had to try.
static PROGRAM: Program = Program {
    names: &["cursor-agent", "agent"],
    natives: &[],
    variable: Some("CURSOR_AGENT_BIN"),
    tried: Tried::Never,
};

const KEY: &str = "CURSOR_API_KEY";
/// Where sub-agents-mcp also looks for the key.
const KEY_OF_SUB_AGENTS: &str = "CLI_API_KEY";
const SETTINGS: &str = "CURSOR_CONFIG_DIR";
const VARIABLES: &[&str] = &[KEY, SETTINGS];

/// Files of a project, and what in them executes something, or lets it be executed unasked.
static OF_PROJECTS: [ProjectSettings; 2] = [
    ProjectSettings {
        program: KIND,
        files: &[".cursor/cli.json"],
        keys: Keys::Except(&[("permissions.allow", false)]),
        variables: &[],
    },
    ProjectSettings {
        program: KIND,
        files: &[".cursor/hooks.json"],
        keys: Keys::Except(&[("hooks", false)]),
        variables: &[],
    },
];

pub struct Cursor;

impl Backend for Cursor {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn program(&self) -> Option<&'static Program> {
        Some(&PROGRAM)
    }

    fn variables(&self) -> Vec<&'static str> {
        VARIABLES.to_vec()
    }

    fn capabilities(&self, _options: &Value) -> Capabilities {
        Capabilities {
            system_prompt: true,
            model: true,
            session: true,
            names_sessions: true,
            tells_tools: true,
            process: true,
            output_schema: true,
            vendor_settings: true,
            // Nothing takes them away: without force it goes by its user's rules, and starts the servers that its user approved.
            inherits: &[Inherited::McpServers, Inherited::Settings],
            ..Capabilities::default()
        }
    }

    /// Only the levels have words.
    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        inexpressible(&Permission { level: None, ..permission.clone() })
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let wrong = |reason: String| PrepareError { kind: KIND, reason };
        let found = place.program("cursor-agent").map_err(wrong)?;
        let setup = &spec.setup;
        let prompt = combined_prompt::combined(spec);
        let mut argv = found.argv.clone();
        let fixed = ["-p", "--output-format", "stream-json", "--stream-partial-output", "--trust"];
        argv.extend(fixed.map(ToOwned::to_owned));
        argv.extend(level(setup.permission.level).iter().map(|word| (*word).to_owned()));
        let mut option = |flag: &str, value: &str| argv.extend([flag.to_owned(), value.to_owned()]);
        option("--workspace", &spec.directory);
        argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
        argv.extend(spec.session.iter().map(|session| format!("--resume={}", session.as_str())));
        let feed = if prompt.len() > ARGUMENT_BYTES_MAX {
            Feed::Whole(prompt.into_bytes())
        } else {
            argv.push(combined_prompt::argument(&prompt));
            Feed::Nothing
        };
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set: setup
                .vendor_settings
                .iter()
                .map(|path| (SETTINGS.to_owned(), Setting::Plain(path.clone())))
                .collect(),
            feed,
            files: Vec::new(),
            reader: Box::new(reader::Stream::new(setup.output_schema.is_some())),
        }))
    }

    /// The directory is always trusted, since it would ask otherwise: so what is in there is for the project's trust.
    fn project_programs(&self, folders: &[&Path]) -> Vec<ProjectProgram> {
        OF_PROJECTS.iter().flat_map(|settings| settings.programs(folders)).collect()
    }

    fn adapt(
        &self,
        spec: &RunSpec,
        drive: &mut ProcessDrive,
        _place: &Place<'_>,
        user: &User<'_>,
    ) -> Result<(), PrepareError> {
        if (user.value)(KEY).is_none() && (user.value)(KEY_OF_SUB_AGENTS).is_some() {
            drive.set.push((KEY.to_owned(), Setting::From(KEY_OF_SUB_AGENTS.to_owned())));
        }
        let checked = loosened::check(spec, user, loosened::cursor);
        checked.map_err(|reason| PrepareError { kind: KIND, reason })
    }
}

/// Returns the words for a level. Without force, what needs an approval is refused.
fn level(level: Option<Level>) -> &'static [&'static str] {
    match level {
        Some(Level::ReadOnly) => &["--mode", "plan"],
        None | Some(Level::SafeEdit) => &[],
        Some(Level::Yolo) => &["--force"],
    }
}

#[cfg(test)]
mod tests;
