//! The MCP servers of an agent. Values from the environment are stored as references by name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::permission::ToolKind;
use crate::secret::{Redactor, find_literal_secrets, mask_literal_secrets};

/// One server of an agent's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    pub name: String,
    pub transport: Transport,
    /// The only tools of the server that the agent sees; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A program that is started for the run.
    Stdio {
        command: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<VariableText>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, VariableText>,
    },
    Http {
        url: VariableText,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, VariableText>,
    },
    Sse {
        url: VariableText,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, VariableText>,
    },
}

impl McpServer {
    /// Returns the values whose names mark them as secret, and the parts of all texts that look like secrets.
    pub fn secrets(&self) -> Vec<TextPiece<'_>> {
        let (unnamed, values) = self.unnamed_and_named_texts();
        let named = values.iter().filter(|(name, _)| Redactor::names_server_secret(name));
        let named = named.flat_map(|(_, value)| value.pieces());
        let values = values.iter().map(|(name, value)| (Some(name.as_str()), value));
        let written = unnamed.into_iter().chain(values).flat_map(|(name, text)| {
            find_literal_secrets(text, name)
                .into_iter()
                .map(|range| TextPiece::Literal(&text.as_str()[range]))
        });
        named.chain(written).collect()
    }

    /// Returns whether the server is reached over the network instead of being started as a program.
    pub fn is_remote(&self) -> bool {
        matches!(self.transport, Transport::Http { .. } | Transport::Sse { .. })
    }

    /// Returns whether a named value is a non-empty literal, or any text contains a literal secret.
    pub fn has_literals(&self) -> bool {
        let (unnamed, values) = self.unnamed_and_named_texts();
        values.values().any(|value| value.is_literal() && !value.as_str().is_empty())
            || values.iter().any(|(name, value)| !find_literal_secrets(value, Some(name)).is_empty())
            || unnamed.into_iter().any(|(name, text)| !find_literal_secrets(text, name).is_empty())
    }

    /// Replaces every literal value, because any of them may be a secret, and every literal secret elsewhere.
    pub fn hide_literals(&mut self, hidden: &str) {
        self.hide(hidden, |_| true);
    }

    /// Replaces only values with a secret's name and parts that look like secrets.
    pub fn hide_secrets(&mut self, hidden: &str) {
        self.hide(hidden, Redactor::names_server_secret);
    }

    fn hide(&mut self, hidden: &str, is_hidden: impl Fn(&str) -> bool) {
        let (unnamed, _) = self.unnamed_and_named_texts();
        let mut unnamed = unnamed
            .into_iter()
            .map(|(name, text)| mask_literal_secrets(text, name, hidden))
            .collect::<Vec<_>>();
        let values = match &mut self.transport {
            Transport::Stdio { command: _, args, env } => {
                *args = unnamed;
                env
            }
            Transport::Http { url, headers } | Transport::Sse { url, headers } => {
                *url = unnamed.pop().unwrap_or_default();
                headers
            }
        };
        for (name, value) in values {
            *value = match is_hidden(name) && value.is_literal() && !value.as_str().is_empty() {
                true => VariableText::from(hidden),
                false => mask_literal_secrets(value, Some(name), hidden),
            };
        }
    }

    /// Returns the arguments or the URL, each with the option before it, and the named values.
    #[expect(clippy::type_complexity, reason = "a pair for the functions above alone")]
    fn unnamed_and_named_texts(
        &self,
    ) -> (Vec<(Option<&str>, &VariableText)>, &BTreeMap<String, VariableText>) {
        match &self.transport {
            Transport::Stdio { command: _, args, env } => {
                let before = std::iter::once(None).chain(args.iter().map(|text| Some(text.as_str())));
                let named =
                    before.zip(args).map(|(before, text)| (before.filter(|word| is_option(word)), text));
                (named.collect(), env)
            }
            Transport::Http { url, headers } | Transport::Sse { url, headers } => {
                (vec![(None, url)], headers)
            }
        }
    }

    /// Returns the names of all variables that the server's settings refer to, each once.
    pub fn variables(&self) -> Vec<&str> {
        let texts: Vec<&VariableText> = match &self.transport {
            Transport::Stdio { command: _, args, env } => args.iter().chain(env.values()).collect(),
            Transport::Http { url, headers } | Transport::Sse { url, headers } => {
                std::iter::once(url).chain(headers.values()).collect()
            }
        };
        let mut names: Vec<&str> = texts.into_iter().flat_map(VariableText::variables).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Returns whether an argument is an option whose value is the next argument.
pub fn is_option(argument: &str) -> bool {
    argument.starts_with('-') && !argument.contains('=')
}

/// Returns the server in the name of a tool, in any vendor's spelling: `mcp__x__y`, `@x/y`, `x/y` and `mcp_x_y`.
pub fn server_in_tool_name(tool: &str) -> Option<&str> {
    // Editors write their own tools with a group before the slash.
    let is_group = |word: &str| {
        !matches!(ToolKind::from_name(word), ToolKind::Other(_))
            || VSCODE_TOOL_SETS.contains(&word)
            || is_vscode_extension(word)
    };
    let server = match (ToolKind::from_name(tool), tool.split_once('/'), tool.strip_prefix("mcp_")) {
        (ToolKind::Mcp { server, .. }, _, _) => Some(server),
        (_, Some((group, _)), _) if is_group(group) => None,
        (_, Some((server, _)), _) => Some(server),
        (_, None, Some(rest)) => rest.split_once('_').map(|(server, _)| server),
        (_, None, None) => None,
    };
    server.filter(|server| !server.is_empty() && *server != "*" && *server != "builtin")
}

/// Words before a slash that are not servers: the tool sets of VS Code, except those that are names of tools.
const VSCODE_TOOL_SETS: [&str; 12] = [
    "vscode",
    "todo",
    "todos",
    "memory",
    "browser",
    "notebooks",
    "new",
    "runCommands",
    "runTasks",
    "runNotebooks",
    "testing",
    "changes",
];

/// Returns whether a word is the id of a VS Code extension, `publisher.name`, which offers its tools as a set. The
/// name of a server with a dot has several dots or contains "mcp".
fn is_vscode_extension(word: &str) -> bool {
    let words: Vec<&str> = word.split('.').collect();
    words.len() == 2 && !words.iter().any(|word| word.is_empty() || word.contains("mcp"))
}

/// A text with references `${NAME}` and `${NAME:-default}` to environment variables. It is stored with the
/// references, so a spec contains the names and never the values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct VariableText(String);

/// A piece of a [`VariableText`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextPiece<'a> {
    Literal(&'a str),
    Variable { name: &'a str, default: Option<&'a str> },
}

impl VariableText {
    /// Returns the text with its references.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a text that consists of a reference to one variable.
    pub fn from_variable_name(name: &str) -> Self {
        Self(format!("${{{name}}}"))
    }

    /// Returns the pieces in their order. An incomplete reference is a literal.
    pub fn pieces(&self) -> Vec<TextPiece<'_>> {
        let mut pieces = Vec::new();
        let mut rest = self.0.as_str();
        let mut literal_from = 0;
        let mut at = 0;
        while let Some(found) = rest[at..].find("${") {
            let start = at + found;
            match parse_reference(&rest[start..]) {
                Some((piece, length)) => {
                    if start > literal_from {
                        pieces.push(TextPiece::Literal(&rest[literal_from..start]));
                    }
                    pieces.push(piece);
                    rest = &rest[start + length..];
                    literal_from = 0;
                    at = 0;
                }
                None => at = start + 2,
            }
        }
        if rest.len() > literal_from {
            pieces.push(TextPiece::Literal(&rest[literal_from..]));
        }
        pieces
    }

    /// Returns the names of the variables, in the order of the text.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces().into_iter().filter_map(|piece| match piece {
            TextPiece::Variable { name, .. } => Some(name),
            TextPiece::Literal(_) => None,
        })
    }

    /// Returns whether the text does not depend on the environment.
    pub fn is_literal(&self) -> bool {
        self.variables().next().is_none()
    }

    /// Substitutes the values; returns the names without value and default as an error.
    pub fn resolve(&self, value_of: impl Fn(&str) -> Option<String>) -> Result<String, Vec<String>> {
        let mut text = String::new();
        let mut missing = Vec::new();
        for piece in self.pieces() {
            match piece {
                TextPiece::Literal(literal) => text.push_str(literal),
                TextPiece::Variable { name, default } => {
                    match value_of(name).or_else(|| default.map(ToOwned::to_owned)) {
                        Some(value) => text.push_str(&value),
                        None => missing.push(name.to_owned()),
                    }
                }
            }
        }
        if missing.is_empty() { Ok(text) } else { Err(missing) }
    }
}

/// Reads `${NAME}` or `${NAME:-default}` at the beginning of a text; returns it with its length.
fn parse_reference(text: &str) -> Option<(TextPiece<'_>, usize)> {
    let inside = text.strip_prefix("${")?;
    let end = inside.find('}')?;
    let (name, default) = match inside[..end].split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (&inside[..end], None),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let valid = !name.is_empty() && name.bytes().all(plain) && !name.as_bytes()[0].is_ascii_digit();
    valid.then_some((TextPiece::Variable { name, default }, end + 3))
}

impl fmt::Display for VariableText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for VariableText {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl From<String> for VariableText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for VariableText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<VariableText> for String {
    fn from(text: VariableText) -> Self {
        text.0
    }
}

#[cfg(test)]
mod tests;
