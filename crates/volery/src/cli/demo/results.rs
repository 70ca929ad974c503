//! The progress and results of the demo's agents: rows of the live display, then results and a table.

use domain::run::OutcomeKind;
use serde::Serialize;
use serde_json::Value;

use crate::report::{
    Cell, Column, LiveRow, Table, TextStyle, Tone, count, money, sanitize_for_terminal, span,
};

/// The progress of one agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct AgentProgress {
    pub(crate) agent: String,
    pub(crate) run_id: String,
    pub(crate) status: String,
    pub(crate) duration_ms: u64,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cost_microusd: Option<u64>,
    pub(crate) result: String,
    #[serde(skip)]
    so_far: String,
}

/// The progress of all agents, and the time of the whole demo.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct DemoReport {
    pub(crate) runs: Vec<AgentProgress>,
    /// From the first request to the last answer.
    pub(crate) wall_ms: u64,
    /// The sum over all agents: more than the wall time, because they work in parallel.
    pub(crate) agents_ms: u64,
    pub(crate) cost_microusd: u64,
    #[serde(skip)]
    activity: String,
}

impl DemoReport {
    pub(crate) fn new(agents: impl IntoIterator<Item = &'static str>) -> Self {
        let progress = |agent: &str| AgentProgress {
            agent: agent.to_owned(),
            status: "accepted".to_owned(),
            ..AgentProgress::default()
        };
        Self { runs: agents.into_iter().map(progress).collect(), ..Self::default() }
    }

    /// Updates the progress of an agent from the state of its run.
    pub(crate) fn update_run(&mut self, run: &Value) {
        let text =
            |pointer: &str| run.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |pointer: &str| run.pointer(pointer).and_then(Value::as_u64);
        let agent = text("/agent");
        let Some(progress) = self.runs.iter_mut().find(|progress| progress.agent == agent) else { return };
        // Answers may arrive out of order; a run that has ended stays ended.
        if progress.has_ended() {
            return;
        }
        *progress = AgentProgress {
            agent,
            run_id: text("/run_id"),
            status: text("/status"),
            duration_ms: number("/duration_ms").unwrap_or(0),
            input_tokens: number("/input_tokens").unwrap_or(0),
            output_tokens: number("/output_tokens").unwrap_or(0),
            cost_microusd: run.get("cost_usd").and_then(Value::as_f64).map(|usd| (usd * 1e6).round() as u64),
            result: text("/result"),
            so_far: text("/partial_text"),
        };
    }

    /// Sets the progress message of the server.
    pub(crate) fn set_activity(&mut self, message: String) {
        self.activity = message;
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.runs.iter().all(AgentProgress::has_ended)
    }

    pub(crate) fn all_succeeded(&self) -> bool {
        self.runs.iter().all(|progress| progress.status == OutcomeKind::Succeeded.as_str())
    }

    /// Computes the totals.
    pub(crate) fn finish(mut self, wall_ms: u64) -> Self {
        self.wall_ms = wall_ms;
        self.agents_ms = self.runs.iter().map(|progress| progress.duration_ms).sum();
        self.cost_microusd = self.runs.iter().filter_map(|progress| progress.cost_microusd).sum();
        self
    }

    pub(crate) fn rows(&self) -> Vec<LiveRow> {
        self.runs.iter().map(|progress| progress.row(&self.activity)).collect()
    }

    /// Returns the results and the table.
    pub(crate) fn page(&self, style: &TextStyle) -> String {
        let mut text = String::new();
        for progress in &self.runs {
            text.push_str(&format!("{}\n", style.color.apply(Tone::Strong, &progress.agent)));
            for line in sanitize_for_terminal(&progress.result).trim_end().lines() {
                text.push_str(&format!("  {line}\n"));
            }
            text.push('\n');
        }
        text.push_str(&self.table().render(style));
        let (wall, work) = (span(self.wall_ms), span(self.agents_ms));
        text.push_str(&format!("\n{work} of work in {wall}, {}\n", money(Some(self.cost_microusd))));
        text
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            Column::left("AGENT"),
            Column::left("STATUS"),
            Column::right("TIME"),
            Column::right("TOKENS IN"),
            Column::right("OUT"),
            Column::right("COST"),
        ]);
        for progress in &self.runs {
            table.push(vec![
                Cell::new(&progress.agent),
                Cell::status(&progress.status),
                Cell::new(&span(progress.duration_ms)),
                Cell::new(&count(progress.input_tokens)),
                Cell::new(&count(progress.output_tokens)),
                Cell::new(&money(progress.cost_microusd)),
            ]);
        }
        table
    }
}

impl AgentProgress {
    fn has_ended(&self) -> bool {
        OutcomeKind::ALL.iter().any(|kind| kind.as_str() == self.status)
    }

    fn row(&self, activity: &str) -> LiveRow {
        let ended = self.has_ended();
        LiveRow {
            name: self.agent.clone(),
            status: self.status.clone(),
            elapsed_ms: self.duration_ms,
            activity: activity.to_owned(),
            activity_is_text: false,
            text_tail: if ended { self.result.clone() } else { self.so_far.clone() },
            ended,
        }
    }
}
