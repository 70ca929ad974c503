//! The limits of a run in agent files and configuration files: the same keys in both.

use domain::budget::RequestedLimits;

use crate::text::{
    Bounds, Diagnostics, Fields, Node, read_byte_size, read_duration_ms, read_integer, read_usd,
};

/// Nothing starts in less memory than this; a smaller number lacks its unit.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// Reads a `limits` map whole.
pub(crate) fn read(node: &Node, within: &str, diagnostics: &mut Diagnostics<'_>) -> RequestedLimits {
    let Some(mut fields) = Fields::open(node, within, diagnostics) else { return RequestedLimits::default() };
    let times = take_times(&mut fields, diagnostics);
    let mut size = |key, min| {
        let node = fields.take(key)?;
        read_byte_size(node, &fields.name(key), Bounds::from(min), diagnostics)
    };
    let memory_bytes = size("memory", MEMORY_BYTES_MIN);
    let file_bytes = size("file_size", 0);
    let output_bytes = size("output", 1);
    let cpu_ms = fields
        .take("cpu")
        .and_then(|node| read_duration_ms(node, &fields.name("cpu"), Bounds::from(1), diagnostics));
    let mut count = |key, min| {
        let node = fields.take(key)?;
        read_integer(node, &fields.name(key), Bounds::from(min).up_to(u32::MAX.into()), diagnostics)
    };
    let processes = count("processes", 1);
    let open_files = count("open_files", 1);
    let narrow = |count: Option<u64>| count.and_then(|count| u32::try_from(count).ok());
    let depth = narrow(count("depth", 0));
    let children = narrow(count("children", 0));
    let tree_runs = narrow(count("tree_runs", 1));
    let steps = count("steps", 1);
    let tool_calls = count("tool_calls", 0);
    let tokens = count("tokens", 1);
    let answer_tokens = count("answer_tokens", 1);
    let cost_microusd =
        fields.take("cost").and_then(|node| read_usd(node, &fields.name("cost"), diagnostics));
    fields.close(diagnostics);
    RequestedLimits {
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
        ..times
    }
}

/// Takes the four times, which an agent's file may also have at its top level.
pub(crate) fn take_times(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> RequestedLimits {
    let mut time = |key, min| {
        let node = fields.take(key)?;
        read_duration_ms(node, &fields.name(key), Bounds::from(min), diagnostics)
    };
    RequestedLimits {
        timeout_ms: time("timeout", 1),
        idle_timeout_ms: time("idle_timeout", 1),
        grace_ms: time("grace", 0),
        answer_timeout_ms: time("answer_timeout", 1),
        ..RequestedLimits::default()
    }
}
