//! The agents that the vendors' programs and Volery list for the same files. Constants name the differences.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fake_llm::ScriptedReply;
use serde_json::Value;

use super::vendor_env::VendorEnv;

/// Agents that Claude Code has without any file.
const OF_CLAUDE_CODE: [&str; 5] = ["claude", "Explore", "Plan", "general-purpose", "statusline-setup"];
/// Agents that opencode has without any file. The settings of the sample change `build`, so it is on both lists.
const OF_OPENCODE: [&str; 6] = ["compaction", "explore", "general", "plan", "summary", "title"];
/// A name for people, and the one by which we have its agent.
const OUR_NAMES: [(&str, &str); 3] = [
    ("Senior Code Reviewer (Backend)", "senior-code-reviewer-backend"),
    ("Réviseur", "reviseur"),
    ("代码审查", "shencha"),
];
/// Files without a name or a description are no agents of Claude Code's; we take the file's name, and warn.
const ONLY_OURS: [&str; 2] = ["no-description", "no-name"];
/// One wrong value makes opencode refuse its whole file; here it costs one agent.
const WRONG: (&str, &str) = ("sideways", "all");

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => fs::copy(entry.path(), target).map(|_| ()).unwrap(),
        }
    }
}

fn samples(folder: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent_files").join(folder)
}

/// Returns the names of the agents of a format that we list.
fn ours(vendor_env: &VendorEnv, format: &str) -> BTreeSet<String> {
    let listed = vendor_env.volery(&["agents", "--json"]).ok().json();
    let agents = listed["agents"].as_array().unwrap().iter();
    let of_format = agents.filter(|agent| agent["format"] == *format && agent["built_in"].is_null());
    of_format.map(|agent| agent["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn claude_code_has_the_agents_that_we_have() {
    let script = vec![ScriptedReply::say("Hello.").always()];
    let Some(vendor_env) = VendorEnv::make_for(&["claude"], "listings", script) else { return };
    copy(&samples("claude"), &vendor_env.env.project().join(".claude/agents"));
    let output = vendor_env.client("claude", "hi", &[]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let init =
        events.find(|event| event["subtype"] == "init").unwrap_or_else(|| panic!("no init: {output:?}"));
    let listed = init["agents"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let without_file = |name: &&str| !OF_CLAUDE_CODE.contains(name);
    let ours_for = |name: &str| {
        let known = OUR_NAMES.iter().find(|(theirs, _)| *theirs == name);
        known.map_or(name, |(_, ours)| ours).to_owned()
    };
    let theirs: BTreeSet<String> = listed.filter(without_file).map(ours_for).collect();
    let mut ours = ours(&vendor_env, "claude");
    for name in ONLY_OURS {
        assert!(ours.remove(name), "{name} is no longer an agent of ours: {ours:?}");
    }
    assert_eq!(ours, theirs);
}

#[test]
fn opencode_has_the_agents_that_we_have() {
    let Some(vendor_env) = VendorEnv::make_for(&["opencode"], "listings", Vec::new()) else { return };
    let project = vendor_env.env.project();
    copy(&samples("opencode"), &project.join(".opencode/agent"));
    copy(&samples("opencode-config"), &project);
    let ours = ours(&vendor_env, "opencode");
    let settings = project.join("opencode.jsonc");
    let text = fs::read_to_string(&settings).unwrap();
    assert!(text.contains(WRONG.0));
    fs::write(&settings, text.replace(WRONG.0, WRONG.1)).unwrap();
    let output = vendor_env.client_command("opencode", &["agent", "list"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // A line for each agent, and its permission in JSON below.
    let listed = text.lines().filter_map(|line| {
        let (name, mode) = line.trim_end().strip_suffix(')')?.split_once(" (")?;
        ["primary", "subagent", "all"].contains(&mode).then_some(name)
    });
    let theirs: BTreeSet<String> =
        listed.filter(|name| !OF_OPENCODE.contains(name)).map(ToOwned::to_owned).collect();
    let mut with_wrong = ours;
    with_wrong.insert("json-wrong".to_owned());
    assert_eq!(with_wrong, theirs, "{output:?}");
}
