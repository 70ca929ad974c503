//! Operations that are only for the owner of the machine, from outside all runs: trust, clean, reindex, and the state
//! report.

use std::sync::Arc;

use config::settings::Config;
use domain::agent::Layer;
use domain::id::RunId;
use domain::invisible_text::escape_invisible;
use domain::run::RunSpec;
use journal::idempotency_keys::{self, KeyScope};
use journal::index::Index;
use journal::retention::{self, RetentionPolicy, SweepLimits, SweepReport, SweepRequest};
use journal::sessions;

use crate::api::{
    CleanReport, CleanRequest, ConfigFileView, EngineError, IndexView, NewAgent, NewAgentView, ReindexReport,
    SlotsView, StartRequest, StateReport, TrustEffect, TrustItem, TrustList, TrustState, TrustView,
    TrustedProject,
};
use crate::ask::{Ask, OnProgress};
use crate::clock;
use crate::engine::{Engine, store_error};
use crate::handle::{EngineAccess, EngineHandle};
use crate::query::run_queries::index_error;
use crate::registry::{self, Catalog, TrustError, TrustStore};

/// The most removed runs that are listed.
const CLEANED_MAX: usize = 200;

/// Shows what the project's files would execute, and whether that is trusted.
#[derive(Debug, Clone)]
pub struct ShowTrust {
    pub directory: Option<String>,
}

impl Ask for ShowTrust {
    type Answer = TrustView;

    async fn answer(self, engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<TrustView, EngineError> {
        let (_, catalog) = engine.locate(self.directory.as_deref())?;
        trust_view(&engine.trust(), &catalog)
    }
}

/// Trusts what was shown: the fingerprint proves that it has not changed since.
#[derive(Debug, Clone)]
pub struct TrustProject {
    pub directory: Option<String>,
    pub fingerprint: String,
}

impl Ask for TrustProject {
    type Answer = TrustView;

    async fn answer(self, engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<TrustView, EngineError> {
        let (_, catalog) = engine.locate(self.directory.as_deref())?;
        if TrustStore::fingerprint(&catalog) != self.fingerprint {
            let message = format!("the files of {} changed while you looked at them", catalog.project);
            return Err(EngineError::denied(message).hint("look again, then trust"));
        }
        engine.trust().record(&catalog, clock::now()).map_err(trust_error)?;
        trust_view(&engine.trust(), &catalog)
    }
}

/// Revokes all trust in the project.
#[derive(Debug, Clone)]
pub struct RevokeTrust {
    pub directory: Option<String>,
}

impl Ask for RevokeTrust {
    type Answer = TrustView;

    async fn answer(self, engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<TrustView, EngineError> {
        let (_, catalog) = engine.locate(self.directory.as_deref())?;
        engine.trust().revoke(&catalog.project).map_err(trust_error)?;
        trust_view(&engine.trust(), &catalog)
    }
}

/// Lists the trusted projects.
#[derive(Debug, Clone)]
pub struct ListTrust;

impl Ask for ListTrust {
    type Answer = TrustList;

    async fn answer(self, engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<TrustList, EngineError> {
        let records = engine.trust().list().map_err(trust_error)?;
        let projects = records.into_iter().map(|record| {
            let catalog = registry::load(&record.project);
            let state = match TrustStore::fingerprint(&catalog) == record.fingerprint {
                true => TrustState::Trusted,
                false => TrustState::Changed,
            };
            TrustedProject { project: record.project, state, trusted_at: record.trusted_at.to_string() }
        });
        Ok(TrustList { projects: projects.collect() })
    }
}

impl Ask for NewAgent {
    type Answer = NewAgentView;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<NewAgentView, EngineError> {
        engine.run_blocking(move |engine| engine.write_agent(&self)).await
    }
}

/// Removes runs that are older than requested, or than the configured retention.
impl Ask for CleanRequest {
    type Answer = CleanReport;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<CleanReport, EngineError> {
        let policy = match self.older_than_ms {
            Some(ms) => RetentionPolicy { output_ms: ms, record_ms: ms },
            None => retention_policy(&engine.own_config()),
        };
        engine.run_blocking(move |engine| engine.clean_now(policy, self.dry_run)).await
    }
}

/// Returns the request that resumes an interrupted run.
#[derive(Debug, Clone)]
pub struct PrepareResume {
    pub run: String,
}

impl Ask for PrepareResume {
    type Answer = StartRequest;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<StartRequest, EngineError> {
        engine.run_blocking(move |engine| engine.resume_request(&self.run)).await
    }
}

/// Rebuilds the index from the run directories.
#[derive(Debug, Clone)]
pub struct Reindex;

impl Ask for Reindex {
    type Answer = ReindexReport;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<ReindexReport, EngineError> {
        engine.run_blocking(Engine::reindex_now).await
    }
}

/// Returns the engine's report about its own state.
#[derive(Debug, Clone)]
pub struct GetStateReport;

impl Ask for GetStateReport {
    type Answer = StateReport;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<StateReport, EngineError> {
        let own = engine.directory.to_string_lossy().into_owned();
        let (_, catalog) = engine.locate(Some(&own))?;
        let total = u64::from(crate::slot_count::slot_count(&catalog.config));
        let trust = trust_view(&engine.trust(), &catalog)?;
        let taken = journal::slots::slots_in_use(engine.home.path()).map_or(0, u64::from);
        let queued = journal::slots::queue_length(engine.home.path());
        let config = catalog.config_files.iter().map(|found| ConfigFileView {
            path: found.file.clone(),
            layer: serde_json::json!(found.layer).as_str().unwrap_or_default().to_owned(),
            diagnostics: found.diagnostics.clone(),
        });
        Ok(StateReport {
            home: engine.home.path().display().to_string(),
            index: index_view(engine),
            slots: SlotsView { total, used: taken, queued },
            config: config.collect(),
            trust,
            inside_run: None,
        })
    }
}

impl EngineHandle {
    /// Removes what the retention allows, if that was not done for an hour. Costs one look at a file's date.
    pub fn sweep_if_due(&self) {
        let EngineAccess::Direct(engine) = &self.access else { return };
        // The user did not request this sweep, so its errors are ignored; `volery clean` reports them.
        let _ = engine.sweep_if_due(&self.retention());
    }

