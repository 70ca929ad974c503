//! The settings in force, each with its layer and file.

use std::collections::{BTreeMap, BTreeSet};

use domain::agent::Layer;
use domain::dialect::DialectName;
use domain::id::{AgentName, BackendName};
use domain::inherit::Inherited;
use domain::overlay::Overlay;
use domain::permission::Level;
use domain::price::Price;
use domain::run::agent_loop::TierTarget;
use domain::run::{ContainmentDemand, OnDisconnect, UnattendedChoice};
use serde_json::{Value, json};

use super::{Backend, DisconnectChoice, LimitSettings, toml_spelling};

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSetting<T> {
    pub value: T,
    pub layer: Layer,
    pub file: String,
}

/// Everything that can be configured.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub backends: BTreeMap<BackendName, ConfigSetting<Backend>>,
    pub limits: LimitSettings,
    /// `None`: as many as the machine's memory allows.
    pub slots_count: Option<ConfigSetting<u32>>,
    pub slots_queue: ConfigSetting<u32>,
    pub retention_output_ms: ConfigSetting<u64>,
    pub retention_record_ms: ConfigSetting<u64>,
    /// How long a synchronous call waits when the client is unknown.
    pub wait_ms: ConfigSetting<u64>,
    pub on_disconnect: ConfigSetting<DisconnectChoice>,
    pub disconnect_grace_ms: ConfigSetting<u64>,
    /// Which systems' tools a server offers.
    pub dialects: ConfigSetting<Vec<DialectName>>,
    /// How many calls one caller may make a minute.
    pub calls_per_minute: ConfigSetting<u32>,
    pub allowed_hosts: ConfigSetting<Vec<String>>,
    pub allowed_origins: ConfigSetting<Vec<String>>,
    /// The highest level for programs of the dialect powerspawn.
    pub powerspawn_permission: ConfigSetting<Level>,
    /// Whether `AGENTS.md` is put before the tasks of that dialect.
    pub powerspawn_agents_context: ConfigSetting<bool>,
    /// Whether callers over MCP may allow an agent more than its own permission does.
    pub callers_may_widen: ConfigSetting<bool>,
    /// Overrides for an agent by name, by layer, the farthest first.
    pub agents: BTreeMap<AgentName, Vec<ConfigSetting<Overlay>>>,
    /// Defaults for agents of a backend, by layer, the farthest first.
    pub defaults: BTreeMap<BackendName, Vec<ConfigSetting<Overlay>>>,
    /// How long a synchronous call of a client with this name waits.
    pub client_wait_ms: BTreeMap<String, ConfigSetting<u64>>,
    /// The items that agents of a dialect inherit from their user, if a file narrows those of the dialect's system.
    pub inherit: BTreeMap<DialectName, ConfigSetting<BTreeSet<Inherited>>>,
    pub containment: ConfigSetting<ContainmentDemand>,
    /// The treatment of questions that no person can answer.
    pub unattended: ConfigSetting<UnattendedChoice>,
    /// The user's own prices by model name.
    pub prices: BTreeMap<String, ConfigSetting<Price>>,
    /// The targets of each tier, the first choice first; never empty.
    pub tiers: BTreeMap<String, ConfigSetting<Vec<TierTarget>>>,
}

/// One setting for display.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingRow {
    pub key: String,
    /// In the syntax of a configuration file.
    pub value: Value,
    pub layer: Layer,
    pub file: String,
}

impl Config {
    /// Returns the action after a client disconnects, if neither call nor agent sets one.
    pub fn on_disconnect(&self) -> OnDisconnect {
        match self.on_disconnect.value {
            DisconnectChoice::Cancel => OnDisconnect::Cancel { grace_ms: self.disconnect_grace_ms.value },
            DisconnectChoice::Continue => OnDisconnect::Continue,
        }
    }

    /// Returns the items that agents of a dialect inherit from their user.
    pub fn inherit(&self, dialect: DialectName) -> BTreeSet<Inherited> {
        match self.inherit.get(&dialect) {
            Some(narrowed) => narrowed.value.clone(),
            None => dialect.inherits(),
        }
    }

