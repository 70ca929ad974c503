//! Starts a run: finds the agent, resolves what the request and the configuration say, and asks for admission.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use domain::admission::{AdmissionContext, AdmissionRefusal, AdmissionRequest, ParentRun, admit};
use domain::agent::{Agent, AgentFormat, Layer, ScriptSource};
use domain::budget::RequestedLimits;
use domain::diagnostic::Diagnostic;
use domain::id::{AgentName, IdError, IdempotencyKey, RunId};
use domain::inherit::describe_all;
use domain::mcp_server::McpServer;
use domain::nearest::nearest;
use domain::run::agent_loop::{ANSWER_TOKENS_DEFAULT, STEPS_DEFAULT, TIMEOUT_MS_DEFAULT, TOKENS_DEFAULT};
use domain::run::{
    BackendSpec, Caller, ContainmentDemand, Idempotency, LimitName, LostProcess, OnInterrupt, Outcome,
    RunSpec, UnattendedChoice,
};
use domain::setup::Setup;
use journal::RunDir;
use journal::idempotency_keys::{self, KeyScope};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::compatibility::{self, Requirements};
use super::grants::{Ceiling, GrantedAgent};
use super::loop_model::{self, LoopModelChoice};
use super::protected_paths;
use super::session_resolution::{ResolvedSession, SessionRequest};
use crate::api::{EngineError, StartRequest, StartedRun};
use crate::ask::{Ask, OnProgress};
use crate::clock;
use crate::engine::{Engine, store_error};
use crate::failpoint;
use crate::ipc::relay::Relay;
use crate::launch::{OnRecorded, reuse_run};
use crate::registry::{self, Catalog, TrustStore};
use crate::relayed_requests;

/// How many errors of a configuration are shown at once.
const CONFIG_ERRORS_SHOWN: usize = 8;

/// A child that was started, for the supervisor that records it.
pub(crate) struct StartedChild {
    pub run_id: RunId,
    pub agent: AgentName,
    pub started: StartedRun,
}

/// Accepts a run: when this is answered, the run is on disk and will be carried out.
impl Ask for StartRequest {
    type Answer = StartedRun;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<StartedRun, EngineError> {
        engine.start(self).await
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<StartedRun, EngineError> {
        relayed_requests::relay(self, relay, progress).await
    }
}

impl Engine {
    /// Starts a root run.
    pub(crate) async fn start(self: &Arc<Self>, ask: StartRequest) -> Result<StartedRun, EngineError> {
        // Outside of the event loop, where many starts share the flushes of the disk. A caller that stops waiting
        // does not interrupt it.
        self.run_blocking(move |engine| engine.start_blocking(ask, None, &mut |_| Ok(()))).await
    }

    /// Starts a child run for the agent of the run that this engine works for. `on_recorded` is called before the
    /// child starts, so that its parent cannot lose it.
    pub(crate) fn start_child(
        &self,
        ask: StartRequest,
        mut parent: ParentRun,
        on_recorded: OnRecorded<'_>,
    ) -> Result<StartedChild, EngineError> {
        parent.ancestry = self.ancestry(&parent.spec);
        let agent: AgentName =
            ask.agent.parse().map_err(|error: IdError| EngineError::usage(error.to_string()))?;
        let started = self.start_blocking(ask, Some(parent), on_recorded)?;
        Ok(StartedChild { run_id: started.run_id, agent, started })
    }

