//! What the agents of one dialect get from their user, and what an answer says about what they did not get.

use std::collections::BTreeSet;

use definition::config::Config;
use domain::dialect::DialectName;
use domain::inherit::{Inherited, describe_all};
use domain::permission::{Level, Permission, Rule, ToolKind};
use domain::setup::Setup;

use crate::app::{RunView, section_of};

/// How many notes an answer has at most, and how long one is.
const NOTES_MAX: usize = 20;
const NOTE_BYTES_MAX: usize = 500;
/// How warnings of a run begin that an answer must repeat.
const DENIED: &str = "denied: ";
/// How a denial by a rule is worded.
const BY_RULE: &str = "the rule deny ";
const NAMED: [&str; 2] = [DENIED, "withheld: "];

/// What a dialect gives its agents.
#[derive(Debug, Clone, Default)]
pub(super) struct Inheritance {
    given: BTreeSet<Inherited>,
    /// What the configuration takes away from what the system gives, as a sentence.
    withheld: Option<String>,
}

impl Inheritance {
    pub(super) fn of(config: &Config, dialect: DialectName) -> Self {
        let given = config.inherit(dialect);
        let withheld: BTreeSet<Inherited> = dialect.inherits().difference(&given).copied().collect();
        let sentence =
            || format!("withheld: {}, by [dialects.{}] inherit", describe_all(&withheld), dialect.as_str());
        Self { withheld: (!withheld.is_empty()).then(sentence), given }
    }

    pub(super) fn give(&self, setup: &mut Setup) {
        setup.inherit.clone_from(&self.given);
    }

    /// Returns a sentence for all that the agent of a run was denied or did not get.
    pub(super) fn notes(&self, run: &RunView) -> Vec<String> {
        let told = run.warnings.iter().filter(|warning| NAMED.iter().any(|word| warning.starts_with(word)));
        let mut notes: Vec<String> = Vec::new();
        for note in self.withheld.iter().chain(told) {
            let note = domain::size::head(note, NOTE_BYTES_MAX).to_owned();
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        if notes.len() > NOTES_MAX {
            let more = notes.len() - NOTES_MAX;
            notes.truncate(NOTES_MAX);
            notes.push(format!("{more} more: volery show {}", run.short_id));
        }
        notes.extend(way_to_allow(run));
        notes
    }
}

/// Says what to write so that the agent may do what it was denied. The user's section for its name counts in dialects too.
fn way_to_allow(run: &RunView) -> Option<String> {
    let denied = run.warnings.iter().filter_map(|warning| warning.strip_prefix(DENIED));
    // What a rule denies, no other rule allows.
    let denied = denied.filter(|rest| !rest.contains(BY_RULE));
    // `Bash(touch a.txt): reason`, or `Bash: reason`.
    let mut tools: Vec<&str> = denied.filter_map(|rest| rest.split(['(', ':']).next()).collect();
    tools.sort_unstable();
    tools.dedup();
    if tools.is_empty() || tools.len() > NOTES_MAX {
        return None;
    }
    // Where the user's settings count, the program keeps to the mode that has the meaning of `read-only`, whatever the rules are.
    let by_mode = run.level == Some(Level::ReadOnly) && run.inherit.contains(&Inherited::Settings);
    let (level, rules): (_, Vec<&str>) = match run.level {
        Some(Level::Yolo) => return None,
        Some(Level::ReadOnly) if by_mode => {
            let is_beyond = |tool: &&str| ToolKind::named(tool) != ToolKind::Edit;
            (Some(Level::SafeEdit), tools.into_iter().filter(is_beyond).collect())
        }
        level @ (Some(Level::ReadOnly | Level::SafeEdit) | None) => (level, tools),
    };
    // The level stands there too: the section may have one already, which this line takes the place of.
    let quoted = |level: Level| format!("{:?}", level.as_str());
    let words = match (level, rules.is_empty()) {
        (Some(level), true) => quoted(level),
        _ if !rules.iter().all(|tool| is_allowed_by_rule(run, level, tool)) => quoted(Level::Yolo),
        (level, _) => {
            let level = level.map(|level| format!("level = {}, ", quoted(level))).unwrap_or_default();
            let rules: Vec<String> = rules.iter().map(|tool| format!("{tool:?}")).collect();
            format!("{{ {level}allow = [{}] }}", rules.join(", "))
        }
    };
    let section = section_of(&run.agent);
    Some(format!("to allow more, write permission = {words} under {section} in your configuration"))
}

/// Tells whether a rule that allows a tool would let the agent use it: its program has words for such a rule, and the level does
/// not allow the tool already, in which case something else was in the way.
fn is_allowed_by_rule(run: &RunView, level: Option<Level>, tool: &str) -> bool {
    let Ok(rule) = tool.parse::<Rule>() else { return false };
    let is_beyond_level = match rule.kind() {
        ToolKind::Shell | ToolKind::Fetch | ToolKind::WebSearch | ToolKind::Mcp { .. } => true,
        ToolKind::Edit => level == Some(Level::ReadOnly),
        ToolKind::Read
        | ToolKind::Search
        | ToolKind::Delegate
        | ToolKind::Everything
        | ToolKind::Other(_) => false,
    };
    let Some(driver) = backend::registry::by_kind(&run.backend).filter(|_| is_beyond_level) else {
        return false;
    };
    let options = serde_json::Value::Null;
    let allows = Permission { level, allow: vec![rule], ..Permission::default() };
    let plain = Permission { allow: Vec::new(), ..allows.clone() };
    driver.unenforceable(&allows, &options).len() == driver.unenforceable(&plain, &options).len()
        && driver.ungranted(&allows, &options).is_empty()
}

/// Returns the line by which a server announces what the agents of a dialect get.
pub(super) fn announcement(config: &Config, dialect: DialectName) -> Option<String> {
    let given = config.inherit(dialect);
    let name = dialect.as_str();
    (dialect != DialectName::Volery).then(|| {
        format!(
            "volery: agents of the dialect {name} get {}; [dialects.{name}] inherit in your configuration narrows this",
            describe_all(&given)
        )
    })
}

#[cfg(test)]
mod tests {
    use definition::config::{ConfigFile, merge, read};
    use domain::agent::Layer;

