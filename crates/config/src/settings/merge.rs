//! Merges the layers: for each setting the nearest layer that sets it wins.

use domain::agent::Layer;

use super::effective::{Config, ConfigSetting};
use super::layer::ConfigLayer;
use super::limits::LimitSettings;
use super::read::{ConfigFile, read};

const DEFAULTS: &str = include_str!("defaults.toml");
/// The name of the compiled-in settings in place of a file.
const DEFAULTS_NAME: &str = "(built in)";

/// Returns the settings that are compiled in.
pub fn defaults() -> ConfigLayer {
    let file = ConfigFile { text: DEFAULTS, file: DEFAULTS_NAME, layer: Layer::Default, built_in: &[] };
    read(file).0
}

/// Returns the settings in force: the defaults with the layers applied, the nearest last. Of two files in the same
/// layer the later one wins.
pub fn merge(layers: Vec<(Layer, String, ConfigLayer)>) -> Config {
    let mut stack = vec![(Layer::Default, DEFAULTS_NAME.to_owned(), defaults())];
    stack.extend(layers);
    stack.sort_by_key(|(layer, _, _)| *layer);
    let mut merged = MergedLayers::default();
    for (layer, file, settings) in stack {
        merged.apply(Origin { layer, file: &file }, settings);
    }
    let set = "defaults.toml sets it, which a test checks";
    Config {
        backends: merged.backends,
        limits: merged.limits,
        slots_count: merged.slots_count,
        slots_queue: merged.slots_queue.expect(set),
        retention_output_ms: merged.retention_output_ms.expect(set),
        retention_record_ms: merged.retention_record_ms.expect(set),
        wait_ms: merged.wait_ms.expect(set),
        on_disconnect: merged.on_disconnect.expect(set),
        disconnect_grace_ms: merged.disconnect_grace_ms.expect(set),
        dialects: merged.dialects.expect(set),
        calls_per_minute: merged.calls_per_minute.expect(set),
        allowed_hosts: merged.allowed_hosts.expect(set),
        allowed_origins: merged.allowed_origins.expect(set),
        powerspawn_permission: merged.powerspawn_permission.expect(set),
        powerspawn_agents_context: merged.powerspawn_agents_context.expect(set),
        callers_may_widen: merged.callers_may_widen.expect(set),
        agents: merged.agents,
        defaults: merged.defaults,
        client_wait_ms: merged.client_wait_ms,
        inherit: merged.inherit,
        containment: merged.containment.expect(set),
        unattended: merged.unattended.expect(set),
        prices: merged.prices,
        tiers: merged.tiers,
    }
}

#[derive(Clone, Copy)]
struct Origin<'a> {
    layer: Layer,
    file: &'a str,
}

impl Origin<'_> {
    fn setting<T>(self, value: T) -> ConfigSetting<T> {
        ConfigSetting { value, layer: self.layer, file: self.file.to_owned() }
    }

    /// Sets the target if the layer has a value.
    fn put<T>(self, target: &mut Option<ConfigSetting<T>>, value: Option<T>) {
        if let Some(value) = value {
            *target = Some(self.setting(value));
        }
    }
}

/// The merged settings of the layers so far.
#[derive(Default)]
struct MergedLayers {
    backends: std::collections::BTreeMap<domain::id::BackendName, ConfigSetting<super::Backend>>,
    limits: LimitSettings,
    slots_count: Option<ConfigSetting<u32>>,
    slots_queue: Option<ConfigSetting<u32>>,
    retention_output_ms: Option<ConfigSetting<u64>>,
    retention_record_ms: Option<ConfigSetting<u64>>,
    wait_ms: Option<ConfigSetting<u64>>,
    on_disconnect: Option<ConfigSetting<super::DisconnectChoice>>,
    disconnect_grace_ms: Option<ConfigSetting<u64>>,
    dialects: Option<ConfigSetting<Vec<domain::dialect::DialectName>>>,
    calls_per_minute: Option<ConfigSetting<u32>>,
    allowed_hosts: Option<ConfigSetting<Vec<String>>>,
    allowed_origins: Option<ConfigSetting<Vec<String>>>,
    powerspawn_permission: Option<ConfigSetting<domain::permission::Level>>,
    powerspawn_agents_context: Option<ConfigSetting<bool>>,
    callers_may_widen: Option<ConfigSetting<bool>>,
    agents: std::collections::BTreeMap<domain::id::AgentName, Vec<ConfigSetting<domain::overlay::Overlay>>>,
    defaults:
        std::collections::BTreeMap<domain::id::BackendName, Vec<ConfigSetting<domain::overlay::Overlay>>>,
    client_wait_ms: std::collections::BTreeMap<String, ConfigSetting<u64>>,
    inherit: std::collections::BTreeMap<
        domain::dialect::DialectName,
        ConfigSetting<std::collections::BTreeSet<domain::inherit::Inherited>>,
    >,
    containment: Option<ConfigSetting<domain::run::ContainmentDemand>>,
    unattended: Option<ConfigSetting<domain::run::UnattendedChoice>>,
    prices: std::collections::BTreeMap<String, ConfigSetting<domain::price::Price>>,
    tiers: std::collections::BTreeMap<String, ConfigSetting<Vec<domain::run::agent_loop::TierTarget>>>,
}

