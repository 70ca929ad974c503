//! Describes the steps of an agent for people: a tool call of any vendor, or the end of the agent's text. Each description is one
//! line without invisible characters. Permissions do not use it: `policy` interprets a tool's name and input by itself.

use serde_json::{Map, Value};

use crate::invisible_text::one_line;
use crate::permission::ToolKind;
use crate::shell_script;
use crate::size::head;

/// The most characters of a summary.
pub const SUMMARY_CHARS_MAX: usize = 120;
/// The most characters of a path; its end says more than its beginning.
const PATH_CHARS_MAX: usize = 90;
/// How many bytes of one argument a summary uses.
const ARGUMENT_BYTES_MAX: usize = 2 << 10;
/// How many files of one call a summary names.
const FILES_NAMED: usize = 3;

const COMMAND_KEYS: [&str; 2] = ["command", "cmd"];
const PATH_KEYS: [&str; 12] = [
    "file_path",
    "path",
    "filePath",
    "absolute_path",
    "abs_path",
    "notebook_path",
    "target_file",
    "relative_path",
    "dir_path",
    "target_directory",
    "file",
    "filename",
];
const PATH_LIST_KEYS: [&str; 4] = ["paths", "files", "include", "edits"];
const PATTERN_KEYS: [&str; 6] = ["pattern", "query", "regex", "glob_pattern", "globPattern", "glob"];
const TASK_KEYS: [&str; 5] = ["description", "prompt", "task", "query", "message"];
const AGENT_KEYS: [&str; 5] = ["subagent_type", "agent", "agent_name", "agent_type", "subagent"];
/// The arguments that describe a call of an unknown tool, the most informative first.
const TELLING_KEYS: [&str; 22] = [
    "command",
    "cmd",
    "file_path",
    "path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "url",
    "pattern",
    "query",
    "title",
    "name",
    "agent",
    "description",
    "prompt",
    "message",
    "question",
    "text",
    "host",
    "id",
    "explanation",
    "reason",
];
/// The keys that name the subject of a denied call, the most informative first.
const SUBJECT_KEYS: [&str; 10] = [
    "command",
    "cmd",
    "file_path",
    "path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "url",
    "pattern",
    "query",
];

/// The action of a call. More tool names are known here than in rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action<'a> {
    Read,
    List,
    Write,
    Edit,
    Delete,
    Shell,
    Search,
    Fetch,
    WebSearch,
    Delegate,
    Mcp { server: &'a str, tool: Option<&'a str> },
    Other,
}

/// Tool names that rules do not know, in lower case and without separators.
const MORE_NAMES: [(Action<'static>, &[&str]); 7] = [
    (Action::Read, &["readfile", "readtext", "cat", "viewimage", "openfile", "readmediafile"]),
    (Action::List, &["listfiles", "listdir", "listdirectory", "ls", "list", "tree"]),
    (Action::Write, &["createfile", "writetofile", "writefile", "savefile"]),
    (Action::Edit, &["editfile", "searchreplace", "strreplacefile", "strreplaceeditor", "updatefile"]),
    (Action::Delete, &["delete", "deletefile", "removefile"]),
    (Action::Shell, &["execcommand", "runterminalcmd", "runterminalcommand", "runcommand", "localshell"]),
    (Action::Search, &["ripgrep", "codesearch", "codebasesearch", "filesearch", "searchfiles", "rg"]),
];

/// Returns a tool call in one line: `Read src/main.rs`, `$ cargo test`. Paths below the directory of the run are relative to it.
pub fn summarize_tool_call(name: &str, input: &Value, directory: &str) -> String {
    // The input of a rehearsal's step repeats the step's name as its only key.
    let step = input.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.get(name));
    let arguments = Arguments { input: step.unwrap_or(input), directory };
    let name = head(name, ARGUMENT_BYTES_MAX);
    let line = match action(name, &arguments) {
        Action::Read => arguments.about_files("Read"),
        Action::List => arguments.about_files("List"),
        Action::Write => arguments.about_files("Write"),
        Action::Edit => arguments.about_files(if arguments.creates_file() { "Write" } else { "Edit" }),
        Action::Delete => arguments.about_files("Delete"),
        Action::Shell => arguments.command().map(|command| format!("$ {command}")),
        Action::Search => arguments.search(),
        Action::Fetch => {
            arguments.first_text(&["url", "uri", "host", "prompt", "query"]).map(|url| format!("Fetch {url}"))
        }
        Action::WebSearch => arguments
            .first_text(&["query", "q", "search_term", "prompt"])
            .map(|query| format!("Web search: {query}")),
        Action::Delegate => arguments.delegation(),
        Action::Mcp { server, tool } => {
            let tool = format!("{server}/{}", tool.unwrap_or("*"));
            Some(match arguments.most_telling() {
                Some(argument) => format!("{tool} {argument}"),
                None => tool,
            })
        }
        Action::Other => None,
    };
    let line = line.unwrap_or_else(|| match (arguments.title(), arguments.most_telling()) {
        (Some(title), _) if is_sentence(&title) => title,
        (_, Some(argument)) => format!("{name} {argument}"),
        (_, None) => name.to_owned(),
    });
    let line = truncate(&one_line(&line));
    if line.is_empty() { "a tool without a name".to_owned() } else { line }
}

