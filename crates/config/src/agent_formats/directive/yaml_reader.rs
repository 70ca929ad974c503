//! Directives of RyeOS: YAML frontmatter, and a body that the model reads.

use domain::access::{AccessEffect, AccessSubject};
use domain::agent::AgentInput;
use domain::directive::DirectiveOutput;

use super::draft::{DirectiveDraft, one_line};
use super::instructions::Edits;
use super::limits::{WrittenLimit, set_limit};
use super::locate::without_leading_comments;
use super::model::checked_word;
use super::procedure::{add_output, output_kind};
use super::rye_items::{ItemAction, ItemPattern, add_capability, add_item_rules};
use super::tools::declare_named;
use super::xml_reader::{check_name, read_procedure, remove_signatures};
use crate::frontmatter::{self, Missing};
use crate::text::{Fields, Node, NodeValue, SourceLocation, YamlText, quote, read_yaml};

/// Keys about the file itself.
const NOTED: [&str; 8] =
    ["title", "author", "created_at", "updated_at", "effects", "item_type", "kind", "entry_type"];

/// Reads a file that begins with frontmatter. Returns whether it could be read.
pub(super) fn read_frontmatter(text: &str, stem: &str, draft: &mut DirectiveDraft<'_, '_>) -> bool {
    let blanked = without_leading_comments(text);
    let parts = match frontmatter::split(&blanked) {
        Ok(parts) => parts,
        Err(Missing::Begin | Missing::End) => {
            let hint = "put a line with only --- between the frontmatter and the instructions";
            draft.diagnostics.error_with_hint(SourceLocation::START, "the frontmatter has no end", hint);
            return false;
        }
    };
    let yaml = YamlText { text: parts.yaml, lines_before: parts.lines_before };
    let Some(node) = read_yaml(yaml, draft.diagnostics) else { return false };
    let Some(fields) = Fields::open(&node, "", draft.diagnostics) else { return false };
    read_fields(&node, fields, stem, draft);
    let body = text.len() - parts.body.len()..text.len();
    read_procedure(text, body.clone(), draft);
    let mut edits = Edits::default();
    remove_signatures(text, &mut edits, draft);
    let yaml_start = blanked.find("---").unwrap_or_default();
    edits.replace(yaml_start..body.start, format!("{}\n\n", draft.description));
    draft.directive.instructions = edits.apply(text, &(0..0));
    true
}

fn read_fields(node: &Node, mut fields: Fields<'_>, stem: &str, draft: &mut DirectiveDraft<'_, '_>) {
    let text = |fields: &mut Fields<'_>, key: &'static str| {
        fields.take(key).map(|node| (shown(node), node.location))
    };
    if let Some((name, location)) = text(&mut fields, "name") {
        check_name(&name, stem, location, draft);
    }
    draft.directive.version = text(&mut fields, "version").map(|(version, _)| version);
    draft.description = text(&mut fields, "description").map(|(text, _)| one_line(&text)).unwrap_or_default();
    draft.tags.extend(text(&mut fields, "category").map(|(category, _)| category));
    draft.tags.extend(fields.take("tags").into_iter().flat_map(texts));
    draft.tags.retain(|tag| !tag.trim().is_empty());
    for key in NOTED {
        if let Some(node) = fields.take(key) {
            draft.note(key, &shown(node));
        }
    }
    for key in ["model", "model_tier"] {
        if let Some(node) = fields.take(key) {
            read_model(node, key, draft);
        }
    }
    if let Some(node) = fields.take("limits") {
        read_limits(node, draft);
    }
    if let Some(node) = fields.take_even_empty("permissions") {
        read_permissions(node, draft);
    }
    if let Some(node) = fields.take("requires") {
        read_requirements(node, draft);
    }
    for key in ["tools", "actions"] {
        if let Some(node) = fields.take(key) {
            read_tools(node, draft);
        }
    }
    if let Some(node) = fields.take("inputs") {
        read_inputs(node, draft);
    }
    if let Some(node) = fields.take("outputs") {
        read_outputs(node, draft);
    }
    read_services(&mut fields, draft);
    if let NodeValue::Map(entries) = &node.value {
        for entry in entries.iter().filter(|entry| fields.has(&entry.key)) {
            draft.note(&entry.key, &shown(&entry.node));
        }
    }
    fields.close(draft.diagnostics);
}