    fn start_blocking(
        &self,
        ask: StartRequest,
        parent: Option<ParentRun>,
        on_recorded: OnRecorded<'_>,
    ) -> Result<StartedRun, EngineError> {
        failpoint::reach("door_asked");
        if self.channels.is_disconnected() {
            return Err(EngineError::internal("this server is leaving, so it starts nothing more"));
        }
        let mut ask = ask;
        if let Some(session) = ask.session.as_deref().filter(|_| ask.reuse_last_agent) {
            let (agent, directory) = self.agent_of_session(&ask.agent, session)?;
            (ask.definition, ask.directory) = (Some(Box::new(agent)), Some(directory));
        }
        let (directory, catalog) = self.locate(ask.directory.as_deref())?;
        check_config(&catalog)?;
        let named_session = ask.named_session.take();
        let granted = self.agent_for(&mut ask, &catalog, &directory, parent.as_ref())?;
        let settled = &granted.settled;
        let (agent, agent_warnings) = (&settled.agent, settled.warnings.clone());
        let backend = self.backend_and_model(&catalog, &granted, &mut ask)?;
        let (alternatives, fallback_warnings) =
            self.alternatives(&catalog, agent, &directory, Some(&granted))?;
        let fingerprint = fingerprint(&ask, &directory);
        let attachment = ask.attachment;
        let resumes = ask.resumes;
        let agent_without_inputs = resumes.map(|_| Agent { inputs: Vec::new(), ..agent.clone() });
        let agent = agent_without_inputs.as_ref().unwrap_or(agent);
        let order = build_order(ask, fingerprint, catalog.config.unattended.value)?;
        let order = AdmissionRequest { grants: settled.grants.clone(), ..order };
        let caller = self.caller_for(resumes.map(|resumed| resumed.run));
        let context = AdmissionContext {
            id: clock::new_run_id(),
            now: clock::now(),
            tag: clock::new_tag(),
            directory,
            project: catalog.project.clone(),
            caller,
            backend,
            alternatives,
            prices: catalog.config.prices(),
            configured_limits: vec![configured_limits(&catalog, agent)],
            on_disconnect: self.on_disconnect(&catalog.config),
            parent,
        };
        // Before the plan: a request that was already accepted is not checked against the remaining budget again.
        if let Some(existing) = self.existing_run(agent, &context, order.idempotency.as_ref())? {
            return Ok(existing);
        }
        let mut order = order;
        let session_request = SessionRequest { session: order.session.take(), fork: order.fork };
        let at = (context.id, context.directory.as_str());
        let ResolvedSession { session, prior_exchanges, name_lock } = match named_session {
            Some(named_session) => self.resolve_named_session(agent, &context.backend, named_session, at)?,
            None => {
                let session =
                    self.resolve_session(agent, &context.backend, session_request, &context.directory)?;
                ResolvedSession { session, ..ResolvedSession::default() }
            }
        };
        (order.session, order.prior_exchanges) = (session, prior_exchanges);
        let mut spec = admit(agent, order, context).map_err(refusal_error)?;
        if spec.containment == ContainmentDemand::Auto {
            spec.containment = catalog.config.containment.value;
        }
        check_compatible(&spec, agent.source.format)?;
        check_model(&spec)?;
        spec.warnings.extend(compatibility::warnings(&Requirements::for_run(&spec), &spec.backend));
        let agent_warnings = agent_warnings.into_iter().chain(broken_file_warning(&catalog, agent));
        spec.warnings.extend(agent_warnings.chain(fallback_warnings).chain(call_limit_warning(agent, &spec)));
        protected_paths::protect(self.home.path(), &mut spec)?;
        self.check_project_executables(&catalog, &mut spec)?;
        if let Some(resumed) = resumes {
            spec.warnings.extend(self.resume_warnings(resumed.run, &spec.setup)?);
        }
        if !compatibility::can_resume(&spec.backend) {
            spec.on_interrupt = OnInterrupt::End;
        }
        self.count_in_tree(&spec)?;
        let launched = self.launch(spec, &catalog, attachment, on_recorded);
        drop(name_lock);
        launched
    }

    /// Warns which run this one continues, and what that run inherited and this one does not.
    fn resume_warnings(&self, before: RunId, setup: &Setup) -> Result<Vec<String>, EngineError> {
        let mut warnings = vec![format!("this run continues {}, which was interrupted", before.short())];
        let before = self.home.run_dir(before).read_spec().map_err(store_error)?;
        let lost: BTreeSet<_> = before.setup.inherit.difference(&setup.inherit).copied().collect();
        if !lost.is_empty() {
            let lost = describe_all(&lost);
            warnings.push(format!(
                "withheld: {lost}: the run goes on outside of the server that it was started by"
            ));
        }
        Ok(warnings)
    }

