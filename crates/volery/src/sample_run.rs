//! A run as the engine shows it, for tests.

use std::collections::BTreeSet;

use domain::id::RunId;
use domain::run::Usage;
use engine::RunView;

/// Returns a run that is running.
pub(crate) fn sample_run(run_id: RunId, agent: &str) -> RunView {
    RunView {
        run_id,
        short_id: run_id.short(),
        agent: agent.into(),
        backend: "rehearsal".into(),
        status: "running".into(),
        ended: false,
        outcome: None,
        explanation: "running".into(),
        cancellation: None,
        after_interruption: None,
        waiting: None,
        needs_answer: Vec::new(),
        result: None,
        result_bytes: 0,
        result_next_offset: None,
        partial: Some("so far so good".into()),
        stalled: false,
        created_at: "2026-11-15T10:00:00Z".into(),
        started_at: Some("2026-11-15T10:00:01Z".into()),
        ended_at: None,
        duration_ms: 1_500,
        usage: Usage::default(),
        exit_code: None,
        stderr_tail: String::new(),
        prompt: "count the herons".into(),
        prompt_bytes: 16,
        directory: "/project".into(),
        project: "/project".into(),
        caller: "test".into(),
        grants: Vec::new(),
        level: None,
        allow: Vec::new(),
        has_tool_list: false,
        is_from_shell: false,
        unattended: None,
        session: None,
        parent: None,
        attempts: 1,
        children: Vec::new(),
        warnings: Vec::new(),
        denials: Vec::new(),
        denials_count: 0,
        inherit: BTreeSet::new(),
        containment: None,
        model: None,
        structured: None,
        repaired: false,
        verification: None,
        acceptance: Vec::new(),
        changes: None,
        branch: None,
        damaged_lines: 0,
    }
}
