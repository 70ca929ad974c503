//! The items that agents of a dialect inherit from their user in addition to their own definition, because the system
//! behind the dialect gives them to its agents. Agent files cannot set this.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::dialect::DialectName;

/// One item that an agent can inherit from its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inherited {
    /// The environment of the server, without Volery's own variables.
    Environment,
    /// The MCP servers that the user has configured for the agent's program.
    McpServers,
    /// The user's own settings of the agent's program, with the rules that allow tools without a question.
    Settings,
}

impl Inherited {
    pub const ALL: [Self; 3] = [Self::Environment, Self::McpServers, Self::Settings];

    /// Returns the name as the configuration spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::McpServers => "mcp-servers",
            Self::Settings => "settings",
        }
    }

    /// Returns a description for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Environment => "the server's environment",
            Self::McpServers => "the user's MCP servers",
            Self::Settings => "the user's settings and allow rules",
        }
    }
}

/// Describes several in one phrase: "a, b and c".
pub fn describe_all(items: &BTreeSet<Inherited>) -> String {
    let words: Vec<&str> = items.iter().map(|item| item.describe()).collect();
    match words.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

impl DialectName {
    /// Returns the items that the system behind the dialect gives its agents. The native dialect gives none.
    pub fn inherits(self) -> BTreeSet<Inherited> {
        let all: &[Inherited] = match self {
            Self::Volery => &[],
            // Jarvis' documentation starts agents with `--strict-mcp-config` and without the user's settings.
            Self::Jarvis => &[Inherited::Environment],
            Self::SubAgentsMcp | Self::Budgie | Self::Powerspawn | Self::Codex => &Inherited::ALL,
        };
        all.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_are_described_in_one_phrase() {
        let described = |items: &[Inherited]| describe_all(&items.iter().copied().collect());
        assert_eq!(described(&[]), "nothing");
        assert_eq!(described(&[Inherited::Settings]), "the user's settings and allow rules");
        assert_eq!(
            described(&Inherited::ALL),
            "the server's environment, the user's MCP servers and the user's settings and allow rules"
        );
    }
}
