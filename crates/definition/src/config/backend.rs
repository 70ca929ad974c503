//! `[backends.NAME]`: a command of the user's own that drives an agent, or a service of models at an address.

use serde::Serialize;

use super::placeholder;
use super::provider::{self, Provider};
use crate::text::{
    Bounds, Fields, Findings, Node, Place, Shape, amount, choice, environment_names, list, quoted, text,
};

/// What drives an agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Backend {
    Program(Program),
    Provider(Provider),
}

impl Backend {
    /// Returns the kind of backend that understands it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Program(program) => program.protocol.kind(),
            Self::Provider(_) => provider::KIND,
        }
    }
}

/// A custom command, ready to be used: every combination that makes no sense has been refused.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Program {
    #[serde(skip)]
    pub protocol: Protocol,
    /// Program and arguments, never a shell. With `PromptBy::Arg` exactly as written if `{prompt}` is in it,
    /// else with `{prompt}` appended.
    pub command: Vec<String>,
    pub prompt: PromptBy,
    pub output: Output,
    /// Names of environment variables passed on beside the base list.
    pub env: Vec<String>,
    /// Exit codes that mean success.
    pub success_codes: Vec<u8>,
    /// Exit codes that say: the model has no room now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shortage_codes: Vec<u8>,
}

/// How one talks with the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// A prompt in, an answer out.
    Command,
    /// The Agent Client Protocol over its standard streams.
    Acp,
}

impl Protocol {
    /// Returns the kind of backend that speaks it.
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
pub enum PromptBy {
    Stdin,
    Arg,
    File,
}

/// How the command's standard output is understood. Pointers are JSON pointers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    Text,
    /// One document.
    Json {
        result: String,
        /// If all match, the document reports a failure.
        error: Vec<Match>,
        session: Option<String>,
    },
    /// One event per line.
    Jsonl {
        /// If all match, the event is the last one that counts.
        terminal: Vec<Match>,
        /// Where the terminal event has the result.
        result: String,
        /// If all match, the terminal event reports a failure.
        error: Vec<Match>,
        /// Where other events have a piece of text.
        text: Option<String>,
        session: Option<String>,
    },
}

/// A value that must stand at a place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Match {
    pub pointer: String,
    pub value: serde_json::Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputWord {
    Text,
    Json,
    Jsonl,
}

/// Reads one backend; `None` if it cannot be used.
pub(super) fn read(node: &Node, within: &str, findings: &mut Findings<'_>) -> Option<Backend> {
    let mut fields = Fields::open(node, within, findings)?;
    if let Some(node) = fields.take("api") {
        return provider::read(node, fields, findings).map(Backend::Provider);
    }
    read_program(fields, findings).map(Backend::Program)
}

fn read_program(mut fields: Fields<'_>, findings: &mut Findings<'_>) -> Option<Program> {
    let protocols = [("command", Protocol::Command), ("acp", Protocol::Acp)];
    let protocol = match fields.take("protocol") {
        None => Some(Protocol::Command),
        Some(node) => choice(node, &fields.name("protocol"), &protocols, findings),
    };
    if protocol == Some(Protocol::Acp) {
        return read_acp(fields, findings);
    }
    let command = take_command(&mut fields, findings);
    let prompts = [("stdin", PromptBy::Stdin), ("arg", PromptBy::Arg), ("file", PromptBy::File)];
    let prompt_node = fields.take("prompt");
    let prompt = prompt_node.map(|node| choice(node, &fields.name("prompt"), &prompts, findings));
    let output = take_output(&mut fields, findings);
    let env = fields
        .take("env")
        .map(|node| environment_names(node, &fields.name("env"), findings))
        .unwrap_or_default();
    let success_codes = take_success_codes(&mut fields, findings);
    let shortage_codes = take_codes(&mut fields, "shortage_codes", findings);
    let place = prompt_node.map_or(fields.place, |node| node.place);
    let name = fields.name("prompt");
    fields.close(findings);
    let written = command?;
    let prompt = match prompt {
        Some(choice) => Some(choice?),
        None => None,
    };
    let (command, prompt) = agree(written, prompt, Spot { name: &name, place }, findings)?;
    Some(Program {
        protocol: protocol?,
        command,
        prompt,
        output: output?,
        env,
        success_codes: success_codes?,
        shortage_codes: shortage_codes?.unwrap_or_default(),
    })
}

/// Reads a command that speaks ACP: prompt, answer and session have their places in the protocol.
fn read_acp(mut fields: Fields<'_>, findings: &mut Findings<'_>) -> Option<Program> {
    let command = take_command(&mut fields, findings);
    let env = fields
        .take("env")
        .map(|node| environment_names(node, &fields.name("env"), findings))
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
            findings.warning(node.place, message);
        }
    }
    let (name, place) = (fields.name("command"), fields.place);
    fields.close(findings);
    let command = command?;
    let written = command.iter().flat_map(|word| placeholder::words(word));
    if written.into_iter().any(|word| placeholder::PLACEHOLDERS.contains(&word)) {
        findings.error(place, format!("{name}: with protocol = \"acp\" there are no placeholders"));
        return None;
    }
    Some(Program {
        protocol: Protocol::Acp,
        command,
        prompt: PromptBy::Stdin,
        output: Output::Text,
        env,
        success_codes: vec![0],
        shortage_codes: Vec::new(),
    })
}

