//! Narrows a permission to another one, such as a child run's to its parent's: the result does not allow anything
//! that one of them denies or asks about. Vendors read one level and three lists, so the result is one permission and
//! not a chain of two. If it cannot express the intersection exactly, it allows less.

use super::levels::Extent;
use super::matching::{is_in_git_dir, strip_directory};
use super::overlay::{add, covers, is_beyond, overlaps, rank};
use crate::permission::{Level, Permission, Rule, ToolKind};

/// The pattern for every file in the directory.
const EVERY_FILE: &str = "**";

/// The result of narrowing a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowed {
    pub permission: Permission,
    /// Descriptions of what the permission has lost; empty if nothing.
    pub lost: Vec<String>,
}

impl Permission {
    /// Returns the intersection of this permission and the ceiling. The result is never weaker than the ceiling, and
    /// allows nothing that this permission does not allow.
    pub fn narrowed_to(&self, ceiling: &Self) -> Narrowed {
        let (own, ceiling) = (self.with_plain_level(), ceiling.with_plain_level());
        let level = if rank(ceiling.level) < rank(own.level) { ceiling.level } else { own.level };
        let mut deny = own.deny.clone();
        add(&mut deny, &ceiling.deny);
        let from_own = own.allow.iter().filter_map(|rule| ceiling.allowed_part(rule));
        let from_ceiling = ceiling.allow.iter().filter_map(|rule| own.allowed_part(rule));
        let mut allow = Vec::new();
        add(&mut allow, &from_own.chain(from_ceiling).collect::<Vec<_>>());
        let mut ask = Vec::new();
        for (rules, other) in [(&own.ask, &ceiling), (&ceiling.ask, &own)] {
            for rule in rules {
                let edits = rule.kind() == ToolKind::Edit && other.level == Some(Level::SafeEdit);
                // Within one file, an `ask` rule about edits in a folder also beats the level's denial elsewhere.
                // Only the ceiling may ask there: a child that asks where its parent is denied would be weaker.
                if other.surely_asks(rule) || (edits && std::ptr::eq(other, &own)) {
                    add(&mut ask, std::slice::from_ref(rule));
                } else if !level.is_some_and(|level| is_denied_at(level, rule.kind()))
                    || allow.iter().any(|allowed| overlaps(allowed, rule))
                {
                    // One side asks and the other one may deny: without this rule it might be allowed.
                    add(&mut deny, std::slice::from_ref(rule));
                }
            }
        }
        let permission = Self { level, allow, ask, deny };
        let lost = self.describe_losses(&permission);
        match lost.is_empty() {
            // The original spelling, including rules without effect.
            true => Narrowed { permission: self.clone(), lost },
            false => Narrowed { permission, lost },
        }
    }

    /// Returns the permission of a run in one directory as it applies to a run in another. Path patterns become
    /// absolute. The level does not allow edits outside of its own directory.
    pub fn relocated(&self, from: &str, inside: &[&str], to: &str) -> Self {
        if from == to {
            return self.clone();
        }
        let is_inside =
            std::iter::once(&from).chain(inside).any(|directory| is_directory_inside(to, directory));
        // A rule that asks or denies also applies to every path outside of the directory.
        let same = |rule: &Rule| if is_inside { with_absolute_path(rule, from) } else { pathless(rule) };
        let strict = |rules: &[Rule]| -> Vec<Rule> {
            rules.iter().map(|rule| same(rule).unwrap_or_else(|| without_pattern(rule))).collect()
        };
        let allow = self.allow.iter().filter_map(|rule| with_absolute_path(rule, from)).collect();
        // Outside of the directory the level denies edits, so an `ask` rule about a path would allow more than
        // before.
        let denies = matches!(self.level, Some(Level::ReadOnly | Level::SafeEdit));
        // Without its pattern, a rule that asks about everything would allow what the level denies.
        let would_allow = |rule: &Rule| {
            has_ambiguous_pattern(rule)
                || (denies && rule.kind() == ToolKind::Edit && rule.pattern().is_some())
        };
        let (denied, asked): (Vec<Rule>, Vec<Rule>) = self.ask.iter().cloned().partition(would_allow);
        let (mut ask, mut deny) = (strict(&asked), strict(&self.deny));
        add(&mut deny, &strict(&denied));
        let level = match self.level {
            Some(Level::SafeEdit) if !is_inside => Some(Level::ReadOnly),
            None if !is_inside => {
                let edits = "Edit".parse().expect("a rule");
                add(&mut ask, std::slice::from_ref(&edits));
                None
            }
            Some(Level::ReadOnly | Level::SafeEdit | Level::Yolo) | None => self.level,
        };
        Self { level, allow, ask, deny }
    }

