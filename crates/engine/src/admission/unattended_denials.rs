//! Warns about what an agent is denied because no person can be asked while it runs: rules that ask, and tools that
//! no rule allows. The warning comes once per agent, before it runs, with the line that would allow it.

use backends::contract::{Backend, Capabilities};
use domain::agent::{Agent, AgentFormat};
use domain::id::AgentName;
use domain::permission::{Permission, Rule, ToolKind};
use domain::policy::{Extent, Grant, GrantSource};
use domain::run::BackendSpec;
use domain::setup::Setup;

/// Who answers the questions of an agent's runs, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approver<'a> {
    /// No run was requested yet.
    Unknown,
    Available,
    /// With the reason.
    Nobody(&'a str),
}

/// The owner of a permission, and where to change it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PermissionOwner<'a> {
    name: &'a AgentName,
    format: AgentFormat,
    has_file: bool,
    /// The permission of a parent run, and its name in a warning: a child has no more.
    parent: Option<&'a Grant>,
}

impl<'a> PermissionOwner<'a> {
    pub(crate) fn for_agent(agent: &'a Agent) -> Self {
        let has_file = !agent.source.is_built_in();
        Self { name: &agent.name, format: agent.source.format, has_file, parent: None }
    }

    /// Returns the owner of a run's permission, which its parent run may limit.
    pub(crate) fn for_run(agent: &'a Agent, grants: &'a [Grant]) -> Self {
        let parent = grants.iter().find(|grant| grant.source == GrantSource::Parent);
        Self { parent, ..Self::for_agent(agent) }
    }
}

/// Returns a warning for each rule that asks and therefore denies here, and one for all denied tools.
pub(crate) fn denial_warnings(
    setup: &Setup,
    owner: PermissionOwner<'_>,
    answers: Approver<'_>,
    backend: &'static dyn Backend,
    spec: &BackendSpec,
) -> Vec<String> {
    let can = backend.capabilities(&spec.options);
    // Without a vendor's program there are no tools, or none that we know of.
    if backend.program().is_none() {
        return Vec::new();
    }
    let permission = &setup.permission;
    let nobody = match (can.ask, answers) {
        (false, _) => Some(format!("{} cannot ask anybody", spec.name)),
        (true, Approver::Nobody(reason)) => Some(format!("nobody can answer: {reason}")),
        (true, Approver::Unknown | Approver::Available) => None,
    };
    // A rule that cannot even be enforced as a denial is reported as that.
    let unenforceable = backend.unenforceable(&permission.for_vendor(), &spec.options);
    let is_enforceable = |rule: &&Rule| !unenforceable.contains(&format!("the rule ask {rule}"));
    let ask_warnings = permission.ask.iter().filter(is_enforceable).filter_map(|rule| {
        let nobody = nobody.as_ref()?;
        Some(format!("permission: the rule ask {rule} denies, since {nobody}"))
    });
    let mut sentences: Vec<String> = ask_warnings.collect();
    let tools = denied_tools(setup, owner.format, can);
    if tools.is_empty() {
        return sentences;
    }
    let can_allow = can_allow(permission, &tools, backend, spec);
    let (are, them) = if tools.len() == 1 { ("is", "it") } else { ("are", "them") };
    let fate = match (permission.level, &nobody, answers) {
        (Some(level), _, _) => format!("{are} denied: the level {} does not allow {them}", level.as_str()),
        (None, Some(nobody), _) => {
            format!(
                "{are} denied: without a level safe-edit holds, which does not allow {them}, and {nobody}"
            )
        }
        (None, None, Approver::Unknown) => {
            let need = if tools.len() == 1 { "needs" } else { "need" };
            format!("{need} an answer from a person, and {are} denied where nobody can answer")
        }
        (None, None, Approver::Available | Approver::Nobody(_)) => return sentences,
    };
    sentences.push(format!("tools: {} {fate}; {}", tools.join(", "), allow_hint(owner, &tools, can_allow)));
    sentences
}

/// Returns the tools that the agent's level denies and no rule mentions: those of its list, or the shell for an agent
/// without a list.
fn denied_tools(setup: &Setup, format: AgentFormat, can: Capabilities) -> Vec<&str> {
    let is_denied = |tool: &&str| is_denied(&setup.permission, ToolKind::from_name(tool));
    // If the list itself is not supported, that warning is enough.
    let counts = can.tools || (can.reads_own_files && setup.vendor_agent.is_some());
    match &setup.tools {
        Some(tools) => tools.iter().map(String::as_str).filter(|tool| counts && is_denied(tool)).collect(),
        // A user who set a level has chosen.
        None if setup.permission.level.is_some() || can.sandboxes_commands => Vec::new(),
        None => std::iter::once(shell_name(format)).filter(is_denied).collect(),
    }
}

