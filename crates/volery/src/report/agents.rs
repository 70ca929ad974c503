//! The agents of a directory, and what is wrong with their files.

use domain::agent::Input;
use domain::diagnostic::{Diagnostic, Severity};

use super::look::{Look, Tone};
use super::table::{Cell, Column, Table};
use super::text::{fit, one_line};
use crate::app::AgentList;

/// The most of a description that is shown where no terminal says how much fits.
const DESCRIPTION_MAX: usize = 200;
/// The most that is shown of what an agent takes.
const INPUTS_MAX: usize = 400;

/// Returns the table of agents, and below it the reasons why some cannot run.
pub(crate) fn agents(list: &AgentList, look: &Look) -> String {
    let mut table = Table::new(&[
        Column::left("AGENT"),
        Column::left("BACKEND"),
        Column::left("MODEL"),
        Column::left("FORMAT"),
        Column::left("STATE"),
        Column::left("FILE"),
        Column::flexible("DESCRIPTION"),
    ]);
    for agent in &list.agents {
        let state = match agent.problem {
            None => Cell::toned("ready", Tone::Good),
            Some(_) => Cell::toned("blocked", Tone::Bad),
        };
        table.push(vec![
            Cell::toned(&agent.name, Tone::Strong),
            Cell::new(&agent.backend),
            Cell::new(agent.model.as_deref().unwrap_or("-")),
            Cell::new(if agent.built_in { "built in" } else { &agent.format }),
            state,
            Cell::new(if agent.built_in { "-" } else { nearer(&agent.file, &list.project) }),
            Cell::new(&fit(&one_line(&agent.description), DESCRIPTION_MAX)),
        ]);
    }
    let mut text = table.render(look);
    for agent in list.agents.iter().filter(|agent| !agent.inputs.is_empty()) {
        let inputs: Vec<String> = agent.inputs.iter().map(input).collect();
        text.push_str(&format!(
            "\n{} takes: {}\n",
            one_line(&agent.name),
            fit(&inputs.join(", "), INPUTS_MAX)
        ));
    }
    for agent in &list.agents {
        if let Some(problem) = &agent.problem {
            text.push_str(&format!("\n{} cannot run:\n", one_line(&agent.name)));
            for line in problem.lines() {
                text.push_str(&format!("  {}\n", one_line(line)));
            }
        }
    }
    text
}

/// Returns an input in a few words: `file`, `depth integer = 3`, `tone?`.
fn input(input: &Input) -> String {
    let kind = if input.kind == "string" { String::new() } else { format!(" {}", input.kind) };
    let rest = match &input.default {
        Some(default) => format!("{kind} = {default}"),
        None if input.required => kind,
        None => format!("?{kind}"),
    };
    one_line(&format!("{}{rest}", input.name))
}

/// Returns a file of the project as seen from there, any other in full.
fn nearer<'a>(file: &'a str, project: &str) -> &'a str {
    let inside = file.strip_prefix(project).and_then(|rest| rest.strip_prefix('/'));
    inside.unwrap_or(file)
}

/// Returns each finding as `file:line:column: error: message`, with its hint on its own line.
pub(crate) fn diagnostics(found: &[Diagnostic], look: &Look) -> String {
    let mut text = String::new();
    for diagnostic in found {
        let (word, tone) = match diagnostic.severity {
            Severity::Warning => ("warning", Tone::Careful),
            Severity::Error => ("error", Tone::Bad),
        };
        let line = diagnostic.line.map(|line| format!(":{line}")).unwrap_or_default();
        let column = diagnostic.column.map(|column| format!(":{column}")).unwrap_or_default();
        let place = format!("{}{line}{column}", one_line(&diagnostic.file));
        let message = one_line(&diagnostic.message);
        text.push_str(&format!("{place}: {}: {message}\n", look.paint.apply(tone, word)));
        if let Some(hint) = &diagnostic.hint {
            text.push_str(&format!("  hint: {}\n", one_line(hint)));
        }
    }
    text
}
