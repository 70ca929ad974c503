//! Real programs are agents by their own names, in a project without any agent file.

use model_server::Reply;
use serde_json::json;

use super::place::{Place, Vendor};

#[test]
fn claude_and_codex_answer_by_their_names() {
    let replies = vec![Reply::say("Three herons."), Reply::say("Four cranes.")];
    let Some(place) = Place::make_for(&["claude", "codex"], "without_a_file", replies) else { return };
    assert_eq!(place.volery(&["run", "claude", "How many herons?"]).ok().stdout, "Three herons.");
    let run = place.volery(&["run", "codex", "How many cranes?", "--json"]).ok().json();
    assert_eq!((&run["result"], &run["agent"]), (&json!("Four cranes."), &json!("codex")), "{run}");
}

#[test]
fn what_the_callers_rule_denies_claude_is_told_with_the_command() {
    let claude = Vendor::named("claude");
    let replies = vec![claude.executes("touch made.txt"), Reply::say("Done.")];
    let Some(place) = Place::make_for(&["claude"], "denied_by_the_caller", replies) else { return };
    let words = ["run", "claude", "make it", "--permission", "yolo", "--deny", "Bash(touch:*)"];
    let said = place.volery(&words).ok();
    let denied = "denied: Bash(touch made.txt): the rule deny Bash(touch:*), set by the command line";
    assert_eq!(said.stderr.matches(denied).count(), 1, "{said:?}");
    assert!(!place.stage.project().join("made.txt").exists());
}
