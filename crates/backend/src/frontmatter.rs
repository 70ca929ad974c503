//! Whether the head of a project's file, as agents, commands and skills have one, has only keys that are known to execute
//! and grant nothing. The YAML parser decides. Where it cannot read a head, or where a vendor's reader may find another one
//! than we do, the lines count as well: a program that falls back to them must not find more than was looked at.

use definition::frontmatter::{HeadKey, head_keys};

use crate::contract::Excerpt;
use crate::excerpt;

/// What ends a line for some readers of YAML.
const OTHER_BREAKS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// The most that is shown of a line.
const SHOWN_BYTES_MAX: usize = 120;

/// Something in a head that is not known to be harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Strange {
    /// The key, or the line where there is no key.
    pub(crate) what: String,
    /// The line of the file.
    pub(crate) line: u32,
    /// The line's text.
    pub(crate) text: String,
}

/// Returns all that a head has beside these keys, or keys with these values (`mode: plan`), for people to look at.
pub(crate) fn strange(text: &str, keys: &[&str]) -> Vec<Strange> {
    let heads = match heads(text) {
        Ok(heads) => heads,
        Err(opening) => return vec![opening],
    };
    let mut found: Vec<Strange> = Vec::new();
    for head in heads {
        for one in head.strange(keys) {
            if !found.iter().any(|known| known.what == one.what) {
                found.push(one);
            }
        }
    }
    found
}

impl From<Strange> for Excerpt {
    fn from(strange: Strange) -> Self {
        let key = strange.what.split(':').next().unwrap_or_default();
        Self { line: Some(strange.line), why: excerpt::why(key), text: strange.text }
    }
}

/// A part of a file that some reader takes for its head.
struct Head<'a> {
    yaml: &'a str,
    lines_before: u32,
    /// Nothing closes it, so most readers take it for text.
    is_open: bool,
}

/// Returns what readers may take for the head of a text, or the line that opens one in a way that readers differ about.
fn heads(text: &str) -> Result<Vec<Head<'_>>, Strange> {
    let begun = text.trim_start_matches('\u{feff}').trim_start();
    let Some(rest) = begun.strip_prefix("---") else { return Ok(Vec::new()) };
    let before = &text[..text.len() - rest.len()];
    let (opening, inner) = rest.split_once('\n').unwrap_or((rest, ""));
    let opening = opening.strip_suffix('\r').unwrap_or(opening);
    // A line of four or more is a rule between paragraphs.
    if opening.starts_with('-') && opening.trim_end().chars().all(|letter| letter == '-') {
        return Ok(Vec::new());
    }
    let lines_before = u32::try_from(before.matches('\n').count()).unwrap_or(u32::MAX);
    if !opening.trim_matches([' ', '\t']).is_empty() {
        // Some take what follows the marks for the language of the head, or for a part of it.
        let line = shown(begun.lines().next().unwrap_or_default());
        return Err(Strange { what: line.clone(), line: lines_before + 1, text: line });
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
    fn strange(&self, listed: &[&str]) -> Vec<Strange> {
        let plain = self.yaml.replace("\r\n", "\n");
        if let Some((place, line)) = plain.lines().enumerate().find(|(_, line)| line.contains(OTHER_BREAKS)) {
            return match self.is_open {
                true => self.unlisted_keys(&plain, listed),
                false => vec![self.at(place, line, line)],
            };
        }
        match head_keys(&plain) {
            Some(keys) => self.unlisted(&plain, &keys, listed),
            // A reader that wants no closing line may be less strict about YAML than ours.
            None if self.is_open => self.unlisted_keys(&plain, listed),
            None => self.unlisted_line(&plain, listed).into_iter().collect(),
        }
    }

    fn unlisted(&self, yaml: &str, keys: &[HeadKey], listed: &[&str]) -> Vec<Strange> {
        let lines: Vec<&str> = yaml.lines().collect();
        let is_listed = |key: &HeadKey| {
            let whole = key.value.as_ref().map(|value| format!("{}: {value}", key.name));
            listed.contains(&key.name.as_str()) || whole.is_some_and(|whole| listed.contains(&whole.as_str()))
        };
        let mut found: Vec<Strange> = Vec::new();
        // No program knows a key of several words: a text that nothing closes has a sentence there.
        let is_sentence = |key: &HeadKey| self.is_open && key.name.contains(char::is_whitespace);
        for key in keys.iter().filter(|key| !is_listed(key) && !is_sentence(key)) {
            let place = usize::try_from(key.line).unwrap_or(1).saturating_sub(1);
            let text = lines.get(place).copied().unwrap_or_default();
            let named = listed.iter().any(|known| known.split(':').next() == Some(key.name.as_str()));
            found.push(self.at(place, if named { text } else { &key.name }, text));
        }
        // A reader that is stricter than ours may not see one value in several lines, and find keys in them.
        for (place, line) in lines.iter().enumerate() {
            let Some(name) = key_of(line) else { continue };
            let known = keys.iter().any(|key| key.name == name || usize::try_from(key.line) == Ok(place + 1));
            if !known && !listed.contains(&name) && !listed.contains(&line.trim_end()) {
                found.push(self.at(place, name, line));
            }
        }
        found
    }

    /// Returns the first line that is plainly none of the list.
    /// Returns each line of a text that begins with a key that is not listed. The keys of programs begin in lower case, and
    /// sentences do not.
    fn unlisted_keys(&self, text: &str, listed: &[&str]) -> Vec<Strange> {
        let keys = text.lines().enumerate().filter_map(|(place, line)| Some((place, line, key_of(line)?)));
        let strange = keys.filter(|(_, _, key)| {
            !listed.contains(key) && !key.starts_with(|first: char| first.is_ascii_uppercase())
        });
        strange.map(|(place, line, key)| self.at(place, key, line)).collect()
    }

    fn unlisted_line(&self, yaml: &str, listed: &[&str]) -> Option<Strange> {
        let mut below_key = false;
        for (place, line) in yaml.lines().enumerate() {
            let is_end = !line.trim().is_empty() && line.trim().chars().all(|letter| "]},".contains(letter));
            if line.trim().is_empty() || line.starts_with('#') || (below_key && is_end) {
                continue;
            }
            if line.starts_with([' ', '\t', '-']) {
                // Without a key above it, the whole head may be indented.
                if !below_key {
                    return Some(self.at(place, line, line));
                }
                continue;
            }
            let key = line.split_once(':').map(|(key, _)| key.trim_end());
            below_key = key.is_some_and(|key| listed.contains(&key) || listed.contains(&line.trim_end()));
            if !below_key {
                let named =
                    listed.iter().any(|known| key.is_some_and(|key| known.split(':').next() == Some(key)));
                return Some(self.at(place, key.filter(|_| !named).unwrap_or(line), line));
            }
        }
        // No line says what is wrong with it.
        (!below_key && !yaml.trim().is_empty()).then(|| self.at(0, "---", "---"))
    }

    fn at(&self, place: usize, what: &str, text: &str) -> Strange {
        let line = u32::try_from(place).unwrap_or(u32::MAX).saturating_add(1);
        Strange { what: shown(what), line: self.lines_before.saturating_add(line), text: shown(text) }
    }
}

