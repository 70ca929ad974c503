//! Starts a run: find the agent, plan, write the record, start its keeper, make the record durable, say go.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use backend::process::{self, KeeperRequest, ProcessHandle};
use domain::agent::{Agent, Format, Layer, ScriptSource};
use domain::id::{AgentName, IdError, IdempotencyKey, RunId};
use domain::inherit::describe_all;
use domain::nearest::nearest;
use domain::plan::{Order, Parent, Place, Refusal, plan};
use domain::run::{
    BackendSpec, Caller, ContainmentDemand, Idempotency, LimitName, Lost, OnDisconnect, OnInterrupt, Outcome,
    RunSpec, UnattendedChoice,
};
use domain::setup::Setup;
use journal::keys::{self, Claim, KeyScope};
use journal::{NewRun, RunDir};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::conversation::{Conversation, Wanted};
use super::engine::{Engine, store_error};
use super::grants::Granted;
use super::honour::{self, Wishes};
use super::{AppError, Attachment, Start, Started, leashes, own_folders};
use crate::clock;
use crate::iac;
use crate::keeper;
use crate::own_program;
use crate::point;
use crate::readable::readable;
use crate::registry::{self, Catalogue, Trust};
use crate::wire::{self, Word};
use crate::worker;

/// How many errors of a configuration are shown at once.
const CONFIG_ERRORS_SHOWN: usize = 8;

/// Told of a run that is written down and not started yet; an error takes it back.
pub type Herald<'a> = &'a mut dyn FnMut(&RunSpec) -> Result<(), AppError>;

/// A child that was started, for the desk that records it.
pub struct StartedChild {
    pub run_id: RunId,
    pub agent: AgentName,
    pub told: Started,
}

impl Engine {
    /// Starts a root run.
    pub(super) async fn start(self: &Arc<Self>, ask: Start) -> Result<Started, AppError> {
        // Off the loop, where many starts share the flushes of the disk. Never torn apart by a caller that stops
        // waiting: what was begun there is finished.
        self.off_loop(move |engine| engine.start_now(ask, None, &mut |_| Ok(()))).await
    }

    /// Starts a child run for the agent of the run that this engine works for. The herald hears of it before it
    /// starts, so that its parent cannot lose sight of it.
    pub fn start_child(
        &self,
        ask: Start,
        mut parent: Parent,
        herald: Herald<'_>,
    ) -> Result<StartedChild, AppError> {
        parent.line = self.line_of(&parent.spec);
        let agent: AgentName =
            ask.agent.parse().map_err(|error: IdError| AppError::usage(error.to_string()))?;
        let told = self.start_now(ask, Some(parent), herald)?;
        Ok(StartedChild { run_id: told.run_id, agent, told })
    }