    use super::*;

    fn config(text: &str) -> Config {
        let file = ConfigFile { text, file: "config.toml", layer: Layer::User, built_in: &[] };
        let (layer, diagnostics) = read(file);
        assert_eq!(diagnostics.len(), 0, "{diagnostics:?}");
        merge(vec![(Layer::User, "config.toml".to_owned(), layer)])
    }

    fn run(warnings: &[&str]) -> RunView {
        let mut run = RunView::sample("01990000-0000-7000-8000-000000000001".parse().unwrap(), "scout");
        run.warnings = warnings.iter().map(|warning| (*warning).to_owned()).collect();
        run
    }

    #[test]
    fn what_was_denied_or_withheld_is_named_once_and_nothing_else_is() {
        let whole = Inheritance::of(&config(""), DialectName::SubAgentsMcp);
        let run = run(&["the model is not passed on", "denied: Bash: x", "denied: Bash: x", "withheld: y"]);
        let way = "to allow more, write permission = { allow = [\"Bash\"] } under [agents.scout] in your configuration";
        assert_eq!(whole.notes(&run), ["denied: Bash: x", "withheld: y", way]);
        let narrowed = config("[dialects.sub-agents-mcp]\ninherit = [\"settings\"]\n");
        let narrowed = Inheritance::of(&narrowed, DialectName::SubAgentsMcp);
        assert_eq!(
            narrowed.notes(&run)[0],
            "withheld: the server's environment and the user's MCP servers, by [dialects.sub-agents-mcp] inherit"
        );
    }

    #[test]
    fn what_would_allow_a_denied_tool_depends_on_level_and_program() {
        let way = |backend: &str, level: Level, warnings: &[&str]| {
            let mut run = run(warnings);
            (run.backend, run.level) = (backend.to_owned(), Some(level));
            run.inherit = DialectName::SubAgentsMcp.inherits();
            way_to_allow(&run)
        };
        let wanted = |words: &str| {
            Some(format!(
                "to allow more, write permission = {words} under [agents.scout] in your configuration"
            ))
        };
        let shell = ["denied: Bash(ls: x): y", "denied: mcp__aviary__count: y", "withheld: z"];
        let both = wanted("{ level = \"safe-edit\", allow = [\"Bash\", \"mcp__aviary__count\"] }");
        assert_eq!(way("claude", Level::SafeEdit, &shell), both);
        assert_eq!(way("claude", Level::ReadOnly, &shell), both);
        assert_eq!(way("claude", Level::ReadOnly, &["denied: Write: x"]), wanted("\"safe-edit\""));
        assert_eq!(way("claude", Level::Yolo, &shell), None);
        assert_eq!(way("claude", Level::SafeEdit, &["denied: Edit: outside"]), wanted("\"yolo\""));
        for without_words in ["cursor", "grok"] {
            assert_eq!(way(without_words, Level::SafeEdit, &["denied: shell: x"]), wanted("\"yolo\""));
        }
        assert_eq!(way("claude", Level::SafeEdit, &["withheld: z"]), None);
        assert_eq!(way("claude", Level::SafeEdit, &["denied: Bash: the rule deny Bash(rm:*)"]), None);
        // An agent of Jarvis is held by its own rules.
        let mut run = run(&["denied: Bash: x"]);
        (run.backend, run.level) = ("claude".to_owned(), Some(Level::ReadOnly));
        run.inherit = DialectName::Jarvis.inherits();
        assert_eq!(way_to_allow(&run), wanted("{ level = \"read-only\", allow = [\"Bash\"] }"));
    }

    #[test]
    fn many_denials_are_counted() {
        let warnings: Vec<String> = (0..30).map(|number| format!("denied: Bash: {number}")).collect();
        let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
        let notes = Inheritance::default().notes(&run(&warnings));
        assert_eq!(notes.len(), NOTES_MAX + 2);
        assert!(notes[NOTES_MAX].starts_with("10 more: volery show "), "{notes:?}");
    }
}
