//! The decision about another attempt: a table of what follows on what, and what holds for all of it.

use proptest::prelude::*;

use super::*;
use crate::run::{LimitName, ModelError};

fn choice(backend: &str) -> Choice {
    Choice {
        backend: backend.parse().unwrap(),
        sessions: true,
        forks: true,
        tells_tools: true,
        converses: true,
    }
}

fn session(id: &str) -> SessionId {
    id.parse().unwrap()
}

fn circumstances(backends: &[&str], past: Past) -> Circumstances {
    Circumstances {
        choices: backends.iter().map(|name| choice(name)).collect(),
        past,
        summary: false,
        retry: false,
    }
}

fn known(backend: &str, fork: bool) -> Past {
    Past::Known { native: Some((backend.parse().unwrap(), session("native"))), fork }
}

fn tried(choice: usize) -> Tried {
    Tried { choice, conversation: Conversation::New, asked: Asked::Prompt, native: None, acted: false }
}

fn model_error(error: ModelError) -> AgentEnd {
    AgentEnd::Failed(Failure::Model { error, message: "x".to_owned() })
}

fn unknown_session() -> AgentEnd {
    AgentEnd::Failed(Failure::Session { reason: "x".to_owned() })
}

fn unfit() -> AgentEnd {
    AgentEnd::Failed(Failure::Schema { reason: "x".to_owned(), errors: vec!["/a: x".to_owned()] })
}

fn again(choice: usize, thread: Thread, asked: Asked) -> Next {
    Next::Again(Attempt { choice, thread, asked })
}

#[test]
fn the_first_attempt_takes_part_in_the_conversation_as_its_backend_can() {
    let thread = |backend: &str, past: Past| first(&circumstances(&[backend], past)).thread;
    assert_eq!(thread("a", Past::Nothing), Thread::New);
    assert_eq!(thread("a", Past::Chosen(session("mine"))), Thread::Continue(session("mine")));
    assert_eq!(thread("a", known("a", false)), Thread::Continue(session("native")));
    assert_eq!(thread("a", known("a", true)), Thread::Fork(session("native")));
    assert_eq!(thread("b", known("a", false)), Thread::Replay, "another backend now");
    assert_eq!(thread("b", known("a", true)), Thread::Replay);
    assert_eq!(thread("a", Past::Known { native: None, fork: false }), Thread::Replay);
    let mut without_fork = circumstances(&["a"], known("a", true));
    without_fork.choices[0].forks = false;
    assert_eq!(first(&without_fork).thread, Thread::Replay);
    let mut without_sessions = circumstances(&["a"], known("a", false));
    without_sessions.choices[0].sessions = false;
    assert_eq!(first(&without_sessions).thread, Thread::Replay);
}

#[test]
fn a_shortage_leads_to_the_next_choice_until_there_is_none() {
    let all = circumstances(&["a", "a", "b"], Past::Nothing);
    for error in [ModelError::RateLimit, ModelError::Overloaded] {
        let end = model_error(error);
        assert_eq!(next(&all, &[tried(0)], &end), again(1, Thread::New, Asked::Prompt));
        assert_eq!(next(&all, &[tried(0), tried(1)], &end), again(2, Thread::New, Asked::Prompt));
        assert_eq!(next(&all, &[tried(0), tried(1), tried(2)], &end), Next::Finish);
    }
    let unstarted = AgentEnd::Failed(Failure::Spawn { reason: "x".to_owned() });
    assert_eq!(next(&all, &[tried(0)], &unstarted), Next::Finish);
    assert_eq!(next(&all, &[tried(0), tried(1)], &unstarted), again(2, Thread::New, Asked::Prompt));
    let continued = circumstances(&["a", "b"], known("a", false));
    let end = model_error(ModelError::RateLimit);
    assert_eq!(next(&continued, &[tried(0)], &end), again(1, Thread::Replay, Asked::Prompt));
}

#[test]
fn no_other_end_leads_to_another_choice() {
    let all = circumstances(&["a", "b"], Past::Nothing);
    let ends = [
        AgentEnd::Done,
        AgentEnd::Unanswered,
        AgentEnd::Lost,
        AgentEnd::OverBudget(LimitName::Cost),
        AgentEnd::Refused("x".to_owned()),
        AgentEnd::Failed(Failure::Exit { code: 1 }),
        model_error(ModelError::Denied),
        model_error(ModelError::Unreachable),
        model_error(ModelError::Unknown),
        unknown_session(),
    ];
    for end in ends {
        assert_eq!(next(&all, &[tried(0)], &end), Next::Finish, "{end:?}");
    }
}

