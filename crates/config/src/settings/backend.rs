//! `[backends.NAME]`: a custom command that runs an agent, or a model service at an address.

use serde::Serialize;

use super::placeholder;
use super::provider::{self, Provider};
use crate::text::{
    Bounds, Diagnostics, Fields, Node, NodeValue, SourceLocation, quote, read_choice, read_env_names,
    read_integer, read_list, read_text,
};

/// A configured backend.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Backend {
    Command(CommandBackend),
    Provider(Provider),
}

impl Backend {
    /// Returns the kind of backend that implements it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Command(program) => program.protocol.kind(),
            Self::Provider(_) => provider::KIND,
        }
    }
}

/// A custom command, ready to be used: every combination that makes no sense has been refused.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommandBackend {
    #[serde(skip)]
    pub protocol: Protocol,
    /// Program and arguments, never a shell. With `PromptDelivery::Arg` exactly as written if `{prompt}` is in it,
    /// else with `{prompt}` appended.
    pub command: Vec<String>,
    pub prompt: PromptDelivery,
    pub output: CommandOutput,
    /// Names of environment variables that are passed on in addition to the base list.
    pub env: Vec<String>,
    /// Exit codes that mean success.
    pub success_codes: Vec<u8>,
    /// Exit codes that mean that the model's service has no capacity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shortage_codes: Vec<u8>,
}

/// The protocol of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A prompt in, an answer out.
    Command,
    /// The Agent Client Protocol over its standard streams.
    Acp,
}

impl Protocol {
    /// Returns the kind of backend that implements it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Acp => "acp",
        }
    }
}

/// How the prompt reaches the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptDelivery {
    Stdin,
    Arg,
    File,
}

/// The format of the command's standard output. Pointers are JSON pointers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandOutput {
    Text,
    /// One document.
    Json {
        result: String,
        /// If all match, the document reports a failure.
        error: Vec<PointerMatch>,
        session: Option<String>,
    },
    /// One event per line.
    Jsonl {
        /// If all match, the event is the last one.
        terminal: Vec<PointerMatch>,
        /// The pointer to the result in the terminal event.
        result: String,
        /// If all match, the terminal event reports a failure.
        error: Vec<PointerMatch>,
        /// The pointer to a piece of text in other events.
        text: Option<String>,
        session: Option<String>,
    },
}

/// A value that must be at a pointer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointerMatch {
    pub pointer: String,
    pub value: serde_json::Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputKind {
    Text,
    Json,
    Jsonl,
}

/// Reads one backend; `None` if it cannot be used.
pub(super) fn read(node: &Node, within: &str, diagnostics: &mut Diagnostics<'_>) -> Option<Backend> {
    let mut fields = Fields::open(node, within, diagnostics)?;
    if let Some(node) = fields.take("api") {
        return provider::read(node, fields, diagnostics).map(Backend::Provider);
    }
    read_program(fields, diagnostics).map(Backend::Command)
}

