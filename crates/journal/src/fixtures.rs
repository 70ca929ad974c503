//! Test fixtures of this crate: a temporary home, a spec, and generators of events.

use domain::Timestamp;
use domain::agent::Delegates;
use domain::budget::Limits;
use domain::id::{AgentName, RunId};
use domain::run::{
    AnswerOrigin, BackendSpec, CallClass, CallKind, Caller, CallerOrigin, Containment, ContainmentDemand,
    ConversationKind, Cost, CostBasis, Denial, DenialCause, Ending, Enforcer, Event, Failure, LimitName,
    LostProcess, ModelError, OnDisconnect, OnInterrupt, Outcome, OutcomeKind, PartialCause, PromptKind,
    ResultText, RunSpec, SPEC_VERSION, StdStream, StopMode, TimeLimit, Usage,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::durable::{Disk, Faults};
use crate::home::Home;
use crate::run_dir::NewRun;

/// A home that is removed when its test ends.
pub(crate) struct TestHome {
    pub(crate) home: Home,
    _root: tempfile::TempDir,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        Self { home: Home::open(&root.path().join("home")).expect("a home"), _root: root }
    }

    /// Returns the same home on a disk that fails.
    pub(crate) fn broken(&self, faults: Faults) -> Home {
        Home::open_on(self.home.path(), Disk::broken(faults)).expect("a home")
    }

    pub(crate) fn run(&self) -> NewRun {
        self.home.create_run(&spec(1)).expect("a run")
    }
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_000 + second).expect("a moment")
}

pub(crate) fn run_id(number: u8) -> RunId {
    RunId::from_parts(at(0), [number; 10])
}

pub(crate) fn spec(number: u8) -> RunSpec {
    spec_with_id(run_id(number))
}

pub(crate) fn spec_with_id(id: RunId) -> RunSpec {
    RunSpec {
        version: SPEC_VERSION,
        id,
        created_at: id.created_at(),
        agent: "reviewer".parse().expect("a name"),
        source: "/p/.volery/agents/reviewer.md".to_owned(),
        backend: BackendSpec {
            name: "rehearsal".parse().expect("a name"),
            kind: "rehearsal".to_owned(),
            options: json!({"steps": [1, 2]}),
        },
        prompt: "look at \"it\"\nnow".to_owned(),
        system_prompt: String::new(),
        model: None,
        resumed_run: None,
        session: None,
        fork: false,
        prior_exchanges: Vec::new(),
        directory: "/p".to_owned(),
        project: "/p".to_owned(),
        caller: Caller { origin: CallerOrigin::Shell, name: "main".to_owned(), token: None },
        parent: None,
        root: id,
        depth: 0,
        limits: Limits::default(),
        env: vec!["API_TOKEN".to_owned()],
        delegates: Delegates::Nobody,
        on_disconnect: OnDisconnect::Continue,
        on_interrupt: OnInterrupt::End,
        containment: ContainmentDemand::Auto,
        setup: domain::setup::Setup::default(),
        fallbacks: Vec::new(),
        prices: std::collections::BTreeMap::new(),
        tag: u64::MAX,
        unattended: None,
        timeout_covers_wait: false,
        grants: Vec::new(),
        agent_loop: None,
        inputs: Default::default(),
        trusted_executables_digest: None,
        idempotency: None,
        iac: None,
        warnings: Vec::new(),
    }
}

pub(crate) fn text_event(text: &str) -> Event {
    Event::AnswerAppended { text: text.to_owned() }
}

pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any_lifecycle_event(),
        any_agent_event(),
        any_ending().prop_map(|ending| Event::Ended { ending: Box::new(ending) })
    ]
}

/// Generates any event except `Ended`.
pub(crate) fn any_event_but_ended() -> impl Strategy<Value = Event> {
    prop_oneof![any_lifecycle_event(), any_agent_event()]
}

fn any_lifecycle_event() -> impl Strategy<Value = Event> {
    let question = "[a-z][a-z0-9._-]{0,8}".prop_map(|text| text.parse().expect("a question id"));
    prop_oneof![
        (any::<u32>(), any::<u32>(), text()).prop_map(|(keeper_pid, worker_pid, version)| Event::Claimed {
            keeper_pid,
            worker_pid,
            version
        }),
        any::<u64>().prop_map(|ticket| Event::Queued { ticket }),
        any::<u64>().prop_map(|waited_ms| Event::SlotTaken { waited_ms }),
        (any_usage(), any::<Option<String>>())
            .prop_map(|(usage, model)| Event::UsageReported { usage, model }),
        any::<u32>().prop_map(|call| Event::CallInDoubt { call }),
        (question, text(), 0_i64..1000).prop_map(|(question, text, second)| Event::QuestionRaised {
            question,
            text,
            until: at(second),
            allow_rules: vec!["Bash(touch:*)".to_owned()],
        }),
        any::<u64>().prop_map(|kept_bytes| Event::OutputTruncated {
            stream: StdStream::Stderr,
            retained_bytes: kept_bytes
        }),
        text().prop_map(|detail| Event::LimitExceeded { limit: LimitName::Memory, detail }),
        any::<u64>()
            .prop_map(|grace_ms| Event::ClientDisconnected { policy: OnDisconnect::Cancel { grace_ms } }),
        Just(Event::ClientDisconnected { policy: OnDisconnect::Continue }),
        text().prop_map(|because| Event::StopRequested { how: StopMode::Ask, because }),
        any::<u8>().prop_map(|number| Event::ChildStarted { run: run_id(number), agent: agent() }),
        any::<u8>()
            .prop_map(|number| Event::ChildEnded { run: run_id(number), outcome: OutcomeKind::TimedOut }),
    ]
}