#[test]
fn what_may_have_changed_something_is_continued_and_not_repeated() {
    let end = model_error(ModelError::RateLimit);
    let acted = Tried { native: Some(session("t")), acted: true, ..tried(0) };
    let same = circumstances(&["a", "a"], Past::Nothing);
    assert_eq!(
        next(&same, std::slice::from_ref(&acted), &end),
        again(1, Thread::Continue(session("t")), Asked::GoOn)
    );
    let other = circumstances(&["a", "b"], Past::Nothing);
    assert_eq!(next(&other, &[acted], &end), again(1, Thread::Replay, Asked::GoOn));
    let mut silent = circumstances(&["a", "b"], Past::Nothing);
    silent.choices[0].tells_tools = false;
    assert_eq!(next(&silent, &[tried(0)], &end), again(1, Thread::Replay, Asked::GoOn), "nobody can know");
}

#[test]
fn a_conversation_that_its_vendor_forgot_is_told_again_once() {
    let all = circumstances(&["a"], known("a", false));
    let continued = Tried { conversation: Conversation::Continued, ..tried(0) };
    let end = unknown_session();
    assert_eq!(next(&all, std::slice::from_ref(&continued), &end), again(0, Thread::Replay, Asked::Prompt));
    let replayed = Tried { conversation: Conversation::Replayed, ..tried(0) };
    assert_eq!(next(&all, &[continued.clone(), replayed], &end), Next::Finish);
    let chosen = circumstances(&["a"], Past::Chosen(session("mine")));
    assert_eq!(next(&chosen, &[continued], &end), Next::Finish, "nobody here knows what was said");
}

#[test]
fn silence_is_asked_for_a_summary_once_and_only_where_the_agent_has_one() {
    let mut all = circumstances(&["a"], Past::Nothing);
    assert_eq!(next(&all, &[tried(0)], &AgentEnd::Unanswered), Next::Finish);
    all.summary = true;
    assert_eq!(next(&all, &[tried(0)], &AgentEnd::Unanswered), again(0, Thread::Last, Asked::Summary));
    let asked = Tried { asked: Asked::Summary, ..tried(0) };
    assert_eq!(next(&all, &[tried(0), asked], &AgentEnd::Unanswered), Next::Finish);
}

#[test]
fn an_answer_in_the_wrong_form_is_asked_for_once_more_in_the_same_conversation() {
    let mut all = circumstances(&["a", "b"], Past::Nothing);
    let named = Tried { native: Some(session("t")), acted: true, ..tried(0) };
    let continued = again(0, Thread::Continue(session("t")), Asked::Correct);
    assert_eq!(next(&all, std::slice::from_ref(&named), &unfit()), continued, "also if it did things");
    let corrected = Tried { asked: Asked::Correct, conversation: Conversation::Continued, ..named.clone() };
    assert_eq!(next(&all, &[named.clone(), corrected.clone()], &unfit()), Next::Finish, "once");
    let forgotten = Tried { acted: false, ..corrected.clone() };
    assert_eq!(
        next(&all, &[named.clone(), forgotten], &unknown_session()),
        again(0, Thread::Replay, Asked::Correct)
    );
    let resumed = Tried { asked: Asked::Resume, ..corrected.clone() };
    assert_eq!(next(&all, &[named.clone(), corrected, resumed], &unfit()), Next::Finish, "once in all");
    assert_eq!(
        next(&all, &[tried(0)], &unfit()),
        again(0, Thread::Replay, Asked::Correct),
        "nobody named it"
    );
    all.choices[0].sessions = false;
    assert_eq!(next(&all, std::slice::from_ref(&named), &unfit()), again(0, Thread::Replay, Asked::Correct));
    all.choices[0].converses = false;
    assert_eq!(next(&all, &[named], &unfit()), Next::Finish, "a script says what it says");
    let chosen = circumstances(&["a"], Past::Chosen(session("mine")));
    let own = Tried { conversation: Conversation::Continued, ..tried(0) };
    assert_eq!(next(&chosen, &[own], &unfit()), again(0, Thread::Continue(session("mine")), Asked::Correct));
}

#[test]
fn a_lost_worker_is_followed_only_where_nothing_is_done_twice() {
    let all = circumstances(&["a"], Past::Nothing);
    assert_eq!(resume(&all, &[]), Some(first(&all)), "nothing was begun");
    assert_eq!(resume(&all, &[tried(0)]), None, "begun, and nobody knows how far it came");
    let named = Tried { native: Some(session("t")), ..tried(0) };
    let on = Attempt { choice: 0, thread: Thread::Continue(session("t")), asked: Asked::Resume };
    assert_eq!(resume(&all, std::slice::from_ref(&named)), Some(on));
    let mut without = all.clone();
    without.choices[0].sessions = false;
    assert_eq!(resume(&without, &[named]), None);
}

fn any_end() -> impl Strategy<Value = AgentEnd> {
    prop_oneof![
        Just(model_error(ModelError::RateLimit)),
        Just(model_error(ModelError::Overloaded)),
        Just(model_error(ModelError::Denied)),
        Just(unknown_session()),
        Just(unfit()),
        Just(AgentEnd::Unanswered),
        Just(AgentEnd::Done),
        Just(AgentEnd::Failed(Failure::Exit { code: 1 })),
    ]
}

