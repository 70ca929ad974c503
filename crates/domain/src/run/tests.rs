//! Supervision: inputs in, effects out. State: any log in, a state out.

use proptest::prelude::*;
use serde_json::json;

use super::{
    AgentEnd, CallClass, CallDetails, CallKind, CancelRequest, Effect, Ending, Envelope, Event, Failure,
    LimitName, OnDisconnect, Outcome, PartialCause, Phase, ResultText, RunState, StdStream, StopMode,
    Supervision, SupervisionInput, SupervisionLimits, TimeLimit, Usage,
};
use crate::Timestamp;

#[test]
fn an_exit_code_is_explained_by_the_line_on_stderr_that_speaks_of_an_error() {
    let explained = |stderr: &str| {
        let failure = Failure::Exit { code: 1 };
        Ending { stderr_tail: stderr.to_owned(), ..Ending::from_outcome(Outcome::Failed { failure }) }
            .explanation()
    };
    let bare = "failed: the agent exited with code 1";
    assert_eq!(explained(" \n\n"), bare);
    for (stderr, reason) in [
        ("warming up\nno such model\n", "no such model"),
        ("error: no such model\nTry --help.\n", "error: no such model"),
        ("/x.js:1\nTypeError: no\n    at run (/x.js:1:1)\n\nNode.js v24.1.0\n", "TypeError: no"),
        ("\u{1b}[31mFATAL\u{1b}[0m: no login\r\n", "FATAL: no login"),
        ("  only an indented line\n", "only an indented line"),
    ] {
        assert_eq!(explained(stderr), format!("{bare}: {reason}"));
    }
    assert_eq!(explained(&"x".repeat(5_000)).len(), bare.len() + 2 + 500);
    let message = "it broke".to_owned();
    let reported = Ending {
        stderr_tail: "something else\n".to_owned(),
        ..Ending::from_outcome(Outcome::Failed { failure: Failure::Agent { message } })
    };
    assert_eq!(reported.explanation(), "failed: the agent reports: it broke", "it has a reason of its own");
}

const LIMITS: SupervisionLimits =
    SupervisionLimits { timeout_ms: 1_000, idle_timeout_ms: Some(300), grace_ms: 50 };

fn started() -> Supervision {
    let mut machine = Supervision::new(LIMITS, 0);
    assert_eq!(machine.step(0, SupervisionInput::Started), Vec::new());
    machine
}

fn order(now: bool) -> SupervisionInput {
    SupervisionInput::Cancel(CancelRequest { by: "ann".to_owned(), reason: String::new(), now })
}

fn stops(effects: &[Effect]) -> Vec<StopMode> {
    let stop = |effect: &Effect| match effect {
        Effect::StopTree(how) => Some(*how),
        Effect::Append(_) | Effect::Finish(_) => None,
    };
    effects.iter().filter_map(stop).collect()
}

#[test]
fn an_agent_that_ends_by_itself_gives_its_own_outcome() {
    let effects = started().step(10, SupervisionInput::Ended(AgentEnd::Done));
    assert_eq!(effects, vec![Effect::Finish(Outcome::Succeeded)]);
    let failure = Failure::Exit { code: 7 };
    let effects = started().step(10, SupervisionInput::Ended(AgentEnd::Failed(failure.clone())));
    assert_eq!(effects, vec![Effect::Finish(Outcome::Failed { failure })]);
}

#[test]
fn output_pushes_the_idle_time_out_away_but_not_the_total() {
    let mut machine = started();
    for now in (0..=900).step_by(200) {
        assert_eq!(machine.step(now, SupervisionInput::Output(StdStream::Stdout)), Vec::new());
        assert_eq!(machine.step(now, SupervisionInput::Tick), Vec::new());
    }
    assert_eq!(stops(&machine.step(1_000, SupervisionInput::Tick)), vec![StopMode::Ask]);
    let effects = machine.step(1_010, SupervisionInput::Ended(AgentEnd::Done));
    assert_eq!(effects, vec![Effect::Finish(Outcome::TimedOut { limit: TimeLimit::Total })]);

    let mut silent = started();
    assert_eq!(stops(&silent.step(300, SupervisionInput::Tick)), vec![StopMode::Ask]);
    let effects = silent.step(310, SupervisionInput::Ended(AgentEnd::Done));
    assert_eq!(effects, vec![Effect::Finish(Outcome::TimedOut { limit: TimeLimit::Idle })]);
}

