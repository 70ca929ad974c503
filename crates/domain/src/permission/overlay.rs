//! Lays one permission over another: what a caller or a configuration asks for, over what the agent has. Whether the upper
//! layer may allow more than the lower one is the caller's authority; that a layer without it never does is a property
//! that tests check.

use serde::{Deserialize, Serialize};

use super::{Level, Permission, Rule, ToolKind};

/// Whether a layer may allow more than what is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    Widen,
    Narrow,
}

/// Who laid a layer of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantSource {
    Configuration,
    Caller,
    /// The run that started this one: its permission is the most that this run may have.
    Parent,
    /// A project that nobody has trusted, whose file takes the name of a built-in agent.
    Untrusted,
}

/// A layer of a run's permission, as it is recorded: who asked for what, and what it allows beyond the layers below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub source: GrantSource,
    /// The caller, or the section of a configuration, as people know it.
    pub by: String,
    pub asked: Permission,
    /// In words; empty if it allows no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widens: Vec<String>,
}

/// What came of laying one permission over another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlaid {
    pub permission: Permission,
    /// What is allowed beyond the lower permission, in words.
    pub widens: Vec<String>,
    /// Each rule of the upper layer that changes nothing, and why.
    pub ineffective: Vec<String>,
}

/// More is asked for than there is, by somebody who may only ask for less.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} would allow more than its own permission ({has})", wanted.join(", "))]
pub struct TooWide {
    pub wanted: Vec<String>,
    /// What the lower permission is, in words.
    pub has: String,
}

impl Permission {
    /// Lays what is asked for over this permission. A level is the most that is allowed without a rule of the same layer;
    /// rules that ask or deny are added; a rule that allows also takes away rules that ask about nothing else. Rules that
    /// deny are never taken away.
    pub fn overlaid(&self, asked: &Self, authority: Authority) -> Result<Overlaid, TooWide> {
        let widens = self.widened_by(asked);
        if authority == Authority::Narrow && !widens.is_empty() {
            return Err(TooWide { wanted: widens, has: self.in_words() });
        }
        let ineffective = self.ineffective(asked);
        let level = asked.level.or(self.level);
        let caps = asked.level.filter(|level| rank(Some(*level)) <= rank(self.level));
        let mut allow = match caps {
            // Only what the upper layer names is allowed beyond its level.
            Some(level) if level != Level::Yolo => {
                let named = |rule: &&Rule| asked.allow.iter().any(|wide| covers(wide, rule));
                self.allow.iter().filter(named).cloned().collect()
            }
            Some(_) | None => self.allow.clone(),
        };
        add(&mut allow, &asked.allow);
        let keeps = |rule: &&Rule| match authority {
            Authority::Narrow => true,
            Authority::Widen => !asked.allow.iter().any(|wide| covers(wide, rule)),
        };
        let is_capped = |rule: &&Rule| {
            let named = asked.allow.iter().chain(&asked.ask).any(|other| overlaps(other, rule));
            !named && caps.is_some_and(|level| is_beyond(level, rule.kind()))
        };
        let kept = self.ask.iter().filter(keeps).filter(|rule| !is_capped(rule));
        let mut ask: Vec<Rule> = kept.cloned().collect();
        add(&mut ask, &asked.ask);
        let mut deny = self.deny.clone();
        add(&mut deny, &asked.deny);
        Ok(Overlaid { permission: Self { level, allow, ask, deny }, widens, ineffective })
    }

    /// Names what a layer would allow beyond this permission.
    fn widened_by(&self, asked: &Self) -> Vec<String> {
        let level = asked.level.filter(|level| rank(Some(*level)) > rank(self.level));
        let level = level.map(|level| format!("the level {}", level.as_str()));
        let raised = level.is_some() && asked.level == Some(Level::Yolo);
        let allow = asked.allow.iter().filter(|rule| !raised && !self.surely_allows(rule));
        // To ask about what is denied allows more too.
        let ask = asked.ask.iter().filter(|rule| !raised && !self.surely_asks(rule));
        let allow = allow.map(|rule| format!("the rule allow {rule}"));
        level.into_iter().chain(allow).chain(ask.map(|rule| format!("the rule ask {rule}"))).collect()
    }

    /// Tells whether everything that a rule allows is allowed already, as far as that can be told from the rules.
    fn surely_allows(&self, rule: &Rule) -> bool {
        if self.ask.iter().any(|asks| covers(rule, asks) || covers(asks, rule)) {
            return false;
        }
        let by_level =
            self.level == Some(Level::Yolo) || matches!(rule.kind(), ToolKind::Read | ToolKind::Search);
        by_level || self.allow.iter().any(|wide| covers(wide, rule))
    }

