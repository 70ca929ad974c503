//! What only the owner of the machine asks, from outside all runs: trust, clean, rebuild, and the state of it all.

use std::sync::Arc;

use domain::agent::Layer;
use domain::id::RunId;
use domain::run::RunSpec;
use domain::visible::visible;
use journal::index::Index;
use journal::keys::{self, KeyScope};
use journal::retention::{self, Policy, Sweep, SweepLimits, SweepReport};
use journal::sessions;

use super::engine::{Engine, store_error};
use super::lists::index_error;
use super::{
    App, AppError, Clean, Cleaned, ConfigFileView, IndexView, NewAgent, NewAgentView, Reindexed, SlotsView,
    Start, StateReport, TrustEffect, TrustItem, TrustList, TrustState, TrustView, TrustedProject, Way,
};
use crate::clock;
use crate::registry::{self, Catalogue, Trust, TrustError};

/// The most removed runs that are named one by one.
const CLEANED_MAX: usize = 200;

impl App {
    /// Returns what the project's files would execute, and whether that is trusted.
    pub async fn trust_status(&self, directory: Option<String>) -> Result<TrustView, AppError> {
        let engine = self.owned()?;
        let (_, catalogue) = engine.place(directory.as_deref())?;
        trust_view(&engine.trust(), &catalogue)
    }

    /// Trusts what was shown: the fingerprint says that it has not changed since.
    pub async fn trust(&self, directory: Option<String>, fingerprint: String) -> Result<TrustView, AppError> {
        let engine = self.owned()?;
        let (_, catalogue) = engine.place(directory.as_deref())?;
        if Trust::fingerprint(&catalogue) != fingerprint {
            let message = format!("the files of {} changed while you looked at them", catalogue.project);
            return Err(AppError::denied(message).hint("look again, then trust"));
        }
        engine.trust().give(&catalogue, clock::now()).map_err(trust_error)?;
        trust_view(&engine.trust(), &catalogue)
    }

    /// Takes back every trust given to the project.
    pub async fn revoke_trust(&self, directory: Option<String>) -> Result<TrustView, AppError> {
        let engine = self.owned()?;
        let (_, catalogue) = engine.place(directory.as_deref())?;
        engine.trust().revoke(&catalogue.project).map_err(trust_error)?;
        trust_view(&engine.trust(), &catalogue)
    }

    pub async fn list_trust(&self) -> Result<TrustList, AppError> {
        let engine = self.owned()?;
        let records = engine.trust().list().map_err(trust_error)?;
        let projects = records.into_iter().map(|record| {
            let catalogue = registry::load(&record.project);
            let state = match Trust::fingerprint(&catalogue) == record.fingerprint {
                true => TrustState::Trusted,
                false => TrustState::Changed,
            };
            TrustedProject { project: record.project, state, trusted_at: record.trusted_at.to_string() }
        });
        Ok(TrustList { projects: projects.collect() })
    }

    /// Writes the file of a new agent.
    pub async fn new_agent(&self, ask: NewAgent) -> Result<NewAgentView, AppError> {
        self.owned()?.off_loop(move |engine| engine.write_agent(&ask)).await
    }

    /// Removes what is older than asked, or than the configured retention.
    pub async fn clean(&self, ask: Clean) -> Result<Cleaned, AppError> {
        let policy = match ask.older_than_ms {
            Some(ms) => Policy { output_ms: ms, record_ms: ms },
            None => self.retention(),
        };
        self.owned()?.off_loop(move |engine| engine.clean_now(policy, ask.dry_run)).await
    }

    /// Returns what has to be started to go on with a run that was interrupted.
    pub async fn resumption(&self, run: String) -> Result<Start, AppError> {
        self.owned()?.off_loop(move |engine| engine.resumption_of(&run)).await
    }

    /// Rebuilds the index from the run directories.
    pub async fn reindex(&self) -> Result<Reindexed, AppError> {
        self.owned()?.off_loop(Engine::reindex_now).await
    }

