//! The dialect of PowerSpawn: a tool for each kind of agent, which returns immediately, and three tools to query them. The
//! id of an agent is the short id of its run. The state comes from the journal, so all servers of a project agree, also
//! after a restart.

mod answer_excerpt;
mod models;
mod reply;
mod spawn_request;
mod tools;
mod version;

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use domain::agent::{Agent, AgentFormat, AgentSource, Layer};
use domain::budget::RequestedLimits;
use domain::dialect::DialectName;
use domain::permission::{Level, Unenforceable};
use domain::run::{Iac, IacKind, OnDisconnect};
use domain::setup::Temperature;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, ErrorData, JsonObject, Tool};
use serde_json::{Value, json};

use super::super::tool_call::ToolCall;
use super::super::wait_for_runs;
use super::{Inheritance, ToolDialect};
use engine::env;
use engine::{Attachment, EngineError, EngineHandle, ErrorKind, GetRun, IacEntry, StartRequest, WaitUntil};
use spawn_request::{SpawnRequest, whole_number};
use tools::Spawner;
use version::PowerspawnVersion;
pub(crate) use version::find as find_version;

const INSTRUCTIONS: &str = include_str!("instructions.md");
const BRIEFING: &str = include_str!("briefing.md");
const KEYS: &str = "api_keys.json";
const AGENTS: &str = "AGENTS.md";
/// How much of `AGENTS.md` is put before a task.
const AGENTS_BYTES_MAX: usize = 256 << 10;
/// The default timeout of `wait_for_agents`.
const WAIT_S: u64 = 300;
/// The sampling temperature of the API models.
const TEMPERATURE: Temperature = Temperature(700);
/// How many recent results are returned if no agent runs.
const RECENT: usize = 5;

pub(super) struct Powerspawn {
    project: PathBuf,
    workspace: WorkspaceKind,
    /// The warning about a missing project was sent.
    warned: AtomicBool,
    /// The maximum permission of programs.
    max_level: Level,
    /// `AGENTS.md` is put before tasks.
    adds_agents_file: bool,
    version: PowerspawnVersion,
    inheritance: Inheritance,
}

/// The kind of directory in which agents would work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkspaceKind {
    Project,
    /// A folder without project markers.
    Plain,
    /// The root or the user's home, where clients start servers without a project.
    HomeOrRoot,
}

/// Finds the project, and the permissions of its agents.
pub(super) async fn open(app: &EngineHandle, inheritance: Inheritance) -> Result<Powerspawn, EngineError> {
    let project = app.project().ok_or_else(|| EngineError::usage("there is no project here"))?;
    // Ends runs that were lost while no server ran, and updates IAC.md.
    app.ask(engine::ListIacEntries).await?;
    let home = env::home().and_then(|home| home.canonicalize().ok());
    let is_home_or_root = project.parent().is_none() || project.canonicalize().ok() == home;
    let workspace = match (app.has_project(), is_home_or_root) {
        (true, _) => WorkspaceKind::Project,
        (false, false) => WorkspaceKind::Plain,
        (false, true) => WorkspaceKind::HomeOrRoot,
    };
    let config = app.config();
    let max_level = config.powerspawn_permission.value;
    let version = version::detect(env::trimmed(env::text(env::POWERSPAWN_VERSION)).as_deref(), &project)?;
    let context = &config.powerspawn_agents_context;
    let adds_agents_file = match context.layer {
        Layer::Default => version == PowerspawnVersion::V1_8,
        _ => context.value,
    };
    Ok(Powerspawn {
        project,
        workspace,
        warned: AtomicBool::new(false),
        max_level,
        adds_agents_file,
        version,
        inheritance,
    })
}

impl Powerspawn {
    async fn spawn(
        &self,
        call: &ToolCall<'_>,
        spawner: &Spawner,
        arguments: &JsonObject,
    ) -> Result<Value, EngineError> {
        let request = SpawnRequest::read(spawner, arguments)?;
        let mut warnings: Vec<String> = self.check_workspace(spawner)?.into_iter().collect();
        let chosen = models::choose(&self.project, self.version, spawner, request.model.as_deref());
        warnings.extend(chosen.warnings);
        let keys = models::find(&self.project, KEYS).filter(|_| spawner.kind == IacKind::Api);
        if let Some(keys) = &keys {
            warnings.extend(
                call.handler
                    .engine
                    .ask(engine::CheckKeyFile { file: keys.clone() })
                    .await
                    .unwrap_or_default(),
            );
        }
        let Briefing { text: briefing, warning } = self.briefing(spawner);
        warnings.extend(warning);
        let iac = Iac {
            agent_type: spawner.agent_type.to_owned(),
            label: spawner.label.to_owned(),
            kind: spawner.kind,
            task_at: briefing.len(),
            redacted_task: None,
        };
        let agent = self.agent(spawner, &request, keys.as_deref())?;
        let start = StartRequest {
            agent: agent.name.to_string(),
            definition: Some(Box::new(agent)),
            prompt: format!("{briefing}{}", request.prompt),
            model: chosen.model.clone(),
            iac: Some(iac),
            limits: RequestedLimits {
                timeout_ms: Some(request.timeout_s * 1_000),
                ..RequestedLimits::default()
            },
            on_disconnect: Some(OnDisconnect::Continue),
            attachment: Attachment::Detached,
            unattended: call.unattended(),
            ..StartRequest::default()
        };
        let started = call.handler.engine.ask(start).await?;
        warnings.extend(started.warnings);
        Ok(reply::spawned(started.run_id, spawner.agent_type, chosen.model.as_deref(), warnings))
    }

