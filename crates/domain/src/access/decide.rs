//! The rules of a run, compiled, and the decision about a use.

use super::path_pattern::below;
use super::rule::{AccessKind, CompiledRule};
use super::verdict::{AccessBasis, AccessVerdict, AllowedUses, BuiltInDenial, shorten};
use super::{AccessEffect, AccessLayer, fixes_arguments};
use crate::policy::{Directory, ExecCommand, Use, UsePath, is_in_git_dir};
use crate::shell_script;

/// The longest name or command in an explanation.
const ACTION_CHARS_MAX: usize = 200;

/// The rules of a run. Compiling them takes longer than a decision.
#[derive(Debug, Clone)]
pub struct Access {
    layers: Vec<CompiledLayer>,
    directory: Directory,
    protected: Vec<String>,
}

#[derive(Debug, Clone)]
struct CompiledLayer {
    name: String,
    rules: Vec<CompiledRule>,
}

/// The decision of one layer.
struct LayerDecision<'a> {
    effect: AccessEffect,
    rule: Option<&'a CompiledRule>,
}

impl AccessLayer {
    /// Returns whether some use of a kind could be allowed, or approved by a person.
    pub fn may_allow(&self, kind: AccessKind) -> bool {
        CompiledLayer::new(self, &Directory::default()).may_allow(kind)
    }
}

impl Access {
    /// Compiles the rules of a run in a directory. Nothing below the protected directories, which are absolute paths
    /// without symbolic links, may be read or written.
    pub fn new(layers: &[AccessLayer], directory: Directory, protected: Vec<String>) -> Self {
        let layers = layers.iter().map(|layer| CompiledLayer::new(layer, &directory)).collect();
        Self { layers, directory, protected }
    }

    /// Decides about a use.
    ///
    /// That a directory may be listed or searched does not mean that everything in it may be shown: the caller also
    /// decides about each name that it shows, as a use of its own.
    pub fn decide(&self, of: &Use) -> AccessVerdict {
        let kind = AccessKind::of_use(of);
        if let Some(denial) = self.built_in_denial(of) {
            let allowed = self.allowed(kind, None);
            return verdict(of, AccessEffect::Deny, AccessBasis::BuiltIn(denial), allowed);
        }
        let decisions: Vec<LayerDecision<'_>> =
            self.layers.iter().map(|layer| layer.decide(of, &self.directory)).collect();
        // A rule says more than its absence, and of several rules the first one counts.
        let strictest = decisions
            .iter()
            .enumerate()
            .max_by_key(|(at, decision)| (decision.effect, decision.rule.is_some(), std::cmp::Reverse(*at)));
        let Some((at, decision)) = strictest else {
            return verdict(of, AccessEffect::Deny, AccessBasis::NoLayer, AllowedUses::default());
        };
        let layer = self.layers[at].name.clone();
        let basis = match decision.rule {
            Some(compiled) => AccessBasis::Rule { rule: compiled.rule.clone(), layer },
            None => AccessBasis::NoRule { layer },
        };
        match decision.effect {
            AccessEffect::Deny => {
                verdict(of, AccessEffect::Deny, basis, self.allowed(kind, Some(&self.layers[at])))
            }
            // A command that one layer determines completely is determined.
            effect @ (AccessEffect::Allow | AccessEffect::NeedsApproval) => AccessVerdict {
                fixes_arguments: decisions
                    .iter()
                    .filter_map(|decision| decision.rule)
                    .any(|compiled| fixes_arguments(&compiled.rule)),
                ..verdict(of, effect, basis, AllowedUses::default())
            },
        }
    }

    fn built_in_denial(&self, of: &Use) -> Option<BuiltInDenial> {
        match of {
            Use::Read(path) | Use::List(path) | Use::Search(path) => self.denial_of_path(path),
            Use::Write(path) => self.denial_of_path(path).or_else(|| denial_of_write(path)),
            Use::Exec(ExecCommand::Line(_)) => Some(BuiltInDenial::CommandLine),
            Use::Exec(ExecCommand::Unknown) => Some(BuiltInDenial::UnreadableCommand),
            Use::Exec(ExecCommand::Argv(words)) => {
                let is_readable = words.first().is_some_and(|program| !program.is_empty())
                    && words.iter().all(|word| !word.contains('\0'));
                (!is_readable).then_some(BuiltInDenial::UnreadableCommand)
            }
            Use::Reach(_)
            | Use::WebSearch
            | Use::Mcp { .. }
            | Use::Delegate(_)
            | Use::Env(_)
            | Use::Other(_) => None,
        }
    }

    fn denial_of_path(&self, path: &UsePath) -> Option<BuiltInDenial> {
        let resolved = path.target.as_deref().filter(|target| is_resolved(target));
        let Some(target) = resolved else { return Some(BuiltInDenial::UnresolvedPath) };
        let is_protected = self.protected.iter().any(|directory| below(target, directory).is_some());
        is_protected.then_some(BuiltInDenial::ProtectedDirectory)
    }

