//! One configuration file: TOML text to a layer. A setting that is wrong is reported and left out, and the rest
//! counts; a file that is no TOML counts for nothing.

use std::collections::BTreeMap;

use domain::agent::Layer;
use domain::diagnostic::Diagnostic;
use domain::dialect::DialectName;
use domain::id::{BackendName, IdError};
use domain::run::UnattendedChoice;

use super::layer::{Client, ConfigLayer, DisconnectChoice, Retention, Run, Serve, Slots};
use super::{Backend, backend, dialects, overlay, prices};
use crate::agent::{CONTAINMENT, LEVELS};
use crate::text::{
    Bounds, Entry, Fields, Findings, Node, Place, Shape, amount, choice, duration_ms, flag, list, quoted,
    read_toml, text_or_list,
};
use crate::{FILE_BYTES_MAX, limits};

/// No machine has this many slots, no queue this many places.
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

/// Reads a layer: the settings that are right, and all that is wrong.
pub fn read(config_file: ConfigFile<'_>) -> (ConfigLayer, Vec<Diagnostic>) {
    let ConfigFile { text, file, layer, built_in } = config_file;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut findings = Findings::new(file, text);
    if text.len() > FILE_BYTES_MAX {
        findings.error(Place::START, format!("the file has more than {FILE_BYTES_MAX} bytes"));
        return (unsound(), findings.finish());
    }
    let document = read_toml(text, &mut findings);
    let settings = document.map(|document| read_document(&document, layer, built_in, &mut findings));
    (settings.unwrap_or_else(unsound), findings.finish())
}

fn read_document(
    document: &Node,
    layer: Layer,
    built_in: &[&str],
    findings: &mut Findings<'_>,
) -> ConfigLayer {
    let Some(mut fields) = Fields::open(document, "", findings) else { return unsound() };
    let backends = fields.take("backends").map(|node| read_backends(node, built_in, findings));
    let errors_in_backends = findings.errors();
    let limits = fields.take("limits").map(|node| limits::read(node, "limits", findings));
    let slots = take_for_machine(&mut fields, "slots", layer, findings);
    let slots = slots.and_then(|node| read_slots(node, findings));
    let retention = take_for_machine(&mut fields, "retention", layer, findings);
    let retention = retention.and_then(|node| read_retention(node, findings));
    // Which tools a server offers, to whom, and how often: a dialect may hand over the whole environment.
    let serve = take_for_machine(&mut fields, "serve", layer, findings);
    let serve = serve.and_then(|node| read_serve(node, findings));
    let clients = fields.take("clients").map(|node| read_clients(node, findings));
    let dialects = fields.take("dialects").map(|node| dialects::read(node, findings));
    let run = fields.take("run").and_then(|node| read_run(node, layer, findings));
    let agents = fields.take("agents").map(|node| overlay::read_agents(node, findings));
    let defaults = fields.take("defaults").map(|node| overlay::read_defaults(node, findings));
    let prices = take_for_machine(&mut fields, "prices", layer, findings);
    let prices = prices.map(|node| prices::read(node, findings));
    fields.close(findings);
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
        unsound: findings.errors() > errors_in_backends,
    }
}

/// What a file says that cannot be read: nothing, and that is known.
fn unsound() -> ConfigLayer {
    ConfigLayer { unsound: true, ..ConfigLayer::default() }
}

/// Takes a section about the whole machine: a repository must not shorten what others keep, take their slots, or change what
/// their servers offer.
fn take_for_machine<'a>(
    fields: &mut Fields<'a>,
    key: &'static str,
    layer: Layer,
    findings: &mut Findings<'_>,
) -> Option<&'a Node> {
    let node = fields.take(key)?;
    if layer != Layer::Project {
        return Some(node);
    }
    let message = format!("{key} concerns the whole machine and is ignored in a project's file");
    findings.warning_with_hint(node.place, message, "put it into your own configuration");
    None
}

fn read_backends(
    node: &Node,
    built_in: &[&str],
    findings: &mut Findings<'_>,
) -> BTreeMap<BackendName, Backend> {
    let mut backends = BTreeMap::new();
    for entry in sections(node, "backends", findings) {
        let name: Result<BackendName, IdError> = entry.key.parse();
        if built_in.contains(&entry.key.as_str()) {
            let message = format!("the backend {} is built in and cannot be redefined", entry.key);
            findings.error_with_hint(entry.place, message, "choose another name");
            continue;
        }
        if let Err(IdError { rule, .. }) = &name {
            let message = format!("{} is not the name of a backend", quoted(&entry.key));
            findings.error_with_hint(entry.place, message, *rule);
        }
        let within = format!("backends.{}", domain::size::head(&entry.key, 64));
        let errors_before = findings.errors();
        let backend = backend::read(&entry.node, &within, findings);
        // A command with any error is left out as a whole: half of it would be another command.
        let right = findings.errors() == errors_before;
        if let (Ok(name), Some(backend), true) = (name, backend, right) {
            backends.insert(name, backend);
        }
    }
    backends
}