    pub(crate) fn retention(&self) -> RetentionPolicy {
        retention_policy(self.config())
    }

    pub(crate) fn owner_engine(&self) -> Result<&Arc<Engine>, EngineError> {
        match &self.access {
            EngineAccess::Direct(engine) => Ok(engine),
            EngineAccess::Relayed(_) => {
                Err(EngineError::denied("this is for the owner of the machine, not from inside a run"))
            }
        }
    }
}

fn retention_policy(config: &Config) -> RetentionPolicy {
    RetentionPolicy {
        output_ms: config.retention_output_ms.value,
        record_ms: config.retention_record_ms.value,
    }
}

impl Engine {
    fn clean_now(&self, policy: RetentionPolicy, dry_run: bool) -> Result<CleanReport, EngineError> {
        self.ingest()?;
        let request = SweepRequest {
            home: self.home.path(),
            policy: &policy,
            now: clock::now(),
            limits: SweepLimits::NONE,
        };
        let report = match dry_run {
            true => retention::dry_run(&request),
            false => retention::sweep(&request, &mut |runs| self.forget(runs)),
        };
        if !dry_run {
            self.forget_sessions(&policy)?;
        }
        let SweepReport { deleted, outputs_dropped, bytes_freed, run_ids, problems, .. } =
            report.map_err(sweep_error)?;
        let problems =
            problems.iter().map(|problem| format!("{}: {}", problem.path.display(), problem.reason));
        Ok(CleanReport {
            dry_run,
            deleted,
            outputs_dropped,
            bytes: bytes_freed,
            runs: run_ids.into_iter().take(CLEANED_MAX).collect(),
            problems: problems.collect(),
        })
    }

    pub(crate) fn sweep_if_due(&self, policy: &RetentionPolicy) -> Result<(), EngineError> {
        let limits = SweepLimits::AUTOMATIC;
        let request = SweepRequest { home: self.home.path(), policy, now: clock::now(), limits };
        let swept = retention::sweep_if_due(&request, &mut |runs| self.forget(runs)).map_err(sweep_error)?;
        if swept.is_some() {
            self.forget_sessions(policy)?;
            // Without this, ended runs would pile up for a user who runs agents and never lists them.
            self.ingest()?;
        }
        Ok(())
    }

    /// Forgets the sessions that were not used for as long as records are stored.
    fn forget_sessions(&self, policy: &RetentionPolicy) -> Result<(), EngineError> {
        sessions::forget_unused(&self.home, clock::now(), policy.record_ms).map_err(store_error)?;
        Ok(())
    }

    /// Removes runs that are being deleted from the index; returns whether that succeeded.
    fn forget(&self, runs: &[RunId]) -> bool {
        let forgotten = self.update_index(|index| Ok(index.remove(runs).is_done())).unwrap_or(false);
        if forgotten {
            runs.iter().for_each(|run| self.release_key(*run));
        }
        forgotten
    }

    /// Releases the idempotency key of a run in the trash. A key that cannot be released now is released when it is
    /// used again.
    fn release_key(&self, run: RunId) {
        let path = self.home.trash_dir().join(run.to_string()).join("spec.json");
        let spec = std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<RunSpec>(&bytes).ok());
        if let Some(scope) = spec.as_ref().and_then(KeyScope::from_spec) {
            let _ = idempotency_keys::release(&self.home, &scope, run);
        }
    }

