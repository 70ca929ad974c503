//! The decision about another attempt: a table of ends and their consequences, and properties of all of them.

use proptest::prelude::*;

use super::*;
use crate::run::{LimitName, ModelError};

fn choice(backend: &str) -> BackendChoice {
    BackendChoice {
        backend: backend.parse().unwrap(),
        supports_sessions: true,
        supports_fork: true,
        reports_tool_calls: true,
        is_conversational: true,
    }
}

fn session(id: &str) -> SessionId {
    id.parse().unwrap()
}

fn circumstances(backends: &[&str], past: History) -> RetryContext {
    RetryContext {
        choices: backends.iter().map(|name| choice(name)).collect(),
        history: past,
        summary: false,
        retry: false,
    }
}

fn recorded_history(backend: &str, fork: bool) -> History {
    History::Recorded { native: Some((backend.parse().unwrap(), session("native"))), fork }
}

fn tried(choice: usize) -> AttemptRecord {
    AttemptRecord {
        choice,
        conversation: ConversationKind::New,
        prompt_kind: PromptKind::Prompt,
        vendor_session: None,
        had_side_effects: false,
    }
}

fn model_error(error: ModelError) -> AgentEnd {
    AgentEnd::Failed(Failure::Model { error, message: "x".to_owned() })
}

fn unknown_session() -> AgentEnd {
    AgentEnd::Failed(Failure::Session { reason: "x".to_owned() })
}

fn invalid_answer() -> AgentEnd {
    AgentEnd::Failed(Failure::Schema { reason: "x".to_owned(), errors: vec!["/a: x".to_owned()] })
}

fn again(choice: usize, thread: Continuation, prompt_kind: PromptKind) -> NextStep {
    NextStep::Again(Attempt { choice, continuation: thread, prompt_kind })
}

#[test]
fn the_first_attempt_takes_part_in_the_conversation_as_its_backend_can() {
    let thread = |backend: &str, past: History| first_attempt(&circumstances(&[backend], past)).continuation;
    assert_eq!(thread("a", History::Empty), Continuation::New);
    assert_eq!(thread("a", History::CallerChosen(session("mine"))), Continuation::Continue(session("mine")));
    assert_eq!(thread("a", recorded_history("a", false)), Continuation::Continue(session("native")));
    assert_eq!(thread("a", recorded_history("a", true)), Continuation::Fork(session("native")));
    assert_eq!(thread("b", recorded_history("a", false)), Continuation::Replay, "another backend now");
    assert_eq!(thread("b", recorded_history("a", true)), Continuation::Replay);
    assert_eq!(thread("a", History::Recorded { native: None, fork: false }), Continuation::Replay);
    let mut without_fork = circumstances(&["a"], recorded_history("a", true));
    without_fork.choices[0].supports_fork = false;
    assert_eq!(first_attempt(&without_fork).continuation, Continuation::Replay);
    let mut without_sessions = circumstances(&["a"], recorded_history("a", false));
    without_sessions.choices[0].supports_sessions = false;
    assert_eq!(first_attempt(&without_sessions).continuation, Continuation::Replay);
}

#[test]
fn a_shortage_leads_to_the_next_choice_until_there_is_none() {
    let all = circumstances(&["a", "a", "b"], History::Empty);
    for error in [ModelError::RateLimit, ModelError::Overloaded] {
        let end = model_error(error);
        assert_eq!(next_attempt(&all, &[tried(0)], &end), again(1, Continuation::New, PromptKind::Prompt));
        assert_eq!(
            next_attempt(&all, &[tried(0), tried(1)], &end),
            again(2, Continuation::New, PromptKind::Prompt)
        );
        assert_eq!(next_attempt(&all, &[tried(0), tried(1), tried(2)], &end), NextStep::Finish);
    }
    let unstarted = AgentEnd::Failed(Failure::Spawn { reason: "x".to_owned() });
    assert_eq!(next_attempt(&all, &[tried(0)], &unstarted), NextStep::Finish);
    assert_eq!(
        next_attempt(&all, &[tried(0), tried(1)], &unstarted),
        again(2, Continuation::New, PromptKind::Prompt)
    );
    let continued = circumstances(&["a", "b"], recorded_history("a", false));
    let end = model_error(ModelError::RateLimit);
    assert_eq!(
        next_attempt(&continued, &[tried(0)], &end),
        again(1, Continuation::Replay, PromptKind::Prompt)
    );
}

