//! What a model wants when it calls a tool: its arguments as typed values, or an error that it can act on.
//!
//! Tolerant where a guess cannot be wrong, such as a number in quotes. Everything else is an error, because a wrong
//! guess changes files.

use serde_json::{Map, Value};

use super::command_line::{CommandLineError, check_words, split_command_line};
use super::tools::LoopTool;
use crate::conversation::ToolArguments;
use crate::nearest::nearest;
use crate::policy::{ExecCommand, Use, UsePath};

/// Linux accepts 4095 bytes for a path.
const PATH_BYTES_MAX: usize = 4095;
/// For file contents, texts to replace and results.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// For patterns and names.
const NAME_BYTES_MAX: usize = 4096;
/// How much of what a model wrote an error repeats.
const REPEATED_CHARS_MAX: usize = 60;

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolRequest {
    /// `offset` is a line, counted from 1.
    ReadFile {
        path: String,
        offset: Option<u64>,
        limit: Option<u64>,
    },
    WriteFile {
        path: String,
        content: String,
    },
    EditFile {
        path: String,
        old_text: String,
        new_text: String,
        replace_all: bool,
    },
    ListDirectory {
        path: String,
    },
    SearchFiles(SearchRequest),
    RunCommand {
        words: Vec<String>,
        timeout_s: Option<u64>,
    },
    /// `offset` is in bytes.
    ReadOutput {
        call: u64,
        offset: u64,
    },
    ReportStep {
        name: String,
    },
    Finish {
        status: FinishStatus,
        result: Value,
    },
}

/// A search in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchRequest {
    pub pattern: String,
    /// The pattern is plain text instead of a regular expression.
    pub is_literal: bool,
    pub ignore_case: bool,
    /// `.` for the run's directory.
    pub path: String,
    /// Matches the paths of the files to search; `None` for all.
    pub glob: Option<String>,
    /// The maximum number of lines.
    pub limit: Option<u64>,
}

/// How a model says that its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishStatus {
    Success,
    Failure,
}

