//! Protects Volery's own folders from every agent: an agent that could edit them could trust a project, answer a
//! question or name a program in place of its user.

use std::path::{Path, PathBuf};

use backends::contract::Backend;
use domain::id::BackendName;
use domain::permission::{Rule, RuleOrigin};
use domain::run::{BackendSpec, RunSpec};
use domain::setup::{Isolation, Setup};

use crate::api::EngineError;
use crate::env;

/// Denies a run edits in these folders, or refuses it. The denials are in its warnings.
pub(crate) fn protect(state: &Path, spec: &mut RunSpec) -> Result<(), EngineError> {
    let mut rules = check(state, &spec.setup, &spec.backend, &spec.directory)?;
    for other in &spec.fallbacks {
        // The settings of a fallback may let it edit where the agent's own backend may not.
        let Some(settings) = &other.settings else { continue };
        let setup = Setup { permission: settings.permission.clone(), ..spec.setup.clone() };
        rules.extend(check(state, &setup, &other.backend, &spec.directory)?);
    }
    rules.sort();
    rules.dedup();
    let withheld = rules.iter().map(|rule| {
        format!("withheld: edits in {}: Volery's own files are there", rule.pattern().unwrap_or_default())
    });
    spec.warnings.extend(withheld);
    let others = spec.fallbacks.iter_mut().filter_map(|other| other.settings.as_mut());
    others.for_each(|settings| settings.permission.deny.extend(rules.iter().cloned()));
    spec.setup.permission.deny.extend(rules);
    Ok(())
}

/// Refuses an agent that may edit its directory, if that contains one of these folders or is within one. An agent
/// that may do everything can edit them from any directory, and a program that is not a vendor's ignores permissions.
///
/// An agent of another system's dialect may work in a directory around them, as it does there, if its program can be
/// denied to edit: then this returns the rules for that.
pub(crate) fn check(
    state: &Path,
    setup: &Setup,
    backend: &BackendSpec,
    directory: &str,
) -> Result<Vec<Rule>, EngineError> {
    let driver = backends::registry::by_kind(&backend.kind);
    let is_vendor_program = driver.is_some_and(|driver| driver.program().is_some());
    if !is_vendor_program || !setup.permission.bounds_edits() || setup.isolation == Isolation::Worktree {
        return Ok(Vec::new());
    }
    let can_deny = !setup.inherit.is_empty()
        && driver.is_some_and(|driver| driver.capabilities(&backend.options).deny_rules_cover_shell);
    let own: Vec<PathBuf> =
        [Some(state.to_owned()), env::config_home()].into_iter().flatten().map(canonicalize).collect();
    let extra = setup.extra_directories.iter().map(String::as_str);
    let mut rules = Vec::new();
    for directory in std::iter::once(directory).chain(extra) {
        let directory_path = canonicalize(PathBuf::from(directory));
        for own in &own {
            if directory_path.starts_with(own) {
                return Err(refusal(directory, "is within", own));
            }
            if let Ok(below) = own.strip_prefix(&directory_path) {
                let rule = denial(&directory_path, below).filter(|_| can_deny);
                let refused = || {
                    let refused = refusal(directory, "holds", own);
                    if setup.inherit.is_empty() {
                        refused
                    } else {
                        with_alternatives(refused, &backend.name, can_deny)
                    }
                };
                rules.push(rule.ok_or_else(refused)?);
            }
        }
    }
    rules.sort();
    rules.dedup();
    Ok(rules)
}

fn refusal(directory: &str, relation: &str, own: &Path) -> EngineError {
    let message = format!(
        "{directory} {relation} {}, where Volery keeps its own files: no agent may edit those",
        own.display()
    );
    let hint = "choose another directory, such as a project's; an agent that may only read works here too: volery run \
                --permission read-only";
    EngineError::denied(message).hint(hint)
}

/// Explains to a caller of a dialect why the agent is not run, and which backends could run it.
fn with_alternatives(refusal: EngineError, backend: &BackendName, can_deny: bool) -> EngineError {
    let hint = match can_deny {
        true => "choose another directory, such as a project's: the path of that folder would be read as a pattern".to_owned(),
        false => format!(
            "choose another directory, such as a project's; {backend} cannot be held to leave these files alone, and these can: {}; \
             an agent that may only read works here too",
            backends_that_can_deny().join(", ")
        ),
    };
    refusal.hint(hint)
}

