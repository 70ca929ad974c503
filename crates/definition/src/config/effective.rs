//! The settings in force, each with the layer and file that it comes from.

use std::collections::{BTreeMap, BTreeSet};

use domain::agent::Layer;
use domain::dialect::DialectName;
use domain::id::{AgentName, BackendName};
use domain::inherit::Inherited;
use domain::overlay::Overlay;
use domain::permission::Level;
use domain::price::Price;
use domain::run::{ContainmentDemand, OnDisconnect, UnattendedChoice};
use serde_json::{Value, json};

use super::{Backend, DisconnectChoice, LimitSettings, written};

/// A value and where it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub layer: Layer,
    pub file: String,
}

/// Everything that can be configured.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub backends: BTreeMap<BackendName, Setting<Backend>>,
    pub limits: LimitSettings,
    /// `None`: as many as the machine's memory allows.
    pub slots_count: Option<Setting<u32>>,
    pub slots_queue: Setting<u32>,
    pub retention_output_ms: Setting<u64>,
    pub retention_record_ms: Setting<u64>,
    /// How long a synchronous call waits when the client is unknown.
    pub wait_ms: Setting<u64>,
    pub on_disconnect: Setting<DisconnectChoice>,
    pub disconnect_grace_ms: Setting<u64>,
    /// Which systems' tools a server offers.
    pub dialects: Setting<Vec<DialectName>>,
    /// How many calls one caller may make a minute.
    pub calls_per_minute: Setting<u32>,
    pub allowed_hosts: Setting<Vec<String>>,
    pub allowed_origins: Setting<Vec<String>>,
    /// The most that the programs of the dialect powerspawn may do.
    pub powerspawn_permission: Setting<Level>,
    /// Whether `AGENTS.md` is put before the tasks of that dialect.
    pub powerspawn_agents_context: Setting<bool>,
    /// Whether callers over MCP may allow an agent more than its own permission does.
    pub callers_may_widen: Setting<bool>,
    /// What holds for the agent of a name, by layer, the farthest first.
    pub agents: BTreeMap<AgentName, Vec<Setting<Overlay>>>,
    /// What holds for agents of a backend whose files do not say it, by layer, the farthest first.
    pub defaults: BTreeMap<BackendName, Vec<Setting<Overlay>>>,
    /// How long a synchronous call of a client with this name waits.
    pub client_wait_ms: BTreeMap<String, Setting<u64>>,
    /// What the agents of a dialect get from their user, where a file narrows what the dialect's system gives them.
    pub inherit: BTreeMap<DialectName, Setting<BTreeSet<Inherited>>>,
    pub containment: Setting<ContainmentDemand>,
    /// What happens to questions where no person can answer them.
    pub unattended: Setting<UnattendedChoice>,
    /// What its user pays for models, by their names.
    pub prices: BTreeMap<String, Setting<Price>>,
}

/// One setting for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub key: String,
    /// As a configuration file has it.
    pub value: Value,
    pub layer: Layer,
    pub file: String,
}

impl Config {
    /// Returns what happens to a run whose door leaves, if neither call nor agent says it.
    pub fn on_disconnect(&self) -> OnDisconnect {
        match self.on_disconnect.value {
            DisconnectChoice::Cancel => OnDisconnect::Cancel { grace_ms: self.disconnect_grace_ms.value },
            DisconnectChoice::Continue => OnDisconnect::Continue,
        }
    }

    /// Returns what the agents of a dialect get from their user.
    pub fn inherit(&self, dialect: DialectName) -> BTreeSet<Inherited> {
        match self.inherit.get(&dialect) {
            Some(narrowed) => narrowed.value.clone(),
            None => dialect.inherits(),
        }
    }

