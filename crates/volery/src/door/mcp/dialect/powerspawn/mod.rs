//! The dialect of PowerSpawn: a tool for each kind of agent, which returns at once, and three tools to look at them. The id of
//! an agent is the short one of its run, everywhere; what runs is read from the journal, so every server of a project says the
//! same, also after a restart.

mod models;
mod reply;
mod tools;

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use domain::agent::{Agent, Format, Layer, Source};
use domain::budget::AskedLimits;
use domain::dialect::DialectName;
use domain::permission::{Level, Unenforceable};
use domain::run::{Iac, IacKind, OnDisconnect};
use domain::setup::Temperature;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, CallToolResult, ErrorData, JsonObject, Tool};
use serde_json::{Value, json};

use super::super::call::Call;
use super::super::waiting;
use super::Dialect;
use crate::app::{App, AppError, Attachment, Start, WaitUntil};
use crate::env;
use tools::Spawner;

const INSTRUCTIONS: &str = include_str!("instructions.md");
const BRIEFING: &str = include_str!("briefing.md");
const KEYS: &str = "api_keys.json";
const AGENTS: &str = "AGENTS.md";
/// The most of `AGENTS.md` that is put before a task.
const AGENTS_BYTES_MAX: u64 = 256 << 10;
/// How long `wait_for_agents` waits by itself.
const WAIT_S: u64 = 300;
const TIMEOUT_S_MAX: u64 = 86_400;
/// How long an agent of Claude may take that shall test something.
const TEST_TIMEOUT_S: u64 = 600;
/// How freely the models of the APIs choose their words.
const TEMPERATURE: Temperature = Temperature(700);
/// How many results are given if nothing runs.
const RECENT: usize = 5;

pub(super) struct Powerspawn {
    project: PathBuf,
    /// The most that programs may do.
    most: Level,
}

/// Finds the project, and what its agents may do.
pub(super) async fn open(app: &App) -> Result<Powerspawn, AppError> {
    let project = app.project().ok_or_else(|| AppError::usage("there is no project here"))?;
    // Whoever was lost while no server was there is found now, and IAC.md put right.
    app.iac_entries().await?;
    Ok(Powerspawn { project, most: app.config().powerspawn_permission.value })
}

impl Powerspawn {
    async fn spawn(
        &self,
        call: &Call<'_>,
        spawner: &Spawner,
        arguments: &JsonObject,
    ) -> Result<CallToolResult, AppError> {
        let asked = Asked::read(spawner, arguments)?;
        let chosen = models::choose(&self.project, spawner.provider, spawner.model, asked.model.as_deref());
        let mut warnings: Vec<String> = chosen.warning.into_iter().collect();
        let keys = models::find(&self.project, KEYS).filter(|_| spawner.kind == IacKind::Api);
        if let Some(keys) = &keys {
            warnings.extend(call.door.app.doubts_about_keys(keys.clone()).await);
        }
        let briefing = self.briefing(spawner);
        let iac = Iac {
            agent_type: spawner.agent_type.to_owned(),
            label: spawner.label.to_owned(),
            kind: spawner.kind,
            task_at: briefing.len(),
        };
        let agent = self.agent(spawner, &asked, keys.as_deref())?;
        let start = Start {
            agent: agent.name.to_string(),
            definition: Some(Box::new(agent)),
            prompt: format!("{briefing}{}", asked.prompt),
            model: chosen.model.clone(),
            iac: Some(iac),
            limits: AskedLimits { timeout_ms: Some(asked.timeout_s * 1_000), ..AskedLimits::default() },
            on_disconnect: Some(OnDisconnect::Continue),
            attachment: Attachment::Detached,
            ..Start::default()
        };
        let started = call.door.app.start(start).await?;
        warnings.extend(started.warnings);
        Ok(reply::spawned(started.run_id, spawner.agent_type, chosen.model.as_deref(), &warnings))
    }

