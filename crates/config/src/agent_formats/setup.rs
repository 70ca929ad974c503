//! An agent's settings for its backend in Volery's own format; other formats use the parts.

use std::collections::BTreeSet;

use domain::permission::{Level, Permission, Rule, Unenforceable};
use domain::setup::{
    Context, Fallback, Isolation, OutputFormat, PromptMode, ResponseFile, Setup, Temperature,
};

use super::acceptance::read_accept;
use super::mcp_servers::read_servers;
use super::shared_keys::{read_backend, read_model, read_word};
use super::tool_list::take_tools;
use crate::text::{
    Bounds, Diagnostics, Fields, Node, NodeValue, quote, read_bool, read_choice, read_integer, read_list,
    read_text, read_text_or_list,
};

/// The names of the levels.
pub(crate) const LEVELS: [(&str, Level); 3] =
    [("read-only", Level::ReadOnly), ("safe-edit", Level::SafeEdit), ("yolo", Level::Yolo)];

/// The most tools, or rules of one kind.
pub(super) const RULES_MAX: usize = 1_000;

/// Takes every key of Volery's own format that is for the backend.
pub(super) fn take_setup(fields: &mut Fields<'_>, diagnostics: &mut Diagnostics<'_>) -> Setup {
    let answers = [("refuse", Unenforceable::Refuse), ("warn", Unenforceable::Warn)];
    let modes = [("append", PromptMode::Append), ("replace", PromptMode::Replace)];
    let contexts = [("load", Context::Load), ("none", Context::None)];
    let isolations = [("none", Isolation::None), ("worktree", Isolation::Worktree)];
    let permission = fields.take("permission").map(|node| read_permission(node, "permission", diagnostics));
    let mut permission = permission.unwrap_or_default();
    let tools = take_tools(fields, &mut permission, diagnostics);
    let servers = fields.take("mcp_servers").map(|node| read_servers(node, "mcp_servers", diagnostics));
    let mut setup = Setup {
        effort: fields.take("effort").and_then(|node| read_effort(node, "effort", diagnostics)),
        temperature: fields.take("temperature").and_then(|node| read_temperature(node, diagnostics)),
        permission,
        unenforceable: take_choice(fields, "unenforceable", &answers, diagnostics),
        tools,
        prompt_mode: take_choice(fields, "prompt_mode", &modes, diagnostics),
        context: take_choice(fields, "context", &contexts, diagnostics),
        mcp_servers: servers.unwrap_or_default(),
        keeps_session: take_flag(fields, "session", diagnostics),
        extra_args: take_texts(fields, "extra_args", diagnostics),
        extra_directories: take_texts(fields, "extra_directories", diagnostics),
        fallback: fields.take("fallback").map(|node| read_fallback(node, diagnostics)).unwrap_or_default(),
        accept: fields.take("accept").map(|node| read_accept(node, diagnostics)).unwrap_or_default(),
        isolation: take_choice(fields, "isolation", &isolations, diagnostics),
        max_turns: take_turns(fields, "max_turns", diagnostics),
        response_file: fields.take("response_file").and_then(|node| read_response_file(node, diagnostics)),
        ..Setup::default()
    };
    take_output(fields, &mut setup, diagnostics);
    setup
}

