//! The dialect of PowerSpawn: a tool for each kind of agent, which returns at once, and three tools to look at them. The id of
//! an agent is the short one of its run, everywhere; what runs is read from the journal, so every server of a project says the
//! same, also after a restart.

mod answer;
mod asked;
mod models;
mod reply;
mod tools;
mod version;

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use domain::agent::{Agent, Format, Layer, Source};
use domain::budget::AskedLimits;
use domain::dialect::DialectName;
use domain::permission::{Level, Unenforceable};
use domain::run::{Iac, IacKind, OnDisconnect};
use domain::setup::Temperature;
use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{CallToolResponse, ErrorData, JsonObject, Tool};
use serde_json::{Value, json};

use super::super::call::Call;
use super::super::waiting;
use super::{Dialect, Inheritance};
use crate::app::{App, AppError, Attachment, Entry, ErrorKind, GetRun, Start, WaitUntil};
use crate::env;
use asked::{Asked, whole_number};
use tools::Spawner;
use version::Version;
pub(crate) use version::find as find_version;

const INSTRUCTIONS: &str = include_str!("instructions.md");
const BRIEFING: &str = include_str!("briefing.md");
const KEYS: &str = "api_keys.json";
const AGENTS: &str = "AGENTS.md";
/// The most of `AGENTS.md` that is put before a task.
const AGENTS_BYTES_MAX: usize = 256 << 10;
/// How long `wait_for_agents` waits by itself.
const WAIT_S: u64 = 300;
/// How freely the models of the APIs choose their words.
const TEMPERATURE: Temperature = Temperature(700);
/// How many results are given if nothing runs.
const RECENT: usize = 5;

pub(super) struct Powerspawn {
    project: PathBuf,
    ground: Ground,
    /// Whoever spawns was told that there is no project.
    told: AtomicBool,
    /// The most that programs may do.
    most: Level,
    /// `AGENTS.md` is put before tasks.
    briefs: bool,
    version: Version,
    gives: Inheritance,
}

/// What the place is where agents would work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    Project,
    /// A folder that nobody has marked as a project.
    Plain,
    /// Where clients start servers that they start anywhere: the root, or the user's home.
    Nowhere,
}

/// Finds the project, and what its agents may do.
pub(super) async fn open(app: &App, gives: Inheritance) -> Result<Powerspawn, AppError> {
    let project = app.project().ok_or_else(|| AppError::usage("there is no project here"))?;
    // Whoever was lost while no server was there is found now, and IAC.md put right.
    app.iac_entries().await?;
    let home = env::home().and_then(|home| home.canonicalize().ok());
    let is_nowhere = project.parent().is_none() || project.canonicalize().ok() == home;
    let ground = match (app.is_in_project(), is_nowhere) {
        (true, _) => Ground::Project,
        (false, false) => Ground::Plain,
        (false, true) => Ground::Nowhere,
    };
    let config = app.config();
    let most = config.powerspawn_permission.value;
    let version = version::of(env::trimmed(env::text(env::POWERSPAWN_VERSION)).as_deref(), &project)?;
    let context = &config.powerspawn_agents_context;
    let briefs = match context.layer {
        Layer::Default => version == Version::V1_8,
        _ => context.value,
    };
    Ok(Powerspawn { project, ground, told: AtomicBool::new(false), most, briefs, version, gives })
}

impl Powerspawn {
    async fn spawn(
        &self,
        call: &Call<'_>,
        spawner: &Spawner,
        arguments: &JsonObject,
    ) -> Result<Value, AppError> {
        let asked = Asked::read(spawner, arguments)?;
        let mut warnings: Vec<String> = self.check_ground(spawner)?.into_iter().collect();
        let chosen = models::choose(&self.project, self.version, spawner, asked.model.as_deref());
        warnings.extend(chosen.warnings);
        let keys = models::find(&self.project, KEYS).filter(|_| spawner.kind == IacKind::Api);
        if let Some(keys) = &keys {
            warnings.extend(call.door.app.doubts_about_keys(keys.clone()).await);
        }
        let Briefing { text: briefing, warning } = self.briefing(spawner);
        warnings.extend(warning);
        let iac = Iac {
            agent_type: spawner.agent_type.to_owned(),
            label: spawner.label.to_owned(),
            kind: spawner.kind,
            task_at: briefing.len(),
            shown: None,
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
            unattended: call.unattended(),
            ..Start::default()
        };
        let started = call.door.app.start(start).await?;
        warnings.extend(started.warnings);
        Ok(reply::spawned(started.run_id, spawner.agent_type, chosen.model.as_deref(), warnings))
    }

