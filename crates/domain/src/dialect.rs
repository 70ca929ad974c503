//! The names of the MCP server's dialects: the systems whose tools it offers.

/// A set of tool names and shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DialectName {
    /// The tools of this program.
    Volery,
    /// `run_agent` and the resources of sub-agents-mcp.
    SubAgentsMcp,
    /// `run_subagent` of Jarvis.
    Jarvis,
    /// `codex` and `codex-reply`, as in earlier versions of Codex itself.
    Codex,
    /// One tool for each agent of Kiro, as in budgie.
    Budgie,
    /// `spawn_*`, `list`, `result` and `wait_for_agents` of PowerSpawn, and its `IAC.md`.
    Powerspawn,
}

impl DialectName {
    pub const ALL: [Self; 6] =
        [Self::Volery, Self::SubAgentsMcp, Self::Jarvis, Self::Codex, Self::Budgie, Self::Powerspawn];

    /// Returns the name as people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Volery => "volery",
            Self::SubAgentsMcp => "sub-agents-mcp",
            Self::Jarvis => "jarvis",
            Self::Codex => "codex",
            Self::Budgie => "budgie",
            Self::Powerspawn => "powerspawn",
        }
    }

    /// Returns the dialect with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == text)
    }
}