/// Returns the command, path or address that a tool call is about, on one line.
pub fn tool_subject(input: &Value) -> Option<String> {
    let text = text_of(SUBJECT_KEYS.iter().find_map(|key| input.get(key))?)?;
    Some(truncate(&one_line(&text))).filter(|line| !line.is_empty())
}

/// Returns the last sentence of a text, or the beginning of it if it is long. Empty if there is no text.
pub fn last_sentence(text: &str) -> String {
    let line = text.lines().rev().map(one_line).find(|line| !line.is_empty()).unwrap_or_default();
    let whole = line.trim_end_matches(['.', '!', '?', '"', '\'', ')', '`', '*']);
    let starts = [". ", "! ", "? "].iter().filter_map(|end| whole.rfind(end).map(|at| at + end.len()));
    let sentence = starts.max().and_then(|at| line.get(at..)).unwrap_or(&line);
    truncate(sentence)
}

/// Cuts a line to the length of a summary, and marks the cut with `…`.
pub fn truncate(line: &str) -> String {
    match line.char_indices().nth(SUMMARY_CHARS_MAX) {
        Some(_) => {
            let end = line.char_indices().nth(SUMMARY_CHARS_MAX - 1).map_or(line.len(), |(at, _)| at);
            format!("{}…", line[..end].trim_end())
        }
        None => line.to_owned(),
    }
}

fn action<'a>(name: &'a str, arguments: &Arguments<'_>) -> Action<'a> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    match ToolKind::from_name(name) {
        ToolKind::Read if matches!(plain.as_str(), "list" | "ls" | "listdirectory") => Action::List,
        ToolKind::Read => Action::Read,
        ToolKind::Edit if matches!(plain.as_str(), "write" | "writefile" | "create") => Action::Write,
        ToolKind::Edit => Action::Edit,
        ToolKind::Shell => Action::Shell,
        ToolKind::Search => Action::Search,
        ToolKind::Fetch => Action::Fetch,
        ToolKind::WebSearch => Action::WebSearch,
        ToolKind::Delegate => Action::Delegate,
        ToolKind::Mcp { server, tool } => Action::Mcp { server, tool },
        ToolKind::Env | ToolKind::Everything | ToolKind::Other(_) => {
            let known = MORE_NAMES.iter().find(|(_, names)| names.contains(&plain.as_str()));
            // An editor with a `command` such as `view` also has a path.
            let runs_command = arguments.has_any(&COMMAND_KEYS) && !arguments.has_any(&PATH_KEYS);
            match known {
                Some((action, _)) => *action,
                None if runs_command => Action::Shell,
                None => Action::Other,
            }
        }
    }
}

/// The input of a call, and the directory that its paths are relative to.
struct Arguments<'a> {
    input: &'a Value,
    directory: &'a str,
}