/// Returns the entries of a map whose keys are names that somebody chose.
pub(super) fn sections<'a>(node: &'a Node, name: &str, findings: &mut Findings<'_>) -> &'a [Entry] {
    match &node.shape {
        Shape::Map(entries) => entries,
        Shape::Nothing
        | Shape::Truth(_)
        | Shape::Integer(_)
        | Shape::Number(_)
        | Shape::Text(_)
        | Shape::Moment
        | Shape::List(_) => {
            let message = format!("{name}: expected sections, found {}", node.describe());
            findings.error_with_hint(node.place, message, format!("write [{name}.NAME]"));
            &[]
        }
    }
}

fn read_slots(node: &Node, findings: &mut Findings<'_>) -> Option<Slots> {
    let mut fields = Fields::open(node, "slots", findings)?;
    let mut number = |key, min| {
        let node = fields.take(key)?;
        let number = amount(node, &fields.name(key), Bounds::from(min).up_to(SLOTS_MAX), findings)?;
        u32::try_from(number).ok()
    };
    let slots = Slots { count: number("count", 1), queue: number("queue", 0) };
    fields.close(findings);
    Some(slots)
}

fn read_retention(node: &Node, findings: &mut Findings<'_>) -> Option<Retention> {
    let mut fields = Fields::open(node, "retention", findings)?;
    let mut time = |key| take_time(&mut fields, key, findings);
    let retention = Retention { output_ms: time("output"), record_ms: time("record") };
    fields.close(findings);
    Some(retention)
}

fn read_serve(node: &Node, findings: &mut Findings<'_>) -> Option<Serve> {
    let mut fields = Fields::open(node, "serve", findings)?;
    let wait_ms = take_time(&mut fields, "wait", findings);
    let choices = [("cancel", DisconnectChoice::Cancel), ("continue", DisconnectChoice::Continue)];
    let on_disconnect =
        fields.take("on_disconnect").and_then(|node| choice(node, "serve.on_disconnect", &choices, findings));
    let disconnect_grace_ms = take_time(&mut fields, "disconnect_grace", findings);
    let dialects = fields.take("dialects").and_then(|node| {
        let words = DialectName::ALL.map(|dialect| (dialect.as_str(), dialect));
        let nodes = list(node, "serve.dialects", findings)?;
        nodes.iter().map(|node| choice(node, "serve.dialects", &words, findings)).collect()
    });
    let calls_per_minute = fields.take("calls_per_minute").and_then(|node| {
        let number = amount(node, "serve.calls_per_minute", Bounds::from(1).up_to(CALLS_MAX), findings)?;
        u32::try_from(number).ok()
    });
    let mut names = |key| {
        let node = fields.take(key)?;
        Some(text_or_list(node, &fields.name(key), findings))
    };
    let (allowed_hosts, allowed_origins) = (names("allowed_hosts"), names("allowed_origins"));
    let widen = fields.take("callers_may_widen");
    let callers_may_widen = widen.and_then(|node| flag(node, "serve.callers_may_widen", findings));
    let levels = fields.take("powerspawn_permission");
    let powerspawn_permission =
        levels.and_then(|node| choice(node, "serve.powerspawn_permission", &LEVELS, findings));
    let powerspawn_agents_context = fields
        .take("powerspawn_agents_context")
        .and_then(|node| flag(node, "serve.powerspawn_agents_context", findings));
    fields.close(findings);
    Some(Serve {
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

fn read_clients(node: &Node, findings: &mut Findings<'_>) -> BTreeMap<String, Client> {
    let mut clients = BTreeMap::new();
    for entry in sections(node, "clients", findings) {
        let within = format!("clients.{}", domain::size::head(&entry.key, 64));
        let Some(mut fields) = Fields::open(&entry.node, &within, findings) else { continue };
        let client = Client { wait_ms: take_time(&mut fields, "wait", findings) };
        fields.close(findings);
        clients.insert(entry.key.clone(), client);
    }
    clients
}

fn read_run(node: &Node, layer: Layer, findings: &mut Findings<'_>) -> Option<Run> {
    let mut fields = Fields::open(node, "run", findings)?;
    let containment =
        fields.take("containment").and_then(|node| choice(node, "run.containment", &CONTAINMENT, findings));
    let choices = [("deny", UnattendedChoice::Deny), ("wait", UnattendedChoice::Wait)];
    let unattended = take_for_machine(&mut fields, "unattended", layer, findings);
    let unattended = unattended.and_then(|node| choice(node, "run.unattended", &choices, findings));
    fields.close(findings);
    Some(Run { containment, unattended })
}

fn take_time(fields: &mut Fields<'_>, key: &'static str, findings: &mut Findings<'_>) -> Option<u64> {
    let node = fields.take(key)?;
    duration_ms(node, &fields.name(key), Bounds::from(0), findings)
}
