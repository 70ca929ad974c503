//! The name that a file is about, also where the file cannot be read: a mistake in it must not hand the name to another.

use domain::agent::Format;
use domain::id::AgentName;

use super::{kiro, values};
use crate::frontmatter;

/// Returns the name of the agent that a file would define: the one that stands in it, else that of the file.
pub fn name_of(format: Format, text: &str, stem: &str) -> Option<AgentName> {
    let said = match format {
        Format::Volery
        | Format::Claude
        | Format::Cursor
        | Format::Gemini
        | Format::Opencode
        | Format::Jarvis => in_frontmatter(text),
        Format::Codex => text.lines().find_map(|line| value_of(line, '=')).map(ToOwned::to_owned),
        Format::Kiro => Some(kiro::name_of(text, stem)),
        Format::Plain | Format::DotAgents | Format::Directive | Format::Copilot => None,
    };
    let stem = stem.strip_suffix(".agent").filter(|_| format == Format::Copilot).unwrap_or(stem);
    said.and_then(|name| parse(&name)).or_else(|| parse(stem))
}

fn parse(name: &str) -> Option<AgentName> {
    name.parse().or_else(|_| values::slug(name).parse()).ok()
}

/// Looks for a line with the name, since the whole may be no YAML.
fn in_frontmatter(text: &str) -> Option<String> {
    let text = frontmatter::normalize(text);
    let mut lines = text.lines();
    lines.next().filter(|line| line.trim_end() == "---")?;
    let mut keys = lines.take_while(|line| line.trim_end() != "---");
    keys.find_map(|line| value_of(line, ':')).map(ToOwned::to_owned)
}

/// Returns the value of a line `name: value`.
fn value_of(line: &str, separator: char) -> Option<&str> {
    let value = line.strip_prefix("name")?.trim_start().strip_prefix(separator)?.trim();
    let quoted = |mark: char| value.strip_prefix(mark).and_then(|rest| rest.split(mark).next());
    let bare = value.split(" #").next().unwrap_or(value).trim_end();
    Some(quoted('"').or_else(|| quoted('\'')).unwrap_or(bare)).filter(|name| !name.is_empty())
}
