//! `list_agents`: lists the agents that can be delegated to.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use domain::diagnostic::Diagnostic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::tool_call::ToolCall;
use super::catalog::{Hints, NativeTool, ToolReply};
use super::run_report::fit;
use engine::{AgentList, AgentView, EngineError, without_agent_name};

/// The length of a description.
const DESCRIPTION_BYTES: usize = 1 << 10;
const PROBLEMS_MAX: usize = 20;
/// The part of an answer that problems of files may take: one in four bytes.
const PROBLEMS_SHARE: usize = 4;
/// The bytes that an answer needs in addition to agents and problems.
const FRAME_BYTES: usize = 1 << 10;

pub(super) struct ListAgents;

/// List the agents that tasks can be delegated to, with what each is for and when to use or avoid it. Call this
/// before the first run_agent, and choose by description, not by name alone.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Input {
    /// The absolute path of a directory; the agents of its project are listed. Left out: the project that this
    /// server was started in.
    directory: Option<String>,
    /// Only agents that have each of these words in their name, description, capabilities, backend or model, such as
    /// "review security". Left out: all.
    filter: Option<String>,
    /// For the next page: next_after of the page before.
    after: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    /// The directory of the project.
    project: String,
    agents: Vec<AgentEntry>,
    /// How many more there are after these.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    /// If there are more: give it as after to see them.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<String>,
    /// What is wrong with the files that define agents, each problem once; on the first page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// What to do next, where something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AgentEntry {
    name: String,
    description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    use_when: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    avoid_when: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capabilities: Vec<String>,
    /// What a caller gives beside the prompt, in run_agent's inputs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<InputEntry>,
    /// true: no file defines it. It is a program that is installed here, for any task. Prefer an agent that is made for
    /// the task, where there is one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    built_in: bool,
    /// How the agent is driven.
    backend: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Why it cannot run as things are, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct InputEntry {
    name: String,
    /// The type of the value.
    kind: String,
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
}

impl NativeTool for ListAgents {
    const NAME: &'static str = "list_agents";
    const TITLE: &'static str = "List agents";
    const HINTS: Hints = Hints::READ_ONLY;
    const SEARCH_HINT: &'static str = "which sub-agents can I delegate to";

    type Input = Input;
    type Output = Output;

    async fn call(call: &ToolCall<'_>, input: Input) -> Result<ToolReply<Output>, EngineError> {
        let mut list = call.handler.engine.ask(engine::ListAgents { directory: input.directory }).await?;
        let next = list.agents.is_empty().then(|| explain_empty_list(&list));
        let filter = input.filter.unwrap_or_default();
        list.agents.retain(|agent| matches_filter(agent, &filter));
        if !filter.trim().is_empty() {
            // Problems of files that the filter excludes are left out.
            let files: HashSet<&str> = list.agents.iter().map(|agent| agent.file.as_str()).collect();
            list.diagnostics.retain(|found| files.contains(found.file.as_str()));
        }
        let next = next.or_else(|| {
            let nothing =
                list.agents.is_empty().then(|| format!("No agent has {filter:?}: leave filter out."));
            nothing.filter(|_| !filter.trim().is_empty())
        });
        let problems = match &input.after {
            Some(_) => Vec::new(),
            None => problems(&list, call.client.result_bytes / PROBLEMS_SHARE),
        };
        let mut agents = after(list.agents, input.after.as_deref())?;
        let room = call.client.result_bytes.saturating_sub(FRAME_BYTES + json_bytes(&problems));
        let page = page(&mut agents, room);
        let next_after = (!agents.is_empty()).then(|| page.last().map(|agent| agent.name.clone())).flatten();
        let next = next.or_else(|| {
            next_after.as_ref().map(|name| format!("Call list_agents with after {name:?} for the next page."))
        });
        Ok(ToolReply::Done(Output {
            next,
            project: list.project,
            agents: page,
            more: (!agents.is_empty()).then_some(agents.len()),
            next_after,
            problems,
        }))
    }
}

/// Returns whether an agent matches each word of a filter.
fn matches_filter(agent: &AgentView, filter: &str) -> bool {
    let model = agent.model.as_deref().unwrap_or_default();
    let known = [&[agent.name.as_str(), &agent.description, &agent.backend, model][..]];
    let known: Vec<&str> =
        known.concat().into_iter().chain(agent.capabilities.iter().map(String::as_str)).collect();
    let known = known.join("\n").to_lowercase();
    filter.to_lowercase().split_whitespace().all(|word| known.contains(word))
}

