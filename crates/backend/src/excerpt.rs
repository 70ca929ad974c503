//! The places in a project's file that execute something or grant more, as people are shown them before they trust it.

use std::path::Path;

use serde_json::Value;

use crate::contract::Excerpt;
use crate::user;

/// The most that is shown of one place.
const SHOWN_BYTES_MAX: usize = 400;

/// Returns the place of a setting, whose name may have points between its parts.
pub(crate) fn setting(file: &Path, name: &str, value: &Value) -> Excerpt {
    let key = name.rsplit('.').next().unwrap_or(name);
    let quoted = format!("\"{key}\"");
    let text = user::look_text(file).ok().flatten().unwrap_or_default();
    let place = text.lines().position(|line| line.contains(&quoted));
    Excerpt { line: place.map(number), text: shown(&format!("{name}: {value}")), why: why(key) }
}

/// Returns the place of a variable, without its value.
pub(crate) fn variable(file: &Path, name: &str) -> Excerpt {
    let text = user::look_text(file).ok().flatten().unwrap_or_default();
    let place = text.lines().position(|line| line.contains(name));
    let why = "a variable can lead the program to other services and programs";
    Excerpt { line: place.map(number), text: shown(name), why }
}

/// Returns the programs that Claude Code executes while it puts a text into a prompt. They stand in backticks after an
/// exclamation mark, which begins a line or follows a blank, or in a block of code that begins so.
pub(crate) fn executed(text: &str) -> Vec<Excerpt> {
    const WHY: &str = "the command runs when the text is put into a prompt";
    let mut found: Vec<Excerpt> = Vec::new();
    for (at, mark) in text.match_indices("!`") {
        let after = &text[at + mark.len()..];
        let is_block = text[..at].ends_with("```");
        let before = text[..at].chars().next_back();
        // A byte-order mark is a blank to JavaScript.
        let begins = before.is_none_or(|letter| letter.is_whitespace() || letter == '\u{feff}');
        let command = after.split_once('`').map(|(command, _)| command).filter(|command| !command.is_empty());
        if let (true, Some(command)) = (begins && !is_block, command) {
            let line = Some(number(text[..at].matches('\n').count()));
            found.push(Excerpt { line, text: shown(&format!("!`{command}`")), why: WHY });
        }
    }
    for (at, mark) in text.match_indices("```!") {
        let after = &text[at + mark.len()..];
        let block = after.split_once("```").map_or(after, |(block, _)| block);
        let line = Some(number(text[..at].matches('\n').count()));
        found.push(Excerpt { line, text: shown(&format!("```! {}", block.trim())), why: WHY });
    }
    found.sort();
    found
}

/// Says what a program makes of a key.
pub(crate) fn why(key: &str) -> &'static str {
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
        _ => "it is not known to be harmless",
    }
}

fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX).saturating_add(1)
}

fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.len() > SHOWN_BYTES_MAX {
        true => format!("{}…", domain::size::head(&line, SHOWN_BYTES_MAX)),
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(text: &str) -> Vec<(Option<u32>, String)> {
        executed(text).into_iter().map(|found| (found.line, found.text)).collect()
    }

    #[test]
    fn commands_in_a_text_are_found_where_claude_code_runs_them() {
        let text = "Now: !`date`\n!`git status`\nand\u{a0}!`a\nb`.\n\n```!\nmake x\n```\n";
        let expected = [
            (Some(1), "!`date`".to_owned()),
            (Some(2), "!`git status`".to_owned()),
            (Some(3), "!`a b`".to_owned()),
            (Some(6), "```! make x".to_owned()),
        ];
        assert_eq!(commands(text), expected);
        assert_eq!(commands("\u{feff}!`date`").len(), 1);
        assert_eq!(commands("```!\nnot closed").len(), 1);
    }

    #[test]
    fn backticks_in_a_text_are_no_commands() {
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
    fn a_long_command_is_shortened() {
        assert!(executed(&format!("!`{}`", "x".repeat(9_000)))[0].text.len() < SHOWN_BYTES_MAX + 8);
    }
}