#[test]
fn no_other_end_leads_to_another_choice() {
    let all = circumstances(&["a", "b"], History::Empty);
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
        assert_eq!(next_attempt(&all, &[tried(0)], &end), NextStep::Finish, "{end:?}");
    }
}

#[test]
fn an_attempt_that_may_have_changed_something_is_continued_and_not_repeated() {
    let end = model_error(ModelError::RateLimit);
    let acted = AttemptRecord { vendor_session: Some(session("t")), had_side_effects: true, ..tried(0) };
    let same = circumstances(&["a", "a"], History::Empty);
    assert_eq!(
        next_attempt(&same, std::slice::from_ref(&acted), &end),
        again(1, Continuation::Continue(session("t")), PromptKind::Continue)
    );
    let other = circumstances(&["a", "b"], History::Empty);
    assert_eq!(next_attempt(&other, &[acted], &end), again(1, Continuation::Replay, PromptKind::Continue));
    let mut silent = circumstances(&["a", "b"], History::Empty);
    silent.choices[0].reports_tool_calls = false;
    assert_eq!(
        next_attempt(&silent, &[tried(0)], &end),
        again(1, Continuation::Replay, PromptKind::Continue),
        "nobody can know"
    );
}

#[test]
fn a_conversation_that_its_vendor_lost_is_replayed_once() {
    let all = circumstances(&["a"], recorded_history("a", false));
    let continued = AttemptRecord { conversation: ConversationKind::Continued, ..tried(0) };
    let end = unknown_session();
    assert_eq!(
        next_attempt(&all, std::slice::from_ref(&continued), &end),
        again(0, Continuation::Replay, PromptKind::Prompt)
    );
    let replayed = AttemptRecord { conversation: ConversationKind::Replayed, ..tried(0) };
    assert_eq!(next_attempt(&all, &[continued.clone(), replayed], &end), NextStep::Finish);
    let chosen = circumstances(&["a"], History::CallerChosen(session("mine")));
    assert_eq!(
        next_attempt(&chosen, &[continued], &end),
        NextStep::Finish,
        "nobody here knows what was said"
    );
}

#[test]
fn a_silent_agent_is_prompted_for_a_summary_once_if_it_has_a_template() {
    let mut all = circumstances(&["a"], History::Empty);
    assert_eq!(next_attempt(&all, &[tried(0)], &AgentEnd::Unanswered), NextStep::Finish);
    all.summary = true;
    assert_eq!(
        next_attempt(&all, &[tried(0)], &AgentEnd::Unanswered),
        again(0, Continuation::PreviousAttempt, PromptKind::Summary)
    );
    let summary = AttemptRecord { prompt_kind: PromptKind::Summary, ..tried(0) };
    assert_eq!(next_attempt(&all, &[tried(0), summary], &AgentEnd::Unanswered), NextStep::Finish);
}

