//! Following the advice in an answer about a denial leads to the promised permission.

use std::fs;

use fake_llm::ScriptedReply;

use super::super::vendor_env::{Vendor, VendorEnv};
use super::{DONE, ask, left_behind, serve};

/// Has an agent try to execute a command, follows the advice of each answer, and returns how often that took until the command was
/// executed.
fn advices_until_allowed(program: &'static str, level: Option<&str>) -> Option<usize> {
    let name = format!("sub-agents-advice-{program}-{}", level.unwrap_or("default"));
    let vendor_env = VendorEnv::make_for(&[program], &name, Vec::new())?;
    let project = vendor_env.env.project();
    let vendor = Vendor::new(program);
    let configuration = vendor_env.env.path("config/config.toml");
    let before = fs::read_to_string(&configuration).unwrap_or_default();
    for followed in 0..4 {
        vendor_env
            .offline
            .server()
            .add(vec![vendor.executes("python3 -c 'open(\"made.txt\", \"w\")'"), ScriptedReply::say(DONE)]);
        let answer = ask(&vendor_env, &mut serve(&vendor_env, program, level));
        if left_behind(&project) == ["made.txt"] {
            return Some(followed);
        }
        let notes = answer["notes"].as_array().unwrap_or_else(|| panic!("{program}: {answer}"));
        let advice =
            notes.iter().filter_map(|note| note.as_str()?.strip_prefix("to allow more, write ")).next();
        let advice = advice.and_then(|advice| advice.strip_suffix(" in your configuration"));
        let advice = advice.unwrap_or_else(|| panic!("{program}: {answer}"));
        let (key, section) = advice.split_once(" under ").unwrap_or_else(|| panic!("{program}: {advice}"));
        fs::write(&configuration, format!("{before}\n{section}\n{key}\n")).unwrap();
    }
    panic!("{program} is denied it whatever is allowed");
}

#[test]
fn a_rule_of_the_project_that_denies_is_named_and_no_advice_is_given() {
    let script = vec![Vendor::new("claude").executes("echo hi > made.txt"), ScriptedReply::say(DONE)];
    let Some(vendor_env) = VendorEnv::make_for(&["claude"], "sub-agents-project-denies", script) else {
        return;
    };
    let rules = |list: &str| format!("{{\"permissions\": {{\"{list}\": [\"Bash(echo:*)\"]}}}}");
    for (folder, list) in [(vendor_env.env.path("home"), "allow"), (vendor_env.env.project(), "deny")] {
        fs::create_dir_all(folder.join(".claude")).unwrap();
        fs::write(folder.join(".claude/settings.json"), rules(list)).unwrap();
    }
    let answer = ask(&vendor_env, &mut serve(&vendor_env, "claude", None));
    insta::assert_snapshot!(vendor_env.env.masked(&answer["notes"].to_string()));
    assert_eq!(left_behind(&vendor_env.env.project()), [""; 0]);
}

#[test]
fn one_rule_lets_claude_execute() {
    assert!(matches!(advices_until_allowed("claude", None), None | Some(1)));
}

#[test]
fn at_read_only_a_level_and_a_rule_let_claude_execute() {
    assert!(matches!(advices_until_allowed("claude", Some("read-only")), None | Some(1)));
}

#[test]
fn one_rule_lets_gemini_execute() {
    assert!(matches!(advices_until_allowed("gemini", None), None | Some(1)));
}

#[test]
fn at_read_only_a_level_lets_opencode_execute() {
    assert!(matches!(advices_until_allowed("opencode", Some("read-only")), None | Some(1)));
}

#[test]
fn a_level_lets_cursor_execute() {
    assert!(matches!(advices_until_allowed("cursor", None), None | Some(1)));
}
