//! The settings in force, and the files that they come from.

use domain::agent::Layer;

use super::look::{Look, Tone};
use super::table::{Cell, Column, Table};
use crate::app::ConfigView;

/// Returns the table of `config show`: each setting, its value and where it was set.
pub(crate) fn settings(view: &ConfigView, look: &Look) -> String {
    let columns = [Column::left("SETTING"), Column::flexible("VALUE"), Column::left("SET BY").cut_start(12)];
    let mut table = Table::new(&columns);
    for setting in &view.settings {
        let source = match setting.layer {
            Layer::Default if setting.source.starts_with('(') => "default".to_owned(),
            Layer::Environment => "environment".to_owned(),
            Layer::Default | Layer::System | Layer::User | Layer::Project | Layer::CommandLine => {
                look.short_path(&setting.source, Some(&view.project))
            }
        };
        let tone = if setting.layer == Layer::Default { Tone::Faint } else { Tone::Plain };
        let value = if setting.value.is_empty() { "-" } else { &setting.value };
        table.push(vec![Cell::new(&setting.key), Cell::toned(value, tone), Cell::toned(&source, tone)]);
    }
    table.render(look)
}

/// Returns the table of `config path`.
pub(crate) fn config_files(view: &ConfigView, look: &Look) -> String {
    let mut table = Table::new(&[Column::left("LAYER"), Column::left("STATE"), Column::left("FILE")]);
    for file in &view.files {
        let state = match file.exists {
            true => Cell::toned("read", Tone::Good),
            false => Cell::toned("absent", Tone::Faint),
        };
        table.push(vec![Cell::new(layer_name(file.layer)), state, Cell::new(&file.file)]);
    }
    table.render(look)
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
