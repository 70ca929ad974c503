//! Renders the success rates, durations and costs of agents.

use super::number_format::{age, count, money, span};
use super::table::{Cell, Column, Table};
use super::text_style::{TextStyle, Tone};
use engine::HealthReport;

/// The success rate from which an agent counts as healthy.
const RATE_GOOD: f64 = 0.9;

/// Returns the slots in use and a line per agent.
pub(crate) fn health(report: &HealthReport, style: &TextStyle) -> String {
    let mut text = format!(
        "{} running, {} waiting, {} slots\n\n",
        count(report.running),
        count(report.waiting),
        count(report.slots)
    );
    if report.agents.is_empty() {
        text.push_str("no run has ended yet; `volery health --all` covers all projects\n");
        return text;
    }
    let mut table = Table::new(&[
        Column::left("AGENT").cut(12),
        // It usually repeats the name.
        Column::left("BACKEND").droppable(8),
        Column::right("RUNS"),
        Column::right("OK").droppable(3),
        Column::right("PARTIAL").droppable(6),
        Column::right("FAILED").droppable(2),
        Column::right("RATE"),
        Column::right("MEAN").droppable(1),
        Column::right("MAX").droppable(7),
        Column::right("COST"),
        Column::right("LAST").droppable(5),
        Column::left("LAST ERROR").cut(32),
    ]);
    for line in &report.agents {
        let rate = match line.success_rate {
            None => Cell::new("-"),
            Some(rate) => {
                let tone = if rate >= RATE_GOOD { Tone::Good } else { Tone::Bad };
                Cell::toned(&format!("{:.0}%", rate * 100.0), tone)
            }
        };
        let last = line.last_ended_at.as_ref().map_or_else(|| "-".to_owned(), |at| age(style.now, at));
        table.push(vec![
            Cell::new(&line.agent),
            Cell::new(&line.backend),
            Cell::new(&count(line.runs)),
            Cell::new(&count(line.succeeded)),
            Cell::new(&count(line.partial)),
            Cell::new(&count(line.failed)),
            rate,
            Cell::new(&line.mean_ms.map_or_else(|| "-".to_owned(), span)),
            Cell::new(&span(line.max_ms)),
            Cell::new(&money(line.cost_microusd)),
            Cell::new(&last),
            Cell::new(line.last_error.as_deref().unwrap_or("-")),
        ]);
    }
    text.push_str(&table.render(style));
    if report.left_out > 0 {
        text.push_str(&format!("… and {} more agents\n", count(report.left_out)));
    }
    text
}
