//! The list of an agent's tools, which in some files also contains patterns for their use.

use std::collections::{BTreeMap, BTreeSet};

use domain::permission::{Permission, Rule};
use domain::policy::{Directory, Effect, Layer, Policy, Use};

use super::setup::read_tool_names;
use crate::text::{Diagnostics, Fields, Node, quote};

/// Takes the allowlist of an agent's tools. A pattern in parentheses becomes an allow rule; the tool is left out if
/// the permission would allow more than the pattern.
pub(super) fn take_tools(
    fields: &mut Fields<'_>,
    permission: &mut Permission,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Vec<String>> {
    fields.take("tools").map(|node| read_tools(node, permission, diagnostics))
}

/// Reads the value of the key.
pub(super) fn read_tools(
    node: &Node,
    permission: &mut Permission,
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<String> {
    let mut tools: Vec<String> = Vec::new();
    let mut known = BTreeSet::new();
    // A rule that the list itself adds must not affect the next entry about the same tool.
    let mut restricted: BTreeMap<String, bool> = BTreeMap::new();
    for name in read_tool_names(node, "tools", diagnostics) {
        let patterned = name.parse::<Rule>().ok().filter(|rule| rule.pattern().is_some());
        let bare = match patterned {
            None => name,
            Some(rule)
                if *restricted
                    .entry(rule.tool().to_owned())
                    .or_insert_with(|| is_restricted(&rule, permission)) =>
            {
                let bare = rule.tool().to_owned();
                if !permission.allow.contains(&rule) {
                    permission.allow.push(rule.with_origin(Some(diagnostics.rule_origin(node.location))));
                }
                bare
            }
            Some(rule) => {
                let message = format!(
                    "tools: {} is left out: the permission allows more of {} than stands in the parentheses",
                    quote(rule.spelling()),
                    rule.tool()
                );
                let hint =
                    format!("write {} to give the agent all of it, or a stricter permission", rule.tool());
                diagnostics.warning_with_hint(node.location, message, &hint);
                continue;
            }
        };
        if known.insert(bare.clone()) {
            tools.push(bare);
        }
    }
    tools
}

/// Returns whether uses of a tool that the rule does not match would be denied or need approval.
fn is_restricted(rule: &Rule, permission: &Permission) -> bool {
    let somewhere = serde_json::json!({"path": "x", "command": "x"});
    let of = Use::from_tool_call(rule.tool(), &somewhere, Some("/x".to_owned()));
    let root = Directory { name: "/".to_owned(), target: "/".to_owned() };
    let layer = Layer { permission: permission.clone(), ..Layer::default() };
    Policy::in_directory(root).with_layer(layer).decide(&of).effect != Effect::Allow
}
