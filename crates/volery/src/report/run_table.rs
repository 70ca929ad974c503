//! Renders runs as tables, one line per run.

use super::denials::status_with_denials;
use super::number_format::{age, cost_with_basis, count, money, span};
use super::run_page::reason;
use super::table::{Cell, Column, Table};
use super::text_style::{TextStyle, Tone};
use engine::{ListScope, RunSummary, RunView};

/// Returns the table of `ps`. With runs of all projects, each line names its own.
pub(crate) fn run_table(runs: &[RunSummary], scope: ListScope, style: &TextStyle) -> String {
    let mut columns = vec![
        Column::left("ID"),
        Column::left("AGENT").cut(10),
        Column::left("STATUS"),
        Column::right("AGE").droppable(1),
        Column::right("TIME").droppable(2),
        Column::right("COST").droppable(3),
    ];
    if scope == ListScope::All {
        columns.push(Column::left("PROJECT").cut_start(12));
    }
    columns.push(Column::flexible("PROMPT"));
    let mut table = Table::new(&columns);
    for run in runs {
        let mut row = vec![
            Cell::new(&run.short_id),
            Cell::new(&run.agent),
            status_cell(&run.status, run.denials_count),
            Cell::new(&age(style.now, &run.created_at)),
            Cell::new(&span(run.duration_ms)),
            Cell::new(&money(run.cost_microusd)),
        ];
        if scope == ListScope::All {
            row.push(Cell::new(&style.short_path(&run.project, None)));
        }
        row.push(match run.needs_answer.first() {
            Some(question) => Cell::toned(&question.headline(), Tone::Careful),
            None => Cell::new(&run.prompt),
        });
        table.push(row);
    }
    table.render(style)
}

fn status_cell(status: &str, denials_count: u64) -> Cell {
    Cell::toned(&status_with_denials(status, denials_count), Tone::for_status(status))
}

/// Returns the runs with those that have not ended first, the newest first within each part.
pub(crate) fn runs_in_order(mut runs: Vec<RunSummary>) -> Vec<RunSummary> {
    runs.sort_by_key(|run| (run.ended, std::cmp::Reverse(run.run_id)));
    runs.dedup_by_key(|run| run.run_id);
    runs
}

/// Returns the table of several runs that were waited for, with tokens and cost.
pub(crate) fn view_table(runs: &[RunView], style: &TextStyle) -> String {
    let mut table = Table::new(&[
        Column::left("ID"),
        Column::left("AGENT").cut(10),
        Column::left("STATUS"),
        Column::right("TIME").droppable(1),
        Column::right("TOKENS").droppable(3),
        Column::right("COST").droppable(2),
        Column::flexible("REASON"),
    ]);
    for run in runs {
        let tokens = run.usage.input_tokens.saturating_add(run.usage.output_tokens);
        table.push(vec![
            Cell::new(&run.short_id),
            Cell::new(&run.agent),
            status_cell(&run.status, run.denials_count),
            Cell::new(&span(run.duration_ms)),
            Cell::new(&count(tokens)),
            Cell::new(&run.usage.cost.map_or_else(|| money(None), cost_with_basis)),
            Cell::new(&reason(run)),
        ]);
    }
    table.render(style)
}
