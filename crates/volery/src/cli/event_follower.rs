//! Follows the events of runs while a command waits for these runs. Prints warnings, or with `--verbose` every step, on standard
//! error. Reads the log, because Volery drops progress messages that follow each other too fast.

use std::collections::BTreeSet;

use domain::id::RunId;
use domain::run::Envelope;

use super::live_display::LiveDisplay;
use super::output::Out;
use crate::report::{StepLine, StepLines, warning};
use engine::{EngineHandle, GetRun, LogCursor, ReadEvents};

/// The most warnings that a follower remembers, so that it prints each only once.
const WARNINGS_MAX: usize = 1_000;

/// Selects the events that a follower prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    Nothing,
    Warnings,
    Steps,
}

impl Verbosity {
    pub(crate) fn steps_if(verbose: bool, otherwise: Self) -> Self {
        if verbose { Self::Steps } else { otherwise }
    }
}

/// Follows the events of several runs.
pub(crate) struct EventFollower {
    verbosity: Verbosity,
    runs: Vec<FollowedRun>,
    /// The warnings that the follower does not print again.
    known_warnings: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum PageRead {
    Events,
    Nothing,
}

struct FollowedRun {
    id: String,
    cursor: LogCursor,
    /// Created with the first events, because it needs the directory of the run.
    steps: Option<StepLines>,
    /// Precedes each line if there are several runs.
    prefix: String,
    is_over: bool,
}

impl EventFollower {
    pub(crate) fn new(verbosity: Verbosity, runs: &[String]) -> Self {
        let followed = |id: &String| FollowedRun {
            id: id.clone(),
            cursor: LogCursor::default(),
            steps: None,
            prefix: String::new(),
            is_over: false,
        };
        Self { verbosity, runs: runs.iter().map(followed).collect(), known_warnings: BTreeSet::new() }
    }

    /// Excludes warnings that the user has already seen.
    pub(crate) fn with_known_warnings(mut self, warnings: &[String]) -> Self {
        self.known_warnings.extend(warnings.iter().map(|warning| crate::report::one_line(warning)));
        self
    }

    /// Prints one page of new events of each run. It prints only one page, because signals and answers wait meanwhile, and an
    /// agent may write faster than this prints.
    pub(crate) async fn print_new(&mut self, app: &EngineHandle, live: &mut LiveDisplay, out: &mut Out) {
        for index in 0..self.runs.len() {
            self.print_page(index, app, live, out).await;
        }
    }

    /// Prints the remaining events of runs that have ended.
    pub(crate) async fn print_rest(&mut self, app: &EngineHandle, live: &mut LiveDisplay, out: &mut Out) {
        for index in 0..self.runs.len() {
            while self.print_page(index, app, live, out).await == PageRead::Events {}
        }
    }

    /// Prints the next page of a run. Ignores a log that cannot be read: the wait itself reports that.
    async fn print_page(
        &mut self,
        index: usize,
        app: &EngineHandle,
        live: &mut LiveDisplay,
        out: &mut Out,
    ) -> PageRead {
        let is_alone = self.runs.len() == 1;
        let run = &mut self.runs[index];
        if self.verbosity == Verbosity::Nothing || run.is_over {
            return PageRead::Nothing;
        }
        let request = ReadEvents { run: run.id.clone(), after: run.cursor };
        let Ok(page) = app.ask(request).await else { return PageRead::Nothing };
        (run.cursor, run.is_over) = (page.next, page.complete);
        if page.events.is_empty() {
            return PageRead::Nothing;
        }
        run.describe(app, page.run_id, (self.verbosity, is_alone)).await;
        for envelope in &page.events {
            let lines = self.runs[index].lines(self.verbosity, envelope);
            self.print(index, lines, live, out);
        }
        PageRead::Events
    }

    fn print(&mut self, index: usize, lines: Vec<StepLine>, live: &mut LiveDisplay, out: &mut Out) {
        for line in lines {
            let prefix = &self.runs[index].prefix;
            if let StepLine::Warning(text) = &line {
                let is_new =
                    self.known_warnings.len() < WARNINGS_MAX && self.known_warnings.insert(text.clone());
                if !is_new {
                    continue;
                }
            }
            live.erase(out);
            match line {
                StepLine::Step(text) => out.step(&format!("{prefix}{text}")),
                StepLine::Failure(text) => out.failed_step(&format!("{prefix}{text}")),
                StepLine::Warning(text) => out.warning(&format!("{prefix}{text}")),
            }
        }
    }
}

impl FollowedRun {
    /// Reads the directory that paths are relative to.
    async fn describe(
        &mut self,
        app: &EngineHandle,
        run_id: RunId,
        (verbosity, is_alone): (Verbosity, bool),
    ) {
        if self.steps.is_some() || verbosity != Verbosity::Steps {
            return;
        }
        let shown = app.ask(GetRun { run: self.id.clone(), ..GetRun::default() }).await;
        let directory = shown.map(|detail| detail.run.directory).unwrap_or_default();
        self.steps = Some(StepLines::new(&directory));
        if !is_alone {
            self.prefix = format!("{} ", run_id.short());
        }
    }

    fn lines(&mut self, verbosity: Verbosity, envelope: &Envelope) -> Vec<StepLine> {
        match (verbosity, &mut self.steps) {
            (Verbosity::Steps, Some(steps)) => steps.lines(&envelope.event),
            (Verbosity::Warnings, _) => warning(&envelope.event).map(StepLine::Warning).into_iter().collect(),
            (Verbosity::Nothing | Verbosity::Steps, _) => Vec::new(),
        }
    }
}
