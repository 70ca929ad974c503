//! Volery's own folders are within no grant: who could edit them could trust a project, answer a question or name a program in
//! the place of their user.

use std::path::{Path, PathBuf};

use domain::permission::{Level, Permission, ToolKind};
use domain::run::BackendSpec;
use domain::setup::{Isolation, Setup};

use super::AppError;
use crate::env;

/// Refuses an agent that may edit where it works, if that is around or within one of these folders. What is allowed
/// everything needs no directory for it, and a program that is no vendor's keeps to no permission.
pub(super) fn check(
    state: &Path,
    setup: &Setup,
    backend: &BackendSpec,
    directory: &str,
) -> Result<(), AppError> {
    let driver = backend::registry::by_kind(&backend.kind);
    let is_held = driver.is_some_and(|driver| driver.program().is_some());
    if !is_held || !may_edit(&setup.permission) || setup.isolation == Isolation::Worktree {
        return Ok(());
    }
    let own: Vec<PathBuf> =
        [Some(state.to_owned()), env::config_home()].into_iter().flatten().map(really).collect();
    let extra = setup.extra_directories.iter().map(String::as_str);
    for directory in std::iter::once(directory).chain(extra) {
        let place = really(PathBuf::from(directory));
        if let Some(own) = own.iter().find(|own| own.starts_with(&place) || place.starts_with(own)) {
            let word = if own.starts_with(&place) { "holds" } else { "is within" };
            let message = format!(
                "{directory} {word} {}, where Volery keeps its own files: no agent may edit those",
                own.display()
            );
            let hint =
                "choose another directory, such as a project's; an agent that may only read works here too";
            return Err(AppError::denied(message).hint(hint));
        }
    }
    Ok(())
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
}