    /// Returns what the engine knows about its own state.
    pub async fn state_report(&self) -> Result<StateReport, AppError> {
        let engine = self.owned()?;
        let own = engine.directory.to_string_lossy().into_owned();
        let (_, catalogue) = engine.place(Some(&own))?;
        let total = u64::from(crate::slots::count(&catalogue.config));
        let trust = trust_view(&engine.trust(), &catalogue)?;
        let taken = journal::slots::slots_in_use(engine.home.path()).map_or(0, u64::from);
        let queued = journal::slots::queued(engine.home.path());
        let config = catalogue.config_files.iter().map(|found| ConfigFileView {
            path: found.file.clone(),
            layer: serde_json::json!(found.layer).as_str().unwrap_or_default().to_owned(),
            diagnostics: found.diagnostics.clone(),
        });
        Ok(StateReport {
            home: engine.home.path().display().to_string(),
            index: index_view(engine),
            slots: SlotsView { total, taken, queued },
            config: config.collect(),
            trust,
            inside_run: None,
        })
    }

    /// Sweeps what the retention lets go, if that has not been done for an hour. Costs a look at one file's date.
    pub fn sweep_if_due(&self) {
        let Way::Own(engine) = &self.way else { return };
        // Nobody asked for this sweep, so nobody is told when it fails; `volery clean` tells.
        let _ = engine.sweep_if_due(&self.retention());
    }

    pub(super) fn retention(&self) -> Policy {
        let config = self.config();
        Policy { output_ms: config.retention_output_ms.value, record_ms: config.retention_record_ms.value }
    }

    pub(super) fn owned(&self) -> Result<&Arc<Engine>, AppError> {
        match &self.way {
            Way::Own(engine) => Ok(engine),
            Way::Relayed(_) => {
                Err(AppError::denied("this is for the owner of the machine, not from inside a run"))
            }
        }
    }
}

impl Engine {
    fn clean_now(&self, policy: Policy, dry_run: bool) -> Result<Cleaned, AppError> {
        self.ingest()?;
        let request =
            Sweep { home: self.home.path(), policy: &policy, now: clock::now(), limits: SweepLimits::NONE };
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
        Ok(Cleaned {
            dry_run,
            deleted,
            outputs_dropped,
            bytes: bytes_freed,
            runs: run_ids.into_iter().take(CLEANED_MAX).collect(),
            problems: problems.collect(),
        })
    }

    pub(super) fn sweep_if_due(&self, policy: &Policy) -> Result<(), AppError> {
        let limits = SweepLimits::AUTOMATIC;
        let request = Sweep { home: self.home.path(), policy, now: clock::now(), limits };
        let swept = retention::sweep_if_due(&request, &mut |runs| self.forget(runs)).map_err(sweep_error)?;
        if swept.is_some() {
            self.forget_sessions(policy)?;
            // Whoever only ever runs agents and never lists them would else pile up what a list has to look at.
            self.ingest()?;
        }
        Ok(())
    }

    /// Forgets the sessions that were not used for as long as a record is kept.
    fn forget_sessions(&self, policy: &Policy) -> Result<(), AppError> {
        sessions::forget_unused(&self.home, clock::now(), policy.record_ms).map_err(store_error)?;
        Ok(())
    }

    /// Removes runs that are being deleted from the index; tells whether that was done.
    fn forget(&self, runs: &[RunId]) -> bool {
        let forgotten = self.with_index(|index| Ok(index.remove(runs).is_done())).unwrap_or(false);
        if forgotten {
            runs.iter().for_each(|run| self.give_key_back(*run));
        }
        forgotten
    }

    /// Frees the idempotency key of a run that lies in the trash. One that cannot be freed now is freed when it is
    /// asked for again.
    fn give_key_back(&self, run: RunId) {
        let path = self.home.trash_dir().join(run.to_string()).join("spec.json");
        let spec = std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<RunSpec>(&bytes).ok());
        if let Some(scope) = spec.as_ref().and_then(KeyScope::of) {
            let _ = keys::release(&self.home, &scope, run);
        }
    }

    fn reindex_now(&self) -> Result<Reindexed, AppError> {
        let began = clock::monotonic_ms();
        let mut opened = Index::open(self.home.path()).map_err(index_error)?;
        opened.index.clear().done().map_err(index_error)?;
        let (runs, damaged) = self.fill(&mut opened.index)?;
        let open = self.ingest()?.iter().filter(|dir| matches!(dir.ending(), Ok(None))).count() as u64;
        Ok(Reindexed { runs, open, damaged, duration_ms: clock::monotonic_ms() - began })
    }
}

