//! A child never exceeds its parent, whatever it requests.

use proptest::prelude::*;

use super::{Limits, RequestedLimits, narrow, resolve};

fn limits() -> impl Strategy<Value = Limits> {
    let amount = || proptest::option::of(0_u64..1 << 40);
    let times = (1_u64..1 << 40, amount(), 0_u64..100_000, 1_u64..1 << 32);
    let sizes = (amount(), amount(), amount(), amount(), amount());
    let calls = (amount(), amount(), amount(), amount(), amount());
    (times, sizes, (0_u32..10, 0_u32..50, 1_u32..500, 0_u64..1 << 30), calls).prop_map(
        |(times, sizes, counts, calls)| Limits {
            timeout_ms: times.0,
            idle_timeout_ms: times.1,
            grace_ms: times.2,
            answer_timeout_ms: times.3,
            memory_bytes: sizes.0,
            cpu_ms: sizes.1,
            processes: sizes.2,
            open_files: sizes.3,
            file_bytes: sizes.4,
            depth: counts.0,
            children: counts.1,
            tree_runs: counts.2,
            output_bytes: counts.3,
            steps: calls.0,
            tool_calls: calls.1,
            tokens: calls.2,
            answer_tokens: calls.3,
            cost_microusd: calls.4,
        },
    )
}

fn within(child: Option<u64>, parent: Option<u64>) -> bool {
    parent.is_none_or(|parent| child.is_some_and(|child| child <= parent))
}

proptest! {
    #[test]
    fn a_child_never_exceeds_its_parent(parent in limits(), requested in limits()) {
        let child = narrow(&parent, &requested);
        prop_assert!(child.timeout_ms <= parent.timeout_ms);
        prop_assert!(within(child.idle_timeout_ms, parent.idle_timeout_ms));
        prop_assert!(within(child.memory_bytes, parent.memory_bytes));
        prop_assert!(within(child.cpu_ms, parent.cpu_ms));
        prop_assert!(within(child.processes, parent.processes));
        prop_assert!(within(child.open_files, parent.open_files));
        prop_assert!(within(child.file_bytes, parent.file_bytes));
        prop_assert!(within(child.steps, parent.steps) && within(child.tool_calls, parent.tool_calls));
        prop_assert!(within(child.tokens, parent.tokens) && within(child.answer_tokens, parent.answer_tokens));
        prop_assert!(within(child.cost_microusd, parent.cost_microusd));
        prop_assert!(child.depth <= parent.depth && child.children <= parent.children);
        prop_assert!(child.tree_runs <= parent.tree_runs && child.output_bytes <= parent.output_bytes);
        prop_assert_eq!(narrow(&parent, &child), child.clone(), "narrowing twice changes nothing");
    }
}

#[test]
fn the_last_layer_that_says_something_wins() {
    let file = RequestedLimits { timeout_ms: Some(1), memory_bytes: Some(7), ..RequestedLimits::default() };
    let call = RequestedLimits { timeout_ms: Some(2), ..RequestedLimits::default() };
    let limits = resolve([&file, &call]);
    assert_eq!((limits.timeout_ms, limits.memory_bytes, limits.depth), (2, Some(7), 5));
}