    /// Returns every setting with its origin, in the order of the sections.
    pub fn rows(&self) -> Vec<SettingRow> {
        let mut rows = Vec::new();
        for (name, backend) in &self.backends {
            let settings = match &backend.value {
                Backend::Command(program) => vec![("command", json!(program.command))],
                Backend::Provider(service) => service.settings(),
            };
            let row = |(key, value)| SettingRow::new(format!("backends.{name}.{key}"), backend, value);
            rows.extend(settings.into_iter().map(row));
        }
        self.limits.add_rows(&mut rows);
        rows.extend(self.slots_count.iter().map(|count| row("slots.count", count, |count| json!(count))));
        rows.push(row("slots.queue", &self.slots_queue, |count| json!(count)));
        rows.push(row("retention.output", &self.retention_output_ms, duration_value));
        rows.push(row("retention.record", &self.retention_record_ms, duration_value));
        self.add_serve_rows(&mut rows);
        let sections = |word: &str, name: &str, overlays: &[ConfigSetting<Overlay>]| {
            let section = |overlay: &ConfigSetting<Overlay>| {
                let row = |(key, value)| SettingRow::new(format!("{word}.{name}.{key}"), overlay, value);
                toml_spelling::spell_section(&overlay.value).into_iter().map(row).collect::<Vec<SettingRow>>()
            };
            overlays.iter().flat_map(section).collect::<Vec<SettingRow>>()
        };
        for (name, overlays) in &self.agents {
            rows.extend(sections("agents", name.as_str(), overlays));
        }
        for (name, overlays) in &self.defaults {
            rows.extend(sections("defaults", name.as_str(), overlays));
        }
        for (name, wait) in &self.client_wait_ms {
            rows.push(row(format!("clients.{name}.wait"), wait, duration_value));
        }
        for (dialect, inherit) in &self.inherit {
            rows.push(row(format!("dialects.{}.inherit", dialect.as_str()), inherit, |inherit| {
                inherit.iter().map(|item| item.as_str()).collect()
            }));
        }
        rows.push(row("run.containment", &self.containment, |demand| json!(containment_name(*demand))));
        rows.push(row("run.unattended", &self.unattended, |choice| {
            json!(match choice {
                UnattendedChoice::Deny => "deny",
                UnattendedChoice::Wait => "wait",
            })
        }));
        for (model, price) in &self.prices {
            rows.push(row(format!("prices.{model}"), price, toml_spelling::spell_price));
        }
        for (tier, targets) in &self.tiers {
            rows.push(row(format!("tiers.{tier}"), targets, |targets| toml_spelling::spell_targets(targets)));
        }
        rows
    }

    fn add_serve_rows(&self, rows: &mut Vec<SettingRow>) {
        rows.push(row("serve.wait", &self.wait_ms, duration_value));
        rows.push(row("serve.on_disconnect", &self.on_disconnect, |choice| {
            json!(match choice {
                DisconnectChoice::Cancel => "cancel",
                DisconnectChoice::Continue => "continue",
            })
        }));
        rows.push(row("serve.disconnect_grace", &self.disconnect_grace_ms, duration_value));
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

    /// Returns the user's own prices for models.
    pub fn prices(&self) -> BTreeMap<String, Price> {
        self.prices.iter().map(|(model, setting)| (model.clone(), setting.value)).collect()
    }

    /// Returns the targets of each tier, the first choice first.
    pub fn tiers(&self) -> BTreeMap<String, Vec<TierTarget>> {
        self.tiers.iter().map(|(tier, setting)| (tier.clone(), setting.value.clone())).collect()
    }
}

pub(super) fn containment_name(demand: ContainmentDemand) -> &'static str {
    match demand {
        ContainmentDemand::Auto => "auto",
        ContainmentDemand::Strict => "strict",
        ContainmentDemand::Plain => "plain",
    }
}

impl SettingRow {
    pub(super) fn new<T>(key: impl Into<String>, setting: &ConfigSetting<T>, value: Value) -> Self {
        Self { key: key.into(), value, layer: setting.layer, file: setting.file.clone() }
    }
}

pub(super) fn row<T>(
    key: impl Into<String>,
    setting: &ConfigSetting<T>,
    show: impl Fn(&T) -> Value,
) -> SettingRow {
    SettingRow::new(key, setting, show(&setting.value))
}

pub(super) fn duration_value(ms: &u64) -> Value {
    toml_spelling::spell_duration(*ms)
}
