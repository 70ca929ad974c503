//! What an answer advises where an agent was denied something: whoever follows it gets what it promises.

use std::fs;

use model_server::Reply;

use super::super::place::{Place, Vendor};
use super::{DONE, ask, left_behind, serve};

/// Has an agent try to execute a command, follows the advice of each answer, and returns how often that took until the command was
/// executed.
fn advices_until_allowed(program: &'static str, level: Option<&str>) -> Option<usize> {
    let name = format!("sub-agents-advice-{program}-{}", level.unwrap_or("default"));
    let place = Place::make_for(&[program], &name, Vec::new())?;
    let project = place.stage.project();
    let vendor = Vendor::named(program);
    let configuration = place.stage.path("config/config.toml");
    let before = fs::read_to_string(&configuration).unwrap_or_default();
    for followed in 0..4 {
        place
            .offline
            .server()
            .add(vec![vendor.executes("python3 -c 'open(\"made.txt\", \"w\")'"), Reply::say(DONE)]);
        let answer = ask(&place, &mut serve(&place, program, level));
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
