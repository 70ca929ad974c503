//! The admission of runs: a spec or a refusal.

use std::collections::BTreeMap;

use serde_json::json;

use super::{AdmissionContext, AdmissionRefusal, AdmissionRequest, ParentRun, admit};
use crate::Timestamp;
use crate::agent::{Agent, AgentFormat, AgentInput, AgentSource, Callers, Delegates, Layer};
use crate::budget::RequestedLimits;
use crate::directive::{DeclaredTool, DeclaredToolKind, Directive, UnsupportedFeature};
use crate::id::RunId;
use crate::run::{BackendSpec, Caller, CallerOrigin, LimitName, OnDisconnect, OnInterrupt, RunSpec};

fn agent() -> Agent {
    let source =
        AgentSource { file: "shout.md".to_owned(), format: AgentFormat::Volery, layer: Layer::Project };
    let agent = Agent::new("shout".parse().unwrap(), "upper".parse().unwrap(), source);
    Agent { system_prompt: "Be loud.".to_owned(), delegates: Delegates::Anyone, ..agent }
}

fn request(prompt: &str) -> AdmissionRequest {
    AdmissionRequest {
        prompt: prompt.to_owned(),
        context: None,
        inputs: crate::inputs::Inputs::new(),
        session: None,
        fork: false,
        prior_exchanges: Vec::new(),
        resumes: None,
        model: None,
        output_schema: None,
        limits: RequestedLimits::default(),
        on_disconnect: None,
        grants: Vec::new(),
        unattended: None,
        idempotency: None,
        iac: None,
    }
}

