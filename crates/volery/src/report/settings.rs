//! Renders the effective settings and the files that they come from.

use domain::agent::Layer;
use serde_json::Value;

use super::table::{Cell, Column, Table};
use super::text::one_line;
use super::text_style::{TextStyle, Tone};
use engine::{ConfigView, SettingView};

/// Returns the table of `config show`: each setting, its value and where it was set.
pub(crate) fn settings(view: &ConfigView, style: &TextStyle) -> String {
    // The source of a value matters most; the rest of a long value is in that file.
    let columns = [Column::left("SETTING"), Column::flexible("VALUE"), Column::left("SET BY").cut_start(40)];
    let mut table = Table::new(&columns);
    for setting in &view.settings {
        let source = match setting.layer {
            Layer::Default if setting.source.starts_with('(') => "default".to_owned(),
            Layer::Environment => "environment".to_owned(),
            Layer::Default | Layer::System | Layer::User | Layer::Project | Layer::CommandLine => {
                style.short_path(&setting.source, Some(&view.project))
            }
        };
        let tone = if setting.layer == Layer::Default { Tone::Faint } else { Tone::Plain };
        let value = match setting.not_applied {
            None => Cell::toned(&format_value(&setting.value), tone),
            Some(_) => Cell::toned(&format!("{} (not applied)", format_value(&setting.value)), Tone::Careful),
        };
        table.push(vec![Cell::new(&setting.key), value, Cell::toned(&source, tone)]);
    }
    let mut text = table.render(style);
    let not_applied: Vec<&SettingView> =
        view.settings.iter().filter(|setting| setting.not_applied.is_some()).collect();
    if !not_applied.is_empty() {
        text.push('\n');
    }
    for setting in not_applied {
        let reason = setting.not_applied.unwrap_or_default();
        text.push_str(&format!("{} is not applied: {reason}\n", one_line(&setting.key)));
    }
    text
}

/// Formats a value as a file has it, without quotes around a single text.
fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        other => format_inline(other),
    }
}

fn format_inline(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(format_inline).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key} = {}", format_inline(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// Returns the table of `config path`.
pub(crate) fn config_files(view: &ConfigView, style: &TextStyle) -> String {
    let mut table = Table::new(&[Column::left("LAYER"), Column::left("STATE"), Column::left("FILE")]);
    for file in &view.files {
        let state = match file.exists {
            true => Cell::toned("read", Tone::Good),
            false => Cell::toned("absent", Tone::Faint),
        };
        table.push(vec![
            Cell::new(layer_name(file.layer)),
            state,
            Cell::new(&style.short_path(&file.file, None)),
        ]);
    }
    table.render(style)
}

fn layer_name(layer: Layer) -> &'static str {
    match layer {
        Layer::Default => "default",
        Layer::System => "system",
        Layer::User => "user",
        Layer::Project => "project",
        Layer::Environment => "environment",
        Layer::CommandLine => "command line",
    }
}
