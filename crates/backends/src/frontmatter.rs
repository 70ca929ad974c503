//! Finds what the front matter of a project's file (agent, command or skill) executes or grants. The YAML parser
//! decides. A head that it cannot read is repaired the way Claude Code does it. If a vendor's reader may find a
//! different head, that one is checked as well: a program must not find more than was checked.
//!
//! A key counts by its own name, or by a name below it. All others have no effect: the pinned versions of Claude Code
//! and Copilot read the keys that they know from a head and ignore the rest, so `version`, `author` or `tags` need no
//! trust.

use std::ops::Range;

use config::frontmatter::{FrontmatterKey, frontmatter_keys, repaired_frontmatter_keys};

use crate::contract::Excerpt;
use crate::excerpt;

/// Characters that end a line for some readers of YAML.
const OTHER_BREAKS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// The longest key that is used as a name.
const NAME_BYTES_MAX: usize = 120;

/// Keys that execute or grant something in the front matter or the settings of some program; a later version may read
/// them from front matter too. Lower case, without `-` and `_`.
const RISKY_KEYS: [&str; 27] = [
    "allowedtools",
    "apikeyhelper",
    "args",
    "command",
    "commands",
    "enabledplugins",
    "env",
    "environment",
    "exec",
    "extensions",
    "hook",
    "hooks",
    "initialprompt",
    "lspservers",
    "mcp",
    "mcpserver",
    "mcpservers",
    "monitors",
    "permission",
    "permissionmode",
    "permissions",
    "plugin",
    "plugins",
    "script",
    "scripts",
    "settings",
    "statusline",
];

/// Values of `permissionMode` that allow more than the default. Claude Code ignores a mode that it does not know.
const WIDENING_MODES: [&str; 3] = ["acceptedits", "auto", "bypasspermissions"];

/// Keys that both programs only store, with everything below them.
const STORED_KEYS: [&str; 1] = ["metadata"];

/// A key of a head that executes or grants something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RiskyKey {
    /// The key, or the line where there is no key.
    pub(crate) name: String,
    /// The line of the file.
    pub(crate) line: u32,
    /// The key and its whole value, or the lines if the value could not be read.
    pub(crate) text: String,
}

/// Returns everything that a head executes or grants, for people to review.
pub(crate) fn find_risky_keys(text: &str) -> Vec<RiskyKey> {
    let heads = match heads(text) {
        Ok(heads) => heads,
        Err(opening) => return vec![opening],
    };
    let mut found: Vec<RiskyKey> = Vec::new();
    for head in heads {
        for one in head.risky_keys() {
            if !found.iter().any(|known| known.name == one.name) {
                found.push(one);
            }
        }
    }
    found
}

impl From<RiskyKey> for Excerpt {
    fn from(strange: RiskyKey) -> Self {
        let key = strange.name.split(':').next().unwrap_or_default();
        Self { line: Some(strange.line), reason: excerpt::key_effect(key), text: strange.text }
    }
}

/// A part of a file that some reader treats as its head.
struct Head<'a> {
    yaml: &'a str,
    lines_before: u32,
    /// Nothing closes it, so most readers treat it as text.
    is_open: bool,
}

