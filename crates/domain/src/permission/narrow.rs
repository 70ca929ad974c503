//! Narrows a permission to another one, such as a child run's to its parent's: what one of them denies or asks about, the
//! result does not allow. Vendors read one level and three lists, so the result is one permission and not a chain of two;
//! where that cannot say exactly what both have in common, it says less.

use super::decide::below;
use super::overlay::{add, covers, is_beyond, overlaps, rank};
use super::{Level, Permission, Rule, ToolKind, is_in_repository};

/// The pattern for every file in the directory.
const EVERY_FILE: &str = "**";

/// What came of narrowing a permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowed {
    pub permission: Permission,
    /// What the permission has lost, in words; empty if it has lost nothing.
    pub lost: Vec<String>,
}

impl Permission {
    /// Returns what both this permission and the ceiling allow. The result is never weaker than the ceiling, and allows
    /// nothing that this permission does not allow.
    pub fn narrowed_to(&self, ceiling: &Self) -> Narrowed {
        let (own, most) = (self.with_plain_level(), ceiling.with_plain_level());
        let level = if rank(most.level) < rank(own.level) { most.level } else { own.level };
        let mut deny = own.deny.clone();
        add(&mut deny, &most.deny);
        let of_own = own.allow.iter().filter_map(|rule| most.common(rule));
        let of_most = most.allow.iter().filter_map(|rule| own.common(rule));
        let mut allow = Vec::new();
        add(&mut allow, &of_own.chain(of_most).collect::<Vec<_>>());
        let mut ask = Vec::new();
        for (rules, other) in [(&own.ask, &most), (&most.ask, &own)] {
            for rule in rules {
                let edits = rule.kind() == ToolKind::Edit && other.level == Some(Level::SafeEdit);
                // Within one file, a question about edits in a folder also beats the level's denial elsewhere. Only the
                // ceiling may ask there: a child that asked where its parent is denied would be weaker.
                if other.surely_asks(rule) || (edits && std::ptr::eq(other, &own)) {
                    add(&mut ask, std::slice::from_ref(rule));
                } else if !level.is_some_and(|level| is_beyond(level, rule.kind()))
                    || allow.iter().any(|allowed| overlaps(allowed, rule))
                {
                    // One side asks and the other one may deny: without this rule it might be allowed.
                    add(&mut deny, std::slice::from_ref(rule));
                }
            }
        }
        let permission = Self { level, allow, ask, deny };
        let lost = self.lost(&permission);
        match lost.is_empty() {
            // As it was written, with rules that have no effect.
            true => Narrowed { permission: self.clone(), lost },
            false => Narrowed { permission, lost },
        }
    }