fn take_command(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<Vec<String>> {
    let name = fields.name("command");
    let Some(node) = fields.take("command") else {
        let hint = "add for example command = [\"program\", \"argument\"]";
        findings.error_with_hint(fields.place, format!("the key {name} is missing"), hint);
        return None;
    };
    if let Shape::Text(line) = &node.shape {
        let words: Vec<String> = line.split_whitespace().take(20).map(quoted).collect();
        let message =
            format!("{name}: expected a list of program and arguments, found one text; no shell is used");
        findings.error_with_hint(node.place, message, format!("write command = [{}]", words.join(", ")));
        return None;
    }
    let items = list(node, &name, findings)?;
    if items.is_empty() {
        findings.error(node.place, format!("{name}: expected a program, found an empty list"));
        return None;
    }
    let elements: Vec<Option<String>> = items.iter().map(|item| element(item, &name, findings)).collect();
    let command: Vec<String> = elements.into_iter().collect::<Option<_>>()?;
    if command[0].trim().is_empty() {
        findings.error(items[0].place, format!("{name}: the program has no name"));
        return None;
    }
    if placeholder::words(&command[0]).any(|word| placeholder::PLACEHOLDERS.contains(&word)) {
        // What a caller says must never choose the program: that is what trust was given to.
        findings.error(items[0].place, format!("{name}: the program itself cannot have a placeholder"));
        return None;
    }
    Some(command)
}

/// Reads one element; an argument may be empty.
fn element(item: &Node, name: &str, findings: &mut Findings<'_>) -> Option<String> {
    match &item.shape {
        Shape::Text(argument) if argument.is_empty() => Some(String::new()),
        Shape::Text(argument) if argument.trim().is_empty() => Some(argument.clone()),
        Shape::Text(_)
        | Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::List(_)
        | Shape::Map(_) => {
            let argument = text(item, name, findings)?;
            placeholder::check(&argument, item.place, name, findings);
            Some(argument)
        }
    }
}

struct Spot<'a> {
    name: &'a str,
    place: Place,
}

/// Brings the command and the way of the prompt together: a placeholder in the command says how, unless the
/// file says it itself, and then both must agree.
fn agree(
    mut command: Vec<String>,
    prompt: Option<PromptBy>,
    spot: Spot<'_>,
    findings: &mut Findings<'_>,
) -> Option<(Vec<String>, PromptBy)> {
    let has =
        |wanted: &str| command.iter().any(|element| placeholder::words(element).any(|word| word == wanted));
    let (in_arguments, in_file) = (has("prompt"), has("prompt_file"));
    let implied = match (in_arguments, in_file) {
        (true, true) => {
            let message = "the command has both {prompt} and {prompt_file}; use one of them";
            findings.error(spot.place, format!("{}: {message}", spot.name));
            return None;
        }
        (true, false) => PromptBy::Arg,
        (false, true) => PromptBy::File,
        (false, false) => PromptBy::Stdin,
    };
    let prompt = prompt.unwrap_or(implied);
    let problem = match (prompt, implied) {
        (PromptBy::Arg, PromptBy::Stdin) => {
            command.push("{prompt}".to_owned());
            None
        }
        (PromptBy::File, PromptBy::Stdin) => Some("prompt = \"file\" needs {prompt_file} in the command"),
        (PromptBy::Stdin | PromptBy::File, PromptBy::Arg) => {
            Some("the command has {prompt}: write prompt = \"arg\"")
        }
        (PromptBy::Stdin | PromptBy::Arg, PromptBy::File) => {
            Some("the command has {prompt_file}: write prompt = \"file\"")
        }
        (PromptBy::Stdin, PromptBy::Stdin)
        | (PromptBy::Arg, PromptBy::Arg)
        | (PromptBy::File, PromptBy::File) => None,
    };
    match problem {
        Some(problem) => {
            findings.error(spot.place, format!("{}: {problem}", spot.name));
            None
        }
        None => Some((command, prompt)),
    }
}

