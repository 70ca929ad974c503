//! Names the caller of a run for the user.

use super::text::one_line;
use engine::RunView;

/// Returns the caller of a run. The reader of a page is the user who starts runs with commands, and the name that rules have for
/// this user, `main`, says nothing to a newcomer.
pub(super) fn caller_name(run: &RunView) -> String {
    if run.is_from_shell { "you".to_owned() } else { one_line(&run.caller) }
}