#[test]
fn a_cancel_asks_then_kills_after_the_grace_and_the_first_reason_stays() {
    let mut machine = started();
    assert_eq!(stops(&machine.step(5, order(false))), vec![StopMode::Ask]);
    assert_eq!(machine.next_deadline(), Some(55));
    assert_eq!(machine.step(54, SupervisionInput::Tick), Vec::new());
    assert_eq!(stops(&machine.step(55, SupervisionInput::Tick)), vec![StopMode::Kill]);
    assert_eq!(
        machine.step(2_000, SupervisionInput::Tick),
        Vec::new(),
        "the total time-out no longer matters"
    );
    let end = SupervisionInput::Ended(AgentEnd::Failed(Failure::Signal { signal: 9 }));
    assert_eq!(machine.step(60, end), vec![Effect::Finish(Outcome::Cancelled { by: "ann".to_owned() })]);
    assert!(machine.is_finished());
    assert_eq!(machine.step(61, order(true)), Vec::new(), "an outcome beats a cancel");
}

#[test]
fn a_second_cancel_kills_now() {
    let mut machine = started();
    machine.step(5, order(false));
    assert_eq!(stops(&machine.step(6, order(false))), vec![StopMode::Kill]);
    assert_eq!(stops(&started().step(5, order(true))), vec![StopMode::Kill]);
}

#[test]
fn a_disconnect_cancels_after_its_grace_or_not_at_all() {
    let mut machine = started();
    machine.step(10, SupervisionInput::ClientDisconnected(OnDisconnect::Cancel { grace_ms: 100 }));
    assert_eq!(machine.step(109, SupervisionInput::Tick), Vec::new());
    assert_eq!(stops(&machine.step(110, SupervisionInput::Tick)), vec![StopMode::Ask]);
    let mut machine = started();
    let effects = machine.step(10, SupervisionInput::ClientDisconnected(OnDisconnect::Continue));
    assert_eq!(effects, vec![Effect::Append(Event::ClientDisconnected { policy: OnDisconnect::Continue })]);
    assert_eq!(machine.next_deadline(), Some(300));
}

#[test]
fn waiting_for_a_person_stops_the_clocks() {
    let mut machine = started();
    machine.step(100, SupervisionInput::WaitBegan);
    assert_eq!(machine.step(50_000, SupervisionInput::Tick), Vec::new());
    assert_eq!(machine.hard_deadline(10), None);
    machine.step(50_000, SupervisionInput::WaitEnded);
    assert_eq!(machine.next_deadline(), Some(50_200), "the idle time-out has 200 ms left");
}

#[test]
fn a_runaway_is_killed_at_once_and_named() {
    let mut machine = started();
    let effects = machine.step(5, SupervisionInput::LimitExceeded(LimitName::Memory, "2 GiB".to_owned()));
    assert_eq!(stops(&effects), vec![StopMode::Kill]);
    let end = machine.step(6, SupervisionInput::Ended(AgentEnd::Failed(Failure::Signal { signal: 9 })));
    let failure = Failure::Limit { limit: LimitName::Memory };
    assert_eq!(end, vec![Effect::Finish(Outcome::Failed { failure })]);
}

#[test]
fn early_ends_with_usable_output_are_partial() {
    let cut = Outcome::TimedOut { limit: TimeLimit::Total };
    assert_eq!(
        cut.clone().with_output(true),
        Outcome::Partial { cause: PartialCause::TimedOut { limit: TimeLimit::Total } }
    );
    assert_eq!(cut.clone().with_output(false), cut);
    let failed = Outcome::Failed { failure: Failure::Exit { code: 1 } };
    assert_eq!(failed.clone().with_output(true), failed);
}

