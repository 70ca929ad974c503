//! The limits of a run as an agent's file or a configuration writes them: the same keys in both.

use domain::budget::AskedLimits;

use crate::text::{Bounds, Fields, Findings, Node, amount, bytes, duration_ms};

/// Nothing starts in less memory than this; who writes less has forgotten the unit.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// Reads a `limits` map whole.
pub(crate) fn read(node: &Node, within: &str, findings: &mut Findings<'_>) -> AskedLimits {
    let Some(mut fields) = Fields::open(node, within, findings) else { return AskedLimits::default() };
    let times = take_times(&mut fields, findings);
    let mut size = |key, min| {
        let node = fields.take(key)?;
        bytes(node, &fields.name(key), Bounds::from(min), findings)
    };
    let memory_bytes = size("memory", MEMORY_BYTES_MIN);
    let file_bytes = size("file_size", 0);
    let output_bytes = size("output", 1);
    let cpu_ms =
        fields.take("cpu").and_then(|node| duration_ms(node, &fields.name("cpu"), Bounds::from(1), findings));
    let mut count = |key, min| {
        let node = fields.take(key)?;
        amount(node, &fields.name(key), Bounds::from(min).up_to(u32::MAX.into()), findings)
    };
    let processes = count("processes", 1);
    let open_files = count("open_files", 1);
    let narrow = |count: Option<u64>| count.and_then(|count| u32::try_from(count).ok());
    let depth = narrow(count("depth", 0));
    let children = narrow(count("children", 0));
    let tree_runs = narrow(count("tree_runs", 1));
    fields.close(findings);
    AskedLimits {
        memory_bytes,
        cpu_ms,
        processes,
        open_files,
        file_bytes,
        output_bytes,
        depth,
        children,
        tree_runs,
        ..times
    }
}

/// Takes the four times, which an agent's file may also have at its top level.
pub(crate) fn take_times(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> AskedLimits {
    let mut time = |key, min| {
        let node = fields.take(key)?;
        duration_ms(node, &fields.name(key), Bounds::from(min), findings)
    };
    AskedLimits {
        timeout_ms: time("timeout", 1),
        idle_timeout_ms: time("idle_timeout", 1),
        grace_ms: time("grace", 0),
        answer_timeout_ms: time("answer_timeout", 1),
        ..AskedLimits::default()
    }
}
