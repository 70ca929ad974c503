//! The names of tools: a prefix and the agent's name as budgie writes it, in two spellings.

use std::collections::BTreeMap;

use domain::id::AgentName;

use crate::app::AppError;

/// What comes after the prefix in the name of the tool that tells how the agents do.
const HEALTH: &str = "health-check";

/// What a tool is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    Agent(AgentName),
    Health,
}

/// Every name that a call may use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// Those of the list, in its order.
    pub(super) listed: Vec<(String, Meaning)>,
    by_name: BTreeMap<String, Meaning>,
}

impl Names {
    /// Names a tool for each agent, by what Kiro calls it, and the one for their health.
    pub(super) fn new<'a>(
        prefix: &str,
        safe: bool,
        agents: impl IntoIterator<Item = (&'a AgentName, &'a str)>,
    ) -> Result<Self, AppError> {
        let agents = agents
            .into_iter()
            .map(|(agent, called)| (format!("{prefix}{}", normalise(called)), Meaning::Agent(agent.clone())));
        let health = (format!("{prefix}{HEALTH}"), Meaning::Health);
        let dotted: Vec<(String, Meaning)> = agents.chain([health]).collect();
        let mut by_name = BTreeMap::new();
        let mut listed = Vec::new();
        for (name, meaning) in &dotted {
            let name = if safe { without_dots(name) } else { name.clone() };
            if by_name.insert(name.clone(), meaning.clone()).is_some() {
                let message = format!("two agents would both be the tool {name}");
                let hint = "rename one of them: upper and lower case and other characters than letters, digits, '_', \
                     '.' and '-' make no difference to a tool's name, and with --safe-names '.' and '_' are the same";
                return Err(AppError::usage(message).hint(hint));
            }
            listed.push((name, meaning.clone()));
        }
        for (name, meaning) in dotted {
            // A name of the list keeps its meaning, and one that could mean two agents means neither.
            let other = if safe { name.clone() } else { without_dots(&name) };
            let same = listed.iter().filter(|(listed, _)| without_dots(listed) == without_dots(&name));
            if safe || same.count() == 1 {
                by_name.entry(other).or_insert(meaning);
            }
        }
        Ok(Self { listed, by_name })
    }

    pub(super) fn find(&self, name: &str) -> Option<&Meaning> {
        self.by_name.get(name)
    }

    /// Returns the names that are not in the list.
    pub(super) fn others(&self) -> Vec<String> {
        let listed = |name: &String| self.listed.iter().any(|(listed, _)| listed == name);
        self.by_name.keys().filter(|name| !listed(name)).cloned().collect()
    }
}

/// Writes an agent's name as budgie does.
fn normalise(name: &str) -> String {
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        kept @ ('a'..='z' | '0'..='9' | '_' | '.' | '-') => kept,
        _ => '-',
    };
    name.chars().map(letter).collect()
}

fn without_dots(name: &str) -> String {
    name.replace('.', "_")
}
