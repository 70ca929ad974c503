//! The MCP servers that an agent brings along. Values that stand in the environment are kept as references by name.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::permission::ToolKind;
use crate::secret::{Redactor, without_written_secrets, written_secrets};

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
    /// Returns what the server is handed under a name that says that it is secret, and what looks like a secret itself.
    pub fn secrets(&self) -> Vec<Piece<'_>> {
        let (loose, values) = self.texts();
        let named = values.iter().filter(|(name, _)| Redactor::names_handed_secret(name));
        let named = named.flat_map(|(_, value)| value.pieces());
        let values = values.iter().map(|(name, value)| (Some(name.as_str()), value));
        let written = loose.into_iter().chain(values).flat_map(|(name, text)| {
            written_secrets(text, name).into_iter().map(|range| Piece::Literal(&text.as_str()[range]))
        });
        named.chain(written).collect()
    }

    /// Tells whether a value that the server is handed stands in its settings as it is, or a secret anywhere else.
    pub fn has_literals(&self) -> bool {
        let (loose, values) = self.texts();
        values.values().any(|value| value.is_literal() && !value.as_str().is_empty())
            || values.iter().any(|(name, value)| !written_secrets(value, Some(name)).is_empty())
            || loose.into_iter().any(|(name, text)| !written_secrets(text, name).is_empty())
    }

    /// Puts this in the place of each such value, whatever it is called, since it may be a secret; and of the secrets.
    pub fn hide_literals(&mut self, hidden: &str) {
        self.hide(hidden, |_| true);
    }

    /// Puts this only in the place of what has a secret's name or looks like one.
    pub fn hide_secrets(&mut self, hidden: &str) {
        self.hide(hidden, Redactor::names_handed_secret);
    }

    fn hide(&mut self, hidden: &str, is_hidden: impl Fn(&str) -> bool) {
        let (loose, _) = self.texts();
        let mut loose = loose
            .into_iter()
            .map(|(name, text)| without_written_secrets(text, name, hidden))
            .collect::<Vec<_>>();
        let values = match &mut self.transport {
            Transport::Stdio { command: _, args, env } => {
                *args = loose;
                env
            }
            Transport::Http { url, headers } | Transport::Sse { url, headers } => {
                *url = loose.pop().unwrap_or_default();
                headers
            }
        };
        for (name, value) in values {
            *value = match is_hidden(name) && value.is_literal() && !value.as_str().is_empty() {
                true => VariableText::from(hidden),
                false => without_written_secrets(value, Some(name), hidden),
            };
        }
    }

    /// Returns arguments or the address, each with the option that it belongs to; and what has a name.
    #[expect(clippy::type_complexity, reason = "a pair for the functions above alone")]
    fn texts(&self) -> (Vec<(Option<&str>, &VariableText)>, &BTreeMap<String, VariableText>) {
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

/// Tells whether an argument says what the next one is.
pub fn is_option(argument: &str) -> bool {
    argument.starts_with('-') && !argument.contains('=')
}

/// Returns the server whose tools a name in a list of tools stands for, in the words of whichever vendor: `mcp__x__y`,
/// `@x/y`, `x/y` and `mcp_x_y`.
pub fn named_in_tool(tool: &str) -> Option<&str> {
    // Editors write their own tools with the group that they belong to.
    let is_group = |word: &str| {
        !matches!(ToolKind::named(word), ToolKind::Other(_)) || GROUPS.contains(&word) || is_extension(word)
    };
    let server = match (ToolKind::named(tool), tool.split_once('/'), tool.strip_prefix("mcp_")) {
        (ToolKind::Mcp { server, .. }, _, _) => Some(server),
        (_, Some((group, _)), _) if is_group(group) => None,
        (_, Some((server, _)), _) => Some(server),
        (_, None, Some(rest)) => rest.split_once('_').map(|(server, _)| server),
        (_, None, None) => None,
    };
    server.filter(|server| !server.is_empty() && *server != "*" && *server != "builtin")
}

/// Words before a slash that are no servers: the tool sets of VS Code, as far as they have no name of a tool.
const GROUPS: [&str; 12] = [
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

/// Tells whether a word is the id of an extension of VS Code, `publisher.name`, which offers its tools as a set. A server
/// with a dot in its name has several, or says what it is.
fn is_extension(word: &str) -> bool {
    let words: Vec<&str> = word.split('.').collect();
    words.len() == 2 && !words.iter().any(|word| word.is_empty() || word.contains("mcp"))
}

/// A text in which `${NAME}` and `${NAME:-default}` stand for variables of the environment. Stored as written,
/// so a spec holds the names and never the values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct VariableText(String);

/// A piece of such a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    Literal(&'a str),
    Variable { name: &'a str, default: Option<&'a str> },
}

impl VariableText {
    /// Returns the text with its references.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text that refers to one variable and has nothing else.
    pub fn of_variable(name: &str) -> Self {
        Self(format!("${{{name}}}"))
    }

    /// Returns the pieces in their order. What is no whole reference is a literal.
    pub fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces = Vec::new();
        let mut rest = self.0.as_str();
        let mut literal_from = 0;
        let mut at = 0;
        while let Some(found) = rest[at..].find("${") {
            let start = at + found;
            match reference(&rest[start..]) {
                Some((piece, length)) => {
                    if start > literal_from {
                        pieces.push(Piece::Literal(&rest[literal_from..start]));
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
            pieces.push(Piece::Literal(&rest[literal_from..]));
        }
        pieces
    }

    /// Returns the names of the variables, in the order of the text.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces().into_iter().filter_map(|piece| match piece {
            Piece::Variable { name, .. } => Some(name),
            Piece::Literal(_) => None,
        })
    }

    /// Tells whether the text is the same whatever the environment.
    pub fn is_literal(&self) -> bool {
        self.variables().next().is_none()
    }

    /// Returns the text with the values put in, or the names that have neither value nor default.
    pub fn resolve(&self, value_of: impl Fn(&str) -> Option<String>) -> Result<String, Vec<String>> {
        let mut text = String::new();
        let mut missing = Vec::new();
        for piece in self.pieces() {
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Variable { name, default } => {
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
fn reference(text: &str) -> Option<(Piece<'_>, usize)> {
    let inside = text.strip_prefix("${")?;
    let end = inside.find('}')?;
    let (name, default) = match inside[..end].split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (&inside[..end], None),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let valid = !name.is_empty() && name.bytes().all(plain) && !name.as_bytes()[0].is_ascii_digit();
    valid.then_some((Piece::Variable { name, default }, end + 3))
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
