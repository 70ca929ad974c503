//! Questions about a whole kind of tool, for vendors' programs that cannot be asked about a single use: they enable or
//! disable tools, or read lists of rules.

use super::layers::Policy;
use super::levels::Extent;
use super::pattern::matches_text_glob;
use super::uses::Use;
use super::verdict::{Basis, Effect};
use crate::permission::{Level, Permission, Rule, ToolKind};

impl Permission {
    /// Returns how much of a kind the level allows; an agent without a level has safe-edit where nobody can be asked.
    pub fn level_extent(&self, kind: ToolKind<'_>) -> Extent {
        self.level.unwrap_or(Level::SafeEdit).extent(kind)
    }

    /// Returns how much of a kind is left for a program that can only enable or disable a tool: a rule that restricts
    /// some uses disables all of them.
    pub fn tool_extent(&self, kind: ToolKind<'_>) -> Extent {
        if self.restricts_kind(kind) {
            return Extent::Nothing;
        }
        if self.grants_kind(kind) { Extent::Everything } else { self.level_extent(kind) }
    }

    /// Returns whether commands that only read are allowed, as every level allows them. A rule that restricts reading
    /// is about the tools that read, and a command would be a way around it.
    pub fn allows_reading_commands(&self) -> bool {
        let restricts_reading =
            |rule: &Rule| rule.is_about(ToolKind::Read) || rule.is_about(ToolKind::Search);
        let withholds_commands = |rule: &Rule| rule.kind() == ToolKind::Shell && rule.pattern().is_none();
        !self.restricting_rules().any(|(_, rule)| restricts_reading(rule))
            && !self.deny.iter().any(withholds_commands)
    }

    /// Returns what the rules say about an environment variable; `None` if no rule is about it.
    pub fn variable_rule(&self, name: &str) -> Option<Effect> {
        let about_variables = |rules: &[Rule]| {
            rules.iter().filter(|rule| rule.kind() == ToolKind::Env).cloned().collect::<Vec<_>>()
        };
        let rules = Self {
            level: None,
            allow: about_variables(&self.allow),
            ask: about_variables(&self.ask),
            deny: about_variables(&self.deny),
        };
        let verdict = Policy::from(&rules).decide(&Use::Env(name.to_owned()));
        matches!(verdict.basis, Basis::Rule(_)).then_some(verdict.effect)
    }

    /// Returns the permission without the rules that Volery itself carries out, for a vendor's program.
    #[must_use]
    pub fn for_vendor(&self) -> Self {
        let tools = |rules: &[Rule]| {
            rules.iter().filter(|rule| rule.kind() != ToolKind::Env).cloned().collect::<Vec<_>>()
        };
        Self { level: self.level, allow: tools(&self.allow), ask: tools(&self.ask), deny: tools(&self.deny) }
    }

    /// Returns whether everything is allowed, and nothing is asked about or denied.
    pub fn is_unrestricted(&self) -> bool {
        self.level == Some(Level::Yolo) && self.ask.is_empty() && self.deny.is_empty()
    }

    /// Returns whether some edits are allowed, and others not.
    pub fn bounds_edits(&self) -> bool {
        match self.level_extent(ToolKind::Edit) {
            Extent::Everything => false,
            Extent::Directory => true,
            Extent::Nothing => self.allow.iter().any(|rule| rule.is_about(ToolKind::Edit)),
        }
    }

    /// Returns the rules that ask or deny, each with the name of its list.
    pub fn restricting_rules(&self) -> impl Iterator<Item = (&'static str, &Rule)> {
        let asks = self.ask.iter().map(|rule| ("ask", rule));
        asks.chain(self.deny.iter().map(|rule| ("deny", rule)))
    }

    /// Returns whether a rule asks about or denies some uses of a kind.
    pub fn restricts_kind(&self, kind: ToolKind<'_>) -> bool {
        self.restricting_rules().any(|(_, rule)| rule.restricts(kind))
    }

    /// Returns whether a rule allows every use of a kind.
    pub fn grants_kind(&self, kind: ToolKind<'_>) -> bool {
        self.allow.iter().any(|rule| rule.pattern().is_none() && rule.is_about(kind))
    }

    /// Returns whether a rule allows or asks about some uses of a kind.
    pub fn opens_kind(&self, kind: ToolKind<'_>) -> bool {
        self.allow.iter().chain(&self.ask).any(|rule| rule.is_about(kind))
    }

    /// Returns whether a rule allows or asks about a tool of a server.
    pub fn opens_server(&self, server: &str) -> bool {
        self.allow.iter().chain(&self.ask).any(|rule| rule.names_server(server))
    }

    /// Returns whether a rule asks about or denies a tool of a server.
    pub fn restricts_server(&self, server: &str) -> bool {
        self.restricting_rules()
            .any(|(_, rule)| rule.kind() == ToolKind::Everything || rule.may_name_server(server))
    }
}

impl Rule {
    /// Returns whether the rule is about a kind, or about everything.
    pub fn is_about(&self, kind: ToolKind<'_>) -> bool {
        self.kind() == kind || self.kind() == ToolKind::Everything
    }

    /// Returns whether the rule, as one that asks or denies, is about a kind. A star in the names of a server and its
    /// tool then stands for any text.
    pub fn restricts(&self, kind: ToolKind<'_>) -> bool {
        match (self.kind(), kind) {
            (ToolKind::Mcp { server, tool }, ToolKind::Mcp { server: used, tool: used_tool })
                if self.has_server_glob() =>
            {
                let name = |server: &str, tool: Option<&str>| match tool {
                    Some(tool) => format!("{server}__{tool}"),
                    None => server.to_owned(),
                };
                let glob = name(server, tool);
                let names = [Some(name(used, None)), used_tool.map(|tool| name(used, Some(tool)))];
                names.iter().flatten().any(|name| matches_text_glob(&glob, name))
            }
            (ToolKind::Mcp { server, tool: None }, ToolKind::Mcp { server: used, .. }) => server == used,
            (ruled, kind) => ruled == kind || ruled == ToolKind::Everything,
        }
    }

    /// Returns whether the name of a server or of its tool has a star.
    pub fn has_server_glob(&self) -> bool {
        matches!(self.kind(), ToolKind::Mcp { server, tool }
            if server.contains('*') || tool.is_some_and(|tool| tool.contains('*')))
    }

    /// Returns whether the rule, as one that asks or denies, may be about a server, or a tool of it.
    fn may_name_server(&self, name: &str) -> bool {
        match self.kind() {
            ToolKind::Mcp { server, .. } => match server.split_once('*') {
                Some((start, _)) => name.starts_with(start),
                None => server == name,
            },
            _ => false,
        }
    }

    /// Returns whether the rule is about a server, or a tool of it.
    pub fn names_server(&self, name: &str) -> bool {
        matches!(self.kind(), ToolKind::Mcp { server, .. } if server == name)
    }
}