fn index_view(engine: &Engine) -> IndexView {
    let path = journal::index::path(engine.home.path()).display().to_string();
    // What ended since somebody looked last is not in it yet.
    match engine.ingest().and_then(|_open| engine.indexed(Index::count)) {
        Ok(runs) => IndexView { path, runs, problem: None },
        Err(error) => IndexView { path, runs: 0, problem: Some(error.to_string()) },
    }
}

fn trust_view(trust: &Trust, catalogue: &Catalogue) -> Result<TrustView, AppError> {
    let executables = Trust::executables(catalogue);
    let state = if executables.is_empty() {
        TrustState::NothingToTrust
    } else if trust.is_trusted(catalogue) {
        TrustState::Trusted
    } else if trust.list().map_err(trust_error)?.iter().any(|record| record.project == catalogue.project) {
        TrustState::Changed
    } else {
        TrustState::Untrusted
    };
    Ok(TrustView {
        project: catalogue.project.clone(),
        state,
        fingerprint: Trust::fingerprint(catalogue),
        items: trust_items(catalogue),
    })
}

/// Returns what would be executed and allowed, each with its place and the reason.
fn trust_items(catalogue: &Catalogue) -> Vec<TrustItem> {
    let mut items = Vec::new();
    let configs = catalogue.config_files.iter().filter(|found| found.layer == Layer::Project);
    let widenings: Vec<_> = configs
        .flat_map(|found| found.widenings.iter().map(move |(widening, line)| (&found.file, widening, *line)))
        .collect();
    for (file, text) in Trust::by_own_file(catalogue) {
        for line in text.lines() {
            let (what, command) = line.split_once(": ").unwrap_or((line, ""));
            // These have an item for each part below.
            if widenings.iter().any(|(of, widening, _)| **of == *file && widening.whom == what) {
                continue;
            }
            items.push(TrustItem {
                effect: TrustEffect::Execute,
                what: what.to_owned(),
                command: command.to_owned(),
                line: registry::place_of_executable(&file, what),
                file: file.to_string(),
                why: why_executed(what).to_owned(),
            });
        }
    }
    for program in catalogue.programs() {
        let file = program.file.display().to_string();
        let (what, rest) = program.says.split_once(": ").unwrap_or((&program.says, ""));
        let item = |line, command: &str, why: &str| TrustItem {
            effect: TrustEffect::Execute,
            what: what.to_owned(),
            command: command.to_owned(),
            file: file.clone(),
            line,
            why: why.to_owned(),
        };
        if program.excerpts.is_empty() {
            items.push(item(None, rest, "it is not known to be harmless"));
        }
        let excerpts = program.excerpts.iter();
        items.extend(excerpts.map(|found| item(found.line, &found.text, found.why)));
    }
    items.extend(widenings.into_iter().map(|(file, widening, line)| TrustItem {
        effect: TrustEffect::Allow,
        what: widening.whom.clone(),
        command: widening.says.clone(),
        file: file.clone(),
        line,
        why: widening.why.clone(),
    }));
    for item in &mut items {
        for text in [&mut item.what, &mut item.command, &mut item.why] {
            *text = visible(text).into_owned();
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
        "name of a built-in agent" => "whoever runs the built-in agent gets this one, which may do more",
        part if part.starts_with("backend") => "agents with this backend are run by it",
        _ => "the project's files name it",
    }
}

fn trust_error(error: TrustError) -> AppError {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    AppError::internal(format!("{error}{cause}"))
}

fn sweep_error(error: impl std::error::Error) -> AppError {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    AppError::internal(format!("could not {error}{cause}"))
}
