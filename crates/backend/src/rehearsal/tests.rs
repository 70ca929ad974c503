//! A rehearsal's next step follows from what is done, so it continues after any interruption.

use std::collections::BTreeMap;

use domain::agent::{Script, Step};
use domain::run::{AgentEnd, Before, Call, Failure};

use super::Rehearsed;
use crate::contract::{Action, Loop, Turn};

fn completed(planned: crate::contract::PlannedCall) -> Call {
    let crate::contract::PlannedCall { kind, class, name, input, .. } = planned;
    let before = Before::default();
    Call { kind, class, name, input, completed: Some((true, String::new())), in_doubt: false, before }
}

#[test]
fn steps_follow_each_other_and_none_is_repeated() {
    let steps = vec![Step::Say("I got {prompt}".to_owned()), Step::Sleep(5), Step::Fail("stop".to_owned())];
    let rehearsed = Rehearsed { script: Script { steps }, prompt: "it".to_owned() };
    let mut done = BTreeMap::new();
    let mut actions = Vec::new();
    let end = loop {
        match rehearsed.next(&done) {
            Turn::Finish(end) => break end,
            Turn::Call(planned) => {
                actions.push(planned.action.clone());
                done.insert(planned.call, completed(planned));
            }
        }
    };
    assert_eq!(actions, vec![Action::Say("I got it".to_owned()), Action::Sleep { ms: 5 }]);
    assert_eq!(end, AgentEnd::Failed(Failure::Agent { message: "stop".to_owned() }));
}

#[test]
fn a_file_that_cannot_be_written_ends_it_and_a_child_that_failed_does_not() {
    let script = |step| Rehearsed {
        script: Script { steps: vec![step, Step::Say("on".to_owned())] },
        prompt: String::new(),
    };
    let after_failure = |rehearsed: &Rehearsed, in_doubt| {
        let Turn::Call(planned) = rehearsed.next(&BTreeMap::new()) else { panic!("a call was expected") };
        let failed = Call { completed: Some((false, "no".to_owned())), in_doubt, ..completed(planned) };
        rehearsed.next(&BTreeMap::from([(0, failed)]))
    };
    let write = script(Step::Write { path: "a".to_owned(), text: String::new() });
    let failure = Failure::Agent { message: "write did not work: no".to_owned() };
    assert_eq!(after_failure(&write, false), Turn::Finish(AgentEnd::Failed(failure)));
    assert!(matches!(after_failure(&write, true), Turn::Call(_)));
    let delegate = script(Step::Delegate { agent: "leaf".parse().unwrap(), prompt: "x".to_owned() });
    assert!(matches!(after_failure(&delegate, false), Turn::Call(_)));
}
