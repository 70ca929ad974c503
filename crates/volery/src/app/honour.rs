//! What an agent or a caller wants and a backend cannot do, by name: told before and with every run, never dropped
//! in silence. A permission that cannot be enforced stops the run, unless the agent says that a warning will do.

use backend::contract::{Capabilities, permitted_args};
use backend::mcp_config::OWN_SERVER;
use definition::answer::Schema;
use domain::agent::{Agent, Format};
use domain::inherit::Inherited;
use domain::launch::Launch;
use domain::mcp_server::{self, McpServer};
use domain::permission::{Ground, Permission, Rule, Ruling, ToolKind, Unenforceable};
use domain::run::{BackendSpec, OnInterrupt, RunSpec};
use domain::setup::{AnswersBy, Context, PromptMode, Setup};

use super::AppError;
use super::unasked::{self, Answers, Owner};

/// What is wanted of a backend.
pub(super) struct Wishes<'a> {
    system_prompt: bool,
    model: bool,
    resume: bool,
    setup: &'a Setup,
    owner: Owner<'a>,
    answers: Answers<'a>,
}

impl<'a> Wishes<'a> {
    pub(super) fn of_run(spec: &'a RunSpec, agent: &'a Agent) -> Self {
        Self {
            system_prompt: !spec.system_prompt.is_empty(),
            model: spec.model.is_some(),
            resume: spec.on_interrupt == OnInterrupt::Resume,
            setup: &spec.setup,
            owner: Owner::of_run(agent, &spec.grants),
            answers: spec.unattended.as_deref().map_or(Answers::Somebody, Answers::Nobody),
        }
    }

    pub(super) fn of_agent(agent: &'a Agent) -> Self {
        Self {
            system_prompt: !agent.system_prompt.is_empty(),
            model: agent.model.is_some(),
            resume: agent.on_interrupt == OnInterrupt::Resume,
            setup: &agent.setup,
            owner: Owner::of(agent),
            answers: Answers::NotKnown,
        }
    }
}

/// Tells whether this backend starts a process; else the worker itself takes the steps.
pub(super) fn starts_a_process(spec: &BackendSpec) -> bool {
    backend::registry::by_kind(&spec.kind).is_some_and(|backend| backend.capabilities(&spec.options).process)
}

/// Tells whether a run of this backend can be continued by another worker.
pub(super) fn can_resume(spec: &BackendSpec) -> bool {
    let can = capabilities(spec);
    can.resume || can.names_sessions
}

/// Tells whether callers choose the sessions of this backend, which are passed on as they are.
pub fn chooses_sessions(spec: &BackendSpec) -> bool {
    let can = capabilities(spec);
    can.session && !can.names_sessions
}

/// Tells whether the program of this backend keeps conversations.
pub(super) fn keeps_sessions(spec: &BackendSpec) -> bool {
    capabilities(spec).session
}

fn capabilities(spec: &BackendSpec) -> Capabilities {
    let backend = backend::registry::by_kind(&spec.kind);
    backend.map(|backend| backend.capabilities(&spec.options)).unwrap_or_default()
}

/// What stands between an agent and its backend, and the key of its file that says so.
pub(super) struct Obstacle {
    pub(super) key: &'static str,
    pub(super) error: AppError,
}

impl Obstacle {
    pub(super) fn of(key: &'static str, error: AppError) -> Self {
        Self { key, error }
    }
}

/// Returns all that stands between an agent and its backend, whoever asks and wherever: what is wrong with what it wants,
/// and what it demands to be enforced and the backend cannot.
pub(super) fn obstacles(
    system_prompt: &str,
    setup: &Setup,
    format: Format,
    spec: &BackendSpec,
) -> Vec<Obstacle> {
    let schema = wrong_schema(setup).map(|problem| {
        let hint = "output_schema is JSON Schema, draft 2020-12, and refers to nothing outside of itself";
        AppError::usage(problem).hint(hint)
    });
    let argument = wrong_argument(setup, spec).map(AppError::usage);
    let prompt = wrong_prompt(system_prompt, setup, spec).map(|problem| {
        AppError::usage(problem).hint("shorten it, or write prompt_mode: replace into the agent's file")
    });
    let permission = refusal(setup, spec).map(|problem| {
        AppError::denied(problem).hint(format!("choose another backend, or {}", way_to_warn(format)))
    });
    let found = [
        ("output_schema", schema),
        ("extra_args", argument),
        ("prompt_mode", prompt),
        ("permission", permission),
    ];
    found.into_iter().filter_map(|(key, error)| Some(Obstacle::of(key, error?))).collect()
}

