//! What an agent asks of its backend beyond prompt and model, in our own words; other formats use the pieces.

use std::collections::BTreeSet;

use domain::permission::{Level, Permission, Rule, Unenforceable};
use domain::setup::{
    Context, Fallback, Isolation, OutputFormat, PromptMode, ResponseFile, Setup, Temperature,
};

use super::accept::read_accept;
use super::servers::read_servers;
use super::tools::take_tools;
use super::values::{read_backend, read_model, read_word};
use crate::text::{
    Bounds, Fields, Findings, Node, Shape, amount, choice, flag, list, quoted, text, text_or_list,
};

/// The words for how much an agent may do.
pub(crate) const LEVELS: [(&str, Level); 3] =
    [("read-only", Level::ReadOnly), ("safe-edit", Level::SafeEdit), ("yolo", Level::Yolo)];

/// More tools, or rules of one kind, than this no task needs.
pub(super) const RULES_MAX: usize = 1_000;

/// Takes every key of our own format that a backend must honour.
pub(super) fn take_setup(fields: &mut Fields<'_>, findings: &mut Findings<'_>) -> Setup {
    let answers = [("refuse", Unenforceable::Refuse), ("warn", Unenforceable::Warn)];
    let modes = [("append", PromptMode::Append), ("replace", PromptMode::Replace)];
    let contexts = [("load", Context::Load), ("none", Context::None)];
    let isolations = [("none", Isolation::None), ("worktree", Isolation::Worktree)];
    let permission = fields.take("permission").map(|node| read_permission(node, "permission", findings));
    let mut permission = permission.unwrap_or_default();
    let tools = take_tools(fields, &mut permission, findings);
    let servers = fields.take("mcp_servers").map(|node| read_servers(node, "mcp_servers", findings));
    let mut setup = Setup {
        effort: fields.take("effort").and_then(|node| read_effort(node, "effort", findings)),
        temperature: fields.take("temperature").and_then(|node| read_temperature(node, findings)),
        permission,
        unenforceable: take_choice(fields, "unenforceable", &answers, findings),
        tools,
        prompt_mode: take_choice(fields, "prompt_mode", &modes, findings),
        context: take_choice(fields, "context", &contexts, findings),
        mcp_servers: servers.unwrap_or_default(),
        keeps_session: take_flag(fields, "session", findings),
        extra_args: take_texts(fields, "extra_args", findings),
        extra_directories: take_texts(fields, "extra_directories", findings),
        fallback: fields.take("fallback").map(|node| read_fallback(node, findings)).unwrap_or_default(),
        accept: fields.take("accept").map(|node| read_accept(node, findings)).unwrap_or_default(),
        isolation: take_choice(fields, "isolation", &isolations, findings),
        max_turns: take_turns(fields, "max_turns", findings),
        response_file: fields.take("response_file").and_then(|node| read_response_file(node, findings)),
        ..Setup::default()
    };
    take_output(fields, &mut setup, findings);
    setup
}

