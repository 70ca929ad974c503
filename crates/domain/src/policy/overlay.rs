//! Applies one permission layer on top of another: the request of a caller or a configuration on top of the agent's.
//! The caller's authority decides whether the upper layer may allow more; tests check the property that a layer
//! without authority never does.

use serde::{Deserialize, Serialize};

use super::levels::Extent;
use crate::permission::{Level, Permission, Rule, ToolKind};

/// Whether a layer may allow more than the layers below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    Widen,
    Narrow,
}

/// The origin of a permission layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantSource {
    Configuration,
    Caller,
    /// The run that started this one: its permission is the most that this run may have.
    Parent,
    /// The file of an untrusted project, which grants nothing beyond the defaults.
    Untrusted,
}

/// A layer of a run's permission, as it is recorded: its origin, its content, and what it allows beyond the layers
/// below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub source: GrantSource,
    /// The caller, or the section of a configuration, for display.
    pub by: String,
    #[serde(rename = "asked")]
    pub requested: Permission,
    /// Descriptions; empty if the layer allows no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widens: Vec<String>,
}

/// The result of applying one permission on top of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlaid {
    pub permission: Permission,
    /// Descriptions of everything that is allowed beyond the lower permission.
    pub widens: Vec<String>,
    /// Each rule of the upper layer without effect, with the reason.
    pub ineffective: Vec<String>,
}

/// A layer that may only narrow requests more than the lower permission allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} would allow more than its own permission ({has})", widenings.join(", "))]
pub struct PermissionTooWide {
    pub widenings: Vec<String>,
    /// The lower permission, described.
    pub has: String,
}

impl Permission {
    /// Applies the requested permission on top of this one. A level is the maximum without a rule of the same layer;
    /// ask and deny rules are added; an allow rule removes the ask rules that it covers. Deny rules are never
    /// removed.
    pub fn overlaid(&self, requested: &Self, authority: Authority) -> Result<Overlaid, PermissionTooWide> {
        let widens = self.widened_by(requested);
        if authority == Authority::Narrow && !widens.is_empty() {
            return Err(PermissionTooWide { widenings: widens, has: self.summary() });
        }
        let ineffective = self.ineffective(requested);
        let level = requested.level.or(self.level);
        let caps = requested.level.filter(|level| rank(Some(*level)) <= rank(self.level));
        let mut allow = match caps {
            // Beyond its level, the upper layer allows only what it names.
            Some(level) if level != Level::Yolo => {
                let named = |rule: &&Rule| requested.allow.iter().any(|wide| covers(wide, rule));
                self.allow.iter().filter(named).cloned().collect()
            }
            Some(_) | None => self.allow.clone(),
        };
        add(&mut allow, &requested.allow);
        let is_not_covered = |rule: &&Rule| match authority {
            Authority::Narrow => true,
            Authority::Widen => !requested.allow.iter().any(|wide| covers(wide, rule)),
        };
        let is_capped = |rule: &&Rule| {
            let named = requested.allow.iter().chain(&requested.ask).any(|other| overlaps(other, rule));
            !named && caps.is_some_and(|level| is_beyond(level, rule.kind()))
        };
        let (capped, remaining): (Vec<&Rule>, Vec<&Rule>) =
            self.ask.iter().filter(is_not_covered).partition(is_capped);
        let mut ask: Vec<Rule> = remaining.into_iter().cloned().collect();
        add(&mut ask, &requested.ask);
        let mut deny = self.deny.clone();
        if authority == Authority::Narrow {
            // Without the question, the level would allow the commands that only read.
            let commands = capped.into_iter().filter(|rule| rule.kind() == ToolKind::Shell);
            add(&mut deny, &commands.cloned().collect::<Vec<_>>());
        }
        add(&mut deny, &requested.deny);
        Ok(Overlaid { permission: Self { level, allow, ask, deny }, widens, ineffective })
    }