/// Reads what only the runtime of RyeOS has.
fn read_services(fields: &mut Fields<'_>, draft: &mut DirectiveDraft<'_, '_>) {
    if let Some(node) = fields.take("extends") {
        draft.unsupported(node.location, &format!("extends={}", shown(node)));
    }
    for (key, item) in fields.take("context").map(entries).unwrap_or_default() {
        for knowledge in texts(item) {
            match key {
                "suppress" => {
                    let message = format!("there is no knowledge {} to suppress", quote(&knowledge));
                    draft.warn(item.location, message);
                }
                "system" | "before" | "after" => {
                    draft.unsupported(item.location, &format!("the knowledge {knowledge}"));
                }
                _ => {
                    draft.warn(item.location, format!("context.{key}: {} is ignored", quote(&knowledge)));
                }
            }
        }
    }
    for hook in fields.take("hooks").map(items).unwrap_or_default() {
        draft.unsupported(hook.location, "hooks");
        draft.note("hook", &shown(hook));
    }
    if let Some(node) = fields.take("continuation") {
        draft.note("continuation", &shown(node));
        if node.value != NodeValue::Bool(false) {
            draft
                .warn(node.location, "a run is not continued in a new conversation; continuation is ignored");
        }
    }
    for (key, node) in fields.take("execution").map(entries).unwrap_or_default() {
        match (key, shown(node).as_str()) {
            ("mode", "async") => draft.directive.is_async = true,
            ("mode", "sync") => {}
            ("tool_concurrency", count) => draft.note(key, count),
            (key, value) => {
                draft.warn(node.location, format!("execution.{key}: {} is ignored", quote(value)))
            }
        }
    }
}

fn read_model(node: &Node, key: &str, draft: &mut DirectiveDraft<'_, '_>) {
    if let NodeValue::Map(_) = &node.value {
        for (key, node) in entries(node) {
            let value = shown(node);
            let mut word = || checked_word(&value, node.location, draft);
            match key {
                "tier" => draft.directive.model.tier = word(),
                "id" | "name" => draft.directive.model.id = word(),
                "provider" => draft.directive.model.provider = word(),
                "fallback" => {
                    for value in texts(node) {
                        let word = checked_word(&value, node.location, draft);
                        draft.directive.model.fallback.extend(word);
                    }
                }
                "context_window" | "reasoning" => {
                    draft.note(&format!("model.{key}"), &value);
                    draft.warn(node.location, format!("model.{key} is not applied"));
                }
                _ => {
                    draft.warn(
                        node.location,
                        format!("unknown key {} in model: {}", quote(key), quote(&value)),
                    );
                }
            }
        }
        return;
    }
    // A single word is a tier; the name of a model has digits or other letters in it.
    let value = shown(node);
    let is_tier = key == "model_tier" || value.chars().all(|letter| letter.is_alphabetic() || letter == '_');
    let word = checked_word(&value, node.location, draft);
    let model = &mut draft.directive.model;
    if is_tier { model.tier = word } else { model.id = word }
}

fn read_limits(node: &Node, draft: &mut DirectiveDraft<'_, '_>) {
    if !matches!(node.value, NodeValue::Map(_)) {
        draft
            .diagnostics
            .error(node.location, format!("limits: expected keys with values, found {}", node.describe()));
    }
    let limits = entries(node);
    let currency = limits.iter().find(|(key, _)| matches!(*key, "currency" | "spend_currency"));
    let currency = currency.map(|(_, node)| shown(node));
    for (name, node) in limits {
        let (value, currency) = (shown(node), currency.as_deref());
        if !matches!(name, "currency" | "spend_currency") {
            set_limit(WrittenLimit { name, value: &value, currency, location: node.location }, draft);
        }
    }
}

/// Reads `permissions: {execute: [tool:x]}`, `permissions: "*"`, and lists of capabilities.
fn read_permissions(node: &Node, draft: &mut DirectiveDraft<'_, '_>) {
    draft.directive.permissions.get_or_insert_default();
    match &node.value {
        NodeValue::String(text) if text.trim() == "*" => {
            draft.add_rule(AccessEffect::Allow, AccessSubject::Any, node.location);
        }
        NodeValue::Map(_) => {
            for (key, node) in entries(node) {
                read_verb(key, node, draft);
            }
        }
        NodeValue::List(_) => add_capabilities(node, draft),
        NodeValue::Null => {}
        NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::String(_)
        | NodeValue::DateTime => {
            let problem = format!("permissions: expected keys with values, found {}", node.describe());
            draft.reject_rule(AccessEffect::Allow, node.location, &problem);
        }
    }
}