#[test]
fn an_invalid_answer_is_requested_once_more_in_the_same_conversation() {
    let mut all = circumstances(&["a", "b"], History::Empty);
    let named = AttemptRecord { vendor_session: Some(session("t")), had_side_effects: true, ..tried(0) };
    let continued = again(0, Continuation::Continue(session("t")), PromptKind::Correct);
    assert_eq!(
        next_attempt(&all, std::slice::from_ref(&named), &invalid_answer()),
        continued,
        "also if it did things"
    );
    let corrected = AttemptRecord {
        prompt_kind: PromptKind::Correct,
        conversation: ConversationKind::Continued,
        ..named.clone()
    };
    assert_eq!(
        next_attempt(&all, &[named.clone(), corrected.clone()], &invalid_answer()),
        NextStep::Finish,
        "once"
    );
    let forgotten = AttemptRecord { had_side_effects: false, ..corrected.clone() };
    assert_eq!(
        next_attempt(&all, &[named.clone(), forgotten], &unknown_session()),
        again(0, Continuation::Replay, PromptKind::Correct)
    );
    let resumed = AttemptRecord { prompt_kind: PromptKind::Resume, ..corrected.clone() };
    assert_eq!(
        next_attempt(&all, &[named.clone(), corrected, resumed], &invalid_answer()),
        NextStep::Finish,
        "once in all"
    );
    assert_eq!(
        next_attempt(&all, &[tried(0)], &invalid_answer()),
        again(0, Continuation::Replay, PromptKind::Correct),
        "nobody named it"
    );
    all.choices[0].supports_sessions = false;
    assert_eq!(
        next_attempt(&all, std::slice::from_ref(&named), &invalid_answer()),
        again(0, Continuation::Replay, PromptKind::Correct)
    );
    all.choices[0].is_conversational = false;
    assert_eq!(
        next_attempt(&all, &[named], &invalid_answer()),
        NextStep::Finish,
        "a script says what it says"
    );
    let chosen = circumstances(&["a"], History::CallerChosen(session("mine")));
    let own = AttemptRecord { conversation: ConversationKind::Continued, ..tried(0) };
    assert_eq!(
        next_attempt(&chosen, &[own], &invalid_answer()),
        again(0, Continuation::Continue(session("mine")), PromptKind::Correct)
    );
}

#[test]
fn a_lost_worker_is_followed_only_where_nothing_is_done_twice() {
    let all = circumstances(&["a"], History::Empty);
    assert_eq!(resume_attempt(&all, &[]), Some(first_attempt(&all)), "nothing was begun");
    assert_eq!(resume_attempt(&all, &[tried(0)]), None, "begun, and nobody knows how far it came");
    let named = AttemptRecord { vendor_session: Some(session("t")), ..tried(0) };
    let on = Attempt {
        choice: 0,
        continuation: Continuation::Continue(session("t")),
        prompt_kind: PromptKind::Resume,
    };
    assert_eq!(resume_attempt(&all, std::slice::from_ref(&named)), Some(on));
    let mut without = all.clone();
    without.choices[0].supports_sessions = false;
    assert_eq!(resume_attempt(&without, &[named]), None);
}

fn any_end() -> impl Strategy<Value = AgentEnd> {
    prop_oneof![
        Just(model_error(ModelError::RateLimit)),
        Just(model_error(ModelError::Overloaded)),
        Just(model_error(ModelError::Denied)),
        Just(unknown_session()),
        Just(invalid_answer()),
        Just(AgentEnd::Unanswered),
        Just(AgentEnd::Done),
        Just(AgentEnd::Failed(Failure::Exit { code: 1 })),
    ]
}

fn any_past() -> impl Strategy<Value = History> {
    prop_oneof![
        Just(History::Empty),
        Just(History::CallerChosen(session("mine"))),
        Just(History::Recorded { native: None, fork: false }),
        any::<bool>().prop_map(|fork| recorded_history("a", fork)),
        any::<bool>().prop_map(|fork| recorded_history("b", fork)),
    ]
}

fn any_choice() -> impl Strategy<Value = BackendChoice> {
    ("[ab]", any::<[bool; 4]>()).prop_map(|(name, [sessions, forks, tells_tools, converses])| BackendChoice {
        backend: name.parse().unwrap(),
        supports_sessions: sessions,
        supports_fork: forks,
        reports_tool_calls: tells_tools,
        is_conversational: converses,
    })
}

