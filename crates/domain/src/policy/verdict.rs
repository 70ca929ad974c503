//! The result of a decision: its effect, and the rule or level that it rests on.

use crate::permission::{Level, Rule, RuleOrigin};

/// What happens to a use. The order is that of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    Allow,
    /// A person decides.
    Ask,
    Deny,
}

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// What a verdict rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    Rule(Rule),
    Level(Level),
    /// The user's own rules in the agent's program, which allowed nothing, and the level.
    UserRules(Level),
    /// Without a level, a person decides about everything that no rule matches.
    NoRule,
}

/// The decision about one use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub effect: Effect,
    pub basis: Basis,
    /// Who set the rule or the level.
    pub set_by: Option<String>,
}

impl Verdict {
    /// Returns where the rule is written, if a rule decides and its place is known.
    pub fn origin(&self) -> Option<&RuleOrigin> {
        match &self.basis {
            Basis::Rule(rule) => rule.origin(),
            Basis::Level(_) | Basis::UserRules(_) | Basis::NoRule => None,
        }
    }

    /// Returns the rule or the level in words.
    pub fn reason(&self) -> String {
        match (&self.basis, self.effect) {
            (Basis::Rule(rule), effect) => format!("the rule {} {rule}", effect.as_str()),
            (Basis::Level(level), Effect::Allow) => format!("the level {}", level.as_str()),
            (Basis::Level(level), Effect::Ask | Effect::Deny) => {
                format!("the level {} does not allow it", level.as_str())
            }
            // The user's rules may well allow it: in this mode the program does not always follow them.
            (Basis::UserRules(Level::ReadOnly), _) => {
                "the level read-only is the program's read-only mode (plan mode in Claude Code), which does not \
                 allow it"
                    .to_owned()
            }
            (Basis::UserRules(level), _) => {
                format!("neither the level {} nor the user's own rules allow it", level.as_str())
            }
            (Basis::NoRule, _) => "no rule allows or denies it".to_owned(),
        }
    }

    /// Returns the reason with who set it, and where.
    pub fn explanation(&self) -> String {
        let reason = self.reason();
        match (self.origin(), &self.set_by) {
            (Some(RuleOrigin::BuiltIn), _) => format!("{reason}, set by Volery"),
            (Some(origin @ RuleOrigin::File { .. }), Some(by)) => format!("{reason}, set by {by} ({origin})"),
            (Some(origin @ RuleOrigin::File { .. }), None) => format!("{reason} ({origin})"),
            (None, Some(by)) => format!("{reason}, set by {by}"),
            (None, None) => reason,
        }
    }
}
