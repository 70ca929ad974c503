//! Lists and sums: ended runs from the index, the few others from their directories.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::id::RunId;
use domain::run::{OutcomeKind, Phase, RunSpec, State};
use journal::index::{EndedRun, HealthRow, Index, IndexError, ListQuery, Opened};
use journal::{RunDir, StoreError};

use super::engine::{Engine, Scope, UNWRITABLE_HINT, store_error};
use super::{AppError, Health, HealthLine, HealthReport, ListRuns, ListScope, RunLine, RunList};
use crate::clock;
use crate::registry;

/// The most lines in one list.
const LINES_MAX: usize = 1_000;
const LINES_DEFAULT: usize = 50;

/// A run that the index does not know, as it stands.
struct OpenRun {
    spec: RunSpec,
    state: State,
}

impl Engine {
    pub(super) async fn list_runs(self: &Arc<Self>, ask: ListRuns) -> Result<RunList, AppError> {
        let project = self.project_of(ask.directory.as_deref(), ask.scope)?;
        self.off_loop(move |engine| engine.list_now(&ask, project.as_deref())).await
    }

    fn list_now(&self, ask: &ListRuns, project: Option<&str>) -> Result<RunList, AppError> {
        let limit = if ask.limit == 0 { LINES_DEFAULT } else { ask.limit.min(LINES_MAX) };
        let newer_than_ms =
            ask.max_age_ms.map(|age| clock::now().as_millisecond() - i64::try_from(age).unwrap_or(0));
        let before: Option<RunId> =
            ask.before.as_ref().map(|text| text.parse()).transpose().map_err(usage)?;
        let outcomes = outcomes_of(&ask.states)?;
        let open = self.open_now()?;
        let fits = |run: &OpenRun| {
            let spec = &run.spec;
            project.is_none_or(|project| spec.project == project)
                && ask.agent.as_ref().is_none_or(|agent| spec.agent.as_str() == agent)
                && ask
                    .session
                    .as_ref()
                    .is_none_or(|id| spec.continued().is_some_and(|known| known.as_str() == id))
                && newer_than_ms.is_none_or(|at| spec.created_at.as_millisecond() >= at)
                && before.is_none_or(|before| spec.id < before)
        };
        let mut lines: Vec<RunLine> =
            open.iter().filter(|run| fits(run)).map(|run| self.line_of_open(run)).collect();
        if !ask.states.is_empty() {
            lines.retain(|line| ask.states.contains(&line.status));
        }
        if ask.states.is_empty() || !outcomes.is_empty() {
            let query = ListQuery {
                project,
                agent: ask.agent.as_deref(),
                session: ask.session.as_deref(),
                outcomes: &outcomes,
                root: None,
                parent: None,
                token: self.token(),
                newer_than_ms,
                before,
                limit: limit + 1,
            };
            let ended = match &self.scope {
                Scope::Everything | Scope::Token(_) => self.indexed(|index| index.list(&query))?,
                Scope::Within(own) => self.ended_below(own.id, &query),
            };
            lines.extend(ended.iter().map(line_of_ended));
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.run_id));
        // An ended run that the index could not take in is read from its directory, and may be in both.
        lines.dedup_by_key(|line| line.run_id);
        let more = lines.len() > limit;
        lines.truncate(limit);
        let before = lines.last().filter(|_| more).map(|line| line.run_id);
        Ok(RunList { runs: lines, before })
    }

    pub(super) async fn health(self: &Arc<Self>, ask: Health) -> Result<HealthReport, AppError> {
        if let Scope::Within(_) = &self.scope {
            return Err(AppError::denied("health sums up runs that are not yours to see from inside a run"));
        }
        let project = self.project_of(ask.directory.as_deref(), ask.scope)?;
        let (_, catalogue) = self.place(ask.directory.as_deref())?;
        let slots = u64::from(crate::slots::count(&catalogue.config));
        self.off_loop(move |engine| {
            let open = engine.open_now()?;
            let open: Vec<&OpenRun> = open
                .iter()
                .filter(|run| run.state.ending().is_none())
                .filter(|run| project.as_deref().is_none_or(|project| run.spec.project == project))
                .collect();
            let waiting =
                open.iter().filter(|run| matches!(run.state.phase, Phase::Waiting(_))).count() as u64;
            let sums = engine.ended_sums(project.as_deref())?;
            let agents = sum_by_agent(sums.rows);
            let running = open.len() as u64 - waiting;
            Ok(HealthReport { running, waiting, slots, agents, left_out: sums.left_out })
        })
        .await
    }

    /// Returns how many runs are at work, and how many wait.
    pub(super) fn going(&self) -> Result<(u64, u64), AppError> {
        let open = self.open_now()?;
        let going: Vec<_> = open.iter().filter(|run| run.state.ending().is_none()).collect();
        let waits = |run: &&&OpenRun| matches!(run.state.phase, Phase::Waiting(_));
        let waiting = going.iter().filter(waits).count() as u64;
        Ok((going.len() as u64 - waiting, waiting))
    }

    pub(super) fn token(&self) -> Option<&str> {
        match &self.scope {
            Scope::Token(name) => Some(name),
            Scope::Everything | Scope::Within(_) => None,
        }
    }

    fn project_of(&self, directory: Option<&str>, scope: ListScope) -> Result<Option<String>, AppError> {
        match scope {
            ListScope::All => Ok(None),
            ListScope::Project => {
                let own = self.directory.to_string_lossy();
                let directory = registry::resolve_directory(directory.unwrap_or(&own)).map_err(usage)?;
                Ok(Some(registry::find_project(&directory)))
            }
        }
    }

    /// Returns the ended descendants of a run, from their directories: the index is for the machine's owner.
    fn ended_below(&self, run: RunId, query: &ListQuery<'_>) -> Vec<EndedRun> {
        let mut found = Vec::new();
        let mut parents = vec![run];
        while let Some(parent) = parents.pop() {
            let Ok((state, _)) = journal::read_state(&self.home.run_dir(parent)) else { continue };
            for child in state.children.keys() {
                parents.push(*child);
                let dir = self.home.run_dir(*child);
                if let (Ok(spec), Ok(Some(ending))) = (dir.read_spec(), dir.ending()) {
                    let at = dir.ended_at().unwrap_or(spec.created_at);
                    found.push(EndedRun::new(&spec, &ending, at));
                }
            }
        }
        found.retain(|run| {
            query.project.is_none_or(|project| run.project == project)
                && query.agent.is_none_or(|agent| run.agent.as_str() == agent)
                && query
                    .session
                    .is_none_or(|id| run.session.as_ref().is_some_and(|known| known.as_str() == id))
                && (query.outcomes.is_empty() || query.outcomes.contains(&run.outcome))
                && query.newer_than_ms.is_none_or(|at| run.created_at.as_millisecond() >= at)
                && query.before.is_none_or(|before| run.id < before)
        });
        found.sort_by_key(|run| std::cmp::Reverse(run.id));
        found.truncate(query.limit);
        found
    }

    /// Returns the runs that the index does not know, after moving into it those that have ended.
    fn open_now(&self) -> Result<Vec<OpenRun>, AppError> {
        let mut open = Vec::new();
        for dir in self.ingest()? {
            let (Ok(spec), Ok((state, _))) = (dir.read_spec(), journal::read_state(&dir)) else { continue };
            if self.may_see(&dir) {
                open.push(OpenRun { spec, state });
            }
        }
        Ok(open)
    }

    /// Puts ended runs into the index and returns the directories of the others: those that have not ended, and
    /// those that the index cannot take in.
    pub(super) fn ingest(&self) -> Result<Vec<RunDir>, AppError> {
        let mut open = Vec::new();
        let mut ended = Vec::new();
        for id in self.home.open_runs().map_err(store_error)? {
            let dir = self.home.run_dir(id);
            let Ok((spec, _)) = self.glance(&dir) else {
                // A marker without a run: its door died in between, or is just about to write it.
                let _ = self.home.clear_unborn(id, clock::now());
                continue;
            };
            match dir.ending() {
                Ok(Some(ending)) => {
                    // Its worker did, unless it was killed in that moment; a disk that is full has other troubles.
                    let _ = dir.hide_values(&spec);
                    let at = dir.ended_at().unwrap_or_else(clock::now);
                    ended.push(EndedRun::new(&spec, &ending, at));
                }
                Ok(None) | Err(_) => open.push(dir),
            }
        }
        // A worker never writes the index: hundreds of them would stand in each other's way.
        let writes = !matches!(self.scope, Scope::Within(_)) && !ended.is_empty();
        if writes && self.with_index(|index| Ok(index.insert(&ended).is_done())).unwrap_or(false) {
            for run in &ended {
                // A marker that stays only means that the run is inserted again, which changes nothing.
                let _ = self.home.close_marker(run.id);
            }
        } else {
            open.extend(ended.iter().map(|run| self.home.run_dir(run.id)));
        }
        Ok(open)
    }

    /// Asks the index a question; rebuilds it first if it is missing or damaged. A disk that is full or read-only
    /// must not hide what is on it: then the index is made in memory.
    pub(super) fn indexed<T>(&self, ask: impl Fn(&Index) -> Result<T, IndexError>) -> Result<T, AppError> {
        let answer = match self.on_disk(&|index: &mut Index| ask(index)) {
            Err(IndexTrouble::Index(error)) if error.is_unwritable() => {
                self.filled(Index::in_memory(), &|index: &mut Index| ask(index)).map(|(answer, _)| answer)
            }
            answer => answer,
        };
        answer.map_err(AppError::from)
    }

    /// Changes the index on disk.
    pub(super) fn with_index<T>(
        &self,
        change: impl Fn(&mut Index) -> Result<T, IndexError>,
    ) -> Result<T, AppError> {
        self.on_disk(&change).map_err(AppError::from)
    }

    fn on_disk<T>(&self, ask: &impl Fn(&mut Index) -> Result<T, IndexError>) -> Result<T, IndexTrouble> {
        let (answer, index) = match self.filled(self.index_connection.open(self.home.path()), ask) {
            Err(IndexTrouble::Index(IndexError::Corrupt { .. } | IndexError::Replaced { .. })) => {
                self.filled(Index::recover(self.home.path()), ask)?
            }
            answer => answer?,
        };
        self.index_connection.put_back(index);
        Ok(answer)
    }

    fn filled<T>(
        &self,
        opened: Result<Opened, IndexError>,
        ask: &impl Fn(&mut Index) -> Result<T, IndexError>,
    ) -> Result<(T, Index), IndexTrouble> {
        let mut opened = opened?;
        if opened.state.needs_rebuild() {
            self.fill(&mut opened.index)?;
        }
        Ok((ask(&mut opened.index)?, opened.index))
    }

    /// Fills the index from the directories. Returns how many runs were read, and how many could not be.
    pub(super) fn fill(&self, index: &mut Index) -> Result<(u64, u64), IndexTrouble> {
        let (mut read, mut damaged) = (0, 0);
        let mut batch = Vec::new();
        for dir in self.home.all_runs()? {
            let Ok(dir) = dir else { continue };
            let (spec, ending) = match (dir.read_spec(), dir.ending()) {
                (Ok(spec), Ok(Some(ending))) => (spec, ending),
                (Ok(_), Ok(None)) => continue,
                (Err(_), _) | (_, Err(_)) => {
                    damaged += 1;
                    continue;
                }
            };
            let at = dir.ended_at().unwrap_or(spec.created_at);
            batch.push(EndedRun::new(&spec, &ending, at));
            read += 1;
            if batch.len() >= 1_000 {
                index.insert(&std::mem::take(&mut batch)).done()?;
            }
        }
        index.insert(&batch).done()?;
        index.mark_complete().done()?;
        Ok((read, damaged))
    }

    fn line_of_open(&self, run: &OpenRun) -> RunLine {
        let OpenRun { spec, state } = run;
        let (status, _, _) = self.status(spec, state);
        let since = state.started_at.unwrap_or(spec.created_at);
        let so_far = clock::now().as_millisecond() - since.as_millisecond();
        let prompt = spec.prompt.split_whitespace().take(40).collect::<Vec<_>>().join(" ");
        RunLine {
            run_id: spec.id,
            short_id: spec.id.short(),
            agent: spec.agent.to_string(),
            status,
            ended: state.ending().is_some(),
            created_at: spec.created_at.to_string(),
            ended_at: None,
            error: None,
            duration_ms: state.ending().map_or(u64::try_from(so_far).unwrap_or(0), |end| end.duration_ms),
            cost_microusd: state.usage.cost.map(|cost| cost.microusd),
            session: spec.continued().map(ToString::to_string),
            parent: spec.parent,
            project: spec.project.clone(),
            caller: spec.caller.name.clone(),
            prompt: domain::size::head(&prompt, 200).to_owned(),
        }
    }
}

