//! What an agent is denied because nobody can be asked while it runs: rules that want a question, and tools that no rule
//! allows. Told once per agent, before it runs, with the line that would allow it.

use backend::contract::{Backend, Capabilities};
use domain::agent::{Agent, Format};
use domain::id::AgentName;
use domain::permission::{Grant, GrantSource, Level, Permission, Rule, ToolKind};
use domain::run::BackendSpec;
use domain::setup::Setup;

/// Who answers the questions of an agent's runs, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers<'a> {
    /// No run was asked for yet.
    NotKnown,
    Somebody,
    /// And why.
    Nobody(&'a str),
}

/// Whose permission it is, and what to write where to change it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    name: &'a AgentName,
    format: Format,
    has_file: bool,
    /// What a parent run has, and the sentence's name for it: a child has no more.
    parent: Option<&'a Grant>,
}

impl<'a> Owner<'a> {
    pub(super) fn of(agent: &'a Agent) -> Self {
        let has_file = !agent.source.is_built_in();
        Self { name: &agent.name, format: agent.source.format, has_file, parent: None }
    }

    /// Returns the owner of a run's permission, which its parent run may hold.
    pub(super) fn of_run(agent: &'a Agent, grants: &'a [Grant]) -> Self {
        let parent = grants.iter().find(|grant| grant.source == GrantSource::Parent);
        Self { parent, ..Self::of(agent) }
    }
}

/// Returns a sentence for each rule that asks and is a denial here, and one for all tools that are denied.
pub(super) fn denied(
    setup: &Setup,
    owner: Owner<'_>,
    answers: Answers<'_>,
    backend: &'static dyn Backend,
    spec: &BackendSpec,
) -> Vec<String> {
    let can = backend.capabilities(&spec.options);
    // What has no program of a vendor's has no tools either, or none that we know of.
    if backend.program().is_none() {
        return Vec::new();
    }
    let permission = &setup.permission;
    let nobody = match (can.ask, answers) {
        (false, _) => Some(format!("{} cannot ask anybody", spec.name)),
        (true, Answers::Nobody(reason)) => Some(format!("nobody can answer: {reason}")),
        (true, Answers::NotKnown | Answers::Somebody) => None,
    };
    // What cannot even be denied is told as that.
    let unsaid = backend.unenforceable(permission, &spec.options);
    let is_said = |rule: &&Rule| !unsaid.contains(&format!("the rule ask {rule}"));
    let asks = permission.ask.iter().filter(is_said).filter_map(|rule| {
        let nobody = nobody.as_ref()?;
        Some(format!("permission: the rule ask {rule} denies, since {nobody}"))
    });
    let mut sentences: Vec<String> = asks.collect();
    let tools = denied_tools(setup, can, answers);
    if tools.is_empty() {
        return sentences;
    }
    let (are, them) = if tools.len() == 1 { ("is", "it") } else { ("are", "them") };
    let fate = match (permission.level, &nobody, answers) {
        (Some(level), _, _) => format!("{are} denied: the level {} does not allow {them}", level.as_str()),
        (None, Some(nobody), _) => {
            format!(
                "{are} denied: without a level safe-edit holds, which does not allow {them}, and {nobody}"
            )
        }
        (None, None, Answers::NotKnown) => {
            let need = if tools.len() == 1 { "needs" } else { "need" };
            format!("{need} an answer from a person, and {are} denied where nobody can answer")
        }
        (None, None, Answers::Somebody | Answers::Nobody(_)) => return sentences,
    };
    sentences.push(format!("tools: {} {fate}; {}", tools.join(", "), way_to_allow(owner, &tools)));
    sentences
}