    /// A rule that allows everything is equivalent to the level yolo.
    fn with_plain_level(&self) -> Self {
        let everything = |rule: &Rule| rule.kind() == ToolKind::Everything && rule.pattern().is_none();
        let level = if self.allow.iter().any(everything) { Some(Level::Yolo) } else { self.level };
        Self { level, ..self.clone() }
    }

    /// Returns the part of an allow rule that this permission also allows, before its own ask and deny rules.
    fn allowed_part(&self, rule: &Rule) -> Option<Rule> {
        let extent = self.level_extent(rule.kind());
        if extent == Extent::Everything || self.allow.iter().any(|wide| covers(wide, rule)) {
            return Some(rule.clone());
        }
        let edits_here = extent == Extent::Directory;
        match rule.pattern() {
            Some(pattern) => (edits_here && !is_in_git_dir(pattern)).then(|| rule.clone()),
            None => edits_here.then(|| Rule::with_pattern(rule.tool(), EVERY_FILE).ok()).flatten(),
        }
    }

    /// Describes what a narrower permission lacks or denies in comparison with this one.
    fn describe_losses(&self, narrow: &Self) -> Vec<String> {
        let name = |level: Option<Level>| level.map_or("safe-edit and questions", Level::as_str);
        let level = (rank(narrow.level) < rank(self.with_plain_level().level))
            .then(|| format!("the level {} becomes {}", name(self.level), name(narrow.level)));
        let gone = |word: &str, own: &[Rule], left: &[Rule]| -> Vec<String> {
            // A rule about everything without a pattern is a level, which is compared above.
            let is_level = |rule: &Rule| rule.kind() == ToolKind::Everything && rule.pattern().is_none();
            let gone = own.iter().filter(|rule| !left.contains(rule) && !is_level(rule));
            gone.map(|rule| format!("the rule {word} {rule} does not count")).collect()
        };
        let added = |word: &str, own: &[Rule], left: &[Rule]| -> Vec<String> {
            let added = left.iter().filter(|rule| !own.contains(rule));
            added.map(|rule| format!("the rule {word} {rule} is added")).collect()
        };
        let lists = [
            gone("allow", &self.allow, &narrow.allow),
            gone("ask", &self.ask, &narrow.ask),
            added("ask", &self.ask, &narrow.ask),
            added("deny", &self.deny, &narrow.deny),
        ];
        level.into_iter().chain(lists.into_iter().flatten()).collect()
    }
}

/// Makes the path pattern of a rule independent of the directory; `None` if the directory's name would be read as a
/// pattern.
fn with_absolute_path(rule: &Rule, directory: &str) -> Option<Rule> {
    match rule.pattern() {
        Some(_) if has_ambiguous_pattern(rule) => None,
        Some(pattern) if has_path_kind(rule) && !pattern.starts_with(['/', '~']) => {
            let plain = !directory.contains(['*', '?', '[', ']', '{', '}', '(', ')', '!', '\\']);
            let pattern =
                format!("/{}/{}", directory.trim_end_matches('/'), pattern.trim_start_matches("./"));
            let absolute = plain.then(|| Rule::with_pattern(rule.tool(), &pattern).ok()).flatten();
            absolute.map(|absolute| absolute.with_origin(rule.origin().cloned()))
        }
        Some(_) | None => Some(rule.clone()),
    }
}

