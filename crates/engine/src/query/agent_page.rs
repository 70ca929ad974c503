//! The page of one agent: its resolved definition, and how a run of it would be started. Starts no run, and shows no
//! value of a secret.

use std::sync::Arc;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backends::contract::{self, Backend, EnvValue, LaunchPlan, StdinFeed};
use backends::program::LocatedProgram;
use backends::user_environment::UserEnvironment;
use domain::admission::{AdmissionContext, AdmissionRequest, admit};
use domain::agent::{Agent, Callers};
use domain::overlay::ResolvedAgent;
use domain::policy::Effect;
use domain::run::{BackendSpec, RunSpec};
use domain::secret::{
    lines_without_secrets, prose_without_keys, value_without_secrets, words_without_secrets,
};
use serde_json::Value;

use super::list_agents::agent_view;
use crate::admission::start::{configured_limits, find_agent};
use crate::api::{AgentDetail, EngineError, InvocationView, ShowAgent};
use crate::ask::{Ask, OnProgress};
use crate::clock;
use crate::current_exe;
use crate::engine::Engine;
use crate::env;
use crate::ipc::relay::Relay;
use crate::registry::Catalog;
use crate::relayed_requests;

/// Placeholder for the caller's prompt.
const PROMPT_PLACEHOLDER: &str = "PROMPT";
/// Placeholder for the run's work folder.
const WORK_PLACEHOLDER: &str = "WORK";
const HIDDEN: &str = "[redacted]";
/// Keys that the page shows separately, or that carry no information.
const KEYS_SHOWN_APART: [&str; 13] = [
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

/// The launch plan for a run of an agent, before it is adapted to its user.
pub(crate) struct PreparedLaunch {
    driver: &'static dyn Backend,
    spec: RunSpec,
    found: Option<LocatedProgram>,
    plan: LaunchPlan,
}

impl Ask for ShowAgent {
    type Answer = AgentDetail;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<AgentDetail, EngineError> {
        engine.show_agent(&self)
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<AgentDetail, EngineError> {
        relayed_requests::relay(self, relay, progress).await
    }
}

impl Engine {
    pub(crate) fn show_agent(&self, ask: &ShowAgent) -> Result<AgentDetail, EngineError> {
        let (directory, catalog) = self.locate(ask.directory.as_deref())?;
        let found = find_agent(&catalog, &directory, &ask.agent)?;
        let ResolvedAgent { mut agent, grants, warnings: settle_warnings } = self.settled(&catalog, found);
        hide_secrets(&mut agent);
        let executables = self.project_executables(&catalog, &directory);
        let status = self.agent_status(&catalog, &agent, &directory, &executables);
        let mut warnings = [settle_warnings, status.warnings.clone()].concat();
        let invocation = match self.configured_backend(&catalog, &agent) {
            Ok(backend) if agent.directive.is_none() => {
                // The reason for a refusal is already the agent's problem.
                warnings.extend(executables.check(&backend, &[]).unwrap_or_default());
                let invocation = self.invocation(&catalog, &agent, &backend, &directory);
                let (view, launch_warnings) = match invocation {
                    Ok(Some((view, launch_warnings))) => (Some(view), launch_warnings),
                    Ok(None) => (None, Vec::new()),
                    Err(error) => (None, vec![error.to_string()]),
                };
                // It may already be the agent's problem.
                warnings.extend(
                    launch_warnings
                        .into_iter()
                        .filter(|launch_warnings| status.problem.as_ref() != Some(launch_warnings)),
                );
                view
            }
            Ok(_) | Err(_) => None,
        };
        let file_diagnostics = catalog.diagnostics.iter().filter(|found| found.file == agent.source.file);
        let diagnostics = file_diagnostics.chain(&status.findings).cloned().collect();
        Ok(AgentDetail {
            agent: agent_view(&catalog, &agent, &status),
            project: catalog.project.clone(),
            system_prompt: agent.system_prompt.clone(),
            settings: settings(&agent),
            grants,
            invocation,
            warnings,
            diagnostics,
        })
    }

    /// Prepares a run that is never started.
    pub(crate) fn prepare_launch(
        &self,
        catalog: &Catalog,
        agent: &Agent,
        backend: &BackendSpec,
        directory: &str,
    ) -> Result<Option<PreparedLaunch>, EngineError> {
        let Some(driver) = backends::registry::by_kind(&backend.kind) else { return Ok(None) };
        let spec = self.sample_run(catalog, agent, backend.clone(), directory.to_owned())?;
        let found = driver.program().map(|program| {
            // A program that is not installed is shown by the name that Volery looks for.
            let by_name = || LocatedProgram { argv: vec![program.names.join("|")], version: None };
            crate::programs::vendor_programs::find(program, &agent.launch).unwrap_or_else(by_name)
        });
        let own_program = current_program()?;
        let prepared = driver.prepare(&spec.for_vendor(), &launch_context(&own_program, found.as_ref()));
        let plan = prepared.map_err(|error| EngineError::backend(error.to_string()))?;
        Ok(Some(PreparedLaunch { driver, spec, found, plan }))
    }

    /// Returns how a run would be started, and its warnings.
    fn invocation(
        &self,
        catalog: &Catalog,
        agent: &Agent,
        backend: &BackendSpec,
        directory: &str,
    ) -> Result<Option<(InvocationView, Vec<String>)>, EngineError> {
        let Some(prepared) = self.prepare_launch(catalog, agent, backend, directory)? else {
            return Ok(None);
        };
        let PreparedLaunch { driver, spec, plan, .. } = with_user_environment(prepared)?;
        let mut scan_warnings = Vec::new();
        let view = match plan {
            LaunchPlan::Process(mut process) => {
                let home = env::home();
                let user = UserEnvironment { home: home.as_deref(), variable: &env::get };
                let scanned = driver.scan_workspace(&spec, &mut process, &user);
                scan_warnings = scanned.map_err(|error| EngineError::usage(error.to_string()))?;
                let set = process.env_overrides.into_iter().filter_map(|(name, setting)| match setting {
                    EnvValue::Plain(value) => Some(format!("{name}={value}")),
                    EnvValue::FromVariable(other) => Some(format!("{name}=${{{other}}}")),
                    EnvValue::FromFile { file, .. } => Some(format!("{name} from {}", file.display())),
                    EnvValue::Unset => None,
                });
                let mut env: Vec<String> = [process.env, process.optional_env, spec.env].concat();
                let permission = &spec.setup.permission;
                env.retain(|name| {
                    permission.variable_rule(name).is_none_or(|effect| effect == Effect::Allow)
                });
                env.extend(set);
                env.sort();
                env.dedup();
                let prompt_on_stdin = match process.feed {
                    StdinFeed::Nothing => false,
                    StdinFeed::Whole(_) | StdinFeed::Open(_) => true,
                };
                InvocationView::Process {
                    argv: process.argv,
                    env,
                    files: process
                        .files
                        .into_iter()
                        .map(|file| format!("{WORK_PLACEHOLDER}/{}", file.name))
                        .collect(),
                    prompt_on_stdin,
                }
            }
            LaunchPlan::Loop(_) | LaunchPlan::AgentLoop(_) => InvocationView::Loop,
        };
        Ok(Some((view, scan_warnings)))
    }

    /// Plans a run that is never started.
    fn sample_run(
        &self,
        catalog: &Catalog,
        agent: &Agent,
        backend: BackendSpec,
        directory: String,
    ) -> Result<RunSpec, EngineError> {
        // Showing an agent needs no permission to call it.
        let mut agent = Agent { callers: Callers::Anyone, ..agent.clone() };
        let mut sample_inputs = domain::inputs::Inputs::new();
        match agent.directive {
            None => agent.inputs = Vec::new(),
            Some(_) => {
                // The page shows where each value goes.
                agent.inputs.iter_mut().for_each(|input| input.kind = "string".to_owned());
                let sample =
                    |name: &String| (name.clone(), serde_json::Value::String(format!("{{input:{name}}}")));
                sample_inputs.extend(agent.inputs.iter().map(|input| sample(&input.name)));
            }
        }
        // An error of the backend may quote the agent.
        hide_secrets(&mut agent);
        let order = AdmissionRequest {
            prompt: PROMPT_PLACEHOLDER.to_owned(),
            context: None,
            inputs: sample_inputs,
            session: None,
            fork: false,
            prior_exchanges: Vec::new(),
            resumes: None,
            model: None,
            output_schema: None,
            limits: domain::budget::RequestedLimits::default(),
            on_disconnect: None,
            grants: Vec::new(),
            unattended: None,
            idempotency: None,
            iac: None,
        };
        let context = AdmissionContext {
            id: clock::new_run_id(),
            now: clock::now(),
            tag: 0,
            directory,
            project: catalog.project.clone(),
            caller: self.caller(),
            backend,
            alternatives: Vec::new(),
            prices: catalog.config.prices(),
            configured_limits: vec![configured_limits(catalog, &agent)],
            on_disconnect: catalog.config.on_disconnect(),
            parent: None,
        };
        admit(&agent, order, context).map_err(|refusal| EngineError::usage(refusal.to_string()))
    }
}

/// Adapts such a run to its user, or returns what on this machine prevents it.
pub(crate) fn with_user_environment(mut prepared: PreparedLaunch) -> Result<PreparedLaunch, EngineError> {
    let PreparedLaunch { driver, spec, found, plan } = &mut prepared;
    if let LaunchPlan::Process(process) = plan {
        let home = env::home();
        let user = UserEnvironment { home: home.as_deref(), variable: &env::get };
        let own_program = current_program()?;
        let adapted = driver.apply_user_environment(
            spec,
            process,
            &launch_context(&own_program, found.as_ref()),
            &user,
        );
        adapted.map_err(|error| EngineError::usage(error.to_string()))?;
    }
    Ok(prepared)
}

/// Reports the variables that must be set before the run can start.
pub(crate) fn check_variables_set(prepared: &PreparedLaunch) -> Result<(), EngineError> {
    let LaunchPlan::Process(process) = &prepared.plan else { return Ok(()) };
    let unset = process.files.iter().flat_map(|file| file.unset_variables(|name| env::text(name).is_some()));
    let unset: Vec<String> = unset.collect();
    match unset.is_empty() {
        true => Ok(()),
        false => {
            let message = format!("these variables are needed and not set: {}", unset.join(", "));
            Err(EngineError::usage(message))
        }
    }
}

fn current_program() -> Result<PathBuf, EngineError> {
    current_exe::path().map_err(|error| EngineError::internal(error.to_string()))
}

fn launch_context<'a>(
    own_program: &'a Path,
    found: Option<&'a LocatedProgram>,
) -> contract::LaunchContext<'a> {
    contract::LaunchContext {
        work_dir: Path::new(WORK_PLACEHOLDER),
        current_exe: own_program,
        program: found,
        prior_session_usage: None,
        project_executables: contract::ProjectExecutables::On,
    }
}

