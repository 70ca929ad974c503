//! A policy: a chain of layers, of which the strictest verdict wins. A child run's policy is its parent's layers and
//! its own, so it never allows more.

use super::Grant;
use super::command_forms::changes_shell;
use super::levels::Extent;
use super::matching::{Directory, is_covered_by, is_in_directory, is_restricted_by};
use super::read_only_commands::{LineCommand, argv_only_reads, line_only_reads, parse_line};
use super::uses::{ExecCommand, Use};
use super::verdict::{Basis, Effect, Verdict};
use crate::permission::{Level, Permission, Rule};

/// Who set what no grant mentions.
const DEFINITION: &str = "the agent's definition";

/// A chain of layers, for an agent that works in one directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    layers: Vec<Layer>,
    pub(super) directory: Directory,
}

/// One permission of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    pub permission: Permission,
    /// What configurations and callers contributed to the permission, the latest last.
    pub grants: Vec<Grant>,
    /// Who set the rest of it.
    pub set_by: Option<String>,
    /// The agent's program asks only about uses that neither the mode of the level nor its user's own rules allow: in
    /// addition to those, only rules and yolo allow anything.
    pub after_user_rules: bool,
}

impl From<&Permission> for Policy {
    /// A policy of one layer, for questions that no directory is needed for.
    fn from(permission: &Permission) -> Self {
        let layer = Layer { permission: permission.clone(), ..Layer::default() };
        Self { layers: vec![layer], directory: Directory::default() }
    }
}

impl Policy {
    /// A policy without a layer allows everything.
    pub fn in_directory(directory: Directory) -> Self {
        Self { layers: Vec::new(), directory }
    }

    /// Adds a layer, such as the own permission of a child run. It never allows what the other layers do not.
    #[must_use]
    pub fn with_layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Adds rules that allow something to the last layer.
    #[must_use]
    pub fn with_allowed(mut self, rules: &[Rule]) -> Self {
        if let Some(last) = self.layers.last_mut() {
            last.permission.allow.extend_from_slice(rules);
        }
        self
    }

    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Decides about a use. Of equally strict layers, the last one is named.
    pub fn decide(&self, of: &Use) -> Verdict {
        let verdicts = self.layers.iter().map(|layer| layer.decide(of, &self.directory));
        verdicts.max_by_key(|verdict| verdict.effect).unwrap_or(Verdict {
            effect: Effect::Allow,
            basis: Basis::NoRule,
            set_by: None,
        })
    }
}

impl Layer {
    /// The own permission of an agent, with the grants that it consists of.
    pub fn for_agent(permission: Permission, grants: Vec<Grant>) -> Self {
        Self { permission, grants, set_by: Some(DEFINITION.to_owned()), after_user_rules: false }
    }

    fn decide(&self, of: &Use, directory: &Directory) -> Verdict {
        let (effect, basis) = self.effect_and_basis(of, directory);
        let set_by = self.setter(effect, &basis);
        Verdict { effect, basis, set_by }
    }

    fn effect_and_basis(&self, of: &Use, directory: &Directory) -> (Effect, Basis) {
        let Permission { level, ask, deny, allow: _ } = &self.permission;
        let restricting = |rules: &[Rule]| -> Option<Basis> {
            rules.iter().find(|rule| is_restricted_by(rule, of, directory)).cloned().map(Basis::Rule)
        };
        if let Some(basis) = restricting(deny) {
            return (Effect::Deny, basis);
        }
        if let Some(basis) = restricting(ask) {
            return (Effect::Ask, basis);
        }
        if let Some(rule) = self.covering_rule(of, directory) {
            return (Effect::Allow, Basis::Rule(rule.clone()));
        }
        let is_allowed = match level.unwrap_or(Level::SafeEdit).extent(of.kind()) {
            Extent::Everything => true,
            Extent::Directory => is_in_directory(of, directory),
            Extent::Nothing => self.is_reading_command(of),
        };
        match (level, is_allowed) {
            (Some(Level::Yolo), _) => (Effect::Allow, Basis::Level(Level::Yolo)),
            (Some(level), _) if self.after_user_rules => (Effect::Deny, Basis::UserRules(*level)),
            (None, _) if self.after_user_rules => (Effect::Ask, Basis::NoRule),
            (level, true) => (Effect::Allow, Basis::Level(level.unwrap_or(Level::SafeEdit))),
            (Some(level), false) => (Effect::Deny, Basis::Level(*level)),
            (None, false) => (Effect::Ask, Basis::NoRule),
        }
    }

    /// Returns a rule that allows a use. In a compound line, different rules may allow the commands, and a command that
    /// only reads needs no rule.
    fn covering_rule(&self, of: &Use, directory: &Directory) -> Option<&Rule> {
        let find = |of: &Use| self.permission.allow.iter().find(|rule| is_covered_by(rule, of, directory));
        let compound_rule = || {
            let Use::Exec(ExecCommand::Line(line)) = of else { return None };
            let commands = parse_line(line).filter(|commands| commands.len() > 1)?;
            let mut found = None;
            for LineCommand { words, reads_pipe } in commands {
                // `cd` or `export` can change the effect of the later commands in the line.
                if changes_shell(&words) {
                    return None;
                }
                let command = Use::Exec(ExecCommand::Argv(words));
                match find(&command) {
                    // A rule for a program does not cover its input from a pipe, because the input can be a script.
                    Some(rule) if !reads_pipe => found = found.or(Some(rule)),
                    Some(_) | None if self.is_reading_command(&command) => {}
                    Some(_) | None => return None,
                }
            }
            found
        };
        find(of).or_else(compound_rule)
    }

    /// Returns whether a use is a command that only reads, and nothing restricts reading.
    fn is_reading_command(&self, of: &Use) -> bool {
        let only_reads = match of {
            Use::Exec(ExecCommand::Line(line)) => line_only_reads(line),
            Use::Exec(ExecCommand::Argv(words)) => argv_only_reads(words),
            _ => false,
        };
        only_reads && self.permission.allows_reading_commands()
    }

    /// Returns who set a rule or a level of this layer.
    fn setter(&self, effect: Effect, basis: &Basis) -> Option<String> {
        let sets = |permission: &Permission| match basis {
            Basis::Rule(rule) => match effect {
                Effect::Allow => permission.allow.contains(rule),
                Effect::Ask => permission.ask.contains(rule),
                Effect::Deny => permission.deny.contains(rule),
            },
            Basis::Level(level) => permission.level == Some(*level),
            Basis::UserRules(_) | Basis::NoRule => false,
        };
        let granted = self.grants.iter().rev().find(|grant| sets(&grant.requested));
        let own = || self.set_by.clone().filter(|_| sets(&self.permission));
        granted.map(|grant| grant.by.clone()).or_else(own)
    }
}