/// Returns whether a level denies every use of a tool. Every level allows the commands that only read.
fn is_denied_at(level: Level, kind: ToolKind<'_>) -> bool {
    kind != ToolKind::Shell && is_beyond(level, kind)
}

/// Returns the rule if it has no path pattern.
fn pathless(rule: &Rule) -> Option<Rule> {
    (rule.pattern().is_none() || !(has_path_kind(rule) || has_ambiguous_pattern(rule))).then(|| rule.clone())
}

/// Returns whether the pattern of a rule applies to paths, commands and hosts alike, so that it has no absolute form.
fn has_ambiguous_pattern(rule: &Rule) -> bool {
    rule.kind() == ToolKind::Everything && rule.pattern().is_some()
}

fn has_path_kind(rule: &Rule) -> bool {
    matches!(rule.kind(), ToolKind::Read | ToolKind::Edit | ToolKind::Search)
}

/// Returns the rule without its pattern.
fn without_pattern(rule: &Rule) -> Rule {
    let whole: Rule = rule.tool().parse().expect("the tool of a rule is a rule");
    whole.with_origin(rule.origin().cloned())
}

/// Returns whether a directory is another one or inside it, outside of any `.git` directory.
fn is_directory_inside(directory: &str, outer: &str) -> bool {
    directory == outer || strip_directory(directory, outer).is_some_and(|rest| !is_in_git_dir(rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::generators::{effect, effect_in, level, permission, permissions, uses};
    use super::*;
    use crate::policy::Effect;

    fn narrowed(own: &Permission, ceiling: &Permission) -> Permission {
        own.narrowed_to(ceiling).permission
    }

    #[test]
    fn a_permission_that_is_narrow_enough_stays_as_it_is() {
        let own = permission(Some(Level::SafeEdit), &["Bash(git log:*)"], &["WebFetch"], &["Edit(docs/**)"]);
        let yolo = level(Level::Yolo);
        let same = [yolo.clone(), own.clone(), permission(None, &["*"], &[], &[])];
        for ceiling in same {
            let narrowed = own.narrowed_to(&ceiling);
            assert_eq!((&narrowed.permission, narrowed.lost.len()), (&own, 0), "{ceiling:?}");
        }
        assert_eq!(narrowed(&Permission::default(), &yolo), Permission::default());
        // A level that allows edits in the directory covers a rule about a part of it.
        let writer = permission(Some(Level::ReadOnly), &["Edit(docs/**)"], &[], &[]);
        assert_eq!(narrowed(&writer, &level(Level::SafeEdit)), writer);
        assert_eq!(narrowed(&writer, &Permission::default()), writer);
        assert_eq!(narrowed(&writer, &level(Level::ReadOnly)), level(Level::ReadOnly));
    }

    #[test]
    fn losses_are_described() {
        let yolo = permission(Some(Level::Yolo), &[], &[], &["Bash(rm:*)"]);
        let careful = permission(Some(Level::SafeEdit), &["Bash(git:*)"], &["Edit(docs/**)"], &["WebFetch"]);
        let Narrowed { permission: narrow, lost } = yolo.narrowed_to(&careful);
        assert_eq!(
            narrow,
            permission(
                Some(Level::SafeEdit),
                &["Bash(git:*)"],
                &["Edit(docs/**)"],
                &["Bash(rm:*)", "WebFetch"]
            )
        );
        assert_eq!(
            lost,
            [
                "the level yolo becomes safe-edit",
                "the rule ask Edit(docs/**) is added",
                "the rule deny WebFetch is added"
            ]
        );
        let shell = permission(None, &["Bash(cargo test:*)", "WebFetch"], &[], &[]);
        let lost = shell.narrowed_to(&permission(None, &["WebFetch"], &[], &[])).lost;
        assert_eq!(lost, ["the rule allow Bash(cargo test:*) does not count"]);
        let wide = level(Level::Yolo).narrowed_to(&Permission::default());
        assert_eq!(wide.lost, ["the level yolo becomes safe-edit and questions"]);
    }

    #[test]
    fn a_rule_about_everything_with_a_pattern_is_lost_below_a_level_without_it() {
        for rule in ["*(*)", "all(**)", "*(git:*)"] {
            let own = permission(None, &[rule], &[], &[]);
            let Narrowed { permission: narrow, lost } = own.narrowed_to(&Permission::default());
            assert_eq!(
                (narrow, lost),
                (Permission::default(), vec![format!("the rule allow {rule} does not count")])
            );
        }
    }

    #[test]
    fn a_question_of_one_side_that_the_other_side_may_deny_is_a_denial() {
        let asks = permission(Some(Level::Yolo), &[], &["Bash(git push:*)"], &[]);
        let git = permission(Some(Level::SafeEdit), &["Bash(git:*)"], &[], &[]);
        let denies = permission(Some(Level::SafeEdit), &["Bash(git:*)"], &[], &["Bash(git push:*)"]);
        assert_eq!((narrowed(&git, &asks), narrowed(&asks, &git)), (denies.clone(), denies));
    }

    #[test]
    fn in_another_directory_patterns_mean_the_same_files() {
        let own = permission(Some(Level::SafeEdit), &["Edit(.git/**)"], &[], &["Edit(secret/**)", "Bash(x)"]);
        let inside = own.relocated("/work", &[], "/work/part");
        let expected = permission(
            Some(Level::SafeEdit),
            &["Edit(//work/.git/**)"],
            &[],
            &["Edit(//work/secret/**)", "Bash(x)"],
        );
        assert_eq!(inside, expected);
        assert_eq!(own.relocated("/work", &[], "/else").level, Some(Level::ReadOnly));
        assert_eq!(own.relocated("/work", &["/else"], "/else/part").level, Some(Level::SafeEdit));
        assert_eq!(own.relocated("/work", &[], "/work/.git").level, Some(Level::ReadOnly));
        assert_eq!(own.relocated("/work", &[], "/worker").level, Some(Level::ReadOnly));
        let default = Permission::default().relocated("/work", &[], "/else");
        assert_eq!(default, permission(None, &[], &["Edit"], &[]));
        // The name of a directory is not a pattern.
        let odd = own.relocated("/w*rk", &[], "/w*rk/part");
        assert_eq!(odd, permission(Some(Level::SafeEdit), &[], &[], &["Edit", "Bash(x)"]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_child_is_never_weaker_than_its_parent(own in permissions(), parent in permissions()) {
            let child = narrowed(&own, &parent);
            for of in uses() {
                let got = effect(&child, &of);
                prop_assert!(got >= effect(&parent, &of), "{of:?}: {child:?}");
                prop_assert!(got > Effect::Allow || effect(&own, &of) == Effect::Allow, "{of:?}: {child:?}");
            }
        }

        #[test]
        fn a_grandchild_is_never_weaker_than_the_root(
            root in permissions(), middle in permissions(), own in permissions()
        ) {
            let grandchild = narrowed(&own, &narrowed(&middle, &root));
            for of in uses() {
                prop_assert!(effect(&grandchild, &of) >= effect(&root, &of), "{of:?}: {grandchild:?}");
            }
        }

        #[test]
        fn a_child_elsewhere_is_never_weaker_than_its_parent(
            own in permissions(), parent in permissions(), at in 0..5_usize
        ) {
            let directory = ["/work", "/work/src", "/work/.git", "/", "/etc"][at];
            let child = narrowed(&own, &parent.relocated("/work", &[], directory));
            for of in uses() {
                let got = effect_in(&child, &of, directory);
                prop_assert!(got >= effect(&parent, &of), "{of:?} in {directory}: {child:?}");
            }
        }
    }
}
