//! Extracts the passages of a project's file that execute something or grant more, as people see them before they
//! trust it.

use std::path::Path;

use serde_json::Value;

use crate::contract::Excerpt;
use crate::user_environment;

/// The most that is shown of one passage. A person who judges a command must see all of it, so this only bounds text
/// that nobody would read; the remaining bytes are counted.
const SHOWN_BYTES_MAX: usize = 8 << 10;

/// Returns the passage of a setting. Dots may separate the parts of its name.
pub(crate) fn for_setting(file: &Path, name: &str, value: &Value) -> Excerpt {
    let key = name.rsplit('.').next().unwrap_or(name);
    let quoted = format!("\"{key}\"");
    let text = user_environment::try_read_text(file).ok().flatten().unwrap_or_default();
    let index = text.lines().position(|line| line.contains(&quoted));
    Excerpt { line: index.map(number), text: printable(&format!("{name}: {value}")), reason: key_effect(key) }
}

/// Returns the passage of a variable, without its value.
pub(crate) fn for_variable(file: &Path, name: &str) -> Excerpt {
    let text = user_environment::try_read_text(file).ok().flatten().unwrap_or_default();
    let index = text.lines().position(|line| line.contains(name));
    let why = "a variable can lead the program to other services and programs";
    Excerpt { line: index.map(number), text: printable(name), reason: why }
}

/// Returns a whole file as one excerpt, with its text.
pub(crate) fn for_whole_file(file: &Path, why: &'static str) -> Excerpt {
    let text = user_environment::try_read_text(file).ok().flatten().filter(|text| !text.trim().is_empty());
    let text = text.map_or_else(|| "the whole file".to_owned(), |text| printable(text.trim()));
    Excerpt { line: None, text, reason: why }
}

/// Returns the commands that Claude Code executes while it puts a text into a prompt. They are in backticks after an
/// exclamation mark that begins a line or follows whitespace, or in a code block that begins with one.
pub(crate) fn embedded_commands(text: &str) -> Vec<Excerpt> {
    const WHY: &str = "the command runs when the text is put into a prompt";
    let mut found: Vec<Excerpt> = Vec::new();
    for (at, mark) in text.match_indices("!`") {
        let after = &text[at + mark.len()..];
        let is_block = text[..at].ends_with("```");
        let before = text[..at].chars().next_back();
        // JavaScript treats a byte-order mark as whitespace.
        let begins = before.is_none_or(|character| character.is_whitespace() || character == '\u{feff}');
        let command = after.split_once('`').map(|(command, _)| command).filter(|command| !command.is_empty());
        if let (true, Some(command)) = (begins && !is_block, command) {
            let line = Some(number(text[..at].matches('\n').count()));
            found.push(Excerpt { line, text: printable(&format!("!`{command}`")), reason: WHY });
        }
    }
    for (at, mark) in text.match_indices("```!") {
        let after = &text[at + mark.len()..];
        let block = after.split_once("```").map_or(after, |(block, _)| block);
        let line = Some(number(text[..at].matches('\n').count()));
        found.push(Excerpt { line, text: printable(&format!("```! {}", block.trim())), reason: WHY });
    }
    found.sort();
    found
}

/// Explains the effect of a key.
pub(crate) fn key_effect(key: &str) -> &'static str {
    match key {
        "hooks" => "hooks run programs at events of the agent",
        "mcpServers" | "mcp-servers" | "mcp_servers" => "it starts MCP servers, which are programs",
        "allowed-tools" | "allowedTools" | "permissionMode" | "permissions" => {
            "it allows tools without a question"
        }
        "env" => "variables can lead the program to other services and programs",
        "apiKeyHelper" | "awsAuthRefresh" | "awsCredentialExport" | "statusLine" | "otelHeadersHelper" => {
            "the program runs this command"
        }
        "plugin" | "plugins" | "enabledPlugins" => "plug-ins are programs",
        "initialPrompt" => "the text is the first prompt where Claude Code starts with this agent",
        _ => "it is not known to be harmless",
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1)
}

