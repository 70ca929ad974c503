//! One agent as it is understood: its resolved definition, and how a run of it would be started. No run is started,
//! and no value of a secret is shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backend::contract::{self, Backend, Drive, Feed, Setting};
use backend::program::Found;
use backend::user::User;
use domain::agent::{Agent, Callers, Format};
use domain::overlay::Settled;
use domain::plan::{Order, Place, plan};
use domain::run::{BackendSpec, RunSpec};
use domain::secret::{
    lines_without_secrets, prose_without_keys, value_without_secrets, words_without_secrets,
};
use serde_json::Value;

use super::agents::agent_view;
use super::engine::Engine;
use super::start::find_agent;
use super::{AgentPage, AppError, InvocationView, ShowAgent};
use crate::registry::Catalogue;
use crate::{clock, env, own_program};

/// Stands for the caller's prompt.
const PROMPT: &str = "PROMPT";
/// Stands for the run's work folder.
const WORK: &str = "WORK";
const HIDDEN: &str = "[redacted]";
/// Keys that the page shows by themselves, or that say nothing.
const SHOWN_APART: [&str; 13] = [
    "name",
    "description",
    "backend",
    "model",
    "system_prompt",
    "use_when",
    "avoid_when",
    "capabilities",
    "inputs",
    "source",
    "setup",
    "limits",
    "script",
];

/// How a run of an agent would be driven, as far as that is known without its user.
pub(super) struct Driven {
    driver: &'static dyn Backend,
    spec: RunSpec,
    found: Option<Found>,
    drive: Drive,
}

impl Engine {
    pub(super) fn show_agent(&self, ask: &ShowAgent) -> Result<AgentPage, AppError> {
        let (directory, catalogue) = self.place(ask.directory.as_deref())?;
        let found = find_agent(&catalogue, &directory, &ask.agent)?;
        let Settled { mut agent, grants, warnings: said } = self.settled(&catalogue, found);
        hide_secrets(&mut agent);
        let programs = self.project_programs(&catalogue, &directory);
        let standing = self.standing(&catalogue, &agent, &directory, &programs);
        let mut warnings = [said, standing.unhonoured.clone()].concat();
        let invocation = match self.configured_backend(&catalogue, &agent) {
            Ok(backend) if agent.source.format != Format::Directive => {
                // What refuses a run is why the agent is blocked.
                warnings.extend(programs.weigh(&backend, &[]).unwrap_or_default());
                let invocation = self.invocation(&catalogue, &agent, &backend, &directory);
                let (view, told) = match invocation {
                    Ok(Some((view, told))) => (Some(view), told),
                    Ok(None) => (None, Vec::new()),
                    Err(error) => (None, vec![error.to_string()]),
                };
                // It may be why the agent is blocked.
                warnings.extend(told.into_iter().filter(|told| standing.problem.as_ref() != Some(told)));
                view
            }
            Ok(_) | Err(_) => None,
        };
        let of_file = catalogue.diagnostics.iter().filter(|found| found.file == agent.source.file);
        let diagnostics = of_file.chain(&standing.findings).cloned().collect();
        Ok(AgentPage {
            agent: agent_view(&catalogue, &agent, &standing),
            system_prompt: agent.system_prompt.clone(),
            settings: settings(&agent),
            grants,
            invocation,
            warnings,
            diagnostics,
        })
    }

    /// Prepares a run that is never started.
    pub(super) fn drive(
        &self,
        catalogue: &Catalogue,
        agent: &Agent,
        backend: &BackendSpec,
        directory: &str,
    ) -> Result<Option<Driven>, AppError> {
        let Some(driver) = backend::registry::by_kind(&backend.kind) else { return Ok(None) };
        let spec = self.sample_run(catalogue, agent, backend.clone(), directory.to_owned())?;
        let found = driver.program().map(|program| {
            // What is not installed is shown by the name that is looked for.
            let named = || Found { argv: vec![program.names.join("|")], version: None };
            crate::programs::find(program, &agent.launch).unwrap_or_else(named)
        });
        let own_program = own_program()?;
        let prepared = driver.prepare(&spec, &place_of(&own_program, found.as_ref()));
        let drive = prepared.map_err(|error| AppError::backend(error.to_string()))?;
        Ok(Some(Driven { driver, spec, found, drive }))
    }

    /// Returns how a run would be started, and what it would warn about.
    fn invocation(
        &self,
        catalogue: &Catalogue,
        agent: &Agent,
        backend: &BackendSpec,
        directory: &str,
    ) -> Result<Option<(InvocationView, Vec<String>)>, AppError> {
        let Some(driven) = self.drive(catalogue, agent, backend, directory)? else { return Ok(None) };
        let Driven { driver, spec, drive, .. } = fitted(driven)?;
        let mut told = Vec::new();
        let view = match drive {
            Drive::Process(mut process) => {
                let looked = driver.look_through(&spec, &mut process);
                told = looked.map_err(|error| AppError::usage(error.to_string()))?;
                let set = process.set.into_iter().filter_map(|(name, setting)| match setting {
                    Setting::Plain(value) => Some(format!("{name}={value}")),
                    Setting::From(other) => Some(format!("{name}=${{{other}}}")),
                    Setting::InFile { file, .. } => Some(format!("{name} from {}", file.display())),
                    Setting::Unset => None,
                });
                let mut env: Vec<String> = [process.env, process.known_env, spec.env].concat();
                env.extend(set);
                env.sort();
                env.dedup();
                let fed = match process.feed {
                    Feed::Nothing => false,
                    Feed::Whole(_) | Feed::Open(_) => true,
                };
                InvocationView::Process {
                    argv: process.argv,
                    env,
                    files: process.files.into_iter().map(|file| format!("{WORK}/{}", file.name)).collect(),
                    prompt_on_stdin: fed,
                }
            }
            Drive::Loop(_) => InvocationView::Loop,
        };
        Ok(Some((view, told)))
    }

