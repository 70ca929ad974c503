//! What was measured, as a table for people and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

/// One line of the table. All targets are upper bounds.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
    /// What no program could do better, measured in the same rounds, and what that is.
    pub(crate) floor: Option<(f64, &'static str)>,
    /// The bound, and how it came to be.
    pub(crate) target: Option<(f64, &'static str)>,
    /// What else is worth knowing.
    pub(crate) note: String,
}

impl Figure {
    fn is_met(&self) -> Option<bool> {
        self.target.map(|(target, _)| self.value <= target)
    }
}

/// Returns the value that this share of all values stays below.
pub(crate) fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 50)
}

/// Describes the spread of a series around its median.
pub(crate) fn spread(values: &[f64]) -> String {
    let [min, p95] = [0, 95].map(|percent| percentile(values, percent));
    format!("min {min:.2}, p95 {p95:.2}, n {}", values.len())
}

/// Says what the figures were measured on, and under what load.
pub(crate) fn machine() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    format!("{} cores, load {load} at the end\n", cores())
}

/// Returns one line per figure. `before` has the same figures of another program, or is empty.
pub(crate) fn table(figures: &[Figure], before: &[Figure]) -> String {
    let mut text =
        "| figure | measured | before | floor | target | met? | |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    for figure in figures {
        let Figure { name, unit, value, note, .. } = figure;
        let with_unit = |(number, what): (f64, &str)| format!("{number:.2} {unit} ({what})");
        let floor = figure.floor.map_or("–".to_owned(), with_unit);
        let target = figure.target.map_or("–".to_owned(), with_unit);
        let met = match figure.is_met() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "–",
        };
        let before = before.iter().find(|before| before.name == *name);
        let before = before.map_or("–".to_owned(), |before| format!("{:.2} {unit}", before.value));
        writeln!(text, "| {name} | {value:.2} {unit} | {before} | {floor} | {target} | {met} | {note} |")
            .expect("a string takes everything");
    }
    text
}

pub(crate) fn json(figures: &[Figure], before: &[Figure]) -> serde_json::Result<String> {
    let bound = |limit: Option<(f64, &str)>| limit.map(|(value, what)| json!({"value": value, "what": what}));
    let lines: Vec<Value> = figures
        .iter()
        .map(|figure| {
            json!({
                "name": figure.name,
                "unit": figure.unit,
                "value": figure.value,
                "before": before.iter().find(|before| before.name == figure.name).map(|before| before.value),
                "floor": bound(figure.floor),
                "target": bound(figure.target),
                "met": figure.is_met(),
                "note": figure.note,
            })
        })
        .collect();
    serde_json::to_string_pretty(&json!({"cores": cores(), "figures": lines}))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