fn inputs() -> impl Strategy<Value = SupervisionInput> {
    prop_oneof![
        Just(SupervisionInput::Started),
        Just(SupervisionInput::Output(StdStream::Stdout)),
        Just(SupervisionInput::Ended(AgentEnd::Done)),
        Just(order(false)),
        Just(order(true)),
        Just(SupervisionInput::ClientDisconnected(OnDisconnect::Cancel { grace_ms: 7 })),
        Just(SupervisionInput::LimitExceeded(LimitName::Cpu, String::new())),
        Just(SupervisionInput::WaitBegan),
        Just(SupervisionInput::WaitEnded),
        Just(SupervisionInput::StorageFailed("disk".to_owned())),
        Just(SupervisionInput::Tick),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_a_run_finishes_at_most_once_and_always_when_its_agent_ends(
        seen in proptest::collection::vec((0_u64..400, inputs()), 0..40)
    ) {
        let mut machine = Supervision::new(LIMITS, 0);
        let (mut now, mut finishes) = (0, 0);
        for (passed, input) in seen {
            now += passed;
            let effects = machine.step(now, input);
            finishes += effects.iter().filter(|effect| matches!(effect, Effect::Finish(_))).count();
            prop_assert_eq!(finishes == 1, machine.is_finished());
        }
        let last = machine.step(now + 1, SupervisionInput::Ended(AgentEnd::Done));
        finishes += last.iter().filter(|effect| matches!(effect, Effect::Finish(_))).count();
        prop_assert_eq!(finishes, 1);
    }

    #[test]
    fn the_hard_deadline_is_never_in_the_past(
        seen in proptest::collection::vec((0_u64..400, inputs()), 0..40)
    ) {
        let mut machine = Supervision::new(LIMITS, 0);
        let mut now = 0;
        for (passed, input) in seen {
            // The worker wakes for every deadline of its machine.
            for _ in 0..passed {
                now += 1;
                if machine.next_deadline().is_some_and(|at| at <= now) {
                    machine.step(now, SupervisionInput::Tick);
                }
                let hung = machine.hard_deadline(1_000).is_some_and(|at| at < now);
                prop_assert!(!hung || machine.next_deadline().is_none(), "{machine:?} at {now}");
            }
            let before = machine.clone();
            let effects = machine.step(now, input);
            let acted = effects.iter().any(|effect| !matches!(effect, Effect::Append(_)));
            if acted {
                prop_assert!(machine.hard_deadline(1_000).is_none_or(|at| at >= now + 1_000), "{before:?} at {now}");
            }
        }
    }

    #[test]
    fn every_prefix_of_a_log_folds_to_a_state(log in proptest::collection::vec(events(), 0..30), cut in 0_usize..30) {
        let log: Vec<Envelope> = (0_u64..).zip(log).map(|(seq, event)| envelope(seq, event)).collect();
        let prefix = &log[..cut.min(log.len())];
        let state = RunState::fold(prefix);
        let ended = prefix.iter().position(|line| matches!(line.event, Event::Ended { .. }));
        prop_assert_eq!(state.ending().is_some(), ended.is_some());
        prop_assert_eq!(state.next_seq, ended.map_or(prefix.len(), |at| at + 1) as u64);
    }

    #[test]
    fn events_survive_being_written_and_read(event in events()) {
        let text = serde_json::to_string(&envelope(3, event.clone())).unwrap();
        let read: Envelope = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read, envelope(3, event));
    }
}