/// Why a call cannot be understood. The texts are for the model that made it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolRequestError {
    #[error("there is no tool {name:?}{}; the tools are: {}", did_you_mean(.name, .available), .available.join(", "))]
    UnknownTool { name: String, available: Vec<String> },
    #[error("the arguments of {tool} are unreadable: {reason}; write them as one JSON object")]
    Unreadable { tool: String, reason: String },
    #[error("{tool} needs the argument `{argument}`")]
    Missing { tool: String, argument: &'static str },
    #[error("the argument `{argument}` of {tool} must be {expected}, but is {found}")]
    WrongType { tool: String, argument: &'static str, expected: &'static str, found: String },
    #[error("the argument `{argument}` of {tool} is longer than {bytes_max} bytes")]
    TooLong { tool: String, argument: &'static str, bytes_max: usize },
    #[error("the argument `{argument}` of {tool} is empty or contains a NUL character")]
    UnusableText { tool: String, argument: &'static str },
    #[error("{tool} has no argument {argument:?}; its arguments are: {}", .known.join(", "))]
    UnknownArgument { tool: String, argument: String, known: Vec<&'static str> },
    #[error(transparent)]
    Command(#[from] CommandLineError),
}

/// Reads a model's call of one of the offered tools.
pub fn parse_tool_request(
    name: &str,
    arguments: &ToolArguments,
    offered: &[LoopTool],
) -> Result<ToolRequest, ToolRequestError> {
    let Some(tool) = LoopTool::from_name(name).filter(|tool| offered.contains(tool)) else {
        let name = name.chars().take(REPEATED_CHARS_MAX).collect();
        let available = offered.iter().map(|tool| tool.model_name()).collect();
        return Err(ToolRequestError::UnknownTool { name, available });
    };
    let members = members(tool, arguments)?;
    let reader = ArgumentReader { tool, members: &members };
    // A missing argument says more about a wrong name than the wrong name about a missing argument.
    let request = reader.request()?;
    reader.refuse_unknown()?;
    Ok(request)
}

impl ToolRequest {
    pub fn tool(&self) -> LoopTool {
        match self {
            Self::ReadFile { .. } => LoopTool::ReadFile,
            Self::WriteFile { .. } => LoopTool::WriteFile,
            Self::EditFile { .. } => LoopTool::EditFile,
            Self::ListDirectory { .. } => LoopTool::ListDirectory,
            Self::SearchFiles(_) => LoopTool::SearchFiles,
            Self::RunCommand { .. } => LoopTool::RunCommand,
            Self::ReadOutput { .. } => LoopTool::ReadOutput,
            Self::ReportStep { .. } => LoopTool::ReportStep,
            Self::Finish { .. } => LoopTool::Finish,
        }
    }

    /// Returns the path that the caller resolves for [`ToolRequest::uses`].
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::ReadFile { path, .. }
            | Self::WriteFile { path, .. }
            | Self::EditFile { path, .. }
            | Self::ListDirectory { path }
            | Self::SearchFiles(SearchRequest { path, .. }) => Some(path),
            Self::RunCommand { .. }
            | Self::ReadOutput { .. }
            | Self::ReportStep { .. }
            | Self::Finish { .. } => None,
        }
    }

    /// Returns the uses that the call makes, all of which must be allowed. `target` is the resolved path.
    pub fn uses(&self, target: Option<String>) -> Vec<Use> {
        let path = || UsePath { name: self.path().map(ToOwned::to_owned), target: target.clone() };
        match self {
            Self::ReadFile { .. } => vec![Use::Read(path())],
            Self::WriteFile { .. } => vec![Use::Write(path())],
            Self::EditFile { .. } => vec![Use::Read(path()), Use::Write(path())],
            Self::ListDirectory { .. } => vec![Use::List(path())],
            Self::SearchFiles(_) => vec![Use::Search(path())],
            Self::RunCommand { words, .. } => vec![Use::Exec(ExecCommand::Argv(words.clone()))],
            Self::ReadOutput { .. } | Self::ReportStep { .. } | Self::Finish { .. } => Vec::new(),
        }
    }
}

/// Returns the arguments as an object.
fn members(tool: LoopTool, arguments: &ToolArguments) -> Result<Map<String, Value>, ToolRequestError> {
    let unreadable = |reason: String| ToolRequestError::Unreadable { tool: tool.model_name(), reason };
    match arguments {
        ToolArguments::Unreadable(reason) => Err(unreadable(reason.clone())),
        ToolArguments::Parsed(Value::Object(members)) => Ok(members.clone()),
        ToolArguments::Parsed(Value::Null) => Ok(Map::new()),
        // Some models encode the object twice.
        ToolArguments::Parsed(Value::String(text)) => {
            serde_json::from_str(text).map_err(|_| unreadable("they are a text".to_owned()))
        }
        ToolArguments::Parsed(other) => Err(unreadable(format!("they are {}", type_of(other)))),
    }
}

/// Reads the arguments of one call.
struct ArgumentReader<'a> {
    tool: LoopTool,
    members: &'a Map<String, Value>,
}

impl ArgumentReader<'_> {
    fn request(&self) -> Result<ToolRequest, ToolRequestError> {
        Ok(match self.tool {
            LoopTool::ReadFile => ToolRequest::ReadFile {
                path: self.path()?,
                offset: self.number("offset", 1)?,
                limit: self.number("limit", 1)?,
            },
            LoopTool::WriteFile => {
                ToolRequest::WriteFile { path: self.path()?, content: self.text("content", TEXT_BYTES_MAX)? }
            }
            LoopTool::EditFile => ToolRequest::EditFile {
                path: self.path()?,
                old_text: self.filled_text("old_text", TEXT_BYTES_MAX)?,
                new_text: self.text("new_text", TEXT_BYTES_MAX)?,
                replace_all: self.flag("replace_all")?,
            },
            LoopTool::ListDirectory => ToolRequest::ListDirectory { path: self.path_or_directory()? },
            LoopTool::SearchFiles => ToolRequest::SearchFiles(SearchRequest {
                pattern: self.filled_text("pattern", NAME_BYTES_MAX)?,
                is_literal: self.flag("literal")?,
                ignore_case: self.flag("ignore_case")?,
                path: self.path_or_directory()?,
                glob: self.optional_text("glob", NAME_BYTES_MAX)?.filter(|glob| !glob.is_empty()),
                limit: self.number("limit", 1)?,
            }),
            LoopTool::RunCommand => {
                ToolRequest::RunCommand { words: self.command()?, timeout_s: self.number("timeout_s", 1)? }
            }
            LoopTool::ReadOutput => ToolRequest::ReadOutput {
                call: self.number("call", 0)?.ok_or_else(|| self.missing("call"))?,
                offset: self.number("offset", 0)?.unwrap_or(0),
            },
            LoopTool::ReportStep => {
                ToolRequest::ReportStep { name: self.filled_text("name", NAME_BYTES_MAX)? }
            }
            LoopTool::Finish => ToolRequest::Finish { status: self.status()?, result: self.result()? },
        })
    }

    fn refuse_unknown(&self) -> Result<(), ToolRequestError> {
        let known = self.tool.arguments();
        let unknown =
            self.members.iter().find(|(name, value)| !value.is_null() && !known.contains(&name.as_str()));
        let Some((name, _)) = unknown else { return Ok(()) };
        let argument = name.chars().take(REPEATED_CHARS_MAX).collect();
        Err(ToolRequestError::UnknownArgument { tool: self.tool.model_name(), argument, known })
    }

    /// Returns an argument; `null` counts as missing.
    fn member(&self, argument: &str) -> Option<&Value> {
        self.members.get(argument).filter(|value| !value.is_null())
    }

    fn optional_text(
        &self,
        argument: &'static str,
        bytes_max: usize,
    ) -> Result<Option<String>, ToolRequestError> {
        match self.member(argument) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() > bytes_max => {
                Err(ToolRequestError::TooLong { tool: self.tool.model_name(), argument, bytes_max })
            }
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong_type(argument, "a text", other)),
        }
    }

    fn text(&self, argument: &'static str, bytes_max: usize) -> Result<String, ToolRequestError> {
        self.optional_text(argument, bytes_max)?.ok_or_else(|| self.missing(argument))
    }

    fn filled_text(&self, argument: &'static str, bytes_max: usize) -> Result<String, ToolRequestError> {
        let text = self.text(argument, bytes_max)?;
        match text.is_empty() {
            true => Err(self.unusable(argument)),
            false => Ok(text),
        }
    }

    fn path(&self) -> Result<String, ToolRequestError> {
        let path = self.filled_text("path", PATH_BYTES_MAX)?;
        match path.contains('\0') {
            true => Err(self.unusable("path")),
            false => Ok(path),
        }
    }

    /// Returns the path; without one, the run's directory.
    fn path_or_directory(&self) -> Result<String, ToolRequestError> {
        match self.member("path") {
            None => Ok(".".to_owned()),
            Some(Value::String(path)) if path.is_empty() => Ok(".".to_owned()),
            Some(_) => self.path(),
        }
    }

    /// Returns a number, also if it is written in quotes or with a decimal point.
    fn number(&self, argument: &'static str, min: u64) -> Result<Option<u64>, ToolRequestError> {
        let Some(value) = self.member(argument) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        match number.filter(|number| *number >= min) {
            Some(number) => Ok(Some(number)),
            None if min == 0 => Err(self.wrong_type(argument, "a whole number, at least 0", value)),
            None => Err(self.wrong_type(argument, "a whole number, at least 1", value)),
        }
    }

    fn flag(&self, argument: &'static str) -> Result<bool, ToolRequestError> {
        match self.member(argument) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(other) => Err(self.wrong_type(argument, "true or false", other)),
        }
    }

    fn command(&self) -> Result<Vec<String>, ToolRequestError> {
        match self.member("command") {
            None => Err(self.missing("command")),
            Some(Value::Array(words)) => self.words(words),
            Some(Value::String(line)) => match serde_json::from_str(line) {
                // A list that was encoded twice. As a line it would be refused for its bracket.
                Ok(Value::Array(words)) => self.words(&words),
                Ok(_) | Err(_) => Ok(split_command_line(line)?),
            },
            Some(other) => Err(self.wrong_type("command", "a list of words", other)),
        }
    }

    fn words(&self, words: &[Value]) -> Result<Vec<String>, ToolRequestError> {
        let text = |word: &Value| match word {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            other @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                Err(self.wrong_type("command", "a list of texts", other))
            }
        };
        Ok(check_words(words.iter().map(text).collect::<Result<_, _>>()?)?)
    }

    fn status(&self) -> Result<FinishStatus, ToolRequestError> {
        let status = self.member("status").ok_or_else(|| self.missing("status"))?;
        match status.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("success") => Ok(FinishStatus::Success),
            Some("failure") => Ok(FinishStatus::Failure),
            _ => Err(self.wrong_type("status", "`success` or `failure`", status)),
        }
    }

    /// Returns the result, of any type: whether it has the form of the outputs is checked where their schema is.
    fn result(&self) -> Result<Value, ToolRequestError> {
        let result = self.member("result").ok_or_else(|| self.missing("result"))?;
        match size(result) > TEXT_BYTES_MAX {
            true => Err(ToolRequestError::TooLong {
                tool: self.tool.model_name(),
                argument: "result",
                bytes_max: TEXT_BYTES_MAX,
            }),
            false => Ok(result.clone()),
        }
    }

    fn missing(&self, argument: &'static str) -> ToolRequestError {
        ToolRequestError::Missing { tool: self.tool.model_name(), argument }
    }

    fn unusable(&self, argument: &'static str) -> ToolRequestError {
        ToolRequestError::UnusableText { tool: self.tool.model_name(), argument }
    }

    fn wrong_type(&self, argument: &'static str, expected: &'static str, found: &Value) -> ToolRequestError {
        ToolRequestError::WrongType {
            tool: self.tool.model_name(),
            argument,
            expected,
            found: type_of(found),
        }
    }
}

/// Returns the number of bytes of all texts in a value, and one for each other value.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 1 + size(item)).sum(),
        Value::Object(members) => members.iter().map(|(name, item)| name.len() + size(item)).sum(),
    }
}

/// Returns a number without a fraction.
fn whole(number: f64) -> Option<u64> {
    /// Above it, a float does not name one number.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number);
    is_whole.then_some(number as u64)
}

/// Returns a value in words.
fn type_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => {
            format!("the text {:?}", text.chars().take(REPEATED_CHARS_MAX).collect::<String>())
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn did_you_mean(name: &str, offered: &[String]) -> String {
    let near = nearest(name, offered.iter().map(String::as_str));
    near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default()
}