fn take_choice<T: Copy + Default>(
    fields: &mut Fields<'_>,
    key: &'static str,
    words: &[(&'static str, T)],
    diagnostics: &mut Diagnostics<'_>,
) -> T {
    fields.take(key).and_then(|node| read_choice(node, key, words, diagnostics)).unwrap_or_default()
}

/// Takes a boolean key; a missing one is `false`.
pub(super) fn take_flag(
    fields: &mut Fields<'_>,
    key: &'static str,
    diagnostics: &mut Diagnostics<'_>,
) -> bool {
    fields.take(key).and_then(|node| read_bool(node, key, diagnostics)).unwrap_or_default()
}

/// Takes a text or a list of texts.
pub(super) fn take_texts(
    fields: &mut Fields<'_>,
    key: &'static str,
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<String> {
    fields.take(key).map(|node| read_text_or_list(node, key, diagnostics)).unwrap_or_default()
}

/// Takes the limit on the model's turns.
pub(super) fn take_turns(
    fields: &mut Fields<'_>,
    key: &'static str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<u32> {
    fields.take(key).and_then(|node| read_turns(node, key, diagnostics))
}

/// Reads the value of the key.
pub(super) fn read_turns(node: &Node, key: &str, diagnostics: &mut Diagnostics<'_>) -> Option<u32> {
    let turns = read_integer(node, key, Bounds::from(1).up_to(u32::MAX.into()), diagnostics)?;
    u32::try_from(turns).ok()
}

/// Reads the reasoning effort.
pub(super) fn read_effort(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Option<String> {
    read_word(node, name, "a word for an effort", diagnostics)
}

/// Reads the sampling temperature.
pub(super) fn read_temperature(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<Temperature> {
    let degrees = match &node.value {
        NodeValue::Integer(number) => i32::try_from(*number).ok().map(f64::from),
        NodeValue::Float(number) => Some(*number),
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::String(_)
        | NodeValue::DateTime
        | NodeValue::List(_)
        | NodeValue::Map(_) => None,
    };
    match degrees.filter(|degrees| (0.0..=2.0).contains(degrees)) {
        Some(degrees) => Some(Temperature((degrees * 1_000.0).round() as u32)),
        None => {
            let message = format!("temperature: expected a number from 0 to 2, found {}", node.describe());
            diagnostics.error(node.location, message);
            None
        }
    }
}

/// Takes the form of the answer, and the schema that it must satisfy.
pub(super) fn take_output(fields: &mut Fields<'_>, setup: &mut Setup, diagnostics: &mut Diagnostics<'_>) {
    let formats = [("text", OutputFormat::Text), ("json", OutputFormat::Json)];
    let format = fields
        .take("output_format")
        .map(|node| (read_choice(node, "output_format", &formats, diagnostics), node.location));
    let Some(node) = fields.take("output_schema") else {
        setup.output_format = format.and_then(|(format, _)| format).unwrap_or_default();
        return;
    };
    // A schema implies JSON; text contradicts it.
    setup.output_format = OutputFormat::Json;
    if let Some((Some(OutputFormat::Text), location)) = format {
        diagnostics
            .error(location, "output_format: text has no schema; write json, or leave output_schema out");
    }
    let NodeValue::Map(_) = &node.value else {
        let message = format!("output_schema: expected a JSON schema, found {}", node.describe());
        diagnostics.error_with_hint(node.location, message, "write a map that begins with type: object");
        return;
    };
    setup.output_schema = node.to_json();
    if setup.output_schema.is_none() {
        diagnostics.error(node.location, "output_schema: it contains a number that JSON does not have");
    }
}

/// Reads a level, or a map with a level and rules.
pub(crate) fn read_permission(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Permission {
    if let NodeValue::String(_) = &node.value {
        let level = read_choice(node, name, &LEVELS, diagnostics);
        return Permission { level, ..Permission::default() };
    }
    let Some(mut fields) = Fields::open(node, name, diagnostics) else { return Permission::default() };
    let level =
        fields.take("level").and_then(|node| read_choice(node, &fields.name("level"), &LEVELS, diagnostics));
    let mut rules = |key| {
        let name = fields.name(key);
        fields.take(key).map(|node| read_rules(node, &name, diagnostics)).unwrap_or_default()
    };
    let permission = Permission { level, allow: rules("allow"), ask: rules("ask"), deny: rules("deny") };
    fields.close(diagnostics);
    permission
}

/// Reads rules such as `Bash(curl:*)`.
pub(super) fn read_rules(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Vec<Rule> {
    read_rules_or(node, name, OnInvalidRule::Error, diagnostics)
}

/// The treatment of a text that is not a valid rule.
#[derive(Clone, Copy)]
enum OnInvalidRule {
    Error,
    LeaveOut,
}

fn read_rules_or(
    node: &Node,
    name: &str,
    on_invalid: OnInvalidRule,
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<Rule> {
    let items = match &node.value {
        NodeValue::List(items) => items.as_slice(),
        NodeValue::String(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::Map(_) => std::slice::from_ref(node),
    };
    let mut rules: Vec<Rule> = Vec::new();
    let mut known = BTreeSet::new();
    for item in items {
        let Some(spelling) = read_text(item, name, diagnostics) else { continue };
        for spelling in split_names(&spelling) {
            let rule = match on_invalid {
                OnInvalidRule::Error => parse_rule(spelling, name, item, diagnostics),
                OnInvalidRule::LeaveOut => parse_tool(spelling, name, item, diagnostics),
            };
            rules.extend(rule.filter(|rule| known.insert(rule.clone())));
            if rules.len() > RULES_MAX {
                report_too_many(name, item, diagnostics);
                return rules;
            }
        }
    }
    rules
}

/// Reports a list that is too long.
pub(super) fn report_too_many(name: &str, node: &Node, diagnostics: &mut Diagnostics<'_>) {
    let message = format!("{name}: there are more than {RULES_MAX} entries");
    let hint =
        "one entry can stand for many: mcp__SERVER for all tools of a server, Bash(git:*) for many commands";
    diagnostics.error_with_hint(node.location, message, hint);
}

/// Parses the name of one tool, and leaves out an invalid one with a warning.
fn parse_tool(spelling: &str, name: &str, node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<Rule> {
    let error = match spelling.parse::<Rule>() {
        Ok(rule) => return Some(rule.with_origin(Some(diagnostics.rule_origin(node.location)))),
        Err(error) => error,
    };
    let message = format!("{name}: {} is left out: {}", quote(spelling), error.reason);
    diagnostics.warning_with_hint(node.location, message, "write for example Read or Bash(git log:*)");
    None
}

/// Parses one rule, and reports an invalid one.
pub(super) fn parse_rule(
    spelling: &str,
    name: &str,
    node: &Node,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Rule> {
    match spelling.parse::<Rule>() {
        Ok(rule) => Some(rule.with_origin(Some(diagnostics.rule_origin(node.location)))),
        Err(error) => {
            let message = format!("{name}: {} is not a rule: {}", quote(spelling), error.reason);
            diagnostics.error_with_hint(node.location, message, "write for example Read or Bash(git log:*)");
            None
        }
    }
}

/// Reads names of tools: a list, or a text with commas. Invalid names are left out, as in the vendors' programs: then
/// the agent has fewer tools, never more.
pub(super) fn read_tool_names(node: &Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> Vec<String> {
    let rules = match &node.value {
        NodeValue::String(text) if text.trim().is_empty() => Vec::new(),
        NodeValue::String(_)
        | NodeValue::List(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::DateTime
        | NodeValue::Map(_) => read_rules_or(node, name, OnInvalidRule::LeaveOut, diagnostics),
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

fn read_fallback(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Vec<Fallback> {
    let items = read_list(node, "fallback", diagnostics).unwrap_or_default();
    items.iter().filter_map(|item| read_one_fallback(item, diagnostics)).collect()
}

fn read_one_fallback(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<Fallback> {
    if let NodeValue::String(_) = &node.value {
        return Some(Fallback { backend: None, model: Some(read_model(node, diagnostics)?), settings: None });
    }
    let mut fields = Fields::open(node, "fallback", diagnostics)?;
    let backend = fields.take("backend").map(|node| read_backend(node, "fallback.backend", diagnostics));
    let model = fields.take("model").map(|node| read_model(node, diagnostics));
    fields.close(diagnostics);
    if backend.is_none() && model.is_none() {
        let hint = "write for example {backend: codex, model: gpt-5}, or only a model";
        diagnostics.error_with_hint(node.location, "fallback: neither a backend nor a model is named", hint);
        return None;
    }
    Some(Fallback { backend: backend.flatten(), model: model.flatten(), settings: None })
}

fn read_response_file(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<ResponseFile> {
    let mut fields = Fields::open(node, "response_file", diagnostics)?;
    let mut template = |key| {
        let name = fields.name(key);
        fields.take(key).and_then(|node| read_text(node, &name, diagnostics))
    };
    let (template, summary_template) = (template("template"), template("summary_template"));
    fields.close(diagnostics);
    match template {
        Some(template) => {
            if !template.contains("{{RESPONSE_FILE}}") {
                let message =
                    "response_file.template: without {{RESPONSE_FILE}} the agent does not know the file";
                diagnostics.warning(node.location, message);
            }
            Some(ResponseFile { template, summary_template })
        }
        None => {
            let hint = "write for example template: Write your answer to {{RESPONSE_FILE}}.";
            diagnostics.error_with_hint(node.location, "the key response_file.template is missing", hint);
            None
        }
    }
}