    /// Programs that ask nobody are let loose in no place that nobody has chosen. Returns what is said once.
    fn check_ground(&self, spawner: &Spawner) -> Result<Option<String>, AppError> {
        let place = self.project.display();
        match (self.ground, spawner.kind) {
            (Ground::Project, _) => Ok(None),
            (Ground::Nowhere, IacKind::Cli) => {
                let message = format!("there is no project here: this server was started in {place}");
                let hint = format!(
                    "start it in the project's directory; or make a folder {} if agents shall work there",
                    self.project.join(".volery").display()
                );
                Err(AppError::denied(message).hint(hint))
            }
            (Ground::Plain, _) | (Ground::Nowhere, IacKind::Api) => {
                let text =
                    format!("no project was found, so {place} is taken for one: it has no .git or .volery");
                Ok((!self.told.swap(true, Ordering::Relaxed)).then_some(text))
            }
        }
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
                self.gives.give(setup);
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
    fn briefing(&self, spawner: &Spawner) -> Briefing {
        let unwanted = !self.briefs || env::get(env::POWERSPAWN_NO_AGENTS_CONTEXT).is_some();
        if !spawner.is_briefed || unwanted {
            return Briefing::default();
        }
        let path = self.project.join(AGENTS);
        let claudes = self.project.join("CLAUDE.md");
        // Where both are the same file, the program reads it by itself.
        let same = claudes.canonicalize().ok().is_some_and(|file| path.canonicalize().ok() == Some(file));
        let Some(agents) = read_briefly(&path).filter(|text| !same && !text.trim().is_empty()) else {
            return Briefing::default();
        };
        let whole = domain::size::head(&agents, AGENTS_BYTES_MAX);
        let warning = (whole.len() < agents.len())
            .then(|| format!("{AGENTS} has more than 256 KiB: only its beginning is put before the task"));
        Briefing { text: BRIEFING.replace("{{AGENTS}}", whole.trim()), warning }
    }

    async fn result(&self, call: &Call<'_>, arguments: &JsonObject) -> Result<Value, AppError> {
        let id = arguments.get("agent_id").and_then(Value::as_str).unwrap_or_default().trim();
        if id.is_empty() {
            return Err(AppError::usage("agent_id is required and must be a string"));
        }
        let id = id.strip_prefix('#').unwrap_or(id).to_owned();
        let most = call.client.result_bytes;
        Ok(match call.door.app.iac_entry(id, most).await? {
            None => reply::not_found(),
            Some((entry, _)) if entry.is_running() => reply::running(&entry),
            Some((entry, answer)) => {
                let notes = self.notes(call, &entry).await;
                reply::completed(&entry, &answer, most, notes)
            }
        })
    }

    /// Returns what the agent of a run that has ended was denied or did not get.
    async fn notes(&self, call: &Call<'_>, entry: &Entry) -> Vec<String> {
        let ask = GetRun { run: entry.spec.id.to_string(), result_max: 0, ..GetRun::default() };
        // The answer itself was read before, and is given without them if the record is gone by now.
        let Ok(found) = call.door.app.get_run(ask).await else { return Vec::new() };
        self.gives.notes(&found.run)
    }

    async fn wait(&self, call: &Call<'_>, arguments: &JsonObject) -> Result<Value, AppError> {
        let wait_s = match arguments.get("timeout").filter(|value| !value.is_null()) {
            None => WAIT_S,
            Some(value) => {
                whole_number(value).ok_or_else(|| AppError::usage("timeout must be a number of seconds"))?
            }
        };
        let entries = call.door.app.iac_entries().await?;
        // The oldest first, as PowerSpawn answers.
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
        // However the wait ends: what is said is how things stand then, also if one of them is gone by now.
        match waiting::wait(call, running.clone(), WaitUntil::All, call.patience(Some(wait_s))).await {
            Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
        let (results, still) = self.results(call, running).await?;
        Ok(match still.is_empty() {
            true => json!({ "status": "all_completed", "results": results }),
            false => json!({ "status": "timeout", "still_running": still, "completed_results": results }),
        })
    }

    /// Returns the results of agents, all of them as long as one may be, and the ids of those that still run.
    async fn results(
        &self,
        call: &Call<'_>,
        runs: Vec<String>,
    ) -> Result<(Vec<Value>, Vec<Value>), AppError> {
        let most = call.client.result_bytes;
        let (mut ended, mut still) = (Vec::new(), Vec::new());
        for run in runs {
            match call.door.app.iac_entry(run, most).await? {
                Some((entry, _)) if entry.is_running() => still.push(Value::from(entry.spec.id.short())),
                Some((entry, answer)) => {
                    let notes = self.notes(call, &entry).await;
                    ended.push((entry, answer, notes));
                }
                None => {}
            }
        }
        let each = answer::share(ended.iter().map(|(_, answer, _)| answer::bytes(answer)).collect(), most);
        let results =
            ended.into_iter().map(|(entry, answer, notes)| reply::completed(&entry, &answer, each, notes));
        Ok((results.collect(), still))
    }
}

/// What is put before a task, and what is worth saying about it.
#[derive(Default)]
struct Briefing {
    text: String,
    warning: Option<String>,
}

fn read_briefly(path: &Path) -> Option<String> {
    // Opening a pipe must not wait, and a link may lead out of the project.
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    // One more tells that it is not all.
    file.take(AGENTS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
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
                "They run as yolo: they change files and run commands without asking, unless a call says otherwise; spawn_grok_cli only reads, unless force is given."
            }
            Level::SafeEdit => "They may edit files in the project; what is beyond that is denied.",
            Level::ReadOnly => "They may only read.",
        };
        let (programs, services) = match self.version {
            Version::V1_6 => ("spawn_grok_cli", "spawn_grok"),
            Version::V1_8 => ("spawn_grok", "spawn_grok_api"),
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
        call: Call<'a>,
        tool: &'a str,
        arguments: JsonObject,
    ) -> BoxFuture<'a, Result<CallToolResponse, ErrorData>> {
        async move {
            let answer = match (tools::of(self.version, tool), tool) {
                (Some(spawner), _) => self.spawn(&call, &spawner, &arguments).await,
                (None, "result") => self.result(&call, &arguments).await,
                (None, "wait_for_agents") => self.wait(&call, &arguments).await,
                (None, _) => call.door.app.iac_entries().await.map(|entries| reply::list(&entries)),
            };
            let value = answer.unwrap_or_else(|error| reply::error(&error));
            Ok(reply::of(value, tools::ignored(self.version, tool, &arguments)).into())
        }
        .boxed()
    }
}
