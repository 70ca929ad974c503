//! Renders the findings of `volery doctor`, one line each.

use serde::Serialize;

use super::text::{one_line, width, with_tilde, wrap};
use super::text_style::{TextStyle, Tone};

/// On a very narrow terminal the text is still this wide.
const MIN_COLUMNS: usize = 30;

/// How good a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Grade {
    Ok,
    /// Not present, and not needed.
    Absent,
    /// May work: Volery cannot see whether there is a login.
    Unknown,
    /// Works, with a weaker guarantee.
    Weak,
    /// Not present, or unusable.
    Missing,
    /// Present, but does not work.
    Broken,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) grade: Grade,
    pub(crate) found: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

impl Check {
    pub(crate) fn new(name: &'static str, grade: Grade, found: impl Into<String>) -> Self {
        Self { name, grade, found: found.into(), advice: None }
    }

    #[must_use]
    pub(crate) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// Returns the checks as lines, each with its advice below it.
pub(crate) fn doctor(checks: &[Check], style: &TextStyle) -> String {
    let names = checks.iter().map(|check| width(check.name)).max().unwrap_or(0);
    let indent = names + "missing".len() + 4;
    let mut text = String::new();
    for check in checks {
        let (label, tone) = match check.grade {
            Grade::Ok => ("ok", Tone::Good),
            Grade::Absent => ("absent", Tone::Faint),
            Grade::Unknown => ("unknown", Tone::Careful),
            Grade::Weak => ("weak", Tone::Careful),
            Grade::Missing => ("missing", Tone::Bad),
            Grade::Broken => ("broken", Tone::Bad),
        };
        let label = style.color.apply(tone, &format!("{label:<7}"));
        text.push_str(&format!("{:<names$}  {label}  ", check.name));
        let advice = check.advice.iter().map(|advice| format!("hint: {}", one_line(advice)));
        let lines: Vec<String> = std::iter::once(one_line(&check.found))
            .chain(advice)
            .map(|part| with_tilde(&part, style.home))
            .flat_map(|part| match style.width {
                Some(columns) => wrap(&part, columns.saturating_sub(indent).max(MIN_COLUMNS)),
                None => vec![part],
            })
            .collect();
        text.push_str(&lines.join(&format!("\n{}", " ".repeat(indent))));
        text.push('\n');
    }
    text
}