/// Returns the agents after the last one of the previous page.
fn after(agents: Vec<AgentView>, name: Option<&str>) -> Result<VecDeque<AgentView>, EngineError> {
    let Some(name) = name else { return Ok(agents.into()) };
    let Some(index) = agents.iter().position(|agent| agent.name == name) else {
        let error =
            EngineError::usage(format!("after: there is no agent {name:?} among those that are listed"));
        return Err(
            error.hint("leave after out to begin with the first page, and use the same filter for all pages")
        );
    };
    Ok(agents.into_iter().skip(index + 1).collect())
}

/// Takes as many agents as fit into an answer, at least one. A problem that several agents share is reported once.
fn page(agents: &mut VecDeque<AgentView>, room: usize) -> Vec<AgentEntry> {
    let mut reported: Vec<(String, String)> = Vec::new();
    let mut page = Vec::new();
    let mut used = 0;
    while let Some(view) = agents.pop_front() {
        let mut agent = AgentEntry::from(view.clone());
        if let Some(problem) = agent.problem.take() {
            let known = reported.iter().find(|(known, _)| *known == problem);
            agent.problem = Some(match known {
                Some((_, name)) => format!("the same as for {name}"),
                None => problem.clone(),
            });
            if known.is_none() {
                reported.push((problem, agent.name.clone()));
            }
        }
        used += json_bytes(&agent) + 1;
        if used > room && !page.is_empty() {
            agents.push_front(view);
            break;
        }
        page.push(agent);
    }
    page
}

/// Returns the problems of files: equal ones once, and as many as fit. Problems that differ only in the name of their agent
/// are equal.
fn problems(list: &AgentList, room: usize) -> Vec<String> {
    let names: HashMap<&str, &str> =
        list.agents.iter().map(|agent| (agent.file.as_str(), agent.name.as_str())).collect();
    let mut groups: Vec<(&Diagnostic, usize)> = Vec::new();
    // With a map, because a repository may have a hundred findings in each of thousands of files.
    let mut known: HashMap<_, usize> = HashMap::new();
    for one in &list.diagnostics {
        match known.entry(shared_text(one, &names)) {
            Entry::Occupied(group) => groups[*group.get()].1 += 1,
            Entry::Vacant(group) => {
                group.insert(groups.len());
                groups.push((one, 0));
            }
        }
    }
    let mut lines = Vec::new();
    let mut used = 0;
    for (index, (one, more)) in groups.iter().enumerate() {
        let line = match more {
            0 => one.to_string(),
            _ => {
                let (message, hint) = shared_text(one, &names);
                let shared = Diagnostic { message, hint, ..(*one).clone() };
                format!("{shared} (and {more} more like it)")
            }
        };
        used += json_bytes(&line) + 1;
        if lines.len() == PROBLEMS_MAX || (used > room && !lines.is_empty()) {
            let left = groups.len() - index;
            lines.push(format!("and {left} other problems: `volery agents check` lists them"));
            break;
        }
        lines.push(line);
    }
    lines
}

/// Returns the message and the hint of a finding without the name of its agent.
fn shared_text(finding: &Diagnostic, names: &HashMap<&str, &str>) -> (String, Option<String>) {
    let nameless = |text: &String| match names.get(finding.file.as_str()) {
        Some(name) => without_agent_name(text, name),
        None => text.clone(),
    };
    (nameless(&finding.message), finding.hint.as_ref().map(nameless))
}

fn json_bytes(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len())
}

fn explain_empty_list(list: &AgentList) -> String {
    if list.diagnostics.is_empty() {
        let folder = format!("{}/.volery/agents/", list.project);
        format!(
            "No agents are defined. They are markdown files in {folder}; another project is named by directory."
        )
    } else {
        "No agent can be used: tell your user about the problems.".into()
    }
}

impl From<AgentView> for AgentEntry {
    fn from(view: AgentView) -> Self {
        Self {
            name: view.name,
            description: fit(&view.description, DESCRIPTION_BYTES).to_owned(),
            use_when: view.use_when,
            avoid_when: view.avoid_when,
            capabilities: view.capabilities,
            inputs: view.inputs.into_iter().map(InputEntry::from).collect(),
            built_in: view.built_in,
            backend: view.backend,
            model: view.model,
            problem: view.problem,
        }
    }
}