impl MergedLayers {
    fn apply(&mut self, origin: Origin<'_>, settings: ConfigLayer) {
        // Destructured, so that a new section cannot be forgotten here.
        let ConfigLayer {
            backends,
            limits,
            slots,
            retention,
            serve,
            clients,
            dialects,
            run,
            agents,
            defaults,
            prices,
            tiers,
            has_errors: _,
        } = settings;
        self.backends.extend(backends.into_iter().map(|(name, backend)| (name, origin.setting(backend))));
        let merged = &mut self.limits;
        origin.put(&mut merged.timeout_ms, limits.timeout_ms);
        origin.put(&mut merged.idle_timeout_ms, limits.idle_timeout_ms);
        origin.put(&mut merged.grace_ms, limits.grace_ms);
        origin.put(&mut merged.answer_timeout_ms, limits.answer_timeout_ms);
        origin.put(&mut merged.memory_bytes, limits.memory_bytes);
        origin.put(&mut merged.cpu_ms, limits.cpu_ms);
        origin.put(&mut merged.processes, limits.processes);
        origin.put(&mut merged.open_files, limits.open_files);
        origin.put(&mut merged.file_bytes, limits.file_bytes);
        origin.put(&mut merged.output_bytes, limits.output_bytes);
        origin.put(&mut merged.depth, limits.depth);
        origin.put(&mut merged.children, limits.children);
        origin.put(&mut merged.tree_runs, limits.tree_runs);
        origin.put(&mut merged.steps, limits.steps);
        origin.put(&mut merged.tool_calls, limits.tool_calls);
        origin.put(&mut merged.tokens, limits.tokens);
        origin.put(&mut merged.answer_tokens, limits.answer_tokens);
        origin.put(&mut merged.cost_microusd, limits.cost_microusd);
        origin.put(&mut self.slots_count, slots.count);
        origin.put(&mut self.slots_queue, slots.queue);
        origin.put(&mut self.retention_output_ms, retention.output_ms);
        origin.put(&mut self.retention_record_ms, retention.record_ms);
        origin.put(&mut self.wait_ms, serve.wait_ms);
        origin.put(&mut self.on_disconnect, serve.on_disconnect);
        origin.put(&mut self.disconnect_grace_ms, serve.disconnect_grace_ms);
        origin.put(&mut self.dialects, serve.dialects);
        origin.put(&mut self.calls_per_minute, serve.calls_per_minute);
        origin.put(&mut self.allowed_hosts, serve.allowed_hosts);
        origin.put(&mut self.allowed_origins, serve.allowed_origins);
        // A nearer file may remove rights, never add them.
        let most = self.powerspawn_permission.as_ref().map(|most| most.value);
        let level = serve.powerspawn_permission.filter(|level| most.is_none_or(|most| *level <= most));
        origin.put(&mut self.powerspawn_permission, level);
        origin.put(&mut self.powerspawn_agents_context, serve.powerspawn_agents_context);
        origin.put(&mut self.callers_may_widen, serve.callers_may_widen);
        // Every layer applies: none can allow what another denies.
        for (name, overlay) in agents {
            self.agents.entry(name).or_default().push(origin.setting(overlay));
        }
        for (name, overlay) in defaults {
            self.defaults.entry(name).or_default().push(origin.setting(overlay));
        }
        for (name, client) in clients {
            if let Some(wait_ms) = client.wait_ms {
                self.client_wait_ms.insert(name, origin.setting(wait_ms));
            }
        }
        for (name, dialect) in dialects {
            let Some(inherit) = dialect.inherit else { continue };
            // A nearer file may remove rights, never add them.
            let most = self.inherit.get(&name).map_or_else(|| name.inherits(), |most| most.value.clone());
            self.inherit.insert(name, origin.setting(most.intersection(&inherit).copied().collect()));
        }
        origin.put(&mut self.containment, run.containment);
        origin.put(&mut self.unattended, run.unattended);
        self.prices.extend(prices.into_iter().map(|(model, price)| (model, origin.setting(price))));
        self.tiers.extend(tiers.into_iter().map(|(tier, targets)| (tier, origin.setting(targets))));
    }
}
