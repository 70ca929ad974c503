//! Decides what the agents of one dialect inherit from their user, and writes notes about their denials.

use std::collections::BTreeSet;

use config::settings::Config;
use domain::dialect::DialectName;
use domain::inherit::{Inherited, describe_all};
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::policy::Extent;
use domain::run::{Denial, DenialCause};
use domain::setup::Setup;

use engine::{RunView, config_section};

/// The most notes of an answer, and the length of one.
const NOTES_MAX: usize = 20;
const NOTE_BYTES_MAX: usize = 500;
/// The prefix of warnings about what the agent does not inherit.
const WITHHELD: &str = "withheld: ";

/// What a dialect's agents inherit.
#[derive(Debug, Clone, Default)]
pub(super) struct Inheritance {
    inherited: BTreeSet<Inherited>,
    /// A sentence about what the system passes on but the configuration withholds.
    withheld: Option<String>,
}

impl Inheritance {
    pub(super) fn from_config(config: &Config, dialect: DialectName) -> Self {
        let inherited = config.inherit(dialect);
        let withheld: BTreeSet<Inherited> = dialect.inherits().difference(&inherited).copied().collect();
        let sentence =
            || format!("withheld: {}, by [dialects.{}] inherit", describe_all(&withheld), dialect.as_str());
        Self { withheld: (!withheld.is_empty()).then(sentence), inherited }
    }

    pub(super) fn apply_to(&self, setup: &mut Setup) {
        setup.inherit.clone_from(&self.inherited);
    }

    /// Returns a sentence for everything that a run's agent was denied or did not inherit.
    pub(super) fn notes(&self, run: &RunView) -> Vec<String> {
        let withheld = run.warnings.iter().filter(|warning| warning.starts_with(WITHHELD)).cloned();
        let denied = run.denials.iter().map(Denial::sentence);
        let mut notes: Vec<String> = Vec::new();
        for note in self.withheld.iter().cloned().chain(denied).chain(withheld) {
            let note = domain::size::head(&note, NOTE_BYTES_MAX).to_owned();
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        if notes.len() > NOTES_MAX {
            let more = notes.len() - NOTES_MAX;
            notes.truncate(NOTES_MAX);
            notes.push(format!("{more} more: volery show {}", run.short_id));
        }
        notes.extend(permission_hint(run));
        notes
    }
}

/// Returns the setting that would allow the denied uses. The user's section for an agent applies in dialects too.
fn permission_hint(run: &RunView) -> Option<String> {
    let can_be_allowed = |denial: &&Denial| match denial.cause {
        // No rule can allow what another rule denies.
        DenialCause::Rule => false,
        // No rule can give the agent a tool that does not exist or is not in its list.
        DenialCause::NoSuchTool => {
            let is_unknown =
                matches!(ToolKind::from_name(&denial.tool), ToolKind::Mcp { .. } | ToolKind::Other(_));
            !is_unknown && !run.has_tool_list
        }
        DenialCause::Level
        | DenialCause::Unattended
        | DenialCause::Unanswered
        | DenialCause::Person
        | DenialCause::Program => true,
    };
    // If no narrow rule exists, only a rule for every use of the tool allows this one.
    let rules_for = |denial: &'_ Denial| match denial.allow_rules.is_empty() {
        true => vec![denial.tool.clone()],
        false => denial.allow_rules.clone(),
    };
    let denied: BTreeSet<String> = run.denials.iter().filter(can_be_allowed).flat_map(rules_for).collect();
    let is_covered =
        |rule: &&str| denied.contains(rule.split('(').next().unwrap_or(rule)) && rule.contains('(');
    let wanted: Vec<&str> = denied.iter().map(String::as_str).filter(|rule| !is_covered(rule)).collect();
    if wanted.is_empty() || wanted.len() > NOTES_MAX {
        return None;
    }
    // With the user's settings, the vendor's program stays in its read-only mode, whatever the rules allow.
    let by_mode = run.level == Some(Level::ReadOnly) && run.inherit.contains(&Inherited::Settings);
    let (level, rules): (_, Vec<&str>) = match run.level {
        Some(Level::Yolo) => return None,
        Some(Level::ReadOnly) if by_mode => {
            let is_beyond =
                |rule: &&str| rule.parse::<Rule>().is_ok_and(|rule| rule.kind() != ToolKind::Edit);
            (Some(Level::SafeEdit), wanted.into_iter().filter(is_beyond).collect())
        }
        level @ (Some(Level::ReadOnly | Level::SafeEdit) | None) => (level, wanted),
    };
    // Includes the level and the rules in force: this line replaces one that the section may have already, and beyond
    // a level a section allows only what it names.
    let is_replaced = |rule: &&Rule| !rules.contains(&rule.spelling()) && rules.contains(&rule.tool());
    let in_force: Vec<&str> =
        run.allow.iter().filter(|rule| !is_replaced(rule)).map(Rule::spelling).collect();
    let added: Vec<&str> = rules.iter().copied().filter(|rule| !in_force.contains(rule)).collect();
    let would_allow = rules.iter().all(|tool| rule_would_allow(run, level, tool));
    if would_allow && level == run.level && added.is_empty() {
        return None;
    }
    let quoted = |level: Level| format!("{:?}", level.as_str());
    let permission = match (level, rules.is_empty()) {
        (Some(level), true) if in_force.is_empty() => quoted(level),
        _ if !would_allow => quoted(Level::Yolo),
        (level, _) => {
            let level = level.map(|level| format!("level = {}, ", quoted(level))).unwrap_or_default();
            let rules = in_force.iter().chain(&added).map(|rule| format!("{rule:?}"));
            let rules: Vec<String> = rules.collect();
            format!("{{ {level}allow = [{}] }}", rules.join(", "))
        }
    };
    let section = config_section(&run.agent);
    Some(format!("to allow more, write permission = {permission} under {section} in your configuration"))
}