    /// Describes what a layer would allow beyond this permission.
    fn widened_by(&self, requested: &Self) -> Vec<String> {
        let level = requested.level.filter(|level| rank(Some(*level)) > rank(self.level));
        let level = level.map(|level| format!("the level {}", level.as_str()));
        let raised = level.is_some() && requested.level == Some(Level::Yolo);
        let allow = requested.allow.iter().filter(|rule| !raised && !self.surely_allows(rule));
        // Asking about something that is denied also allows more.
        let ask = requested.ask.iter().filter(|rule| !raised && !self.surely_asks(rule));
        let allow = allow.map(|rule| format!("the rule allow {rule}"));
        level.into_iter().chain(allow).chain(ask.map(|rule| format!("the rule ask {rule}"))).collect()
    }

    /// Returns whether everything that a rule allows is already allowed, as far as the rules show.
    fn surely_allows(&self, rule: &Rule) -> bool {
        if self.ask.iter().any(|asks| covers(rule, asks) || covers(asks, rule)) {
            return false;
        }
        let by_level = self.level_extent(rule.kind()) == Extent::Everything;
        by_level || self.allow.iter().any(|wide| covers(wide, rule))
    }

    /// Returns whether the level denies nothing that a rule matches.
    pub(super) fn surely_asks(&self, rule: &Rule) -> bool {
        let by_level = matches!(self.level, None | Some(Level::Yolo));
        let by_kind = self.level_extent(rule.kind()) == Extent::Everything;
        // With a pattern, an ask rule matches more uses than an allow rule: it also matches compound commands.
        // So does one with a star in the name of a server.
        let is_whole = |wide: &Rule| wide.pattern().is_none() && !wide.has_server_glob();
        let by_allow = self.allow.iter().any(|wide| is_whole(wide) && covers(wide, rule));
        // A question about every tool is not about variables.
        let is_tool = rule.kind() != ToolKind::Env;
        let by_ask = |wide: &Rule| covers(wide, rule) && (is_tool || wide.kind() != ToolKind::Everything);
        by_level || by_kind || by_allow || self.ask.iter().any(by_ask)
    }

    fn ineffective(&self, requested: &Self) -> Vec<String> {
        let denies: Vec<&Rule> = self.deny.iter().chain(&requested.deny).collect();
        let lists = [("allow", &requested.allow), ("ask", &requested.ask)];
        let rules = lists.into_iter().flat_map(|(word, rules)| rules.iter().map(move |rule| (word, rule)));
        rules
            .filter_map(|(word, rule)| {
                let wins = denies.iter().find(|deny| covers(deny, rule))?;
                Some(format!("the rule {word} {rule} has no effect: the rule deny {wins} wins"))
            })
            .collect()
    }

    /// Describes the permission of an agent in a line: its level and rules.
    pub fn summary(&self) -> String {
        match self.level {
            Some(_) => self.layer_summary(),
            None => {
                format!("safe-edit by default; {}", self.layer_summary()).trim_end_matches("; ").to_owned()
            }
        }
    }

    /// Describes a layer in a line. Each rule is in quotes, because one with a blank must not look like two.
    pub fn layer_summary(&self) -> String {
        let level = self.level.map(|level| level.as_str().to_owned());
        let lists = [("allow", &self.allow), ("ask", &self.ask), ("deny", &self.deny)];
        let rules = lists.into_iter().filter(|(_, rules)| !rules.is_empty()).map(|(word, rules)| {
            let rules: Vec<String> = rules.iter().map(|rule| format!("{:?}", rule.spelling())).collect();
            format!("{word} {}", rules.join(" "))
        });
        level.into_iter().chain(rules).collect::<Vec<_>>().join("; ")
    }
}

/// Orders levels by how much they allow. Without a level, Volery asks about everything that safe-edit denies.
pub(super) fn rank(level: Option<Level>) -> u8 {
    match level {
        Some(Level::ReadOnly) => 0,
        Some(Level::SafeEdit) => 1,
        None => 2,
        Some(Level::Yolo) => 3,
    }
}

/// Returns whether a level allows no whole tool of a kind.
pub(super) fn is_beyond(level: Level, kind: ToolKind<'_>) -> bool {
    // A rule about everything is also about reading.
    kind != ToolKind::Everything && level.extent(kind) == Extent::Nothing
}