    /// Plans a run that is never started.
    fn sample_run(
        &self,
        catalogue: &Catalogue,
        agent: &Agent,
        backend: BackendSpec,
        directory: String,
    ) -> Result<RunSpec, AppError> {
        // Looking at an agent is not asking for it.
        let mut agent = Agent { callers: Callers::Anyone, inputs: Vec::new(), ..agent.clone() };
        // What cannot be prepared is quoted.
        hide_secrets(&mut agent);
        let order = Order {
            prompt: PROMPT.to_owned(),
            context: None,
            inputs: domain::inputs::Inputs::new(),
            session: None,
            fork: false,
            told: Vec::new(),
            resumes: None,
            model: None,
            output_schema: None,
            limits: domain::budget::AskedLimits::default(),
            on_disconnect: None,
            grants: Vec::new(),
            unattended: None,
            idempotency: None,
            iac: None,
        };
        let place = Place {
            id: clock::new_run_id(),
            now: clock::now(),
            tag: 0,
            directory,
            project: catalogue.project.clone(),
            caller: self.caller(),
            backend,
            alternatives: Vec::new(),
            prices: catalogue.config.prices(),
            configured_limits: vec![catalogue.config.limits.asked()],
            on_disconnect: catalogue.config.on_disconnect(),
            parent: None,
        };
        plan(&agent, order, place).map_err(|refusal| AppError::usage(refusal.to_string()))
    }
}

/// Fits such a run to its user, or says what of this machine stands in its way.
pub(super) fn fitted(mut driven: Driven) -> Result<Driven, AppError> {
    let Driven { driver, spec, found, drive } = &mut driven;
    if let Drive::Process(process) = drive {
        let home = env::home();
        let user = User { home: home.as_deref(), value: &env::get };
        let own_program = own_program()?;
        let adapted = driver.adapt(spec, process, &place_of(&own_program, found.as_ref()), &user);
        adapted.map_err(|error| AppError::usage(error.to_string()))?;
    }
    Ok(driven)
}

/// Says which variables would have to be set before the run can start.
pub(super) fn needs_nothing_unset(driven: &Driven) -> Result<(), AppError> {
    let Drive::Process(process) = &driven.drive else { return Ok(()) };
    let unset = process.files.iter().flat_map(|file| file.unset(|name| env::text(name).is_some()));
    let unset: Vec<String> = unset.collect();
    match unset.is_empty() {
        true => Ok(()),
        false => {
            let message = format!("these variables are needed and not set: {}", unset.join(", "));
            Err(AppError::usage(message))
        }
    }
}

fn own_program() -> Result<PathBuf, AppError> {
    own_program::path().map_err(|error| AppError::internal(error.to_string()))
}

fn place_of<'a>(own_program: &'a Path, found: Option<&'a Found>) -> contract::Place<'a> {
    contract::Place {
        work: Path::new(WORK),
        own_program,
        found,
        session_used: None,
        project_programs: contract::ProjectPrograms::On,
    }
}

/// Replaces what looks like a secret and stands in the file itself; references to variables hold no value.
fn hide_secrets(agent: &mut Agent) {
    let Agent { setup, hooks, inputs, system_prompt, .. } = agent;
    setup.mcp_servers.iter_mut().for_each(|server| server.hide_secrets(HIDDEN));
    for words in setup.accept.iter_mut().chain([&mut setup.extra_args]) {
        *words = words_without_secrets(words, HIDDEN);
    }
    hooks.iter_mut().for_each(|hook| *hook = lines_without_secrets(hook, HIDDEN));
    let copied = setup.submit_result.as_mut().map(|submit| &mut submit.vendor_file);
    for entries in setup.vendor_file.iter_mut().chain(copied) {
        for (key, value) in entries {
            // Its prompt is prose.
            *value = match key.as_str() {
                "prompt" | "description" => prose_value(value),
                _ => named_without_secrets(key, value),
            };
        }
    }
    for input in inputs {
        let default = input.default.take();
        input.default = default.map(|text| text_of(&named_without_secrets(&input.name, &Value::from(text))));
    }
    *system_prompt = prose_without_keys(system_prompt, HIDDEN);
}

fn named_without_secrets(name: &str, value: &Value) -> Value {
    let named = Value::from_iter([(name, value.clone())]);
    value_without_secrets(&named, HIDDEN)[name].take()
}

fn prose_value(value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), |text| prose_without_keys(text, HIDDEN).into())
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns what the definition says, without what it leaves at its default.
fn settings(agent: &Agent) -> BTreeMap<String, Value> {
    let whole = serde_json::to_value(agent).unwrap_or_default();
    let part = |key: &str| whole[key].as_object().cloned().unwrap_or_default();
    let untouched = serde_json::to_value(domain::setup::Setup::default()).unwrap_or_default();
    let setup = part("setup").into_iter().filter(|(key, value)| untouched[key.as_str()] != *value);
    let top = whole.as_object().cloned().unwrap_or_default().into_iter();
    let top = top.filter(|(key, _)| !SHOWN_APART.contains(&key.as_str()));
    let all = top.chain(setup).chain(part("limits"));
    // An empty list of tools is not the same as none: the agent has no tools at all.
    all.filter(|(key, value)| !is_empty(value) || (key == "tools" && value.is_array())).collect()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
