//! Compares what an agent or a caller requires with what a backend can do: unsupported requirements become warnings
//! before and with every run, and are never dropped silently. A permission that cannot be enforced blocks the run,
//! unless the agent accepts a warning.

use backends::contract::{Capabilities, permitted_args};
use backends::mcp_config::OWN_SERVER;
use config::answer::Schema;
use domain::agent::{Agent, AgentFormat};
use domain::inherit::Inherited;
use domain::launch::LaunchOverrides;
use domain::mcp_server::{self, McpServer};
use domain::permission::{Permission, Rule, ToolKind, Unenforceable};
use domain::policy::{Effect, Policy, Use};
use domain::run::{BackendSpec, OnInterrupt, RunSpec};
use domain::setup::{AnswerChannel, Context, PromptMode, Setup};

use super::unattended_denials::{self, Approver};
use crate::api::EngineError;

/// The requirements of an agent or a run.
pub(crate) struct Requirements<'a> {
    system_prompt: bool,
    model: bool,
    resume: bool,
    setup: &'a Setup,
    answers: Approver<'a>,
}

impl<'a> Requirements<'a> {
    pub(crate) fn for_run(spec: &'a RunSpec) -> Self {
        Self {
            system_prompt: !spec.system_prompt.is_empty(),
            model: spec.model.is_some(),
            resume: spec.on_interrupt == OnInterrupt::Resume,
            setup: &spec.setup,
            answers: spec.unattended.as_deref().map_or(Approver::Available, Approver::Nobody),
        }
    }

    pub(crate) fn for_agent(agent: &'a Agent) -> Self {
        Self {
            system_prompt: !agent.system_prompt.is_empty(),
            model: agent.model.is_some(),
            resume: agent.on_interrupt == OnInterrupt::Resume,
            setup: &agent.setup,
            answers: Approver::Unknown,
        }
    }
}

/// Returns whether this backend starts a process; else the worker itself performs the steps.
pub(crate) fn starts_a_process(spec: &BackendSpec) -> bool {
    backends::registry::by_kind(&spec.kind).is_some_and(|backend| backend.capabilities(&spec.options).process)
}

/// Returns whether another worker can resume a run of this backend.
pub(crate) fn can_resume(spec: &BackendSpec) -> bool {
    let can = capabilities(spec);
    can.resumes_from_calls || can.vendor_assigned_session_ids
}

/// Returns whether callers choose the session ids of this backend, which are passed on unchanged.
pub(crate) fn chooses_sessions(spec: &BackendSpec) -> bool {
    let can = capabilities(spec);
    can.session && !can.vendor_assigned_session_ids
}

/// Returns whether the program of this backend stores conversations.
pub(crate) fn keeps_sessions(spec: &BackendSpec) -> bool {
    capabilities(spec).session
}

fn capabilities(spec: &BackendSpec) -> Capabilities {
    let backend = backends::registry::by_kind(&spec.kind);
    backend.map(|backend| backend.capabilities(&spec.options)).unwrap_or_default()
}

/// Why an agent cannot run with its backend, and the key of its file that causes it.
pub(crate) struct Blocker {
    pub(crate) key: &'static str,
    pub(crate) error: EngineError,
}

impl Blocker {
    pub(crate) fn new(key: &'static str, error: EngineError) -> Self {
        Self { key, error }
    }
}

/// Returns all reasons why an agent cannot run with its backend, independent of the caller and the directory: invalid
/// requirements, and permissions that the backend cannot enforce.
pub(crate) fn blockers(
    system_prompt: &str,
    setup: &Setup,
    format: AgentFormat,
    spec: &BackendSpec,
) -> Vec<Blocker> {
    let schema = schema_error(setup).map(|problem| {
        let hint = "output_schema is JSON Schema, draft 2020-12, and refers to nothing outside of itself";
        EngineError::usage(problem).hint(hint)
    });
    let argument = forbidden_argument(setup, spec).map(EngineError::usage);
    let prompt = wrong_prompt(system_prompt, setup, spec).map(|problem| {
        EngineError::usage(problem).hint("shorten it, or write prompt_mode: replace into the agent's file")
    });
    let permission = refusal(setup, spec).map(|problem| {
        EngineError::denied(problem)
            .hint(format!("choose another backend, or {}", unenforceable_hint(format)))
    });
    let found = [
        ("output_schema", schema),
        ("extra_args", argument),
        ("prompt_mode", prompt),
        ("permission", permission),
    ];
    found.into_iter().filter_map(|(key, error)| Some(Blocker::new(key, error?))).collect()
}