    /// Returns what may be done instead: nothing, if a layer allows no use of this kind; else what the layer allows that
    /// decides, or the one with the fewest rules.
    fn allowed(&self, kind: AccessKind, deciding: Option<&CompiledLayer>) -> AllowedUses {
        if !self.layers.iter().all(|layer| layer.may_allow(kind)) {
            return AllowedUses::default();
        }
        let layers = self.layers.iter();
        let patterns = match deciding {
            Some(layer) => Some(layer.allowed(kind)),
            None => layers.map(|layer| layer.allowed(kind)).min_by_key(Vec::len),
        };
        AllowedUses::new(patterns.unwrap_or_default())
    }
}

impl CompiledLayer {
    fn new(layer: &AccessLayer, directory: &Directory) -> Self {
        let rules = layer.rules.iter().map(|rule| CompiledRule::new(rule, directory)).collect();
        Self { name: layer.name.clone(), rules }
    }

    fn decide(&self, of: &Use, directory: &Directory) -> LayerDecision<'_> {
        let with_effect = |effect| self.rules.iter().filter(move |compiled| compiled.rule.effect == effect);
        if let Some(denial) =
            with_effect(AccessEffect::Deny).find(|compiled| compiled.restricts(of, directory))
        {
            return LayerDecision { effect: AccessEffect::Deny, rule: Some(denial) };
        }
        let covering: Vec<&CompiledRule> =
            with_effect(AccessEffect::Allow).filter(|compiled| compiled.covers(of, directory)).collect();
        // A rule that asks restricts what is allowed, and permits what is not.
        let question = with_effect(AccessEffect::NeedsApproval).find(|compiled| {
            compiled.covers(of, directory) || (!covering.is_empty() && compiled.restricts(of, directory))
        });
        if let Some(question) = question {
            return LayerDecision { effect: AccessEffect::NeedsApproval, rule: Some(question) };
        }
        let narrowest = covering.iter().find(|compiled| fixes_arguments(&compiled.rule));
        match narrowest.or(covering.first()) {
            Some(allowing) => LayerDecision { effect: AccessEffect::Allow, rule: Some(allowing) },
            None => LayerDecision { effect: AccessEffect::Deny, rule: None },
        }
    }

    fn may_allow(&self, kind: AccessKind) -> bool {
        let (denials, others): (Vec<&CompiledRule>, Vec<&CompiledRule>) =
            self.rules.iter().partition(|compiled| compiled.rule.effect == AccessEffect::Deny);
        others.iter().any(|compiled| compiled.may_cover(kind))
            && !denials.iter().any(|compiled| compiled.is_about(kind) && compiled.is_total())
    }

    /// Returns the patterns of the rules that allow uses of a kind.
    fn allowed(&self, kind: AccessKind) -> Vec<String> {
        let allowing = self
            .rules
            .iter()
            .filter(|compiled| compiled.rule.effect != AccessEffect::Deny && compiled.may_cover(kind));
        allowing.map(|compiled| compiled.rule.subject.pattern()).collect()
    }
}

fn verdict(of: &Use, effect: AccessEffect, basis: AccessBasis, allowed: AllowedUses) -> AccessVerdict {
    AccessVerdict { effect, action: action(of), basis, allowed, fixes_arguments: false }
}

/// Returns whether a path is absolute and has only plain names. Another one was not resolved on disk.
fn is_resolved(target: &str) -> bool {
    let Some(names) = target.strip_prefix('/') else { return false };
    !target.contains('\0')
        && (names.is_empty() || names.split('/').all(|name| !matches!(name, "" | "." | "..")))
}

fn denial_of_write(path: &UsePath) -> Option<BuiltInDenial> {
    // A `.git` that is a link has another target, but git finds it by its name.
    let texts = || path.name.iter().chain(&path.target);
    if texts().any(|text| is_in_git_dir(text)) {
        return Some(BuiltInDenial::GitDirectory);
    }
    let is_in_volery = |text: &String| text.split('/').any(|name| name.eq_ignore_ascii_case(".volery"));
    texts().any(is_in_volery).then_some(BuiltInDenial::VoleryDirectory)
}

/// Returns a use in words.
fn action(of: &Use) -> String {
    let path = |verb: &str, path: &UsePath| {
        format!(
            "{verb} {}",
            path.name.as_ref().or(path.target.as_ref()).map_or("an unknown file", |name| name)
        )
    };
    let text = match of {
        Use::Read(file) => path("reading", file),
        Use::List(file) => path("listing", file),
        Use::Search(file) => path("searching", file),
        Use::Write(file) => path("writing", file),
        Use::Exec(ExecCommand::Line(line)) => format!("running the line {line}"),
        Use::Exec(ExecCommand::Argv(words)) => {
            let words: Vec<String> = words.iter().map(|word| shell_script::quote(word)).collect();
            format!("running {}", words.join(" "))
        }
        Use::Exec(ExecCommand::Unknown) => "running an unknown command".to_owned(),
        Use::Reach(host) => format!("a request to {}", host.as_deref().unwrap_or("an unknown host")),
        Use::WebSearch => "a search of the web".to_owned(),
        Use::Mcp { server, tool } => format!("the MCP tool {server}.{}", tool.as_deref().unwrap_or("*")),
        Use::Delegate(agent) => format!("running {}", agent.as_deref().unwrap_or("an unknown agent")),
        Use::Env(name) => format!("the environment variable {name}"),
        Use::Other(name) => format!("the tool {name}"),
    };
    shorten(&text, ACTION_CHARS_MAX)
}
