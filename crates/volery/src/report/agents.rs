//! Renders the agents of a directory and the problems of their files.

use domain::agent::AgentInput;
use domain::diagnostic::{Diagnostic, Severity};

use super::table::{Cell, Column, Table};
use super::text::{INDENT, fit, one_line, width, with_tilde, wrap, wrap_hanging};
use super::text_style::{TextStyle, Tone};
use engine::{AgentList, AgentView, without_agent_name};

/// The length of a description if there is no terminal that limits it.
const DESCRIPTION_MAX: usize = 200;
/// How many agents with the same problem are named.
const NAMES_SHOWN: usize = 5;
/// The length of the list of an agent's inputs.
const INPUTS_MAX: usize = 400;

/// Returns the table of agents, and below it the reasons why some cannot run.
pub(crate) fn agents(list: &AgentList, style: &TextStyle) -> String {
    let mut table = Table::new(&[
        Column::left("AGENT").cut(12),
        // The backend of a built-in agent repeats its name.
        Column::left("BACKEND").droppable(2),
        Column::left("MODEL").droppable(1),
        // Never dropped, because it alone marks the built-in agents.
        Column::left("FORMAT"),
        Column::left("STATE"),
        Column::left("FILE").droppable(3),
        Column::left("DESCRIPTION").cut(30),
    ]);
    for agent in &list.agents {
        let state = match agent.problem {
            None if agent.logged_out => Cell::toned("no login", Tone::Careful),
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
                false => style.short_path(&agent.file, Some(&list.project)),
            }),
            Cell::new(&fit(&one_line(&agent.description), DESCRIPTION_MAX)),
        ]);
    }
    let mut text = table.render(style);
    for agent in list.agents.iter().filter(|agent| !agent.inputs.is_empty()) {
        let inputs: Vec<String> = agent.inputs.iter().map(describe_input).collect();
        let takes = format!("{} takes: {}", one_line(&agent.name), fit(&inputs.join(", "), INPUTS_MAX));
        text.push_str(&paragraph(&takes, 0, style));
    }
    for (problem, names) in problems(&list.agents) {
        text.push_str(&paragraph(&format!("{} cannot run:", first_names(&names)), 0, style));
        for line in problem.lines() {
            text.push_str(&paragraph(&style.short_paths(&one_line(line), &list.project), 2, style));
        }
    }
    text
}

/// Lists the first few of many names, and says how many more there are.
pub(crate) fn first_names(names: &[String]) -> String {
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

/// Wraps a text to the width of the terminal; an unindented text gets an empty line above it.
fn paragraph(text: &str, indent: usize, style: &TextStyle) -> String {
    let lines = match style.width {
        Some(width) => wrap(text, width.saturating_sub(indent).max(20)),
        None => vec![text.to_owned()],
    };
    let blank = if indent == 0 { "\n" } else { "" };
    let lines: String = lines.iter().map(|line| format!("{}{line}\n", " ".repeat(indent))).collect();
    format!("{blank}{lines}")
}

/// Describes an input briefly: `file`, `depth integer = 3`, `tone?`.
fn describe_input(input: &AgentInput) -> String {
    let kind = if input.kind == "string" { String::new() } else { format!(" {}", input.kind) };
    let rest = match &input.default {
        Some(default) => format!("{kind} = {default}"),
        None if input.required => kind,
        None => format!("?{kind}"),
    };
    one_line(&format!("{}{rest}", input.name))
}

/// Renders diagnostics; a warning that several agents' files share is rendered once, with the number of other files.
pub(crate) fn grouped_diagnostics(list: &AgentList, style: &TextStyle) -> String {
    let mut groups: Vec<(SharedFinding, Vec<&Diagnostic>)> = Vec::new();
    for diagnostic in &list.diagnostics {
        let shared = SharedFinding::new(diagnostic, list);
        // Users must fix each error at its own location, and so each finding in a file that defines no agent.
        let is_shareable = !diagnostic.is_error() && agent_for(diagnostic, list).is_some();
        match groups.iter_mut().find(|(known, _)| is_shareable && *known == shared) {
            Some((_, same)) => same.push(diagnostic),
            None => groups.push((shared, vec![diagnostic])),
        }
    }
    let mut text = String::new();
    for (shared, same) in groups {
        if same.len() == 1 {
            text.push_str(&diagnostics(&[same[0].clone()], &list.project, style));
            continue;
        }
        let first = Diagnostic { message: shared.message, hint: shared.hint, ..same[0].clone() };
        text.push_str(&diagnostics(&[first], &list.project, style));
        let names = same[1..].iter().filter_map(|diagnostic| agent_for(diagnostic, list)).map(one_line);
        let names: Vec<String> = names.collect();
        text.push_str(&format!("  and the same for {}\n", first_names(&names)));
    }
    text
}

/// The part of a finding that several files can share: all but the location, with `NAME` for the agent's own name.
#[derive(PartialEq, Eq)]
struct SharedFinding {
    severity: Severity,
    message: String,
    hint: Option<String>,
}

impl SharedFinding {
    fn new(diagnostic: &Diagnostic, list: &AgentList) -> Self {
        let name = agent_for(diagnostic, list);
        let nameless = |text: &str| match name {
            Some(name) => without_agent_name(text, name),
            None => text.to_owned(),
        };
        Self {
            severity: diagnostic.severity,
            message: nameless(&diagnostic.message),
            hint: diagnostic.hint.as_deref().map(nameless),
        }
    }
}

/// Returns the agent whose file a finding is about.
fn agent_for<'a>(diagnostic: &Diagnostic, list: &'a AgentList) -> Option<&'a str> {
    let agent = list.agents.iter().find(|agent| agent.file == diagnostic.file);
    agent.map(|agent| agent.name.as_str())
}

/// Returns each finding as `file:line:column: error: message`, with its hint on its own line. Paths inside the project are
/// relative to it.
pub(crate) fn diagnostics(findings: &[Diagnostic], project: &str, style: &TextStyle) -> String {
    let mut text = String::new();
    for diagnostic in findings {
        let (label, tone) = match diagnostic.severity {
            Severity::Warning => ("warning", Tone::Careful),
            Severity::Error => ("error", Tone::Bad),
        };
        let line = diagnostic.line.map(|line| format!(":{line}")).unwrap_or_default();
        let column = diagnostic.column.map(|column| format!(":{column}")).unwrap_or_default();
        let file = style.short_path(&diagnostic.file, Some(project));
        let location = format!("{}{line}{column}", one_line(&file));
        let before = width(&location) + width(label) + ": : ".len();
        let message = style.short_paths(&one_line(&diagnostic.message), project);
        let message = wrap_hanging(before, &message, style.width);
        text.push_str(&format!("{location}: {}: {message}\n", style.color.apply(tone, label)));
        if let Some(hint) = &diagnostic.hint {
            let before = INDENT.len() + "hint: ".len();
            // A hint may be a command for another directory, so its paths stay whole.
            let hint = with_tilde(&one_line(hint), style.home);
            text.push_str(&format!("{INDENT}hint: {}\n", wrap_hanging(before, &hint, style.width)));
        }
    }
    text
}