    /// Tells whether nothing that a rule speaks of is denied by the level.
    pub(super) fn surely_asks(&self, rule: &Rule) -> bool {
        let by_level = matches!(self.level, None | Some(Level::Yolo));
        let by_kind = matches!(rule.kind(), ToolKind::Read | ToolKind::Search);
        // With a pattern, a rule that asks speaks of more uses than one that allows: also of compound commands.
        let by_allow = self.allow.iter().any(|wide| wide.pattern().is_none() && covers(wide, rule));
        by_level || by_kind || by_allow || self.ask.iter().any(|wide| covers(wide, rule))
    }

    fn ineffective(&self, asked: &Self) -> Vec<String> {
        let denies: Vec<&Rule> = self.deny.iter().chain(&asked.deny).collect();
        let lists = [("allow", &asked.allow), ("ask", &asked.ask)];
        let rules = lists.into_iter().flat_map(|(word, rules)| rules.iter().map(move |rule| (word, rule)));
        rules
            .filter_map(|(word, rule)| {
                let wins = denies.iter().find(|deny| covers(deny, rule))?;
                Some(format!("the rule {word} {rule} has no effect: the rule deny {wins} wins"))
            })
            .collect()
    }

    /// Returns the permission of an agent in a line: its level, and its rules.
    pub fn in_words(&self) -> String {
        match self.level {
            Some(_) => self.as_asked(),
            None => format!("safe-edit by default; {}", self.as_asked()).trim_end_matches("; ").to_owned(),
        }
    }

    /// Returns what a layer says in a line. Each rule is in quotes: one that has a blank in it must not look like two.
    pub fn as_asked(&self) -> String {
        let level = self.level.map(|level| level.as_str().to_owned());
        let lists = [("allow", &self.allow), ("ask", &self.ask), ("deny", &self.deny)];
        let rules = lists.into_iter().filter(|(_, rules)| !rules.is_empty()).map(|(word, rules)| {
            let rules: Vec<String> = rules.iter().map(|rule| format!("{:?}", rule.spelling())).collect();
            format!("{word} {}", rules.join(" "))
        });
        level.into_iter().chain(rules).collect::<Vec<_>>().join("; ")
    }
}

/// Orders levels by how much they allow. Without one, what safe-edit denies is asked about.
pub(super) fn rank(level: Option<Level>) -> u8 {
    match level {
        Some(Level::ReadOnly) => 0,
        Some(Level::SafeEdit) => 1,
        None => 2,
        Some(Level::Yolo) => 3,
    }
}

/// Tells whether a level denies every use of a tool.
pub(super) fn is_beyond(level: Level, kind: ToolKind<'_>) -> bool {
    match (level, kind) {
        (Level::Yolo, _) | (_, ToolKind::Read | ToolKind::Search | ToolKind::Everything) => false,
        (Level::SafeEdit, ToolKind::Edit) => false,
        (Level::ReadOnly | Level::SafeEdit, _) => true,
    }
}

pub(super) fn add(rules: &mut Vec<Rule>, more: &[Rule]) {
    for rule in more {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
}

/// Tells whether two rules may speak of the same use: in doubt, they do.
pub(super) fn overlaps(one: &Rule, two: &Rule) -> bool {
    is_of(one, two) || is_of(two, one)
}

/// Tells whether a rule is about every tool that another one is about.
fn is_of(wide: &Rule, narrow: &Rule) -> bool {
    match (wide.kind(), narrow.kind()) {
        (ToolKind::Everything, _) => true,
        (ToolKind::Mcp { server, tool: None }, ToolKind::Mcp { server: other, .. }) => server == other,
        (ToolKind::Other(_), ToolKind::Other(_)) => wide.tool().eq_ignore_ascii_case(narrow.tool()),
        (wide, narrow) => wide == narrow,
    }
}

/// Tells whether every use that the narrow rule speaks of is one that the wide rule speaks of. In doubt it is not.
pub(super) fn covers(wide: &Rule, narrow: &Rule) -> bool {
    if !is_of(wide, narrow) {
        return false;
    }
    match (wide.pattern(), narrow.pattern()) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wide), Some(narrow)) if wide == narrow => true,
        (Some(wide_pattern), Some(narrow_pattern)) => {
            wide.kind() == ToolKind::Shell && covers_command(wide_pattern, narrow_pattern)
        }
    }
}