fn line_of_ended(run: &EndedRun) -> RunLine {
    RunLine {
        run_id: run.id,
        short_id: run.id.short(),
        agent: run.agent.to_string(),
        status: run.outcome.to_string(),
        ended: true,
        created_at: run.created_at.to_string(),
        ended_at: Some(run.ended_at.to_string()),
        error: run.error.clone(),
        duration_ms: run.duration_ms,
        cost_microusd: run.cost_microusd,
        session: run.session.as_ref().map(ToString::to_string),
        parent: run.parent,
        project: run.project.clone(),
        caller: run.caller.clone(),
        prompt: run.prompt_head.clone(),
    }
}

/// Adds up the rows of all projects by agent and backend.
fn sum_by_agent(rows: Vec<HealthRow>) -> Vec<HealthLine> {
    let mut lines: BTreeMap<(String, String), (HealthLine, u64)> = BTreeMap::new();
    for row in rows {
        let key = (row.agent.to_string(), row.backend.to_string());
        let (line, duration_sum) = lines.entry(key.clone()).or_insert_with(|| (blank(key), 0));
        let of = |kind| row.outcomes.of(kind);
        line.runs += row.runs;
        line.succeeded += of(OutcomeKind::Succeeded);
        line.partial += of(OutcomeKind::Partial);
        line.failed += of(OutcomeKind::Failed)
            + of(OutcomeKind::TimedOut)
            + of(OutcomeKind::OverBudget)
            + of(OutcomeKind::Interrupted);
        line.timed_out += of(OutcomeKind::TimedOut);
        *duration_sum += row.duration_sum_ms;
        line.max_ms = line.max_ms.max(row.duration_max_ms);
        let ended_at = row.last_ended_at.to_string();
        line.last_ended_at = line.last_ended_at.take().max(Some(ended_at));
        if let Some(error) = row.last_error {
            let at = Some(error.at.to_string());
            if at > line.last_error_at {
                (line.last_error, line.last_error_at) = (Some(error.text), at);
            }
        }
        if row.cost_runs > 0 {
            line.cost_microusd = Some(line.cost_microusd.unwrap_or(0) + row.cost_sum_microusd);
        }
    }
    lines.into_values().map(|(line, duration_sum)| judged(line, duration_sum)).collect()
}