fn take_output(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<Output> {
    let words = [("text", OutputWord::Text), ("json", OutputWord::Json), ("jsonl", OutputWord::Jsonl)];
    let word = match fields.take("output") {
        None => Some(OutputWord::Text),
        Some(node) => choice(node, &fields.name("output"), &words, findings),
    };
    let taken = ["result", "terminal", "error", "text", "session"].map(|key| (key, fields.take(key)));
    let [result, terminal, error, text, session] = taken.map(|(_, node)| node);
    let word = word?;
    let used: &[&str] = match word {
        OutputWord::Text => &[],
        OutputWord::Json => &["result", "error", "session"],
        OutputWord::Jsonl => &["result", "terminal", "error", "text", "session"],
    };
    for (key, node) in taken {
        if let Some(node) = node.filter(|_| !used.contains(&key)) {
            let spelling =
                words.iter().find(|(_, other)| *other == word).map_or("", |(spelling, _)| spelling);
            let message = format!("{} has no effect with output = {spelling:?}", fields.name(key));
            findings.warning(node.place, message);
        }
    }
    let mut at = |key, node: Option<&Node>| node.map(|node| pointer(node, &fields.name(key), findings));
    let (result, text, session) = (at("result", result), at("text", text), at("session", session));
    let mut all = |key, node: Option<&Node>| node.map(|node| matches(node, &fields.name(key), findings));
    let (terminal, error) = (all("terminal", terminal), all("error", error));
    let mut missing = |key, hint: &str| {
        let message = format!("the key {} is missing", fields.name(key));
        findings.error_with_hint(fields.place, message, hint);
    };
    if word != OutputWord::Text && result.is_none() {
        missing("result", "say where the answer stands, for example result = \"/result\"");
    }
    if word == OutputWord::Jsonl && terminal.is_none() {
        missing("terminal", "say which event is the last, for example terminal = { \"/type\" = \"result\" }");
    }
    // Each of these is `Some(None)` if it was written and is wrong.
    let (text, session) =
        (text.map_or(Some(None), |p| p.map(Some)), session.map_or(Some(None), |p| p.map(Some)));
    let error = error.unwrap_or_else(|| Some(Vec::new()));
    match word {
        OutputWord::Text => Some(Output::Text),
        OutputWord::Json => Some(Output::Json { result: result??, error: error?, session: session? }),
        OutputWord::Jsonl => Some(Output::Jsonl {
            terminal: terminal??,
            result: result??,
            error: error?,
            text: text?,
            session: session?,
        }),
    }
}

fn pointer(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<String> {
    let pointer = text(node, name, findings)?;
    if is_pointer(&pointer) {
        return Some(pointer);
    }
    findings.error_with_hint(
        node.place,
        format!("{name}: {} is no JSON pointer", quoted(&pointer)),
        POINTER_HINT,
    );
    None
}

const POINTER_HINT: &str = "write for example /result or /message/content/0/text";

fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    text.starts_with('/') && escapes
}

fn matches(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<Vec<Match>> {
    let Shape::Map(entries) = &node.shape else {
        let message = format!("{name}: expected pointers with values, found {}", node.describe());
        findings.error_with_hint(node.place, message, "write for example { \"/type\" = \"result\" }");
        return None;
    };
    if entries.is_empty() {
        findings.error(node.place, format!("{name}: expected a pointer with a value, found none"));
        return None;
    }
    let mut all = Some(Vec::new());
    for entry in entries {
        let value = scalar(&entry.node, name, findings);
        if !is_pointer(&entry.key) {
            let message = format!("{name}: {} is no JSON pointer", quoted(&entry.key));
            findings.error_with_hint(entry.place, message, POINTER_HINT);
            all = None;
        }
        match (value, &mut all) {
            (Some(value), Some(all)) => all.push(Match { pointer: entry.key.clone(), value }),
            (Some(_), None) => {}
            (None, _) => all = None,
        }
    }
    all
}

fn scalar(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<serde_json::Value> {
    let value = match &node.shape {
        Shape::Text(text) => Some(text.as_str().into()),
        Shape::Truth(truth) => Some((*truth).into()),
        Shape::Integer(number) => i64::try_from(*number).ok().map(Into::into),
        Shape::Number(number) => serde_json::Number::from_f64(*number).map(Into::into),
        Shape::Nothing | Shape::Moment | Shape::List(_) | Shape::Map(_) => None,
    };
    if value.is_none() {
        let message = format!("{name}: expected a text, number, true or false, found {}", node.describe());
        findings.error(node.place, message);
    }
    value
}

fn take_success_codes(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Option<Vec<u8>> {
    let (name, place) = (fields.name("success_codes"), fields.place);
    let codes = take_codes(fields, "success_codes", findings)?.unwrap_or_else(|| vec![0]);
    if codes.is_empty() {
        findings.error(place, format!("{name}: with an empty list no run could succeed"));
        return None;
    }
    Some(codes)
}

/// Takes a list of exit codes: `Some(None)` if there is none, `None` if it is wrong.
fn take_codes(
    fields: &mut Fields<'_>,
    key: &'static str,
    findings: &mut Findings<'_>,
) -> Option<Option<Vec<u8>>> {
    let name = fields.name(key);
    let Some(node) = fields.take(key) else { return Some(None) };
    let items = list(node, &name, findings)?;
    let codes: Vec<Option<u64>> =
        items.iter().map(|item| amount(item, &name, Bounds::from(0).up_to(255), findings)).collect();
    codes
        .into_iter()
        .map(|code| code.and_then(|code| u8::try_from(code).ok()))
        .collect::<Option<_>>()
        .map(Some)
}
