//! Reads one configuration file: TOML text to a layer. An invalid setting is reported and left out; a file that is
//! not valid TOML gives an empty layer.

use std::collections::BTreeMap;

use domain::agent::Layer;
use domain::diagnostic::Diagnostic;
use domain::dialect::DialectName;
use domain::id::{BackendName, IdError};
use domain::run::UnattendedChoice;

use super::layer::{
    ClientSettings, ConfigLayer, DisconnectChoice, RetentionSettings, RunSettings, ServeSettings,
    SlotSettings,
};
use super::{Backend, backend, dialects, overlay, prices, tiers};
use crate::agent_formats::{CONTAINMENT, LEVELS};
use crate::text::{
    Bounds, Diagnostics, Fields, MapEntry, Node, NodeValue, SourceLocation, quote, read_bool, read_choice,
    read_duration_ms, read_integer, read_list, read_text_or_list, read_toml,
};
use crate::{FILE_BYTES_MAX, limits};

/// More slots than any machine has, and more waiting runs than any queue.
const SLOTS_MAX: u64 = 100_000;
/// The most calls a minute that can be set.
const CALLS_MAX: u64 = 10_000_000;

/// A configuration file, as it was found.
#[derive(Debug, Clone, Copy)]
pub struct ConfigFile<'a> {
    pub text: &'a str,
    /// How messages name the file.
    pub file: &'a str,
    pub layer: Layer,
    /// The names of built-in backends, which no file may redefine.
    pub built_in: &'a [&'a str],
}

/// Reads a layer: the valid settings, and all problems.
pub fn read(config_file: ConfigFile<'_>) -> (ConfigLayer, Vec<Diagnostic>) {
    let ConfigFile { text, file, layer, built_in } = config_file;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut diagnostics = Diagnostics::new(file, text);
    if text.len() > FILE_BYTES_MAX {
        diagnostics.error(SourceLocation::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
        return (layer_with_errors(), diagnostics.finish());
    }
    let document = read_toml(text, &mut diagnostics);
    let settings = document.map(|document| read_document(&document, layer, built_in, &mut diagnostics));
    (settings.unwrap_or_else(layer_with_errors), diagnostics.finish())
}

fn read_document(
    document: &Node,
    layer: Layer,
    built_in: &[&str],
    diagnostics: &mut Diagnostics<'_>,
) -> ConfigLayer {
    let Some(mut fields) = Fields::open(document, "", diagnostics) else { return layer_with_errors() };
    let backends = fields.take("backends").map(|node| read_backends(node, built_in, diagnostics));
    let errors_in_backends = diagnostics.errors();
    let limits = fields.take("limits").map(|node| limits::read(node, "limits", diagnostics));
    let slots = take_machine_section(&mut fields, "slots", layer, diagnostics);
    let slots = slots.and_then(|node| read_slots(node, diagnostics));
    let retention = take_machine_section(&mut fields, "retention", layer, diagnostics);
    let retention = retention.and_then(|node| read_retention(node, diagnostics));
    // These settings decide which tools a server offers, to whom, and how often; a dialect may pass on the whole
    // environment.
    let serve = take_machine_section(&mut fields, "serve", layer, diagnostics);
    let serve = serve.and_then(|node| read_serve(node, diagnostics));
    let clients = fields.take("clients").map(|node| read_clients(node, diagnostics));
    let dialects = fields.take("dialects").map(|node| dialects::read(node, diagnostics));
    let run = fields.take("run").and_then(|node| read_run(node, layer, diagnostics));
    let agents = fields.take("agents").map(|node| overlay::read_agents(node, diagnostics));
    let defaults = fields.take("defaults").map(|node| overlay::read_defaults(node, diagnostics));
    let prices = take_machine_section(&mut fields, "prices", layer, diagnostics);
    let prices = prices.map(|node| prices::read(node, diagnostics));
    // A repository must not choose where the user's prompts for a tier go.
    let tiers = take_machine_section(&mut fields, "tiers", layer, diagnostics);
    let tiers = tiers.map(|node| tiers::read(node, diagnostics));
    fields.close(diagnostics);
    ConfigLayer {
        backends: backends.unwrap_or_default(),
        limits: limits.unwrap_or_default(),
        slots: slots.unwrap_or_default(),
        retention: retention.unwrap_or_default(),
        serve: serve.unwrap_or_default(),
        clients: clients.unwrap_or_default(),
        dialects: dialects.unwrap_or_default(),
        run: run.unwrap_or_default(),
        agents: agents.unwrap_or_default(),
        defaults: defaults.unwrap_or_default(),
        prices: prices.unwrap_or_default(),
        tiers: tiers.unwrap_or_default(),
        has_errors: diagnostics.errors() > errors_in_backends,
    }
}

/// The layer of a file that cannot be read: empty, and marked so.
fn layer_with_errors() -> ConfigLayer {
    ConfigLayer { has_errors: true, ..ConfigLayer::default() }
}

/// Takes a section about the whole machine: a repository must not shorten the retention of others, use up their
/// slots, change their servers' tools, or redirect their tiers.
fn take_machine_section<'a>(
    fields: &mut Fields<'a>,
    key: &'static str,
    layer: Layer,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<&'a Node> {
    let node = fields.take(key)?;
    if layer != Layer::Project {
        return Some(node);
    }
    let message = format!("{key} concerns the whole machine and is ignored in a project's file");
    diagnostics.warning_with_hint(node.location, message, "put it into your own configuration");
    None
}