    /// Makes the agent that a tool means; no file defines it.
    fn agent(&self, spawner: &Spawner, asked: &Asked, keys: Option<&Path>) -> Result<Agent, AppError> {
        let wrong = |error: domain::id::IdError| AppError::internal(error.to_string());
        let source = Source {
            file: format!("(powerspawn: {})", spawner.tool),
            format: Format::Volery,
            layer: Layer::Default,
        };
        let name = spawner.agent_type.replace('_', "-").parse().map_err(wrong)?;
        let mut agent = Agent::new(name, spawner.backend.parse().map_err(wrong)?, source);
        agent.system_prompt = asked.system_prompt.clone().unwrap_or_default();
        let setup = &mut agent.setup;
        match spawner.kind {
            IacKind::Cli => {
                setup.permission.level = Some(self.level(spawner, asked.loose));
                // Nobody has demanded more than the document promises.
                setup.unenforceable = match self.most {
                    Level::Yolo => Unenforceable::Warn,
                    Level::ReadOnly | Level::SafeEdit => Unenforceable::Refuse,
                };
                setup.tools =
                    spawner.tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect());
            }
            IacKind::Api => {
                setup.temperature = Some(TEMPERATURE);
                setup.key_file = keys.map(|keys| keys.display().to_string());
            }
        }
        Ok(agent)
    }

    /// Returns what a program may do: as the caller says, and never more than the configuration.
    fn level(&self, spawner: &Spawner, loose: Option<bool>) -> Level {
        let Some(loosening) = spawner.loosening else { return self.most };
        match loose.or(loosening.default) {
            Some(false) => loosening.without.min(self.most),
            Some(true) | None => self.most,
        }
    }

    /// Returns what is put before a task.
    fn briefing(&self, spawner: &Spawner) -> String {
        if !spawner.is_briefed || env::get(env::POWERSPAWN_NO_AGENTS_CONTEXT).is_some() {
            return String::new();
        }
        let path = self.project.join(AGENTS);
        let claudes = self.project.join("CLAUDE.md");
        // Where both are the same file, the program reads it by itself.
        let same = claudes.canonicalize().ok().is_some_and(|file| path.canonicalize().ok() == Some(file));
        match read_briefly(&path).filter(|text| !same && !text.trim().is_empty()) {
            Some(agents) => BRIEFING.replace("{{AGENTS}}", agents.trim()),
            None => String::new(),
        }
    }

    async fn result(&self, call: &Call<'_>, arguments: &JsonObject) -> Result<CallToolResult, AppError> {
        let id = arguments.get("agent_id").and_then(Value::as_str).unwrap_or_default().trim();
        if id.is_empty() {
            return Err(AppError::usage("agent_id is required and must be a string"));
        }
        let id = id.strip_prefix('#').unwrap_or(id).to_owned();
        Ok(match call.door.app.iac_entry(id).await? {
            None => reply::not_found(),
            Some((entry, _)) if entry.is_running() => reply::running(&entry),
            Some((entry, output)) => reply::of(&reply::completed(&entry, &output)),
        })
    }

    async fn wait(&self, call: &Call<'_>, arguments: &JsonObject) -> Result<CallToolResult, AppError> {
        let wait_s = match arguments.get("timeout").filter(|value| !value.is_null()) {
            None => WAIT_S,
            Some(value) => {
                whole_number(value).ok_or_else(|| AppError::usage("timeout must be a number of seconds"))?
            }
        };
        let entries = call.door.app.iac_entries().await?;
        let running: Vec<String> = entries
            .iter()
            .filter(|entry| entry.is_running())
            .map(|entry| entry.spec.id.to_string())
            .collect();
        if running.is_empty() {
            let recent = entries.iter().take(RECENT).map(|entry| entry.spec.id.to_string()).collect();
            let results = self.results(call, recent).await?.0;
            return Ok(reply::of(&json!({ "status": "no_agents_running", "recent_results": results })));
        }
        // However the wait ends: what is said is how things stand then.
        waiting::wait(call, running.clone(), WaitUntil::All, call.patience(Some(wait_s))).await?;
        let (results, still) = self.results(call, running).await?;
        Ok(reply::of(&match still.is_empty() {
            true => json!({ "status": "all_completed", "results": results }),
            false => json!({ "status": "timeout", "still_running": still, "completed_results": results }),
        }))
    }

    /// Returns the results of agents, and those that still run.
    async fn results(
        &self,
        call: &Call<'_>,
        runs: Vec<String>,
    ) -> Result<(Vec<Value>, Vec<Value>), AppError> {
        let (mut results, mut still) = (Vec::new(), Vec::new());
        for run in runs {
            match call.door.app.iac_entry(run).await? {
                Some((entry, _)) if entry.is_running() => still.push(reply::short(&entry)),
                Some((entry, output)) => results.push(reply::completed(&entry, &output)),
                None => {}
            }
        }
        Ok((results, still))
    }
}

