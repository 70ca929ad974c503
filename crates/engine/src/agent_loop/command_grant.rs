//! What the commands of a directive may change and reach, as the kernel can hold them to it. Narrower than the rules in
//! doubt: the kernel knows neither patterns nor exceptions, and a command must not choose where a name leads.

use std::path::{Path, PathBuf};

use domain::access::{AccessEffect, AccessKind, AccessLayer, AccessSubject};
use domain::permission::ToolKind;
use domain::policy::{Effect, Policy, Use, UsePath};
use process::NetworkAccess;

/// The grant of every command of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandGrant {
    /// Directories with everything in them, and files. None of them is in another one.
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) network: NetworkAccess,
}

/// What a grant is computed from.
pub(crate) struct GrantContext<'a> {
    pub(crate) layers: &'a [AccessLayer],
    /// The permission of the run, if somebody set one.
    pub(crate) policy: Option<&'a Policy>,
    pub(crate) directory: &'a Path,
    /// Volery's own folders.
    pub(crate) protected: &'a [PathBuf],
}

/// Returns what every layer and the permission of the run allow.
pub(crate) fn command_grant(context: &GrantContext<'_>) -> CommandGrant {
    CommandGrant { writable: writable_paths(context), network: network_access(context) }
}

fn writable_paths(context: &GrantContext<'_>) -> Vec<PathBuf> {
    let GrantContext { layers, policy, directory, protected } = *context;
    let Ok(directory) = directory.canonicalize() else { return Vec::new() };
    let Some((first, others)) = layers.split_first().filter(|_| !has_write_denial(layers, policy)) else {
        return Vec::new();
    };
    let named = |layer: &AccessLayer| -> Vec<PathBuf> {
        let allowing = layer.rules.iter().filter(|rule| rule.effect == AccessEffect::Allow);
        let patterns = allowing.filter_map(|rule| match &rule.subject {
            AccessSubject::Write(pattern) => Some(pattern.as_str()),
            AccessSubject::Any => Some("**"),
            AccessSubject::Read(_)
            | AccessSubject::Exec(_)
            | AccessSubject::Reach(_)
            | AccessSubject::Mcp { .. }
            | AccessSubject::Delegate(_)
            | AccessSubject::Env(_)
            | AccessSubject::Runtime(_) => None,
        });
        patterns.filter_map(whole_path).map(|path| joined(&directory, path)).collect()
    };
    let (first, others) = (named(first), others.iter().map(named).collect::<Vec<_>>());
    let within = |path: &Path, paths: &[PathBuf]| paths.iter().any(|allowed| path.starts_with(allowed));
    let is_safe = |path: &PathBuf| {
        // A link in the path could lead anywhere, now or at a later command.
        path.canonicalize().is_ok_and(|target| target == *path)
            && !protected.iter().any(|own| path.starts_with(own) || own.starts_with(path))
            && policy.is_none_or(|policy| allows_writing(policy, path))
    };
    // The narrower of two nested paths is what both layers allow.
    let candidates = first.iter().chain(others.iter().flatten());
    let mut writable: Vec<PathBuf> = candidates
        .filter(|path| within(path, &first) && others.iter().all(|paths| within(path, paths)))
        .filter(|path| is_safe(path))
        .cloned()
        .collect();
    writable.sort();
    writable.dedup();
    // A command that may change a directory can put a link in place of anything in it.
    let outermost = |path: &&PathBuf| !writable.iter().any(|other| other != *path && path.starts_with(other));
    writable.iter().filter(outermost).cloned().collect()
}

/// Joins without `.` components, so that equal paths are equal.
fn joined(directory: &Path, path: &str) -> PathBuf {
    if path == "." { directory.to_owned() } else { directory.join(path) }
}

/// Returns the path of a pattern that means a whole directory or one file below the run's directory.
fn whole_path(pattern: &str) -> Option<&str> {
    let path = pattern.strip_suffix("**/*").or_else(|| pattern.strip_suffix("**")).unwrap_or(pattern);
    let path = path.strip_prefix("./").unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_plain = !path.contains(['*', '?', '[', '{', '\\', '~'])
        && !path.starts_with('/')
        && !path.split('/').any(|part| part == "..");
    is_plain.then_some(if path.is_empty() { "." } else { path })
}

/// Returns whether a rule forbids some writing: the kernel knows no exceptions, so commands then may write nothing.
fn has_write_denial(layers: &[AccessLayer], policy: Option<&Policy>) -> bool {
    let denies = |layer: &AccessLayer| {
        layer.rules.iter().any(|rule| {
            rule.effect != AccessEffect::Allow
                && matches!(rule.subject, AccessSubject::Write(_) | AccessSubject::Any)
        })
    };
    let restricts = |layer: &domain::policy::Layer| {
        let mut rules = layer.permission.deny.iter().chain(&layer.permission.ask);
        rules.any(|rule| matches!(rule.kind(), ToolKind::Edit | ToolKind::Everything))
    };
    layers.iter().any(denies) || policy.is_some_and(|policy| policy.layers().iter().any(restricts))
}

