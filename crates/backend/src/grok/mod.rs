//! Grok's program, after its documentation; in the tests it is stood in for. Its levels are those of a sandbox of the
//! kernel, so that nothing is asked. It would load the MCP servers of user and project, and has no way to name others:
//! the tools by which a model reaches them are taken away.

mod reader;
mod rules;

use domain::permission::Permission;
use domain::run::RunSpec;
use serde_json::Value;

use crate::combined_prompt;
use crate::contract::{
    Backend, Capabilities, Drive, Feed, Place, PrepareError, PriceList, ProcessDrive, Setting, WorkFile,
};
use crate::program::{Program, Tried};

const KIND: &str = "grok";
const PROMPT_FILE: &str = "prompt.md";

/// None was had to try, and its documentation names no version.
static PROGRAM: Program =
    Program { names: &["grok"], natives: &[], variable: Some("GROK_BIN"), tried: Tried::Never };

const VARIABLES: &[&str] = &["GROK_HOME", "GROK_MODELS_BASE_URL", "GROK_XAI_API_BASE_URL", "XAI_API_KEY"];

/// No updates in the middle of a run, and no servers from the settings of other programs.
const SETTINGS: [(&str, &str); 3] = [
    ("GROK_DISABLE_AUTOUPDATER", "1"),
    ("GROK_CLAUDE_MCPS_ENABLED", "false"),
    ("GROK_CURSOR_MCPS_ENABLED", "false"),
];

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
            ..Capabilities::default()
        }
    }

    fn unenforceable(&self, permission: &Permission, _options: &Value) -> Vec<String> {
        rules::gaps(permission)
    }

    fn prepare(&self, spec: &RunSpec, place: &Place<'_>) -> Result<Drive, PrepareError> {
        let found = place.program("grok").map_err(|reason| PrepareError { kind: KIND, reason })?;
        let setup = &spec.setup;
        let mut argv = found.argv.clone();
        let mut option = |flag: &str, value: &str| argv.extend([flag.to_owned(), value.to_owned()]);
        option("--permission-mode", "bypassPermissions");
        option("--sandbox", rules::sandbox(setup.permission.level));
        for rule in rules::denied(&setup.permission) {
            option("--deny", &rule);
        }
        option("--disallowed-tools", &rules::removed(&setup.permission));
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
        Ok(Drive::Process(ProcessDrive {
            argv,
            env: Vec::new(),
            known_env: VARIABLES.iter().map(|name| (*name).to_owned()).collect(),
            set: SETTINGS.map(|(name, value)| (name.to_owned(), Setting::Plain(value.to_owned()))).to_vec(),
            feed: Feed::Nothing,
            files: vec![WorkFile::plain(PROMPT_FILE, combined_prompt::combined(spec))],
            reader: Box::new(reader::Stream::new(setup.output_schema.is_some())),
        }))
    }
}

#[cfg(test)]
mod tests;