    fn start_now(&self, ask: Start, parent: Option<Parent>, herald: Herald<'_>) -> Result<Started, AppError> {
        point::reach("door_asked");
        if self.leashes.has_left() {
            return Err(AppError::internal("this server is leaving, so it starts nothing more"));
        }
        let mut ask = ask;
        if let Some(session) = ask.session.as_deref().filter(|_| ask.as_before) {
            let (agent, directory) = self.agent_before(&ask.agent, session)?;
            (ask.definition, ask.directory) = (Some(Box::new(agent)), Some(directory));
        }
        let (directory, catalogue) = self.place(ask.directory.as_deref())?;
        check_config(&catalogue)?;
        let named = ask.named.take();
        let granted = self.agent_for(&mut ask, &catalogue, &directory, parent.as_ref())?;
        let settled = &granted.settled;
        let (agent, said_of_agent) = (&settled.agent, settled.warnings.clone());
        if agent.source.format == Format::Directive {
            return Err(refusal_error(Refusal::Directive { agent: agent.name.clone() }));
        }
        let backend = self.backend_for(&catalogue, &granted)?;
        let (alternatives, said_of_fallbacks) =
            self.alternatives(&catalogue, agent, &directory, Some(&granted))?;
        let fingerprint = fingerprint(&ask, &directory);
        let attachment = ask.attachment;
        let resumes = ask.resumes;
        let told_before = resumes.map(|_| Agent { inputs: Vec::new(), ..agent.clone() });
        let agent = told_before.as_ref().unwrap_or(agent);
        let order = order_of(ask, fingerprint, catalogue.config.unattended.value)?;
        let order = Order { grants: settled.grants.clone(), ..order };
        let caller = self.caller_of(resumes.map(|before| before.run));
        let place = Place {
            id: clock::new_run_id(),
            now: clock::now(),
            tag: clock::new_tag(),
            directory,
            project: catalogue.project.clone(),
            caller,
            backend,
            alternatives,
            prices: catalogue.config.prices(),
            configured_limits: vec![catalogue.config.limits.asked()],
            on_disconnect: self.on_disconnect(&catalogue.config),
            parent,
        };
        // Before the plan: a request that was accepted once is not weighed against what is left to spend again.
        if let Some(known) = self.known_run(agent, &place, order.idempotency.as_ref())? {
            return Ok(known);
        }
        let mut order = order;
        let wanted = Wanted { session: order.session.take(), fork: order.fork };
        let at = (place.id, place.directory.as_str());
        let Conversation { session, told, held } = match named {
            Some(named) => self.session_by_name(agent, &place.backend, named, at)?,
            None => {
                let session = self.session_of(agent, &place.backend, wanted, &place.directory)?;
                Conversation { session, ..Conversation::default() }
            }
        };
        (order.session, order.told) = (session, told);
        let mut spec = plan(agent, order, place).map_err(refusal_error)?;
        if spec.containment == ContainmentDemand::Auto {
            spec.containment = catalogue.config.containment.value;
        }
        check_honoured(&spec, agent.source.format)?;
        spec.warnings = honour::unhonoured(&Wishes::of_run(&spec, agent), &spec.backend);
        let said_of_agent = said_of_agent.into_iter().chain(broken_file(&catalogue, agent));
        spec.warnings.extend(said_of_agent.chain(said_of_fallbacks));
        own_folders::protect(self.home.path(), &mut spec)?;
        let programs = self.project_programs(&catalogue, &spec.directory);
        spec.warnings.extend(programs.weigh(&spec.backend, &spec.alternatives)?);
        spec.trusted_programs = programs.trusted(&spec.backend, &spec.alternatives);
        if let Some(before) = resumes {
            spec.warnings.extend(self.resume_warnings(before.run, &spec.setup)?);
        }
        if !honour::can_resume(&spec.backend) {
            spec.on_interrupt = OnInterrupt::End;
        }
        self.take_place_in_tree(&spec)?;
        let launched = self.launch(spec, &catalogue, attachment, herald);
        drop(held);
        launched
    }