    /// Returns the caller. A run that resumes another belongs to the caller of that one.
    fn caller_for(&self, resumes: Option<RunId>) -> Caller {
        let caller = self.caller();
        let before = resumes.and_then(|run| self.home.run_dir(run).read_spec().ok());
        Caller { token: caller.token.clone().or(before.and_then(|spec| spec.caller.token)), ..caller }
    }

    /// Returns the run that this request already started, if its key is known.
    fn existing_run(
        &self,
        agent: &Agent,
        context: &AdmissionContext,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<StartedRun>, EngineError> {
        let Some(idempotency) = idempotency else { return Ok(None) };
        let scope = KeyScope {
            project: context.project.clone(),
            agent: agent.name.clone(),
            key: idempotency.key.clone(),
            token: context.caller.token.clone(),
        };
        let Some((run, fingerprint)) =
            idempotency_keys::find_owner(&self.home, &scope).map_err(store_error)?
        else {
            return Ok(None);
        };
        let dir = self.home.run_dir(run);
        if !dir.exists() || self.never_began(&dir)? {
            // Retention has removed the run, or it died with its door before anything started: the key is free.
            idempotency_keys::release(&self.home, &scope, run).map_err(store_error)?;
            return Ok(None);
        }
        reuse_run(idempotency, run, &fingerprint).map(Some)
    }

    /// Returns whether a run ended without ever having been started.
    fn never_began(&self, dir: &RunDir) -> Result<bool, EngineError> {
        self.reconcile(dir)?;
        let ending = dir.ending().map_err(store_error)?;
        let never = Outcome::Interrupted { lost: LostProcess::BeforeStart };
        Ok(ending.is_some_and(|ending| ending.outcome == never))
    }

    /// Returns the backend of a run. For a directive, sets the model of the request to the one that was chosen.
    fn backend_and_model(
        &self,
        catalog: &Catalog,
        granted: &GrantedAgent,
        ask: &mut StartRequest,
    ) -> Result<BackendSpec, EngineError> {
        let agent = &granted.settled.agent;
        let backend = self.backend_for(catalog, granted)?;
        if agent.directive.is_none() {
            return Ok(backend);
        }
        let choice = self.loop_model(catalog, agent, ask.model.as_deref())?;
        let backend = loop_model::backend_spec(&choice, agent.backend.clone());
        ask.model = Some(choice.model);
        Ok(backend)
    }

    /// Returns the backend for the agent of a run, or why it cannot limit the agent to its parent's permission.
    fn backend_for(&self, catalog: &Catalog, granted: &GrantedAgent) -> Result<BackendSpec, EngineError> {
        let GrantedAgent { settled, own, ceiling } = granted;
        let (name, narrow) = (&settled.agent.name, &settled.agent.setup.permission);
        let backend = self.checked_backend(catalog, &settled.agent)?;
        let exceeds =
            |ceiling: &Ceiling| ceiling.exceeds_ceiling(&own.permission, own.unenforceable, narrow, &backend);
        match ceiling.as_ref().and_then(exceeds) {
            None => Ok(backend),
            Some(error) => Err(EngineError { message: format!("agent {name}: {}", error.message), ..error }),
        }
    }

    /// Returns the backend of an agent, or why it may not be used.
    pub(crate) fn checked_backend(
        &self,
        catalog: &Catalog,
        agent: &Agent,
    ) -> Result<BackendSpec, EngineError> {
        let spec = self.configured_backend(catalog, agent)?;
        check_installed(agent)?;
        let configured = catalog.config.backends.get(&agent.backend);
        let from_project = configured.is_some_and(|backend| backend.layer == Layer::Project);
        let own_programs =
            agent.source.layer == Layer::Project && !config::agent_formats::executables(agent).is_empty();
        if (from_project || own_programs) && !self.trust().is_trusted(catalog) {
            let project = &catalog.project;
            let executables = TrustStore::own_executables_without_secrets(catalog);
            let would = match agent.setup.mcp_servers.iter().any(McpServer::is_remote) {
                true => "execute programs or contact servers",
                false => "execute programs",
            };
            let message = format!(
                "the project {project} would {would} that you have not trusted:\n{}",
                executables.trim_end()
            );
            return Err(
                EngineError::denied(message).hint(format!("look at them, then: volery trust {project}"))
            );
        }
        Ok(spec)
    }

    /// Returns the backend of an agent, even if it is not trusted or not installed.
    pub(crate) fn configured_backend(
        &self,
        catalog: &Catalog,
        agent: &Agent,
    ) -> Result<BackendSpec, EngineError> {
        let name = agent.backend.as_str();
        if agent.directive.is_some() {
            let choice = self.loop_model(catalog, agent, None)?;
            return Ok(loop_model::backend_spec(&choice, agent.backend.clone()));
        }
        if name == backends::agent_loop::KIND {
            let message = format!(
                "agent {} is no directive, and the backend {name} runs only directives so far",
                agent.name
            );
            return Err(EngineError::usage(message)
                .hint("choose another backend, or write a directive in .ai/directives"));
        }
        if backends::registry::built_in().contains(&name) {
            let script = match &agent.script {
                Some(ScriptSource::Inline(script)) => script.clone(),
                Some(ScriptSource::File(_)) | None => domain::agent::RehearsalScript::default(),
            };
            let options = if agent.launch.is_default() { json!(script) } else { json!(agent.launch) };
            let spec = BackendSpec { name: agent.backend.clone(), kind: name.to_owned(), options };
            return match agent.launch.container.is_some() && !compatibility::takes_containers(&spec) {
                true => {
                    Err(EngineError::denied(format!("the program of {name} cannot be run in a container")))
                }
                false => Ok(spec),
            };
        }
        let Some(configured) = catalog.config.backends.get(&agent.backend) else {
            let known = catalog.config.backends.keys().map(|name| name.as_str());
            let names: Vec<&str> = known.chain(backends::registry::built_in()).collect();
            let message = format!("agent {} needs the backend {name}, which is not configured", agent.name);
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean {near}? {} names it", agent.source.file),
                None => format!("configured are: {}; define it as [backends.{name}]", names.join(", ")),
            };
            return Err(EngineError::usage(message).hint(hint));
        };
        let options = serde_json::to_value(&configured.value)
            .map_err(|error| EngineError::internal(error.to_string()))?;
        Ok(BackendSpec { name: agent.backend.clone(), kind: configured.value.kind().to_owned(), options })
    }

