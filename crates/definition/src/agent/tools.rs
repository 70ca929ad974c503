//! The list of the tools that an agent has, in which some files also write what a tool may be used for.

use std::collections::{BTreeMap, BTreeSet};

use domain::permission::{Ground, Permission, Rule, Ruling};

use super::setup::names;
use crate::text::{Fields, Findings, Node, quoted};

/// Takes the names of the only tools that an agent has. What stands in parentheses behind a name becomes a rule that
/// allows this use; a tool that the rest of the permission does not hold to it is left out.
pub(super) fn take_tools(
    fields: &mut Fields<'_>,
    permission: &mut Permission,
    findings: &mut Findings<'_>,
) -> Option<Vec<String>> {
    fields.take("tools").map(|node| read_tools(node, permission, findings))
}

/// The same for the value of the key.
pub(super) fn read_tools(
    node: &Node,
    permission: &mut Permission,
    findings: &mut Findings<'_>,
) -> Vec<String> {
    let mut tools: Vec<String> = Vec::new();
    let mut known = BTreeSet::new();
    // A rule that the list itself adds must not count against the next about the same tool.
    let mut held: BTreeMap<String, bool> = BTreeMap::new();
    for name in names(node, "tools", findings) {
        let patterned = name.parse::<Rule>().ok().filter(|rule| rule.pattern().is_some());
        let bare = match patterned {
            None => name,
            Some(rule)
                if *held.entry(rule.tool().to_owned()).or_insert_with(|| is_held(&rule, permission)) =>
            {
                let bare = rule.tool().to_owned();
                if !permission.allow.contains(&rule) {
                    permission.allow.push(rule);
                }
                bare
            }
            Some(rule) => {
                let message = format!(
                    "tools: {} is left out: the permission allows more of {} than stands in the parentheses",
                    quoted(rule.spelling()),
                    rule.tool()
                );
                let hint =
                    format!("write {} to give the agent all of it, or a stricter permission", rule.tool());
                findings.warning_with_hint(node.place, message, &hint);
                continue;
            }
        };
        if known.insert(bare.clone()) {
            tools.push(bare);
        }
    }
    tools
}

/// Tells whether uses of a tool that a rule does not speak of would be denied or asked about.
fn is_held(rule: &Rule, permission: &Permission) -> bool {
    let somewhere = serde_json::json!({"path": "x", "command": "x"});
    let root = || "/".to_owned();
    let ground = Ground { directory: root(), real_directory: root(), real_path: Some("/x".to_owned()) };
    !matches!(permission.decide(rule.tool(), &somewhere, &ground), Ruling::Allow(_))
}