proptest! {
    /// Plays whole runs: whatever happens, they come to an end, never return to an earlier choice, never repeat an
    /// attempt that may have changed something, and never continue a conversation with a vendor that does not have
    /// it.
    #[test]
    fn every_sequence_of_ends_comes_to_an_end(
        choices in proptest::collection::vec(any_choice(), 1..5),
        past in any_past(),
        summary in any::<bool>(),
        ends in proptest::collection::vec((any_end(), any::<bool>(), any::<bool>()), 40),
    ) {
        let context = RetryContext { choices, history: past, summary, retry: false };
        let (mut attempt, mut all, mut acted_before) = (first_attempt(&context), Vec::<AttemptRecord>::new(), false);
        for (end, acted, named) in ends {
            let choice = &context.choices[attempt.choice];
            if acted_before {
                prop_assert!(attempt.prompt_kind != PromptKind::Prompt, "{attempt:?} after {all:?}");
            }
            if let Continuation::Continue(id) = &attempt.continuation {
                let reported = all.iter().any(|tried| {
                    tried.vendor_session.as_ref() == Some(id)
                        && context.choices[tried.choice].backend == choice.backend
                });
                let from_before = match &context.history {
                    History::CallerChosen(_) => true,
                    History::Recorded { native: Some((backend, _)), .. } => *backend == choice.backend,
                    History::Recorded { native: None, .. } | History::Empty => false,
                };
                prop_assert!(reported || from_before);
            }
            let native = named.then(|| session(&format!("t{}", all.len())));
            let conversation = attempt.continuation.kind();
            acted_before |= acted;
            all.push(AttemptRecord { choice: attempt.choice, conversation, prompt_kind: attempt.prompt_kind, vendor_session: native, had_side_effects: acted });
            match next_attempt(&context, &all, &end) {
                NextStep::Finish => return Ok(()),
                NextStep::Again(another) => {
                    prop_assert!(another.choice >= attempt.choice);
                    prop_assert!(another.choice < context.choices.len());
                    attempt = another;
                }
            }
        }
        prop_assert!(false, "it never ends");
    }
}

#[test]
fn a_run_that_was_cut_short_is_retried_once_if_configured() {
    let mut all = circumstances(&["a"], History::Empty);
    assert_eq!(retry_after_timeout(&all, &[tried(0)]), None, "nobody wanted it");
    all.retry = true;
    let second = Attempt { choice: 0, continuation: Continuation::New, prompt_kind: PromptKind::Retry };
    assert_eq!(retry_after_timeout(&all, &[tried(0)]), Some(second.clone()));
    let failed = |failure: Failure| retry_after_crash(&all, &[tried(0)], &AgentEnd::Failed(failure));
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
    assert_eq!(retry_after_crash(&all, &[tried(0)], &AgentEnd::Done), None);
    let again = AttemptRecord { prompt_kind: PromptKind::Retry, ..tried(0) };
    assert_eq!(retry_after_timeout(&all, &[tried(0), again]), None, "there is no third");
    let summary = AttemptRecord { prompt_kind: PromptKind::Summary, ..tried(0) };
    assert_eq!(retry_after_timeout(&all, &[tried(0), summary]), None);
}

#[test]
fn a_second_try_stays_in_the_conversation() {
    let with = |past: History, last: AttemptRecord| {
        let all = RetryContext { retry: true, ..circumstances(&["a"], past) };
        retry_after_timeout(&all, &[last]).unwrap().continuation
    };
    let named = AttemptRecord { vendor_session: Some(session("own")), ..tried(0) };
    assert_eq!(with(History::Empty, named), Continuation::Continue(session("own")));
    assert_eq!(with(recorded_history("a", false), tried(0)), Continuation::Continue(session("native")));
    let replayed = AttemptRecord { conversation: ConversationKind::Replayed, ..tried(0) };
    assert_eq!(with(recorded_history("a", false), replayed), Continuation::Replay);
}