/// Says how to run without what cannot be enforced.
pub(crate) fn unenforceable_hint(format: AgentFormat) -> &'static str {
    match format {
        AgentFormat::Volery => "write unenforceable: warn into the agent's file",
        AgentFormat::Plain
        | AgentFormat::DotAgents
        | AgentFormat::Jarvis
        | AgentFormat::Kiro
        | AgentFormat::Directive
        | AgentFormat::Claude
        | AgentFormat::Cursor
        | AgentFormat::Codex
        | AgentFormat::Gemini
        | AgentFormat::Qwen
        | AgentFormat::Opencode
        | AgentFormat::Copilot => {
            "define the agent in Volery's own format, which has unenforceable: warn; `volery agents new` begins one"
        }
    }
}

/// Returns why an extra argument may not be passed to the program.
fn forbidden_argument(setup: &Setup, spec: &BackendSpec) -> Option<String> {
    let can = capabilities(spec).extra_args;
    // A backend that takes no arguments at all gets a warning instead.
    if can.is_empty() { None } else { permitted_args(&setup.extra_args, can).err() }
}

fn answers_into_file(setup: &Setup, spec: &BackendSpec) -> bool {
    let vendor = backends::registry::vendor_by_name(&spec.kind);
    vendor.and_then(|vendor| vendor.answers_into_file).is_some_and(|can_write| can_write(setup))
}

/// Returns how an agent answers with its backend.
pub(crate) fn answers_by(setup: &Setup, spec: &BackendSpec) -> AnswerChannel {
    match setup.answer_channel() {
        AnswerChannel::File if !answers_into_file(setup, spec) => AnswerChannel::Output,
        own_answer @ (AnswerChannel::File | AnswerChannel::SubmitResult | AnswerChannel::Output) => {
            own_answer
        }
    }
}

/// Returns a warning for each requirement that the backend does not support.
pub(crate) fn warnings(requirements: &Requirements<'_>, spec: &BackendSpec) -> Vec<String> {
    let Some(backend) = backends::registry::by_kind(&spec.kind) else { return Vec::new() };
    let can = backend.capabilities(&spec.options);
    let name = &spec.name;
    let sentences = [
        (requirements.system_prompt && !can.system_prompt).then(|| {
            format!(
                "the system prompt does not reach the agent: the command of {name} has no {{system_file}}"
            )
        }),
        (requirements.model && !can.model)
            .then(|| format!("the model is not passed on: the command of {name} has no {{model}}")),
        can.starts_other_servers.then(|| {
            format!(
                "{name} may start the MCP servers of its user and of the project, which the agent cannot use"
            )
        }),
        (can.edits_outside_directory && edits_by_default(&requirements.setup.permission)).then(|| {
            format!("{name} changes files outside of its directory too: the agent names no level, and safe-edit is not enforced")
        }),
        (requirements.resume && !can_resume(spec)).then(|| {
            format!("on_interrupt: resume is not possible with {name}; an interrupted run would end")
        }),
    ];
    let mut sentences: Vec<String> = sentences.into_iter().flatten().collect();
    sentences.extend(version_warning(spec));
    if !can.session && LaunchOverrides::from_options(&spec.options).sessions.is_some() {
        sentences.push(format!("the folder of sessions is not honoured by {name}"));
    }
    sentences.extend(setup_warnings(requirements.setup, can, name.as_str()));
    if requirements.setup.response_file.is_some()
        && can.response_file
        && !answers_into_file(requirements.setup, spec)
    {
        let reason = "the agent may not write files, and answers by its output";
        sentences.push(format!("response_file is not honoured: {reason}"));
    }
    if backend.program().is_some() {
        let beyond = requirements.setup.inherit.iter().filter(|item| **item != Inherited::Environment);
        let withheld = beyond.filter(|item| !can.inherits.contains(item));
        sentences.extend(withheld.map(|item| {
            format!("withheld: {}: {name} runs with what its agent's definition gives it", item.describe())
        }));
    }
    let permission = &requirements.setup.permission;
    let ungranted = backend.inexpressible_grants(&permission.for_vendor(), &spec.options);
    sentences.extend(
        ungranted.into_iter().map(|rule| format!("{rule} grants nothing: {name} has no words for it")),
    );
    sentences.extend(unattended_denials::denial_warnings(
        requirements.setup,
        requirements.answers,
        backend,
        spec,
    ));
    if requirements.setup.unenforceable == Unenforceable::Warn {
        let gaps = unenforceable(&requirements.setup.permission, spec);
        sentences.extend(gaps.into_iter().map(|gap| format!("{gap} is not enforced by {name}")));
    }
    sentences
}