/// Says how somebody does without what cannot be enforced.
pub(super) fn way_to_warn(format: Format) -> &'static str {
    match format {
        Format::Volery => "write unenforceable: warn into the agent's file",
        Format::Plain
        | Format::DotAgents
        | Format::Jarvis
        | Format::Kiro
        | Format::Directive
        | Format::Claude
        | Format::Cursor
        | Format::Codex
        | Format::Gemini
        | Format::Qwen
        | Format::Opencode
        | Format::Copilot => {
            "define the agent in Volery's own format, which has unenforceable: warn; `volery agents new` begins one"
        }
    }
}

/// Returns why the program may not be given an argument that was asked for.
fn wrong_argument(setup: &Setup, spec: &BackendSpec) -> Option<String> {
    let can = capabilities(spec).extra_args;
    // One that takes none at all is warned about.
    if can.is_empty() { None } else { permitted_args(&setup.extra_args, can).err() }
}

fn answers_into_file(setup: &Setup, spec: &BackendSpec) -> bool {
    let backend = backend::registry::by_kind(&spec.kind);
    backend.is_some_and(|backend| backend.answers_into_file(setup, &spec.options))
}

/// Says how an agent answers by its backend.
pub(super) fn answers_by(setup: &Setup, spec: &BackendSpec) -> AnswersBy {
    match setup.answers() {
        AnswersBy::File if !answers_into_file(setup, spec) => AnswersBy::Output,
        told @ (AnswersBy::File | AnswersBy::SubmitResult | AnswersBy::Output) => told,
    }
}

/// Returns a sentence for each wish that the backend cannot honour.
pub(super) fn unhonoured(wishes: &Wishes<'_>, spec: &BackendSpec) -> Vec<String> {
    let Some(backend) = backend::registry::by_kind(&spec.kind) else { return Vec::new() };
    let can = backend.capabilities(&spec.options);
    let name = &spec.name;
    let sentences = [
        (wishes.system_prompt && !can.system_prompt).then(|| {
            format!(
                "the system prompt does not reach the agent: the command of {name} has no {{system_file}}"
            )
        }),
        (wishes.model && !can.model)
            .then(|| format!("the model is not passed on: the command of {name} has no {{model}}")),
        can.starts_other_servers.then(|| {
            format!(
                "{name} may start the MCP servers of its user and of the project, which the agent cannot use"
            )
        }),
        (can.edits_anywhere && edits_by_default(&wishes.setup.permission)).then(|| {
            format!("{name} changes files outside of its directory too: the agent names no level, and safe-edit is not enforced")
        }),
        (wishes.resume && !can_resume(spec)).then(|| {
            format!("on_interrupt: resume is not possible with {name}; an interrupted run would end")
        }),
    ];
    let mut sentences: Vec<String> = sentences.into_iter().flatten().collect();
    sentences.extend(doubt(spec));
    if !can.session && Launch::of(&spec.options).sessions.is_some() {
        sentences.push(format!("the folder of sessions is not honoured by {name}"));
    }
    sentences.extend(unhonoured_setup(wishes.setup, can, name.as_str()));
    if wishes.setup.response_file.is_some() && can.response_file && !answers_into_file(wishes.setup, spec) {
        let reason = "the agent may not write files, and answers by its output";
        sentences.push(format!("response_file is not honoured: {reason}"));
    }
    if backend.program().is_some() {
        let beyond = wishes.setup.inherit.iter().filter(|item| **item != Inherited::Environment);
        let withheld = beyond.filter(|item| !can.inherits.contains(item));
        sentences.extend(withheld.map(|item| {
            format!("withheld: {}: {name} runs with what its agent's definition gives it", item.describe())
        }));
    }
    let permission = &wishes.setup.permission;
    let ungranted = backend.ungranted(permission, &spec.options);
    sentences.extend(
        ungranted.into_iter().map(|rule| format!("{rule} grants nothing: {name} has no words for it")),
    );
    sentences.extend(unasked::denied(wishes.setup, wishes.owner, wishes.answers, backend, spec));
    if wishes.setup.unenforceable == Unenforceable::Warn {
        let gaps = unenforceable(&wishes.setup.permission, spec);
        sentences.extend(gaps.into_iter().map(|gap| format!("{gap} is not enforced by {name}")));
    }
    sentences
}

