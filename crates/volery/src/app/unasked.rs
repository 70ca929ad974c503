//! What an agent is denied because its program can ask nobody while it runs: rules that want a question, and tools that
//! its list names and no rule allows. Programs that can ask put the question to a person instead.

use backend::contract::{Backend, Capabilities};
use domain::agent::Format;
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::run::BackendSpec;
use domain::setup::Setup;

/// Returns a sentence for each of them.
pub(super) fn denied(
    setup: &Setup,
    format: Format,
    backend: &'static dyn Backend,
    spec: &BackendSpec,
) -> Vec<String> {
    let can = backend.capabilities(&spec.options);
    // What has no program of a vendor's has no tools either, or none that we know of.
    if can.ask || backend.program().is_none() {
        return Vec::new();
    }
    let permission = &setup.permission;
    // What cannot even be denied is told as that.
    let unsaid = backend.unenforceable(permission, &spec.options);
    let is_said = |rule: &&Rule| !unsaid.contains(&format!("the rule ask {rule}"));
    let asks = permission.ask.iter().filter(is_said).map(|rule| {
        format!("permission: the rule ask {rule} denies, since nobody can be asked with {}", spec.name)
    });
    let tools = denied_tools(setup, can).into_iter().map(|tool| {
        let level = match permission.level {
            Some(level) => format!("the level {} does not allow it", level.as_str()),
            None => "without a level safe-edit holds, which does not allow it".to_owned(),
        };
        let way = way_to_allow(format, tool);
        format!("tools: {tool} is denied: {level}, and nobody can be asked with {}; {way}", spec.name)
    });
    asks.chain(tools).collect()
}

/// Returns the tools of the agent's list that its level denies and no rule speaks of.
fn denied_tools(setup: &Setup, can: Capabilities) -> Vec<&str> {
    // Where the list itself is not honoured, that says it all.
    let counts = can.tools || (can.reads_own_files && setup.vendor_agent.is_some());
    let named = setup.tools.iter().flatten().map(String::as_str);
    named.filter(|tool| counts && is_denied(&setup.permission, ToolKind::named(tool))).collect()
}

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

/// Says what to write where, so that a tool may be used.
fn way_to_allow(format: Format, tool: &str) -> String {
    match format {
        Format::Volery => format!("permission: {{allow: [{tool}]}} in its file allows it"),
        Format::Opencode => format!("permission: {{{tool}: allow}} in its file allows it"),
        Format::Kiro => format!("{tool} in allowedTools of its file allows it"),
        Format::Jarvis => format!("{tool} in permissions.allow of its file allows it"),
        Format::Plain
        | Format::DotAgents
        | Format::Directive
        | Format::Claude
        | Format::Cursor
        | Format::Codex
        | Format::Gemini
        | Format::Qwen
        | Format::Copilot => format!(
            "in Volery's own format, which `volery agents new` begins, permission: {{allow: [{tool}]}} allows it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(backend: &str, setup: &Setup) -> Vec<String> {
        let options = serde_json::Value::Null;
        let spec = BackendSpec { name: backend.parse().unwrap(), kind: backend.to_owned(), options };
        denied(setup, Format::Volery, backend::registry::by_kind(backend).unwrap(), &spec)
    }

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_rule_that_wants_a_question_is_told_where_nobody_can_be_asked() {
        let permission = Permission { ask: rules(&["Edit"]), ..Permission::default() };
        let setup = Setup { permission, ..Setup::default() };
        for backend in ["gemini", "copilot", "kiro", "opencode", "goose", "kimi"] {
            let expected =
                format!("permission: the rule ask Edit denies, since nobody can be asked with {backend}");
            assert_eq!(told(backend, &setup), [expected]);
        }
        // These ask, have no tools, or say that they cannot enforce it.
        for backend in ["claude", "codex", "qwen", "acp-gemini", "rehearsal", "api-openai", "cursor", "grok"]
        {
            assert_eq!(told(backend, &setup), [""; 0], "{backend}");
        }
    }

    #[test]
    fn a_tool_that_the_level_denies_is_told_with_what_allows_it() {
        let setup = |permission: Permission| Setup {
            tools: Some(["read", "execute", "write", "*"].map(ToOwned::to_owned).to_vec()),
            permission,
            ..Setup::default()
        };
        let level = |level: Level| Permission { level: Some(level), ..Permission::default() };
        for backend in ["gemini", "copilot", "opencode", "goose", "kimi"] {
            let expected = format!(
                "tools: execute is denied: without a level safe-edit holds, which does not allow it, and nobody can be \
                 asked with {backend}; permission: {{allow: [execute]}} in its file allows it"
            );
            assert_eq!(told(backend, &setup(Permission::default())), [expected]);
            assert_eq!(told(backend, &setup(level(Level::ReadOnly))).len(), 2, "{backend}");
            assert_eq!(told(backend, &setup(level(Level::Yolo))), [""; 0], "{backend}");
            let allows = Permission { allow: rules(&["Bash"]), ..Permission::default() };
            assert_eq!(told(backend, &setup(allows)), [""; 0], "{backend}");
        }
        for backend in ["claude", "codex", "qwen", "acp-gemini", "cursor", "grok"] {
            assert_eq!(told(backend, &setup(Permission::default())), [""; 0], "{backend}");
        }
    }
}