/// Returns a warning about the version of the backend's program.
pub(crate) fn version_warning(spec: &BackendSpec) -> Option<String> {
    let program = backends::registry::by_kind(&spec.kind)?.program()?;
    crate::programs::vendor_programs::version_warning(program, &LaunchOverrides::from_options(&spec.options))
}

/// Returns whether an agent may edit files only by default.
fn edits_by_default(permission: &Permission) -> bool {
    let is_edit_rule = |rule: &Rule| matches!(rule.kind(), ToolKind::Edit | ToolKind::Everything);
    let mut rules = permission.allow.iter().chain(&permission.ask).chain(&permission.deny);
    permission.level.is_none() && !rules.any(is_edit_rule)
}

/// Returns why the system prompt cannot reach the agent.
fn wrong_prompt(system_prompt: &str, setup: &Setup, spec: &BackendSpec) -> Option<String> {
    let problem = capabilities(spec).system_prompt_problem(system_prompt, setup.prompt_mode)?;
    Some(format!("with {}, {problem}", spec.name))
}

/// Returns whether the backend's program can run in a container.
pub(crate) fn takes_containers(spec: &BackendSpec) -> bool {
    capabilities(spec).containers
}

/// Returns the parts of a permission that the backend cannot express.
pub(crate) fn unenforceable(permission: &Permission, spec: &BackendSpec) -> Vec<String> {
    let Some(backend) = backends::registry::by_kind(&spec.kind) else { return Vec::new() };
    if permission.is_empty() {
        Vec::new()
    } else {
        backend.unenforceable(&permission.for_vendor(), &spec.options)
    }
}

/// Returns why a run is refused: a part of its permission cannot be enforced by the backend.
pub(crate) fn refusal(setup: &Setup, spec: &BackendSpec) -> Option<String> {
    let gaps = match setup.unenforceable {
        Unenforceable::Refuse => unenforceable(&setup.permission, spec),
        Unenforceable::Warn => Vec::new(),
    };
    (!gaps.is_empty()).then(|| format!("the backend {} cannot enforce {}", spec.name, gaps.join(", ")))
}

/// Returns what is wrong with the schema for answers.
fn schema_error(setup: &Setup) -> Option<String> {
    let schema = setup.output_schema.as_ref()?;
    Schema::compile(schema).err().map(|error| format!("output_schema: {error}"))
}

fn setup_warnings(setup: &Setup, can: Capabilities, name: &str) -> Vec<String> {
    // The program itself applies the settings in a file of its own format, unless it gets a copy with Volery's servers.
    let by_itself = can.reads_own_files && setup.vendor_agent.is_some();
    let unchanged = setup.submit_result.is_none() && setup.vendor_file.is_none();
    // If the servers themselves are not supported, that warning is enough.
    let server_has = |predicate: fn(&McpServer) -> bool| {
        can.mcp_servers && !(by_itself && unchanged) && setup.mcp_servers.iter().any(predicate)
    };
    let unsupported = [
        (setup.effort.is_some() && !can.effort, "effort"),
        (setup.temperature.is_some() && !can.temperature, "temperature"),
        (setup.tools.is_some() && !can.tools && !by_itself, "tools"),
        (setup.prompt_mode == PromptMode::Replace && !can.replaces_prompt, "prompt_mode: replace"),
        (setup.context == Context::None && !can.can_skip_project_context, "context: none"),
        (!setup.mcp_servers.is_empty() && !can.mcp_servers, "mcp_servers"),
        (
            server_has(|server| server.tools.is_some()) && !can.server_tools,
            "the list of tools of an MCP server",
        ),
        (
            server_has(|server| server.timeout_ms.is_some()) && !can.server_timeouts,
            "the time-out of an MCP server",
        ),
        (setup.requires_structured_output() && !can.output_schema, "the form of the output"),
        (!setup.extra_args.is_empty() && can.extra_args.is_empty(), "extra_args"),
        (!setup.extra_directories.is_empty() && !can.extra_directories, "extra_directories"),
        (setup.vendor_settings.is_some() && !can.vendor_settings, "the path of the settings"),
        (setup.max_turns.is_some() && !can.max_turns, "max_turns"),
        (setup.response_file.is_some() && !can.response_file, "the response file"),
        (setup.keeps_session && can.session && !can.vendor_assigned_session_ids, "session: true"),
    ];
    let warnings = unsupported.into_iter().filter(|(is_unsupported, _)| *is_unsupported);
    let warnings = warnings.map(|(_, what)| format!("{what} is not honoured by {name}"));
    let unusable_reason = setup.mcp_servers.iter().filter(|_| can.mcp_servers).filter_map(|server| {
        let reason = unusable_reason(server, &setup.permission)?;
        Some(format!("no tool of the MCP server {} may be used: {reason}", server.name))
    });
    warnings.chain(unusable_reason).chain(unknown_servers(setup)).collect()
}