fn envelope(seq: u64, event: Event) -> Envelope {
    Envelope { seq, epoch: 1, at: Timestamp::UNIX_EPOCH, event }
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Succeeded),
        Just(Outcome::TimedOut { limit: TimeLimit::Idle }),
        ".*".prop_map(|by| Outcome::Cancelled { by }),
        ".*".prop_map(|by| Outcome::Partial { cause: PartialCause::Cancelled { by } }),
        any::<i32>().prop_map(|code| Outcome::Failed { failure: Failure::Exit { code } }),
        Just(Outcome::Failed { failure: Failure::Limit { limit: LimitName::Memory } }),
        ".*".prop_map(|reason| Outcome::Refused { reason }),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    let ending = (outcomes(), ".*", any::<u32>()).prop_map(|(outcome, text, duration)| {
        let mut ending = Ending::from_outcome(outcome);
        ending.result = ResultText::Inline(text);
        ending.duration_ms = u64::from(duration);
        Event::Ended { ending: Box::new(ending) }
    });
    prop_oneof![
        8 => (0_u32..4).prop_map(|call| Event::CallRequested {
            call,
            kind: CallKind::Tool,
            class: CallClass::Effect,
            name: "write".to_owned(),
            input: json!({"path": "a"}),
            turn: None,
            verdict: None,
        }),
        8 => (0_u32..4, any::<bool>(), ".*")
            .prop_map(|(call, ok, output)| Event::CallCompleted { call, ok, output, details: None }),
        4 => (0_u32..4).prop_map(|call| Event::CallInDoubt { call }),
        4 => ".*".prop_map(|text| Event::AnswerAppended { text }),
        2 => any::<u32>().prop_map(|pid| Event::Claimed {
            keeper_pid: pid,
            worker_pid: pid,
            version: "0".to_owned(),
        }),
        2 => Just(Event::UsageReported { usage: Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() }, model: None }),
        1 => ending,
    ]
}

#[test]
fn a_completed_call_stays_completed_and_a_stale_writer_changes_nothing() {
    let request = Event::CallRequested {
        call: 0,
        kind: CallKind::Tool,
        class: CallClass::Effect,
        name: "append".to_owned(),
        input: json!(null),
        turn: None,
        verdict: None,
    };
    let done = Event::CallCompleted { call: 0, ok: true, output: "x".to_owned(), details: None };
    let mut log = vec![envelope(0, request.clone()), envelope(1, done), envelope(2, request)];
    let mut stale = envelope(3, Event::AnswerAppended { text: "late".to_owned() });
    stale.epoch = 0;
    log.push(stale);
    let state = RunState::fold(&log);
    assert_eq!(state.calls[&0].completed, Some((true, "x".to_owned())));
    assert_eq!((state.answer_text.as_str(), state.phase), ("", Phase::Accepted));
}

#[test]
fn output_and_usage_of_an_interrupted_call_do_not_count_twice() {
    let request = |call| Event::CallRequested {
        call,
        kind: CallKind::Model,
        class: CallClass::Pure,
        name: "say".to_owned(),
        input: json!(null),
        turn: None,
        verdict: None,
    };
    let done = |call| Event::CallCompleted { call, ok: true, output: String::new(), details: None };
    let answer_event = |text: &str| Event::AnswerAppended { text: text.to_owned() };
    let used = Event::UsageReported {
        usage: Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() },
        model: None,
    };
    let first = [
        request(0),
        answer_event("one\n"),
        used.clone(),
        done(0),
        request(1),
        answer_event("two\n"),
        used.clone(),
    ];
    let again = [request(1), answer_event("two\n"), used, done(1)];
    let log: Vec<_> =
        (0..).zip(first.into_iter().chain(again)).map(|(seq, event)| envelope(seq, event)).collect();
    let state = RunState::fold(&log);
    assert_eq!((state.answer_text.as_str(), state.usage.output_tokens), ("one\ntwo\n", 4));
}

