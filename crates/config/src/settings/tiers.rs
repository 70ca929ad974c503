//! `[tiers]`: the backends and models for the words by which directives ask for a model.

use std::collections::BTreeMap;

use domain::run::agent_loop::{TIER_NAME_RULE, TIER_TARGETS_MAX, TierTarget, TierTargetError, is_tier_name};

use crate::text::{Diagnostics, MapEntry, Node, NodeValue, quote, read_text};

pub(super) fn read(node: &Node, diagnostics: &mut Diagnostics<'_>) -> BTreeMap<String, Vec<TierTarget>> {
    let mut tiers = BTreeMap::new();
    let NodeValue::Map(entries) = &node.value else {
        let message = format!("tiers: expected keys with values, found {}", node.describe());
        diagnostics.error_with_hint(node.location, message, "write [tiers], then TIER = \"BACKEND\"");
        return tiers;
    };
    for entry in entries {
        if !is_tier_name(&entry.key) {
            let message = format!("tiers: {} cannot be a tier", quote(&entry.key));
            diagnostics.error_with_hint(entry.location, message, TIER_NAME_RULE);
        } else if let Some(targets) = read_tier(entry, diagnostics) {
            tiers.insert(entry.key.clone(), targets);
        }
    }
    tiers
}

/// Reads one tier; `None` if any of its targets is invalid, because the rest of a list would be another choice.
fn read_tier(entry: &MapEntry, diagnostics: &mut Diagnostics<'_>) -> Option<Vec<TierTarget>> {
    let name = format!("tiers.{}", entry.key);
    let nodes = match &entry.node.value {
        NodeValue::List(items) => items.as_slice(),
        NodeValue::Map(_) => {
            let message = format!("{name}: expected text or a list, found {}", entry.node.describe());
            diagnostics.error_with_hint(
                entry.location,
                message,
                "write tiers as TIER = \"BACKEND/MODEL\"; a tier with '.' needs quotes",
            );
            return None;
        }
        NodeValue::String(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime => std::slice::from_ref(&entry.node),
    };
    if !(1..=TIER_TARGETS_MAX).contains(&nodes.len()) {
        let message = format!("{name}: the list has {} entries", nodes.len());
        diagnostics.error_with_hint(
            entry.node.location,
            message,
            format!("a tier has 1 to {TIER_TARGETS_MAX}"),
        );
        return None;
    }
    let targets: Vec<_> = nodes.iter().map(|node| read_target(node, &name, diagnostics)).collect();
    targets.into_iter().collect()
}

fn read_target(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<TierTarget> {
    let text = read_text(node, name, diagnostics)?;
    let target: Result<TierTarget, TierTargetError> = text.parse();
    match target {
        Ok(target) => Some(target),
        Err(error) => {
            let message = format!("{name}: {}: {error}", quote(&text));
            diagnostics.error_with_hint(node.location, message, error.hint());
            None
        }
    }
}