fn allows_writing(policy: &Policy, path: &Path) -> bool {
    let inside = UsePath::plain(&path.join("file").display().to_string());
    policy.decide(&Use::Write(inside)).effect == Effect::Allow
}

/// Returns whether commands may use the network: only if every layer allows some host.
fn network_access(context: &GrantContext<'_>) -> NetworkAccess {
    let GrantContext { layers, policy, .. } = context;
    let names_host = layers
        .iter()
        .flat_map(|layer| &layer.rules)
        .any(|rule| rule.effect == AccessEffect::Allow && matches!(rule.subject, AccessSubject::Reach(_)));
    let is_allowed = !layers.is_empty()
        && layers.iter().all(|layer| layer.may_allow(AccessKind::Reach))
        && policy.is_none_or(|policy| policy.decide(&Use::Reach(None)).effect == Effect::Allow);
    if names_host && is_allowed { NetworkAccess::Unrestricted } else { NetworkAccess::Denied }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use domain::access::{AccessRule, RuleSource};
    use domain::permission::{Level, Permission};

    use super::*;

    fn layer(subjects: &[AccessSubject]) -> AccessLayer {
        let source = RuleSource { file: "d.md".to_owned(), line: 1 };
        let rule = |subject: &AccessSubject| AccessRule {
            effect: AccessEffect::Allow,
            subject: subject.clone(),
            source: source.clone(),
        };
        AccessLayer { name: "test".to_owned(), rules: subjects.iter().map(rule).collect() }
    }

    fn write(pattern: &str) -> AccessSubject {
        AccessSubject::Write(pattern.to_owned())
    }

    /// Returns the writable paths below the directory.
    fn writable(directory: &Path, layers: &[AccessLayer], policy: Option<&Policy>) -> Vec<String> {
        let protected = [directory.join("state")];
        let context = GrantContext { layers, policy, directory, protected: &protected };
        let shown = |path: PathBuf| path.strip_prefix(directory).unwrap().display().to_string();
        command_grant(&context).writable.into_iter().map(shown).collect()
    }

    #[test]
    fn a_name_that_could_lead_elsewhere_grants_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().canonicalize().unwrap();
        for folder in ["w/sub", "other", "state/runs"] {
            fs::create_dir_all(directory.join(folder)).unwrap();
        }
        symlink("/etc", directory.join("link")).unwrap();
        symlink("../other", directory.join("w/inner")).unwrap();
        let paths = |patterns: &[&str]| {
            let subjects: Vec<AccessSubject> = patterns.iter().map(|pattern| write(pattern)).collect();
            writable(&directory, &[layer(&subjects)], None)
        };
        assert_eq!(paths(&["w/**", "other/*.md", "missing/**"]), ["w"]);
        assert_eq!(paths(&["link/**", "w/inner/**", "../x/**", "/etc/**", "~/**"]), Vec::<String>::new());
        assert_eq!(paths(&["w/**", "w/sub/**"]), ["w"], "a command could replace w/sub by a link");
        assert_eq!(paths(&["state/**", "state/runs/**", "**"]), Vec::<String>::new(), "Volery's own folder");
    }

    #[test]
    fn every_layer_and_the_permission_of_the_run_must_allow_it() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().canonicalize().unwrap();
        fs::create_dir_all(directory.join("w/sub")).unwrap();
        let layers = [layer(&[write("w/**")]), layer(&[write("w/sub/**")])];
        assert_eq!(writable(&directory, &layers, None), ["w/sub"]);
        let policy = |permission: Permission| {
            let name = directory.display().to_string();
            let place = domain::policy::Directory { name: name.clone(), target: name };
            let own = domain::policy::Layer { permission, ..domain::policy::Layer::default() };
            Policy::in_directory(place).with_layer(own)
        };
        let level = |level| policy(Permission { level: Some(level), ..Permission::default() });
        assert_eq!(writable(&directory, &layers, Some(&level(Level::SafeEdit))), ["w/sub"]);
        assert_eq!(writable(&directory, &layers, Some(&level(Level::ReadOnly))), Vec::<String>::new());
        let denied = Permission { deny: vec!["Edit(w/sub/x)".parse().unwrap()], ..Permission::default() };
        assert_eq!(writable(&directory, &layers, Some(&policy(denied))), Vec::<String>::new());
    }

    #[test]
    fn the_network_needs_every_layer() {
        let host = layer(&[AccessSubject::Reach("example.org".to_owned())]);
        let none = layer(&[write("w/**")]);
        let network = |layers: &[AccessLayer]| {
            let context = GrantContext { layers, policy: None, directory: Path::new("/"), protected: &[] };
            command_grant(&context).network
        };
        assert_eq!(network(std::slice::from_ref(&host)), NetworkAccess::Unrestricted);
        assert_eq!(network(&[host, none]), NetworkAccess::Denied);
        assert_eq!(network(&[]), NetworkAccess::Denied);
    }
}