/// Hides text in the file that looks like a secret; references to variables contain no value.
fn hide_secrets(agent: &mut Agent) {
    let Agent { setup, hooks, inputs, system_prompt, .. } = agent;
    setup.mcp_servers.iter_mut().for_each(|server| server.hide_secrets(HIDDEN));
    // Where each rule is written is for verdicts; the page names its files already.
    setup.permissions_mut().for_each(|permission| *permission = permission.without_origins());
    for arguments in setup.accept.iter_mut().chain([&mut setup.extra_args]) {
        *arguments = words_without_secrets(arguments, HIDDEN);
    }
    hooks.iter_mut().for_each(|hook| *hook = lines_without_secrets(hook, HIDDEN));
    let copied = setup.submit_result.as_mut().map(|submit| &mut submit.vendor_file);
    for entries in setup.vendor_file.iter_mut().chain(copied) {
        for (key, value) in entries {
            // A prompt is prose.
            *value = match key.as_str() {
                "prompt" | "description" => prose_value(value),
                _ => hide_named_secrets(key, value),
            };
        }
    }
    for input in inputs {
        let default = input.default.take();
        input.default =
            default.map(|text| string_value(&hide_named_secrets(&input.name, &Value::from(text))));
    }
    *system_prompt = prose_without_keys(system_prompt, HIDDEN);
}