/// Returns the parts that readers may treat as the head of a text, or its opening line if readers disagree about it.
fn heads(text: &str) -> Result<Vec<Head<'_>>, RiskyKey> {
    let begun = text.trim_start_matches('\u{feff}').trim_start();
    let Some(rest) = begun.strip_prefix("---") else { return Ok(Vec::new()) };
    let before = &text[..text.len() - rest.len()];
    let (opening, inner) = rest.split_once('\n').unwrap_or((rest, ""));
    let opening = opening.strip_suffix('\r').unwrap_or(opening);
    // A line of four or more dashes is a rule between paragraphs.
    if opening.starts_with('-') && opening.trim_end().chars().all(|character| character == '-') {
        return Ok(Vec::new());
    }
    let lines_before = u32::try_from(before.matches('\n').count()).unwrap_or(u32::MAX);
    if !opening.trim_matches([' ', '\t']).is_empty() {
        // Some readers take the text after the dashes for the language of the head, or for a part of it.
        let line = begun.lines().next().unwrap_or_default();
        return Err(RiskyKey { name: name(line), line: lines_before + 1, text: excerpt::printable(line) });
    }
    let head = |yaml, is_open| Head { yaml, lines_before: lines_before + 1, is_open };
    let mut at = 0;
    let by_line = inner.split_inclusive('\n').find_map(|line| {
        let start = at;
        at += line.len();
        (line.trim_end() == "---").then_some(start)
    });
    // Claude Code ends a head at the first three dashes, also within a line.
    let by_dashes = inner.find("---").filter(|end| Some(*end) != by_line);
    Ok(match (by_line, by_dashes) {
        (None, None) => vec![head(inner, true)],
        (None, Some(end)) => vec![head(&inner[..end], false), head(inner, true)],
        (Some(end), None) => vec![head(&inner[..end], false)],
        (Some(end), Some(other)) => vec![head(&inner[..end], false), head(&inner[..other], false)],
    })
}

impl Head<'_> {
    fn risky_keys(&self) -> Vec<RiskyKey> {
        let plain = self.yaml.replace("\r\n", "\n");
        let mut found = self.find_in(&plain);
        if plain.contains(OTHER_BREAKS) {
            let broken = plain.replace(OTHER_BREAKS, "\n");
            found.extend(self.find_in(&broken).into_iter().map(|one| {
                let line = one.line.saturating_sub(self.lines_before).saturating_sub(1);
                RiskyKey { line: self.line(line_before_breaks(&plain, line)), ..one }
            }));
        }
        found
    }

    fn find_in(&self, yaml: &str) -> Vec<RiskyKey> {
        let lines: Vec<&str> = yaml.lines().collect();
        match frontmatter_keys(yaml).or_else(|| repaired_frontmatter_keys(yaml)) {
            Some(keys) => self.find_in_keys(&keys, &lines),
            None => self.find_in_lines(&lines),
        }
    }

    fn find_in_keys(&self, keys: &[FrontmatterKey], lines: &[&str]) -> Vec<RiskyKey> {
        // No program has a key of several words: an unclosed text has a sentence there.
        let is_sentence = |key: &FrontmatterKey| self.is_open && key.name.contains(char::is_whitespace);
        let from_keys = keys.iter().filter(|key| is_risky(key) && !is_sentence(key)).map(|key| {
            let what = match (normalized(&key.name).as_str(), &key.value) {
                ("permissionmode", Some(value)) => format!("{}: {value}", key.name),
                _ => key.name.clone(),
            };
            let text = excerpt::printable(&format!("{}: {}", key.name, key.shown));
            RiskyKey { name: name(&what), line: self.line(key.line.saturating_sub(1)), text }
        });
        let mut found: Vec<RiskyKey> = from_keys.collect();
        // A stricter reader than Volery's may not accept a value over several lines, and find keys in those lines.
        for (index, line) in lines.iter().enumerate() {
            let Some((key, value)) = parse_key(line) else { continue };
            let is_known =
                |known: &FrontmatterKey| known.name == key || usize::try_from(known.line) == Ok(index + 1);
            if is_risky_name(key, value) && !keys.iter().any(is_known) {
                found.push(self.at(index, key, lines));
            }
        }
        found
    }

    /// Searches the lines of a head that Volery's parsers cannot read: a less strict reader may find these keys.
    fn find_in_lines(&self, lines: &[&str]) -> Vec<RiskyKey> {
        let mut found = Vec::new();
        // The lines that the last finding already shows.
        let mut shown = 0..0;
        for (index, line) in lines.iter().enumerate() {
            let what = match parse_key(line) {
                Some((key, value)) => Some(key).filter(|_| is_risky_name(key, value)),
                None => Some(*line).filter(|_| !self.is_open && may_hide_a_key(line)),
            };
            let Some(what) = what.filter(|_| !shown.contains(&index)) else { continue };
            found.push(self.at(index, what, lines));
            shown = block(index, lines);
        }
        found
    }

    /// Returns the finding for a line, with the lines that belong to it.
    fn at(&self, index: usize, what: &str, lines: &[&str]) -> RiskyKey {
        let text = lines[block(index, lines)].join("\n");
        let line = self.line(u32::try_from(index).unwrap_or(u32::MAX));
        RiskyKey { name: name(what), line, text: excerpt::printable(text.trim_end()) }
    }

    /// Converts a line of the head, counted from 0, into a line of the file.
    fn line(&self, within: u32) -> u32 {
        self.lines_before.saturating_add(within).saturating_add(1)
    }
}