    /// Chooses the model of a directive.
    pub(crate) fn loop_model(
        &self,
        catalog: &Catalog,
        agent: &Agent,
        requested: Option<&str>,
    ) -> Result<LoopModelChoice, EngineError> {
        let is_trusted = self.trust().is_trusted(catalog);
        loop_model::choose((&catalog.config, is_trusted), agent, requested).map_err(|error| EngineError {
            message: format!("agent {}: {}", agent.name, error.message),
            ..error
        })
    }

    /// Returns agent and prompt of a run, its parent, and so on to the root.
    fn ancestry(&self, spec: &RunSpec) -> Vec<(AgentName, String)> {
        let mut line = vec![(spec.agent.clone(), spec.prompt.clone())];
        let mut above = spec.parent;
        while let Some(id) = above {
            let Ok(parent) = self.home.run_dir(id).read_spec() else { break };
            line.push((parent.agent, parent.prompt));
            above = parent.parent;
        }
        line
    }

    /// Counts a child in its whole tree: creates the next numbered file in the root's directory.
    fn count_in_tree(&self, spec: &RunSpec) -> Result<(), EngineError> {
        if spec.parent.is_none() {
            return Ok(());
        }
        let allowed = spec.limits.tree_runs;
        let number = journal::run_tree::claim_descendant_number(
            &self.home.run_dir(spec.root),
            allowed.saturating_sub(1),
        );
        match number.map_err(store_error)? {
            Some(_) => Ok(()),
            None => Err(refusal_error(AdmissionRefusal::Limit { limit: LimitName::TreeRuns, allowed })),
        }
    }
}

/// Refuses an agent whose vendor's program is not installed, before anything starts.
pub fn check_installed(agent: &Agent) -> Result<(), EngineError> {
    let name = agent.backend.as_str();
    let Some(program) = backends::registry::by_kind(name).and_then(|backend| backend.program()) else {
        return Ok(());
    };
    if crate::programs::vendor_programs::find(program, &agent.launch).is_some() {
        return Ok(());
    }
    let program_name = agent.launch.program.clone().unwrap_or_else(|| program.names.join(" or "));
    let message = format!("agent {} needs {program_name}, which is not on the PATH", agent.name);
    let hint = match agent.launch.program {
        Some(_) => format!("install {program_name}, or give the agent another backend"),
        None => format!("install it: {}; or give the agent another backend", program.install),
    };
    Err(EngineError::usage(message).hint(hint))
}

/// Refuses a run if its backend lacks something that the agent requires.
fn check_compatible(spec: &RunSpec, format: AgentFormat) -> Result<(), EngineError> {
    let found = compatibility::blockers(&spec.system_prompt, &spec.setup, format, &spec.backend);
    match found.into_iter().next().map(|blocker| blocker.error) {
        None => Ok(()),
        Some(error) => {
            Err(EngineError { message: format!("agent {}: {}", spec.agent, error.message), ..error })
        }
    }
}

/// Refuses a run of a model service without a model. Otherwise the run would start, and its process would fail.
fn check_model(spec: &RunSpec) -> Result<(), EngineError> {
    let service = backends::api::services().find(|service| service.backend == spec.backend.kind);
    let Some(service) = service.filter(|_| spec.model.is_none()) else { return Ok(()) };
    let (agent, backend) = (&spec.agent, service.backend);
    let message = format!("agent {agent} needs a model, because {backend} has no default");
    let key = service.keys.first().map(|key| format!("; {key} holds the service's key")).unwrap_or_default();
    Err(EngineError::usage(message)
        .hint(format!("add `model: NAME` to the agent's file, or use --model NAME{key}")))
}

/// Warns about limits in an agent's file that only the loop of a directive keeps.
fn call_limit_warning(agent: &Agent, spec: &RunSpec) -> Option<String> {
    let RequestedLimits { steps, tool_calls, tokens, answer_tokens, cost_microusd, .. } = agent.limits;
    let limits = [
        ("steps", steps),
        ("tool_calls", tool_calls),
        ("tokens", tokens),
        ("answer_tokens", answer_tokens),
        ("cost", cost_microusd),
    ];
    let set: Vec<&str> = limits.into_iter().filter_map(|(name, limit)| limit.map(|_| name)).collect();
    let is_kept = super::attempt_backend::capabilities(&spec.backend).enforces_call_limits;
    (!is_kept && !set.is_empty())
        .then(|| format!("{} does not keep these limits: {}", spec.backend.name, set.join(", ")))
}

/// Returns the configured limits for an agent. A directive has defaults of its own, which any file of the user replaces.
pub(crate) fn configured_limits(catalog: &Catalog, agent: &Agent) -> RequestedLimits {
    let limits = catalog.config.limits.to_requested_limits();
    if agent.directive.is_none() {
        return limits;
    }
    let has_own_timeout =
        catalog.config.limits.timeout_ms.as_ref().is_some_and(|setting| setting.layer != Layer::Default);
    RequestedLimits {
        timeout_ms: if has_own_timeout { limits.timeout_ms } else { Some(TIMEOUT_MS_DEFAULT) },
        steps: limits.steps.or(Some(STEPS_DEFAULT)),
        tokens: limits.tokens.or(Some(TOKENS_DEFAULT)),
        answer_tokens: limits.answer_tokens.or(Some(ANSWER_TOKENS_DEFAULT)),
        ..limits
    }
}

fn build_order(
    ask: StartRequest,
    fingerprint: String,
    questions: UnattendedChoice,
) -> Result<AdmissionRequest, EngineError> {
    let parse =
        |text: String| text.parse::<IdempotencyKey>().map_err(|error| EngineError::usage(error.to_string()));
    let idempotency = ask.idempotency_key.map(parse).transpose()?;
    let session = ask.session.map(|text| text.parse()).transpose();
    Ok(AdmissionRequest {
        prompt: ask.prompt,
        context: ask.context,
        inputs: ask.inputs,
        session: session.map_err(|error: domain::id::IdError| EngineError::usage(error.to_string()))?,
        fork: ask.fork,
        prior_exchanges: Vec::new(),
        model: ask.model,
        output_schema: ask.output_schema,
        resumes: ask.resumes,
        limits: ask.limits,
        on_disconnect: ask.on_disconnect,
        grants: Vec::new(),
        unattended: ask.unattended.and_then(|reason| reason.denial_reason(questions)),
        idempotency: idempotency.map(|key| Idempotency { key, fingerprint }),
        iac: ask.iac,
    })
}

/// Refuses to start with a configuration that could not be read: the unreadable setting may have been a limit.
fn check_config(catalog: &Catalog) -> Result<(), EngineError> {
    let unsound = catalog.config_files.iter().filter(|file| file.unsound);
    let errors = unsound.flat_map(|file| &file.diagnostics).filter(|found| found.is_error());
    let errors: Vec<String> = errors.take(CONFIG_ERRORS_SHOWN).map(ToString::to_string).collect();
    if errors.is_empty() {
        return Ok(());
    }
    let message = format!("the configuration has errors, so nothing is started:\n{}", errors.join("\n"));
    Err(EngineError::usage(message).hint("`volery agents check` lists everything that is wrong"))
}

/// Returns the agent with this name; the error lists the available ones, and the nearest.
pub(crate) fn find_agent<'a>(
    catalog: &'a Catalog,
    directory: &str,
    typed: &str,
) -> Result<Cow<'a, Agent>, EngineError> {
    let name: AgentName = typed.parse().map_err(|error: domain::id::IdError| {
        // A display name has a form that is a valid agent name.
        let suggestion = config::agent_formats::declared_name(AgentFormat::Claude, "", typed);
        let suggestion = suggestion.filter(|suggestion| catalog.agents.contains_key(suggestion));
        if let Some(agent) = agent_of_file(catalog, directory, typed) {
            let message = format!("{typed} is a path; use the agent's name");
            return EngineError::usage(message).hint(format!("did you mean {agent}?"));
        }
        let refused = EngineError::usage(error.to_string());
        suggestion.map_or(refused.clone(), |suggestion| refused.hint(format!("did you mean {suggestion}?")))
    })?;
    if let Some(agent) = catalog.agent(&name) {
        return Ok(agent);
    }
    if let [_, _, ..] = catalog.directives_by_stem(&name).as_slice() {
        return Err(ambiguous_directive(catalog, &name));
    }
    let refused = EngineError::not_found(format!("there is no agent {typed} in {}", catalog.project));
    let file_of_that_name =
        || catalog.diagnostics.iter().find(|found| found.is_error() && defines_agent(typed, &found.file));
    if let Some(found) = catalog.broken.get(&name).or_else(file_of_that_name) {
        let found = Diagnostic { file: relative_file(&found.file, &catalog.project), ..found.clone() };
        let error =
            EngineError::not_found(format!("agent {typed} cannot be used: {}", found.location_and_message()));
        return Err(match found.hint {
            Some(hint) => error.hint(hint),
            None => error.hint("`volery agents check` lists everything that is wrong"),
        });
    }
    if let Some(found) = registry::nested_agent_warnings(directory, &catalog.project).first() {
        return Err(refused.hint(found.to_string()));
    }
    if let Some(vendor) = backends::registry::program_backends().find(|vendor| vendor.backend == typed) {
        let install = vendor.program.install;
        let hint = format!("install its program: {install}; then {typed} is a built-in agent");
        return Err(refused.hint(hint));
    }
    let built_in = catalog.built_in_agents();
    let all = catalog.agents.keys().chain(built_in.iter().map(|agent| &agent.name));
    let names: Vec<&str> = all.map(|name| name.as_str()).collect();
    let hint = match (nearest(typed, names.iter().copied()), names.is_empty()) {
        (_, true) => "no agents are defined here, and no backend is installed that is one by itself; \
                      `volery agents new NAME` writes one, and `volery doctor` names the backends"
            .to_owned(),
        (Some(near), false) => format!("did you mean {near}? Available: {}", names.join(", ")),
        (None, false) => format!("available: {}", names.join(", ")),
    };
    Err(refused.hint(hint))
}