impl From<domain::agent::AgentInput> for InputEntry {
    fn from(input: domain::agent::AgentInput) -> Self {
        let domain::agent::AgentInput { name, kind, required, default, description } = input;
        let description = fit(&description, DESCRIPTION_BYTES).to_owned();
        Self { name, kind, required, default, description }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(name: &str, description: &str, problem: Option<&str>) -> AgentView {
        let view = serde_json::json!({
            "name": name, "description": description, "backend": "claude", "problem": problem,
            "file": "", "format": "volery", "layer": "project", "answers_by": "output",
        });
        serde_json::from_value(view).unwrap()
    }

    fn list(diagnostics: Vec<Diagnostic>) -> AgentList {
        AgentList { project: "/p".to_owned(), agents: Vec::new(), diagnostics }
    }

    #[test]
    fn pages_cover_all_agents_once_and_respect_the_size_limit() {
        let all: Vec<AgentView> =
            (0..300).map(|number| view(&format!("agent{number:03}"), &"d".repeat(900), None)).collect();
        let (mut names, mut last) = (Vec::new(), None::<String>);
        loop {
            let mut left = after(all.clone(), last.as_deref()).unwrap();
            let page = page(&mut left, 8 << 10);
            assert!(json_bytes(&page) <= 8 << 10, "{}", json_bytes(&page));
            names.extend(page.iter().map(|agent| agent.name.clone()));
            last = names.last().cloned();
            if left.is_empty() {
                break;
            }
        }
        assert_eq!(names, all.iter().map(|agent| agent.name.clone()).collect::<Vec<_>>());
        assert!(after(all, Some("nobody")).is_err());
        // An agent that is larger than a page is still returned, or paging would never advance.
        let mut one = VecDeque::from([view("large", &"d".repeat(900), None)]);
        assert_eq!(page(&mut one, 10).len(), 1);
    }

    #[test]
    fn a_problem_of_several_agents_is_reported_once() {
        let mut agents = VecDeque::from([
            view("a", "", Some("claude is not installed")),
            view("b", "", None),
            view("c", "", Some("claude is not installed")),
        ]);
        let problems: Vec<Option<String>> =
            page(&mut agents, 1 << 20).into_iter().map(|agent| agent.problem).collect();
        let reported = ["claude is not installed", "the same as for a"].map(|text| Some(text.to_owned()));
        assert_eq!(problems, [reported[0].clone(), None, reported[1].clone()]);
    }

    #[test]
    fn equal_problems_of_files_are_reported_once_and_within_the_size_limit() {
        let mut found: Vec<Diagnostic> =
            (0..500).map(|number| Diagnostic::warning(&format!("{number}.md"), "color is unknown")).collect();
        found.push(Diagnostic::error("x.md", "it has no name"));
        let reported = problems(&list(found), 8 << 10);
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(reported[0].ends_with("color is unknown (and 499 more like it)"), "{reported:?}");
        let many = (0..500).map(|number| Diagnostic::warning("a.md", format!("problem {number}")));
        let many = list(many.collect());
        let reported = problems(&many, 8 << 10);
        assert_eq!(reported.len(), PROBLEMS_MAX + 1);
        assert_eq!(reported.last().unwrap(), "and 480 other problems: `volery agents check` lists them");
        assert!(json_bytes(&problems(&many, 200)) < 400);
    }

    #[test]
    fn problems_that_differ_only_in_the_name_of_their_agent_are_reported_once() {
        let agents = (0..400).map(|number| {
            let mut agent = view(&format!("agent-{number}"), "", None);
            agent.file = format!("{number}.md");
            agent
        });
        let found = (0..400).map(|number| {
            let advice = format!("Bash is denied; write [agents.agent-{number}] permission = \"yolo\"");
            Diagnostic::warning(&format!("{number}.md"), advice)
        });
        let list = AgentList { agents: agents.collect(), ..list(found.collect()) };
        let reported = problems(&list, 8 << 10);
        assert_eq!(reported.len(), 1, "{reported:?}");
        let expected = "write [agents.NAME] permission = \"yolo\" (and 399 more like it)";
        assert!(reported[0].ends_with(expected), "{reported:?}");
        // A single one names its agent.
        let one = AgentList { diagnostics: list.diagnostics[..1].to_vec(), ..list };
        assert!(problems(&one, 8 << 10)[0].contains("[agents.agent-0]"));
    }

    /// Comparing every finding with every other took minutes.
    #[test]
    fn many_different_problems_are_grouped_at_once() {
        let many = (0..200_000).map(|number| Diagnostic::warning("a.md", format!("problem {number}")));
        let reported = problems(&list(many.collect()), 8 << 10);
        assert_eq!(reported.last().unwrap(), "and 199980 other problems: `volery agents check` lists them");
    }

    #[test]
    fn a_filter_requires_each_of_its_words() {
        let agent = view("sec-review", "Finds holes.", None);
        assert!(
            matches_filter(&agent, "")
                && matches_filter(&agent, "HOLES claude")
                && !matches_filter(&agent, "holes codex")
        );
    }
}
