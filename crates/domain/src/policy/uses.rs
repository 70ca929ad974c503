//! The uses that a policy decides about, and how a tool call of any vendor becomes one. Resolves nothing on disk.

use serde_json::Value;

use crate::permission::ToolKind;

/// The keys of a tool's input that contain the path of a file.
const PATH_KEYS: [&str; 5] = ["file_path", "path", "filePath", "notebook_path", "absolute_path"];

/// The tools of the kind `Read` that show names instead of contents.
const LISTING_TOOLS: [&str; 3] = ["list", "ls", "list_directory"];

/// One thing that an agent wants to do. Unknown details are `None`: a restricting rule then matches, and a rule that
/// allows does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    Read(UsePath),
    /// Shows the names of files.
    List(UsePath),
    /// Finds files, or text in files.
    Search(UsePath),
    Write(UsePath),
    Exec(ExecCommand),
    /// A request to a host.
    Reach(Option<String>),
    /// A query to a search engine, whose results come from any host.
    WebSearch,
    /// A tool of an MCP server; `None` stands for all of them.
    Mcp {
        server: String,
        tool: Option<String>,
    },
    /// A call of another agent.
    Delegate(Option<String>),
    /// An environment variable that the agent sees.
    Env(String),
    /// A tool that only its vendor knows.
    Other(String),
}

/// The path of a use: as the agent writes it, and its target on disk. The caller resolves the target, because a name
/// alone does not reveal where a symbolic link leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsePath {
    pub name: Option<String>,
    /// The absolute path with every symbolic link resolved; `None` if it is unknown.
    pub target: Option<String>,
}

impl UsePath {
    /// A path without symbolic links in it.
    pub fn plain(absolute: &str) -> Self {
        Self { name: Some(absolute.to_owned()), target: Some(absolute.to_owned()) }
    }
}

/// A command to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecCommand {
    /// A line that a shell reads.
    Line(String),
    /// A program and its arguments, without a shell: no word is split, and none is joined with the next one.
    Argv(Vec<String>),
    Unknown,
}

impl Use {
    /// Returns the use that a tool call makes. `target` is the resolved path of [`path_argument`].
    pub fn from_tool_call(tool: &str, input: &Value, target: Option<String>) -> Self {
        let path = || UsePath { name: path_argument(input).map(ToOwned::to_owned), target: target.clone() };
        match ToolKind::from_name(tool) {
            ToolKind::Read if LISTING_TOOLS.contains(&tool.to_ascii_lowercase().as_str()) => {
                Self::List(path())
            }
            ToolKind::Read => Self::Read(path()),
            ToolKind::Search => Self::Search(path()),
            ToolKind::Edit => Self::Write(path()),
            ToolKind::Shell => Self::Exec(ExecCommand::from_input(input)),
            ToolKind::Fetch => Self::Reach(input.get("url").and_then(Value::as_str).and_then(url_host)),
            ToolKind::WebSearch => Self::WebSearch,
            ToolKind::Delegate => {
                Self::Delegate(input.get("subagent_type").and_then(Value::as_str).map(ToOwned::to_owned))
            }
            ToolKind::Mcp { server, tool } => {
                Self::Mcp { server: server.to_owned(), tool: tool.map(ToOwned::to_owned) }
            }
            ToolKind::Env | ToolKind::Everything | ToolKind::Other(_) => Self::Other(tool.to_owned()),
        }
    }

    /// Returns the kind of rules that are about this use.
    pub fn kind(&self) -> ToolKind<'_> {
        match self {
            Self::Read(_) | Self::List(_) => ToolKind::Read,
            Self::Search(_) => ToolKind::Search,
            Self::Write(_) => ToolKind::Edit,
            Self::Exec(_) => ToolKind::Shell,
            Self::Reach(_) => ToolKind::Fetch,
            Self::WebSearch => ToolKind::WebSearch,
            Self::Mcp { server, tool } => ToolKind::Mcp { server, tool: tool.as_deref() },
            Self::Delegate(_) => ToolKind::Delegate,
            Self::Env(_) => ToolKind::Env,
            Self::Other(name) => ToolKind::Other(name),
        }
    }
}

impl ExecCommand {
    fn from_input(input: &Value) -> Self {
        match ["command", "cmd"].iter().find_map(|key| input.get(key)) {
            Some(Value::String(line)) => Self::Line(line.clone()),
            Some(Value::Array(words)) => words
                .iter()
                .map(|word| word.as_str().map(ToOwned::to_owned))
                .collect::<Option<Vec<_>>>()
                .map_or(Self::Unknown, Self::Argv),
            _ => Self::Unknown,
        }
    }
}

/// Returns the path in a tool's input. Two different paths count as none.
pub fn path_argument(input: &Value) -> Option<&str> {
    let mut named = PATH_KEYS.iter().filter_map(|key| input.get(key));
    let first = named.next()?.as_str()?;
    named.all(|other| other.as_str() == Some(first)).then_some(first)
}

/// Returns the host of a web address, in lower case; `None` if programs could read the address differently.
fn url_host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    // A user name or a backslash lets two readers of one address see two hosts.
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let is_valid = !host.is_empty() && host.chars().all(is_plain) && port.chars().all(|c| c.is_ascii_digit());
    is_valid.then(|| host.trim_end_matches('.').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_array_stays_an_argument_vector() {
        let call = |input| Use::from_tool_call("shell", &input, None);
        let words = ["git", "log; rm -rf x"].map(ToOwned::to_owned).to_vec();
        assert_eq!(call(json!({"command": ["git", "log; rm -rf x"]})), Use::Exec(ExecCommand::Argv(words)));
        assert_eq!(call(json!({"cmd": "ls"})), Use::Exec(ExecCommand::Line("ls".to_owned())));
        for unknown in [json!({"command": ["git", 1]}), json!({"command": 1}), json!({})] {
            assert_eq!(call(unknown), Use::Exec(ExecCommand::Unknown));
        }
    }

    #[test]
    fn an_address_has_one_host_or_none() {
        assert_eq!(url_host("https://Docs.Example.org:8443/a?b"), Some("docs.example.org".to_owned()));
        assert_eq!(url_host("http://example.org."), Some("example.org".to_owned()));
        for uncertain in [
            "https://example.org@evil.org/",
            "https://evil.org\\@example.org",
            "//example.org",
            "file:///etc/passwd",
            "https://",
            "https://example.org:x/",
        ] {
            assert_eq!(url_host(uncertain), None, "{uncertain}");
        }
    }

    #[test]
    fn an_input_that_names_two_paths_names_none() {
        assert_eq!(path_argument(&json!({"file_path": "/work/a", "path": "/etc/b"})), None);
        assert_eq!(path_argument(&json!({"file_path": "a", "path": "a"})), Some("a"));
    }
}
