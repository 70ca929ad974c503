//! The agent name that a file declares, even if the file cannot be read: a mistake in one file must not hand its name
//! to another file.

use domain::agent::AgentFormat;
use domain::id::AgentName;

use super::shared_keys;
use crate::frontmatter;
use crate::text::{Diagnostics, Node, NodeValue, SourceLocation, YamlText, read_json, read_toml, read_yaml};

/// Returns the name of the agent that a file defines: the one that it declares, else that of the file. The text may
/// be only the beginning of the file.
pub fn declared_name(format: AgentFormat, text: &str, stem: &str) -> Option<AgentName> {
    let text = &*frontmatter::normalize(text);
    let declared = match format {
        AgentFormat::Volery
        | AgentFormat::Claude
        | AgentFormat::Cursor
        | AgentFormat::Gemini
        | AgentFormat::Qwen
        | AgentFormat::Opencode
        | AgentFormat::DotAgents
        | AgentFormat::Jarvis => name_in_frontmatter(text),
        AgentFormat::Codex => name_in_toml(text),
        AgentFormat::Kiro => name_in_json(text),
        // A directive is named by its path.
        AgentFormat::Directive | AgentFormat::Plain | AgentFormat::Copilot => None,
    };
    let stem = stem.strip_suffix(".agent").filter(|_| format == AgentFormat::Copilot).unwrap_or(stem);
    let name = declared.unwrap_or_else(|| stem.to_owned());
    match format {
        AgentFormat::Opencode | AgentFormat::Directive => {
            shared_keys::name_from_path(&name, stem, SourceLocation::START, &mut Diagnostics::new("", ""))
        }
        AgentFormat::Volery
        | AgentFormat::Plain
        | AgentFormat::DotAgents
        | AgentFormat::Jarvis
        | AgentFormat::Kiro
        | AgentFormat::Claude
        | AgentFormat::Cursor
        | AgentFormat::Codex
        | AgentFormat::Gemini
        | AgentFormat::Qwen
        | AgentFormat::Copilot => {
            let plain = name.parse().ok().filter(AgentName::is_plain);
            plain.or_else(|| shared_keys::slug_name(&name, stem))
        }
    }
}

/// Returns the name in a tree.
fn name_in_tree(node: Option<Node>) -> Option<String> {
    let NodeValue::Map(entries) = node?.value else { return None };
    // The last value of a duplicate key counts.
    let entry = entries.into_iter().rfind(|entry| entry.key == "name")?;
    let NodeValue::String(name) = entry.node.value else { return None };
    Some(name)
}

/// Searches for a line with the name if the text is not valid YAML.
fn name_in_frontmatter(text: &str) -> Option<String> {
    let is_marker = |line: &&str| line.trim_end() == "---";
    let mut lines = text.lines().skip_while(|line| line.trim().is_empty());
    lines.next().filter(is_marker)?;
    let whole = frontmatter::split(text).ok().and_then(|parts| {
        let yaml = YamlText { text: parts.yaml, lines_before: parts.lines_before };
        name_in_tree(read_yaml(yaml, &mut Diagnostics::new("", text)))
    });
    whole.or_else(|| lines.take_while(|line| !is_marker(line)).find_map(|line| name_in_line(line, ':')))
}

/// Top-level keys precede all tables.
fn name_in_toml(text: &str) -> Option<String> {
    let whole = name_in_tree(read_toml(text, &mut Diagnostics::new("", text)));
    let mut lines = text.lines().take_while(|line| !line.starts_with('['));
    whole.or_else(|| lines.find_map(|line| name_in_line(line, '=')))
}

/// Returns the value of a line `name: value`.
fn name_in_line(line: &str, separator: char) -> Option<String> {
    let keys = ["name", "\"name\"", "'name'"];
    let rest = keys.into_iter().find_map(|key| line.strip_prefix(key))?;
    let value = rest.trim_start().strip_prefix(separator)?.trim();
    let quoted = |mark: char| value.strip_prefix(mark).and_then(|rest| rest.split(mark).next());
    let bare = value.split(" #").next().unwrap_or(value).trim_end();
    let name = quoted('"').or_else(|| quoted('\'')).unwrap_or(bare);
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Searches for the name in the outermost map if the text is not valid JSON.
fn name_in_json(text: &str) -> Option<String> {
    name_in_tree(read_json(text, &mut Diagnostics::new("", text))).or_else(|| {
        let mut depth = 0_usize;
        let mut rest = text;
        loop {
            let at = rest.find(['"', '{', '[', '}', ']'])?;
            let (mark, after) = (rest.as_bytes()[at], &rest[at + 1..]);
            match mark {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {
                    let (word, behind) = split_json_string(after)?;
                    let value = behind.trim_start().strip_prefix(':').map(str::trim_start);
                    if let (1, "name", Some(value)) = (depth, word, value) {
                        return split_json_string(value.strip_prefix('"')?).map(|(name, _)| name.to_owned());
                    }
                    rest = behind;
                    continue;
                }
            }
            rest = after;
        }
    })
}

/// Splits a text at its closing quotation mark.
fn split_json_string(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.find(|letter: char| {
        let closes = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        closes
    })?;
    Some((&text[..end], &text[end + 1..]))
}
