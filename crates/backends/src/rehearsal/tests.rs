//! A rehearsal's next step follows from what is done, so it continues after any interruption.

use std::collections::BTreeMap;

use domain::agent::{RehearsalScript, RehearsalStep};
use domain::run::{AgentEnd, Failure, LoopCall, ProgressMark};

use super::Rehearsed;
use crate::contract::{CallAction, Loop, LoopStep};

fn completed(planned: crate::contract::PlannedCall) -> LoopCall {
    let crate::contract::PlannedCall { kind, class, name, input, .. } = planned;
    let before = Some(ProgressMark::default());
    LoopCall {
        kind,
        class,
        name,
        input,
        completed: Some((true, String::new())),
        in_doubt: false,
        before,
        turn: None,
        body: None,
    }
}

#[test]
fn steps_follow_each_other_and_none_is_repeated() {
    let steps = vec![
        RehearsalStep::Say("I got {prompt}".to_owned()),
        RehearsalStep::Sleep(5),
        RehearsalStep::Fail("stop".to_owned()),
    ];
    let rehearsed = Rehearsed { script: RehearsalScript { steps }, prompt: "it".to_owned() };
    let mut done = BTreeMap::new();
    let mut actions = Vec::new();
    let end = loop {
        match rehearsed.next(&done) {
            LoopStep::Finish(end) => break end,
            LoopStep::Call(planned) => {
                actions.push(planned.action.clone());
                done.insert(planned.call, completed(planned));
            }
        }
    };
    assert_eq!(actions, vec![CallAction::Say("I got it".to_owned()), CallAction::Sleep { ms: 5 }]);
    assert_eq!(end, AgentEnd::Failed(Failure::Agent { message: "stop".to_owned() }));
}

#[test]
fn a_file_that_cannot_be_written_ends_it_and_a_child_that_failed_does_not() {
    let script = |step| Rehearsed {
        script: RehearsalScript { steps: vec![step, RehearsalStep::Say("on".to_owned())] },
        prompt: String::new(),
    };
    let after_failure = |rehearsed: &Rehearsed, in_doubt| {
        let LoopStep::Call(planned) = rehearsed.next(&BTreeMap::new()) else { panic!("a call was expected") };
        let failed = LoopCall { completed: Some((false, "no".to_owned())), in_doubt, ..completed(planned) };
        rehearsed.next(&BTreeMap::from([(0, failed)]))
    };
    let write = script(RehearsalStep::Write { path: "a".to_owned(), text: String::new() });
    let failure = Failure::Agent { message: "write did not work: no".to_owned() };
    assert_eq!(after_failure(&write, false), LoopStep::Finish(AgentEnd::Failed(failure)));
    assert!(matches!(after_failure(&write, true), LoopStep::Call(_)));
    let delegate = script(RehearsalStep::Delegate { agent: "leaf".parse().unwrap(), prompt: "x".to_owned() });
    assert!(matches!(after_failure(&delegate, false), LoopStep::Call(_)));
}