/// Returns whether a rule that allows a tool would help: the backend can express the rule, and the level does not already
/// allow the tool, in which case something else denied it.
fn rule_would_allow(run: &RunView, level: Option<Level>, tool: &str) -> bool {
    let Ok(rule) = tool.parse::<Rule>() else { return false };
    let kind = rule.kind();
    let needs_rule = matches!(
        kind,
        ToolKind::Edit | ToolKind::Shell | ToolKind::Fetch | ToolKind::WebSearch | ToolKind::Mcp { .. }
    );
    let plain = Permission { level, ..Permission::default() };
    let is_beyond_level = needs_rule && plain.level_extent(kind) == Extent::Nothing;
    let Some(driver) = backends::registry::by_kind(&run.backend).filter(|_| is_beyond_level) else {
        return false;
    };
    let options = serde_json::Value::Null;
    let allows = Permission { level, allow: vec![rule], ..Permission::default() };
    driver.unenforceable(&allows, &options).len() == driver.unenforceable(&plain, &options).len()
        && driver.inexpressible_grants(&allows, &options).is_empty()
}

/// Returns the message of a starting server about what the agents of a dialect inherit.
pub(super) fn announcement(config: &Config, dialect: DialectName) -> Option<String> {
    let inherited = config.inherit(dialect);
    let name = dialect.as_str();
    (dialect != DialectName::Volery).then(|| {
        format!(
            "volery: agents of the dialect {name} get {}; [dialects.{name}] inherit in your configuration narrows this",
            describe_all(&inherited)
        )
    })
}

#[cfg(test)]
mod tests {
    use config::settings::{ConfigFile, merge, read};
    use domain::agent::Layer;

    use super::*;

    fn config(text: &str) -> Config {
        let file = ConfigFile { text, file: "config.toml", layer: Layer::User, built_in: &[] };
        let (layer, diagnostics) = read(file);
        assert_eq!(diagnostics.len(), 0, "{diagnostics:?}");
        merge(vec![(Layer::User, "config.toml".to_owned(), layer)])
    }

    fn denial(tool: &str, cause: DenialCause) -> Denial {
        let (tool, reason) = (tool.to_owned(), "x".to_owned());
        Denial { tool, subject: None, cause, reason, by: None, allow_rules: Vec::new() }
    }

    fn run(denials: &[(&str, DenialCause)]) -> RunView {
        let mut run =
            crate::sample_run::sample_run("01990000-0000-7000-8000-000000000001".parse().unwrap(), "scout");
        run.denials = denials.iter().map(|(tool, cause)| denial(tool, *cause)).collect();
        run
    }

