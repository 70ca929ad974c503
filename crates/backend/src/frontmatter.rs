//! Whether the head of a project's file, as agents, commands and skills have one, says only what is known to be harmless.
//! Nothing is understood of it: whatever is not plainly a key of the list counts as something else.

/// What ends a line for some readers of YAML.
const OTHER_BREAKS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// What is shown of a line that is none of the list.
const SHOWN_BYTES_MAX: usize = 60;

/// Tells whether a text has no head, or one with no other keys, or whole lines, than these.
pub(crate) fn is_plain(text: &str, keys: &[&str]) -> bool {
    strange(text, keys).is_none()
}

/// Returns the first that a head has beside these keys, or whole lines, for people to look at: a key if it is plainly one,
/// else a line.
pub(crate) fn strange(text: &str, keys: &[&str]) -> Option<String> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let rest = text.strip_prefix("---")?;
    let mut lines = rest.lines();
    // What stands beside the opening belongs to the head for some.
    if lines.next().is_some_and(|opening| !opening.trim().is_empty()) {
        return Some(shown(text.lines().next().unwrap_or_default()));
    }
    let mut below_key = false;
    for line in lines {
        if line.trim_end() == "---" || line.trim_end() == "..." {
            return None;
        }
        if line.contains(OTHER_BREAKS) {
            return Some(shown(line));
        }
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with([' ', '\t', '-']) {
            // Without a key above it, the whole head may be indented.
            if !below_key {
                return Some(shown(line));
            }
            continue;
        }
        let key = line.split_once(':').map(|(key, _)| key.trim_end());
        below_key = key.is_some_and(|key| keys.contains(&key) || keys.contains(&line.trim_end()));
        if !below_key {
            let listed = keys.iter().any(|known| key.is_some_and(|key| known.split(':').next() == Some(key)));
            return Some(shown(key.filter(|_| !listed).unwrap_or(line)));
        }
    }
    // A head without an end may be one to somebody else.
    Some("---".to_owned())
}

fn shown(line: &str) -> String {
    domain::size::head(line.trim(), SHOWN_BYTES_MAX).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_strange_is_shown() {
        let strange = |head: &str| strange(&format!("---\n{head}\n---\n"), &["name", "mode: plan"]);
        assert_eq!(strange("name: a\nmode: plan"), None);
        assert_eq!(strange("name: a\nhooks : {}").as_deref(), Some("hooks"));
        assert_eq!(strange("mode: free").as_deref(), Some("mode: free"));
        assert_eq!(strange("  name: \u{1b}[31m").as_deref(), Some("name: \\u{1b}[31m"));
        assert_eq!(strange(&"x".repeat(900)).unwrap().len(), SHOWN_BYTES_MAX);
    }

    #[test]
    fn only_known_keys_in_plain_writing_are_plain() {
        let plain = |text: &str| is_plain(text, &["name", "tools", "mode: plan"]);
        assert!(plain("---\nmode: plan\n---\n") && !plain("---\nmode: free\n---\n"));
        assert!(plain("Use MCP and hooks: gladly.\n"));
        assert!(plain("---\nname: a\ntools:\n  - Read\n- mcp__b__c\n# x\n---\nhooks: none\n"));
        assert!(plain("\u{feff}---\r\nname: a\r\n---\r\n"));
        for head in [
            "hooks: {}",
            "name: a\nhooks : {}",
            "name: a\rhooks: {}",
            "# x\u{2028}hooks: {}",
            "\"name\": a",
            "{name: a, hooks: {}}",
            "? \"m\\\n  cp-servers\"\n: {}",
            "  name: a\n  hooks: {}",
            "<<: *x",
            "name: a",
        ] {
            let end = if head == "name: a" { "" } else { "\n---\n" };
            assert!(!plain(&format!("---\n{head}{end}")), "{head}");
        }
        assert!(plain("--- \t\r\nname: a\n---\n"));
        for opening in ["--- {hooks: {}}", "---hooks: {}", "----", "--- # hooks", "---\u{2028}hooks: {}"] {
            assert!(!plain(&format!("{opening}\nname: a\n---\n")), "{opening}");
            assert!(!plain(opening), "{opening}");
        }
    }
}
