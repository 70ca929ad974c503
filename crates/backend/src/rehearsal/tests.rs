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
