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

/// Returns the agent file that a page of the documentation writes with `cat > NAME <<'END'`.
fn documented_file<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("cat > {name} <<'END'\n")).expect("the page writes the file");
    rest.split_once("END\n").expect("the file ends").0
}

#[test]
fn the_reviewer_of_the_readme_reads_the_last_commit_and_changes_nothing() {
    let readme = include_str!("../../../../../README.md");
    let claude = Vendor::new("claude");
    let commands = ["git log -1 --format=%s", "git show --stat HEAD | head -n 20", "git reset --hard HEAD~1"];
    let replies = commands
        .map(|command| claude.executes(command))
        .into_iter()
        .chain([ScriptedReply::say("No defects.")]);
    let Some(vendor_env) = VendorEnv::make_for(&["claude"], "readme_reviewer", replies.collect()) else {
        return;
    };
    let project = vendor_env.env.project();
    std::fs::write(project.join("birds.txt"), "heron\n").unwrap();
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "birds.txt"],
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "Count the herons"],
    ] {
        let git = std::process::Command::new("git").args(arguments).current_dir(&project).status().unwrap();
        assert!(git.success(), "{arguments:?}");
    }
    let file = ".volery/agents/reviewer.md";
    std::fs::write(project.join(file), documented_file(readme, file)).unwrap();
    let run = vendor_env.volery(&["run", "reviewer", "look at the last commit", "--json"]).ok().json();
    assert_eq!(run["result"], json!("No defects."), "{run}");
    let requests = vendor_env.offline.server().model_requests();
    let results: Vec<String> = requests
        .iter()
        .filter_map(|request| request.last_result())
        .map(|result| result.text.clone())
        .collect();
    assert!(results[0].contains("Count the herons"), "{results:?}");
    assert!(results[1].contains("birds.txt | 1 +"), "{results:?}");
    let denials = run["denials"].as_array().unwrap();
    assert_eq!(denials.len(), 1, "{run}");
    assert_eq!(
        (&denials[0]["subject"], &denials[0]["cause"]),
        (&json!(commands[2]), &json!("level")),
        "{run}"
    );
}
