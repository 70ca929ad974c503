//! Finds the questions that a person must answer for a run: its own, and those of the runs below it. The search has limits,
//! and reads only runs that are active according to their parents.

use std::collections::VecDeque;
use std::rc::Rc;

use domain::id::RunId;
use domain::run::{Phase, RunSpec, RunState, WaitReason};

use super::run_queries::OpenRun;
use crate::api::{QuestionView, RunView, WaitingView};
use crate::engine::Engine;

/// The most questions that one run shows.
const QUESTIONS_MAX: usize = 20;
/// The most runs below one run that the search reads.
const RUNS_MAX: usize = 200;
/// The most generations of runs. Admission allows fewer; only a damaged journal has more.
const DEPTH_MAX: usize = 32;

impl Engine {
    /// Adds the open questions to the view of a run that has not ended.
    pub(super) fn add_open_questions(&self, view: &mut RunView, spec: &RunSpec, state: &RunState) {
        let read = |run| self.read_open_run(run).map(Rc::new);
        view.needs_answer = self.open_questions((spec, state), view.waiting.as_ref(), &read);
        if let (Phase::Running, Some(question)) = (&state.phase, view.needs_answer.first()) {
            view.explanation = format!("{}: {}", view.explanation, question.headline());
        }
    }

    fn read_open_run(&self, run: RunId) -> Option<OpenRun> {
        let dir = self.home.run_dir(run);
        let (state, _) = journal::read_state(&dir).ok()?;
        Some(OpenRun { spec: dir.read_spec().ok()?, state })
    }

    /// Returns the question for which a run waits, and then those of the runs below it, the nearest runs first. `find`
    /// returns the state of a run.
    pub(super) fn open_questions(
        &self,
        (spec, state): (&RunSpec, &RunState),
        waiting: Option<&WaitingView>,
        find: &dyn Fn(RunId) -> Option<Rc<OpenRun>>,
    ) -> Vec<QuestionView> {
        let path = vec![spec.agent.to_string()];
        let is_open = matches!(waiting, Some(WaitingView::Answer { .. }));
        let own = QuestionView::from_phase(spec.id, path.clone(), &state.phase).filter(|_| is_open);
        let mut found: Vec<QuestionView> = own.into_iter().collect();
        let mut below: VecDeque<(RunId, Vec<String>)> =
            open_children(state).map(|run| (run, path.clone())).collect();
        let mut examined = 0;
        while let Some((run, mut agents)) = below.pop_front() {
            examined += 1;
            if examined > RUNS_MAX || found.len() >= QUESTIONS_MAX {
                break;
            }
            let Some(run) = find(run) else { continue };
            agents.push(run.spec.agent.to_string());
            found.extend(self.open_question(&run, agents.clone()));
            if agents.len() < DEPTH_MAX {
                below.extend(open_children(&run.state).map(|child| (child, agents.clone())));
            }
        }
        found
    }

    /// Returns the question of a run, unless it has an answer or is denied at once.
    fn open_question(&self, run: &OpenRun, agents: Vec<String>) -> Option<QuestionView> {
        let OpenRun { spec, state } = run;
        let Phase::Waiting(WaitReason::Answer { .. }) = &state.phase else { return None };
        let (_, _, waiting) = self.status(spec, state);
        let question = QuestionView::from_phase(spec.id, agents, &state.phase)?;
        (waiting.is_some() && self.may_see_spec(spec)).then_some(question)
    }
}

/// Returns the children whose end the run has not recorded; none for a run that stops or has ended.
fn open_children(state: &RunState) -> impl Iterator<Item = RunId> {
    let lists_children = match &state.phase {
        Phase::Accepted | Phase::Running | Phase::Waiting(_) => true,
        Phase::Stopping | Phase::Ended(_) => false,
    };
    let open = state.children.iter().filter(move |(_, child)| lists_children && child.outcome.is_none());
    open.map(|(run, _)| *run)
}