/// Returns a warning for each server that the agent's rules name and the agent does not have.
fn unknown_servers(setup: &Setup) -> Vec<String> {
    let plain = |name: &str| name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    let own: Vec<String> = setup.mcp_servers.iter().map(|server| plain(&server.name)).collect();
    let rules = setup.permission.allow.iter().chain(&setup.permission.ask).map(Rule::tool);
    let tools = setup.tools.iter().flatten().map(String::as_str);
    let server_names = tools.chain(rules).filter_map(mcp_server::server_in_tool_name);
    let mut unknown: Vec<&str> = server_names
        .filter(|name| *name != OWN_SERVER && !own.iter().any(|own| matches_server(&plain(name), own)))
        .collect();
    unknown.sort_unstable();
    unknown.dedup();
    let sentence = |name: &str| {
        format!(
            "no tool of the MCP server {name} can be used: the agent has only the servers that its own file defines \
             and does not switch off"
        )
    };
    unknown.into_iter().map(sentence).collect()
}

/// Returns whether a name is a server's, or its part before a `_`.
fn matches_server(name: &str, server: &str) -> bool {
    server == name
        || server.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'))
        || name.contains('*')
}

/// Returns why no tool of a server may be used.
fn unusable_reason(server: &McpServer, permission: &Permission) -> Option<String> {
    if permission.opens_server(&server.name) {
        return None;
    }
    let some_tool = Use::Mcp { server: server.name.clone(), tool: Some("tool".to_owned()) };
    let verdict = Policy::from(permission).decide(&some_tool);
    (verdict.effect == Effect::Deny).then(|| verdict.reason())
}

#[cfg(test)]
mod tests {
    use domain::agent::{AgentSource, Layer};
    use domain::permission::Level;

    use super::*;

    fn backend(name: &str) -> BackendSpec {
        let options = serde_json::Value::Null;
        BackendSpec { name: name.parse().unwrap(), kind: name.to_owned(), options }
    }

    #[test]
    fn a_default_level_that_is_not_enforced_is_reported() {
        let reports_default_level = |name: &str, permission: Permission| {
            let source =
                AgentSource { file: String::new(), format: AgentFormat::Volery, layer: Layer::Project };
            let agent = Agent::new("a".parse().unwrap(), name.parse().unwrap(), source);
            let setup = Setup { permission, ..Setup::default() };
            let agent = Agent { setup, ..agent };
            let requirements = Requirements::for_agent(&agent);
            let sentences = warnings(&requirements, &backend(name));
            sentences.iter().any(|sentence| sentence.contains("safe-edit is not enforced"))
        };
        let deny = |rule: &str| Permission { deny: vec![rule.parse().unwrap()], ..Permission::default() };
        for name in ["goose", "kimi"] {
            assert!(
                reports_default_level(name, Permission::default())
                    && reports_default_level(name, deny("Bash")),
                "{name}"
            );
            assert!(!reports_default_level(name, deny("Edit")), "{name}");
            let reader = Permission { level: Some(Level::ReadOnly), ..Permission::default() };
            assert!(!reports_default_level(name, reader), "{name}");
        }
        assert!(!reports_default_level("claude", Permission::default()));
    }

    #[test]
    fn a_system_prompt_that_does_not_fit_is_refused_before_the_run() {
        let long = "x".repeat(130_000);
        let wrong = |mode: PromptMode, name: &str| {
            wrong_prompt(&long, &Setup { prompt_mode: mode, ..Setup::default() }, &backend(name)).is_some()
        };
        assert!(wrong(PromptMode::Append, "qwen"));
        assert!(!wrong(PromptMode::Replace, "qwen") && !wrong(PromptMode::Append, "claude"));
    }
}
