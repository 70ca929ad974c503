//! Volery's own folders are within no grant: who could edit them could trust a project, answer a question or name a program in
//! the place of their user.

use std::path::{Path, PathBuf};

use backend::contract::Backend;
use domain::id::BackendName;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::run::{BackendSpec, RunSpec};
use domain::setup::{Isolation, Setup};

use super::AppError;
use crate::env;

/// Keeps a run off these folders, or refuses it. What it is denied for that is in its warnings.
pub(super) fn protect(state: &Path, spec: &mut RunSpec) -> Result<(), AppError> {
    let mut rules = check(state, &spec.setup, &spec.backend, &spec.directory)?;
    for other in &spec.alternatives {
        // What a configuration says about a fallback may let it edit where the agent's own backend does not.
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
    let others = spec.alternatives.iter_mut().filter_map(|other| other.settings.as_mut());
    others.for_each(|settings| settings.permission.deny.extend(rules.iter().cloned()));
    spec.setup.permission.deny.extend(rules);
    Ok(())
}

/// Refuses an agent that may edit where it works, if that is around or within one of these folders. What is allowed
/// everything needs no directory for it, and a program that is no vendor's keeps to no permission.
///
/// An agent of another system's dialect works around them too, as it does there, if its program can be denied to edit: then
/// the rules for that are returned.
pub(super) fn check(
    state: &Path,
    setup: &Setup,
    backend: &BackendSpec,
    directory: &str,
) -> Result<Vec<Rule>, AppError> {
    let driver = backend::registry::by_kind(&backend.kind);
    let is_held = driver.is_some_and(|driver| driver.program().is_some());
    if !is_held || !may_edit(&setup.permission) || setup.isolation == Isolation::Worktree {
        return Ok(Vec::new());
    }
    let can_deny = !setup.inherit.is_empty()
        && driver.is_some_and(|driver| driver.capabilities(&backend.options).denies_folders);
    let own: Vec<PathBuf> =
        [Some(state.to_owned()), env::config_home()].into_iter().flatten().map(really).collect();
    let extra = setup.extra_directories.iter().map(String::as_str);
    let mut rules = Vec::new();
    for directory in std::iter::once(directory).chain(extra) {
        let place = really(PathBuf::from(directory));
        for own in &own {
            if place.starts_with(own) {
                return Err(refusal(directory, "is within", own));
            }
            if let Ok(below) = own.strip_prefix(&place) {
                let rule = denial(&place, below).filter(|_| can_deny);
                let refused = || {
                    let refused = refusal(directory, "holds", own);
                    if setup.inherit.is_empty() {
                        refused
                    } else {
                        with_way_out(refused, &backend.name, can_deny)
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

fn refusal(directory: &str, word: &str, own: &Path) -> AppError {
    let message = format!(
        "{directory} {word} {}, where Volery keeps its own files: no agent may edit those",
        own.display()
    );
    let hint = "choose another directory, such as a project's; an agent that may only read works here too";
    AppError::denied(message).hint(hint)
}

/// Says in a dialect, whose system would run the agent, why it is not run and by which programs it could be.
fn with_way_out(refusal: AppError, backend: &BackendName, can_deny: bool) -> AppError {
    let hint = match can_deny {
        true => "choose another directory, such as a project's: the path of that folder would be read as a pattern".to_owned(),
        false => format!(
            "choose another directory, such as a project's; {backend} cannot be held to leave these files alone, and these can: {}; \
             an agent that may only read works here too",
            able().join(", ")
        ),
    };
    refusal.hint(hint)
}

/// Returns the backends that can be held to leave a folder alone.
fn able() -> Vec<&'static str> {
    let can = |driver: &&'static dyn Backend| driver.capabilities(&serde_json::Value::Null).denies_folders;
    backend::registry::all().filter(can).map(Backend::kind).collect()
}

/// Returns the rule that denies edits in what holds our folder directly below the directory: whoever may move that has our
/// folder too. Nothing where a path would be read as a pattern.
fn denial(place: &Path, below: &Path) -> Option<Rule> {
    let top = place.join(below.components().next()?);
    let top = top.to_str().filter(|path| path.chars().all(is_plain))?;
    Rule::with_pattern("Edit", &format!("/{top}/**")).ok()
}

fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '/' | '.' | '-' | '_' | ' ' | '+' | '@')
}

fn may_edit(permission: &Permission) -> bool {
    let edits = |kind| matches!(kind, ToolKind::Edit | ToolKind::Everything);
    match permission.level {
        Some(Level::SafeEdit) | None => true,
        Some(Level::ReadOnly) => permission.allow.iter().any(|rule| edits(rule.kind())),
        Some(Level::Yolo) => false,
    }
}

/// Returns a path without symbolic links, as far as it is there.
fn really(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use domain::inherit::Inherited;

    use super::*;

    #[test]
    fn who_may_edit_works_neither_around_nor_within_the_state() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name).display().to_string();
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
        let place = tempfile::tempdir().unwrap();
        let home = place.path().canonicalize().unwrap().join("home");
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
}