#[test]
fn calls_of_one_turn_may_overlap_and_each_counts_its_own_usage_once() {
    let request = |call, kind| Event::CallRequested {
        call,
        kind,
        class: CallClass::Pure,
        name: "x".to_owned(),
        input: json!(null),
        turn: Some(0),
        verdict: None,
    };
    let usage = Usage { input_tokens: 10, output_tokens: 1, ..Usage::default() };
    let done = |call, usage| Event::CallCompleted {
        call,
        ok: true,
        output: String::new(),
        details: Some(Box::new(CallDetails { usage, model: Some("m".to_owned()), body: None })),
    };
    let text = Event::AnswerAppended { text: "I read both.".to_owned() };
    let events = [
        began(0, super::PromptKind::Prompt),
        request(0, CallKind::Model),
        done(0, Some(usage)),
        text,
        request(1, CallKind::Tool),
        request(2, CallKind::Tool),
        done(2, None),
        // The worker was lost: call 1 is requested again, and a late line repeats the end of call 0.
        request(1, CallKind::Tool),
        done(1, None),
        done(0, Some(usage)),
    ];
    let log: Vec<_> = (0..).zip(events).map(|(seq, event)| envelope(seq, event)).collect();
    let state = RunState::fold(&log);
    assert_eq!((state.usage.input_tokens, state.usage.output_tokens), (10, 1));
    assert_eq!(state.attempts[0].usage_by_model[0].model.as_deref(), Some("m"));
    assert_eq!((state.answer_text.as_str(), state.tools_called), ("I read both.", 2));
    assert!(state.calls.values().all(|call| call.completed.is_some()));
}

/// An agent can be denied things for as long as its run lasts.
#[test]
fn a_state_stores_a_bounded_number_of_distinct_denials() {
    let denial = |number: usize| super::Denial {
        tool: "Bash".to_owned(),
        subject: Some(number.to_string()),
        cause: super::DenialCause::Level,
        reason: "the level".to_owned(),
        by: None,
        allow_rules: Vec::new(),
    };
    let mut state = RunState::default();
    // Each denial twice.
    for (seq, number) in (0..1_000).flat_map(|number| [number, number]).enumerate() {
        state.apply(&envelope(seq as u64, Event::ToolDenied { denial: denial(number) }));
    }
    let expected: Vec<_> = (0..100).map(denial).collect();
    assert_eq!((state.denials, state.denials_count), (expected, 2_000));
}

fn began(choice: u32, prompt_kind: super::PromptKind) -> Event {
    Event::AttemptStarted {
        choice,
        backend: "b".to_owned(),
        model: None,
        conversation: super::ConversationKind::New,
        prompt_kind,
        reason: "no room".to_owned(),
    }
}

#[test]
fn an_answer_is_that_of_its_own_attempt_and_usage_is_that_of_all() {
    let answer_event = |text: &str| Event::AnswerAppended { text: text.to_owned() };
    let used = || Event::UsageReported {
        usage: Usage { input_tokens: 2, output_tokens: 1, ..Usage::default() },
        model: None,
    };
    let tool = |name: &str| Event::ToolCalled { id: "1".to_owned(), name: name.to_owned(), input: json!({}) };
    let events = [
        began(0, super::PromptKind::Prompt),
        answer_event("one"),
        Event::ResultSubmitted { text: "handed in".to_owned() },
        used(),
        tool("Read"),
        began(1, super::PromptKind::Prompt),
        answer_event("two"),
        used(),
        tool("Bash"),
        Event::ToolReturned { id: "1".to_owned(), ok: false, output: String::new() },
    ];
    let mut events: Vec<Event> = events.into();
    let fold = |events: &[Event]| {
        let envelope = |(seq, event): (usize, &Event)| Envelope {
            seq: seq as u64,
            epoch: 1,
            at: Timestamp::UNIX_EPOCH,
            event: event.clone(),
        };
        let all: Vec<Envelope> = events.iter().enumerate().map(envelope).collect();
        RunState::fold(&all)
    };
    let state = fold(&events);
    assert_eq!((state.answer_text.as_str(), state.usage.input_tokens), ("two", 4));
    assert_eq!(state.submitted, None, "what was handed in before is no answer of this one");
    let acted: Vec<bool> = state.attempts.iter().map(|attempt| attempt.had_side_effects).collect();
    assert_eq!((acted, state.attempts[0].answer_text.as_str()), (vec![false, true], "one"));
    assert_eq!(state.attempts[1].tools[0].ok, Some(false));
    events.push(Event::ResultSubmitted { text: "mine".to_owned() });
    events.extend([began(1, super::PromptKind::Resume), answer_event(" and more")]);
    let state = fold(&events);
    assert_eq!(state.answer_text, "two and more", "a lost worker's attempt goes on");
    assert_eq!(state.submitted.as_deref(), Some("mine"));
}

