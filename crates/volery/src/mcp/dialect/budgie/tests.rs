//! Tool names and health rates.

use domain::id::AgentName;

use super::health::rate;
use super::tool_names::{ToolNames, ToolTarget};

fn build_names(prefix: &str, safe: bool, agents: &[&str]) -> Result<ToolNames, String> {
    let slugs: Vec<AgentName> =
        (0..agents.len()).map(|number| format!("agent-{number}").parse().unwrap()).collect();
    let agents = slugs.iter().zip(agents.iter().copied());
    ToolNames::new(prefix, safe, agents).map_err(|error| error.to_string())
}

fn listed(names: &ToolNames) -> Vec<&str> {
    names.listed.iter().map(|(name, _)| name.as_str()).collect()
}

fn agent(number: usize) -> Option<ToolTarget> {
    Some(ToolTarget::Agent(format!("agent-{number}").parse().unwrap()))
}

#[test]
fn names_are_written_as_budgie_writes_them() {
    let names =
        build_names("kiro-subagents.", false, &["test-agent", "My Agent", "Ünder_score", "a.b"]).unwrap();
    let expected = [
        "kiro-subagents.test-agent",
        "kiro-subagents.my-agent",
        "kiro-subagents.-nder_score",
        "kiro-subagents.a.b",
        "kiro-subagents.health-check",
    ];
    assert_eq!(listed(&names), expected);
}

#[test]
fn both_spellings_are_understood_whatever_is_listed() {
    for safe in [false, true] {
        let names = build_names("kiro-subagents.", safe, &["test-agent"]).unwrap();
        for name in ["kiro-subagents.test-agent", "kiro-subagents_test-agent"] {
            assert_eq!(names.find(name).cloned(), agent(0), "{name}");
        }
        for name in ["kiro-subagents.health-check", "kiro-subagents_health-check"] {
            assert_eq!(names.find(name), Some(&ToolTarget::Health), "{name}");
        }
        assert_eq!(names.find("kiro-subagents-test-agent"), None);
        assert_eq!(names.others().len(), 2);
    }
    assert_eq!(listed(&build_names("p.", true, &["a.b"]).unwrap()), ["p_a_b", "p_health-check"]);
    assert_eq!(build_names("", false, &["x"]).unwrap().others(), Vec::<String>::new());
}

/// Differs from budgie: two agents whose tools have one name | one of them wins | the server does not start and
///    names the tool
#[test]
fn a_name_that_could_mean_two_agents_means_neither_and_is_not_listed() {
    let names = build_names("p.", false, &["a.b", "a_b"]).unwrap();
    assert_eq!((names.find("p.a.b").cloned(), names.find("p.a_b").cloned()), (agent(0), agent(1)));
    assert_eq!(names.find("p_a_b"), None);
    for (safe, agents) in [(true, ["a.b", "a_b"]), (false, ["Test", "test"]), (false, ["x", "health-check"])]
    {
        let error = build_names("p.", safe, &agents).unwrap_err();
        assert!(error.contains("two agents would both be the tool p"), "{error}");
    }
}

#[test]
fn a_rate_has_one_digit_behind_the_point() {
    assert_eq!((rate(38, 42), rate(9, 10), rate(0, 0)), ("90.5%".into(), "90.0%".into(), "0.0%".into()));
}
