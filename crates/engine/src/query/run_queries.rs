//! Lists and sums of runs: ended runs from the index, the few others from their directories.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use domain::id::RunId;
use domain::run::{Denial, OutcomeKind, Phase, RunSpec, RunState};
use journal::index::{EndedRun, HealthRow, Index, IndexError, ListQuery, OpenedIndex};
use journal::{RunDir, StoreError};

use crate::api::{
    AgentHealthSummary, EngineError, HealthReport, HealthRequest, ListRuns, ListScope, RunList, RunSummary,
};
use crate::ask::{Ask, OnProgress};
use crate::clock;
use crate::engine::{Engine, UNWRITABLE_HINT, Visibility, store_error};
use crate::ipc::relay::Relay;
use crate::ipc::run_socket;
use crate::registry;
use crate::relayed_requests::{self, without_invisible};

/// The most lines in one list.
const LINES_MAX: usize = 1_000;
const LINES_DEFAULT: usize = 50;
/// The most denials in one list.
const DENIALS_MAX: usize = 300;

/// A run that is not in the index, in its current state.
pub(super) struct OpenRun {
    pub(super) spec: RunSpec,
    pub(super) state: RunState,
}

impl Ask for ListRuns {
    type Answer = RunList;

    async fn answer(self, engine: &Arc<Engine>, _progress: OnProgress<'_>) -> Result<RunList, EngineError> {
        engine.list_runs(self).await
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<RunList, EngineError> {
        let list: RunList = relayed_requests::relay(self, relay, progress).await?;
        // An agent reads this list.
        without_invisible(&list)
    }
}

impl Ask for HealthRequest {
    type Answer = HealthReport;

    async fn answer(
        self,
        engine: &Arc<Engine>,
        _progress: OnProgress<'_>,
    ) -> Result<HealthReport, EngineError> {
        engine.health(self).await
    }

    async fn relay(self, relay: &Relay, progress: OnProgress<'_>) -> Result<HealthReport, EngineError> {
        relayed_requests::relay(self, relay, progress).await
    }
}

impl Engine {
    pub(crate) async fn list_runs(self: &Arc<Self>, ask: ListRuns) -> Result<RunList, EngineError> {
        let project = self.project_filter(ask.directory.as_deref(), ask.scope)?;
        self.run_blocking(move |engine| engine.list_now(&ask, project.as_deref())).await
    }