    /// Names the run that this one continues, and what it does not get although that one did.
    fn resume_warnings(&self, before: RunId, setup: &Setup) -> Result<Vec<String>, AppError> {
        let mut warnings = vec![format!("goes on with the run {}, which was interrupted", before.short())];
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

    /// Returns who asks. A run that goes on with another belongs to whom that one belonged to.
    fn caller_of(&self, resumes: Option<RunId>) -> Caller {
        let caller = self.caller();
        let before = resumes.and_then(|run| self.home.run_dir(run).read_spec().ok());
        Caller { token: caller.token.clone().or(before.and_then(|spec| spec.caller.token)), ..caller }
    }

    /// Returns the run that this request already made, if its key is known.
    fn known_run(
        &self,
        agent: &Agent,
        place: &Place,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<Started>, AppError> {
        let Some(idempotency) = idempotency else { return Ok(None) };
        let scope = KeyScope {
            project: place.project.clone(),
            agent: agent.name.clone(),
            key: idempotency.key.clone(),
            token: place.caller.token.clone(),
        };
        let Some((run, fingerprint)) = keys::known(&self.home, &scope).map_err(store_error)? else {
            return Ok(None);
        };
        let dir = self.home.run_dir(run);
        if !dir.exists() || self.never_began(&dir)? {
            // Its run was removed by the retention, or died with its door before anything started: the key is free.
            keys::release(&self.home, &scope, run).map_err(store_error)?;
            return Ok(None);
        }
        same_request(idempotency, run, &fingerprint).map(Some)
    }

    /// Tells whether a run ended without ever having been started.
    fn never_began(&self, dir: &RunDir) -> Result<bool, AppError> {
        self.look(dir)?;
        let ending = dir.ending().map_err(store_error)?;
        let never = Outcome::Interrupted { lost: Lost::BeforeStart };
        Ok(ending.is_some_and(|ending| ending.outcome == never))
    }

    fn launch(
        &self,
        mut spec: RunSpec,
        catalogue: &Catalogue,
        attachment: Attachment,
        herald: Herald<'_>,
    ) -> Result<Started, AppError> {
        self.mask_shown(&mut spec);
        let new_run = self.home.create_run(&spec).map_err(not_recorded)?;
        point::reach("door_wrote_spec");
        let mut said = spec.warnings.clone();
        if let (Some(idempotency), Some(scope)) = (&spec.idempotency, KeyScope::of(&spec)) {
            // The key points to a record that must be there after a crash.
            new_run.make_durable().map_err(store_error)?;
            let claim = keys::claim(&self.home, &scope, spec.id, &idempotency.fingerprint);
            match claim.map_err(store_error)? {
                Claim::New => {}
                Claim::Known { run, fingerprint } => {
                    let NewRun { dir, lock, .. } = new_run;
                    dir.discard(lock).map_err(store_error)?;
                    return same_request(idempotency, run, &fingerprint);
                }
            }
        }
        if spec.iac.is_some() {
            // Before the keeper, so that the run itself sees the file as it is shown.
            said.extend(iac::began(&self.home, &spec));
        }
        let pair = || leashes::pair().map_err(os_error("make a leash"));
        let begun = herald(&spec).and_then(|()| pair()).and_then(|(near, far)| {
            self.start_keeper(&new_run, &far, catalogue)?;
            Ok(near)
        });
        let near = match begun {
            Ok(near) => near,
            Err(error) => {
                self.abandon(new_run, &spec);
                return Err(error);
            }
        };
        point::reach("door_started_keeper");
        let durable = new_run.make_durable();
        let word = if durable.is_ok() { Word::Go } else { Word::Abort };
        // A keeper that died already is found by whoever looks.
        let _ = (&near).write_all(&wire::line(&word));
        if let Err(error) = durable {
            self.abandon(new_run, &spec);
            return Err(not_recorded(error));
        }
        point::reach("door_said_go");
        let policy = match attachment {
            Attachment::Attached => spec.on_disconnect,
            Attachment::Detached => OnDisconnect::Continue,
        };
        let run_id = spec.id;
        self.leashes.hold(spec, near, policy).map_err(os_error("hold the leash"))?;
        point::reach("door_holds_leash");
        Ok(Started { run_id, reused: false, warnings: said })
    }

    /// Takes back a run that was not accepted, and its key; what cannot be removed now is found as one that never
    /// started.
    fn abandon(&self, new_run: NewRun, spec: &RunSpec) {
        if let Some(scope) = KeyScope::of(spec) {
            let _ = keys::release(&self.home, &scope, spec.id);
        }
        let NewRun { dir, lock, .. } = new_run;
        let _ = dir.discard(lock);
        iac::ended(&self.home, spec);
    }

    /// Everybody can read what is shown of a run, so the keys that it has are masked in its task.
    fn mask_shown(&self, spec: &mut RunSpec) {
        if spec.iac.is_none() {
            return;
        }
        let masked = worker::masked(&self.home.run_dir(spec.id), spec, spec.task());
        let shown = Some(masked).filter(|masked| masked != spec.task());
        if let Some(iac) = &mut spec.iac {
            iac.shown = shown;
        }
    }

    fn start_keeper(
        &self,
        new_run: &NewRun,
        leash: &impl AsFd,
        catalogue: &Catalogue,
    ) -> Result<(), AppError> {
        let program = own_program::path().map_err(os_error("find this program"))?;
        let slots = crate::slots::count(&catalogue.config);
        let args: [OsString; 4] = [
            "__keeper".into(),
            new_run.dir.path().into(),
            slots.to_string().into(),
            catalogue.config.slots_queue.value.to_string().into(),
        ];
        let worker_log = new_run.dir.worker_log_path();
        let request = KeeperRequest {
            program: &program,
            args: &args,
            fds: &[(leash.as_fd(), keeper::LEASH_FD), (new_run.lock.as_fd(), keeper::LOCK_FD)],
            stderr: Some(&worker_log),
            directory: Path::new("/"),
        };
        let keeper = process::spawn_keeper(&request).map_err(os_error("start a keeper"))?;
        self.reap_later(keeper);
        Ok(())
    }

    /// Collects what was started as a keeper when it has ended, which is at once if that could leave, without waiting for it here.
    fn reap_later(&self, keeper: ProcessHandle) {
        let Ok(ended) = keeper.as_fd().try_clone_to_owned() else { return };
        tokio::spawn(async move {
            // If it cannot be awaited or collected, its entry stays until this door ends.
            if readable(ended).await.is_ok() {
                let _ = keeper.try_reap();
            }
        });
    }

    /// Returns how the agent of a run is driven, or why its backend cannot hold it to what its parent run has.
    fn backend_for(&self, catalogue: &Catalogue, granted: &Granted) -> Result<BackendSpec, AppError> {
        let Granted { settled, own, ceiling } = granted;
        let (name, narrow) = (&settled.agent.name, &settled.agent.setup.permission);
        let backend = self.backend_of(catalogue, &settled.agent)?;
        match ceiling.as_ref().and_then(|ceiling| ceiling.unheld(&own.permission, narrow, &backend)) {
            None => Ok(backend),
            Some(error) => Err(AppError { message: format!("agent {name}: {}", error.message), ..error }),
        }
    }

    /// Returns how an agent is driven, or why it may not be.
    pub(super) fn backend_of(&self, catalogue: &Catalogue, agent: &Agent) -> Result<BackendSpec, AppError> {
        let spec = self.configured_backend(catalogue, agent)?;
        check_installed(agent)?;
        let configured = catalogue.config.backends.get(&agent.backend);
        let from_project = configured.is_some_and(|backend| backend.layer == Layer::Project);
        let own_programs =
            agent.source.layer == Layer::Project && !definition::agent::executables(agent).is_empty();
        if (from_project || own_programs) && !self.trust().is_trusted(catalogue) {
            let project = &catalogue.project;
            // A caller may be a model: literal values are for the person who gives trust.
            let executables = Trust::executables_without_secrets(catalogue);
            let would = match executables.contains(", remote MCP server ") {
                true => "execute programs or contact servers",
                false => "execute programs",
            };
            let message = format!(
                "the project {project} would {would} that you have not trusted:\n{}",
                executables.trim_end()
            );
            return Err(AppError::denied(message).hint(format!("look at them, then: volery trust {project}")));
        }
        Ok(spec)
    }

    /// Returns how an agent is driven, trusted and installed or not.
    pub(super) fn configured_backend(
        &self,
        catalogue: &Catalogue,
        agent: &Agent,
    ) -> Result<BackendSpec, AppError> {
        let name = agent.backend.as_str();
        if backend::registry::built_in().contains(&name) {
            let script = match &agent.script {
                Some(ScriptSource::Inline(script)) => script.clone(),
                Some(ScriptSource::File(_)) | None => domain::agent::Script::default(),
            };
            let options = if agent.launch.is_usual() { json!(script) } else { json!(agent.launch) };
            let spec = BackendSpec { name: agent.backend.clone(), kind: name.to_owned(), options };
            return match agent.launch.container.is_some() && !honour::takes_containers(&spec) {
                true => Err(AppError::denied(format!("the program of {name} cannot be run in a container"))),
                false => Ok(spec),
            };
        }
        let Some(configured) = catalogue.config.backends.get(&agent.backend) else {
            let known = catalogue.config.backends.keys().map(|name| name.as_str());
            let names: Vec<&str> = known.chain(backend::registry::built_in()).collect();
            let message = format!("agent {} needs the backend {name}, which is not configured", agent.name);
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean {near}? {} names it", agent.source.file),
                None => format!("configured are: {}; define it as [backends.{name}]", names.join(", ")),
            };
            return Err(AppError::usage(message).hint(hint));
        };
        let options =
            serde_json::to_value(&configured.value).map_err(|error| AppError::internal(error.to_string()))?;
        Ok(BackendSpec { name: agent.backend.clone(), kind: configured.value.kind().to_owned(), options })
    }

    /// Returns agent and prompt of a run, its parent, and so on to the root.
    fn line_of(&self, spec: &RunSpec) -> Vec<(AgentName, String)> {
        let mut line = vec![(spec.agent.clone(), spec.prompt.clone())];
        let mut above = spec.parent;
        while let Some(id) = above {
            let Ok(parent) = self.home.run_dir(id).read_spec() else { break };
            line.push((parent.agent, parent.prompt));
            above = parent.parent;
        }
        line
    }

    /// Counts a child in its whole tree: a numbered file in the root's directory, made by whoever comes first.
    fn take_place_in_tree(&self, spec: &RunSpec) -> Result<(), AppError> {
        if spec.parent.is_none() {
            return Ok(());
        }
        let allowed = spec.limits.tree_runs;
        let taken = journal::tree::take_number(&self.home.run_dir(spec.root), allowed.saturating_sub(1));
        match taken.map_err(store_error)? {
            Some(_) => Ok(()),
            None => Err(refusal_error(Refusal::Limit { limit: LimitName::TreeRuns, allowed })),
        }
    }
}

/// A vendor's program that is not there is told before anything starts.
pub fn check_installed(agent: &Agent) -> Result<(), AppError> {
    let name = agent.backend.as_str();
    let Some(program) = backend::registry::by_kind(name).and_then(|backend| backend.program()) else {
        return Ok(());
    };
    if crate::programs::find(program, &agent.launch).is_some() {
        return Ok(());
    }
    let wanted = agent.launch.program.clone().unwrap_or_else(|| program.names.join(" or "));
    let message = format!("agent {} needs {wanted}, which is not on the PATH", agent.name);
    Err(AppError::usage(message).hint(format!("install {wanted}, or give the agent another backend")))
}

/// Refuses what the backend cannot honour and the agent will not do without.
fn check_honoured(spec: &RunSpec, format: Format) -> Result<(), AppError> {
    let found = honour::obstacles(&spec.system_prompt, &spec.setup, format, &spec.backend);
    match found.into_iter().next().map(|obstacle| obstacle.error) {
        None => Ok(()),
        Some(error) => Err(AppError { message: format!("agent {}: {}", spec.agent, error.message), ..error }),
    }
}

fn order_of(ask: Start, fingerprint: String, questions: UnattendedChoice) -> Result<Order, AppError> {
    let parse =
        |text: String| text.parse::<IdempotencyKey>().map_err(|error| AppError::usage(error.to_string()));
    let idempotency = ask.idempotency_key.map(parse).transpose()?;
    let session = ask.session.map(|text| text.parse()).transpose();
    Ok(Order {
        prompt: ask.prompt,
        context: ask.context,
        inputs: ask.inputs,
        session: session.map_err(|error: domain::id::IdError| AppError::usage(error.to_string()))?,
        fork: ask.fork,
        told: Vec::new(),
        model: ask.model,
        output_schema: ask.output_schema,
        resumes: ask.resumes,
        limits: ask.limits,
        on_disconnect: ask.on_disconnect,
        grants: Vec::new(),
        unattended: ask.unattended.and_then(|reason| reason.denies(questions)),
        idempotency: idempotency.map(|key| Idempotency { key, fingerprint }),
        iac: ask.iac,
    })
}

/// A setting that could not be read may have been a limit: nothing starts until it is mended.
fn check_config(catalogue: &Catalogue) -> Result<(), AppError> {
    let unsound = catalogue.config_files.iter().filter(|file| file.unsound);
    let errors = unsound.flat_map(|file| &file.diagnostics).filter(|found| found.is_error());
    let errors: Vec<String> = errors.take(CONFIG_ERRORS_SHOWN).map(ToString::to_string).collect();
    if errors.is_empty() {
        return Ok(());
    }
    let message = format!("the configuration has errors, so nothing is started:\n{}", errors.join("\n"));
    Err(AppError::usage(message).hint("`volery agents check` lists everything that is wrong"))
}

/// Returns the agent of this name; else lists what there is, and the nearest.
pub(super) fn find_agent<'a>(
    catalogue: &'a Catalogue,
    directory: &str,
    typed: &str,
) -> Result<Cow<'a, Agent>, AppError> {
    let name: AgentName = typed.parse().map_err(|error: domain::id::IdError| {
        // A name for people has one for programs.
        let meant = definition::agent::name_of(Format::Claude, "", typed);
        let meant = meant.filter(|meant| catalogue.agents.contains_key(meant));
        let refused = AppError::usage(error.to_string());
        meant.map_or(refused.clone(), |meant| refused.hint(format!("did you mean {meant}?")))
    })?;
    if let Some(agent) = catalogue.agent(&name) {
        return Ok(agent);
    }
    let refused = AppError::not_found(format!("there is no agent {typed} in {}", catalogue.project));
    let named_so =
        || catalogue.diagnostics.iter().find(|found| found.is_error() && is_file_of(typed, &found.file));
    if let Some(found) = catalogue.broken.get(&name).or_else(named_so) {
        return Err(refused.hint(format!("its file has a problem: {found}")));
    }
    if let Some(found) = registry::unread_agents(directory, &catalogue.project).first() {
        return Err(refused.hint(found.to_string()));
    }
    if let Some(vendor) = backend::registry::vendors().find(|vendor| vendor.backend == typed) {
        let program = vendor.program.names.join(" or ");
        let hint = format!("install {program} and put it on the PATH: then {typed} is a built-in agent");
        return Err(refused.hint(hint));
    }
    let built_in = catalogue.built_in_agents();
    let all = catalogue.agents.keys().chain(built_in.iter().map(|agent| &agent.name));
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

