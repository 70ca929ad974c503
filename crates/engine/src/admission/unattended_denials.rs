//! Warns before a run about certain denials: rules that ask where nobody can answer, and listed tools that the level does
//! not allow. Does not warn about commands if the decision depends on the command.

use backends::contract::{Backend, Capabilities};
use domain::permission::{Level, Rule, ToolKind};
use domain::policy::Extent;
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

/// Returns a warning for each rule that asks and therefore denies here, and one for all denied tools.
pub(crate) fn denial_warnings(
    setup: &Setup,
    answers: Approver<'_>,
    backend: &'static dyn Backend,
    spec: &BackendSpec,
) -> Vec<String> {
    let can = backend.capabilities(&spec.options);
    // Without a vendor's program there are no tools, or none that Volery knows.
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
    let reason = match (permission.level, nobody) {
        (Some(level), _) => format!("the level {} does not allow", level.as_str()),
        (None, Some(nobody)) => {
            format!("{nobody}, and the level {} does not allow", Level::SafeEdit.as_str())
        }
        (None, None) => return sentences,
    };
    let tools = denied_tools(setup, can);
    match &tools[..] {
        [] => {}
        [tool] => sentences.push(format!("tools: {tool} is denied: {reason} it")),
        tools => sentences.push(format!("tools: {} are denied: {reason} them", tools.join(", "))),
    }
    sentences
}

/// Returns the tools of the agent's list whose every use is denied.
fn denied_tools(setup: &Setup, can: Capabilities) -> Vec<&str> {
    let is_denied = |tool: &&String| {
        let kind = ToolKind::from_name(tool);
        let is_certain = match kind {
            // Volery allows commands that only read if the program asks. A program with a sandbox executes commands in it.
            ToolKind::Shell => !can.ask && !can.sandboxes_commands,
            ToolKind::Edit | ToolKind::Fetch | ToolKind::WebSearch => true,
            // Some programs delegate without asking, and what the others do is not known.
            ToolKind::Read
            | ToolKind::Search
            | ToolKind::Delegate
            | ToolKind::Mcp { .. }
            | ToolKind::Env
            | ToolKind::Everything
            | ToolKind::Other(_) => false,
        };
        let permission = &setup.permission;
        let mut rules = permission.allow.iter().chain(&permission.ask).chain(&permission.deny);
        is_certain
            && !rules.any(|rule| rule.is_about(kind))
            && permission.level_extent(kind) == Extent::Nothing
    };
    // If the list itself is not supported, that warning is enough.
    let counts = can.tools || (can.reads_own_files && setup.vendor_agent.is_some());
    setup.tools.iter().flatten().filter(|_| counts).filter(is_denied).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use domain::permission::Permission;

    use super::*;

    fn warnings(backend: &str, setup: &Setup, answers: Approver<'_>) -> Vec<String> {
        let options = serde_json::Value::Null;
        let spec = BackendSpec { name: backend.parse().unwrap(), kind: backend.to_owned(), options };
        denial_warnings(setup, answers, backends::registry::by_kind(backend).unwrap(), &spec)
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

    #[test]
    fn listed_tools_that_are_certainly_denied_are_reported_once() {
        let setup = |permission: Permission| Setup {
            tools: Some(["read", "execute", "write", "webfetch", "*"].map(ToOwned::to_owned).to_vec()),
            permission,
            ..Setup::default()
        };
        let level = |level: Level| Permission { level: Some(level), ..Permission::default() };
        for backend in ["gemini", "copilot", "opencode", "goose", "kimi"] {
            let expected = format!(
                "tools: execute, webfetch are denied: {backend} cannot ask anybody, and the level safe-edit does not allow them"
            );
            assert_eq!(warnings(backend, &setup(Permission::default()), Approver::Unknown), [expected]);
            let expected =
                "tools: execute, write, webfetch are denied: the level read-only does not allow them";
            assert_eq!(warnings(backend, &setup(level(Level::ReadOnly)), Approver::Unknown), [expected]);
            let yolo = setup(level(Level::Yolo));
            assert_eq!(warnings(backend, &yolo, Approver::Unknown), [""; 0], "{backend}");
            let allows = Permission { allow: rules(&["Bash", "WebFetch"]), ..Permission::default() };
            assert_eq!(warnings(backend, &setup(allows), Approver::Unknown), [""; 0], "{backend}");
        }
        // Claude Code executes commands that only read, and a person may allow other commands.
        let usual = setup(Permission::default());
        for answers in [Approver::Unknown, Approver::Available] {
            assert_eq!(warnings("claude", &usual, answers), [""; 0]);
        }
        let expected = "tools: webfetch is denied: nobody can answer: CI is set, and the level safe-edit does not allow it";
        assert_eq!(warnings("claude", &usual, Approver::Nobody("CI is set")), [expected]);
        let expected = "tools: write, webfetch are denied: the level read-only does not allow them";
        assert_eq!(warnings("claude", &setup(level(Level::ReadOnly)), Approver::Available), [expected]);
    }

    #[test]
    fn an_agent_without_a_list_of_tools_has_no_warning() {
        for backend in ["claude", "gemini", "cursor", "codex", "grok"] {
            for answers in [Approver::Nobody("CI is set"), Approver::Unknown] {
                assert_eq!(warnings(backend, &Setup::default(), answers), [""; 0], "{backend}");
            }
        }
    }
}