    /// Returns this permission of a run in one directory as it counts for a run in another one. Patterns of paths are made
    /// absolute. What the level lets an agent edit in its own directory it does not let it edit outside.
    pub fn moved(&self, from: &str, inside: &[&str], to: &str) -> Self {
        if from == to {
            return self.clone();
        }
        let is_inside = std::iter::once(&from).chain(inside).any(|directory| is_within(to, directory));
        // A rule that asks or denies speaks of every path outside of the directory too.
        let same = |rule: &Rule| if is_inside { absolute(rule, from) } else { pathless(rule) };
        let strict = |rules: &[Rule]| -> Vec<Rule> {
            rules.iter().map(|rule| same(rule).unwrap_or_else(|| whole(rule))).collect()
        };
        let allow = self.allow.iter().filter_map(|rule| absolute(rule, from)).collect();
        // Outside is not what it was: where the level denies edits, a question about a path would be about more.
        let denies = matches!(self.level, Some(Level::ReadOnly | Level::SafeEdit));
        let is_of_edits = |rule: &Rule| denies && rule.kind() == ToolKind::Edit && rule.pattern().is_some();
        let (edits, others): (Vec<Rule>, Vec<Rule>) = self.ask.iter().cloned().partition(is_of_edits);
        let (mut ask, mut deny) = (strict(&others), strict(&self.deny));
        add(&mut deny, &strict(&edits));
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

    /// Whoever may use everything by a rule has the level that says the same.
    fn with_plain_level(&self) -> Self {
        let everything = |rule: &Rule| rule.kind() == ToolKind::Everything && rule.pattern().is_none();
        let level = if self.allow.iter().any(everything) { Some(Level::Yolo) } else { self.level };
        Self { level, ..self.clone() }
    }

    /// Returns what of a rule that allows this permission allows too, apart from what its rules ask about or deny.
    fn common(&self, rule: &Rule) -> Option<Rule> {
        let by_level =
            self.level == Some(Level::Yolo) || matches!(rule.kind(), ToolKind::Read | ToolKind::Search);
        if by_level || self.allow.iter().any(|wide| covers(wide, rule)) {
            return Some(rule.clone());
        }
        let edits_here = matches!(self.level, None | Some(Level::SafeEdit)) && rule.kind() == ToolKind::Edit;
        match rule.pattern() {
            Some(pattern) => (edits_here && !is_in_repository(pattern)).then(|| rule.clone()),
            None => edits_here.then(|| Rule::with_pattern(rule.tool(), EVERY_FILE).ok()).flatten(),
        }
    }

    /// Names what a narrower permission lacks or denies of this one.
    fn lost(&self, narrow: &Self) -> Vec<String> {
        let name = |level: Option<Level>| level.map_or("safe-edit and questions", Level::as_str);
        let level = (rank(narrow.level) < rank(self.with_plain_level().level))
            .then(|| format!("the level {} becomes {}", name(self.level), name(narrow.level)));
        let gone = |word: &str, own: &[Rule], left: &[Rule]| -> Vec<String> {
            let gone = own.iter().filter(|rule| !left.contains(rule) && rule.kind() != ToolKind::Everything);
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

/// Returns a rule whose pattern of a path does not depend on the directory; nothing where a directory's name would be read
/// as a pattern.
fn absolute(rule: &Rule, directory: &str) -> Option<Rule> {
    match rule.pattern() {
        Some(pattern) if is_of_paths(rule) && !pattern.starts_with(['/', '~']) => {
            let plain = !directory.contains(['*', '?', '[', ']', '{', '}', '(', ')', '!', '\\']);
            let pattern =
                format!("/{}/{}", directory.trim_end_matches('/'), pattern.trim_start_matches("./"));
            plain.then(|| Rule::with_pattern(rule.tool(), &pattern).ok()).flatten()
        }
        Some(_) | None => Some(rule.clone()),
    }
}

/// Returns a rule that has no pattern of a path.
fn pathless(rule: &Rule) -> Option<Rule> {
    (rule.pattern().is_none() || !is_of_paths(rule)).then(|| rule.clone())
}

fn is_of_paths(rule: &Rule) -> bool {
    matches!(rule.kind(), ToolKind::Read | ToolKind::Edit | ToolKind::Search)
}

/// Returns the rule for every use of a rule's tool.
fn whole(rule: &Rule) -> Rule {
    rule.tool().parse().expect("the tool of a rule is a rule")
}

/// Tells whether a directory is another one or in it, and not in a repository's own folder there.
fn is_within(directory: &str, outer: &str) -> bool {
    directory == outer || below(directory, outer).is_some_and(|rest| !is_in_repository(rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{level, permission, permissions, strictness, strictness_in, uses};
    use super::*;

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
        // A level that edits in the directory covers a rule that does so in a part of it.
        let writer = permission(Some(Level::ReadOnly), &["Edit(docs/**)"], &[], &[]);
        assert_eq!(narrowed(&writer, &level(Level::SafeEdit)), writer);
        assert_eq!(narrowed(&writer, &Permission::default()), writer);
        assert_eq!(narrowed(&writer, &level(Level::ReadOnly)), level(Level::ReadOnly));
    }

    #[test]
    fn what_is_lost_is_named() {
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
    fn a_question_of_one_side_that_the_other_side_may_deny_is_a_denial() {
        let asks = permission(Some(Level::Yolo), &[], &["Bash(git push:*)"], &[]);
        let git = permission(Some(Level::SafeEdit), &["Bash(git:*)"], &[], &[]);
        let denies = permission(Some(Level::SafeEdit), &["Bash(git:*)"], &[], &["Bash(git push:*)"]);
        assert_eq!((narrowed(&git, &asks), narrowed(&asks, &git)), (denies.clone(), denies));
    }

    #[test]
    fn in_another_directory_patterns_mean_the_same_files() {
        let own = permission(Some(Level::SafeEdit), &["Edit(.git/**)"], &[], &["Edit(secret/**)", "Bash(x)"]);
        let inside = own.moved("/work", &[], "/work/part");
        let expected = permission(
            Some(Level::SafeEdit),
            &["Edit(//work/.git/**)"],
            &[],
            &["Edit(//work/secret/**)", "Bash(x)"],
        );
        assert_eq!(inside, expected);
        assert_eq!(own.moved("/work", &[], "/else").level, Some(Level::ReadOnly));
        assert_eq!(own.moved("/work", &["/else"], "/else/part").level, Some(Level::SafeEdit));
        assert_eq!(own.moved("/work", &[], "/work/.git").level, Some(Level::ReadOnly));
        assert_eq!(own.moved("/work", &[], "/worker").level, Some(Level::ReadOnly));
        let default = Permission::default().moved("/work", &[], "/else");
        assert_eq!(default, permission(None, &[], &["Edit"], &[]));
        // The name of a directory is not a pattern.
        let odd = own.moved("/w*rk", &[], "/w*rk/part");
        assert_eq!(odd, permission(Some(Level::SafeEdit), &[], &[], &["Edit", "Bash(x)"]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_child_is_never_weaker_than_its_parent(own in permissions(), parent in permissions()) {
            let child = narrowed(&own, &parent);
            for (tool, input) in uses() {
                let got = strictness(&child, tool, &input);
                prop_assert!(got >= strictness(&parent, tool, &input), "{tool} {input}: {child:?}");
                prop_assert!(got > 0 || strictness(&own, tool, &input) == 0, "{tool} {input}: {child:?}");
            }
        }

        #[test]
        fn a_grandchild_is_never_weaker_than_the_root(
            root in permissions(), middle in permissions(), own in permissions()
        ) {
            let grandchild = narrowed(&own, &narrowed(&middle, &root));
            for (tool, input) in uses() {
                let got = strictness(&grandchild, tool, &input);
                prop_assert!(got >= strictness(&root, tool, &input), "{tool} {input}: {grandchild:?}");
            }
        }

        #[test]
        fn a_child_elsewhere_is_never_weaker_than_its_parent(
            own in permissions(), parent in permissions(), at in 0..5_usize
        ) {
            let directory = ["/work", "/work/src", "/work/.git", "/", "/etc"][at];
            let child = narrowed(&own, &parent.moved("/work", &[], directory));
            for (tool, mut input) in uses() {
                // The same file, whoever names it.
                if let Some(path) = input.get("file_path").and_then(|path| path.as_str()) {
                    let path = if path.starts_with('/') { path.to_owned() } else { format!("/work/{path}") };
                    input["file_path"] = path.into();
                }
                let got = strictness_in(&child, tool, &input, directory);
                let most = strictness(&parent, tool, &input);
                prop_assert!(got >= most, "{tool} {input} in {directory}: {child:?}");
            }
        }
    }
}