/// Explains that files of several folders have the name of a directive.
fn ambiguous_directive(catalog: &Catalog, name: &AgentName) -> EngineError {
    let paths: Vec<&str> = catalog.directives_by_stem(name).into_iter().map(AgentName::as_str).collect();
    let message = format!("{} directives are called {name}: {}", paths.len(), paths.join(", "));
    EngineError::not_found(message).hint("ask for one by its path")
}

/// Returns the agent that a file defines, if the user typed its path instead of its name.
fn agent_of_file(catalog: &Catalog, directory: &str, typed: &str) -> Option<AgentName> {
    let path = Path::new(directory).join(typed);
    let by_path = || {
        let path = path.canonicalize().ok()?;
        catalog.agents.values().find(|agent| Path::new(&agent.source.file) == path)
    };
    let by_stem = || {
        let name: AgentName = Path::new(typed).file_stem()?.to_str()?.parse().ok()?;
        catalog.agents.get(&name)
    };
    by_path().or_else(by_stem).map(|agent| agent.name.clone())
}

/// Returns a file of a project relative to it.
fn relative_file(file: &str, project: &str) -> String {
    let relative = Path::new(file).strip_prefix(project).ok().and_then(Path::to_str);
    relative.unwrap_or(file).to_owned()
}

/// Returns a warning if a stronger file with the agent's name has errors, so that this agent is used instead.
fn broken_file_warning(catalog: &Catalog, agent: &Agent) -> Option<String> {
    let problem = catalog.broken.get(&agent.name)?;
    Some(format!(
        "the agent of {} is used, since another file of its name has errors: {problem}",
        agent.source.file
    ))
}

