//! The agents of a directory, and what is wrong with their files.

use domain::agent::Input;
use domain::diagnostic::{Diagnostic, Severity};

use super::look::{Look, Tone};
use super::table::{Cell, Column, Table};
use super::text::{fit, one_line, with_tilde, wrap};
use crate::app::{AgentList, AgentView};

/// The most of a description that is shown where no terminal says how much fits.
const DESCRIPTION_MAX: usize = 200;
/// How many agents with the same problem are named.
const NAMES_SHOWN: usize = 5;
/// The most that is shown of what an agent takes.
const INPUTS_MAX: usize = 400;

/// Returns the table of agents, and below it the reasons why some cannot run.
pub(crate) fn agents(list: &AgentList, look: &Look) -> String {
    let mut table = Table::new(&[
        Column::left("AGENT").cut(12),
        // That of a built-in agent repeats its name.
        Column::left("BACKEND").left_out(2),
        Column::left("MODEL").left_out(1),
        // It alone marks the built-in agents, so it stays.
        Column::left("FORMAT"),
        Column::left("STATE"),
        Column::left("FILE").left_out(3),
        Column::left("DESCRIPTION").cut(30),
    ]);
    for agent in &list.agents {
        let state = match agent.problem {
            None if agent.login_unknown => Cell::toned("login not known", Tone::Careful),
            None => Cell::toned("ready", Tone::Good),
            Some(_) => Cell::toned("blocked", Tone::Bad),
        };
        table.push(vec![
            Cell::toned(&agent.name, Tone::Strong),
            Cell::new(&agent.backend),
            Cell::new(agent.model.as_deref().unwrap_or("-")),
            Cell::new(if agent.built_in { "built in" } else { &agent.format }),
            state,
            Cell::new(&match agent.built_in {
                true => "-".to_owned(),
                false => look.short_path(&agent.file, Some(&list.project)),
            }),
            Cell::new(&fit(&one_line(&agent.description), DESCRIPTION_MAX)),
        ]);
    }
    let mut text = table.render(look);
    for agent in list.agents.iter().filter(|agent| !agent.inputs.is_empty()) {
        let inputs: Vec<String> = agent.inputs.iter().map(input).collect();
        let takes = format!("{} takes: {}", one_line(&agent.name), fit(&inputs.join(", "), INPUTS_MAX));
        text.push_str(&paragraph(&takes, 0, look));
    }
    for (problem, names) in problems(&list.agents) {
        text.push_str(&paragraph(&format!("{} cannot run:", some_of(&names)), 0, look));
        for line in problem.lines() {
            text.push_str(&paragraph(&with_tilde(&one_line(line), look.home), 2, look));
        }
    }
    text
}

/// Returns the first few of many names, and how many there are.
pub(crate) fn some_of(names: &[String]) -> String {
    match names.len().checked_sub(NAMES_SHOWN) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMES_SHOWN].join(", ")),
    }
}

/// Returns each problem once, with the agents that have it, in the order of the agents.
pub(crate) fn problems<'a>(agents: impl IntoIterator<Item = &'a AgentView>) -> Vec<(&'a str, Vec<String>)> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for agent in agents {
        let Some(problem) = agent.problem.as_deref() else { continue };
        let name = one_line(&agent.name);
        match found.iter_mut().find(|(known, _)| *known == problem) {
            Some((_, names)) => names.push(name),
            None => found.push((problem, vec![name])),
        }
    }
    found
}

/// Returns a text that is broken between words where the terminal ends; a title has an empty line above it.
fn paragraph(text: &str, indent: usize, look: &Look) -> String {
    let lines = match look.width {
        Some(width) => wrap(text, width.saturating_sub(indent).max(20)),
        None => vec![text.to_owned()],
    };
    let blank = if indent == 0 { "\n" } else { "" };
    let lines: String = lines.iter().map(|line| format!("{}{line}\n", " ".repeat(indent))).collect();
    format!("{blank}{lines}")
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

/// Returns the same with warnings that several agents' files share once: that of the first file, and in how many others it is.
pub(crate) fn grouped_diagnostics(list: &AgentList, look: &Look) -> String {
    let mut groups: Vec<(Shared, Vec<&Diagnostic>)> = Vec::new();
    for found in &list.diagnostics {
        let shared = Shared::of(found, list);
        // Each error has a place of its own that somebody must go to, and so has what is not an agent.
        let is_shareable = !found.is_error() && agent_of(found, list).is_some();
        match groups.iter_mut().find(|(known, _)| is_shareable && *known == shared) {
            Some((_, same)) => same.push(found),
            None => groups.push((shared, vec![found])),
        }
    }
    let mut text = String::new();
    for (shared, same) in groups {
        if same.len() == 1 {
            text.push_str(&diagnostics(&[same[0].clone()], look));
            continue;
        }
        let first = Diagnostic { message: shared.message, hint: shared.hint, ..same[0].clone() };
        text.push_str(&diagnostics(&[first], look));
        let names = same[1..].iter().filter_map(|found| agent_of(found, list)).map(one_line);
        let names: Vec<String> = names.collect();
        text.push_str(&format!("  and the same for {}\n", some_of(&names)));
    }
    text
}

/// What several findings have in common: all but the place, with `NAME` for the agent's own name.
#[derive(PartialEq, Eq)]
struct Shared {
    severity: Severity,
    message: String,
    hint: Option<String>,
}

impl Shared {
    fn of(found: &Diagnostic, list: &AgentList) -> Self {
        let name = agent_of(found, list);
        let nameless = |text: &str| match name {
            Some(name) => text.replace(&format!("[agents.{name}]"), "[agents.NAME]"),
            None => text.to_owned(),
        };
        Self {
            severity: found.severity,
            message: nameless(&found.message),
            hint: found.hint.as_deref().map(nameless),
        }
    }
}

/// Returns the agent whose file a finding is about.
fn agent_of<'a>(found: &Diagnostic, list: &'a AgentList) -> Option<&'a str> {
    let agent = list.agents.iter().find(|agent| agent.file == found.file);
    agent.map(|agent| agent.name.as_str())
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
        let file = look.short_path(&diagnostic.file, None);
        let place = format!("{}{line}{column}", one_line(&file));
        let message = one_line(&diagnostic.message);
        text.push_str(&format!("{place}: {}: {message}\n", look.paint.apply(tone, word)));
        if let Some(hint) = &diagnostic.hint {
            text.push_str(&format!("  hint: {}\n", one_line(hint)));
        }
    }
    text
}