/// Returns the range of lines that belong to a line: up to the next line that begins a key.
fn block(index: usize, lines: &[&str]) -> Range<usize> {
    let is_below = |line: &&&str| line.starts_with([' ', '\t', '-', ']', '}']) || parse_key(line).is_none();
    index..index + 1 + lines[index + 1..].iter().take_while(is_below).count()
}

/// Converts a line counted with all kinds of breaks into a line counted with `\n` only. Both count from 0.
fn line_before_breaks(text: &str, line: u32) -> u32 {
    let (mut own, mut all) = (0, 0);
    for character in text.chars() {
        if all == line {
            break;
        }
        own += u32::from(character == '\n');
        all += u32::from(character == '\n' || OTHER_BREAKS.contains(&character));
    }
    own
}

/// Returns whether a key executes or grants something, by its own name or by a name below it.
fn is_risky(key: &FrontmatterKey) -> bool {
    if STORED_KEYS.contains(&key.name.as_str()) {
        return false;
    }
    let below = || key.inner_names.iter().any(|name| RISKY_KEYS.contains(&normalized(name).as_str()));
    match normalized(&key.name).as_str() {
        "permissionmode" => key.value.as_ref().is_none_or(|value| widens(value)),
        name => RISKY_KEYS.contains(&name) || below(),
    }
}

fn is_risky_name(key: &str, value: &str) -> bool {
    match normalized(key).as_str() {
        "permissionmode" => widens(value.trim_matches(['"', '\''])) || value.is_empty(),
        // An escape may spell any name.
        name => RISKY_KEYS.contains(&name) || name.contains('\\'),
    }
}

fn widens(mode: &str) -> bool {
    WIDENING_MODES.contains(&normalized(mode.trim()).as_str()) || mode.contains('\\')
}

/// Returns whether a line that begins no plain key may hold one for some reader: quoted, with a tag or an anchor,
/// merged, or in a map on one line.
fn may_hide_a_key(line: &str) -> bool {
    let line = line.trim_start();
    if line.starts_with(['?', '"', '\'', '{', '!', '&', '<']) {
        return true;
    }
    let words =
        line.split(|character: char| !(character.is_ascii_alphanumeric() || "_-\\:".contains(character)));
    let mut keys = words.filter_map(|word| word.split_once(':'));
    keys.any(|(key, _)| is_risky_name(key, ""))
}

/// Returns a name in the form used for comparison, since programs spell keys in several ways.
fn normalized(name: &str) -> String {
    name.chars().filter(|character| !"-_".contains(*character)).flat_map(char::to_lowercase).collect()
}

/// Returns the key and the value of a line that starts with a key.
fn parse_key(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let key = key.trim_end().trim_matches(['"', '\'']);
    let is_word = |character: char| character.is_ascii_alphanumeric() || "_-\\".contains(character);
    let is_key = !key.is_empty() && !key.starts_with('-') && key.chars().all(is_word);
    (is_key && (rest.is_empty() || rest.starts_with([' ', '\t']))).then_some((key, rest.trim()))
}

