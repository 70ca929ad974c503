//! The names of tools: a prefix and the agent's name in budgie's form, in two spellings.

use std::collections::BTreeMap;

use domain::id::AgentName;

use engine::EngineError;

/// The name of the health tool, after the prefix.
const HEALTH: &str = "health-check";

/// The agent or function of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolTarget {
    Agent(AgentName),
    Health,
}

/// All names that a call may use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolNames {
    /// The names in the list of tools, in its order.
    pub(super) listed: Vec<(String, ToolTarget)>,
    by_name: BTreeMap<String, ToolTarget>,
}

impl ToolNames {
    /// Names a tool for each agent, from Kiro's name, and the health tool.
    pub(super) fn new<'a>(
        prefix: &str,
        safe: bool,
        agents: impl IntoIterator<Item = (&'a AgentName, &'a str)>,
    ) -> Result<Self, EngineError> {
        let agents = agents.into_iter().map(|(agent, kiro_name)| {
            (format!("{prefix}{}", normalise(kiro_name)), ToolTarget::Agent(agent.clone()))
        });
        let health = (format!("{prefix}{HEALTH}"), ToolTarget::Health);
        let dotted: Vec<(String, ToolTarget)> = agents.chain([health]).collect();
        let mut by_name = BTreeMap::new();
        let mut listed = Vec::new();
        for (name, target) in &dotted {
            let name = if safe { without_dots(name) } else { name.clone() };
            if by_name.insert(name.clone(), target.clone()).is_some() {
                let message = format!("two agents would both be the tool {name}");
                let hint = "rename one of them: upper and lower case and other characters than letters, digits, '_', \
                     '.' and '-' make no difference to a tool's name, and with --safe-names '.' and '_' are the same";
                return Err(EngineError::usage(message).hint(hint));
            }
            listed.push((name, target.clone()));
        }
        for (name, target) in dotted {
            // A listed name keeps its target; an ambiguous one is left out.
            let other = if safe { name.clone() } else { without_dots(&name) };
            let same = listed.iter().filter(|(listed, _)| without_dots(listed) == without_dots(&name));
            if safe || same.count() == 1 {
                by_name.entry(other).or_insert(target);
            }
        }
        Ok(Self { listed, by_name })
    }

    pub(super) fn find(&self, name: &str) -> Option<&ToolTarget> {
        self.by_name.get(name)
    }

    /// Returns the additional names that are not listed.
    pub(super) fn others(&self) -> Vec<String> {
        let listed = |name: &String| self.listed.iter().any(|(listed, _)| listed == name);
        self.by_name.keys().filter(|name| !listed(name)).cloned().collect()
    }
}

/// Normalizes an agent's name as budgie does.
fn normalise(name: &str) -> String {
    let character = |character: char| match character.to_ascii_lowercase() {
        allowed @ ('a'..='z' | '0'..='9' | '_' | '.' | '-') => allowed,
        _ => '-',
    };
    name.chars().map(character).collect()
}

fn without_dots(name: &str) -> String {
    name.replace('.', "_")
}
