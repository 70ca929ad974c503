//! Finds settings of a user or a project that let a program act without a question or without its sandbox. If they
//! cannot be overruled, a run that must keep to a permission is refused.

use std::path::PathBuf;

use domain::inherit::Inherited;
use domain::permission::{Permission, Unenforceable};
use domain::run::RunSpec;

use crate::user_environment::UserEnvironment;

/// Returns the file that has such settings, or that cannot be read and may have them.
pub type OverrideFinder = fn(&RunSpec, &UserEnvironment<'_>) -> Option<PathBuf>;

/// Refuses a run whose user's settings would let it do more than its agent may.
pub(crate) fn refuse_overrides(
    spec: &RunSpec,
    user: &UserEnvironment<'_>,
    find_override: OverrideFinder,
) -> Result<(), String> {
    if !requires_enforcement(spec) {
        return Ok(());
    }
    match find_override(spec, user) {
        None => Ok(()),
        Some(file) => Err(format!(
            "{} allows some uses of tools without a question, so that the permission of the agent cannot be enforced",
            file.display()
        )),
    }
}

/// Returns whether a run must be refused rather than do more than its agent may. If the user's own rules apply, what
/// they allow is not more.
pub(crate) fn requires_enforcement(spec: &RunSpec) -> bool {
    let by_user = spec.setup.inherits(Inherited::Settings);
    is_restrictive(&spec.setup.permission) && spec.setup.unenforceable == Unenforceable::Refuse && !by_user
}

/// Returns whether a permission restricts anything. One that allows everything does not.
fn is_restrictive(permission: &Permission) -> bool {
    !permission.is_empty() && !permission.is_unrestricted()
}

#[cfg(test)]
mod tests {
    use domain::permission::Level;

    use super::*;

    #[test]
    fn only_a_restricted_agent_is_refused() {
        let temp_dir = tempfile::tempdir().unwrap();
        let rules = temp_dir.path().join(".codex/rules");
        std::fs::create_dir_all(&rules).unwrap();
        std::fs::write(rules.join("default.rules"), "prefix_rule(pattern = [\"git\"])\n").unwrap();
        let user = UserEnvironment { home: Some(temp_dir.path()), variable: &|_| None };
        let find_override = crate::codex::VENDOR.find_override.unwrap();
        let mut spec = crate::test_fixtures::spec("codex");
        assert_eq!(refuse_overrides(&spec, &user, find_override), Ok(()));
        spec.setup.permission.level = Some(Level::SafeEdit);
        assert!(refuse_overrides(&spec, &user, find_override).unwrap_err().contains("default.rules"));
        spec.setup.unenforceable = Unenforceable::Warn;
        assert_eq!(refuse_overrides(&spec, &user, find_override), Ok(()));
        spec.setup.unenforceable = Unenforceable::Refuse;
        spec.setup.permission.level = Some(Level::Yolo);
        assert_eq!(refuse_overrides(&spec, &user, find_override), Ok(()));
    }
}
