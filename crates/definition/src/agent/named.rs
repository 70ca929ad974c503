//! The name that a file is about, also where the file cannot be read: a mistake in it must not hand the name to another.

use domain::agent::Format;
use domain::id::AgentName;

use super::{directive, values};
use crate::frontmatter;
use crate::text::{Findings, Node, Place, Shape, YamlText, read_json, read_toml, read_yaml};

/// Returns the name of the agent that a file would define: the one that stands in it, else that of the file. The text may
/// be only the beginning of the file's.
pub fn name_of(format: Format, text: &str, stem: &str) -> Option<AgentName> {
    let text = &*frontmatter::normalize(text);
    let said = match format {
        Format::Volery
        | Format::Claude
        | Format::Cursor
        | Format::Gemini
        | Format::Qwen
        | Format::Opencode
        | Format::DotAgents
        | Format::Jarvis => in_frontmatter(text),
        Format::Codex => in_toml(text),
        Format::Kiro => in_json(text),
        Format::Directive => directive::name_in(text),
        Format::Plain | Format::Copilot => None,
    };
    let stem = stem.strip_suffix(".agent").filter(|_| format == Format::Copilot).unwrap_or(stem);
    let name = said.unwrap_or_else(|| stem.to_owned());
    match format {
        Format::Opencode => values::path_name(&name, stem, Place::START, &mut Findings::new("", "")),
        Format::Volery
        | Format::Plain
        | Format::DotAgents
        | Format::Jarvis
        | Format::Kiro
        | Format::Directive
        | Format::Claude
        | Format::Cursor
        | Format::Codex
        | Format::Gemini
        | Format::Qwen
        | Format::Copilot => {
            let plain = name.parse().ok().filter(AgentName::is_plain);
            plain.or_else(|| values::name_for_programs(&name, stem))
        }
    }
}

/// Returns the text under the key of a tree.
fn in_tree(node: Option<Node>) -> Option<String> {
    let Shape::Map(entries) = node?.shape else { return None };
    // Of a key that is written twice the last value counts.
    let entry = entries.into_iter().rfind(|entry| entry.key == "name")?;
    let Shape::Text(name) = entry.node.shape else { return None };
    Some(name)
}

/// Looks for a line with the name where the whole is no YAML.
fn in_frontmatter(text: &str) -> Option<String> {
    let is_marker = |line: &&str| line.trim_end() == "---";
    let mut lines = text.lines().skip_while(|line| line.trim().is_empty());
    lines.next().filter(is_marker)?;
    let whole = frontmatter::split(text).ok().and_then(|parts| {
        let yaml = YamlText { text: parts.yaml, lines_before: parts.lines_before };
        in_tree(read_yaml(yaml, &mut Findings::new("", text)))
    });
    whole.or_else(|| lines.take_while(|line| !is_marker(line)).find_map(|line| value_of(line, ':')))
}

/// The keys of the whole file stand before its tables.
fn in_toml(text: &str) -> Option<String> {
    let whole = in_tree(read_toml(text, &mut Findings::new("", text)));
    let mut lines = text.lines().take_while(|line| !line.starts_with('['));
    whole.or_else(|| lines.find_map(|line| value_of(line, '=')))
}

/// Returns the value of a line `name: value`.
fn value_of(line: &str, separator: char) -> Option<String> {
    let keys = ["name", "\"name\"", "'name'"];
    let rest = keys.into_iter().find_map(|key| line.strip_prefix(key))?;
    let value = rest.trim_start().strip_prefix(separator)?.trim();
    let quoted = |mark: char| value.strip_prefix(mark).and_then(|rest| rest.split(mark).next());
    let bare = value.split(" #").next().unwrap_or(value).trim_end();
    let name = quoted('"').or_else(|| quoted('\'')).unwrap_or(bare);
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Looks for the name in the outermost map where the whole is no JSON.
fn in_json(text: &str) -> Option<String> {
    in_tree(read_json(text, &mut Findings::new("", text))).or_else(|| {
        let mut depth = 0_usize;
        let mut rest = text;
        loop {
            let at = rest.find(['"', '{', '[', '}', ']'])?;
            let (mark, after) = (rest.as_bytes()[at], &rest[at + 1..]);
            match mark {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {
                    let (word, behind) = json_text(after)?;
                    let value = behind.trim_start().strip_prefix(':').map(str::trim_start);
                    if let (1, "name", Some(value)) = (depth, word, value) {
                        return json_text(value.strip_prefix('"')?).map(|(name, _)| name.to_owned());
                    }
                    rest = behind;
                    continue;
                }
            }
            rest = after;
        }
    })
}

/// Returns a text up to its closing quotation mark, and what follows it.
fn json_text(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.find(|letter: char| {
        let closes = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        closes
    })?;
    Some((&text[..end], &text[end + 1..]))
}