fn read_program(mut fields: Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<CommandBackend> {
    let protocols = [("command", Protocol::Command), ("acp", Protocol::Acp)];
    let protocol = match fields.take("protocol") {
        None => Some(Protocol::Command),
        Some(node) => read_choice(node, &fields.name("protocol"), &protocols, diagnostics),
    };
    if protocol == Some(Protocol::Acp) {
        return read_acp(fields, diagnostics);
    }
    let command = take_command(&mut fields, diagnostics);
    let prompts =
        [("stdin", PromptDelivery::Stdin), ("arg", PromptDelivery::Arg), ("file", PromptDelivery::File)];
    let prompt_node = fields.take("prompt");
    let prompt = prompt_node.map(|node| read_choice(node, &fields.name("prompt"), &prompts, diagnostics));
    let output = take_output(&mut fields, diagnostics);
    let env = fields
        .take("env")
        .map(|node| read_env_names(node, &fields.name("env"), diagnostics))
        .unwrap_or_default();
    let success_codes = take_success_codes(&mut fields, diagnostics);
    let shortage_codes = take_codes(&mut fields, "shortage_codes", diagnostics);
    let location = prompt_node.map_or(fields.location, |node| node.location);
    let name = fields.name("prompt");
    fields.close(diagnostics);
    let written = command?;
    let prompt = match prompt {
        Some(choice) => Some(choice?),
        None => None,
    };
    let (command, prompt) =
        reconcile_prompt(written, prompt, KeyLocation { name: &name, location }, diagnostics)?;
    Some(CommandBackend {
        protocol: protocol?,
        command,
        prompt,
        output: output?,
        env,
        success_codes: success_codes?,
        shortage_codes: shortage_codes?.unwrap_or_default(),
    })
}

/// Reads a command that speaks ACP, which defines prompt, answer and session itself.
fn read_acp(mut fields: Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<CommandBackend> {
    let command = take_command(&mut fields, diagnostics);
    let env = fields
        .take("env")
        .map(|node| read_env_names(node, &fields.name("env"), diagnostics))
        .unwrap_or_default();
    for key in [
        "prompt",
        "output",
        "result",
        "terminal",
        "error",
        "text",
        "session",
        "success_codes",
        "shortage_codes",
    ] {
        if let Some(node) = fields.take(key) {
            let message = format!("{} has no effect with protocol = \"acp\"", fields.name(key));
            diagnostics.warning(node.location, message);
        }
    }
    let (name, location) = (fields.name("command"), fields.location);
    fields.close(diagnostics);
    let command = command?;
    let written = command.iter().flat_map(|word| placeholder::braced_words(word));
    if written.into_iter().any(|word| placeholder::PLACEHOLDERS.contains(&word)) {
        diagnostics.error(location, format!("{name}: with protocol = \"acp\" there are no placeholders"));
        return None;
    }
    Some(CommandBackend {
        protocol: Protocol::Acp,
        command,
        prompt: PromptDelivery::Stdin,
        output: CommandOutput::Text,
        env,
        success_codes: vec![0],
        shortage_codes: Vec::new(),
    })
}

fn take_command(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<Vec<String>> {
    let name = fields.name("command");
    let Some(node) = fields.take("command") else {
        let hint = "add for example command = [\"program\", \"argument\"]";
        diagnostics.error_with_hint(fields.location, format!("the key {name} is missing"), hint);
        return None;
    };
    if let NodeValue::String(line) = &node.value {
        let words: Vec<String> = line.split_whitespace().take(20).map(quote).collect();
        let message =
            format!("{name}: expected a list of program and arguments, found one text; no shell is used");
        diagnostics.error_with_hint(
            node.location,
            message,
            format!("write command = [{}]", words.join(", ")),
        );
        return None;
    }
    let items = read_list(node, &name, diagnostics)?;
    if items.is_empty() {
        diagnostics.error(node.location, format!("{name}: expected a program, found an empty list"));
        return None;
    }
    let elements: Vec<Option<String>> =
        items.iter().map(|item| read_argument(item, &name, diagnostics)).collect();
    let command: Vec<String> = elements.into_iter().collect::<Option<_>>()?;
    if command[0].trim().is_empty() {
        diagnostics.error(items[0].location, format!("{name}: the program has no name"));
        return None;
    }
    if placeholder::braced_words(&command[0]).any(|word| placeholder::PLACEHOLDERS.contains(&word)) {
        // Input of a caller must never choose the program, because the user's trust is in the program.
        diagnostics.error(items[0].location, format!("{name}: the program itself cannot have a placeholder"));
        return None;
    }
    Some(command)
}

/// Reads one element; an argument may be empty.
fn read_argument(item: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<String> {
    match &item.value {
        NodeValue::String(argument) if argument.is_empty() => Some(String::new()),
        NodeValue::String(argument) if argument.trim().is_empty() => Some(argument.clone()),
        NodeValue::String(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::List(_)
        | NodeValue::Map(_) => {
            let argument = read_text(item, name, diagnostics)?;
            placeholder::check(&argument, item.location, name, diagnostics);
            Some(argument)
        }
    }
}

struct KeyLocation<'a> {
    name: &'a str,
    location: SourceLocation,
}

/// Reconciles the command with the delivery of the prompt: a placeholder in the command implies it, unless the file
/// sets it, and then both must agree.
fn reconcile_prompt(
    mut command: Vec<String>,
    prompt: Option<PromptDelivery>,
    key: KeyLocation<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<(Vec<String>, PromptDelivery)> {
    let has = |placeholder_name: &str| {
        command.iter().any(|read_argument| {
            placeholder::braced_words(read_argument).any(|word| word == placeholder_name)
        })
    };
    let (in_arguments, in_file) = (has("prompt"), has("prompt_file"));
    let implied = match (in_arguments, in_file) {
        (true, true) => {
            let message = "the command has both {prompt} and {prompt_file}; use one of them";
            diagnostics.error(key.location, format!("{}: {message}", key.name));
            return None;
        }
        (true, false) => PromptDelivery::Arg,
        (false, true) => PromptDelivery::File,
        (false, false) => PromptDelivery::Stdin,
    };
    let prompt = prompt.unwrap_or(implied);
    let problem = match (prompt, implied) {
        (PromptDelivery::Arg, PromptDelivery::Stdin) => {
            command.push("{prompt}".to_owned());
            None
        }
        (PromptDelivery::File, PromptDelivery::Stdin) => {
            Some("prompt = \"file\" needs {prompt_file} in the command")
        }
        (PromptDelivery::Stdin | PromptDelivery::File, PromptDelivery::Arg) => {
            Some("the command has {prompt}: write prompt = \"arg\"")
        }
        (PromptDelivery::Stdin | PromptDelivery::Arg, PromptDelivery::File) => {
            Some("the command has {prompt_file}: write prompt = \"file\"")
        }
        (PromptDelivery::Stdin, PromptDelivery::Stdin)
        | (PromptDelivery::Arg, PromptDelivery::Arg)
        | (PromptDelivery::File, PromptDelivery::File) => None,
    };
    match problem {
        Some(problem) => {
            diagnostics.error(key.location, format!("{}: {problem}", key.name));
            None
        }
        None => Some((command, prompt)),
    }
}

fn take_output(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<CommandOutput> {
    let words = [("text", OutputKind::Text), ("json", OutputKind::Json), ("jsonl", OutputKind::Jsonl)];
    let word = match fields.take("output") {
        None => Some(OutputKind::Text),
        Some(node) => read_choice(node, &fields.name("output"), &words, diagnostics),
    };
    let taken = ["result", "terminal", "error", "text", "session"].map(|key| (key, fields.take(key)));
    let [result, terminal, error, text, session] = taken.map(|(_, node)| node);
    let word = word?;
    let used: &[&str] = match word {
        OutputKind::Text => &[],
        OutputKind::Json => &["result", "error", "session"],
        OutputKind::Jsonl => &["result", "terminal", "error", "text", "session"],
    };
    for (key, node) in taken {
        if let Some(node) = node.filter(|_| !used.contains(&key)) {
            let spelling =
                words.iter().find(|(_, other)| *other == word).map_or("", |(spelling, _)| spelling);
            let message = format!("{} has no effect with output = {spelling:?}", fields.name(key));
            diagnostics.warning(node.location, message);
        }
    }
    let mut at =
        |key, node: Option<&Node>| node.map(|node| read_pointer(node, &fields.name(key), diagnostics));
    let (result, text, session) = (at("result", result), at("text", text), at("session", session));
    let mut all =
        |key, node: Option<&Node>| node.map(|node| read_matches(node, &fields.name(key), diagnostics));
    let (terminal, error) = (all("terminal", terminal), all("error", error));
    let mut missing = |key, hint: &str| {
        let message = format!("the key {} is missing", fields.name(key));
        diagnostics.error_with_hint(fields.location, message, hint);
    };
    if word != OutputKind::Text && result.is_none() {
        missing("result", "say where the answer stands, for example result = \"/result\"");
    }
    if word == OutputKind::Jsonl && terminal.is_none() {
        missing("terminal", "say which event is the last, for example terminal = { \"/type\" = \"result\" }");
    }
    // The outer `Option` says whether the key is present, the inner one whether it is valid.
    let (text, session) =
        (text.map_or(Some(None), |p| p.map(Some)), session.map_or(Some(None), |p| p.map(Some)));
    let error = error.unwrap_or_else(|| Some(Vec::new()));
    match word {
        OutputKind::Text => Some(CommandOutput::Text),
        OutputKind::Json => Some(CommandOutput::Json { result: result??, error: error?, session: session? }),
        OutputKind::Jsonl => Some(CommandOutput::Jsonl {
            terminal: terminal??,
            result: result??,
            error: error?,
            text: text?,
            session: session?,
        }),
    }
}

fn read_pointer(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<String> {
    let pointer = read_text(node, name, diagnostics)?;
    if is_pointer(&pointer) {
        return Some(pointer);
    }
    diagnostics.error_with_hint(
        node.location,
        format!("{name}: {} is no JSON pointer", quote(&pointer)),
        POINTER_HINT,
    );
    None
}

const POINTER_HINT: &str = "write for example /result or /message/content/0/text";

fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    text.starts_with('/') && escapes
}

fn read_matches(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<Vec<PointerMatch>> {
    let NodeValue::Map(entries) = &node.value else {
        let message = format!("{name}: expected pointers with values, found {}", node.describe());
        diagnostics.error_with_hint(node.location, message, "write for example { \"/type\" = \"result\" }");
        return None;
    };
    if entries.is_empty() {
        diagnostics.error(node.location, format!("{name}: expected a pointer with a value, found none"));
        return None;
    }
    let mut all = Some(Vec::new());
    for entry in entries {
        let value = read_scalar(&entry.node, name, diagnostics);
        if !is_pointer(&entry.key) {
            let message = format!("{name}: {} is no JSON pointer", quote(&entry.key));
            diagnostics.error_with_hint(entry.location, message, POINTER_HINT);
            all = None;
        }
        match (value, &mut all) {
            (Some(value), Some(all)) => all.push(PointerMatch { pointer: entry.key.clone(), value }),
            (Some(_), None) => {}
            (None, _) => all = None,
        }
    }
    all
}

fn read_scalar(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<serde_json::Value> {
    let value = match &node.value {
        NodeValue::String(text) => Some(text.as_str().into()),
        NodeValue::Bool(truth) => Some((*truth).into()),
        NodeValue::Integer(number) => i64::try_from(*number).ok().map(Into::into),
        NodeValue::Float(number) => serde_json::Number::from_f64(*number).map(Into::into),
        NodeValue::Null | NodeValue::DateTime | NodeValue::List(_) | NodeValue::Map(_) => None,
    };
    if value.is_none() {
        let message = format!("{name}: expected a text, number, true or false, found {}", node.describe());
        diagnostics.error(node.location, message);
    }
    value
}

fn take_success_codes(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<Vec<u8>> {
    let (name, location) = (fields.name("success_codes"), fields.location);
    let codes = take_codes(fields, "success_codes", diagnostics)?.unwrap_or_else(|| vec![0]);
    if codes.is_empty() {
        diagnostics.error(location, format!("{name}: with an empty list no run could succeed"));
        return None;
    }
    Some(codes)
}

/// Takes a list of exit codes: `Some(None)` if it is missing, `None` if it is invalid.
fn take_codes(
    fields: &mut Fields<'_>,
    key: &'static str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Option<Vec<u8>>> {
    let name = fields.name(key);
    let Some(node) = fields.take(key) else { return Some(None) };
    let items = read_list(node, &name, diagnostics)?;
    let codes: Vec<Option<u64>> =
        items.iter().map(|item| read_integer(item, &name, Bounds::from(0).up_to(255), diagnostics)).collect();
    codes
        .into_iter()
        .map(|code| code.and_then(|code| u8::try_from(code).ok()))
        .collect::<Option<_>>()
        .map(Some)
}
