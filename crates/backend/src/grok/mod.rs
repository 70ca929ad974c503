//! Grok's program, after its documentation; in the tests it is stood in for. Its levels are those of a sandbox of the
//! kernel, so that nothing is asked. It would load the MCP servers of user and project, and has no way to name others:
//! the tools by which a model reaches them are taken away, unless the agent gets its user's servers.

mod reader;
mod rules;

use std::path::PathBuf;

use domain::inherit::Inherited;
use domain::permission::Permission;
use domain::run::RunSpec;
use serde_json::Value;

use crate::combined_prompt;
use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, PriceList, ProcessDrive, Setting, WorkFile,
};
use crate::program::{Program, Tried};
use crate::user::{self, User};

const KIND: &str = "grok";
const PROMPT_FILE: &str = "prompt.md";

/// None was had to try, and its documentation names no version.
static PROGRAM: Program =
    Program { names: &["grok"], natives: &[], variable: Some("GROK_BIN"), tried: Tried::Never };

const VARIABLES: &[&str] = &["GROK_HOME", "GROK_MODELS_BASE_URL", "GROK_XAI_API_BASE_URL", "XAI_API_KEY"];

/// No updates in the middle of a run.
const SETTINGS: (&str, &str) = ("GROK_DISABLE_AUTOUPDATER", "1");
/// No servers from the settings of other programs.
const WITHOUT_OTHERS_SERVERS: [(&str, &str); 2] =
    [("GROK_CLAUDE_MCPS_ENABLED", "false"), ("GROK_CURSOR_MCPS_ENABLED", "false")];

/// The option that takes tools away.
const WITHOUT_TOOLS: &str = "--disallowed-tools";
/// The files in which it finds the servers of a project.
const PROJECTS_SERVERS: [&str; 2] = [".mcp.json", ".cursor/mcp.json"];

pub struct Grok;

impl Backend for Grok {
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
            process: true,
            effort: true,
            output_schema: true,
            usage: true,
            prices: PriceList::Of("x-ai"),
            max_turns: true,
            tells_tools: true,
            forks: true,
            starts_other_servers: true,
            inherits: &[Inherited::McpServers, Inherited::Settings],
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        rules::gaps(permission)
    }

    fn adapt(
        &self,
        spec: &RunSpec,
        drive: &mut ProcessDrive,
        _place: &Place<'_>,
        user: &User<'_>,
    ) -> Result<(), PrepareError> {
        let shared = spec.setup.inherits(Inherited::McpServers);
        if shared && !projects_servers(spec, user.home).is_empty() {
            let removed = rules::SERVER_TOOLS.join(",");
            match drive.argv.iter().position(|word| word == WITHOUT_TOOLS) {
                Some(at) => drive.argv[at + 1] = format!("{removed},{}", drive.argv[at + 1]),
                None => drive.argv.extend([WITHOUT_TOOLS.to_owned(), removed]),
            }
        }
        Ok(())
    }

    fn look_through(&self, spec: &RunSpec, _drive: &mut ProcessDrive) -> Result<Vec<String>, PrepareError> {
        if !spec.setup.inherits(Inherited::McpServers) {
            return Ok(Vec::new());
        }
        let files = projects_servers(spec, None).into_iter();
        let sentence = |file: PathBuf| {
            format!(
                "withheld: the user's MCP servers: {} defines servers too, and grok cannot be given the user's alone",
                file.display()
            )
        };
        Ok(files.map(sentence).collect())
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let found = place.program("grok").map_err(|reason| PrepareError { kind: KIND, reason })?;
        let setup = &spec.setup;
        let mut argv = found.argv.clone();
        let mut option = |flag: &str, value: &str| argv.extend([flag.to_owned(), value.to_owned()]);
        option("--permission-mode", "bypassPermissions");
        option("--sandbox", rules::sandbox(setup.permission.level));
        for rule in rules::denied(&setup.permission, setup.inherits(Inherited::Settings)) {
            option("--deny", &rule);
        }
        let servers = setup.inherits(Inherited::McpServers);
        let of_servers = rules::SERVER_TOOLS.into_iter().filter(|_| !servers);
        let removed: Vec<&str> = of_servers.chain(rules::removed(&setup.permission)).collect();
        if !removed.is_empty() {
            option(WITHOUT_TOOLS, &removed.join(","));
        }
        if let Some(turns) = setup.max_turns {
            option("--max-turns", &turns.to_string());
        }
        // Whatever they are, they are no options.
        argv.extend(spec.model.iter().map(|model| format!("--model={model}")));
        argv.extend(setup.effort.iter().map(|effort| format!("--reasoning-effort={effort}")));
        argv.extend(spec.session.iter().map(|session| format!("--resume={}", session.as_str())));
        let mut option = |flag: &str, value: &str| argv.extend([flag.to_owned(), value.to_owned()]);
        option("--cwd", &spec.directory);
        option("--output-format", "streaming-json");
        option("--prompt-file", &place.file(PROMPT_FILE));
        argv.extend(spec.fork.then(|| "--fork-session".to_owned()));
        argv.push("--verbatim".to_owned());
        let alone = WITHOUT_OTHERS_SERVERS.into_iter().filter(|_| !servers);
        let set = std::iter::once(SETTINGS).chain(alone);
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set: set.map(|(name, value)| (name.to_owned(), Setting::Plain(value.to_owned()))).collect(),
            feed: Feed::Nothing,
            files: vec![WorkFile::plain(PROMPT_FILE, combined_prompt::combined(spec))],
            reader: Box::new(reader::Stream::new(setup.output_schema.is_some())),
        }))
    }
}

/// Returns the files of a project that define servers: whoever may use the user's servers could use those too.
fn projects_servers(spec: &RunSpec, home: Option<&std::path::Path>) -> Vec<PathBuf> {
    let folders = user::upward(&spec.directory, &spec.project);
    let folders = folders.into_iter().filter(|folder| Some(*folder) != home);
    let files = folders.flat_map(|folder| PROJECTS_SERVERS.map(|file| folder.join(file)));
    // What cannot be read may define some.
    let defines = |file: &PathBuf| match user::look(file) {
        Ok(settings) => settings.is_some_and(|settings| !user::names(&settings, "mcpServers").is_empty()),
        Err(_) => true,
    };
    files.filter(defines).collect()
}

#[cfg(test)]
mod tests;
