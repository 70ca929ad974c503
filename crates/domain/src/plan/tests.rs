//! Whether a run is accepted: values in, a spec or a refusal out.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Order, Parent, Place, Refusal, plan};
use crate::Timestamp;
use crate::agent::{Agent, Callers, Delegates, Format, Layer, Source};
use crate::budget::AskedLimits;
use crate::id::RunId;
use crate::run::{BackendSpec, Caller, Door, LimitName, OnDisconnect, RunSpec};

fn agent() -> Agent {
    let source = Source { file: "shout.md".to_owned(), format: Format::Volery, layer: Layer::Project };
    let agent = Agent::new("shout".parse().unwrap(), "upper".parse().unwrap(), source);
    Agent { system_prompt: "Be loud.".to_owned(), delegates: Delegates::Anyone, ..agent }
}

fn order(prompt: &str) -> Order {
    Order {
        prompt: prompt.to_owned(),
        context: None,
        inputs: crate::inputs::Inputs::new(),
        session: None,
        fork: false,
        told: Vec::new(),
        resumes: None,
        model: None,
        output_schema: None,
        limits: AskedLimits::default(),
        on_disconnect: None,
        grants: Vec::new(),
        unattended: None,
        idempotency: None,
        iac: None,
    }
}

fn place(parent: Option<Parent>) -> Place {
    let (door, name) = match &parent {
        Some(parent) => (Door::Run, parent.spec.agent.to_string()),
        None => (Door::Shell, "main".to_owned()),
    };
    Place {
        id: RunId::from_parts(Timestamp::UNIX_EPOCH, [7; 10]),
        now: Timestamp::UNIX_EPOCH,
        tag: 1,
        directory: "/w".to_owned(),
        project: "/w".to_owned(),
        caller: Caller { door, name, token: None },
        backend: BackendSpec {
            name: "upper".parse().unwrap(),
            kind: "command".to_owned(),
            options: json!({}),
        },
        alternatives: Vec::new(),
        prices: BTreeMap::new(),
        configured_limits: Vec::new(),
        on_disconnect: OnDisconnect::Continue,
        parent,
    }
}

fn root() -> RunSpec {
    plan(&agent(), order("first"), place(None)).unwrap()
}

fn parent(spec: RunSpec) -> Parent {
    let line = vec![(spec.agent.clone(), spec.prompt.clone())];
    Parent { spec, children: 0, tree_runs: 1, remaining_ms: 1_000, line }
}

#[test]
fn who_answers_the_questions_of_a_child_is_decided_by_its_root() {
    let unattended = |reason: &str| Order { unattended: Some(reason.to_owned()), ..order("first") };
    let top = plan(&agent(), unattended("no terminal"), place(None)).unwrap();
    assert_eq!(top.unattended.as_deref(), Some("no terminal"));
    let child = plan(&agent(), order("second"), place(Some(parent(top)))).unwrap();
    assert_eq!(child.unattended.as_deref(), Some("no terminal"));
    let other = Order { prompt: "other".to_owned(), ..unattended("the client") };
    assert_eq!(plan(&agent(), other, place(Some(parent(root())))).unwrap().unattended, None);
}

#[test]
fn prompts_that_no_agent_could_use_are_refused() {
    let refused = |prompt: &str| plan(&agent(), order(prompt), place(None)).unwrap_err();
    assert_eq!(refused(" \n"), Refusal::EmptyPrompt);
    assert_eq!(refused("a\0b"), Refusal::NulInPrompt);
    let long = "x".repeat(super::PROMPT_BYTES_MAX + 1);
    assert_eq!(refused(&long), Refusal::PromptTooLong { bytes: long.len() });
}

#[test]
fn a_model_that_could_be_taken_for_an_option_is_refused_whoever_asks_for_it() {
    let asked = |model: &str| {
        let order = Order { model: Some(model.to_owned()), ..order("do it") };
        plan(&agent(), order, place(None)).map(|spec| spec.model)
    };
    assert_eq!(asked("large-1:free/x"), Ok(Some("large-1:free/x".to_owned())));
    for sly in ["--force", "-x", "a\nb", &"x".repeat(201)] {
        assert!(matches!(asked(sly), Err(Refusal::Model { .. })), "{sly}");
    }
    let own = Agent { model: Some("--force".to_owned()), ..agent() };
    let refused = plan(&own, order("do it"), place(None)).unwrap_err();
    assert_eq!(refused.to_string(), "\"--force\" is not the name of a model");
}

#[test]
fn context_counts_towards_the_prompt_and_stands_before_it() {
    let mut with = order("do it");
    with.context = Some("we are in Rust\n".to_owned());
    let spec = plan(&agent(), with, place(None)).unwrap();
    assert_eq!(spec.prompt, "<context>\nwe are in Rust\n</context>\n\ndo it");
}