/// Returns the key of a line that begins one at its first letter.
fn key_of(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let key = key.trim_end().trim_matches(['"', '\'']);
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || "_-\\".contains(letter);
    let is_key = !key.is_empty() && !key.starts_with('-') && key.chars().all(is_word);
    (is_key && (rest.is_empty() || rest.starts_with([' ', '\t']))).then_some(key)
}

fn shown(line: &str) -> String {
    domain::size::head(line.trim(), SHOWN_BYTES_MAX).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(text: &str) -> Vec<String> {
        let keys = ["name", "tools", "description", "mode: plan"];
        strange(text, &keys).into_iter().map(|found| found.what).collect()
    }

    fn is_plain(text: &str) -> bool {
        whats(text).is_empty()
    }

    #[test]
    fn each_key_that_is_not_listed_is_shown_with_its_line() {
        let text = "---\nname: a\nhooks : {}\nmode: free\nservers:\n  - x\n---\n";
        let found = strange(text, &["name", "mode: plan"]);
        let one =
            |what: &str, line, text: &str| Strange { what: what.to_owned(), line, text: text.to_owned() };
        assert_eq!(
            found,
            [
                one("hooks", 3, "hooks : {}"),
                one("mode: free", 4, "mode: free"),
                one("servers", 5, "servers:")
            ]
        );
        assert_eq!(whats("---\n  \"\\x68ooks\": \u{1b}[31m\n---\n").len(), 1);
        assert!(whats(&format!("---\n{}: 1\n---\n", "x".repeat(900)))[0].len() <= SHOWN_BYTES_MAX);
    }

    #[test]
    fn heads_that_only_name_listed_keys_are_harmless() {
        for text in [
            "Use MCP and hooks: gladly.\n",
            "---\nmode: plan\n---\n",
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
        ] {
            assert_eq!(whats(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn texts_without_a_head_are_harmless() {
        for text in [
            "----\nA rule of four, and hooks: none\n----\n",
            "---\n\nA rule above a text, with a note: none.\n",
            "---\nNote: this is text.\nIt goes on here.\n",
            "-------------\nTitle\n-------------\n",
            "---",
            "",
        ] {
            assert!(is_plain(text), "{text}: {:?}", whats(text));
        }
    }

    #[test]
    fn what_some_reader_may_find_in_a_head_is_found() {
        for head in [
            "hooks: {}",
            "name: a\nhooks : {}",
            "name: a\rhooks: {}",
            "# x\u{2028}hooks: {}",
            "{name: a, hooks: {}}",
            "? \"m\\\n  cp-servers\"\n: {}",
            "  name: a\n  hooks: {}",
            "x: &a {hooks: 1}\n<<: *a",
            "\"\\x68ooks\": {}",
            "!!str hooks: {}",
            "name: \"\nhooks: {}\n\"",
            "name: 'a\nhooks:\n  b'",
            "name: [\nhooks: {}\n]",
            "name: a: b\nhooks: {}",
        ] {
            assert!(!is_plain(&format!("---\n{head}\n---\n")), "{head}");
        }
        // Claude Code reads only what stands before the first dashes, and then line by line.
        assert!(!is_plain("---\nname: \"\nhooks:\n  - a --- \"\n---\n"));
        // Nothing closes it, and it is a head to some.
        assert!(!is_plain("---\nhooks: {}\n"));
        assert!(!is_plain("---\nname: a\n# x\u{2028}\nhooks: {}\n"));
        assert!(!is_plain("---\nname: *undefined\nhooks: {}\n"));
        for opening in ["--- {hooks: {}}", "---hooks: {}", "---js", "--- # hooks", "---\u{2028}hooks: {}"] {
            assert!(!is_plain(&format!("{opening}\nname: a\n---\n")), "{opening}");
            assert!(!is_plain(opening), "{opening}");
        }
    }
}