fn blank(key: (String, String)) -> HealthLine {
    let (agent, backend) = key;
    HealthLine {
        agent,
        backend,
        runs: 0,
        succeeded: 0,
        partial: 0,
        failed: 0,
        timed_out: 0,
        success_rate: None,
        mean_ms: None,
        max_ms: 0,
        last_ended_at: None,
        last_error: None,
        last_error_at: None,
        cost_microusd: None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate is shown as a percentage")]
fn judged(mut line: HealthLine, duration_sum_ms: u64) -> HealthLine {
    let judged = line.succeeded + line.partial + line.failed;
    line.success_rate = (judged > 0).then(|| line.succeeded as f64 / judged as f64);
    line.mean_ms = duration_sum_ms.checked_div(line.runs);
    line
}

/// Returns the outcomes among the wanted states; a state that is neither is an error that lists them all.
fn outcomes_of(states: &[String]) -> Result<Vec<OutcomeKind>, AppError> {
    const OPEN: [&str; 4] = ["accepted", "running", "waiting", "stopping"];
    let mut outcomes = Vec::new();
    for state in states {
        match OutcomeKind::ALL.into_iter().find(|kind| kind.as_str() == state) {
            Some(kind) => outcomes.push(kind),
            None if OPEN.contains(&state.as_str()) => {}
            None => {
                let known: Vec<&str> =
                    OPEN.into_iter().chain(OutcomeKind::ALL.map(OutcomeKind::as_str)).collect();
                return Err(AppError::usage(format!("there is no state {state:?}"))
                    .hint(format!("states are: {}", known.join(", "))));
            }
        }
    }
    Ok(outcomes)
}

fn usage(error: impl std::fmt::Display) -> AppError {
    AppError::usage(error.to_string())
}

/// Why the index could not be asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum IndexTrouble {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<IndexTrouble> for AppError {
    fn from(trouble: IndexTrouble) -> Self {
        match trouble {
            IndexTrouble::Index(error) => index_error(error),
            IndexTrouble::Store(error) => store_error(error),
        }
    }
}

pub(super) fn index_error(error: IndexError) -> AppError {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let message = format!("could not {error}{cause}");
    match error.is_unwritable() {
        true => AppError::usage(message).hint(UNWRITABLE_HINT),
        false => AppError::internal(message).hint("`volery reindex` rebuilds the index"),
    }
}