fn admission(parent: Option<ParentRun>) -> AdmissionContext {
    let (door, name) = match &parent {
        Some(parent) => (CallerOrigin::Run, parent.spec.agent.to_string()),
        None => (CallerOrigin::Shell, "main".to_owned()),
    };
    AdmissionContext {
        id: RunId::from_parts(Timestamp::UNIX_EPOCH, [7; 10]),
        now: Timestamp::UNIX_EPOCH,
        tag: 1,
        directory: "/w".to_owned(),
        project: "/w".to_owned(),
        caller: Caller { origin: door, name, token: None },
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
    admit(&agent(), request("first"), admission(None)).unwrap()
}

fn parent(spec: RunSpec) -> ParentRun {
    let line = vec![(spec.agent.clone(), spec.prompt.clone())];
    ParentRun { spec, children: 0, tree_runs: 1, remaining_ms: 1_000, ancestry: line }
}

#[test]
fn the_root_decides_whether_a_child_is_unattended() {
    let unattended =
        |reason: &str| AdmissionRequest { unattended: Some(reason.to_owned()), ..request("first") };
    let top = admit(&agent(), unattended("no terminal"), admission(None)).unwrap();
    assert_eq!(top.unattended.as_deref(), Some("no terminal"));
    let child = admit(&agent(), request("second"), admission(Some(parent(top)))).unwrap();
    assert_eq!(child.unattended.as_deref(), Some("no terminal"));
    let other = AdmissionRequest { prompt: "other".to_owned(), ..unattended("the client") };
    assert_eq!(admit(&agent(), other, admission(Some(parent(root())))).unwrap().unattended, None);
}

#[test]
fn prompts_that_no_agent_could_use_are_refused() {
    let refused = |prompt: &str| admit(&agent(), request(prompt), admission(None)).unwrap_err();
    assert_eq!(refused(" \n"), AdmissionRefusal::EmptyPrompt);
    assert_eq!(refused("a\0b"), AdmissionRefusal::NulInPrompt);
    let long = "x".repeat(super::PROMPT_BYTES_MAX + 1);
    assert_eq!(refused(&long), AdmissionRefusal::PromptTooLong { bytes: long.len() });
}

#[test]
fn a_model_that_looks_like_an_option_is_refused_from_any_source() {
    let admitted_model = |model: &str| {
        let request = AdmissionRequest { model: Some(model.to_owned()), ..request("do it") };
        admit(&agent(), request, admission(None)).map(|spec| spec.model)
    };
    assert_eq!(admitted_model("large-1:free/x"), Ok(Some("large-1:free/x".to_owned())));
    for model in ["--force", "-x", "a\nb", &"x".repeat(201)] {
        assert!(matches!(admitted_model(model), Err(AdmissionRefusal::Model { .. })), "{model}");
    }
    let own = Agent { model: Some("--force".to_owned()), ..agent() };
    let refused = admit(&own, request("do it"), admission(None)).unwrap_err();
    assert_eq!(refused.to_string(), "\"--force\" is not the name of a model");
}

#[test]
fn context_counts_towards_the_prompt_and_precedes_it() {
    let mut with = request("do it");
    with.context = Some("we are in Rust\n".to_owned());
    let spec = admit(&agent(), with, admission(None)).unwrap();
    assert_eq!(spec.prompt, "<context>\nwe are in Rust\n</context>\n\ndo it");
}

#[test]
fn inputs_are_checked_and_precede_the_prompt() {
    let mut asking = agent();
    asking.inputs = vec![crate::agent::AgentInput {
        name: "branch".to_owned(),
        kind: "string".to_owned(),
        required: true,
        default: None,
        description: String::new(),
    }];
    let mut with = request("do it");
    with.context = Some("in Rust".to_owned());
    with.inputs = [("branch".to_owned(), json!("main"))].into();
    let spec = admit(&asking, with.clone(), admission(None)).unwrap();
    let expected =
        "<context>\nin Rust\n</context>\n\n<inputs>\n{\n  \"branch\": \"main\"\n}\n</inputs>\n\ndo it";
    assert_eq!(spec.prompt, expected);
    let refused = admit(&agent(), with, admission(None)).unwrap_err();
    let problems = vec!["there is no input branch: the agent has none".to_owned()];
    assert_eq!(refused, AdmissionRefusal::Inputs { agent: asking.name.clone(), problems });
    let missing = admit(&asking, request("do it"), admission(None)).unwrap_err();
    assert!(missing.to_string().contains("the input branch is missing"), "{missing}");
}

#[test]
fn a_child_is_bounded_by_depth_fan_out_tree_and_remaining_time() {
    let accepted = admit(&agent(), request("second"), admission(Some(parent(root())))).unwrap();
    assert_eq!((accepted.depth, accepted.limits.timeout_ms), (1, 1_000));
    assert_eq!((accepted.parent, accepted.root), (Some(root().id), root().id));

    let limit = |change: fn(&mut ParentRun)| {
        let mut parent = parent(root());
        change(&mut parent);
        admit(&agent(), request("second"), admission(Some(parent))).unwrap_err()
    };
    assert_eq!(limit(|p| p.spec.depth = 5), AdmissionRefusal::Limit { limit: LimitName::Depth, allowed: 5 });
    assert_eq!(
        limit(|p| p.children = 20),
        AdmissionRefusal::Limit { limit: LimitName::Children, allowed: 20 }
    );
    assert_eq!(
        limit(|p| p.tree_runs = 200),
        AdmissionRefusal::Limit { limit: LimitName::TreeRuns, allowed: 200 }
    );
}

#[test]
fn delegation_needs_permission_and_never_cycles() {
    let refused = |prompt: &str, delegates: Delegates| {
        let mut parent = parent(root());
        parent.spec.delegates = delegates;
        admit(&agent(), request(prompt), admission(Some(parent))).unwrap_err()
    };
    let name: crate::id::AgentName = "shout".parse().unwrap();
    let forbidden = AdmissionRefusal::MayNotDelegate { parent: name.clone(), agent: name.clone() };
    assert_eq!(refused("second", Delegates::Nobody), forbidden);
    assert_eq!(refused("first", Delegates::Anyone), AdmissionRefusal::DelegationCycle { agent: name });
}

#[test]
fn allowed_callers_match_roots_as_main_and_children_by_their_agent() {
    let mut only_main = agent();
    only_main.callers = Callers::Only(vec!["main".to_owned()]);
    assert!(admit(&only_main, request("x"), admission(None)).is_ok());
    let refused = admit(&only_main, request("x"), admission(Some(parent(root())))).unwrap_err();
    assert!(matches!(refused, AdmissionRefusal::CallerNotAllowed { .. }), "{refused}");
    only_main.callers = Callers::Only(vec!["shout".to_owned()]);
    assert!(admit(&only_main, request("x"), admission(Some(parent(root())))).is_ok());
    only_main.callers = Callers::Only(Vec::new());
    let refused = admit(&only_main, request("x"), admission(None)).unwrap_err().to_string();
    assert_eq!(refused, "agent shout may not be called by main; it allows nobody");
}

#[test]
fn an_agent_called_main_does_not_count_as_a_root() {
    let mut only_main = agent();
    only_main.callers = Callers::Only(vec!["main".to_owned()]);
    let mut posing = parent(root());
    posing.spec.agent = "main".parse().unwrap();
    let mut admission = admission(Some(posing));
    admission.caller.name = "main".to_owned();
    let refused = admit(&only_main, request("x"), admission).unwrap_err();
    assert!(matches!(refused, AdmissionRefusal::CallerNotAllowed { .. }), "{refused}");
}

/// A directive that reads files, with this instruction.
fn directive(instructions: &str) -> Agent {
    let reading = DeclaredToolKind::ReadFiles { paths: vec!["src/**".to_owned()] };
    let directive = Directive {
        tools: Some(vec![DeclaredTool { kind: reading, is_required: true, line: 3 }]),
        instructions: instructions.to_owned(),
        ..Directive::default()
    };
    let input = AgentInput {
        name: "branch".to_owned(),
        kind: "string".to_owned(),
        required: false,
        default: None,
        description: String::new(),
    };
    Agent { directive: Some(Box::new(directive)), inputs: vec![input], ..agent() }
}

#[test]
fn a_directive_gets_its_inputs_in_its_system_prompt_and_needs_no_prompt() {
    let mut ask = request("");
    ask.inputs.insert("branch".to_owned(), json!("main"));
    let spec = admit(&directive("Look at {input:branch}."), ask, admission(None)).unwrap();
    assert_eq!(spec.prompt, "Execute the directive.");
    for part in ["# Directive: shout", "Look at main.", "- branch: main", "- filesystem_read: ", "- finish: "]
    {
        assert!(spec.system_prompt.contains(part), "{part} is not in {}", spec.system_prompt);
    }
    assert!(!spec.system_prompt.contains("src/**"), "what is allowed is not for the model");
    assert_eq!(spec.on_interrupt, OnInterrupt::Resume);
    let without = admit(&directive("Look."), request("Be quick."), admission(None)).unwrap();
    assert_eq!(without.prompt, "Execute the directive.\n\nBe quick.");
    assert!(without.system_prompt.contains("(no inputs)"));
}

#[test]
fn a_directive_that_cannot_work_is_refused_before_anything_starts() {
    let refusal = |agent: &Agent| admit(agent, request(""), admission(None)).unwrap_err().to_string();
    let missing = refusal(&directive("Look at {input:branch}."));
    assert!(missing.contains("branch"), "{missing}");
    let mut unknown = directive("x");
    let tools = vec![DeclaredTool {
        kind: DeclaredToolKind::Mcp { server: "s".to_owned(), tools: vec!["t".to_owned()] },
        is_required: true,
        line: 7,
    }];
    unknown.directive.as_mut().unwrap().tools = Some(tools);
    let missing = refusal(&unknown);
    assert!(missing.contains("s.t") && missing.contains("line 7"), "{missing}");
    let mut graphs = directive("x");
    graphs.directive.as_mut().unwrap().unsupported =
        vec![UnsupportedFeature { name: "graph".to_owned(), line: 9 }];
    assert!(refusal(&graphs).contains("graph (shout.md:9)"), "{}", refusal(&graphs));
}

#[test]
fn only_the_users_configuration_raises_the_limits_of_a_directive() {
    let admitted = |own: Option<u32>, caller: Option<u64>| {
        let mut agent = directive("x");
        agent.directive.as_mut().unwrap().limits.steps = own;
        let configured = RequestedLimits { steps: Some(50), ..RequestedLimits::default() };
        let admission = AdmissionContext { configured_limits: vec![configured], ..admission(None) };
        let limits = RequestedLimits { steps: caller, ..RequestedLimits::default() };
        let spec = admit(&agent, AdmissionRequest { limits, ..request("") }, admission).unwrap();
        (spec.limits.steps.unwrap(), spec.warnings.len())
    };
    assert_eq!(admitted(None, None), (50, 0));
    assert_eq!(admitted(Some(10), None), (10, 0));
    assert_eq!(admitted(Some(10), Some(20)), (10, 0));
    assert_eq!(admitted(Some(20), Some(10)), (10, 0));
    assert_eq!(admitted(Some(80), Some(90)), (50, 2));
}

#[test]
fn a_callers_schema_replaces_the_agents() {
    let mut asking = agent();
    asking.setup.output_schema = Some(serde_json::json!({"type": "object"}));
    let schema = serde_json::json!({"type": "array"});
    let request = AdmissionRequest { output_schema: Some(schema.clone()), ..request("x") };
    let setup = admit(&asking, request, admission(None)).unwrap().setup;
    assert_eq!((setup.output_schema, setup.output_format), (Some(schema), crate::setup::OutputFormat::Json));
}

#[test]
fn a_spec_stores_the_setup_of_its_agent() {
    let mut asking = agent();
    asking.setup.effort = Some("high".to_owned());
    asking.setup.permission.deny = vec!["Bash(rm:*)".parse().unwrap()];
    let spec = admit(&asking, request("x"), admission(None)).unwrap();
    assert_eq!(spec.setup, asking.setup);
    let mut stored = serde_json::to_value(&spec).unwrap();
    assert_eq!(serde_json::from_value::<RunSpec>(stored.clone()).unwrap(), spec);
    // A spec that an older version wrote has no setup.
    stored.as_object_mut().unwrap().remove("setup");
    let old = serde_json::from_value::<RunSpec>(stored).unwrap();
    assert_eq!(old.setup, crate::setup::Setup::default());
}
