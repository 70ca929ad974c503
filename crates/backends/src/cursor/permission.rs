//! Translates a permission into options of Cursor. It only has options for the levels.

use domain::permission::Permission;

use crate::contract::inexpressible;
use crate::policy_translation::ByLevel;

/// Returns the options for a level. Without `--force`, Cursor refuses what needs an approval.
pub(super) fn level_args(permission: &Permission) -> &'static [&'static str] {
    let args: ByLevel<&[&str]> =
        ByLevel { read_only: &["--mode", "plan"], safe_edit: &[], yolo: &["--force"] };
    args.select(permission)
}

/// Returns all rules, because only levels have options.
pub(super) fn unenforceable(permission: &Permission) -> Vec<String> {
    inexpressible(&Permission { level: None, ..permission.clone() })
}