/// What a call of a tool that spawns asks for.
struct Asked {
    prompt: String,
    model: Option<String>,
    system_prompt: Option<String>,
    timeout_s: u64,
    loose: Option<bool>,
}

impl Asked {
    fn read(spawner: &Spawner, arguments: &JsonObject) -> Result<Self, AppError> {
        let given = |key: &str| arguments.get(key).filter(|value| !value.is_null());
        let text = |key: &str| match given(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
            Some(_) => Err(AppError::usage(format!("{key} must be a string"))),
        };
        let prompt =
            text("prompt")?.ok_or_else(|| AppError::usage("prompt is required and must be a string"))?;
        let timeout_s = match given("timeout") {
            None if spawner.agent_type == "claude" && is_about_tests(&prompt) => TEST_TIMEOUT_S,
            None => spawner.timeout_s,
            Some(value) => whole_number(value)
                .filter(|seconds| (1..=TIMEOUT_S_MAX).contains(seconds))
                .ok_or_else(|| {
                    AppError::usage(format!("timeout must be a number of seconds from 1 to {TIMEOUT_S_MAX}"))
                })?,
        };
        let loose = match spawner.loosening.and_then(|loosening| Some((loosening.key, given(loosening.key)?)))
        {
            None => None,
            Some((_, Value::Bool(loose))) => Some(*loose),
            Some((key, _)) => return Err(AppError::usage(format!("{key} must be true or false"))),
        };
        let system_prompt = if spawner.takes_system_prompt { text("system_prompt")? } else { None };
        Ok(Self { prompt, model: text("model")?, system_prompt, timeout_s, loose })
    }
}

/// The document gives tasks that test something more time.
fn is_about_tests(prompt: &str) -> bool {
    let mut words = prompt.split(|letter: char| !letter.is_alphanumeric());
    words.any(|word| ["test", "tests", "testing", "pytest"].contains(&word.to_lowercase().as_str()))
}

/// Returns a number of seconds, also where a client writes it as a text or with a point.
fn whole_number(value: &Value) -> Option<u64> {
    let decimal =
        || value.as_f64().filter(|seconds| (0.0..1e9).contains(seconds)).map(|seconds| seconds.ceil() as u64);
    value.as_u64().or_else(decimal).or_else(|| value.as_str()?.trim().parse().ok())
}

fn read_briefly(path: &Path) -> Option<String> {
    // Opening a pipe must not wait, and a link may lead out of the project.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(AGENTS_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

impl Dialect for Powerspawn {
    fn name(&self) -> DialectName {
        DialectName::Powerspawn
    }

    fn server(&self) -> String {
        "agents".to_owned()
    }

    fn instructions(&self) -> String {
        let permission = match self.most {
            Level::Yolo => {
                "They run as yolo: they change files and run commands without asking, unless a call says otherwise."
            }
            Level::SafeEdit => "They may edit files in the project; what is beyond that is denied.",
            Level::ReadOnly => "They may only read.",
        };
        INSTRUCTIONS.trim_end().replace("{{PERMISSION}}", permission)
    }

    fn tools(&self) -> Vec<Tool> {
        tools::list()
    }

    fn call<'a>(
        &'a self,
        call: Call<'a>,
        tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        async move {
            let answer = match (tools::of(tool), tool) {
                (Some(spawner), _) => self.spawn(&call, spawner, &arguments).await,
                (None, "result") => self.result(&call, &arguments).await,
                (None, "wait_for_agents") => self.wait(&call, &arguments).await,
                (None, _) => call.door.app.iac_entries().await.map(|entries| reply::list(&entries)),
            };
            Ok(answer.unwrap_or_else(|error| reply::error(&error)).into())
        }
        .boxed()
    }
}