/// Returns a text on one line without invisible characters, up to a limit.
pub(crate) fn printable(text: &str) -> String {
    let line = domain::invisible_text::escape_invisible(text);
    match line.len().checked_sub(SHOWN_BYTES_MAX) {
        Some(1..) => {
            let head = domain::size::head(&line, SHOWN_BYTES_MAX);
            format!("{head}… and {} more bytes, which only the file shows", line.len() - head.len())
        }
        Some(0) | None => line.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frontmatter::find_risky_keys;

    fn commands(text: &str) -> Vec<(Option<u32>, String)> {
        embedded_commands(text).into_iter().map(|found| (found.line, found.text)).collect()
    }

    #[test]
    fn commands_in_a_text_are_found_where_claude_code_runs_them() {
        let text = "Now: !`date`\n!`git status`\nand\u{a0}!`a\nb`.\n\n```!\nmake x\n```\n";
        let expected = [
            (Some(1), "!`date`".to_owned()),
            (Some(2), "!`git status`".to_owned()),
            (Some(3), "!`a\\nb`".to_owned()),
            (Some(6), "```! make x".to_owned()),
        ];
        assert_eq!(commands(text), expected);
        assert_eq!(commands("\u{feff}!`date`").len(), 1);
        assert_eq!(commands("```!\nnot closed").len(), 1);
    }

    #[test]
    fn backticks_in_a_text_are_not_commands() {
        for text in [
            "Say `Hello!`, then stop.",
            "Say `Hello!`, then `Bye!` and `go`.",
            "const greeting = `Hello ${name}!`;\nconst other = `${a} and ${b}`;\n",
            "if (!`${x}`.length) {}",
            "Look! `code` here",
            "an empty one !`` is none",
            "one that nothing closes !`date",
            "```js\nlet x = `!`\n```\n",
        ] {
            assert_eq!(commands(text), [], "{text}");
        }
    }

    #[test]
    fn a_long_command_is_bounded_and_says_how_much_is_left_out() {
        let text = &embedded_commands(&format!("!`{}`", "x".repeat(9_000)))[0].text;
        assert!(text.ends_with("x… and 811 more bytes, which only the file shows"), "{}", &text[8_000..]);
    }

    fn is_visible(text: &str) -> bool {
        domain::invisible_text::escape_invisible(text) == text
    }

    proptest! {
        #[test]
        fn the_command_of_a_text_is_shown_whole(
            before in "[a-z \n]{0,40}",
            command in "[^`]{1,300}",
        ) {
            let found = embedded_commands(&format!("{before}\n!`{command}` and so on"));
            let expected_text = domain::invisible_text::escape_invisible(&command).into_owned();
            prop_assert!(found.iter().any(|one| one.text.contains(&expected_text)), "{:?}", found);
            prop_assert!(found.iter().all(|one| is_visible(&one.text)));
        }

        #[test]
        fn the_command_of_a_hook_is_shown_whole(command in any::<String>(), others in 0..20_usize, block in any::<bool>()) {
            let quoted = serde_json::Value::from(command.as_str()).to_string();
            let padding: String = (0..others).map(|number| format!("    - note: n{number}\n")).collect();
            let head = match block {
                true => format!("hooks:\n  Stop:\n{padding}    - hooks:\n      - type: command\n        command: {quoted}\n"),
                false => format!("hooks: {{Stop: [{{hooks: [{{type: command, command: {quoted}}}]}}]}}\n"),
            };
            let found = find_risky_keys(&format!("---\nname: a\n{head}---\n"));
            let expected_text = domain::invisible_text::escape_invisible(&quoted).into_owned();
            // Characters that YAML forbids make the head unreadable; its lines are then shown as they are.
            prop_assert!(found.iter().any(|one| one.name == "hooks" && one.text.contains(&expected_text)), "{:?}", found);
            prop_assert!(found.iter().all(|one| is_visible(&one.text) && is_visible(&one.name)));
        }

        #[test]
        fn nothing_invisible_is_shown_of_any_head(head in any::<String>()) {
            let found = find_risky_keys(&format!("---\n{head}\nhooks: {head}\n---\n"));
            prop_assert!(found.iter().all(|one| is_visible(&one.text) && is_visible(&one.name)), "{:?}", found);
        }
    }
}