/// Returns what is to be said about the version of the backend's program, whoever uses it.
pub(super) fn doubt(spec: &BackendSpec) -> Option<String> {
    let program = backend::registry::by_kind(&spec.kind)?.program()?;
    crate::programs::doubt(program, &Launch::of(&spec.options))
}

/// Tells whether an agent may edit files because nothing else was said.
fn edits_by_default(permission: &Permission) -> bool {
    let of_edits = |rule: &Rule| matches!(rule.kind(), ToolKind::Edit | ToolKind::Everything);
    let mut rules = permission.allow.iter().chain(&permission.ask).chain(&permission.deny);
    permission.level.is_none() && !rules.any(of_edits)
}

/// Returns why the system prompt cannot reach the agent.
fn wrong_prompt(system_prompt: &str, setup: &Setup, spec: &BackendSpec) -> Option<String> {
    let problem = capabilities(spec).wrong_prompt(system_prompt, setup.prompt_mode)?;
    Some(format!("with {}, {problem}", spec.name))
}

/// Tells whether the backend's program can run in a container.
pub(super) fn takes_containers(spec: &BackendSpec) -> bool {
    capabilities(spec).containers
}

/// Returns the parts of a permission that the backend cannot express.
pub(super) fn unenforceable(permission: &Permission, spec: &BackendSpec) -> Vec<String> {
    let Some(backend) = backend::registry::by_kind(&spec.kind) else { return Vec::new() };
    if permission.is_empty() { Vec::new() } else { backend.unenforceable(permission, &spec.options) }
}

/// Returns why a run cannot be accepted: what its agent demands to be enforced and the backend cannot.
pub(super) fn refusal(setup: &Setup, spec: &BackendSpec) -> Option<String> {
    let gaps = match setup.unenforceable {
        Unenforceable::Refuse => unenforceable(&setup.permission, spec),
        Unenforceable::Warn => Vec::new(),
    };
    (!gaps.is_empty()).then(|| format!("the backend {} cannot enforce {}", spec.name, gaps.join(", ")))
}

/// Returns what is wrong with the schema that answers shall satisfy.
fn wrong_schema(setup: &Setup) -> Option<String> {
    let schema = setup.output_schema.as_ref()?;
    Schema::compile(schema).err().map(|error| format!("output_schema: {error}"))
}

fn unhonoured_setup(setup: &Setup, can: Capabilities, name: &str) -> Vec<String> {
    // What stands in a file of its own kind the program honours by itself, unless it gets a copy with our servers.
    let by_itself = can.reads_own_files && setup.vendor_agent.is_some();
    let unchanged = setup.submit_result.is_none() && setup.vendor_file.is_none();
    // Where the servers themselves are not honoured, that says it all.
    let server_has = |wish: fn(&McpServer) -> bool| {
        can.mcp_servers && !(by_itself && unchanged) && setup.mcp_servers.iter().any(wish)
    };
    let of_backend = [
        (setup.effort.is_some() && !can.effort, "effort"),
        (setup.temperature.is_some() && !can.temperature, "temperature"),
        (setup.tools.is_some() && !can.tools && !by_itself, "tools"),
        (setup.prompt_mode == PromptMode::Replace && !can.replaces_prompt, "prompt_mode: replace"),
        (setup.context == Context::None && !can.skips_context, "context: none"),
        (!setup.mcp_servers.is_empty() && !can.mcp_servers, "mcp_servers"),
        (
            server_has(|server| server.tools.is_some()) && !can.server_tools,
            "the list of tools of an MCP server",
        ),
        (
            server_has(|server| server.timeout_ms.is_some()) && !can.server_timeouts,
            "the time-out of an MCP server",
        ),
        (setup.wants_value() && !can.output_schema, "the form of the output"),
        (!setup.extra_args.is_empty() && can.extra_args.is_empty(), "extra_args"),
        (!setup.extra_directories.is_empty() && !can.extra_directories, "extra_directories"),
        (setup.vendor_settings.is_some() && !can.vendor_settings, "the path of the settings"),
        (setup.max_turns.is_some() && !can.max_turns, "max_turns"),
        (setup.response_file.is_some() && !can.response_file, "the response file"),
        (setup.keeps_session && can.session && !can.names_sessions, "session: true"),
    ];
    let unhonoured = of_backend.into_iter().filter(|(wanted, _)| *wanted);
    let unhonoured = unhonoured.map(|(_, what)| format!("{what} is not honoured by {name}"));
    let useless = setup.mcp_servers.iter().filter(|_| can.mcp_servers).filter_map(|server| {
        let reason = useless(server, &setup.permission)?;
        Some(format!("no tool of the MCP server {} may be used: {reason}", server.name))
    });
    unhonoured.chain(useless).chain(strange_servers(setup)).collect()
}