/// `git:*` covers `git log:*` and `git log`; other patterns are not compared.
fn covers_command(wide: &str, narrow: &str) -> bool {
    let Some(prefix) = wide.strip_suffix(":*") else { return false };
    let words = match narrow.strip_suffix(":*") {
        Some(words) => words,
        None if narrow.contains(['*', '?']) => return false,
        None => narrow,
    };
    words.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{level, permission, permissions, strictness, uses};
    use super::*;

    #[test]
    fn a_level_is_the_most_that_is_allowed_without_a_rule_of_the_same_layer() {
        let agent = permission(Some(Level::SafeEdit), &["Bash(git:*)", "WebFetch"], &["Edit(docs/**)"], &[]);
        let reads = agent.overlaid(&level(Level::ReadOnly), Authority::Narrow).unwrap();
        assert_eq!(reads.permission, level(Level::ReadOnly));
        let looks = permission(Some(Level::ReadOnly), &["Bash(git log:*)"], &[], &[]);
        let looks = agent.overlaid(&looks, Authority::Narrow).unwrap();
        assert_eq!(looks.permission, permission(Some(Level::ReadOnly), &["Bash(git log:*)"], &[], &[]));
        assert_eq!((looks.widens, looks.ineffective), (Vec::<String>::new(), Vec::new()));
        let careful = permission(None, &[], &["WebFetch"], &["Bash(git push:*)"]);
        let careful = agent.overlaid(&careful, Authority::Narrow).unwrap().permission;
        let expected = permission(
            Some(Level::SafeEdit),
            &["Bash(git:*)", "WebFetch"],
            &["Edit(docs/**)", "WebFetch"],
            &["Bash(git push:*)"],
        );
        assert_eq!(careful, expected);
    }

    #[test]
    fn whoever_may_not_widen_is_refused_by_name() {
        let agent = permission(Some(Level::SafeEdit), &["Bash(git log:*)"], &[], &[]);
        let wide = permission(Some(Level::Yolo), &["Bash(git:*)"], &[], &[]);
        let refused = agent.overlaid(&wide, Authority::Narrow).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the level yolo would allow more than its own permission (safe-edit; allow \"Bash(git log:*)\")"
        );
        let rules = permission(None, &["Bash(git:*)", "mcp__x"], &[], &[]);
        let refused = agent.overlaid(&rules, Authority::Narrow).unwrap_err();
        assert_eq!(refused.wanted, ["the rule allow Bash(git:*)", "the rule allow mcp__x"]);
        // Without a level the rest is asked about, which is more than to deny it and less than to allow it.
        let usual = Permission::default();
        assert!(usual.overlaid(&level(Level::SafeEdit), Authority::Narrow).is_ok());
        assert!(usual.overlaid(&level(Level::Yolo), Authority::Narrow).is_err());
        // What an agent asks about is not allowed by its caller.
        let asks = permission(Some(Level::Yolo), &[], &["Bash"], &[]);
        let allows = permission(None, &["Bash"], &[], &[]);
        assert!(asks.overlaid(&allows, Authority::Narrow).is_err());
    }

    #[test]
    fn whoever_may_widen_says_what_and_a_denial_stays() {
        let agent = permission(None, &[], &["Bash"], &["Bash(rm:*)", "WebFetch"]);
        let wide = permission(Some(Level::Yolo), &["Bash", "WebFetch"], &[], &[]);
        let overlaid = agent.overlaid(&wide, Authority::Widen).unwrap();
        assert_eq!(overlaid.widens, ["the level yolo"]);
        assert_eq!(
            overlaid.ineffective,
            ["the rule allow WebFetch has no effect: the rule deny WebFetch wins"]
        );
        let expected = permission(Some(Level::Yolo), &["Bash", "WebFetch"], &[], &["Bash(rm:*)", "WebFetch"]);
        assert_eq!(overlaid.permission, expected);
        let rule = permission(None, &["Bash(cargo test:*)"], &[], &[]);
        let overlaid = agent.overlaid(&rule, Authority::Widen).unwrap();
        assert_eq!(overlaid.widens, ["the rule allow Bash(cargo test:*)"]);
    }

    proptest! {
        #[test]
        fn a_layer_without_authority_never_allows_more(agent in permissions(), asked in permissions()) {
            if let Ok(Overlaid { permission, .. }) = agent.overlaid(&asked, Authority::Narrow) {
                for (tool, input) in uses() {
                    prop_assert!(
                        strictness(&permission, tool, &input) >= strictness(&agent, tool, &input),
                        "{tool} {input}: {permission:?}"
                    );
                }
            }
        }

        #[test]
        fn what_a_layer_denies_is_denied(agent in permissions(), asked in permissions()) {
            let denies = Permission { deny: asked.deny.clone(), ..level(Level::Yolo) };
            let overlaid = agent.overlaid(&asked, Authority::Widen).unwrap();
            for (tool, input) in uses() {
                let wanted = strictness(&denies, tool, &input);
                prop_assert!(strictness(&overlaid.permission, tool, &input) >= wanted, "{tool} {input}");
            }
        }

        #[test]
        fn a_level_that_is_lower_holds(agent in permissions(), named in 0..2_usize) {
            let named = [Level::ReadOnly, Level::SafeEdit][named];
            let agent = Permission { level: agent.level.filter(|own| *own >= named), ..agent };
            let overlaid = agent.overlaid(&level(named), Authority::Widen).unwrap();
            for (tool, input) in uses() {
                // A rule of the agent's own may still ask.
                let beyond = strictness(&level(named), tool, &input) == 2;
                let got = &overlaid.permission;
                prop_assert!(!beyond || strictness(got, tool, &input) > 0, "{tool} {input}: {got:?}");
            }
        }
    }
}