#[test]
fn inputs_stand_between_context_and_prompt_and_are_checked() {
    let mut asking = agent();
    asking.inputs = vec![crate::agent::Input {
        name: "branch".to_owned(),
        kind: "string".to_owned(),
        required: true,
        default: None,
        description: String::new(),
    }];
    let mut with = order("do it");
    with.context = Some("in Rust".to_owned());
    with.inputs = [("branch".to_owned(), json!("main"))].into();
    let spec = plan(&asking, with.clone(), place(None)).unwrap();
    let told = "<context>\nin Rust\n</context>\n\n<inputs>\n{\n  \"branch\": \"main\"\n}\n</inputs>\n\ndo it";
    assert_eq!(spec.prompt, told);
    let refused = plan(&agent(), with, place(None)).unwrap_err();
    let problems = vec!["there is no input branch: the agent has none".to_owned()];
    assert_eq!(refused, Refusal::Inputs { agent: asking.name.clone(), problems });
    let missing = plan(&asking, order("do it"), place(None)).unwrap_err();
    assert!(missing.to_string().contains("the input branch is missing"), "{missing}");
}

#[test]
fn a_child_is_bounded_by_depth_fan_out_tree_and_remaining_time() {
    let accepted = plan(&agent(), order("second"), place(Some(parent(root())))).unwrap();
    assert_eq!((accepted.depth, accepted.limits.timeout_ms), (1, 1_000));
    assert_eq!((accepted.parent, accepted.root), (Some(root().id), root().id));

    let limit = |change: fn(&mut Parent)| {
        let mut parent = parent(root());
        change(&mut parent);
        plan(&agent(), order("second"), place(Some(parent))).unwrap_err()
    };
    assert_eq!(limit(|p| p.spec.depth = 5), Refusal::Limit { limit: LimitName::Depth, allowed: 5 });
    assert_eq!(limit(|p| p.children = 20), Refusal::Limit { limit: LimitName::Children, allowed: 20 });
    assert_eq!(limit(|p| p.tree_runs = 200), Refusal::Limit { limit: LimitName::TreeRuns, allowed: 200 });
}

#[test]
fn delegation_needs_leave_and_never_goes_in_a_circle() {
    let refused = |prompt: &str, delegates: Delegates| {
        let mut parent = parent(root());
        parent.spec.delegates = delegates;
        plan(&agent(), order(prompt), place(Some(parent))).unwrap_err()
    };
    let name: crate::id::AgentName = "shout".parse().unwrap();
    let forbidden = Refusal::MayNotDelegate { parent: name.clone(), agent: name.clone() };
    assert_eq!(refused("second", Delegates::Nobody), forbidden);
    assert_eq!(refused("first", Delegates::Anyone), Refusal::Circle { agent: name });
}

#[test]
fn allowed_callers_match_roots_as_main_and_children_by_their_agent() {
    let mut only_main = agent();
    only_main.callers = Callers::Only(vec!["main".to_owned()]);
    assert!(plan(&only_main, order("x"), place(None)).is_ok());
    let refused = plan(&only_main, order("x"), place(Some(parent(root())))).unwrap_err();
    assert!(matches!(refused, Refusal::CallerNotAllowed { .. }), "{refused}");
    only_main.callers = Callers::Only(vec!["shout".to_owned()]);
    assert!(plan(&only_main, order("x"), place(Some(parent(root())))).is_ok());
    only_main.callers = Callers::Only(Vec::new());
    let refused = plan(&only_main, order("x"), place(None)).unwrap_err().to_string();
    assert_eq!(refused, "agent shout may not be called by main; it allows nobody");
}

#[test]
fn an_agent_called_main_is_no_root() {
    let mut only_main = agent();
    only_main.callers = Callers::Only(vec!["main".to_owned()]);
    let mut posing = parent(root());
    posing.spec.agent = "main".parse().unwrap();
    let mut place = place(Some(posing));
    place.caller.name = "main".to_owned();
    let refused = plan(&only_main, order("x"), place).unwrap_err();
    assert!(matches!(refused, Refusal::CallerNotAllowed { .. }), "{refused}");
}

#[test]
fn a_directive_is_refused_by_name() {
    let mut directive = agent();
    directive.source.format = Format::Directive;
    let refused = plan(&directive, order("x"), place(None)).unwrap_err();
    assert_eq!(refused, Refusal::Directive { agent: directive.name });
}

#[test]
fn a_callers_schema_takes_the_place_of_the_agents() {
    let mut asking = agent();
    asking.setup.output_schema = Some(serde_json::json!({"type": "object"}));
    let wanted = serde_json::json!({"type": "array"});
    let order = Order { output_schema: Some(wanted.clone()), ..order("x") };
    let setup = plan(&asking, order, place(None)).unwrap().setup;
    assert_eq!((setup.output_schema, setup.output_format), (Some(wanted), crate::setup::OutputFormat::Json));
}

#[test]
fn a_run_carries_what_its_agent_asks_of_the_backend() {
    let mut asking = agent();
    asking.setup.effort = Some("high".to_owned());
    asking.setup.permission.deny = vec!["Bash(rm:*)".parse().unwrap()];
    let spec = plan(&asking, order("x"), place(None)).unwrap();
    assert_eq!(spec.setup, asking.setup);
    let mut stored = serde_json::to_value(&spec).unwrap();
    assert_eq!(serde_json::from_value::<RunSpec>(stored.clone()).unwrap(), spec);
    // A spec that an older version wrote has no setup.
    stored.as_object_mut().unwrap().remove("setup");
    let old = serde_json::from_value::<RunSpec>(stored).unwrap();
    assert_eq!(old.setup, crate::setup::Setup::default());
}