fn any_agent_event() -> impl Strategy<Value = Event> {
    let question = "[a-z][a-z0-9._-]{0,8}".prop_map(|text| text.parse().expect("a question id"));
    prop_oneof![
        text().prop_map(|text| Event::AnswerAppended { text }),
        text().prop_map(|model| Event::ModelReported { model }),
        (text(), text(), any_value()).prop_map(|(id, name, input)| Event::ToolCalled { id, name, input }),
        (text(), any::<bool>(), text()).prop_map(|(id, ok, output)| Event::ToolReturned { id, ok, output }),
        (text(), text(), proptest::option::of(text())).prop_map(|(because, backend, model)| {
            Event::AttemptStarted {
                choice: 1,
                backend,
                model,
                conversation: ConversationKind::Replayed,
                prompt_kind: PromptKind::Continue,
                reason: because,
            }
        }),
        text().prop_map(|message| Event::Warned { message }),
        (text(), proptest::option::of(text()), text()).prop_map(|(tool, subject, reason)| {
            let (by, allow_rules) = (subject.clone(), vec![reason.clone()]);
            let denial = Denial { tool, subject, cause: DenialCause::Level, reason, by, allow_rules };
            Event::ToolDenied { denial }
        }),
        (any::<u32>(), text(), any_value()).prop_map(|(call, name, input)| Event::CallRequested {
            call,
            kind: CallKind::Tool,
            class: CallClass::Effect,
            name,
            input,
            turn: call.checked_rem(3),
            verdict: None,
        }),
        (any::<u32>(), any::<bool>(), text()).prop_map(|(call, ok, output)| Event::CallCompleted {
            call,
            ok,
            output,
            details: None,
        }),
        (question, any::<bool>(), text(), text()).prop_map(|(question, allowed, text, by)| {
            let origin = allowed.then_some(AnswerOrigin::Terminal);
            Event::QuestionAnswered { question, allowed, by, origin, granted_rules: vec![text.clone()], text }
        }),
        (text(), text()).prop_map(|(by, reason)| Event::CancelRequested { by, reason }),
        (any::<u32>(), prop::collection::vec(text(), 0..4), text()).prop_map(|(pid, argv, missing)| {
            let limits = [("memory".to_owned(), Enforcer::Rlimit)].into();
            let containment = Containment {
                subreaper: true,
                cgroup: Some("v2".to_owned()),
                tags: vec!["rlimit".to_owned()],
                limits,
                missing: vec![missing],
                ..Containment::default()
            };
            Event::AgentStarted { pid, argv, containment }
        }),
    ]
}

pub(crate) fn any_ending() -> impl Strategy<Value = Ending> {
    let result = prop_oneof![
        Just(ResultText::Nothing),
        text().prop_map(ResultText::Inline),
        any::<u64>().prop_map(|bytes| ResultText::File { bytes }),
    ];
    (any_outcome(), result, any::<u64>(), any_usage(), any::<Option<i32>>(), text(), any::<u32>()).prop_map(
        |(outcome, result, duration_ms, usage, exit_code, stderr_tail, killed)| Ending {
            outcome,
            result,
            duration_ms,
            usage,
            exit_code,
            stderr_tail,
            waited_for: String::new(),
            killed,
            denials_count: u64::from(killed),
            idle_timeout_ms: exit_code.map(i32::unsigned_abs).map(u64::from),
            structured: None,
            repaired: false,
            backend: None,
        },
    )
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Succeeded),
        Just(Outcome::Partial { cause: PartialCause::TimedOut { limit: TimeLimit::Idle } }),
        text().prop_map(|by| Outcome::Partial { cause: PartialCause::Cancelled { by } }),
        any::<i32>().prop_map(|code| Outcome::Failed { failure: Failure::Exit { code } }),
        text().prop_map(|message| Outcome::Failed { failure: Failure::Agent { message } }),
        text().prop_map(|message| Outcome::Failed {
            failure: Failure::Model { error: ModelError::RateLimit, message }
        }),
        Just(Outcome::TimedOut { limit: TimeLimit::Total }),
        text().prop_map(|by| Outcome::Cancelled { by }),
        Just(Outcome::OverBudget { limit: LimitName::TreeRuns }),
        text().prop_map(|reason| Outcome::Refused { reason }),
        Just(Outcome::Interrupted { lost: LostProcess::KeeperAndWorker }),
    ]
}

fn any_usage() -> impl Strategy<Value = Usage> {
    let tokens = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    (tokens, any::<Option<u64>>()).prop_map(|((input, output, read, written), cost)| Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: read,
        cache_write_tokens: written,
        cost: cost.map(|microusd| Cost { microusd, basis: CostBasis::Computed }),
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "\\PC{0,8}",
        prop::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter)
    ]
}

fn agent() -> AgentName {
    "helper-1".parse().expect("a name")
}