/// Returns the name of the shell tool in a format, for an agent whose file does not name it.
fn shell_name(format: AgentFormat) -> &'static str {
    match format {
        AgentFormat::Opencode => "bash",
        AgentFormat::Kiro => "execute_bash",
        AgentFormat::Volery
        | AgentFormat::Plain
        | AgentFormat::DotAgents
        | AgentFormat::Directive
        | AgentFormat::Jarvis
        | AgentFormat::Claude
        | AgentFormat::Cursor
        | AgentFormat::Codex
        | AgentFormat::Gemini
        | AgentFormat::Qwen
        | AgentFormat::Copilot => "Bash",
    }
}

fn is_denied(permission: &Permission, kind: ToolKind<'_>) -> bool {
    let mut rules = permission.allow.iter().chain(&permission.ask).chain(&permission.deny);
    // Some programs delegate without asking, and what the others do is not known.
    let is_known = matches!(kind, ToolKind::Edit | ToolKind::Shell | ToolKind::Fetch | ToolKind::WebSearch);
    is_known && !rules.any(|rule| rule.is_about(kind)) && permission.level_extent(kind) == Extent::Nothing
}

/// Returns the section of a configuration for an agent, in TOML syntax.
pub fn config_section(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    match name.chars().all(is_bare) {
        true => format!("[agents.{name}]"),
        false => format!("[agents.\"{name}\"]"),
    }
}

/// Returns a warning about an agent in the form that it has for all of them: with `NAME` in place of the agent's name in
/// the configuration section to write.
pub fn without_agent_name(text: &str, name: &str) -> String {
    text.replace(&config_section(name), "[agents.NAME]")
}

/// Returns whether rules would allow the tools: some programs have no rules, only levels.
fn can_allow(
    permission: &Permission,
    tools: &[&str],
    backend: &'static dyn Backend,
    spec: &BackendSpec,
) -> bool {
    let rules: Vec<Rule> = tools.iter().filter_map(|tool| tool.parse().ok()).collect();
    let allows = Permission { allow: [permission.allow.clone(), rules].concat(), ..permission.clone() };
    let gaps = |permission: &Permission| {
        backend.unenforceable(permission, &spec.options).len()
            + backend.inexpressible_grants(permission, &spec.options).len()
    };
    gaps(&allows) <= gaps(permission)
}

/// Says what to write where to allow the tools.
fn allow_hint(owner: PermissionOwner<'_>, tools: &[&str], can_allow: bool) -> String {
    let is_held =
        |parent: &&Grant| tools.iter().any(|tool| is_denied(&parent.requested, ToolKind::from_name(tool)));
    if let Some(parent) = owner.parent.filter(is_held) {
        return format!("{} may not use that either: allow it there and here", parent.by);
    }
    if !can_allow {
        let section = config_section(owner.name.as_str());
        return format!("to allow that, write permission = \"yolo\" under {section} in your configuration");
    }
    let listed = tools.join(", ");
    let in_file = match owner.format {
        AgentFormat::Volery if owner.has_file => {
            Some(format!("permission: {{allow: [{listed}]}} in its file"))
        }
        AgentFormat::Opencode => {
            let rules: Vec<String> = tools.iter().map(|tool| format!("{tool}: allow")).collect();
            Some(format!("permission: {{{}}} in its file", rules.join(", ")))
        }
        AgentFormat::Kiro => Some(format!("{listed} in allowedTools of its file")),
        AgentFormat::Jarvis => Some(format!("{listed} in permissions.allow of its file")),
        AgentFormat::Volery
        | AgentFormat::Plain
        | AgentFormat::DotAgents
        | AgentFormat::Directive
        | AgentFormat::Claude
        | AgentFormat::Cursor
        | AgentFormat::Codex
        | AgentFormat::Gemini
        | AgentFormat::Qwen
        | AgentFormat::Copilot => None,
    };
    let quoted: Vec<String> = tools.iter().map(|tool| format!("{tool:?}")).collect();
    let in_config = format!(
        "permission = {{ allow = [{}] }} under {} in your configuration",
        quoted.join(", "),
        config_section(owner.name.as_str())
    );
    match in_file {
        Some(in_file) => format!("to allow that, write {in_file}, or {in_config}"),
        None => format!("to allow that, write {in_config}"),
    }
}

#[cfg(test)]
mod tests {
    use domain::permission::Level;

    use super::*;