fn take_choice<T: Copy + Default>(
    fields: &mut Fields<'_>,
    key: &'static str,
    words: &[(&'static str, T)],
    findings: &mut Findings<'_>,
) -> T {
    fields.take(key).and_then(|node| choice(node, key, words, findings)).unwrap_or_default()
}

/// Takes a key that is `true` or `false`; absent means `false`.
pub(super) fn take_flag(fields: &mut Fields<'_>, key: &'static str, findings: &mut Findings<'_>) -> bool {
    fields.take(key).and_then(|node| flag(node, key, findings)).unwrap_or_default()
}

/// Takes a text or a list of texts.
pub(super) fn take_texts(
    fields: &mut Fields<'_>,
    key: &'static str,
    findings: &mut Findings<'_>,
) -> Vec<String> {
    fields.take(key).map(|node| text_or_list(node, key, findings)).unwrap_or_default()
}

/// Takes the most turns that a model may have.
pub(super) fn take_turns(
    fields: &mut Fields<'_>,
    key: &'static str,
    findings: &mut Findings<'_>,
) -> Option<u32> {
    fields.take(key).and_then(|node| read_turns(node, key, findings))
}

/// The same for the value of the key.
pub(super) fn read_turns(node: &Node, key: &str, findings: &mut Findings<'_>) -> Option<u32> {
    let turns = amount(node, key, Bounds::from(1).up_to(u32::MAX.into()), findings)?;
    u32::try_from(turns).ok()
}

/// Reads how hard the model shall think.
pub(super) fn read_effort(node: &Node, name: &str, findings: &mut Findings<'_>) -> Option<String> {
    read_word(node, name, "a word for an effort", findings)
}

/// Reads how freely the model chooses its words.
pub(super) fn read_temperature(node: &Node, findings: &mut Findings<'_>) -> Option<Temperature> {
    let degrees = match &node.shape {
        Shape::Integer(number) => i32::try_from(*number).ok().map(f64::from),
        Shape::Number(number) => Some(*number),
        Shape::Nothing
        | Shape::Truth(_)
        | Shape::Text(_)
        | Shape::Moment
        | Shape::List(_)
        | Shape::Map(_) => None,
    };
    match degrees.filter(|degrees| (0.0..=2.0).contains(degrees)) {
        Some(degrees) => Some(Temperature((degrees * 1_000.0).round() as u32)),
        None => {
            let message = format!("temperature: expected a number from 0 to 2, found {}", node.describe());
            findings.error(node.place, message);
            None
        }
    }
}

/// Takes the form of the answer, and the schema that it must satisfy.
pub(super) fn take_output(fields: &mut Fields<'_>, setup: &mut Setup, findings: &mut Findings<'_>) {
    let formats = [("text", OutputFormat::Text), ("json", OutputFormat::Json)];
    let format = fields
        .take("output_format")
        .map(|node| (choice(node, "output_format", &formats, findings), node.place));
    let Some(node) = fields.take("output_schema") else {
        setup.output_format = format.and_then(|(format, _)| format).unwrap_or_default();
        return;
    };
    // A schema is for JSON, so it needs no other word; text is a contradiction.
    setup.output_format = OutputFormat::Json;
    if let Some((Some(OutputFormat::Text), place)) = format {
        findings.error(place, "output_format: text has no schema; write json, or leave output_schema out");
    }
    let Shape::Map(_) = &node.shape else {
        let message = format!("output_schema: expected a JSON schema, found {}", node.describe());
        findings.error_with_hint(node.place, message, "write a map that begins with type: object");
        return;
    };
    setup.output_schema = node.to_json();
    if setup.output_schema.is_none() {
        findings.error(node.place, "output_schema: it contains a number that JSON does not have");
    }
}

/// Reads a level, or a map with a level and rules.
pub(crate) fn read_permission(node: &Node, name: &str, findings: &mut Findings<'_>) -> Permission {
    if let Shape::Text(_) = &node.shape {
        let level = choice(node, name, &LEVELS, findings);
        return Permission { level, ..Permission::default() };
    }
    let Some(mut fields) = Fields::open(node, name, findings) else { return Permission::default() };
    let level = fields.take("level").and_then(|node| choice(node, &fields.name("level"), &LEVELS, findings));
    let mut rules = |key| {
        let name = fields.name(key);
        fields.take(key).map(|node| read_rules(node, &name, findings)).unwrap_or_default()
    };
    let permission = Permission { level, allow: rules("allow"), ask: rules("ask"), deny: rules("deny") };
    fields.close(findings);
    permission
}

/// Reads rules such as `Bash(curl:*)`.
pub(super) fn read_rules(node: &Node, name: &str, findings: &mut Findings<'_>) -> Vec<Rule> {
    rules_of(node, name, OnWrongRule::Error, findings)
}

/// What becomes of a text that is no rule.
#[derive(Clone, Copy)]
enum OnWrongRule {
    Error,
    LeaveOut,
}

fn rules_of(node: &Node, name: &str, wrong: OnWrongRule, findings: &mut Findings<'_>) -> Vec<Rule> {
    let items = match &node.shape {
        Shape::List(items) => items.as_slice(),
        Shape::Text(_)
        | Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::Map(_) => std::slice::from_ref(node),
    };
    let mut rules: Vec<Rule> = Vec::new();
    let mut known = BTreeSet::new();
    for item in items {
        let Some(spelling) = text(item, name, findings) else { continue };
        for spelling in split_names(&spelling) {
            let rule = match wrong {
                OnWrongRule::Error => parse_rule(spelling, name, item, findings),
                OnWrongRule::LeaveOut => parse_tool(spelling, name, item, findings),
            };
            rules.extend(rule.filter(|rule| known.insert(rule.clone())));
            if rules.len() > RULES_MAX {
                too_many(name, item, findings);
                return rules;
            }
        }
    }
    rules
}

/// Reports a list that is longer than is read.
pub(super) fn too_many(name: &str, node: &Node, findings: &mut Findings<'_>) {
    let message = format!("{name}: there are more than {RULES_MAX} entries");
    let hint =
        "one entry can stand for many: mcp__SERVER for all tools of a server, Bash(git:*) for many commands";
    findings.error_with_hint(node.place, message, hint);
}

/// Parses the name of one tool, and leaves out what is none with a warning.
fn parse_tool(spelling: &str, name: &str, node: &Node, findings: &mut Findings<'_>) -> Option<Rule> {
    let error = match spelling.parse::<Rule>() {
        Ok(rule) => return Some(rule),
        Err(error) => error,
    };
    let message = format!("{name}: {} is left out: {}", quoted(spelling), error.reason);
    findings.warning_with_hint(node.place, message, "write for example Read or Bash(git log:*)");
    None
}

/// Parses one rule, and reports what is none.
pub(super) fn parse_rule(
    spelling: &str,
    name: &str,
    node: &Node,
    findings: &mut Findings<'_>,
) -> Option<Rule> {
    match spelling.parse::<Rule>() {
        Ok(rule) => Some(rule),
        Err(error) => {
            let message = format!("{name}: {} is not a rule: {}", quoted(spelling), error.reason);
            findings.error_with_hint(node.place, message, "write for example Read or Bash(git log:*)");
            None
        }
    }
}

/// Reads names of tools: a list, or a text with commas. What cannot be the name of a tool is left out, as the vendors'
/// programs do: the agent has fewer tools then, never more.
pub(super) fn names(node: &Node, name: &str, findings: &mut Findings<'_>) -> Vec<String> {
    let rules = match &node.shape {
        Shape::Text(text) if text.trim().is_empty() => Vec::new(),
        Shape::Text(_)
        | Shape::List(_)
        | Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Moment
        | Shape::Map(_) => rules_of(node, name, OnWrongRule::LeaveOut, findings),
    };
    rules.into_iter().map(String::from).collect()
}

/// Splits a text at its commas, but not within parentheses.
pub(super) fn split_names(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let split = text.split(|letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    split.map(str::trim).filter(|name| !name.is_empty()).collect()
}

fn read_fallback(node: &Node, findings: &mut Findings<'_>) -> Vec<Fallback> {
    let items = list(node, "fallback", findings).unwrap_or_default();
    items.iter().filter_map(|item| read_one_fallback(item, findings)).collect()
}

fn read_one_fallback(node: &Node, findings: &mut Findings<'_>) -> Option<Fallback> {
    if let Shape::Text(_) = &node.shape {
        return Some(Fallback { backend: None, model: Some(read_model(node, findings)?), settings: None });
    }
    let mut fields = Fields::open(node, "fallback", findings)?;
    let backend = fields.take("backend").map(|node| read_backend(node, "fallback.backend", findings));
    let model = fields.take("model").map(|node| read_model(node, findings));
    fields.close(findings);
    if backend.is_none() && model.is_none() {
        let hint = "write for example {backend: codex, model: gpt-5}, or only a model";
        findings.error_with_hint(node.place, "fallback: neither a backend nor a model is named", hint);
        return None;
    }
    Some(Fallback { backend: backend.flatten(), model: model.flatten(), settings: None })
}

fn read_response_file(node: &Node, findings: &mut Findings<'_>) -> Option<ResponseFile> {
    let mut fields = Fields::open(node, "response_file", findings)?;
    let mut template = |key| {
        let name = fields.name(key);
        fields.take(key).and_then(|node| text(node, &name, findings))
    };
    let (template, summary_template) = (template("template"), template("summary_template"));
    fields.close(findings);
    match template {
        Some(template) => {
            if !template.contains("{{RESPONSE_FILE}}") {
                let message =
                    "response_file.template: without {{RESPONSE_FILE}} the agent does not know the file";
                findings.warning(node.place, message);
            }
            Some(ResponseFile { template, summary_template })
        }
        None => {
            let hint = "write for example template: Write your answer to {{RESPONSE_FILE}}.";
            findings.error_with_hint(node.place, "the key response_file.template is missing", hint);
            None
        }
    }
}
