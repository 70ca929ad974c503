//! A tool use that an agent was denied.

use serde::{Deserialize, Serialize};

/// Why a tool use was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenialCause {
    /// A rule denies the use.
    Rule,
    /// The level does not allow the use.
    Level,
    /// The use needed an answer, and nobody could answer.
    Unattended,
    /// The use needed an answer, and nobody answered in time.
    Unanswered,
    /// A person denied the use.
    Person,
    /// The agent's program denied the use, by its own rules or by those of its user's settings.
    Program,
    /// The agent does not have the tool.
    NoSuchTool,
}

/// A denied tool use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    pub tool: String,
    /// The command, path or address of the use, on one line, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    pub cause: DenialCause,
    /// A phrase that names the rule, the level or the answer that denied the use.
    pub reason: String,
    /// The person who denied the use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The narrowest rules that would allow the use; empty if no narrow rule would.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_rules: Vec<String>,
}

impl Denial {
    /// Returns the tool with its subject: `Bash(touch a.txt)`.
    pub fn denied_use(&self) -> String {
        match &self.subject {
            Some(subject) => format!("{}({subject})", self.tool),
            None => self.tool.clone(),
        }
    }

    /// Returns a sentence for a list of warnings.
    pub fn sentence(&self) -> String {
        format!("denied: {}: {}", self.denied_use(), self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_use_and_the_reason() {
        let denial = Denial {
            tool: "Bash".to_owned(),
            subject: Some("touch a.txt".to_owned()),
            cause: DenialCause::Rule,
            reason: "the rule deny Bash".to_owned(),
            by: None,
            allow_rules: Vec::new(),
        };
        assert_eq!(denial.sentence(), "denied: Bash(touch a.txt): the rule deny Bash");
        let without_subject = Denial { subject: None, ..denial };
        assert_eq!(without_subject.sentence(), "denied: Bash: the rule deny Bash");
    }
}