/// Reads what one verb, such as `execute`, allows; `deny` has verbs of its own.
fn read_verb(key: &str, node: &Node, draft: &mut DirectiveDraft<'_, '_>) {
    if key == "acknowledge" {
        return draft.note(key, &shown(node));
    }
    let Some(action) = ItemAction::parse(key) else {
        let effect = if key == "deny" { AccessEffect::Deny } else { AccessEffect::Allow };
        return draft.reject_rule(effect, node.location, &format!("permissions: {} is unknown", quote(key)));
    };
    for item in items(node) {
        let pairs: Vec<(String, String)> = match &item.value {
            NodeValue::Map(_) => {
                let pair = |(kind, node): (&str, &Node)| (kind.to_owned(), shown(node));
                entries(item).into_iter().map(pair).collect()
            }
            _ => {
                let text = shown(item);
                let (kind, pattern) = text.split_once(':').unwrap_or(("*", &text));
                vec![(kind.to_owned(), pattern.to_owned())]
            }
        };
        for (kind, pattern) in &pairs {
            let item = ItemPattern { action, kind, pattern, location: item.location };
            add_item_rules(item, AccessEffect::Allow, draft);
        }
    }
}

fn add_capabilities(node: &Node, draft: &mut DirectiveDraft<'_, '_>) {
    for capability in items(node) {
        add_capability(&shown(capability), AccessEffect::Allow, capability.location, draft);
    }
}

/// Reads `requires: {capabilities: {declared: […], manifest: …}}`.
fn read_requirements(node: &Node, draft: &mut DirectiveDraft<'_, '_>) {
    for (key, node) in entries(node) {
        if key != "capabilities" {
            draft.unsupported(node.location, &format!("{key} {}", shown(node)));
            continue;
        }
        draft.directive.permissions.get_or_insert_default();
        if matches!(node.value, NodeValue::List(_)) {
            add_capabilities(node, draft);
        }
        for (key, node) in entries(node) {
            match key {
                "declared" => add_capabilities(node, draft),
                _ => draft.unsupported(node.location, &format!("{key} {}", shown(node))),
            }
        }
    }
}

/// Reads names of tools, or maps that name one.
fn read_tools(node: &Node, draft: &mut DirectiveDraft<'_, '_>) {
    draft.directive.tools.get_or_insert_default();
    for item in items(node) {
        let named =
            entries(item).into_iter().find(|(key, _)| matches!(*key, "item_id" | "tool" | "name" | "id"));
        let name = match (&item.value, named) {
            (NodeValue::String(name), _) => name.clone(),
            (_, Some((_, name))) => shown(name),
            (_, None) => {
                draft.warn(
                    item.location,
                    format!("a tool without a name is ignored: {}", quote(&shown(item))),
                );
                continue;
            }
        };
        let required = entries(item).into_iter().find(|(key, _)| *key == "required");
        let is_required = required.is_some_and(|(_, node)| read_required(node, draft));
        if !matches!(item.value, NodeValue::String(_)) {
            draft.note("tool", &shown(item));
        }
        declare_named(&name, is_required, item.location, draft);
    }
}

/// One input or output, as a list item with a name or as the value of its name.
struct NamedValue<'a> {
    name: String,
    location: SourceLocation,
    entries: Vec<(&'a str, &'a Node)>,
    /// The value is only a text: its description or type.
    text: Option<String>,
}