/// Returns a sentence for each server whose tools the agent shall use and that it does not get.
fn strange_servers(setup: &Setup) -> Vec<String> {
    let plain = |name: &str| name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    let own: Vec<String> = setup.mcp_servers.iter().map(|server| plain(&server.name)).collect();
    let rules = setup.permission.allow.iter().chain(&setup.permission.ask).map(Rule::tool);
    let tools = setup.tools.iter().flatten().map(String::as_str);
    let named = tools.chain(rules).filter_map(mcp_server::named_in_tool);
    let mut strange: Vec<&str> =
        named.filter(|name| *name != OWN_SERVER && !own.iter().any(|own| is_of(&plain(name), own))).collect();
    strange.sort_unstable();
    strange.dedup();
    let sentence = |name: &str| {
        format!(
            "no tool of the MCP server {name} can be used: the agent has only the servers that its own file defines \
             and does not switch off"
        )
    };
    strange.into_iter().map(sentence).collect()
}

/// Tells whether a name is a server's, or as much of it as stands before the first `_` of it.
fn is_of(name: &str, server: &str) -> bool {
    server == name
        || server.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'))
        || name.contains('*')
}

/// Returns why nothing that a server offers may be used.
fn useless(server: &McpServer, permission: &Permission) -> Option<String> {
    let speaks =
        |rule: &Rule| matches!(rule.kind(), ToolKind::Mcp { server: named, .. } if named == server.name);
    if permission.allow.iter().chain(&permission.ask).any(speaks) {
        return None;
    }
    let some_tool = format!("mcp__{}__tool", server.name);
    match permission.decide(&some_tool, &serde_json::Value::Null, &Ground::default()) {
        Ruling::Deny(reason) => Some(reason),
        Ruling::Allow(_) | Ruling::Ask(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use domain::agent::{Layer, Source};
    use domain::permission::Level;

    use super::*;

    fn backend(name: &str) -> BackendSpec {
        let options = serde_json::Value::Null;
        BackendSpec { name: name.parse().unwrap(), kind: name.to_owned(), options }
    }

    #[test]
    fn a_default_level_that_is_not_enforced_is_told() {
        let told = |name: &str, permission: Permission| {
            let source = Source { file: String::new(), format: Format::Volery, layer: Layer::Project };
            let agent = Agent::new("a".parse().unwrap(), name.parse().unwrap(), source);
            let setup = Setup { permission, ..Setup::default() };
            let agent = Agent { setup, ..agent };
            let wishes = Wishes::of_agent(&agent);
            let sentences = unhonoured(&wishes, &backend(name));
            sentences.iter().any(|sentence| sentence.contains("safe-edit is not enforced"))
        };
        let deny = |rule: &str| Permission { deny: vec![rule.parse().unwrap()], ..Permission::default() };
        for name in ["goose", "kimi"] {
            assert!(told(name, Permission::default()) && told(name, deny("Bash")), "{name}");
            assert!(!told(name, deny("Edit")), "{name}");
            let reader = Permission { level: Some(Level::ReadOnly), ..Permission::default() };
            assert!(!told(name, reader), "{name}");
        }
        assert!(!told("claude", Permission::default()));
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
