//! Lays layers over each other: for each setting the nearest layer that says something wins.

use domain::agent::Layer;

use super::effective::{Config, Setting};
use super::layer::ConfigLayer;
use super::limits::LimitSettings;
use super::read::{ConfigFile, read};

const DEFAULTS: &str = include_str!("defaults.toml");
/// How the compiled-in settings are named where a file is expected.
const DEFAULTS_NAME: &str = "(built in)";

/// Returns the settings that are compiled in.
pub fn defaults() -> ConfigLayer {
    let file = ConfigFile { text: DEFAULTS, file: DEFAULTS_NAME, layer: Layer::Default, built_in: &[] };
    read(file).0
}

/// Returns the settings in force: the defaults with the layers over them, the nearest on top. Of two files in
/// the same layer the later one wins.
pub fn merge(layers: Vec<(Layer, String, ConfigLayer)>) -> Config {
    let mut stack = vec![(Layer::Default, DEFAULTS_NAME.to_owned(), defaults())];
    stack.extend(layers);
    stack.sort_by_key(|(layer, _, _)| *layer);
    let mut sum = Sum::default();
    for (layer, file, settings) in stack {
        sum.lay(Origin { layer, file: &file }, settings);
    }
    let set = "defaults.toml sets it, which a test checks";
    Config {
        backends: sum.backends,
        limits: sum.limits,
        slots_count: sum.slots_count,
        slots_queue: sum.slots_queue.expect(set),
        retention_output_ms: sum.retention_output_ms.expect(set),
        retention_record_ms: sum.retention_record_ms.expect(set),
        wait_ms: sum.wait_ms.expect(set),
        on_disconnect: sum.on_disconnect.expect(set),
        disconnect_grace_ms: sum.disconnect_grace_ms.expect(set),
        dialects: sum.dialects.expect(set),
        calls_per_minute: sum.calls_per_minute.expect(set),
        allowed_hosts: sum.allowed_hosts.expect(set),
        allowed_origins: sum.allowed_origins.expect(set),
        powerspawn_permission: sum.powerspawn_permission.expect(set),
        powerspawn_agents_context: sum.powerspawn_agents_context.expect(set),
        callers_may_widen: sum.callers_may_widen.expect(set),
        agents: sum.agents,
        defaults: sum.defaults,
        client_wait_ms: sum.client_wait_ms,
        inherit: sum.inherit,
        containment: sum.containment.expect(set),
        unattended: sum.unattended.expect(set),
        prices: sum.prices,
    }
}

#[derive(Clone, Copy)]
struct Origin<'a> {
    layer: Layer,
    file: &'a str,
}

impl Origin<'_> {
    fn of<T>(self, value: T) -> Setting<T> {
        Setting { value, layer: self.layer, file: self.file.to_owned() }
    }

    /// Puts a value in place if the layer has one.
    fn put<T>(self, place: &mut Option<Setting<T>>, value: Option<T>) {
        if let Some(value) = value {
            *place = Some(self.of(value));
        }
    }
}

/// What the layers so far say.
#[derive(Default)]
struct Sum {
    backends: std::collections::BTreeMap<domain::id::BackendName, Setting<super::Backend>>,
    limits: LimitSettings,
    slots_count: Option<Setting<u32>>,
    slots_queue: Option<Setting<u32>>,
    retention_output_ms: Option<Setting<u64>>,
    retention_record_ms: Option<Setting<u64>>,
    wait_ms: Option<Setting<u64>>,
    on_disconnect: Option<Setting<super::DisconnectChoice>>,
    disconnect_grace_ms: Option<Setting<u64>>,
    dialects: Option<Setting<Vec<domain::dialect::DialectName>>>,
    calls_per_minute: Option<Setting<u32>>,
    allowed_hosts: Option<Setting<Vec<String>>>,
    allowed_origins: Option<Setting<Vec<String>>>,
    powerspawn_permission: Option<Setting<domain::permission::Level>>,
    powerspawn_agents_context: Option<Setting<bool>>,
    callers_may_widen: Option<Setting<bool>>,
    agents: std::collections::BTreeMap<domain::id::AgentName, Vec<Setting<domain::overlay::Overlay>>>,
    defaults: std::collections::BTreeMap<domain::id::BackendName, Vec<Setting<domain::overlay::Overlay>>>,
    client_wait_ms: std::collections::BTreeMap<String, Setting<u64>>,
    inherit: std::collections::BTreeMap<
        domain::dialect::DialectName,
        Setting<std::collections::BTreeSet<domain::inherit::Inherited>>,
    >,
    containment: Option<Setting<domain::run::ContainmentDemand>>,
    unattended: Option<Setting<domain::run::UnattendedChoice>>,
    prices: std::collections::BTreeMap<String, Setting<domain::price::Price>>,
}

impl Sum {
    fn lay(&mut self, origin: Origin<'_>, settings: ConfigLayer) {
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
            unsound: _,
        } = settings;
        self.backends.extend(backends.into_iter().map(|(name, backend)| (name, origin.of(backend))));
        let sum = &mut self.limits;
        origin.put(&mut sum.timeout_ms, limits.timeout_ms);
        origin.put(&mut sum.idle_timeout_ms, limits.idle_timeout_ms);
        origin.put(&mut sum.grace_ms, limits.grace_ms);
        origin.put(&mut sum.answer_timeout_ms, limits.answer_timeout_ms);
        origin.put(&mut sum.memory_bytes, limits.memory_bytes);
        origin.put(&mut sum.cpu_ms, limits.cpu_ms);
        origin.put(&mut sum.processes, limits.processes);
        origin.put(&mut sum.open_files, limits.open_files);
        origin.put(&mut sum.file_bytes, limits.file_bytes);
        origin.put(&mut sum.output_bytes, limits.output_bytes);
        origin.put(&mut sum.depth, limits.depth);
        origin.put(&mut sum.children, limits.children);
        origin.put(&mut sum.tree_runs, limits.tree_runs);
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
        // A nearer file may take rights away, never give them.
        let most = self.powerspawn_permission.as_ref().map(|most| most.value);
        let level = serve.powerspawn_permission.filter(|level| most.is_none_or(|most| *level <= most));
        origin.put(&mut self.powerspawn_permission, level);
        origin.put(&mut self.powerspawn_agents_context, serve.powerspawn_agents_context);
        origin.put(&mut self.callers_may_widen, serve.callers_may_widen);
        // Every layer counts: what one denies, no other allows.
        for (name, overlay) in agents {
            self.agents.entry(name).or_default().push(origin.of(overlay));
        }
        for (name, overlay) in defaults {
            self.defaults.entry(name).or_default().push(origin.of(overlay));
        }
        for (name, client) in clients {
            if let Some(wait_ms) = client.wait_ms {
                self.client_wait_ms.insert(name, origin.of(wait_ms));
            }
        }
        for (name, dialect) in dialects {
            let Some(inherit) = dialect.inherit else { continue };
            // A nearer file may take rights away, never give them.
            let most = self.inherit.get(&name).map_or_else(|| name.inherits(), |most| most.value.clone());
            self.inherit.insert(name, origin.of(most.intersection(&inherit).copied().collect()));
        }
        origin.put(&mut self.containment, run.containment);
        origin.put(&mut self.unattended, run.unattended);
        self.prices.extend(prices.into_iter().map(|(model, price)| (model, origin.of(price))));
    }
}