/// Returns the items of `[{name: x, type: string}]`, `{x: {type: string}}` or `{x: description}`.
fn named_values<'a>(node: &'a Node, what: &str, draft: &mut DirectiveDraft<'_, '_>) -> Vec<NamedValue<'a>> {
    let mut values: Vec<NamedValue<'a>> = Vec::new();
    let mut add = |value: NamedValue<'a>, draft: &mut DirectiveDraft<'_, '_>| {
        if values.iter().any(|known| known.name == value.name) {
            let message = format!("the {what} {} stands twice", quote(&value.name));
            draft.diagnostics.error(value.location, message);
        } else {
            values.push(value);
        }
    };
    match &node.value {
        NodeValue::Map(all) => {
            for entry in all {
                let text = matches!(entry.node.value, NodeValue::String(_)).then(|| shown(&entry.node));
                let (name, location) = (entry.key.clone(), entry.location);
                add(NamedValue { name, location, entries: entries(&entry.node), text }, draft);
            }
        }
        NodeValue::List(all) => {
            for item in all {
                let found = entries(item);
                let name = match &item.value {
                    NodeValue::String(name) => Some(name.clone()),
                    _ => found.iter().find(|(key, _)| *key == "name").map(|(_, node)| shown(node)),
                };
                match name.filter(|name| !name.trim().is_empty()) {
                    Some(name) => {
                        add(NamedValue { name, location: item.location, entries: found, text: None }, draft);
                    }
                    None => draft.diagnostics.error(item.location, format!("an {what} has no name")),
                }
            }
        }
        _ => {
            let message = format!("{what}s: expected a list, found {}", node.describe());
            draft.diagnostics.error(node.location, message);
        }
    }
    values
}

fn read_inputs(node: &Node, draft: &mut DirectiveDraft<'_, '_>) {
    for value in named_values(node, "input", draft) {
        let mut input = AgentInput {
            name: value.name,
            kind: "string".to_owned(),
            required: false,
            default: None,
            description: value.text.unwrap_or_default(),
        };
        for (key, node) in value.entries {
            match key {
                "name" => {}
                "type" => input.kind = shown(node),
                "required" => input.required = read_required(node, draft),
                "default" => input.default = (node.value != NodeValue::Null).then(|| shown(node)),
                "description" => input.description = one_line(&shown(node)),
                _ => {
                    let message =
                        format!("the input {}: {key}={} is not checked", input.name, quote(&shown(node)));
                    draft.warn(node.location, message);
                    draft.note(&format!("inputs.{}.{key}", input.name), &shown(node));
                }
            }
        }
        draft.inputs.push(input);
    }
}

fn read_outputs(node: &Node, draft: &mut DirectiveDraft<'_, '_>) {
    for value in named_values(node, "output", draft) {
        let mut output = DirectiveOutput {
            name: value.name,
            kind: "any".to_owned(),
            is_required: true,
            description: value.text.unwrap_or_default(),
            schema: None,
        };
        let mut schema = serde_json::Map::new();
        for (key, node) in value.entries {
            match key {
                "name" => {}
                "type" => match output_kind(&shown(node)) {
                    Some(kind) => output.kind = kind.to_owned(),
                    None => {
                        let message =
                            format!("the type {} is unknown, so any value fits", quote(&shown(node)));
                        draft.warn(node.location, message);
                    }
                },
                "required" if !matches!(node.value, NodeValue::List(_)) => {
                    output.is_required = read_required(node, draft);
                }
                "description" => output.description = one_line(&shown(node)),
                _ => match node.to_json() {
                    Some(value) => drop(schema.insert(key.to_owned(), value)),
                    None => draft.warn(node.location, format!("{key}: {} is no JSON", quote(&shown(node)))),
                },
            }
        }
        output.schema = (!schema.is_empty()).then_some(serde_json::Value::Object(schema));
        add_output(output, value.location, draft);
    }
}

/// Returns a value for a field of text.
fn shown(node: &Node) -> String {
    node.display().trim().to_owned()
}

/// Reads whether something is required.
fn read_required(node: &Node, draft: &mut DirectiveDraft<'_, '_>) -> bool {
    let word = shown(node).to_ascii_lowercase();
    if !matches!(word.as_str(), "true" | "false") {
        let message = format!("required: {} is neither true nor false", quote(&shown(node)));
        draft.diagnostics.error(node.location, message);
    }
    word == "true"
}

/// Returns the entries of a map, none of anything else.
fn entries(node: &Node) -> Vec<(&str, &Node)> {
    match &node.value {
        NodeValue::Map(entries) => entries.iter().map(|entry| (entry.key.as_str(), &entry.node)).collect(),
        _ => Vec::new(),
    }
}

/// Returns the items of a list, or the value itself.
fn items(node: &Node) -> Vec<&Node> {
    match &node.value {
        NodeValue::List(items) => items.iter().collect(),
        NodeValue::Null => Vec::new(),
        _ => vec![node],
    }
}

fn texts(node: &Node) -> Vec<String> {
    items(node).into_iter().map(shown).filter(|text| !text.is_empty()).collect()
}