/// Returns a warning if a stronger file of the agent's name has errors, so that this agent is used instead.
fn broken_file(catalogue: &Catalogue, agent: &Agent) -> Option<String> {
    let problem = catalogue.broken.get(&agent.name)?;
    Some(format!(
        "the agent of {} is used, since another file of its name has errors: {problem}",
        agent.source.file
    ))
}

/// Tells whether an agent of this name would stand in the file.
fn is_file_of(name: &str, file: &str) -> bool {
    let path = Path::new(file);
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = path.parent().and_then(Path::file_name).and_then(|folder| folder.to_str());
    stem.strip_suffix(".agent").unwrap_or(stem) == name || (stem == "agent" && folder == Some(name))
}

fn fingerprint(ask: &Start, directory: &str) -> String {
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
    // Without one it is as it was before there were any, so that keys stay known.
    let request = match &ask.output_schema {
        Some(schema) => json!([request, schema]),
        None => request,
    };
    let request = match ask.permission.is_empty() {
        true => request,
        false => json!([request, ask.permission]),
    };
    let digest = Sha256::digest(request.to_string().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn same_request(idempotency: &Idempotency, run: RunId, fingerprint: &str) -> Result<Started, AppError> {
    if idempotency.fingerprint == fingerprint {
        return Ok(Started { run_id: run, reused: true, warnings: Vec::new() });
    }
    let message = format!(
        "the idempotency key {} was used for another request, which made the run {}",
        idempotency.key,
        run.short()
    );
    Err(AppError::usage(message).hint("use a new key for a new request"))
}

fn refusal_error(refusal: Refusal) -> AppError {
    let message = refusal.to_string();
    match refusal {
        Refusal::EmptyPrompt => AppError::usage(message).hint("say what the agent shall do"),
        Refusal::NulInPrompt => {
            AppError::usage(message).hint("remove it, or put binary material into a file")
        }
        Refusal::Model { .. } => AppError::usage(message).hint("a name does not begin with '-'"),
        Refusal::PromptTooLong { .. } => {
            AppError::limit(message).hint("put long material into a file and name the file in the prompt")
        }
        Refusal::Inputs { .. } => AppError::usage(message)
            .hint("`volery agents show NAME` and list_agents say which inputs it takes"),
        Refusal::CallerNotAllowed { .. } | Refusal::MayNotDelegate { .. } | Refusal::Circle { .. } => {
            AppError::denied(message)
        }
        Refusal::Directive { .. } => {
            AppError::usage(message).hint("`volery agents show NAME` prints what it wants and does")
        }
        Refusal::Limit { .. } | Refusal::NoTime => AppError::limit(message),
    }
}

/// A run without a record does not exist.
fn not_recorded(error: journal::StoreError) -> AppError {
    let mut told = store_error(error);
    told.message = format!("the run could not be recorded, so nothing was started: {}", told.message);
    told
}

fn os_error(what: &'static str) -> impl Fn(std::io::Error) -> AppError {
    move |error| AppError::internal(format!("could not {what}: {error}"))
}