#[test]
fn a_success_is_verified_only_by_all_of_its_commands() {
    let accept = vec![vec!["true".to_owned()], vec!["make".to_owned(), "check".to_owned()]];
    let started =
        |number: u32| Event::AcceptanceStarted { number, pid: 7, argv: accept[number as usize].clone() };
    let ended = |number, code| Event::AcceptanceEnded {
        number,
        exit: super::CommandExit::Code(code),
        duration_ms: 1,
        output: "the end".to_owned(),
    };
    let end = |outcome| Event::Ended { ending: Box::new(super::Ending::from_outcome(outcome)) };
    let verification_of = |accept: &[Vec<String>], events: &[Event]| {
        let envelope = |(seq, event): (usize, &Event)| Envelope {
            seq: seq as u64,
            epoch: 1,
            at: Timestamp::UNIX_EPOCH,
            event: event.clone(),
        };
        let all: Vec<Envelope> = events.iter().enumerate().map(envelope).collect();
        RunState::fold(&all).verification(accept)
    };
    use super::Verification::{Claimed, Verified};
    let passed = [started(0), ended(0, 0), started(1), ended(1, 0)];
    let whole: Vec<Event> = passed.iter().cloned().chain([end(Outcome::Succeeded)]).collect();
    assert_eq!(verification_of(&accept, &whole), Some(Verified));
    assert_eq!(verification_of(&accept, &passed), None, "it has not ended");
    assert_eq!(verification_of(&accept, &[end(Outcome::Succeeded)]), Some(Claimed));
    assert_eq!(verification_of(&[], &[end(Outcome::Succeeded)]), Some(Claimed));
    let again: Vec<Event> = [started(0), ended(0, 0)].into_iter().chain(whole).collect();
    assert_eq!(verification_of(&accept, &again), Some(Verified), "a worker that takes over begins again");
    let timed_out = Outcome::TimedOut { limit: super::TimeLimit::Total };
    let hung = [started(0), end(timed_out.clone().with_output(true))];
    assert_eq!(verification_of(&accept, &hung), Some(Claimed));
    assert_eq!(verification_of(&accept, &[end(timed_out)]), None);
}

#[test]
fn a_second_try_has_all_of_the_time_again_and_is_for_those_whose_time_was_up() {
    let mut machine = started();
    assert_eq!(stops(&machine.step(1_000, SupervisionInput::Tick)), vec![StopMode::Ask]);
    assert!(machine.is_out_of_time() && !machine.is_running());
    assert_eq!(machine.step(1_010, SupervisionInput::Retried), Vec::new());
    assert!(machine.is_running());
    assert_eq!(machine.remaining_ms(1_010), LIMITS.timeout_ms);
    assert_eq!(
        machine.step(1_020, SupervisionInput::Ended(AgentEnd::Done)),
        vec![Effect::Finish(Outcome::Succeeded)],
        "what stopped the attempt before is not its outcome"
    );
    let mut machine = started();
    machine.step(5, order(false));
    assert!(!machine.is_out_of_time());
    machine.step(6, SupervisionInput::Retried);
    assert!(!machine.is_running(), "what somebody cancelled is not begun again");
}

#[test]
fn a_run_that_is_tried_again_is_not_stopping_any_more() {
    let events = [
        began(0, super::PromptKind::Prompt),
        Event::StopRequested { how: StopMode::Ask, because: "time".to_owned() },
        began(0, super::PromptKind::Retry),
    ];
    let mut state = RunState::default();
    for (seq, event) in events.into_iter().enumerate() {
        let at = Timestamp::from_second(seq as i64).unwrap();
        state.apply(&Envelope { seq: seq as u64, epoch: 1, at, event });
    }
    assert_eq!((&state.phase, state.attempts.len()), (&Phase::Running, 2));
}