/// Returns the backends that can be denied to edit a folder.
fn backends_that_can_deny() -> Vec<&'static str> {
    let can =
        |driver: &&'static dyn Backend| driver.capabilities(&serde_json::Value::Null).deny_rules_cover_shell;
    backends::registry::all().filter(can).map(Backend::kind).collect()
}

/// Returns the rule that denies edits in the folder directly below the directory that contains our folder: an agent
/// that may move that folder has ours too. Returns `None` if a path would be read as a pattern.
fn denial(directory_path: &Path, below: &Path) -> Option<Rule> {
    let top = directory_path.join(below.components().next()?);
    let top = top.to_str().filter(|path| path.chars().all(is_plain))?;
    let rule = Rule::with_pattern("Edit", &format!("/{top}/**")).ok()?;
    Some(rule.with_origin(Some(RuleOrigin::BuiltIn)))
}

fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '/' | '.' | '-' | '_' | ' ' | '+' | '@')
}

/// Returns a path without symbolic links, if it exists.
fn canonicalize(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use domain::inherit::Inherited;
    use domain::permission::Level;

    use super::*;

    #[test]
    fn an_agent_that_may_edit_works_neither_around_nor_within_the_state() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        for folder in ["home/.local/state/volery/runs", "home/project", "elsewhere"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::os::unix::fs::symlink(at("home"), at("link")).unwrap();
        let state = PathBuf::from(at("home/.local/state/volery"));
        let is_refused = |backend: &str, rules: &str, directory: &str, extra: &[&str]| {
            let options = serde_json::Value::Null;
            let backend = BackendSpec { name: backend.parse().unwrap(), kind: backend.to_owned(), options };
            let setup = Setup {
                permission: serde_json::from_str(rules).unwrap(),
                extra_directories: extra.iter().map(|name| at(name)).collect(),
                ..Setup::default()
            };
            check(&state, &setup, &backend, &at(directory)).is_err()
        };
        for rules in ["{}", r#"{"level": "safe-edit"}"#, r#"{"level": "read-only", "allow": ["Edit"]}"#] {
            for around in ["home", "link", "home/.local/state/volery", "home/.local/state/volery/runs"] {
                assert!(is_refused("claude", rules, around, &[]), "{rules} {around}");
            }
            assert!(is_refused("codex", rules, "elsewhere", &["home"]), "{rules}");
            assert!(!is_refused("claude", rules, "home/project", &["elsewhere"]), "{rules}");
        }
        for rules in [r#"{"level": "read-only"}"#, r#"{"level": "yolo"}"#] {
            assert!(!is_refused("claude", rules, "home", &[]), "{rules}");
        }
        assert!(!is_refused("rehearsal", "{}", "home", &[]));
    }

    #[test]
    fn an_agent_of_a_dialect_works_around_the_state_if_it_can_be_denied_to_edit_there() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join("home");
        let state = home.join(".local/state/volery");
        std::fs::create_dir_all(state.join("runs")).unwrap();
        let checked = |backend: &str, directory: &Path| {
            let options = serde_json::Value::Null;
            let backend = BackendSpec { name: backend.parse().unwrap(), kind: backend.to_owned(), options };
            let mut setup = Setup { inherit: [Inherited::Environment].into(), ..Setup::default() };
            setup.permission.level = Some(Level::SafeEdit);
            check(&state, &setup, &backend, directory.to_str().unwrap())
        };
        let denied = format!("Edit(/{}/**)", home.join(".local").display());
        let rules = checked("claude", &home).unwrap();
        assert!(rules.iter().any(|rule| rule.spelling() == denied), "{rules:?}");
        assert_eq!(checked("claude", &home.join("elsewhere")).unwrap(), []);
        assert!(checked("claude", &state.join("runs")).is_err(), "within");
        assert!(checked("codex", &home).unwrap_err().to_string().contains("no agent may edit those"));
    }

    #[test]
    fn the_hint_of_a_refusal_names_an_option_that_works_there() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let checked = |level: Option<Level>| {
            let (name, options) = ("claude".parse().unwrap(), serde_json::Value::Null);
            let backend = BackendSpec { name, kind: "claude".to_owned(), options };
            let mut setup = Setup::default();
            setup.permission.level = level;
            check(&home.join("state"), &setup, &backend, home.to_str().unwrap())
        };
        let hint = checked(None).unwrap_err().hint.unwrap();
        assert!(hint.ends_with("volery run --permission read-only"), "{hint}");
        assert_eq!(checked(Some(Level::ReadOnly)).unwrap(), []);
    }
}