/// Returns the tools that the agent's level denies and no rule speaks of: those of its list, or the shell if a run of an
/// agent without a list begins.
fn denied_tools<'a>(setup: &'a Setup, can: Capabilities, answers: Answers<'_>) -> Vec<&'a str> {
    let is_denied = |tool: &&str| is_denied(&setup.permission, ToolKind::named(tool));
    // Where the list itself is not honoured, that says it all.
    let counts = can.tools || (can.reads_own_files && setup.vendor_agent.is_some());
    match &setup.tools {
        Some(tools) => tools.iter().map(String::as_str).filter(|tool| counts && is_denied(tool)).collect(),
        // Who named a level has chosen.
        None if answers == Answers::NotKnown || setup.permission.level.is_some() => Vec::new(),
        None => std::iter::once(SHELL).filter(is_denied).collect(),
    }
}

/// What the shell is called where an agent's file does not name it.
const SHELL: &str = "Bash";

fn is_denied(permission: &Permission, kind: ToolKind<'_>) -> bool {
    let speaks = |rule: &Rule| rule.kind() == kind || rule.kind() == ToolKind::Everything;
    let mut rules = permission.allow.iter().chain(&permission.ask).chain(&permission.deny);
    if rules.any(speaks) {
        return false;
    }
    match (permission.level.unwrap_or(Level::SafeEdit), kind) {
        (Level::Yolo, _) => false,
        (Level::ReadOnly, ToolKind::Edit) => true,
        (Level::SafeEdit, ToolKind::Edit) => false,
        (Level::ReadOnly | Level::SafeEdit, ToolKind::Shell | ToolKind::Fetch | ToolKind::WebSearch) => true,
        // Some programs hand work to others unasked, and what others do is not known.
        (
            Level::ReadOnly | Level::SafeEdit,
            ToolKind::Read
            | ToolKind::Search
            | ToolKind::Delegate
            | ToolKind::Mcp { .. }
            | ToolKind::Everything
            | ToolKind::Other(_),
        ) => false,
    }
}

/// Returns the section of a configuration for an agent, as TOML wants it.
pub(crate) fn section_of(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    match name.chars().all(is_bare) {
        true => format!("[agents.{name}]"),
        false => format!("[agents.\"{name}\"]"),
    }
}