    fn reindex_now(&self) -> Result<ReindexReport, EngineError> {
        let began = clock::monotonic_ms();
        let mut opened = Index::open(self.home.path()).map_err(index_error)?;
        opened.index.clear().into_result().map_err(index_error)?;
        let (runs, damaged) = self.rebuild(&mut opened.index)?;
        let open = self.ingest()?.iter().filter(|dir| matches!(dir.ending(), Ok(None))).count() as u64;
        Ok(ReindexReport { runs, open, damaged, duration_ms: clock::monotonic_ms() - began })
    }
}

fn index_view(engine: &Engine) -> IndexView {
    let path = journal::index::path(engine.home.path()).display().to_string();
    // Runs that ended since the last query are not in the index yet.
    match engine.ingest().and_then(|_open| engine.query_index(Index::count)) {
        Ok(runs) => IndexView { path, runs, problem: None },
        Err(error) => IndexView { path, runs: 0, problem: Some(error.to_string()) },
    }
}

fn trust_view(trust: &TrustStore, catalog: &Catalog) -> Result<TrustView, EngineError> {
    let executables = TrustStore::executables(catalog);
    let state = if executables.is_empty() {
        TrustState::NothingToTrust
    } else if trust.is_trusted(catalog) {
        TrustState::Trusted
    } else if trust.list().map_err(trust_error)?.iter().any(|record| record.project == catalog.project) {
        TrustState::Changed
    } else {
        TrustState::Untrusted
    };
    Ok(TrustView {
        project: catalog.project.clone(),
        state,
        fingerprint: TrustStore::fingerprint(catalog),
        items: trust_items(catalog),
    })
}

/// Returns what would be executed and allowed, each with its location and the reason.
fn trust_items(catalog: &Catalog) -> Vec<TrustItem> {
    let mut items = Vec::new();
    let configs = catalog.config_files.iter().filter(|found| found.layer == Layer::Project);
    let widenings: Vec<_> = configs
        .flat_map(|found| found.widenings.iter().map(move |(widening, line)| (&found.file, widening, *line)))
        .collect();
    for (file, text) in TrustStore::by_own_file(catalog) {
        for line in text.lines() {
            let (what, command) = line.split_once(": ").unwrap_or((line, ""));
            // These have an item for each part below.
            if widenings
                .iter()
                .any(|(widened_file, widening, _)| **widened_file == *file && widening.subject == what)
            {
                continue;
            }
            items.push(TrustItem {
                effect: TrustEffect::Execute,
                name: what.to_owned(),
                command: command.to_owned(),
                line: registry::executable_line(&file, what),
                file: file.to_string(),
                reason: why_executed(what).to_owned(),
            });
        }
    }
    for program in catalog.project_executables() {
        let file = program.file.display().to_string();
        let (what, rest) = program.description.split_once(": ").unwrap_or((&program.description, ""));
        let item = |line, command: &str, why: &str| TrustItem {
            effect: TrustEffect::Execute,
            name: what.to_owned(),
            command: command.to_owned(),
            file: file.clone(),
            line,
            reason: why.to_owned(),
        };
        if program.excerpts.is_empty() {
            items.push(item(None, rest, "it is not known to be harmless"));
        }
        let excerpts = program.excerpts.iter();
        items.extend(excerpts.map(|found| item(found.line, &found.text, found.reason)));
    }
    items.extend(widenings.into_iter().map(|(file, widening, line)| TrustItem {
        effect: TrustEffect::Allow,
        name: widening.subject.clone(),
        command: widening.setting.clone(),
        file: file.clone(),
        line,
        reason: widening.effect.clone(),
    }));
    items.extend(TrustStore::grants(catalog).into_iter().map(|(agent, grant)| TrustItem {
        effect: TrustEffect::Allow,
        name: format!("agent {}", agent.name),
        line: grant.line(&agent.source.file),
        file: agent.source.file.clone(),
        command: grant.setting,
        reason: grant.effect,
    }));
    for item in &mut items {
        for text in [&mut item.name, &mut item.command, &mut item.reason] {
            *text = escape_invisible(text).into_owned();
        }
    }
    items
}

fn why_executed(what: &str) -> &'static str {
    match what.rsplit(", ").next().unwrap_or(what) {
        part if part.starts_with("MCP server") => "the agent's MCP server is a program",
        part if part.starts_with("remote MCP server") => {
            "it gets these variables, and the agent reads its answers"
        }
        "acceptance" => "it runs after the agent, to confirm its success",
        "hook" => "hooks run programs at events of the agent",
        part if part.starts_with("backend") => "agents with this backend are run by it",
        _ => "the project's files name it",
    }
}

fn trust_error(error: TrustError) -> EngineError {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    EngineError::internal(format!("{error}{cause}"))
}

fn sweep_error(error: impl std::error::Error) -> EngineError {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    EngineError::internal(format!("could not {error}{cause}"))
}
