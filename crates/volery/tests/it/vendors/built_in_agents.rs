//! Real programs are agents by their own names, in a project without any agent file.

use fake_llm::ScriptedReply;
use serde_json::json;

use super::vendor_env::{Vendor, VendorEnv};

#[test]
fn claude_and_codex_answer_by_their_names() {
    let replies = vec![ScriptedReply::say("Three herons."), ScriptedReply::say("Four cranes.")];
    let Some(vendor_env) = VendorEnv::make_for(&["claude", "codex"], "without_a_file", replies) else {
        return;
    };
    assert_eq!(vendor_env.volery(&["run", "claude", "How many herons?"]).ok().stdout, "Three herons.");
    let run = vendor_env.volery(&["run", "codex", "How many cranes?", "--json"]).ok().json();
    assert_eq!((&run["result"], &run["agent"]), (&json!("Four cranes."), &json!("codex")), "{run}");
}

#[test]
fn a_denial_by_the_callers_rule_names_the_command() {
    let claude = Vendor::new("claude");
    let replies = vec![claude.executes("touch made.txt"), ScriptedReply::say("Done.")];
    let Some(vendor_env) = VendorEnv::make_for(&["claude"], "denied_by_the_caller", replies) else { return };
    let arguments = ["run", "claude", "make it", "--permission", "yolo", "--deny", "Bash(touch:*)"];
    let output = vendor_env.volery(&arguments).ok();
    let denied = "denied: Bash(touch made.txt): the rule deny Bash(touch:*), set by the command line";
    assert_eq!(output.stderr.matches(denied).count(), 1, "{output:?}");
    assert!(!vendor_env.env.project().join("made.txt").exists());
}