    /// Returns every setting with its origin, in the order of the sections.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, backend) in &self.backends {
            let settings = match &backend.value {
                Backend::Program(program) => vec![("command", json!(program.command))],
                Backend::Provider(service) => service.settings(),
            };
            let row = |(key, value)| Row::new(format!("backends.{name}.{key}"), backend, value);
            rows.extend(settings.into_iter().map(row));
        }
        self.limits.add_rows(&mut rows);
        rows.extend(self.slots_count.iter().map(|count| row("slots.count", count, |count| json!(count))));
        rows.push(row("slots.queue", &self.slots_queue, |count| json!(count)));
        rows.push(row("retention.output", &self.retention_output_ms, time));
        rows.push(row("retention.record", &self.retention_record_ms, time));
        self.add_serve_rows(&mut rows);
        let sections = |word: &str, name: &str, overlays: &[Setting<Overlay>]| {
            let section = |overlay: &Setting<Overlay>| {
                let row = |(key, value)| Row::new(format!("{word}.{name}.{key}"), overlay, value);
                written::section(&overlay.value).into_iter().map(row).collect::<Vec<Row>>()
            };
            overlays.iter().flat_map(section).collect::<Vec<Row>>()
        };
        for (name, overlays) in &self.agents {
            rows.extend(sections("agents", name.as_str(), overlays));
        }
        for (name, overlays) in &self.defaults {
            rows.extend(sections("defaults", name.as_str(), overlays));
        }
        for (name, wait) in &self.client_wait_ms {
            rows.push(row(format!("clients.{name}.wait"), wait, time));
        }
        for (dialect, inherit) in &self.inherit {
            rows.push(row(format!("dialects.{}.inherit", dialect.as_str()), inherit, |inherit| {
                inherit.iter().map(|item| item.as_str()).collect()
            }));
        }
        rows.push(row("run.containment", &self.containment, |demand| json!(containment_word(*demand))));
        rows.push(row("run.unattended", &self.unattended, |choice| {
            json!(match choice {
                UnattendedChoice::Deny => "deny",
                UnattendedChoice::Wait => "wait",
            })
        }));
        for (model, price) in &self.prices {
            rows.push(row(format!("prices.{model}"), price, written::price));
        }
        rows
    }

    fn add_serve_rows(&self, rows: &mut Vec<Row>) {
        rows.push(row("serve.wait", &self.wait_ms, time));
        rows.push(row("serve.on_disconnect", &self.on_disconnect, |choice| {
            json!(match choice {
                DisconnectChoice::Cancel => "cancel",
                DisconnectChoice::Continue => "continue",
            })
        }));
        rows.push(row("serve.disconnect_grace", &self.disconnect_grace_ms, time));
        rows.push(row("serve.dialects", &self.dialects, |dialects| {
            dialects.iter().map(|dialect| dialect.as_str()).collect()
        }));
        rows.push(row("serve.calls_per_minute", &self.calls_per_minute, |count| json!(count)));
        rows.push(row("serve.allowed_hosts", &self.allowed_hosts, |hosts| json!(hosts)));
        rows.push(row("serve.allowed_origins", &self.allowed_origins, |origins| json!(origins)));
        rows.push(row("serve.powerspawn_permission", &self.powerspawn_permission, |level| {
            json!(level.as_str())
        }));
        let truth = |value: &bool| json!(value);
        rows.push(row("serve.powerspawn_agents_context", &self.powerspawn_agents_context, truth));
        rows.push(row("serve.callers_may_widen", &self.callers_may_widen, truth));
    }

    /// Returns what its user pays for models.
    pub fn prices(&self) -> BTreeMap<String, Price> {
        self.prices.iter().map(|(model, setting)| (model.clone(), setting.value)).collect()
    }
}

pub(super) fn containment_word(demand: ContainmentDemand) -> &'static str {
    match demand {
        ContainmentDemand::Auto => "auto",
        ContainmentDemand::Strict => "strict",
        ContainmentDemand::Plain => "plain",
    }
}

impl Row {
    pub(super) fn new<T>(key: impl Into<String>, setting: &Setting<T>, value: Value) -> Self {
        Self { key: key.into(), value, layer: setting.layer, file: setting.file.clone() }
    }
}

pub(super) fn row<T>(key: impl Into<String>, setting: &Setting<T>, show: impl Fn(&T) -> Value) -> Row {
    Row::new(key, setting, show(&setting.value))
}

pub(super) fn time(ms: &u64) -> Value {
    written::duration(*ms)
}