/// Returns whether the file would define an agent with this name.
fn defines_agent(name: &str, file: &str) -> bool {
    let path = Path::new(file);
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = path.parent().and_then(Path::file_name).and_then(|folder| folder.to_str());
    stem.strip_suffix(".agent").unwrap_or(stem) == name || (stem == "agent" && folder == Some(name))
}

fn fingerprint(ask: &StartRequest, directory: &str) -> String {
    let request = json!([
        ask.agent,
        ask.prompt,
        ask.context,
        directory,
        ask.session,
        ask.fork,
        ask.model,
        ask.limits,
        ask.inputs
    ]);
    // Without a schema the fingerprint is the same as before there were any, so that stored keys stay valid.
    let request = match &ask.output_schema {
        Some(schema) => json!([request, schema]),
        None => request,
    };
    let request = match ask.permission.is_empty() {
        true => request,
        false => json!([request, ask.permission]),
    };
    domain::hex::hex(&Sha256::digest(request.to_string().as_bytes()))
}

fn refusal_error(refusal: AdmissionRefusal) -> EngineError {
    let message = refusal.to_string();
    match refusal {
        AdmissionRefusal::EmptyPrompt => EngineError::usage(message).hint("say what the agent shall do"),
        AdmissionRefusal::NulInPrompt => {
            EngineError::usage(message).hint("remove it, or put binary material into a file")
        }
        AdmissionRefusal::Model { .. } => EngineError::usage(message).hint("a name does not begin with '-'"),
        AdmissionRefusal::PromptTooLong { .. } => {
            EngineError::limit(message).hint("put long material into a file and name the file in the prompt")
        }
        AdmissionRefusal::Inputs { .. } => EngineError::usage(message)
            .hint("`volery agents show NAME` and list_agents say which inputs it takes"),
        AdmissionRefusal::CallerNotAllowed { .. }
        | AdmissionRefusal::MayNotDelegate { .. }
        | AdmissionRefusal::DelegationCycle { .. } => EngineError::denied(message),
        AdmissionRefusal::Directive { .. } => {
            EngineError::usage(message).hint("`volery agents show NAME` prints what it wants and does")
        }
        AdmissionRefusal::Limit { .. } | AdmissionRefusal::NoTime => EngineError::limit(message),
    }
}