fn read_backends(
    node: &Node,
    built_in: &[&str],
    diagnostics: &mut Diagnostics<'_>,
) -> BTreeMap<BackendName, Backend> {
    let mut backends = BTreeMap::new();
    for entry in sections(node, "backends", diagnostics) {
        let name: Result<BackendName, IdError> = entry.key.parse();
        if built_in.contains(&entry.key.as_str()) {
            let message = format!("the backend {} is built in and cannot be redefined", entry.key);
            diagnostics.error_with_hint(entry.location, message, "choose another name");
            continue;
        }
        if let Err(IdError { rule, .. }) = &name {
            let message = format!("{} is not the name of a backend", quote(&entry.key));
            diagnostics.error_with_hint(entry.location, message, *rule);
        }
        let within = format!("backends.{}", domain::size::head(&entry.key, 64));
        let errors_before = diagnostics.errors();
        let backend = backend::read(&entry.node, &within, diagnostics);
        // A command with any error is left out as a whole: half of it would be another command.
        let right = diagnostics.errors() == errors_before;
        if let (Ok(name), Some(backend), true) = (name, backend, right) {
            backends.insert(name, backend);
        }
    }
    backends
}

/// Returns the entries of a map whose keys are user-defined names.
pub(super) fn sections<'a>(node: &'a Node, name: &str, diagnostics: &mut Diagnostics<'_>) -> &'a [MapEntry] {
    match &node.value {
        NodeValue::Map(entries) => entries,
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Integer(_)
        | NodeValue::Float(_)
        | NodeValue::String(_)
        | NodeValue::DateTime
        | NodeValue::List(_) => {
            let message = format!("{name}: expected sections, found {}", node.describe());
            diagnostics.error_with_hint(node.location, message, format!("write [{name}.NAME]"));
            &[]
        }
    }
}