pub(super) fn add(rules: &mut Vec<Rule>, more: &[Rule]) {
    for rule in more {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
}

/// Returns whether two rules may match the same use. In doubt they do.
pub(super) fn overlaps(one: &Rule, two: &Rule) -> bool {
    let both_servers = matches!((one.kind(), two.kind()), (ToolKind::Mcp { .. }, ToolKind::Mcp { .. }));
    let has_glob = one.has_server_glob() || two.has_server_glob();
    covers_tool(one, two) || covers_tool(two, one) || (both_servers && has_glob)
}

/// Returns whether a rule covers every tool of another one.
fn covers_tool(wide: &Rule, narrow: &Rule) -> bool {
    match (wide.kind(), narrow.kind()) {
        (ToolKind::Everything, _) => true,
        (ToolKind::Mcp { server, tool: None }, ToolKind::Mcp { server: other, .. }) => server == other,
        (ToolKind::Other(_), ToolKind::Other(_)) => wide.tool().eq_ignore_ascii_case(narrow.tool()),
        (wide, narrow) => wide == narrow,
    }
}

/// Returns whether the wide rule matches every use that the narrow rule matches. In doubt it does not.
pub(super) fn covers(wide: &Rule, narrow: &Rule) -> bool {
    if !covers_tool(wide, narrow) {
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

    use super::super::generators::{effect, level, permission, permissions, uses};
    use super::*;
    use crate::policy::Effect;

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
    fn a_layer_that_may_not_widen_is_refused_with_the_rule() {
        let agent = permission(Some(Level::SafeEdit), &["Bash(git log:*)"], &[], &[]);
        let wide = permission(Some(Level::Yolo), &["Bash(git:*)"], &[], &[]);
        let refused = agent.overlaid(&wide, Authority::Narrow).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the level yolo would allow more than its own permission (safe-edit; allow \"Bash(git log:*)\")"
        );
        let rules = permission(None, &["Bash(git:*)", "mcp__x"], &[], &[]);
        let refused = agent.overlaid(&rules, Authority::Narrow).unwrap_err();
        assert_eq!(refused.widenings, ["the rule allow Bash(git:*)", "the rule allow mcp__x"]);
        // Without a level Volery asks about the rest, which is more than denying it and less than allowing it.
        let usual = Permission::default();
        assert!(usual.overlaid(&level(Level::SafeEdit), Authority::Narrow).is_ok());
        assert!(usual.overlaid(&level(Level::Yolo), Authority::Narrow).is_err());
        // A caller cannot allow what an agent asks about.
        let asks = permission(Some(Level::Yolo), &[], &["Bash"], &[]);
        let allows = permission(None, &["Bash"], &[], &[]);
        assert!(asks.overlaid(&allows, Authority::Narrow).is_err());
    }

    #[test]
    fn a_widening_layer_reports_what_it_allows_and_denials_remain() {
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
        fn a_layer_without_authority_never_allows_more(agent in permissions(), requested in permissions()) {
            if let Ok(Overlaid { permission, .. }) = agent.overlaid(&requested, Authority::Narrow) {
                for of in uses() {
                    prop_assert!(effect(&permission, &of) >= effect(&agent, &of), "{of:?}: {permission:?}");
                }
            }
        }

        #[test]
        fn a_denial_of_a_layer_holds(agent in permissions(), requested in permissions()) {
            let denies = Permission { deny: requested.deny.clone(), ..level(Level::Yolo) };
            let overlaid = agent.overlaid(&requested, Authority::Widen).unwrap();
            for of in uses() {
                prop_assert!(effect(&overlaid.permission, &of) >= effect(&denies, &of), "{of:?}");
            }
        }

        #[test]
        fn a_level_that_is_lower_holds(agent in permissions(), named in 0..2_usize) {
            let named = [Level::ReadOnly, Level::SafeEdit][named];
            let agent = Permission { level: agent.level.filter(|own| *own >= named), ..agent };
            let overlaid = agent.overlaid(&level(named), Authority::Widen).unwrap();
            for of in uses() {
                // An ask rule of the agent may still ask.
                let beyond = effect(&level(named), &of) == Effect::Deny;
                let got = &overlaid.permission;
                prop_assert!(!beyond || effect(got, &of) > Effect::Allow, "{of:?}: {got:?}");
            }
        }
    }
}
