//! Values of settings in the syntax of a configuration file, so that output can be written back.

use domain::budget::RequestedLimits;
use domain::overlay::Overlay;
use domain::permission::Permission;
use domain::price::Price;
use domain::run::agent_loop::TierTarget;
use serde_json::{Map, Value, json};

/// Units of time, the longest first.
const TIMES: [(u64, &str); 5] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
/// Units of sizes, the largest first.
const SIZES: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

/// `1h30m`, exactly.
pub(super) fn spell_duration(ms: u64) -> Value {
    let mut rest = ms;
    let mut text = String::new();
    for (unit, name) in TIMES {
        if rest >= unit {
            text.push_str(&format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    json!(if text.is_empty() { "0s".to_owned() } else { text })
}

/// `64MiB` if that is exact, else the number of bytes.
pub(super) fn spell_size(bytes: u64) -> Value {
    let unit = SIZES.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| json!(bytes), |(unit, name)| json!(format!("{}{name}", bytes / unit)))
}

/// A level alone is a string; with rules it is a table.
pub(super) fn spell_permission(permission: &Permission) -> Value {
    match permission.level {
        Some(level) if *permission == (Permission { level: Some(level), ..Permission::default() }) => {
            json!(level.as_str())
        }
        _ => json!(permission),
    }
}

/// Dollars per million tokens.
pub(super) fn spell_price(price: &Price) -> Value {
    let Price { input, output, cache_read, cache_write } = price;
    let named = [
        ("input", Some(*input)),
        ("output", Some(*output)),
        ("cache_read", *cache_read),
        ("cache_write", *cache_write),
    ];
    let table: Map<String, Value> =
        named.into_iter().filter_map(|(key, micro)| Some((key.to_owned(), spell_dollars(micro?)))).collect();
    Value::Object(table)
}

/// A single target is a string; several are a list.
pub(super) fn spell_targets(targets: &[TierTarget]) -> Value {
    match targets {
        [target] => json!(target.to_string()),
        targets => targets.iter().map(ToString::to_string).collect(),
    }
}

/// Returns an integer if possible, else a float.
pub(super) fn spell_dollars(micro: u64) -> Value {
    if micro.is_multiple_of(1_000_000) { json!(micro / 1_000_000) } else { json!(micro as f64 / 1e6) }
}

/// Returns the settings of one section by key.
pub(super) fn spell_section(overlay: &Overlay) -> Vec<(String, Value)> {
    let Overlay { backend, model, permission: requested, limits: requested_limits, max_turns } = overlay;
    let mut settings: Vec<(String, Value)> = Vec::new();
    settings.extend(backend.as_ref().map(|backend| ("backend".to_owned(), json!(backend))));
    settings.extend(model.as_ref().map(|model| ("model".to_owned(), json!(model))));
    if !requested.is_empty() {
        settings.push(("permission".to_owned(), spell_permission(&requested.without_origins())));
    }
    settings.extend(
        spell_limits(requested_limits).into_iter().map(|(key, value)| (format!("limits.{key}"), value)),
    );
    settings.extend(max_turns.map(|turns| ("max_turns".to_owned(), json!(turns))));
    settings
}

/// Returns the limits that are set, by key.
pub(super) fn spell_limits(limits: &RequestedLimits) -> Vec<(&'static str, Value)> {
    let RequestedLimits {
        timeout_ms,
        idle_timeout_ms,
        grace_ms,
        answer_timeout_ms,
        memory_bytes,
        cpu_ms,
        processes,
        open_files,
        file_bytes,
        output_bytes,
        depth,
        children,
        tree_runs,
        steps,
        tool_calls,
        tokens,
        answer_tokens,
        cost_microusd,
    } = limits;
    let values = [
        ("timeout", timeout_ms.map(spell_duration)),
        ("idle_timeout", idle_timeout_ms.map(spell_duration)),
        ("grace", grace_ms.map(spell_duration)),
        ("answer_timeout", answer_timeout_ms.map(spell_duration)),
        ("cpu", cpu_ms.map(spell_duration)),
        ("memory", memory_bytes.map(spell_size)),
        ("file_size", file_bytes.map(spell_size)),
        ("output", output_bytes.map(spell_size)),
        ("processes", processes.map(|count| json!(count))),
        ("open_files", open_files.map(|count| json!(count))),
        ("depth", depth.map(|count| json!(count))),
        ("children", children.map(|count| json!(count))),
        ("tree_runs", tree_runs.map(|count| json!(count))),
        ("steps", steps.map(|count| json!(count))),
        ("tool_calls", tool_calls.map(|count| json!(count))),
        ("tokens", tokens.map(|count| json!(count))),
        ("answer_tokens", answer_tokens.map(|count| json!(count))),
        ("cost", cost_microusd.map(spell_dollars)),
    ];
    values.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

#[cfg(test)]
mod tests {
    use domain::duration::parse_ms;
    use domain::size::parse_bytes;

    use super::*;

    proptest::proptest! {
        #[test]
        fn a_duration_and_a_size_are_read_back_as_they_were(number in 0_u64..1 << 45) {
            let written = spell_duration(number);
            proptest::prop_assert_eq!(parse_ms(written.as_str().unwrap()), Ok(number), "{}", written);
            let written = spell_size(number << 10);
            proptest::prop_assert_eq!(parse_bytes(written.as_str().unwrap_or("0")), Ok(number << 10), "{}", written);
        }
    }
}