fn hide_named_secrets(name: &str, value: &Value) -> Value {
    let entry = Value::from_iter([(name, value.clone())]);
    value_without_secrets(&entry, HIDDEN)[name].take()
}

fn prose_value(value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), |text| prose_without_keys(text, HIDDEN).into())
}

fn string_value(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the settings of the definition that differ from their defaults.
fn settings(agent: &Agent) -> BTreeMap<String, Value> {
    let whole = serde_json::to_value(agent).unwrap_or_default();
    let part = |key: &str| whole[key].as_object().cloned().unwrap_or_default();
    let untouched = serde_json::to_value(domain::setup::Setup::default()).unwrap_or_default();
    let setup = part("setup").into_iter().filter(|(key, value)| untouched[key.as_str()] != *value);
    let top = whole.as_object().cloned().unwrap_or_default().into_iter();
    let top = top.filter(|(key, _)| !KEYS_SHOWN_APART.contains(&key.as_str()));
    // Stored in thousandths; shown as people write it.
    let temperature = agent.setup.temperature.map(|temperature| temperature.degrees().into());
    let setup = setup.map(|(key, value)| match (key.as_str(), &temperature) {
        ("temperature", Some(degrees)) => (key, Value::clone(degrees)),
        _ => (key, value),
    });
    let all = top.chain(setup).chain(part("limits"));
    // An empty list of tools differs from no list: the agent has no tools at all.
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