    /// Refuses to start unattended programs in a directory that nobody chose. Returns a warning, once.
    fn check_workspace(&self, spawner: &Spawner) -> Result<Option<String>, EngineError> {
        let directory = self.project.display();
        match (self.workspace, spawner.kind) {
            (WorkspaceKind::Project, _) => Ok(None),
            (WorkspaceKind::HomeOrRoot, IacKind::Cli) => {
                let message = format!("there is no project here: this server was started in {directory}");
                let hint = format!(
                    "start it in the project's directory; or make a folder {} if agents shall work there",
                    self.project.join(".volery").display()
                );
                Err(EngineError::denied(message).hint(hint))
            }
            (WorkspaceKind::Plain, _) | (WorkspaceKind::HomeOrRoot, IacKind::Api) => {
                let text = format!(
                    "no project was found, so {directory} is taken for one: it has no .git or .volery"
                );
                Ok((!self.warned.swap(true, Ordering::Relaxed)).then_some(text))
            }
        }
    }

    /// Builds the agent of a tool; no file defines it.
    fn agent(
        &self,
        spawner: &Spawner,
        request: &SpawnRequest,
        keys: Option<&Path>,
    ) -> Result<Agent, EngineError> {
        let wrong = |error: domain::id::IdError| EngineError::internal(error.to_string());
        let source = AgentSource {
            file: format!("(powerspawn: {})", spawner.tool),
            format: AgentFormat::Volery,
            layer: Layer::Default,
        };
        let name = spawner.agent_type.replace('_', "-").parse().map_err(wrong)?;
        let mut agent = Agent::new(name, spawner.backend.parse().map_err(wrong)?, source);
        agent.system_prompt = request.system_prompt.clone().unwrap_or_default();
        let setup = &mut agent.setup;
        match spawner.kind {
            IacKind::Cli => {
                self.inheritance.apply_to(setup);
                setup.permission.level = Some(self.level(spawner, request.unrestricted));
                // PowerSpawn's documentation promises no more.
                setup.unenforceable = match self.max_level {
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

    /// Returns the permission of a program: as the caller requests, at most that of the configuration.
    fn level(&self, spawner: &Spawner, unrestricted: Option<bool>) -> Level {
        let Some(unrestricted_flag) = spawner.unrestricted_flag else { return self.max_level };
        match unrestricted.or(unrestricted_flag.default) {
            Some(false) => unrestricted_flag.without.min(self.max_level),
            Some(true) | None => self.max_level,
        }
    }

    /// Returns the text that is put before a task.
    fn briefing(&self, spawner: &Spawner) -> Briefing {
        let unwanted = !self.adds_agents_file || env::get(env::POWERSPAWN_NO_AGENTS_CONTEXT).is_some();
        if !spawner.gets_agents_file || unwanted {
            return Briefing::default();
        }
        let path = self.project.join(AGENTS);
        let claudes = self.project.join("CLAUDE.md");
        // If both are the same file, the program reads it itself.
        let same = claudes.canonicalize().ok().is_some_and(|file| path.canonicalize().ok() == Some(file));
        let Some(agents) = read_agents_file(&path).filter(|text| !same && !text.trim().is_empty()) else {
            return Briefing::default();
        };
        let whole = domain::size::head(&agents, AGENTS_BYTES_MAX);
        let warning = (whole.len() < agents.len())
            .then(|| format!("{AGENTS} has more than 256 KiB: only its beginning is put before the task"));
        Briefing { text: BRIEFING.replace("{{AGENTS}}", whole.trim()), warning }
    }

    async fn result(&self, call: &ToolCall<'_>, arguments: &JsonObject) -> Result<Value, EngineError> {
        let id = arguments.get("agent_id").and_then(Value::as_str).unwrap_or_default().trim();
        if id.is_empty() {
            return Err(EngineError::usage("agent_id is required and must be a string"));
        }
        let id = id.strip_prefix('#').unwrap_or(id).to_owned();
        let bytes_max = call.client.result_bytes;
        Ok(match call.handler.engine.ask(engine::GetIacEntry { id, bytes_max }).await? {
            None => reply::not_found(),
            Some((entry, _)) if entry.is_running() => reply::running(&entry),
            Some((entry, answer)) => {
                let notes = self.notes(call, &entry).await;
                reply::completed(&entry, &answer, bytes_max, notes)
            }
        })
    }

    /// Returns the notes about denials of an ended run.
    async fn notes(&self, call: &ToolCall<'_>, entry: &IacEntry) -> Vec<String> {
        let request = GetRun { run: entry.spec.id.to_string(), result_max: 0, ..GetRun::default() };
        // If the run was deleted meanwhile, its answer is returned without notes.
        let Ok(found) = call.handler.engine.ask(request).await else { return Vec::new() };
        self.inheritance.notes(&found.run)
    }

    async fn wait(&self, call: &ToolCall<'_>, arguments: &JsonObject) -> Result<Value, EngineError> {
        let wait_s = match arguments.get("timeout").filter(|value| !value.is_null()) {
            None => WAIT_S,
            Some(value) => whole_number(value)
                .ok_or_else(|| EngineError::usage("timeout must be a number of seconds"))?,
        };
        let entries = call.handler.engine.ask(engine::ListIacEntries).await?;
        // The oldest first, as in PowerSpawn.
        let running: Vec<String> = entries
            .iter()
            .rev()
            .filter(|entry| entry.is_running())
            .map(|entry| entry.spec.id.to_string())
            .collect();
        if running.is_empty() {
            let recent = entries.iter().take(RECENT).rev().map(|entry| entry.spec.id.to_string()).collect();
            let results = self.results(call, recent).await?.0;
            return Ok(json!({ "status": "no_agents_running", "recent_results": results }));
        }
        // The state is read after the wait, however it ended, even if a run was deleted meanwhile.
        match wait_for_runs::wait(call, running.clone(), WaitUntil::All, call.remaining_wait(Some(wait_s)))
            .await
        {
            Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
        let (results, still) = self.results(call, running).await?;
        Ok(match still.is_empty() {
            true => json!({ "status": "all_completed", "results": results }),
            false => json!({ "status": "timeout", "still_running": still, "completed_results": results }),
        })
    }

    /// Returns the results of agents, which share the size limit of one answer, and the ids of those that still run.
    async fn results(
        &self,
        call: &ToolCall<'_>,
        runs: Vec<String>,
    ) -> Result<(Vec<Value>, Vec<Value>), EngineError> {
        let bytes_max = call.client.result_bytes;
        let (mut ended, mut still) = (Vec::new(), Vec::new());
        for run in runs {
            match call.handler.engine.ask(engine::GetIacEntry { id: run, bytes_max }).await? {
                Some((entry, _)) if entry.is_running() => still.push(Value::from(entry.spec.id.short())),
                Some((entry, answer)) => {
                    let notes = self.notes(call, &entry).await;
                    ended.push((entry, answer, notes));
                }
                None => {}
            }
        }
        let each = answer_excerpt::share(
            ended.iter().map(|(_, answer, _)| answer_excerpt::bytes(answer)).collect(),
            bytes_max,
        );
        let results =
            ended.into_iter().map(|(entry, answer, notes)| reply::completed(&entry, &answer, each, notes));
        Ok((results.collect(), still))
    }
}

/// The text that is put before a task, and a warning about it.
#[derive(Default)]
struct Briefing {
    text: String,
    warning: Option<String>,
}

fn read_agents_file(path: &Path) -> Option<String> {
    // Opening a pipe must not block, and a link may lead out of the project.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    // One byte more shows that the file is longer.
    file.take(AGENTS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

impl ToolDialect for Powerspawn {
    fn name(&self) -> DialectName {
        DialectName::Powerspawn
    }

    fn server(&self) -> String {
        "agents".to_owned()
    }

    fn instructions(&self) -> String {
        let permission = match self.max_level {
            Level::Yolo => {
                "They run as yolo: they change files and run commands without asking, unless a call says otherwise; spawn_grok_cli only reads, unless force is given."
            }
            Level::SafeEdit => "They may edit files in the project; what is beyond that is denied.",
            Level::ReadOnly => "They may only read.",
        };
        let (programs, services) = match self.version {
            PowerspawnVersion::V1_6 => ("spawn_grok_cli", "spawn_grok"),
            PowerspawnVersion::V1_8 => ("spawn_grok", "spawn_grok_api"),
        };
        INSTRUCTIONS
            .trim_end()
            .replace("{{PERMISSION}}", &permission.replace("spawn_grok_cli", programs))
            .replace("{{GROK_PROGRAM}}", programs)
            .replace("{{GROK_SERVICE}}", services)
    }

    fn tools(&self) -> Vec<Tool> {
        tools::list(self.version)
    }

    fn call<'a>(
        &'a self,
        call: ToolCall<'a>,
        tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        async move {
            let answer = match (tools::find_spawner(self.version, tool), tool) {
                (Some(spawner), _) => self.spawn(&call, &spawner, &arguments).await,
                (None, "result") => self.result(&call, &arguments).await,
                (None, "wait_for_agents") => self.wait(&call, &arguments).await,
                (None, _) => {
                    call.handler.engine.ask(engine::ListIacEntries).await.map(|entries| reply::list(&entries))
                }
            };
            let value = answer.unwrap_or_else(|error| reply::error(&error));
            Ok(reply::build_result(value, tools::ignored(self.version, tool, &arguments)).into())
        }
        .boxed()
    }
}