/// Says what to write where, so that tools may be used.
fn way_to_allow(owner: Owner<'_>, tools: &[&str]) -> String {
    let held = |parent: &&Grant| tools.iter().any(|tool| is_denied(&parent.asked, ToolKind::named(tool)));
    if let Some(parent) = owner.parent.filter(held) {
        return format!("{} may not use that either: allow it there and here", parent.by);
    }
    let listed = tools.join(", ");
    let in_file = match owner.format {
        Format::Volery if owner.has_file => Some(format!("permission: {{allow: [{listed}]}} in its file")),
        Format::Opencode => {
            let rules: Vec<String> = tools.iter().map(|tool| format!("{tool}: allow")).collect();
            Some(format!("permission: {{{}}} in its file", rules.join(", ")))
        }
        Format::Kiro => Some(format!("{listed} in allowedTools of its file")),
        Format::Jarvis => Some(format!("{listed} in permissions.allow of its file")),
        Format::Volery
        | Format::Plain
        | Format::DotAgents
        | Format::Directive
        | Format::Claude
        | Format::Cursor
        | Format::Codex
        | Format::Gemini
        | Format::Qwen
        | Format::Copilot => None,
    };
    let quoted: Vec<String> = tools.iter().map(|tool| format!("{tool:?}")).collect();
    let in_config = format!(
        "permission = {{ allow = [{}] }} under {} in your configuration",
        quoted.join(", "),
        section_of(owner.name.as_str())
    );
    match in_file {
        Some(in_file) => format!("to allow that, write {in_file}, or {in_config}"),
        None => format!("to allow that, write {in_config}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(backend: &str, setup: &Setup, answers: Answers<'_>) -> Vec<String> {
        let options = serde_json::Value::Null;
        let spec = BackendSpec { name: backend.parse().unwrap(), kind: backend.to_owned(), options };
        let name = "worker".parse().unwrap();
        let owner = Owner { name: &name, format: Format::Volery, has_file: false, parent: None };
        denied(setup, owner, answers, backend::registry::by_kind(backend).unwrap(), &spec)
    }

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_rule_that_wants_a_question_is_told_where_nobody_can_be_asked() {
        let permission = Permission { ask: rules(&["Edit"]), ..Permission::default() };
        let tools = Some(Vec::new());
        let setup = Setup { permission, tools, ..Setup::default() };
        for backend in ["gemini", "copilot", "kiro", "opencode", "goose", "kimi"] {
            let expected =
                format!("permission: the rule ask Edit denies, since {backend} cannot ask anybody");
            assert_eq!(told(backend, &setup, Answers::Somebody), [expected]);
        }
        for backend in ["claude", "codex", "qwen"] {
            assert_eq!(told(backend, &setup, Answers::NotKnown), [""; 0], "{backend}");
            let expected = "permission: the rule ask Edit denies, since nobody can answer: CI is set";
            assert_eq!(told(backend, &setup, Answers::Nobody("CI is set")), [expected], "{backend}");
        }
        // These have no tools, or say that they cannot enforce it.
        for backend in ["rehearsal", "api-openai", "acp-gemini", "cursor", "grok"] {
            assert_eq!(told(backend, &setup, Answers::NotKnown), [""; 0], "{backend}");
        }
    }

    const WAY: &str = "to allow that, write permission = { allow = [\"execute\"] } under [agents.worker] in your configuration";

    #[test]
    fn tools_that_are_denied_are_told_once_with_what_allows_them() {
        let setup = |permission: Permission| Setup {
            tools: Some(["read", "execute", "write", "*"].map(ToOwned::to_owned).to_vec()),
            permission,
            ..Setup::default()
        };
        let level = |level: Level| Permission { level: Some(level), ..Permission::default() };
        for backend in ["gemini", "copilot", "opencode", "goose", "kimi"] {
            let expected = format!(
                "tools: execute is denied: without a level safe-edit holds, which does not allow it, and {backend} cannot \
                 ask anybody; {WAY}"
            );
            assert_eq!(told(backend, &setup(Permission::default()), Answers::NotKnown), [expected]);
            let both = told(backend, &setup(level(Level::ReadOnly)), Answers::NotKnown);
            assert!(both[0].starts_with("tools: execute, write are denied: the level read-only"), "{both:?}");
            assert_eq!(both.len(), 1, "{both:?}");
            assert_eq!(told(backend, &setup(level(Level::Yolo)), Answers::NotKnown), [""; 0], "{backend}");
            let allows = Permission { allow: rules(&["Bash"]), ..Permission::default() };
            assert_eq!(told(backend, &setup(allows), Answers::NotKnown), [""; 0], "{backend}");
        }
        let usual = setup(Permission::default());
        assert_eq!(
            told("claude", &usual, Answers::NotKnown),
            [format!(
                "tools: execute needs an answer from a person, and is denied where nobody can answer; {WAY}"
            )]
        );
        assert_eq!(told("claude", &usual, Answers::Somebody), [""; 0]);
        let nobody = told("claude", &usual, Answers::Nobody("CI is set"));
        assert!(
            nobody[0].contains("does not allow it, and nobody can answer: CI is set; to allow"),
            "{nobody:?}"
        );
    }

    #[test]
    fn a_section_can_be_copied_into_a_configuration() {
        assert_eq!(section_of("code-reviewer_2"), "[agents.code-reviewer_2]");
        assert_eq!(section_of("team/lead"), "[agents.\"team/lead\"]");
        assert_eq!(section_of("plugin:agent"), "[agents.\"plugin:agent\"]");
    }

    #[test]
    fn a_run_without_a_list_of_tools_says_that_the_shell_is_denied() {
        let setup = Setup::default();
        assert_eq!(told("claude", &setup, Answers::NotKnown), [""; 0]);
        assert_eq!(told("claude", &setup, Answers::Somebody), [""; 0]);
        for (backend, answers) in [("claude", Answers::Nobody("CI is set")), ("gemini", Answers::Somebody)] {
            let told = told(backend, &setup, answers);
            assert!(told[0].starts_with("tools: Bash is denied: without a level"), "{told:?}");
        }
    }
}