impl Arguments<'_> {
    fn has_any(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.input.get(key).is_some_and(|value| !value.is_null()))
    }

    fn first_text(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| text_of(self.input.get(key)?)).filter(|text| !text.trim().is_empty())
    }

    /// Returns the title that some agents report instead of arguments.
    fn title(&self) -> Option<String> {
        self.first_text(&["title"])
    }

    fn about_files(&self, verb: &str) -> Option<String> {
        let paths = self.paths();
        if !paths.is_empty() {
            let more = paths.len().saturating_sub(FILES_NAMED);
            let named = paths[..paths.len() - more].join(", ");
            return Some(if more > 0 {
                format!("{verb} {named} and {more} more")
            } else {
                format!("{verb} {named}")
            });
        }
        let title = self.title()?;
        Some(if is_sentence(&title) { title } else { format!("{verb} {}", self.short_path(&title)) })
    }

    fn paths(&self) -> Vec<String> {
        if let Some(path) = self.first_text(&PATH_KEYS) {
            return vec![self.short_path(&path)];
        }
        let listed = PATH_LIST_KEYS.iter().find_map(|key| self.input.get(key)?.as_array());
        let changed = self.input.get("changes");
        let names: Vec<&str> =
            match (listed.or_else(|| changed?.as_array()), changed.and_then(Value::as_object)) {
                (Some(items), _) => items.iter().filter_map(path_of).collect(),
                (None, Some(files)) => files.keys().map(String::as_str).collect(),
                (None, None) => Vec::new(),
            };
        let mut paths: Vec<String> = names.into_iter().map(|path| self.short_path(path)).collect();
        paths.dedup();
        paths
    }

    /// Returns whether the call writes a whole file, or a patch only adds files.
    fn creates_file(&self) -> bool {
        let is_new = |change: &Value| {
            let kind = change.get("kind").or_else(|| change.get("type"));
            let word = kind.and_then(|kind| kind.as_str().or_else(|| kind.get("type")?.as_str()));
            word == Some("add")
        };
        let by_command = self.input.get("command").and_then(Value::as_str) == Some("create");
        let is_whole_file = self.has_any(&["content", "contents", "file_text", "fileText"]);
        by_command
            || is_whole_file
            || match self.input.get("changes") {
                Some(Value::Array(changes)) => !changes.is_empty() && changes.iter().all(is_new),
                Some(Value::Object(changes)) => !changes.is_empty() && changes.values().all(is_new),
                _ => false,
            }
    }

    fn command(&self) -> Option<String> {
        let value = COMMAND_KEYS.iter().find_map(|key| self.input.get(key));
        match value {
            Some(Value::Array(words)) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                match words.as_slice() {
                    [shell, "-c" | "-lc", script] if shell_script::is_shell(shell) => {
                        Some(head(script, ARGUMENT_BYTES_MAX).to_owned())
                    }
                    words => Some(head(&words.join(" "), ARGUMENT_BYTES_MAX).to_owned()),
                }
            }
            Some(Value::String(line)) => {
                let script = shell_script::script(line).unwrap_or_else(|| line.clone());
                Some(head(&script, ARGUMENT_BYTES_MAX).to_owned())
            }
            _ => self.first_text(&["script", "input", "title"]),
        }
        .filter(|command| !command.trim().is_empty())
    }

    fn search(&self) -> Option<String> {
        let pattern = self.first_text(&PATTERN_KEYS);
        let folder = self.paths().into_iter().next().filter(|path| path != ".");
        match (pattern, folder) {
            (Some(pattern), Some(folder)) => Some(format!("Search {pattern} in {folder}")),
            (Some(pattern), None) => Some(format!("Search {pattern}")),
            (None, Some(folder)) => Some(format!("Search in {folder}")),
            (None, None) => {
                let title = self.title()?;
                Some(if is_sentence(&title) { title } else { format!("Search {title}") })
            }
        }
    }

    fn delegation(&self) -> Option<String> {
        let task = self.first_text(&TASK_KEYS).or_else(|| self.title());
        match (self.first_text(&AGENT_KEYS), task) {
            (Some(agent), Some(task)) => Some(format!("Delegate to {agent}: {task}")),
            (Some(agent), None) => Some(format!("Delegate to {agent}")),
            (None, Some(task)) => Some(format!("Delegate: {task}")),
            (None, None) => None,
        }
    }

    /// Returns the argument that says most about the call, or the first short one.
    fn most_telling(&self) -> Option<String> {
        let is_path = |key: &str| PATH_KEYS.contains(&key);
        let known = TELLING_KEYS.iter().find_map(|key| {
            let text = self.first_text(&[key])?;
            Some(if is_path(key) { self.short_path(&text) } else { text })
        });
        known.or_else(|| scalar_text(self.input)).or_else(|| {
            let arguments = self.input.as_object().into_iter().flat_map(Map::values);
            arguments.filter_map(scalar_text).find(|text| !text.trim().is_empty())
        })
    }

    /// Returns a path relative to the directory if it is below it, and only the end of a long one.
    fn short_path(&self, path: &str) -> String {
        let directory = self.directory.trim_end_matches('/');
        let relative = path.strip_prefix(directory).filter(|_| !directory.is_empty());
        let path = match relative {
            Some("" | "/") => ".",
            Some(rest) if rest.starts_with('/') => rest.trim_start_matches('/'),
            Some(_) | None => path,
        };
        let path = one_line(crate::size::tail(path, ARGUMENT_BYTES_MAX));
        let excess = path.chars().count().saturating_sub(PATH_CHARS_MAX);
        match excess {
            0 => path,
            excess => format!("…{}", path.chars().skip(excess + 1).collect::<String>()),
        }
    }
}

/// Returns the path in an item of a list of files or edits.
fn path_of(item: &Value) -> Option<&str> {
    item.as_str().or_else(|| PATH_KEYS.iter().find_map(|key| item.get(key)?.as_str()))
}

/// Returns the beginning of a text or of a list of texts.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(head(text, ARGUMENT_BYTES_MAX).to_owned()),
        Value::Array(items) => {
            let words: Vec<&str> = items.iter().filter_map(Value::as_str).take(100).collect();
            Some(head(&words.join(" "), ARGUMENT_BYTES_MAX).to_owned())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::String(_) | Value::Array(_) => text_of(value),
        Value::Null | Value::Object(_) => None,
    }
}

/// Returns whether a title is a phrase such as `Writing to a.txt`, so that the summary adds no verb.
fn is_sentence(title: &str) -> bool {
    let mut words = title.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_word = first.chars().all(char::is_alphabetic);
    is_word && first.starts_with(char::is_uppercase) && words.next().is_some()
}

#[cfg(test)]
mod tests;