    fn list_now(&self, ask: &ListRuns, project: Option<&str>) -> Result<RunList, EngineError> {
        let limit = if ask.limit == 0 { LINES_DEFAULT } else { ask.limit.min(LINES_MAX) };
        let newer_than_ms =
            ask.max_age_ms.map(|age| clock::now().as_millisecond() - i64::try_from(age).unwrap_or(0));
        let before: Option<RunId> =
            ask.before.as_ref().map(|text| text.parse()).transpose().map_err(usage)?;
        let outcomes = parse_outcomes(&ask.states)?;
        let open: HashMap<RunId, Rc<OpenRun>> =
            self.open_runs()?.into_iter().map(|run| (run.spec.id, Rc::new(run))).collect();
        let fits = |run: &OpenRun| {
            let spec = &run.spec;
            project.is_none_or(|project| spec.project == project)
                && ask.agent.as_ref().is_none_or(|agent| spec.agent.as_str() == agent)
                && ask
                    .session
                    .as_ref()
                    .is_none_or(|id| spec.continued_session().is_some_and(|known| known.as_str() == id))
                && newer_than_ms.is_none_or(|at| spec.created_at.as_millisecond() >= at)
                && before.is_none_or(|before| spec.id < before)
        };
        let mut lines: Vec<RunSummary> =
            open.values().filter(|run| fits(run)).map(|run| self.open_run_line(run, &open)).collect();
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
            let ended = match &self.visibility {
                Visibility::All | Visibility::Token(_) => self.query_index(|index| index.list(&query))?,
                Visibility::DescendantsOf(own) => self.ended_below(own.id, &query),
            };
            lines.extend(ended.iter().map(ended_run_line));
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.run_id));
        // An ended run that the index could not insert is read from its directory, and may be in both.
        lines.dedup_by_key(|line| line.run_id);
        let more = lines.len() > limit;
        lines.truncate(limit);
        let before = lines.last().filter(|_| more).map(|line| line.run_id);
        self.add_denials(&mut lines, &open, ask.denials_per_run);
        Ok(RunList { runs: lines, before })
    }

    pub(crate) async fn health(self: &Arc<Self>, ask: HealthRequest) -> Result<HealthReport, EngineError> {
        if let Visibility::DescendantsOf(_) = &self.visibility {
            return Err(EngineError::denied(
                "health sums up runs that are not yours to see from inside a run",
            ));
        }
        let project = self.project_filter(ask.directory.as_deref(), ask.scope)?;
        let (_, catalog) = self.locate(ask.directory.as_deref())?;
        let slots = u64::from(crate::slot_count::slot_count(&catalog.config));
        self.run_blocking(move |engine| {
            let open = engine.open_runs()?;
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

    /// Returns how many runs are running, and how many wait.
    pub(crate) fn count_open_runs(&self) -> Result<(u64, u64), EngineError> {
        let open = self.open_runs()?;
        let open: Vec<_> = open.iter().filter(|run| run.state.ending().is_none()).collect();
        let waits = |run: &&&OpenRun| matches!(run.state.phase, Phase::Waiting(_));
        let waiting = open.iter().filter(waits).count() as u64;
        Ok((open.len() as u64 - waiting, waiting))
    }

    pub(crate) fn token(&self) -> Option<&str> {
        match &self.visibility {
            Visibility::Token(name) => Some(name),
            Visibility::All | Visibility::DescendantsOf(_) => None,
        }
    }

    fn project_filter(
        &self,
        directory: Option<&str>,
        scope: ListScope,
    ) -> Result<Option<String>, EngineError> {
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

    /// Returns the runs that are not in the index, after inserting those that have ended.
    fn open_runs(&self) -> Result<Vec<OpenRun>, EngineError> {
        let mut open = Vec::new();
        for dir in self.ingest()? {
            let (Ok(spec), Ok((state, _))) = (dir.read_spec(), journal::read_state(&dir)) else { continue };
            if self.may_see(&dir) {
                open.push(OpenRun { spec, state });
            }
        }
        Ok(open)
    }

    /// Inserts ended runs into the index and returns the directories of the others: those that have not ended, and
    /// those that the index cannot insert.
    pub(crate) fn ingest(&self) -> Result<Vec<RunDir>, EngineError> {
        let mut open = Vec::new();
        let mut ended = Vec::new();
        for id in self.home.open_runs().map_err(store_error)? {
            let dir = self.home.run_dir(id);
            let Ok((spec, _)) = self.reconcile_or_warn(&dir) else {
                // A marker without a run: its door died in between, or is about to write it.
                let _ = self.home.clear_stale_marker(id, clock::now());
                continue;
            };
            match dir.ending() {
                Ok(Some(ending)) => {
                    // The worker did this, unless it was killed in that moment. An error is ignored: a full disk is
                    // reported elsewhere, and a stale socket is only useless.
                    let _ = dir.redact_values(&spec);
                    let _ = std::fs::remove_file(run_socket::path(&self.home, spec.tag));
                    let at = dir.ended_at().unwrap_or_else(clock::now);
                    ended.push(EndedRun::new(&spec, &ending, at));
                }
                Ok(None) | Err(_) => open.push(dir),
            }
        }
        // A worker never writes the index: hundreds of them would block each other.
        let writes = !matches!(self.visibility, Visibility::DescendantsOf(_)) && !ended.is_empty();
        if writes && self.update_index(|index| Ok(index.insert(&ended).is_done())).unwrap_or(false) {
            for run in &ended {
                // A marker that stays only means that the run is inserted again, which changes nothing.
                let _ = self.home.remove_marker(run.id);
            }
        } else {
            open.extend(ended.iter().map(|run| self.home.run_dir(run.id)));
        }
        Ok(open)
    }

    /// Queries the index; rebuilds it first if it is missing or damaged. If the disk is full or read-only, the index
    /// is built in memory, so that the runs can still be shown.
    pub(crate) fn query_index<T>(
        &self,
        ask: impl Fn(&Index) -> Result<T, IndexError>,
    ) -> Result<T, EngineError> {
        let answer = match self.use_disk_index(&|index: &mut Index| ask(index)) {
            Err(IndexUseError::Index(error)) if error.is_unwritable() => {
                self.use_filled(Index::in_memory(), &|index: &mut Index| ask(index)).map(|(answer, _)| answer)
            }
            answer => answer,
        };
        answer.map_err(EngineError::from)
    }

    /// Updates the index on disk.
    pub(crate) fn update_index<T>(
        &self,
        change: impl Fn(&mut Index) -> Result<T, IndexError>,
    ) -> Result<T, EngineError> {
        self.use_disk_index(&change).map_err(EngineError::from)
    }

    fn use_disk_index<T>(
        &self,
        ask: &impl Fn(&mut Index) -> Result<T, IndexError>,
    ) -> Result<T, IndexUseError> {
        let (answer, index) = match self.use_filled(self.index_connection.open(self.home.path()), ask) {
            Err(IndexUseError::Index(IndexError::Corrupt { .. } | IndexError::Replaced { .. })) => {
                self.use_filled(Index::recover(self.home.path()), ask)?
            }
            answer => answer?,
        };
        self.index_connection.put_back(index);
        Ok(answer)
    }

    fn use_filled<T>(
        &self,
        opened: Result<OpenedIndex, IndexError>,
        ask: &impl Fn(&mut Index) -> Result<T, IndexError>,
    ) -> Result<(T, Index), IndexUseError> {
        let mut opened = opened?;
        if opened.state.needs_rebuild() {
            self.rebuild(&mut opened.index)?;
        }
        Ok((ask(&mut opened.index)?, opened.index))
    }

    /// Fills the index from the directories. Returns how many runs were read, and how many could not be read.
    pub(crate) fn rebuild(&self, index: &mut Index) -> Result<(u64, u64), IndexUseError> {
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
                index.insert(&std::mem::take(&mut batch)).into_result()?;
            }
        }
        index.insert(&batch).into_result()?;
        index.mark_complete().into_result()?;
        Ok((read, damaged))
    }

    /// Adds the first denials of each run to a list. The index has only their number.
    fn add_denials(
        &self,
        lines: &mut [RunSummary],
        open: &HashMap<RunId, Rc<OpenRun>>,
        denials_per_run: usize,
    ) {
        let mut room = DENIALS_MAX;
        for line in lines.iter_mut().filter(|line| line.denials_count > 0) {
            let count = denials_per_run.min(room);
            if count == 0 {
                return;
            }
            line.denials = match open.get(&line.run_id) {
                Some(run) => first_denials(&run.state, count),
                // Retention may have deleted the log of an ended run.
                None => journal::read_state(&self.home.run_dir(line.run_id))
                    .map(|(state, _)| first_denials(&state, count))
                    .unwrap_or_default(),
            };
            room -= line.denials.len();
        }
    }

    fn open_run_line(&self, run: &OpenRun, open: &HashMap<RunId, Rc<OpenRun>>) -> RunSummary {
        let OpenRun { spec, state } = run;
        let (status, _, waiting) = self.status(spec, state);
        let find = |run: RunId| open.get(&run).cloned();
        let since = state.started_at.unwrap_or(spec.created_at);
        let so_far = clock::now().as_millisecond() - since.as_millisecond();
        let prompt = spec.prompt.split_whitespace().take(40).collect::<Vec<_>>().join(" ");
        RunSummary {
            run_id: spec.id,
            short_id: spec.id.short(),
            agent: spec.agent.to_string(),
            status,
            ended: state.ending().is_some(),
            created_at: spec.created_at.to_string(),
            ended_at: None,
            error: None,
            denials: Vec::new(),
            denials_count: state.denials_count,
            duration_ms: state.ending().map_or(u64::try_from(so_far).unwrap_or(0), |end| end.duration_ms),
            cost_microusd: state.usage.cost.map(|cost| cost.microusd),
            session: spec.continued_session().map(ToString::to_string),
            parent: spec.parent,
            project: spec.project.clone(),
            caller: spec.caller.name.clone(),
            prompt: domain::size::head(&prompt, 200).to_owned(),
            needs_answer: self.open_questions((spec, state), waiting.as_ref(), &find),
        }
    }
}

fn first_denials(state: &RunState, count: usize) -> Vec<Denial> {
    state.denials.iter().take(count).cloned().collect()
}

fn ended_run_line(run: &EndedRun) -> RunSummary {
    RunSummary {
        run_id: run.id,
        short_id: run.id.short(),
        agent: run.agent.to_string(),
        status: run.outcome.to_string(),
        ended: true,
        created_at: run.created_at.to_string(),
        ended_at: Some(run.ended_at.to_string()),
        error: run.error.clone(),
        denials: Vec::new(),
        denials_count: run.denials_count,
        duration_ms: run.duration_ms,
        cost_microusd: run.cost_microusd,
        session: run.session.as_ref().map(ToString::to_string),
        parent: run.parent,
        project: run.project.clone(),
        caller: run.caller.clone(),
        prompt: run.prompt_head.clone(),
        needs_answer: Vec::new(),
    }
}

/// Adds up the rows of all projects by agent and backend.
fn sum_by_agent(rows: Vec<HealthRow>) -> Vec<AgentHealthSummary> {
    let mut lines: BTreeMap<(String, String), (AgentHealthSummary, u64)> = BTreeMap::new();
    for row in rows {
        let key = (row.agent.to_string(), row.backend.to_string());
        let (line, duration_sum) = lines.entry(key.clone()).or_insert_with(|| (blank(key), 0));
        let count = |kind| row.outcomes.count(kind);
        line.runs += row.runs;
        line.succeeded += count(OutcomeKind::Succeeded);
        line.partial += count(OutcomeKind::Partial);
        line.failed += count(OutcomeKind::Failed)
            + count(OutcomeKind::TimedOut)
            + count(OutcomeKind::OverBudget)
            + count(OutcomeKind::Interrupted);
        line.timed_out += count(OutcomeKind::TimedOut);
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
    lines.into_values().map(|(line, duration_sum)| with_rates(line, duration_sum)).collect()
}

fn blank(key: (String, String)) -> AgentHealthSummary {
    let (agent, backend) = key;
    AgentHealthSummary {
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
fn with_rates(mut line: AgentHealthSummary, duration_sum_ms: u64) -> AgentHealthSummary {
    let rated = line.succeeded + line.partial + line.failed;
    line.success_rate = (rated > 0).then(|| line.succeeded as f64 / rated as f64);
    line.mean_ms = duration_sum_ms.checked_div(line.runs);
    line
}

/// Returns the outcomes among the requested states; an unknown state is an error that lists all of them.
fn parse_outcomes(states: &[String]) -> Result<Vec<OutcomeKind>, EngineError> {
    const OPEN: [&str; 4] = ["accepted", "running", "waiting", "stopping"];
    let mut outcomes = Vec::new();
    for state in states {
        match OutcomeKind::ALL.into_iter().find(|kind| kind.as_str() == state) {
            Some(kind) => outcomes.push(kind),
            None if OPEN.contains(&state.as_str()) => {}
            None => {
                let known: Vec<&str> =
                    OPEN.into_iter().chain(OutcomeKind::ALL.map(OutcomeKind::as_str)).collect();
                return Err(EngineError::usage(format!("there is no state {state:?}"))
                    .hint(format!("states are: {}", known.join(", "))));
            }
        }
    }
    Ok(outcomes)
}

fn usage(error: impl std::fmt::Display) -> EngineError {
    EngineError::usage(error.to_string())
}

/// An error of a query to the index.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexUseError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<IndexUseError> for EngineError {
    fn from(error: IndexUseError) -> Self {
        match error {
            IndexUseError::Index(error) => index_error(error),
            IndexUseError::Store(error) => store_error(error),
        }
    }
}

pub(crate) fn index_error(error: IndexError) -> EngineError {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let message = format!("could not {error}{cause}");
    match error.is_unwritable() {
        true => EngineError::usage(message).hint(UNWRITABLE_HINT),
        false => EngineError::internal(message).hint("`volery reindex` rebuilds the index"),
    }
}