fn name(text: &str) -> String {
    domain::invisible_text::escape_invisible(domain::size::head(text.trim(), NAME_BYTES_MAX)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_names(text: &str) -> Vec<String> {
        find_risky_keys(text).into_iter().map(|found| found.name).collect()
    }

    fn is_plain(text: &str) -> bool {
        found_names(text).is_empty()
    }

    #[test]
    fn each_risky_key_is_shown_with_its_line_and_its_whole_value() {
        let text =
            "---\nname: a\nhooks : {}\npermissionMode: auto\nservers:\n  - command: [x,\n     y]\n---\n";
        let one =
            |what: &str, line, text: &str| RiskyKey { name: what.to_owned(), line, text: text.to_owned() };
        assert_eq!(
            find_risky_keys(text),
            [
                one("hooks", 3, "hooks: {}"),
                one("permissionMode: auto", 4, "permissionMode: auto"),
                one("servers", 5, "servers: [{\"command\": [\"x\", \"y\"]}]")
            ]
        );
        assert_eq!(found_names("---\n  \"\\x68ooks\": \u{1b}[31m\n---\n").len(), 1);
        let long = format!("---\n{}: {{hooks: 1}}\n---\n", "x".repeat(900));
        assert!(found_names(&long)[0].len() <= NAME_BYTES_MAX);
    }

    #[test]
    fn the_whole_value_of_several_lines_is_shown() {
        let text = "---\nname: a\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          \
            command: \"./scripts/validate.sh\"\nallowed-tools: [\n  Read,\n  Bash(rm:*)\n]\n---\n";
        let shown: Vec<String> = find_risky_keys(text).into_iter().map(|found| found.text).collect();
        let hooks = "hooks: {\"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \
            \"command\": \"./scripts/validate.sh\"}]}]}";
        assert_eq!(shown, [hooks, "allowed-tools: [\"Read\", \"Bash(rm:*)\"]"]);
        // No parser reads this one.
        let text = "---\nname: a\nhooks:\n  a: 'x\n  command: ./validate.sh\ncolor: red\n---\n";
        let shown: Vec<(u32, String)> =
            find_risky_keys(text).into_iter().map(|found| (found.line, found.text)).collect();
        assert_eq!(shown, [(3, "hooks:\\n  a: 'x\\n  command: ./validate.sh".to_owned())]);
    }

    #[test]
    fn keys_that_no_program_acts_on_need_no_trust() {
        for key in [
            "version: 1.2.0",
            "category: quality",
            "author: me <a@b.example>",
            "author: {name: me, url: 'https://x.example'}",
            "tags: [a, b]",
            "priority: 5",
            "license: MIT",
            "date: 2026-01-01",
            "role: reviewer",
            "capabilities:\n  - read\n  - write",
            "capabilities: {languages: [rust]}",
            "emoji: 🎉",
            "triggers: [\"on review\"]",
            "triggers:\n  - pattern: x",
            "globs: '**/*.rs'",
            "type: agent",
            "metadata:\n  owner: me\n  command: none",
            "memory: project",
            "argument-hint: \"[file]\"",
            "mode: agent",
            "permissionMode: auto-magic",
            "permissionMode: plan",
            "permissionMode: manual",
            "isolation: worktree",
            "handoffs:\n  - label: Plan\n    agent: b\n    send: false",
            "handoffs:\n  - label: b\ntools:\n  bash: false",
            "description: [unclosed",
            "description: {a} thing",
            "tools:\n\t- Read",
            "description: one\nline two without indent",
            "description: one\nline two: without indent",
        ] {
            let text = format!("---\nname: a\n{key}\n---\nText.\n");
            assert_eq!(found_names(&text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn heads_without_risky_keys_are_safe() {
        for text in [
            "Use MCP and hooks: gladly.\n",
            "---\nname: a\ntools:\n  - Read\n- mcp__b__c\n# x\n---\nhooks: none\n",
            "\u{feff}---\r\nname: a\r\n---\r\n",
            "--- \t\r\nname: a\n---\n",
            "\"name\": a",
            "---\n\"name\": a\n---\n",
            "---\n{name: a, tools: []}\n---\n",
            "---\n---\n",
            // A list in several lines.
            "---\nname: a\ntools: [\n  'read',\n  'edit'\n]\n---\nText.\n",
            "---\nname: a\ntools: [\n'read',\n'edit'\n]\n---\nText.\n",
            // No valid YAML, and common.
            "---\nname: a\ndescription: Use it when: always\ntools: [\n  'read'\n]\n---\n",
            "---\ndescription: a --- b\nname: x\n---\n",
            "---\ndescription: |\n  hooks: no key\n---\n",
            "---\ndescription: a\u{2028}b\n---\n",
        ] {
            assert_eq!(found_names(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn texts_without_a_head_are_safe() {
        for text in [
            "----\nA rule of four, and hooks: none\n----\n",
            "---\n\nA rule above a text, with a note: none.\n",
            "---\nNote: this is text.\nIt goes on here.\n",
            "-------------\nTitle\n-------------\n",
            "---",
            "",
        ] {
            assert!(is_plain(text), "{text}: {:?}", found_names(text));
        }
    }

    #[test]
    fn keys_that_some_reader_may_find_in_a_head_are_found() {
        for head in [
            "hooks: {}",
            "name: a\nhooks : {}",
            "name: a\rhooks: {}",
            "# x\u{2028}hooks: {}",
            "# x\u{85}\"\\x68ooks\": {}",
            "{name: a, hooks: {}}",
            "{name: a, hooks: {}",
            "? \"m\\\n  cp-servers\"\n: {}",
            "x: 'open\n? \"m\\\n  cp-servers\"\n: {}",
            "  name: a\n  hooks: {}",
            "x: &a {hooks: 1}\n<<: *a",
            "x: 'open\n<<: *a",
            "\"\\x68ooks\": {}",
            "!!str hooks: {}",
            "x: 'open\n!!str hooks: {}",
            "name: \"\nhooks: {}\n\"",
            "name: 'a\nhooks:\n  b'",
            "name: [\nhooks: {}\n]",
            "name: a: b\nhooks: {}",
            "name: a\nHooks: {}",
            "name: a\nmcp_servers: [b]",
            "name: a\nallowedTools: Bash",
            "name: a\nnew: {thing: [{command: x}]}",
            "name: a\npermissionMode: bypassPermissions",
            "name: a\npermissionMode: \"accept\\x45dits\"",
            "name: a\npermissionMode: [bypassPermissions]",
        ] {
            assert!(!is_plain(&format!("---\n{head}\n---\n")), "{head}");
        }
        // Claude Code reads only up to the first dashes, and then line by line.
        assert!(!is_plain("---\nname: \"\nhooks:\n  - a --- \"\n---\n"));
        // Nothing closes it, and some readers treat it as a head.
        assert!(!is_plain("---\nhooks: {}\n"));
        assert!(!is_plain("---\nname: a\n# x\u{2028}\nhooks: {}\n"));
        assert!(!is_plain("---\nname: *undefined\nhooks: {}\n"));
        for opening in ["--- {hooks: {}}", "---hooks: {}", "---js", "--- # hooks", "---\u{2028}hooks: {}"] {
            assert!(!is_plain(&format!("{opening}\nname: a\n---\n")), "{opening}");
            assert!(!is_plain(opening), "{opening}");
        }
    }

    #[test]
    fn a_line_is_counted_as_editors_count_it() {
        let found = find_risky_keys("---\nname: a\u{2028}b\n# x\u{2028}hooks: {}\n---\n");
        assert_eq!((found[0].name.as_str(), found[0].line), ("hooks", 3));
    }
}