    fn warnings(backend: &str, setup: &Setup, answers: Approver<'_>) -> Vec<String> {
        let options = serde_json::Value::Null;
        let spec = BackendSpec { name: backend.parse().unwrap(), kind: backend.to_owned(), options };
        let name = "worker".parse().unwrap();
        let owner =
            PermissionOwner { name: &name, format: AgentFormat::Volery, has_file: false, parent: None };
        denial_warnings(setup, owner, answers, backends::registry::by_kind(backend).unwrap(), &spec)
    }

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn an_ask_rule_is_reported_where_nobody_can_answer() {
        let permission = Permission { ask: rules(&["Edit"]), ..Permission::default() };
        let tools = Some(Vec::new());
        let setup = Setup { permission, tools, ..Setup::default() };
        for backend in ["gemini", "copilot", "kiro", "opencode", "goose", "kimi"] {
            let expected =
                format!("permission: the rule ask Edit denies, since {backend} cannot ask anybody");
            assert_eq!(warnings(backend, &setup, Approver::Available), [expected]);
        }
        for backend in ["claude", "codex", "qwen"] {
            assert_eq!(warnings(backend, &setup, Approver::Unknown), [""; 0], "{backend}");
            let expected = "permission: the rule ask Edit denies, since nobody can answer: CI is set";
            assert_eq!(warnings(backend, &setup, Approver::Nobody("CI is set")), [expected], "{backend}");
        }
        // These have no tools, or report that they cannot enforce it.
        for backend in ["rehearsal", "api-openai", "acp-gemini", "cursor", "grok"] {
            assert_eq!(warnings(backend, &setup, Approver::Unknown), [""; 0], "{backend}");
        }
    }

    const HINT: &str = "to allow that, write permission = { allow = [\"execute\"] } under [agents.worker] in your configuration";

    #[test]
    fn denied_tools_are_reported_once_with_what_allows_them() {
        let setup = |permission: Permission| Setup {
            tools: Some(["read", "execute", "write", "*"].map(ToOwned::to_owned).to_vec()),
            permission,
            ..Setup::default()
        };
        let level = |level: Level| Permission { level: Some(level), ..Permission::default() };
        for backend in ["gemini", "copilot", "opencode", "goose", "kimi"] {
            let expected = format!(
                "tools: execute is denied: without a level safe-edit holds, which does not allow it, and {backend} cannot \
                 ask anybody; {HINT}"
            );
            assert_eq!(warnings(backend, &setup(Permission::default()), Approver::Unknown), [expected]);
            let both = warnings(backend, &setup(level(Level::ReadOnly)), Approver::Unknown);
            assert!(both[0].starts_with("tools: execute, write are denied: the level read-only"), "{both:?}");
            assert_eq!(both.len(), 1, "{both:?}");
            assert_eq!(
                warnings(backend, &setup(level(Level::Yolo)), Approver::Unknown),
                [""; 0],
                "{backend}"
            );
            let allows = Permission { allow: rules(&["Bash"]), ..Permission::default() };
            assert_eq!(warnings(backend, &setup(allows), Approver::Unknown), [""; 0], "{backend}");
        }
        let usual = setup(Permission::default());
        assert_eq!(
            warnings("claude", &usual, Approver::Unknown),
            [format!(
                "tools: execute needs an answer from a person, and is denied where nobody can answer; {HINT}"
            )]
        );
        assert_eq!(warnings("claude", &usual, Approver::Available), [""; 0]);
        let nobody = warnings("claude", &usual, Approver::Nobody("CI is set"));
        assert!(
            nobody[0].contains("does not allow it, and nobody can answer: CI is set; to allow"),
            "{nobody:?}"
        );
    }

    #[test]
    fn a_section_can_be_copied_into_a_configuration() {
        assert_eq!(config_section("code-reviewer_2"), "[agents.code-reviewer_2]");
        assert_eq!(config_section("team/lead"), "[agents.\"team/lead\"]");
        assert_eq!(config_section("plugin:agent"), "[agents.\"plugin:agent\"]");
    }

    #[test]
    fn an_agent_without_a_list_of_tools_has_a_warning_about_the_shell() {
        let setup = Setup::default();
        assert_eq!(
            warnings("claude", &setup, Approver::Unknown),
            [
                "tools: Bash needs an answer from a person, and is denied where nobody can answer; to allow that, write \
              permission = { allow = [\"Bash\"] } under [agents.worker] in your configuration"
            ]
        );
        let level = Permission { level: Some(Level::ReadOnly), ..Permission::default() };
        let chosen = Setup { permission: level, ..Setup::default() };
        assert_eq!(warnings("claude", &chosen, Approver::Unknown), [""; 0], "a level is a choice");
        // Their own sandbox holds commands to the level, and they need no approval.
        for backend in ["codex", "grok"] {
            assert_eq!(warnings(backend, &setup, Approver::Nobody("CI is set")), [""; 0], "{backend}");
        }
        // It has no rules.
        let cursor = warnings("cursor", &setup, Approver::Unknown);
        let hint = "; to allow that, write permission = \"yolo\" under [agents.worker] in your configuration";
        assert!(cursor[0].starts_with("tools: Bash is denied: ") && cursor[0].ends_with(hint), "{cursor:?}");
        assert_eq!(warnings("claude", &setup, Approver::Available), [""; 0]);
        for (backend, answers) in [("claude", Approver::Nobody("CI is set")), ("gemini", Approver::Available)]
        {
            let warnings = warnings(backend, &setup, answers);
            assert!(warnings[0].starts_with("tools: Bash is denied: without a level"), "{warnings:?}");
        }
    }
}