    #[test]
    fn denials_and_withheld_settings_are_noted_once() {
        let whole = Inheritance::from_config(&config(""), DialectName::SubAgentsMcp);
        let mut run = run(&[("Bash", DenialCause::Level), ("Bash", DenialCause::Level)]);
        run.warnings = ["the model is not passed on", "withheld: y"].map(ToOwned::to_owned).to_vec();
        let hint = "to allow more, write permission = { allow = [\"Bash\"] } under [agents.scout] in your configuration";
        assert_eq!(whole.notes(&run), ["denied: Bash: x", "withheld: y", hint]);
        let narrowed = config("[dialects.sub-agents-mcp]\ninherit = [\"settings\"]\n");
        let narrowed = Inheritance::from_config(&narrowed, DialectName::SubAgentsMcp);
        assert_eq!(
            narrowed.notes(&run)[0],
            "withheld: the server's environment and the user's MCP servers, by [dialects.sub-agents-mcp] inherit"
        );
    }

    #[test]
    fn the_permission_hint_depends_on_level_and_backend() {
        let hint = |backend: &str, level: Level, denials: &[(&str, DenialCause)]| {
            let mut run = run(denials);
            (run.backend, run.level) = (backend.to_owned(), Some(level));
            run.inherit = DialectName::SubAgentsMcp.inherits();
            permission_hint(&run)
        };
        let expected = |permission: &str| {
            Some(format!(
                "to allow more, write permission = {permission} under [agents.scout] in your configuration"
            ))
        };
        let level = DenialCause::Level;
        let shell = [("Bash", level), ("mcp__aviary__count", level)];
        let both = expected("{ level = \"safe-edit\", allow = [\"Bash\", \"mcp__aviary__count\"] }");
        assert_eq!(hint("claude", Level::SafeEdit, &shell), both);
        assert_eq!(hint("claude", Level::ReadOnly, &shell), both);
        assert_eq!(hint("claude", Level::ReadOnly, &[("Write", level)]), expected("\"safe-edit\""));
        assert_eq!(hint("claude", Level::Yolo, &shell), None);
        assert_eq!(hint("claude", Level::SafeEdit, &[("Edit", level)]), expected("\"yolo\""));
        for backend in ["cursor", "grok"] {
            assert_eq!(hint(backend, Level::SafeEdit, &[("shell", level)]), expected("\"yolo\""));
        }
        assert_eq!(hint("claude", Level::SafeEdit, &[]), None);
        assert_eq!(hint("claude", Level::SafeEdit, &[("Bash", DenialCause::Rule)]), None);
        // Agents of Jarvis do not inherit settings, so their rules apply.
        let mut run = run(&[("Bash", level)]);
        (run.backend, run.level) = ("claude".to_owned(), Some(Level::ReadOnly));
        run.inherit = DialectName::Jarvis.inherits();
        assert_eq!(permission_hint(&run), expected("{ level = \"read-only\", allow = [\"Bash\"] }"));
    }

    #[test]
    fn the_permission_hint_keeps_what_the_agent_has_and_names_no_missing_tool() {
        let hint = |allow: &[&str], denials: &[(&str, DenialCause)]| {
            let mut run = run(denials);
            (run.backend, run.level) = ("claude".to_owned(), Some(Level::ReadOnly));
            run.allow = allow.iter().map(|rule| rule.parse().unwrap()).collect();
            run.has_tool_list = true;
            permission_hint(&run)
        };
        let missing = ("mcp__mine__hello", DenialCause::NoSuchTool);
        let unlisted = ("WebFetch", DenialCause::NoSuchTool);
        let bash = ("Bash", DenialCause::Level);
        let own = ["Bash(curl:*)", "mcp__brave-search"];
        let expected = "to allow more, write permission = { level = \"read-only\", allow = [\"mcp__brave-search\", \"Bash\"] } \
                        under [agents.scout] in your configuration";
        assert_eq!(hint(&own, &[bash, missing, unlisted]).as_deref(), Some(expected));
        assert_eq!(hint(&own, &[missing]), None);
        // The rule is in force already, so something else denies it.
        assert_eq!(hint(&["Bash"], &[bash]), None);
    }

    #[test]
    fn many_denials_are_counted() {
        let mut run = run(&[]);
        run.denials = (0..30)
            .map(|number| Denial { reason: number.to_string(), ..denial("Bash", DenialCause::Level) })
            .collect();
        let notes = Inheritance::default().notes(&run);
        assert_eq!(notes.len(), NOTES_MAX + 2);
        assert!(notes[NOTES_MAX].starts_with("10 more: volery show "), "{notes:?}");
    }
}
