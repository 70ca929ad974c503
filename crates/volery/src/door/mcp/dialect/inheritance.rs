//! What the agents of one dialect get from their user, and what an answer says about what they did not get.

use std::collections::BTreeSet;

use definition::config::Config;
use domain::dialect::DialectName;
use domain::inherit::{Inherited, describe_all};
use domain::setup::Setup;

use crate::app::RunView;

/// How many notes an answer has at most, and how long one is.
const NOTES_MAX: usize = 20;
const NOTE_BYTES_MAX: usize = 500;
/// How warnings of a run begin that an answer must repeat.
const NAMED: [&str; 2] = ["denied: ", "withheld: "];

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
        notes
    }
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
        assert_eq!(whole.notes(&run), ["denied: Bash: x", "withheld: y"]);
        let narrowed = config("[dialects.sub-agents-mcp]\ninherit = [\"settings\"]\n");
        let narrowed = Inheritance::of(&narrowed, DialectName::SubAgentsMcp);
        assert_eq!(
            narrowed.notes(&run)[0],
            "withheld: the server's environment and the user's MCP servers, by [dialects.sub-agents-mcp] inherit"
        );
    }

    #[test]
    fn many_denials_are_counted() {
        let warnings: Vec<String> = (0..30).map(|number| format!("denied: Bash: {number}")).collect();
        let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
        let notes = Inheritance::default().notes(&run(&warnings));
        assert_eq!(notes.len(), NOTES_MAX + 1);
        assert!(notes[NOTES_MAX].starts_with("10 more: volery show "), "{notes:?}");
    }
}
