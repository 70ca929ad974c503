//! Renders the prices of models.

use super::table::{Cell, Column, Table};
use super::text_style::{TextStyle, Tone};
use engine::PricesView;

/// Returns a line per model: its price per million tokens, and the service or file that the price is from.
pub(crate) fn prices(view: &PricesView, style: &TextStyle) -> String {
    let mut table = Table::new(&[
        Column::flexible("MODEL"),
        Column::right("INPUT"),
        Column::right("OUTPUT"),
        Column::right("CACHE READ").droppable(1),
        Column::right("CACHE WRITE").droppable(2),
        Column::left("PRICED BY").cut_start(12),
    ]);
    for entry in &view.prices {
        let origin = match (entry.provider, &entry.file) {
            (Some(provider), _) => Cell::toned(provider, Tone::Faint),
            (None, file) => Cell::new(&style.short_path(file.as_deref().unwrap_or_default(), None)),
        };
        table.push(vec![
            Cell::new(&entry.model),
            Cell::new(&dollars(entry.input)),
            Cell::new(&dollars(entry.output)),
            Cell::new(&dollars(entry.cache_read)),
            Cell::new(&dollars(entry.cache_write)),
            origin,
        ]);
    }
    table.render(style)
}

/// Formats an amount with at least two decimals and as many as it has: `3.00`, `0.0375`.
fn dollars(amount: f64) -> String {
    let text = format!("{amount:.6}");
    let shortest = text.trim_end_matches('0');
    let decimals = shortest.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{shortest}{}", "0".repeat(2_usize.saturating_sub(decimals)))
}
