//! What is known about the agents of the demo: live rows, then results, then the table.

use domain::run::OutcomeKind;
use serde::Serialize;
use serde_json::Value;

use crate::report::{Cell, Column, LiveRow, Look, Table, Tone, count, money, neutralise, span};

/// One agent's part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Part {
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

/// All parts, and how long the whole took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    pub(crate) runs: Vec<Part>,
    /// From the first request to the last answer.
    pub(crate) wall_ms: u64,
    /// Of all agents together: more than the wall time, because they worked at once.
    pub(crate) agents_ms: u64,
    pub(crate) cost_microusd: u64,
    #[serde(skip)]
    remark: String,
}

impl Tally {
    pub(crate) fn new(agents: impl IntoIterator<Item = &'static str>) -> Self {
        let part =
            |agent: &str| Part { agent: agent.to_owned(), status: "accepted".to_owned(), ..Part::default() };
        Self { runs: agents.into_iter().map(part).collect(), ..Self::default() }
    }

    /// Takes in where a run stands.
    pub(crate) fn take(&mut self, run: &Value) {
        let text =
            |pointer: &str| run.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |pointer: &str| run.pointer(pointer).and_then(Value::as_u64);
        let agent = text("/agent");
        let Some(part) = self.runs.iter_mut().find(|part| part.agent == agent) else { return };
        // Answers may overtake each other; an end is never taken back.
        if part.has_ended() {
            return;
        }
        *part = Part {
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

    /// Takes in what the server says about its progress.
    pub(crate) fn remark(&mut self, message: String) {
        self.remark = message;
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.runs.iter().all(Part::has_ended)
    }

    pub(crate) fn all_succeeded(&self) -> bool {
        self.runs.iter().all(|part| part.status == OutcomeKind::Succeeded.as_str())
    }

    /// Adds up.
    pub(crate) fn finish(mut self, wall_ms: u64) -> Self {
        self.wall_ms = wall_ms;
        self.agents_ms = self.runs.iter().map(|part| part.duration_ms).sum();
        self.cost_microusd = self.runs.iter().filter_map(|part| part.cost_microusd).sum();
        self
    }

    pub(crate) fn rows(&self) -> Vec<LiveRow> {
        self.runs.iter().map(|part| part.row(&self.remark)).collect()
    }

    /// Returns the results and the table.
    pub(crate) fn page(&self, look: &Look) -> String {
        let mut text = String::new();
        for part in &self.runs {
            text.push_str(&format!("{}\n", look.paint.apply(Tone::Strong, &part.agent)));
            for line in neutralise(&part.result).lines() {
                text.push_str(&format!("  {line}\n"));
            }
            text.push('\n');
        }
        text.push_str(&self.table().render(look));
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
        for part in &self.runs {
            table.push(vec![
                Cell::new(&part.agent),
                Cell::status(&part.status),
                Cell::new(&span(part.duration_ms)),
                Cell::new(&count(part.input_tokens)),
                Cell::new(&count(part.output_tokens)),
                Cell::new(&money(part.cost_microusd)),
            ]);
        }
        table
    }
}

impl Part {
    fn has_ended(&self) -> bool {
        OutcomeKind::ALL.iter().any(|kind| kind.as_str() == self.status)
    }

    fn row(&self, remark: &str) -> LiveRow {
        let ended = self.has_ended();
        LiveRow {
            name: self.agent.clone(),
            status: self.status.clone(),
            elapsed_ms: self.duration_ms,
            activity: remark.to_owned(),
            text_tail: if ended { self.result.clone() } else { self.so_far.clone() },
            ended,
        }
    }
}