fn read_slots(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<SlotSettings> {
    let mut fields = Fields::open(node, "slots", diagnostics)?;
    let mut number = |key, min| {
        let node = fields.take(key)?;
        let number = read_integer(node, &fields.name(key), Bounds::from(min).up_to(SLOTS_MAX), diagnostics)?;
        u32::try_from(number).ok()
    };
    let slots = SlotSettings { count: number("count", 1), queue: number("queue", 0) };
    fields.close(diagnostics);
    Some(slots)
}

fn read_retention(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<RetentionSettings> {
    let mut fields = Fields::open(node, "retention", diagnostics)?;
    let mut time = |key| take_time(&mut fields, key, diagnostics);
    let retention = RetentionSettings { output_ms: time("output"), record_ms: time("record") };
    fields.close(diagnostics);
    Some(retention)
}

fn read_serve(node: &Node, diagnostics: &mut Diagnostics<'_>) -> Option<ServeSettings> {
    let mut fields = Fields::open(node, "serve", diagnostics)?;
    let wait_ms = take_time(&mut fields, "wait", diagnostics);
    let choices = [("cancel", DisconnectChoice::Cancel), ("continue", DisconnectChoice::Continue)];
    let on_disconnect = fields
        .take("on_disconnect")
        .and_then(|node| read_choice(node, "serve.on_disconnect", &choices, diagnostics));
    let disconnect_grace_ms = take_time(&mut fields, "disconnect_grace", diagnostics);
    let dialects = fields.take("dialects").and_then(|node| {
        let words = DialectName::ALL.map(|dialect| (dialect.as_str(), dialect));
        let nodes = read_list(node, "serve.dialects", diagnostics)?;
        nodes.iter().map(|node| read_choice(node, "serve.dialects", &words, diagnostics)).collect()
    });
    let calls_per_minute = fields.take("calls_per_minute").and_then(|node| {
        let number =
            read_integer(node, "serve.calls_per_minute", Bounds::from(1).up_to(CALLS_MAX), diagnostics)?;
        u32::try_from(number).ok()
    });
    let mut names = |key| {
        let node = fields.take(key)?;
        Some(read_text_or_list(node, &fields.name(key), diagnostics))
    };
    let (allowed_hosts, allowed_origins) = (names("allowed_hosts"), names("allowed_origins"));
    let widen = fields.take("callers_may_widen");
    let callers_may_widen = widen.and_then(|node| read_bool(node, "serve.callers_may_widen", diagnostics));
    let levels = fields.take("powerspawn_permission");
    let powerspawn_permission =
        levels.and_then(|node| read_choice(node, "serve.powerspawn_permission", &LEVELS, diagnostics));
    let powerspawn_agents_context = fields
        .take("powerspawn_agents_context")
        .and_then(|node| read_bool(node, "serve.powerspawn_agents_context", diagnostics));
    fields.close(diagnostics);
    Some(ServeSettings {
        wait_ms,
        on_disconnect,
        disconnect_grace_ms,
        dialects,
        calls_per_minute,
        allowed_hosts,
        allowed_origins,
        powerspawn_permission,
        powerspawn_agents_context,
        callers_may_widen,
    })
}

fn read_clients(node: &Node, diagnostics: &mut Diagnostics<'_>) -> BTreeMap<String, ClientSettings> {
    let mut clients = BTreeMap::new();
    for entry in sections(node, "clients", diagnostics) {
        let within = format!("clients.{}", domain::size::head(&entry.key, 64));
        let Some(mut fields) = Fields::open(&entry.node, &within, diagnostics) else { continue };
        let client = ClientSettings { wait_ms: take_time(&mut fields, "wait", diagnostics) };
        fields.close(diagnostics);
        clients.insert(entry.key.clone(), client);
    }
    clients
}

fn read_run(node: &Node, layer: Layer, diagnostics: &mut Diagnostics<'_>) -> Option<RunSettings> {
    let mut fields = Fields::open(node, "run", diagnostics)?;
    let containment = fields
        .take("containment")
        .and_then(|node| read_choice(node, "run.containment", &CONTAINMENT, diagnostics));
    let choices = [("deny", UnattendedChoice::Deny), ("wait", UnattendedChoice::Wait)];
    let unattended = take_machine_section(&mut fields, "unattended", layer, diagnostics);
    let unattended = unattended.and_then(|node| read_choice(node, "run.unattended", &choices, diagnostics));
    fields.close(diagnostics);
    Some(RunSettings { containment, unattended })
}

fn take_time(fields: &mut Fields<'_>, key: &'static str, diagnostics: &mut Diagnostics<'_>) -> Option<u64> {
    let node = fields.take(key)?;
    read_duration_ms(node, &fields.name(key), Bounds::from(0), diagnostics)
}