fn any_past() -> impl Strategy<Value = Past> {
    prop_oneof![
        Just(Past::Nothing),
        Just(Past::Chosen(session("mine"))),
        Just(Past::Known { native: None, fork: false }),
        any::<bool>().prop_map(|fork| known("a", fork)),
        any::<bool>().prop_map(|fork| known("b", fork)),
    ]
}

fn any_choice() -> impl Strategy<Value = Choice> {
    ("[ab]", any::<[bool; 4]>()).prop_map(|(name, [sessions, forks, tells_tools, converses])| Choice {
        backend: name.parse().unwrap(),
        sessions,
        forks,
        tells_tools,
        converses,
    })
}

proptest! {
    /// Plays whole runs: whatever ends how, they come to an end, never go back to an earlier choice, never repeat what
    /// may have changed something, and never continue a conversation by a vendor that does not have it.
    #[test]
    fn every_sequence_of_ends_comes_to_an_end(
        choices in proptest::collection::vec(any_choice(), 1..5),
        past in any_past(),
        summary in any::<bool>(),
        ends in proptest::collection::vec((any_end(), any::<bool>(), any::<bool>()), 40),
    ) {
        let circumstances = Circumstances { choices, past, summary, retry: false };
        let (mut attempt, mut all, mut acted_before) = (first(&circumstances), Vec::<Tried>::new(), false);
        for (end, acted, named) in ends {
            let choice = &circumstances.choices[attempt.choice];
            if acted_before {
                prop_assert!(attempt.asked != Asked::Prompt, "{attempt:?} after {all:?}");
            }
            if let Thread::Continue(id) = &attempt.thread {
                let told = all.iter().any(|tried| {
                    tried.native.as_ref() == Some(id)
                        && circumstances.choices[tried.choice].backend == choice.backend
                });
                let from_before = match &circumstances.past {
                    Past::Chosen(_) => true,
                    Past::Known { native: Some((backend, _)), .. } => *backend == choice.backend,
                    Past::Known { native: None, .. } | Past::Nothing => false,
                };
                prop_assert!(told || from_before);
            }
            let native = named.then(|| session(&format!("t{}", all.len())));
            let conversation = attempt.thread.conversation();
            acted_before |= acted;
            all.push(Tried { choice: attempt.choice, conversation, asked: attempt.asked, native, acted });
            match next(&circumstances, &all, &end) {
                Next::Finish => return Ok(()),
                Next::Again(another) => {
                    prop_assert!(another.choice >= attempt.choice);
                    prop_assert!(another.choice < circumstances.choices.len());
                    attempt = another;
                }
            }
        }
        prop_assert!(false, "it never ends");
    }
}

#[test]
fn a_run_that_was_cut_short_is_tried_once_more_if_that_is_wanted() {
    let mut all = circumstances(&["a"], Past::Nothing);
    assert_eq!(after_time_out(&all, &[tried(0)]), None, "nobody wanted it");
    all.retry = true;
    let second = Attempt { choice: 0, thread: Thread::New, asked: Asked::Again };
    assert_eq!(after_time_out(&all, &[tried(0)]), Some(second.clone()));
    let failed = |failure: Failure| after_crash(&all, &[tried(0)], &AgentEnd::Failed(failure));
    for crash in [Failure::Exit { code: 1 }, Failure::Signal { signal: 11 }] {
        assert_eq!(failed(crash), Some(second.clone()));
    }
    for other in [
        Failure::Agent { message: "it says why it failed".to_owned() },
        Failure::Spawn { reason: String::new() },
        Failure::Output { reason: String::new() },
        Failure::Model { error: ModelError::Denied, message: String::new() },
        Failure::Limit { limit: LimitName::Memory },
    ] {
        assert_eq!(failed(other), None);
    }
    assert_eq!(after_crash(&all, &[tried(0)], &AgentEnd::Done), None);
    let again = Tried { asked: Asked::Again, ..tried(0) };
    assert_eq!(after_time_out(&all, &[tried(0), again]), None, "there is no third");
    let summary = Tried { asked: Asked::Summary, ..tried(0) };
    assert_eq!(after_time_out(&all, &[tried(0), summary]), None);
}

#[test]
fn a_second_try_stays_in_the_conversation() {
    let with = |past: Past, last: Tried| {
        let all = Circumstances { retry: true, ..circumstances(&["a"], past) };
        after_time_out(&all, &[last]).unwrap().thread
    };
    let named = Tried { native: Some(session("own")), ..tried(0) };
    assert_eq!(with(Past::Nothing, named), Thread::Continue(session("own")));
    assert_eq!(with(known("a", false), tried(0)), Thread::Continue(session("native")));
    let replayed = Tried { conversation: Conversation::Replayed, ..tried(0) };
    assert_eq!(with(known("a", false), replayed), Thread::Replay);
}
